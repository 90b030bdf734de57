#!/bin/sh
# Draws docs/results/pairs-TASK.svg for the tasks images, bytes and lists from docs/results/measures.csv: every kernel with every
# position, the mean over seeds. Needs a build in build/. A task without results is left out.
#
#     recipes/queue/pairs-figure.sh
set -eu
tree=$(cd "$(dirname "$0")/../.." && pwd)
build=$tree/build
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
${CC:-cc} -I"$tree/include" "$tree/recipes/heat.c" -o "$work/heat" -L"$build" -llongline-lab -llongline -lm -Wl,-rpath,"$build"

figure() { # TASK TITLE: tables.txt has the task's measure, kernels and positions
    awk -F, -v table="pairs-$1" '
        function as(x, how) { return how == "percent" ? 100 * x : how == "bits" ? x / log(2) : x }
        FILENAME ~ /tables.txt$/ {
            split($0, f, " ")
            if (f[1] == "table") on = f[2] == table
            if (on && f[1] == "matrix") { prefix = f[2]; measure = f[3]; key = f[4]; how = f[5] }
            if (on && f[1] == "across") positions = substr($0, 8)
            if (on && f[1] == "down") kernels = substr($0, 6)
            next
        }
        $2 == measure && $3 == key { value[$1] = $4 }
        END {
            print "kernel,position," how
            high = split(kernels, kernel, " ")
            wide = split(positions, position, " ")
            for (i = 1; i <= high; i++)
                for (k = 1; k <= wide; k++) {
                    n = sum = 0
                    for (seed = 1; seed < 10; seed++) {
                        id = prefix "-" kernel[i] "+" position[k] "-" seed
                        if (id in value) { n++; sum += as(value[id], how) }
                    }
                    if (n) printf "%s,%s,%.4f\n", kernel[i], position[k], sum / n
                }
        }' "$tree/recipes/queue/tables.txt" "$tree/docs/results/measures.csv" >"$work/$1.csv"
    if [ "$(wc -l <"$work/$1.csv")" -gt 1 ]; then
        "$work/heat" "$work/$1.csv" "$tree/docs/results/pairs-$1.svg" "$2"
    fi
}
figure images "Fashion-MNIST: test accuracy in percent, mean over seeds"
figure bytes "Bytes of WikiText-2: bits a byte, mean over seeds (pale is better)"
figure lists "ListOps: test accuracy in percent, mean over seeds"
