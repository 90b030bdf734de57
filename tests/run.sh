#!/bin/sh
# Runs test programs one after the other and counts: tests/run.sh RESULTS KIND ARGUMENT...
#   programs  cmocka programs; each of their tests counts
#   fuzz      fuzz targets linked with replay.c, each over tests/fuzz/corpus/NAME; a target counts as one
#   scripts   a build folder, then scripts that use tests/cli/lib; each of their checks counts
# Shows one line a program and what a program prints itself; a failing one is shown whole. A line
# "PASSED FAILED" a program is added to RESULTS. The environment variable WRAP goes in front of programs.
set -u
results=$1 kind=$2
shift 2
if [ "$kind" = scripts ]; then build=$1; shift; fi
mkdir -p "$(dirname "$results")"
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
bad=0

count() { sed -n "s/^\[  $1  \] \([0-9]*\) test(s).*/\1/p" "$log" | awk '{n += $1} END {print n + 0}'; }

for program in "$@"; do
    start=$(date +%s)
    name=$(basename "$program")
    case $kind in
    programs) ${WRAP:-} "$program" >"$log" 2>&1 ;;
    fuzz) ${WRAP:-} "$program" "tests/fuzz/corpus/${name#fuzz_}" >"$log" 2>&1 ;;
    scripts) sh tests/cli/lib "$build" "$program" >"$log" 2>&1 ;;
    esac
    status=$?
    case $kind in
    programs) passed=$(count PASSED) failed=$(count FAILED) ;;
    fuzz) passed=1 failed=0 ;;
    scripts) passed=$(grep -c '^\[ ok ' "$log") failed=$(grep -c '^\[ FAIL ' "$log") ;;
    esac
    if [ $status -ne 0 ] && [ "$failed" -eq 0 ]; then failed=1; fi
    if [ $status -ne 0 ] && [ "$kind" = fuzz ]; then passed=0; fi
    echo "$passed $failed $name" >>"$results"
    seconds=$(($(date +%s) - start))
    if [ "$failed" -eq 0 ]; then
        grep -v '^\[' "$log" | sed 's/^/    /'
        echo "ok    $name: $passed passed, $seconds s"
    else
        bad=1
        cat "$log"
        echo "FAIL  $name: $passed passed, $failed failed, exit status $status, $seconds s"
    fi
done
exit $bad
