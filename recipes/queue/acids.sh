#!/bin/sh
# How much what models of proteins have learned of amino acids agrees with BLOSUM62: the correlations of their reports, as CSV.
#
#     LL_RUNS=/somewhere recipes/queue/acids.sh >docs/results/acids.csv
#
# LL_RUNS is the folder that run.sh works in; its runs protein-* are reported.
set -eu
tree=$(cd "$(dirname "$0")/../.." && pwd)
program=$(realpath "${LL_PROGRAM:-$tree/build/longline}")
cd "${LL_RUNS:?"LL_RUNS is to name the folder that run.sh works in"}"

echo run,measure,correlation,low,high
for run in protein-*; do
    [ -f "$run/best.safetensors" ] || continue
    "$program" report "$run" --threads 1 >/dev/null
    caption=$(sed -n 's|^<figcaption>\(Amino acids that are alike.*\)</figcaption>$|\1|p' "$run/report.html")
    numbers='(r = \([^,]*\), \([^ ]*\) to \([^;)]*\)'
    echo "$caption" | sed -n "s|.*embeddings $numbers.*|$run,cosine of embeddings,\\1,\\2,\\3|p"
    echo "$caption" | sed -n "s|.*they get $numbers.*|$run,attention received,\\1,\\2,\\3|p"
done
