#!/bin/sh
# How long a path the models of Pathfinder in patches follow: the percentage right of 2,000 fresh images of each length, as CSV.
#
#     LL_RUNS=/somewhere recipes/queue/path-lengths.sh permuteformer-1 permuteformer-2 exact-rope-1 >docs/results/path-lengths.csv
#
# LL_RUNS is the folder that run.sh works in; of its runs, pathfinder-patches-*-NAME are measured for each NAME. 8-6 is 8 segments
# and 6 distracting paths, 14-5 the arena's images.
set -eu
tree=$(cd "$(dirname "$0")/../.." && pwd)
program=$(realpath "${LL_PROGRAM:-$tree/build/longline}")
cd "${LL_RUNS:?"LL_RUNS is to name the folder that run.sh works in"}"
kinds='3-0 5-0 6-0 8-0 10-0 12-0 14-0 8-6 6-10 9-6 14-5'
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
trap 'exit 1' INT TERM

echo "run $kinds" | tr ' ' ,
for kind in $kinds; do
    "$program" data make "pathfinder-$kind" --count 2000 --seed 900 --out "$fresh/$kind" --threads 1 >/dev/null
done
models=$(for name; do find pathfinder-patches-*-"$name"/best.safetensors | sort -V; done)
for model in $models; do
    line=${model%/*}
    for kind in $kinds; do
        "$program" eval "$model" --split test --set "data.test=$fresh/$kind/images-idx3-ubyte" --threads 1 >"$fresh/out"
        line=$line,$(awk -F= '$1 == "eval.accuracy" { printf "%.2f", 100 * $2 }' "$fresh/out")
    done
    echo "$line"
done
