#!/bin/sh
# Trains exact.ini, makes its attention linear in several ways and with several seeds, and writes what each loses and wins
# back into docs/results/linearise.csv, and how each was run into docs/results/linearise-runs.csv. Then draws the table and
# the figure of docs/linearise.md. It can be killed at any moment; the same command goes on.
#
#     LL_RUNS=/somewhere recipes/linearise/run.sh        all runs, then the table and the figure
#     LL_RUNS=/somewhere recipes/linearise/run.sh draw   those of the runs that are done
#
# LL_RUNS     folder for runs, outside of the tree
# LL_SHARED   folder with data/, else ../shared beside the tree
# LL_PROGRAM  the program, else build/longline; it is copied into LL_RUNS, so that a later build changes no run
# LL_SYSTEMS  names out of the list below, else all
# LL_SEEDS    seeds of the change, else 1 2 3: features, new weights, and the order of sequences; the exact model has seed 1
# LL_NICE     niceness of what runs, else 5
set -eu
tree=$(cd "$(dirname "$0")/../.." && pwd)
runs=${LL_RUNS:?a folder for runs}
shared=${LL_SHARED:-$tree/../shared}
build=$tree/build
results=$tree/docs/results
batches=20 # of 8 x 256 bytes held out, evenly spread
data="--set data.train=data/wikitext-2/train.txt.xz --set data.valid=data/wikitext-2/valid.txt.xz"
mkdir -p "$runs"
runs=$(cd "$runs" && pwd)
program=$runs/longline
[ -x "$program" ] || cp "${LL_PROGRAM:-$build/longline}" "$program"
[ -f "$runs/commit" ] || git -C "$tree" log -1 --format=%h -- src include cli lab Makefile rules.mk >"$runs/commit"
ln -sfn "$(cd "$shared/data" && pwd)" "$runs/data"
machine=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo 2>/dev/null | head -n 1 | tr -d ',')
if grep -q avx512_bf16 /proc/cpuinfo 2>/dev/null; then machine="$machine avx512bf16"; fi
cd "$runs"

train() { # FOLDER ARGUMENT..: a new run, or the rest of one; its processor time and its command stay in the folder
    folder=$1
    shift
    [ ! -f "$folder/done" ] || return 0
    if [ -f "$folder/last.safetensors" ]; then
        set -- --resume "$folder"
    else
        rm -rf "$folder"
        mkdir "$folder"
        echo "longline train recipes/linearise/exact.ini --threads 1 $data $*" | tr -s ' ' >"$folder/command"
        # shellcheck disable=SC2086
        set -- "$tree/recipes/linearise/exact.ini" --out "$folder" $data "$@"
    fi
    (
        nice -n "${LL_NICE:-5}" "$program" train "$@" --threads 1 >"$folder.out" 2>"$folder.err"
        times >>"$folder/times"
    )
    date -u +%Y-%m-%d >"$folder/done"
}

valid() { # MODEL FILE: nats and accuracy on the same batches as in training, unless they are there
    [ ! -f "$2" ] || return 0
    nice -n "${LL_NICE:-5}" "$program" eval "$1" --split valid --set train.batch=8 --batches $batches --threads 1 >"$2.out"
    sed -n 's/^eval\.loss=//p; s/^eval\.accuracy=//p' "$2.out" | paste -sd, - >"$2.new"
    mv "$2.new" "$2"
}

# ---- The systems: NAME KEY=VALUE..: what changes beside the kernel's name. -both and -logits learn from the exact model. ----

systems() {
    favor='attention.kernel=favor attention.redraw=0'
    relu='attention.kernel=relu position.type=permute position.decay=fixed'
    both="train.distil=both train.distil-switch=$((2 * one))"
    echo "relu-permute $relu"
    echo "relu-permute-both $relu $both"
    echo "relu-permute-logits $relu train.distil=logits"
    for m in 64 128 256 512 1024; do
        echo "favor-$m $favor attention.num-features=$m"
        echo "favor-$m-both $favor attention.num-features=$m $both"
    done
    echo "favor-256-logits $favor attention.num-features=256 train.distil=logits"
    echo "gla attention.kernel=gla"
    echo "gla-both attention.kernel=gla $both"
    echo "gla-logits attention.kernel=gla train.distil=logits"
    echo "exact-more attention.kernel=softmax"
}

linearise() { # SEED NAME: the loss right after the change, and training on from there
    keys=$(systems | sed -n "s/^$2 //p" | tr ' ' '\n' | sed 's/^/--set /' | tr '\n' ' ')
    common="--from exact --set train.batch=8 --set train.warmup=5 --set train.eval-batches=$batches --set train.seed=$1"
    # shellcheck disable=SC2086
    train "$2-$1-0" $common $keys --set train.steps=0
    valid "$2-$1-0/last.safetensors" "$2-$1-0/valid"
    # shellcheck disable=SC2086
    train "$2-$1" $common $keys --set train.steps=$five --set train.eval-every=$one --set train.checkpoint-every=$one
}

# ---- What came out ----

