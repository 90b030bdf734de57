#!/bin/sh
# Bits a byte that programs for compression need for the test text of WikiText-2, as CSV: alone, and behind the training text, which
# a language model has seen, too. recipes/queue/compressors.sh FOLDER >docs/results/compressors.csv; FOLDER has wikitext-2/.
set -eu
data=${1:?usage: compressors.sh FOLDER}
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
for name in train test; do xz -dc "$data/wikitext-2/$name.txt.xz" >"$work/$name"; done
cat "$work/train" "$work/test" >"$work/both"
bytes=$(wc -c <"$work/test")
row() { # NAME COMMAND..
    name=$1
    shift
    for text in test train both; do "$@" <"$work/$text" | wc -c >"$work/$text.size"; done
    echo "$(cat "$work/test.size") $(cat "$work/train.size") $(cat "$work/both.size")" |
        awk -v name="$name" -v n="$bytes" '{ printf "%s,%.4f,%.4f\n", name, 8 * $1 / n, 8 * ($3 - $2) / n }'
}
echo "program,alone,behind the training text"
row "gzip -9" gzip -9
if command -v bzip2 >/dev/null; then row "bzip2 -9" bzip2 -9; fi
row "xz -9e" xz -9e --threads=1
if command -v zstd >/dev/null; then
    row "zstd -19" zstd -19 -q
    row "zstd -19 --long=27" zstd -19 --long=27 -q
fi
