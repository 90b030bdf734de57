#!/bin/sh
# Images of Pathfinder with paths of several lengths, in one file: a model that has learned short paths keeps seeing some.
# With data.valid-fraction images of the last kind are held out.
#
#     OUT=folder PROGRAM=build/longline recipes/queue/paths.sh 3 6-0 14     $COUNT each of pathfinder-3, -6-0 and -14
#
# Another SEED, a number, gives other images of the same kinds.
set -eu
: "${COUNT:=40000}" "${SEED:=4}"
mkdir -p "$OUT"
images=$OUT/images-idx3-ubyte
labels=$OUT/labels-idx1-ubyte
number=$((COUNT * $#))
big_endian() { # NUMBER: printf's escapes of its four bytes
    printf '\\%03o\\%03o\\%03o\\%03o' $(($1 >> 24 & 255)) $(($1 >> 16 & 255)) $(($1 >> 8 & 255)) $(($1 & 255))
}
# shellcheck disable=SC2059 # a format of escapes
{
    printf "\\0\\0\\010\\003$(big_endian $number)$(big_endian 32)$(big_endian 32)" >"$images"
    printf "\\0\\0\\010\\001$(big_endian $number)" >"$labels"
}
for kind in "$@"; do
    seed=$SEED$(echo "$kind" | tr -d -)
    "$PROGRAM" data make "pathfinder-$kind" --count "$COUNT" --seed "$seed" --out "$OUT/one" --threads 1 >&2
    tail -c +17 "$OUT/one/images-idx3-ubyte" >>"$images"
    tail -c +9 "$OUT/one/labels-idx1-ubyte" >>"$labels"
    rm -r "$OUT/one"
done
