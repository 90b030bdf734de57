#!/bin/sh
# Runs the experiments of recipes/queue/queue.txt, pairs.sh and patches.sh one after another and writes what they come to into
# docs/results. It can be killed at any moment; the same command goes on with the run that it was at, to the same bits.
#
#     LL_RUNS=/somewhere recipes/queue/run.sh          all that is not done yet; setsid nohup ... & for the background
#     LL_RUNS=/somewhere recipes/queue/run.sh next     the next one alone
#     recipes/queue/run.sh list                        what is done, what comes next, and the hours of both
#     recipes/queue/run.sh command ID                  the command of one experiment
#
# LL_RUNS     folder for runs, outside of the tree: models and states, which may be lost; what counts is in docs/results
# LL_SHARED   folder with data/, else ../shared beside the tree; recipes name data/..., and made/... for what is drawn
# LL_PROGRAM  the program, built from the tree's commit, else build/longline; it is copied into LL_RUNS: a later build changes no run
# LL_COMMIT   1: each result is committed as it comes, with the tables of docs/study.md
# LL_ONLY     a pattern of ids, as 'lra-text-*'
# LL_NICE     niceness of what runs, else 19: a busy machine gives that next to nothing
# LL_THREADS  threads of what runs, else 1; the results are the same
#
# An entry of the queue is ID PRIORITY HOURS RECIPE SYSTEM SEED KEY=VALUE..; rate=PREFIX among its keys is the learning rate with
# the lowest held-out loss of the runs PREFIX-RATE.
set -eu
tree=$(cd "$(dirname "$0")/../.." && pwd)
queue=$tree/recipes/queue
results=$tree/docs/results
only=${LL_ONLY:-*}
niceness=${LL_NICE:-19}
threads=${LL_THREADS:-1}

# ---- The queue: lines "ID PRIORITY HOURS RECIPE SYSTEM SEED KEY=VALUE.." ----

entries() { # in order: by priority, then as they stand
    { cat "$queue/queue.txt" && sh "$queue/pairs.sh" && sh "$queue/patches.sh"; } | grep -v '^ *\(#\|$\)' | sort -s -n -k 2,2
}

is_done() { # ID
    [ -f "$results/runs.csv" ] && cut -d, -f1 "$results/runs.csv" | grep -qxF "$1"
}

wanted() { # ID
    # shellcheck disable=SC2254
    case $1 in $only) return 0 ;; esac
    return 1
}

# The keys that an entry sets, as "--set KEY=VALUE ..".
settings() { # SYSTEM SEED KEY=VALUE..
    system=$1
    seed=$2
    shift 2
    keys=$(sed -n "s/^$system  *//p" "$queue/systems.txt")
    case ${keys:+known}$system in
    known*) ;;
    *+*) keys="attention.kernel=${system%%+*} position.type=${system#*+}" ;;
    *)
        echo "run.sh: systems.txt has no system $system" >&2
        exit 2
        ;;
    esac
    for key in $keys "train.seed=$seed" "$@"; do
        case $key in rate=*) key=$(best_rate "${key#rate=}") ;; esac
        [ -z "$key" ] || printf ' --set %s' "$key"
    done
}

# Of runs PREFIX-RATE, the rate with the lowest held-out loss; nothing, which is the recipe's, where there are none.
best_rate() { # PREFIX
    [ ! -f "$results/measures.csv" ] || awk -F, -v prefix="$1-" '
        index($1, prefix) == 1 && $2 == "valid" && $3 == "loss" && (best == "" || $4 < least) {
            least = $4
            best = substr($1, length(prefix) + 1)
        }
        END { if (best != "") print "train.learning-rate=" best }' "$results/measures.csv"
}

list() {
    entries | while read -r id priority hours recipe system seed more; do
        wanted "$id" || continue
        state=-
        if is_done "$id"; then state='done'; fi
        printf '%-4s %-36s %2s %5s h  %s %s %s\n' "$state" "$id" "$priority" "$hours" "$recipe" "$system" "$seed $more"
    done | awk '
        { print; hours[$1] += $4 }
        END { printf "core-hours as estimated: done %.1f, left %.1f\n", hours["done"], hours["-"] }'
}

# ---- One run ----

# Is the process alive whose number is in a file, and is it what it was?
is_alive() { # FILE WORD
    [ -s "$1" ] && ps -o args= -p "$(cat "$1")" 2>/dev/null | grep -q "$2"
}

