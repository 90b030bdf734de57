#!/bin/sh
# Runs the bench commands of docs/performance.md: bench/record.sh PROGRAM FOLDER. Takes the better part of an hour on two
# cores and 20 GB, and wants the machine for itself. FOLDER gets a .txt and a .json for each part, and the figure.
set -eu
program=${1:?usage: bench/record.sh build/longline FOLDER}
folder=${2:?usage: bench/record.sh build/longline FOLDER}
mkdir -p "$folder"
"$program" version
part() {
    name=$1
    shift
    echo "$name: longline bench $*"
    "$program" bench "$@" --json "$folder/$name.json" >"$folder/$name.txt"
}
part attention --ops --repeats 9 --figure "$folder/time.svg"
part permute --ops --repeats 13 --case favor/,relu/,favor+permute/,relu+permute/,permute-random
part in-cache --ops --repeats 25 --threads 1 --lengths 256 --case attention/relu/causal
part one-thread --ops --repeats 9 --threads 1 --lengths 1024,4096 --case relu
for case in elu1 favor+rope favor+sine-spe favor+conv-spe; do part "$case" --ops --repeats 5 --lengths 4096 --case "$case"; done
for tier in avx2 avx512; do
    if grep -q "$tier" /proc/cpuinfo; then
        for kernel in favor relu; do
            part "$kernel-$tier" --ops --repeats 9 --lengths 4096 --case "attention/$kernel/*/4096" --cpu "$tier"
        done
    fi
done
for n in 1 2; do part "one-head-$n" --ops --repeats 9 --threads $n --lengths 16384 --case one-head/causal; done
part training --models --repeats 5
part text --models --repeats 3 --case text-small
part text-permuteformer --models --repeats 3 --case text-permuteformer/relu+permute
part text-small-long --models --repeats 1 --case train/text-small-1048576/favor
part lm-long --models --repeats 1 --case train/lm-131072/favor
part yardsticks --yardsticks
part generation --generate --case lm --position 4096
part generation-long --generate --case generate/lm/favor --position 1000000
cat "$folder"/*.txt | grep '^bench\.' | sort -u
