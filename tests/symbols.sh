#!/bin/sh
# The symbols of the objects whose source exists: tests/symbols.sh BUILD. Prints "defines FILE SYMBOL", of global ones, and
# "uses FILE SYMBOL"; FILE is the source without its ending.
set -eu
build=$1
export LC_ALL=C
find src lab cli -name '*.c' -o -name '*.S' -o -name '*.cc' | sed "s|^|$build/|; s|\.[a-zA-Z]*\$|.o|" | while read -r object; do
    [ ! -f "$object" ] || echo "$object"
done | xargs "${NM:-nm}" -A | awk -v skip=$((${#build} + 2)) '
    {
        file = substr($1, skip)
        sub(/\.o:.*/, "", file)
    }
    $2 == "U" {print "uses", file, $3}
    $2 ~ /^[ABDGRSTVW]$/ {print "defines", file, $3}' | sort