prepare() {
    runs=${LL_RUNS:?"LL_RUNS is to name a folder for runs, outside of the tree"}
    mkdir -p "$runs/made" "$results/curves"
    runs=$(cd "$runs" && pwd)
    commit=$(git -C "$tree" log -1 --format=%h -- src include cli lab Makefile rules.mk)
    program=$runs/longline-$commit
    [ -x "$program" ] || cp "${LL_PROGRAM:-$tree/build/longline}" "$program"
    ln -sfn "$(cd "${LL_SHARED:-$tree/../shared}/data" && pwd)" "$runs/data"
    machine=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo 2>/dev/null | head -n 1 | tr -d ',')
    if grep -q avx512_bf16 /proc/cpuinfo 2>/dev/null; then machine="$machine avx512bf16"; fi
    if is_alive "$runs/runner" run.sh; then
        echo "run.sh: already at work here, process $(cat "$runs/runner")" >&2
        exit 0
    fi
    echo $$ >"$runs/runner"
    cd "$runs"
}

# Data that are drawn, the same for the same seed: made/NAME, wherever the recipe or the settings name it.
make_data() { # RECIPE SETTINGS
    { cat "$tree/recipes/$1" && echo "$2"; } | grep -v '^#' | grep -o 'made/[A-Za-z0-9_.-]*' | sort -u |
        while read -r path; do
            [ ! -e "$path" ] || continue
            line=$(grep "^$path " "$queue/made.txt")
            rm -rf "$path.part"
            line=${line#"$path" }
            # shellcheck disable=SC2086
            case $line in
            sh\ *) OUT=$path.part QUEUE=$queue PROGRAM=$program nice -n "$niceness" sh -c "${line#sh }" ;;
            *) nice -n "$niceness" "$program" data make $line --out "$path.part" --threads "$threads" >&2 ;;
            esac
            mv "$path.part" "$path"
        done
}

# Seconds of processor time of a process, into a file now and then: a run may be killed several times.
watch_time() { # PID FILE
    while kill -0 "$1" 2>/dev/null; do
        awk -v hz="$(getconf CLK_TCK)" '{ sub(/.*\) /, ""); print ($12 + $13) / hz }' "/proc/$1/stat" >"$2.part" 2>/dev/null || :
        if [ -s "$2.part" ]; then mv "$2.part" "$2"; fi
        sleep 5
    done
}

# Trains, or goes on; its standard output is the run's `out`.
train() { # ID RECIPE SETTINGS
    its="longline.* train .*--[a-z]* $1 --threads" # after a restart the number may be that of another process
    if is_alive "$1/pid" "$its"; then              # of a runner that was killed
        kill -TERM "$(cat "$1/pid")"
        while is_alive "$1/pid" "$its"; do sleep 1; done
    fi
    mkdir -p "$1"
    own=$program
    if [ -f "$1/program" ] && [ -x "$(cat "$1/program")" ]; then own=$(cat "$1/program"); fi
    echo "$own" >"$1/program"
    if [ -f "$1/last.safetensors" ]; then
        nice -n "$niceness" "$own" train --resume "$1" --threads "$threads" >"$1/out" 2>>"$1/err" &
    else
        # shellcheck disable=SC2086
        nice -n "$niceness" "$own" train "$tree/recipes/$2" --out "$1" --threads "$threads" $3 >"$1/out" 2>>"$1/err" &
    fi
    child=$!
    echo $child >"$1/pid"
    watch_time $child "$1/time-$(date +%s)" &
    wait $child
}

# Lines "eval.loss=0.5" of a measurement -> rows "ID,NAME,loss,0.5".
measure() { # ID
    while read -r pattern name command arguments; do
        # shellcheck disable=SC2254
        case $1 in $pattern) ;; *) continue ;; esac
        # shellcheck disable=SC2086
        nice -n "$niceness" "$own" "$command" "$1/best.safetensors" $arguments --threads "$threads" 2>>"$1/err" >"$1/measured" ||
            echo "$command.state=failed" >"$1/measured"
        sed -n "s/^[a-z]*\.\([a-z_0-9.-]*\)=\(.*\)/$1,$name,\1,\2/p" "$1/measured" | grep -v ',seconds,'
    done <"$1/measures"
}

append() { # FILE HEADER FROM
    { if [ -f "$1" ]; then cat "$1"; else echo "$2"; fi && cat "$3"; } >"$1.part"
    mv "$1.part" "$1"
}

value() { # ID KEY
    sed -n "s/^train\.$2=//p" "$1/out" 2>/dev/null | tail -n 1
}

