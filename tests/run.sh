#!/bin/sh
# Runs test programs, LL_TEST_JOBS at a time (else as many as there are cores, and one script more, since scripts wait for
# timeouts), and counts:
#     tests/run.sh RESULTS KIND ARGUMENT...
#   programs  cmocka programs; each of their tests counts
#   fuzz      fuzz targets linked with replay.c, each over tests/fuzz/corpus/NAME; a target counts as one
#   python    a build folder, then files of tests for pytest; each of their tests counts
#   scripts   a build folder, then scripts that use tests/cli/lib; each of their checks counts
# Shows one line a program and what a program prints itself; a failing one is shown whole. A line
# "PASSED FAILED SKIPPED NAME" a program is added to RESULTS. The environment variable WRAP goes in front of programs.
# A program that takes longer than LL_TEST_LIMIT seconds has failed; it is ended with all that it started. One that
# checks nothing, and says of nothing that it was not tried, has failed, too.
set -u
results=$1 kind=$2 limit=${LL_TEST_LIMIT:-1200}
shift 2
case $kind in scripts | python) build=$1; shift ;; esac
mkdir -p "$(dirname "$results")"
work=$(mktemp -d) || exit 1
pid=
workers=
trap 'rm -rf "$work"' EXIT
trap '[ -z "$workers" ] || kill $workers 2>/dev/null; wait; exit 130' HUP INT TERM

# A signal that the parent ignores (SIGHUP under nohup, SIGINT in background jobs) would stay ignored.
signals=
if env --default-signal true 2>/dev/null; then signals="env --default-signal"; fi
watch=
if command -v timeout >/dev/null; then watch="timeout -k 10 $limit"; fi
# The program runs in the background, so that this script handles a signal at once. timeout makes a process group and
# ends the whole group.
limited() {
    $signals $watch "$@" >"$log" 2>&1 </dev/null &
    pid=$!
    wait "$pid"
    status=$?
    pid=
}

count() { sed -n "s/^\[  $1 *\] \([0-9]*\) test(s).*/\1/p" "$log" | awk '{n += $1} END {print n + 0}'; }

outcome() { tail -n 1 "$log" | sed -n "s/.*\b\([0-9][0-9]*\) $1\b.*/\1/p" | grep . || echo 0; } # of pytest's last line

run_one() { # PROGRAM
    program=$1
    start=$(date +%s)
    name=$(basename "$program")
    case $kind in
    programs) limited ${WRAP:-} "$program" ;;
    fuzz) limited ${WRAP:-} "$program" "tests/fuzz/corpus/${name#fuzz_}" ;;
    python) limited env PYTHONPATH="$build/python" LL_BUILD="$build" "$PYTHON" -B -m pytest -q -rs -p no:cacheprovider \
        --import-mode=importlib -c python/pyproject.toml --rootdir=python "$program" ;;
    scripts) limited sh tests/cli/lib "$build" "$program" ;;
    esac
    seconds=$(($(date +%s) - start))
    case $kind in
    programs) passed=$(count PASSED) failed=$(count FAILED) skipped=$(count SKIPPED) ;;
    fuzz) passed=1 failed=0 skipped=0 ;;
    python) passed=$(outcome passed) failed=$(($(outcome failed) + $(outcome 'errors*'))) skipped=$(outcome skipped) ;;
    scripts) passed=$(grep -c '^\[ ok ' "$log") failed=$(grep -c '^\[ FAIL ' "$log") skipped=$(grep -c '^\[ skip ' "$log") ;;
    esac
    # pytest ends with 5 where it ran no test.
    if [ "$kind" = python ] && [ $status -eq 5 ] && [ "$skipped" -gt 0 ]; then status=0; fi
    if [ $status -ne 0 ] && [ "$failed" -eq 0 ]; then failed=1; fi
    if [ $status -ne 0 ] && [ "$kind" = fuzz ]; then passed=0; fi
    how="exit status $status"
    if [ $((passed + failed + skipped)) -eq 0 ]; then failed=1 how="it checked nothing"; fi
    echo "$passed $failed $skipped $name" >>"$results" && echo "$failed" >"$work/$n/failed"
    if [ -n "$watch" ] && [ "$seconds" -ge "$limit" ]; then
        case $status in 124 | 137) how="ended at its limit of $limit s" ;; esac
    fi
    if [ "$failed" -eq 0 ]; then
        [ "$kind" = python ] || grep -v '^\[' "$log" | sed 's/^/    /'
        sed -nE '/test\(s\), listed below/d; s/^(\[ skip \]|\[  SKIPPED \]|SKIPPED)/    not tried:/p' "$log" | sort -u
        more=
        [ "$skipped" -eq 0 ] || more=", $skipped not tried"
        echo "ok    $name: $passed passed$more, $seconds s"
    else
        cat "$log"
        echo "FAIL  $name: $passed passed, $failed failed, $how, $seconds s"
    fi
}

# A worker takes the next program that no other has taken, until none is left. Only one worker can make a folder.
work_off() { # WORKER PROGRAM...
    log=$work/log-$1
    trap - EXIT
    trap '[ -z "$pid" ] || kill "$pid" 2>/dev/null; exit 130' HUP INT TERM
    shift
    n=0
    for each in "$@"; do
        n=$((n + 1))
        mkdir "$work/$n" 2>/dev/null || continue
        run_one "$each" >"$log-shown"
        # cat copies within the kernel, where two copies to one file can overwrite each other.
        sed '' "$log-shown"
    done
}

cores=$(nproc 2>/dev/null || echo 2)
case $kind in scripts) cores=$((cores + 1)) ;; esac
jobs=${LL_TEST_JOBS:-$cores}
while [ "$jobs" -gt 0 ]; do
    work_off "$jobs" "$@" &
    workers="$workers $!"
    jobs=$((jobs - 1))
done
wait
# A worker may have been killed, or the disk may be full.
n=0
bad=
for each in "$@"; do
    n=$((n + 1))
    failed=$(cat "$work/$n/failed" 2>/dev/null)
    [ "${failed:-1}" -eq 0 ] || bad=1
    if [ -z "$failed" ]; then
        echo "0 1 0 $(basename "$each")" >>"$results"
        echo "FAIL  $(basename "$each"): it was not run to its end"
    fi
done
[ -z "$bad" ]
