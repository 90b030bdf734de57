#!/bin/sh
# Draws docs/results/recall.svg from docs/results/measures.csv: recall of 16 pairs against the features of a head, the mean over
# seeds. Needs a build in build/.
#
#     recipes/queue/recall-figure.sh
set -eu
tree=$(cd "$(dirname "$0")/../.." && pwd)
build=$tree/build
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A line "CURVE,FEATURES,SYSTEM" for each point; an entry of the queue is recall-SYSTEM-SEED.
cat >"$work/points" <<'END'
exact softmax,16,exact
exact softmax,256,exact
FAVOR+,16,favor-16
FAVOR+,64,favor-64
FAVOR+,256,favor-256
ReLU (projected),16,relu-16
ReLU (projected),64,relu-64
ReLU (projected),256,relu-256
ReLU (larger queries),32,relu-own
ReLU (larger queries),128,relu-query4
exp (projected),16,exp-16
exp (projected),256,exp-256
ReLU with decay,32,relu-decay
PermuteFormer,32,permute-decay
exp,32,exp-own
elu + 1,32,elu1-own
END
awk -F, '
    FNR == NR { if ($2 == "test-16" && $3 == "accuracy") recall[$1] = 100 * $4; next }
    FNR == 1 { print "name,features of a head,percent" }
    {
        n = sum = 0
        for (seed = 1; seed < 10; seed++)
            if (("recall-" $3 "-" seed) in recall) { n++; sum += recall["recall-" $3 "-" seed] }
        if (n) printf "%s,%s,%.2f\n", $1, $2, sum / n
    }' "$tree/docs/results/measures.csv" "$work/points" >"$work/rows.csv"
${CC:-cc} -I"$tree/include" "$tree/recipes/draw.c" -o "$work/draw" -L"$build" -llongline-lab -llongline -Wl,-rpath,"$build"
"$work/draw" "$work/rows.csv" "$tree/docs/results/recall.svg" "Recall of 16 pairs, mean over seeds" "features of a head" \
    percent log