# All that a run came to, into docs/results: the row of runs.csv last, as it is what says that the run is done.
record() { # ID RECIPE SYSTEM SEED STATE SETTINGS
    grep -v '^ *\(#\|$\)' "$queue/measures.txt" >"$1/measures"
    : >"$1/rows"
    if [ "$5" = "done" ]; then measure "$1" >"$1/rows"; fi
    time=$(cat "$1"/time-* 2>/dev/null | awk '{ s += $1 } END { printf "%.0f", s }')
    awk -F, 'NR == 1 || $6 != ""' "$1/metrics.csv" >"$1/curve"
    [ "$(wc -l <"$1/curve")" -lt 3 ] || cp "$1/curve" "$results/curves/$1.csv"
    append "$results/measures.csv" id,measure,key,value "$1/rows"
    tokens=$(awk -F, 'END { print $3 }' "$1/metrics.csv")
    last=$(awk -F, 'END { print $1 }' "$1/metrics.csv")
    made=${own##*longline-}
    echo "$1,$2,$3,$4,$5,$last,$tokens,$(value "$1" valid_loss),$(value "$1" valid_accuracy),$time,$(value "$1" seconds),\
$made,$machine,$(date -u +%Y-%m-%d),longline train recipes/$2 --threads $threads$6" >"$1/row"
    append "$results/runs.csv" "id,recipe,system,seed,state,steps,tokens,valid_loss,valid_accuracy,cpu_seconds,seconds,\
commit,machine,date,command" "$1/row"
    case $1 in pair-*) [ $(($(date +%s) - committed)) -ge 900 ] || return 0 ;; esac # they take seconds each
    commit_results "$1"
}

commit_results() { # ID
    committed=$(date +%s)
    [ "${LL_COMMIT:-0}" = 1 ] || return 0
    [ -n "$(git -C "$tree" status --porcelain docs/results)" ] || return 0
    sh "$queue/tables.sh"
    git -C "$tree" add docs/results && git -C "$tree" commit -q -m "results: up to $1" -- docs/results docs/study.md ||
        echo "run.sh: $1 is not committed" >&2
}

run() { # ID PRIORITY HOURS RECIPE SYSTEM SEED KEY=VALUE..
    id=$1 recipe=$4 system=$5 seed=$6
    shift 6
    set=$(settings "$system" "$seed" "$@")
    from=$(echo "$set " | sed -n 's/.* train\.from=\([^ ]*\) .*/\1/p')
    if [ -n "$from" ] && [ -z "$(value "$from" steps)" ]; then
        run_again "$from"
        return 0
    fi
    echo "$(date -u +%H:%M) $id"
    make_data "$recipe" "$set"
    code=0
    train "$id" "$recipe" "$set" || code=$?
    child=
    if [ $code = 0 ] && [ -n "$(value "$id" steps)" ] && is_done "$id"; then
        echo "$(date -u +%H:%M) $id is here again" # its results stand
    elif [ $code = 0 ] && [ -n "$(value "$id" steps)" ]; then
        record "$id" "$recipe" "$system" "$seed" "done" "$set"
    elif [ $code = 0 ]; then
        echo "$(date -u +%H:%M) $id was stopped" # and goes on
    elif [ $code -gt 128 ] && echo $code >>"$id/killed" && [ "$(wc -l <"$id/killed")" -lt 9 ]; then
        echo "$(date -u +%H:%M) $id was killed" # and goes on, but not for ever
    elif tail -n 1 "$id/err" | grep -q 'became not a number\|became infinite\|would be chance'; then
        record "$id" "$recipe" "$system" "$seed" diverged "$set"
    else
        echo "$(date -u +%H:%M) $id has failed (code $code), see $runs/$id/err" >&2
        echo "$id" >>failed
    fi
}

# Trains a run whose model another one begins with, and whose folder is lost; the other one comes next.
run_again() { # ID
    if grep -qx "$1" failed 2>/dev/null; then
        echo "$id" >>failed
        return
    fi
    # shellcheck disable=SC2046
    run $(entries | grep "^$1 ")
}

next() { # prints the first entry that is neither done nor failed here
    entries | while read -r line; do
        first=${line%% *}
        if ! wanted "$first" || is_done "$first" || grep -qx "$first" failed 2>/dev/null; then continue; fi
        echo "$line"
        break
    done
}

# shellcheck disable=SC2317 # a signal calls it
stop() {
    if [ -n "$child" ] && kill -TERM "$child" 2>/dev/null; then wait "$child" || :; fi
    commit_results "$id"
    rm -f "$runs/runner"
    exit 0
}

main() {
    case ${1:-all} in
    list) list ;;
    command)
        # shellcheck disable=SC2086
        entries | while read -r id priority hours recipe system seed more; do
            [ "$id" != "${2:?command needs an ID}" ] ||
                echo "longline train recipes/$recipe --threads $threads$(settings "$system" "$seed" $more)"
        done
        ;;
    all | next)
        prepare
        child=
        committed=0
        id=
        trap stop INT TERM HUP
        while line=$(next) && [ -n "$line" ]; do
            # shellcheck disable=SC2086
            run $line
            [ "${1:-all}" = all ] || break
        done
        commit_results "the end"
        rm -f "$runs/runner"
        ;;
    *)
        sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
        exit 2
        ;;
    esac
}

main "$@"
exit # a shell reads a script as it goes: what is written here meanwhile is not run
