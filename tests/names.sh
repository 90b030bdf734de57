#!/bin/sh
# What pages and comments name as code exists: targets of make, commands of the program, keys of recipes, files. Code stands
# between backticks, and in pages also in blocks. Prints what does not exist: tests/names.sh BUILD FILE...
set -u
build=$1
shift
{
    sed -n 's/^\([a-z][a-z0-9 -]*\):\([^=].*\)\{0,1\}$/\1/p' Makefile rules.mk sources.mk wasm/wasm.mk | tr ' ' '\n' | sed 's/^/target /'
    "$build/longline" help | sed -n 's/^  \([a-z]*\)  .*/command \1/p'
    "$build/longline" recipe | awk '/^\[/ {section = substr($1, 2, length($1) - 2)} /^[a-z0-9-]+ = / {print "key", section "." $1}'
} | awk '
    FILENAME == "-" {known[$1, $2]; next}
    function check(kind, text, pattern) { # the last word of each match
        while (match(text, pattern)) {
            n = split(substr(text, RSTART, RLENGTH), word, " ")
            name = word[n]
            sub(/ *=$/, "", name)
            if (!((kind, name) in known) && !seen[FILENAME, kind, name]++) print FILENAME ": there is no " kind " " name
            text = substr(text, RSTART + RLENGTH)
        }
    }
    function check_file(text, name) {
        while (match(text, "(^|[ (])(src|lab|cli|tests|include|docs|recipes|bench|examples|python|packaging)/[a-z0-9_./-]+")) {
            name = substr(text, RSTART, RLENGTH)
            text = substr(text, RSTART + RLENGTH)
            sub(/^[ (]/, "", name)
            if (text ~ /^[A-Z]/ || seen[FILENAME, name]++) continue
            if (system("test -e " name)) print FILENAME ": there is no file " name
        }
    }
    function check_script(text) { # a line that begins with the name of a script, maybe after settings
        if (!match(text, "^([A-Z_]+=[^ ]* )*(\\./)?(recipes|bench|tests|packaging)/[a-z0-9_./-]+[.](sh|py)")) return
        text = substr(text, RSTART, RLENGTH)
        sub(/.* /, "", text)
        if (!system("test -e " text) && system("test -x " text)) print FILENAME ": " text " is not executable"
    }
    function code(text) {
        gsub(/data make/, "", text)
        check("target", text, "(^|[ (])make( -[^ ]+| [A-Z]+=[^ ]*)* [a-z][a-z0-9-]*")
        check("command", text, "(^|[ (/])longline [a-z]+")
        if (text !~ /[*<]/ && FILENAME !~ /CHANGELOG/) check_file(text) # which names what is gone, too
        check("key", text, "--set [a-z]+\\.[a-z0-9-]+")
        if (match(text, "^(model|attention|position|train|data|dist)\\.[a-z][a-z0-9-]* = ")) {
            sub(/ = .*/, "", text)
            check("key", text, ".+")
        }
    }
    FNR == 1 {block = 0; page = FILENAME ~ /\.md$/}
    page && /^ *```/ {block = !block; next}
    page && (block || /^    [^ ]/) {code($0); check_script($0); next}
    /`/ {n_part = split($0, part, "`"); for (i = 2; i <= n_part; i += 2) code(part[i])}
' - "$@"
