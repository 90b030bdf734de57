#!/bin/sh
# Circles between the files of a room: tests/circles.sh BUILD. Prints circles of calls, found by the symbols of objects,
# and circles of includes between headers. tests/circles.txt lists exceptions.
set -eu
build=$1
export LC_ALL=C
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

tests/symbols.sh "$build" >"$work/symbols"

# The room of a file: src/NAME, lab/NAME, or cli.
awk 'function room(file,  part) {
         split(file, part, "/")
         return part[1] == "cli" ? "cli" : part[1] "/" part[2]
     }
     $1 == "defines" {where[$3] = $2}
     $1 == "uses" && $3 in where && where[$3] != $2 && room($2) == room(where[$3]) {print room($2), $2, where[$3]}' \
    "$work/symbols" | sort -u >"$work/calls"

# Headers are included by their path from include, src, lab or cli.
find include src lab cli -name '*.h' | sort >"$work/headers"
# shellcheck disable=SC2046
awk 'NR == FNR {there[$1]; next}
     /^#include "/ {
         split($0, part, "\"")
         for (i = split("include src lab cli", folder, " "); i > 0; i--)
             if ((folder[i] "/" part[2]) in there) print "includes", FILENAME, folder[i] "/" part[2]
     }' "$work/headers" $(cat "$work/headers") >"$work/includes"

# Lines of circles.txt: FROM TO reason, or ROOM * reason.
sed '/^#/d; /^$/d' tests/circles.txt | awk '{print $1, $2}' >"$work/let"
awk 'NR == FNR {let[$1 " " $2]; next} !(($1 " *") in let) && !(($2 " " $3) in let)' \
    "$work/let" "$work/calls" "$work/includes" >"$work/edges"
for room in $(cut -d' ' -f1 "$work/edges" | sort -u); do
    awk -v room="$room" '$1 == room {print $2, $3}' "$work/edges" | tsort 2>&1 >/dev/null |
        sed "s|^tsort: -: input contains a loop:|a circle in $room:|; s|^tsort: |    |"
done

# An exception must still be needed: the call, or a circle in the room.
while read -r from to; do
    if [ "$to" = '*' ]; then
        awk -v room="$from" '$1 == room {print $2, $3}' "$work/calls" | tsort >/dev/null 2>&1 || continue
    elif grep -q " $from $to\$" "$work/calls"; then
        continue
    fi
    echo "tests/circles.txt: no longer needed: $from $to"
done <"$work/let"
