#!/bin/sh
# Trains exact.ini, makes its attention linear in several ways, and writes what each loses and wins back into
# docs/results/linearise.csv; then draws docs/linearise.svg. It can be killed at any moment; the same command goes on.
#
#     LL_RUNS=/somewhere recipes/linearise/run.sh
#
# LL_RUNS     folder for runs, outside of the tree
# LL_SHARED   folder with data/, else ../shared beside the tree
# LL_PROGRAM  the program, else build/longline
# LL_SYSTEMS  names out of the list below, else all
set -eu
tree=$(cd "$(dirname "$0")/../.." && pwd)
runs=${LL_RUNS:?a folder for runs}
shared=${LL_SHARED:-$tree/../shared}
program=${LL_PROGRAM:-$tree/build/longline}
csv=$tree/docs/results/linearise.csv
figure=$tree/docs/linearise.svg
threads=1
batches=20 # of 8 x 256 bytes held out, evenly spread
data="--set data.train=$shared/data/wikitext-2/train.txt.xz --set data.valid=$shared/data/wikitext-2/valid.txt.xz"
mkdir -p "$runs"

train() { # FOLDER ARGUMENT..: a new run, or the rest of one
    folder=$1
    shift
    [ -f "$folder/done" ] && return
    if [ -f "$folder/last.safetensors" ]; then
        "$program" train --resume "$folder" --threads $threads >"$folder.out"
    else
        rm -rf "$folder"
        # shellcheck disable=SC2086
        "$program" train "$tree/recipes/linearise/exact.ini" --out "$folder" --threads $threads $data "$@" >"$folder.out"
    fi
    touch "$folder/done"
}

train "$runs/exact"
steps=$(sed -n 's/^steps = //p' "$runs/exact/recipe.ini")
one=$((steps / 100))
five=$((steps / 20))

# NAME KEY=VALUE..: what changes beside the kernel's name; -distil learns from the exact model.
favor='attention.kernel=favor attention.redraw=0'
relu='attention.kernel=relu position.type=permute position.decay=fixed'
distil="train.distil=both train.distil-switch=$((2 * one))"
systems() {
    echo "relu-permute $relu"
    echo "relu-permute-distil $relu $distil"
    for m in 256 64 1024 128 512; do
        echo "favor-$m $favor attention.num-features=$m"
        echo "favor-$m-distil $favor attention.num-features=$m $distil"
    done
    echo "relu-permute-logits $relu train.distil=logits"
    echo "gla attention.kernel=gla"
    echo "gla-distil attention.kernel=gla $distil"
    echo "exact-more attention.kernel=softmax"
}

valid() { # MODEL FILE: nats and accuracy on the same batches as in training, unless they are there
    [ ! -f "$2" ] || return 0
    "$program" eval "$1" --split valid --set train.batch=8 --batches $batches --threads $threads >"$2.out"
    sed -n 's/^eval\.loss=//p; s/^eval\.accuracy=//p' "$2.out" | paste -sd, - >"$2.new"
    mv "$2.new" "$2"
}

valid "$runs/exact/best.safetensors" "$runs/exact/valid"
for name in ${LL_SYSTEMS:-$(systems | cut -d' ' -f1)}; do
    keys=$(systems | sed -n "s/^$name //p" | tr ' ' '\n' | sed 's/^/--set /' | tr '\n' ' ')
    common="--from $runs/exact --set train.batch=8 --set train.warmup=5 --set train.eval-batches=$batches"
    # shellcheck disable=SC2086
    train "$runs/$name-0" $common $keys --set train.steps=0
    valid "$runs/$name-0/last.safetensors" "$runs/$name-0/valid"
    # shellcheck disable=SC2086
    train "$runs/$name" $common $keys --set train.steps=$five --set train.eval-every=$one --set train.checkpoint-every=$one
done

# ---- What came out ----

{
    echo system,step,loss,bits,accuracy
    for step in 0 $five; do # the teacher, on the batches of all others
        awk -F, -v s="$step" '{ printf "exact,%s,%s,%.4f,%s\n", s, $1, $1 / log(2), $2 }' "$runs/exact/valid"
    done
    for folder in $(systems | sed "s,\([^ ]*\).*,$runs/\1,"); do
        name=${folder##*/}
        [ -f "$folder/done" ] || continue
        [ -f "$folder-0/valid" ] && awk -F, -v n="$name" '{ printf "%s,0,%s,%.4f,%s\n", n, $1, $1 / log(2), $2 }' \
            "$folder-0/valid"
        awk -F, -v n="$name" 'NR > 1 && $6 != "" { printf "%s,%s,%s,%.4f,%s\n", n, $1, $6, $6 / log(2), $8 }' \
            "$folder/metrics.csv"
    done
} >"$csv"
build=$tree/build
${CC:-cc} -I"$tree/include" "$tree/recipes/draw.c" -o "$runs/draw" \
    -L"$build" -llongline-lab -llongline -Wl,-rpath,"$build"
"$runs/draw" "$csv" "$figure" "Bytes of WikiText-2: steps after the change of the kernel" step bits