rows() { # of results/linearise.csv
    echo system,seed,step,loss,bits,accuracy
    for step in 0 "$one" "$five"; do # the teacher, on the batches of all others
        awk -F, -v s="$step" '{ printf "exact,1,%s,%s,%.4f,%s\n", s, $1, $1 / log(2), $2 }' exact/valid
    done
    for name in $(systems | cut -d' ' -f1); do
        for folder in "$name"-[0-9]*; do
            if [ ! -f "$folder/done" ] || [ ! -f "$folder-0/valid" ]; then continue; fi
            seed=${folder##*-}
            awk -F, -v n="$name,$seed" '{ printf "%s,0,%s,%.4f,%s\n", n, $1, $1 / log(2), $2 }' "$folder-0/valid"
            awk -F, -v n="$name,$seed" 'NR > 1 && $6 != "" { printf "%s,%s,%s,%.4f,%s\n", n, $1, $6, $6 / log(2), $8 }' \
                "$folder/metrics.csv"
        done
    done
}

how() { # of results/linearise-runs.csv
    echo system,seed,steps,cpu_seconds,seconds,commit,machine,date,command
    for name in exact $(systems | cut -d' ' -f1); do
        for folder in "$name" "$name"-[0-9]*; do
            if [ ! -f "$folder/done" ] || [ "${folder%-0}" != "$folder" ]; then continue; fi
            seed=${folder#"$name"}
            cpu=$(awk 'NR % 2 == 0 { for (i = 1; i <= 2; i++) { split($i, t, "[ms]"); s += 60 * t[1] + t[2] } }
                END { printf "%.1f", s }' "$folder/times")
            awk -F, -v first="$name,${seed#-}" -v last="$cpu" -v rest="$(cat commit),$machine,$(cat "$folder/done"),$(cat \
                "$folder/command")" 'END { print first "," $1 "," last "," $2 "," rest }' "$folder/metrics.csv"
        done
    done | sed 's/^exact,,/exact,1,/'
}

# Mean over seeds of each system and step, "system,step,bits,accuracy,seeds,spread".
means() {
    awk -F, 'NR == 1 { print "system,step,bits,accuracy,seeds,spread"; next }
        {
            k = $1 "," $3
            if (!(k in n)) order[++count] = k
            n[k]++
            bits[k] += $5
            square[k] += $5 * $5
            right[k] += $6
        }
        END {
            for (i = 1; i <= count; i++) {
                k = order[i]
                mean = bits[k] / n[k]
                left = n[k] > 1 ? (square[k] - n[k] * mean * mean) / (n[k] - 1) : 0
                printf "%s,%.4f,%.4f,%d,%.4f\n", k, mean, right[k] / n[k], n[k], left > 0 ? sqrt(left) : 0
            }
        }' "$results/linearise.csv"
}

table() { # of docs/linearise.md
    awk -F, -v one="$one" -v five="$five" '
        NR == 1 { next }
        !($1 in seeds) { order[++count] = $1 }
        { bits[$1, $2] = $3; right[$1, $2] = $4; seeds[$1] = $5; spread[$1, $2] = $6 }
        END {
            print "| system | changed | 1 % of the steps | 2 % | 5 % | right after 5 % | seeds |"
            print "| --- | --- | --- | --- | --- | --- | --- |"
            for (i = 1; i <= count; i++) {
                s = order[i]
                if (s == "exact") { printf "| exact | %.3f | | | | %.1f %% | 1 |\n", bits[s, 0], 100 * right[s, 0]; continue }
                printf "| %s | %.3f | %.3f | %.3f | %.3f ± %.3f | %.1f %% | %d |\n", s, bits[s, 0], bits[s, one],
                    bits[s, 2 * one], bits[s, five], spread[s, five], 100 * right[s, five], seeds[s]
            }
        }' mean.csv
}

draw() {
    rows >"$results/linearise.csv"
    how >"$results/linearise-runs.csv"
    means >mean.csv
    table >table.md
    awk -v table="$runs/table.md" '
        /^<!-- table/ { print; print ""; while ((getline line < table) > 0) print line; print ""; inside = 1; next }
        /^<!-- end/ { inside = 0 }
        !inside' "$tree/docs/linearise.md" >page.md
    cat page.md >"$tree/docs/linearise.md"
    grep -v '^favor-\(128\|512\)\|logits' mean.csv >figure.csv
    ${CC:-cc} -I"$tree/include" "$tree/recipes/draw.c" -o draw -L"$build" -llongline-lab -llongline -Wl,-rpath,"$build"
    ./draw figure.csv "$tree/docs/linearise.svg" "Bytes of WikiText-2: steps after the change of the kernel" step bits
}

if [ "${1:-all}" != draw ]; then
    train exact
    valid exact/best.safetensors exact/valid
fi
steps=$(sed -n 's/^steps = //p' exact/recipe.ini)
one=$((steps / 100))
five=$((steps / 20))
if [ "${1:-all}" != draw ]; then
    for seed in ${LL_SEEDS:-1 2 3}; do
        for name in ${LL_SYSTEMS:-$(systems | cut -d' ' -f1)}; do linearise "$seed" "$name"; done
    done
fi
draw
