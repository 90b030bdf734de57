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
part yardsticks --yardsticks
part generation --generate --case small --position 1000000
part generation-lm --generate --case lm --position 4096
cat "$folder"/*.txt | grep '^bench\.' | sort -u
