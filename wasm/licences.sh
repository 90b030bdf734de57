#!/bin/sh
# Prints the licences of what the folder of `make wasm` contains: wasm/licences.sh SOURCES, which has the sources of jansson.
# Headers have theirs in their first comment.
set -eu
sources=$1 emscripten=$(em-config EMSCRIPTEN_ROOT)
first_comment() { sed '/\*\//q' "$1"; }
# Debian has the terms of Emscripten as two paragraphs of a longer file.
of_emscripten() {
    if [ -e "$emscripten/LICENSE" ]; then cat "$emscripten/LICENSE"; return; fi
    terms=/usr/share/doc/emscripten/copyright
    awk 'BEGIN {RS = ""; ORS = "\n\n"} /^Files:[ \n]*\*\n/ || /^License: Expat\n/ {print; n++} END {exit n != 2}' "$terms" && return
    echo "$0: neither $emscripten/LICENSE nor $terms has the licence of Emscripten" >&2
    exit 1
}
part() {
    printf '\n---- %s ----\n\n' "$1"
    shift
    "$@"
}
echo "The programs longline.wasm and longline-threads.wasm are longline with the libraries below."
part longline cat LICENSE
part jansson cat "$sources/jansson/LICENSE"
part xxHash first_comment /usr/include/xxhash.h
part Random123 first_comment /usr/include/Random123/philox.h
part Emscripten of_emscripten
part "musl, Emscripten's C library" cat "$emscripten/system/lib/libc/musl/COPYRIGHT"
