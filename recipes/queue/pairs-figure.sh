#!/bin/sh
# Draws docs/results/pairs-TASK.svg for the tasks images, bytes and lists from the tables of recipes/queue/tables.sh: every kernel
# with every position, the mean over seeds. Needs a build in build/. A task without results is left out.
#
#     recipes/queue/pairs-figure.sh
set -eu
tree=$(cd "$(dirname "$0")/../.." && pwd)
build=$tree/build
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
${CC:-cc} -I"$tree/include" "$tree/recipes/heat.c" -o "$work/heat" -L"$build" -llongline-lab -llongline -lm -Wl,-rpath,"$build"

figure() { # TASK TITLE
    sh "$tree/recipes/queue/tables.sh" "pairs-$1" | awk -F ' *[|] *' '
        NR == 1 { print "kernel,position,value"; for (i = 3; i < NF; i++) position[i] = $i }
        NR > 2 { for (i = 3; i < NF; i++) print $2 "," position[i] "," $i }' >"$work/$1.csv"
    if grep -q '[0-9]$' "$work/$1.csv"; then
        "$work/heat" "$work/$1.csv" "$tree/docs/results/pairs-$1.svg" "$2"
    fi
}
figure images "Fashion-MNIST: test accuracy in percent, mean over seeds"
figure bytes "Bytes of WikiText-2: bits a byte, mean over seeds (pale is better)"
figure lists "ListOps: test accuracy in percent, mean over seeds"
