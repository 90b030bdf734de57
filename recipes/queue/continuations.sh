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
cd "${LL_RUNS:?"LL_RUNS is to name the folder that run.sh works in"}"
program=${LL_PROGRAM:-$tree/build/longline}
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

compare() { # A B
    "$program" data compare "$1" "$2" 2>/dev/null | awk -F= '$1 ~ /time_pitch|onset_duration/ { printf "%s ", $2 } END { print "" }'
}

continue_all() { # RUN
    for piece in made/pop909/test/*.mid; do
        "$program" generate "$1/best.safetensors" --prompt-file "$piece" --prompt-tokens "$prompt" --tokens "$tokens" \
            --out "$work/continued.mid" --threads 1 >/dev/null 2>&1 || continue # a piece that is shorter than the prompt
        compare "$work/continued.mid" "$piece"
    done | awk 'NF == 2'
}

echo run,pieces,time_pitch,error,onset_duration,error
for run in music-*; do
    [ -f "$run/best.safetensors" ] || continue
    echo "$run,$(continue_all "$run" | pairs)"
done
last=
for piece in made/pop909/test/*.mid; do
    [ -z "$last" ] || compare "$piece" "$last"
    last=$piece
done | awk 'NF == 2' | { echo "another piece,$(pairs)"; }
