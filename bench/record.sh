#!/bin/sh
# Measures everything that docs/performance.md shows: bench/record.sh PROGRAM FOLDER. About half an hour on two
# cores; wants the machine for itself. FOLDER gets a .txt and a .json for each part, and the figure.
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
part training --models --repeats 5
part generation --generate --position 1000000
part generation-512 --generate --position 4096 --set model.layers=6 --set model.width=512 --set model.heads=8 \
    --set model.ff=1024 --set attention.num-features=256
cat "$folder"/*.txt | grep '^bench\.' | sort -u
