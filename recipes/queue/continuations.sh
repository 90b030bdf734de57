#!/bin/sh
# How alike the continuations of models of music are to the pieces that they continue, as CSV: each test piece's first events are
# the prompt, and the continuation alone is compared with the whole piece ('longline data compare', as in the SPE paper). The mean
# over pieces, and its standard error. The last row compares each piece with another one: what music of this kind has in common.
#
#     LL_RUNS=/somewhere recipes/queue/continuations.sh >docs/results/continuations.csv
#
# LL_RUNS is the folder that run.sh works in; its runs music-* are measured. LL_PROMPT, else 256: events of a piece that are the
# prompt; LL_TOKENS, else 768: events that follow.
set -eu
tree=$(cd "$(dirname "$0")/../.." && pwd)
program=$(realpath "${LL_PROGRAM:-$tree/build/longline}")
cd "${LL_RUNS:?"LL_RUNS is to name the folder that run.sh works in"}"
prompt=${LL_PROMPT:-256}
tokens=${LL_TOKENS:-768}
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT

pairs() { # lines "time_pitch onset_duration" -> "pieces,mean,error,mean,error"
    awk '{ n++; for (i = 1; i <= 2; i++) { s[i] += $i; q[i] += $i * $i } }
        END {
            if (!n) exit 1
            printf "%d", n
            for (i = 1; i <= 2; i++) {
                v = n > 1 ? (q[i] - s[i] * s[i] / n) / (n - 1) : 0
                printf ",%.4f,%.4f", s[i] / n, sqrt((v > 0 ? v : 0) / n)
            }
            print ""
        }'
}

# Runs a command, its output into $work/out. The status is 1 if it fails for this reason; for another one the script ends.
attempt() { # REASON COMMAND..
    reason=$1
    shift
    if "$@" >"$work/out" 2>"$work/err"; then return 0; fi
    if grep -q "$reason" "$work/err"; then return 1; fi
    cat "$work/err" >&2
    exit 1
}

compare() { # A B -> a line of $work/pairs; none where one of them has no notes to compare
    attempt 'there are no notes' "$program" data compare "$1" "$2" || return 0
    awk -F= '$1 ~ /time_pitch|onset_duration/ { printf "%s ", $2 } END { print "" }' "$work/out" >>"$work/pairs"
}

continue_all() { # RUN
    for piece in made/pop909/test/*.mid; do
        attempt 'no event was generated' "$program" generate "$1/best.safetensors" --prompt-file "$piece" \
            --prompt-tokens "$prompt" --tokens "$tokens" --out "$work/continued.mid" --threads 1 ||
            continue # a piece that ends within the prompt
        compare "$work/continued.mid" "$piece"
    done
}

row() { # NAME
    if ! measured=$(pairs <"$work/pairs"); then
        echo "continuations.sh: $1: no piece was compared" >&2
        exit 1
    fi
    echo "$1,$measured"
    : >"$work/pairs"
}

echo run,pieces,time_pitch,error,onset_duration,error
: >"$work/pairs"
for run in music-*; do
    [ -f "$run/best.safetensors" ] || continue
    continue_all "$run"
    row "$run"
done
last=
for piece in made/pop909/test/*.mid; do
    [ -z "$last" ] || compare "$piece" "$last"
    last=$piece
done
row "another piece"
