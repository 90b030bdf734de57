#!/bin/sh
# Two results of `longline bench --json`, side by side: bench/compare.sh BEFORE.json AFTER.json. Shows what changed by
# more than 10 % (below is noise) and, last, the geometric mean of all. Exit status 1 if a case became that much slower.
set -eu
[ $# = 2 ] || { echo "usage: bench/compare.sh BEFORE.json AFTER.json" >&2; exit 2; }
rows() { sed -n 's/.*"case": "\([^"]*\)", "ms": \([-+.e0-9]*\),.*/\1 \2/p' "$1" | LC_ALL=C sort; }
a=$(mktemp) b=$(mktemp)
trap 'rm -f "$a" "$b"' EXIT
rows "$1" >"$a"
rows "$2" >"$b"
LC_ALL=C join "$a" "$b" | awk '
    BEGIN { printf "%-52s %12s %12s %8s\n", "case", "before, ms", "after, ms", "time" }
    {
        ratio = $3 / $2
        sum += log(ratio)
        n++
        if (ratio > 1.1) slower++
        if (ratio > 1.1 || ratio < 1 / 1.1) printf "%-52s %12.3f %12.3f %+7.0f%%\n", $1, $2, $3, 100 * (ratio - 1)
    }
    END {
        if (!n) { print "no case is in both files"; exit 2 }
        printf "%d cases, %d slower by more than 10 %%; all together %+.1f %%\n", n, slower, 100 * (exp(sum / n) - 1)
        exit slower > 0
    }'
