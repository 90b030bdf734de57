#!/bin/sh
# Bytes a rank takes to train models of 10 million to 10 thousand million parameters, as `longline train --memory` counts
# them: the table of docs/scaling.md. Nothing is trained.  bench/memory.sh [build/longline]
set -eu
longline=${1:-build/longline}
recipe=$(dirname "$0")/../recipes/text-bytes.ini
gb() { awk -v b="$1" 'BEGIN {g = b / 1e9; printf g < 10 ? "%.2f" : g < 100 ? "%.1f" : "%.0f", g}'; }
echo "| parameters | ranks | weights | gradients | received | moments | activations | all | activations, recomputed | all |"
echo "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
for shape in "6 384 6" "12 832 13" "24 1856 29" "40 4544 71"; do
    set -- $shape
    for ranks in 1 8 64; do
        for again in off on; do
            found=$("$longline" train "$recipe" --memory --ranks $ranks --threads 1 --set train.batch=64 \
                --set train.length=4096 --set model.layers=$1 --set model.width=$2 --set model.heads=$3 \
                --set model.ff=$((4 * $2)) --set train.recompute=$again)
            for key in parameters weights gradients received moments activations total; do
                eval "${key}_$again=$(echo "$found" | sed -n "s/memory.$key=//p")"
            done
        done
        echo "| $(awk -v p="$parameters_on" 'BEGIN {printf "%.0f M", p / 1e6}') | $ranks | $(gb $weights_on) | $(gb $gradients_on) |" \
            "$(gb $received_on) | $(gb $moments_on) | $(gb $activations_off) | $(gb $total_off) | $(gb $activations_on) | $(gb $total_on) |"
    done
done
