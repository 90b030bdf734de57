#!/bin/sh
# reached.sh BUILD [TARGET..]: the share of a reader's lines that its fuzz target alone reaches, over its corpus, with inputs cut
# short and with bytes changed. BUILD is compiled with --coverage (make fuzz-coverage). Fails below 95 %.
set -eu
build=$1
shift
least=95
low=0
while read -r target files; do
    case $target in '' | '#'*) continue ;; esac
    case " ${*:-$target} " in *" $target "*) ;; *) continue ;; esac
    find "$build" -name '*.gcda' -delete
    "$build/tests/fuzz/fuzz_$target" "tests/fuzz/corpus/$target" >"$build/reached.log" 2>&1 || {
        cat "$build/reached.log"
        exit 1
    }
    filters=
    for file in $files; do filters="$filters --filter $file"; done
    # shellcheck disable=SC2086
    gcovr --root . --object-directory "$build" $filters --csv >"$build/reached.csv" 2>/dev/null
    # shellcheck disable=SC2086
    gcovr --root . --object-directory "$build" $filters --txt 2>/dev/null >"$build/reached.txt"
    awk -F, -v target="$target" -v least=$least '
        NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        { all += $(at["line_total"]); reached += $(at["line_covered"]) }
        END { printf "%-12s %5.1f %% of %d lines\n", target, 100 * reached / all, all; exit 100 * reached < least * all }' \
        "$build/reached.csv" || {
        low=1
        awk 'NR > 6 && NF > 4 { print "             missing: " $0 }' "$build/reached.txt"
    }
done <tests/fuzz/readers.txt
[ $low = 0 ] || echo "below $least %"
exit $low
