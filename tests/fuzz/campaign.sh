#!/bin/sh
# Runs each live fuzz target (`make fuzz`) for a time, one after another, and adds what they came to to docs/results/fuzz.csv.
#
#     tests/fuzz/campaign.sh SECONDS [TARGET..]     all targets, or these; it can be killed between two of them
#     tests/fuzz/campaign.sh total                  how often they have run, by target and in all
#
# LL_CORPORA   folder for inputs that reach something new, kept from run to run; else build/fuzz/corpora
# A crash, a leak or a run of more than ten minutes ends the campaign; its input lies in build/fuzz/found.
set -eu
tree=$(cd "$(dirname "$0")/../.." && pwd)
programs=$tree/build/fuzz/tests/fuzz
corpora=${LL_CORPORA:-$tree/build/fuzz/corpora}
found=$tree/build/fuzz/found
results=$tree/docs/results/fuzz.csv

if [ "${1-}" = total ]; then
    awk -F, 'NR > 1 {runs[$1] += $2; seconds[$1] += $3; all += $2; time += $3}
        END {for (t in runs) printf "%-12s %12d runs %7.0f s\n", t, runs[t], seconds[t] | "sort"; close("sort")
             printf "%-12s %12d runs %7.0f s\n", "all", all, time}' "$results"
    exit
fi
case ${1-} in
'' | *[!0-9]*)
    echo "campaign.sh: usage: campaign.sh SECONDS [TARGET..] | total" >&2
    exit 2
    ;;
esac
seconds=$1
shift
if [ $# -eq 0 ]; then
    for program in "$programs"/fuzz_*-live; do
        target=${program##*/fuzz_}
        set -- "$@" "${target%-live}"
    done
fi
mkdir -p "$found" "$(dirname "$results")"
[ -s "$results" ] || echo 'target,runs,seconds,crashes,commit,machine,date' >"$results"
commit=$(git -C "$tree" log -1 --format=%h)
machine=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1 | tr -d ,)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for target; do
    mkdir -p "$corpora/$target"
    code=0
    # Memory that was freed is kept back for 16 MB, not 256, which would not fit into caches.
    # All output of the program but that of the fuzzer is dropped. Weighing inputs by how rare what they reach is (-entropic)
    # takes half of the time where a corpus is large.
    ASAN_OPTIONS=quarantine_size_mb=16 "$programs/fuzz_$target-live" -max_total_time="$seconds" -timeout=600 -entropic=0 \
        -rss_limit_mb=4096 -close_fd_mask=3 -print_final_stats=1 -artifact_prefix="$found/$target-" \
        "$corpora/$target" "$tree/tests/fuzz/corpus/$target" \
        >"$log" 2>&1 || code=$?
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    echo "$target,${runs:-0},$seconds,$((code != 0)),$commit,$machine,$(date +%F)" >>"$results"
    echo "$target: ${runs:-0} runs in $seconds s"
    if [ $code -ne 0 ]; then
        tail -n 40 "$log" >&2
        echo "campaign.sh: $target failed; its input is in $found" >&2
        exit 1
    fi
done
