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
four=attention/favor/,attention/relu/,attention/elu1/,attention/softmax/
part one-thread --ops --repeats 9 --threads 1 --lengths 4096 --case "$four"
for tier in avx2 avx512; do
    if grep -q "$tier" /proc/cpuinfo; then
        part "$tier" --ops --repeats 9 --threads 1 --lengths 4096 --case "$four" --cpu "$tier"
    fi
done
for case in favor+rope favor+sine-spe favor+conv-spe; do part "$case" --ops --repeats 5 --lengths 4096 --case "$case"; done
part training --models --repeats 5
part training-one-thread --models --repeats 3 --threads 1 --case train/lm-4096,train/text-permuteformer/relu+permute,train/text-small
part text --models --repeats 3 --case text-small
part text-permuteformer --models --repeats 3 --case text-permuteformer/relu+permute
part text-small-long --models --repeats 1 --case train/text-small-1048576/favor
part lm-long --models --repeats 1 --case train/lm-131072/favor
part yardsticks --yardsticks
part generation --generate --threads 1 --case lm --position 4096
part generation-long --generate --case generate/lm/favor --position 1000000
cat "$folder"/*.txt | grep '^bench\.' | sort -u
