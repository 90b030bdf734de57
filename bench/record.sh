#!/bin/sh
# Runs every command whose numbers docs/performance.md shows: bench/record.sh PROGRAM FOLDER. Takes more than half an
# hour on two cores, and wants the machine for itself. FOLDER gets a .txt and a .json for each part, and the figure.
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
part in-cache --ops --repeats 25 --threads 1 --lengths 256 --case attention/relu/causal
part one-thread --ops --repeats 9 --threads 1 --lengths 1024,4096 --case relu
for case in elu1 favor+rope favor+sine-spe favor+conv-spe; do part "$case" --ops --repeats 5 --lengths 4096 --case "$case"; done
for n in 1 2; do part "one-head-$n" --ops --repeats 9 --threads $n --lengths 16384 --case one-head/causal; done
part training --models --repeats 5
part text --models --repeats 3 --case text-small
part text-permuteformer --models --repeats 3 --case text-permuteformer/relu+permute
part yardsticks --yardsticks
part generation --generate --case small --position 1000000
part generation-lm --generate --case lm --position 4096
cat "$folder"/*.txt | grep '^bench\.' | sort -u
