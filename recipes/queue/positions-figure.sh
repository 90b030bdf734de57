#!/bin/sh
# The loss of the models of music at each place of a piece, from its first event on, far beyond the length of training:
# docs/results/music-positions.csv, the mean over test pieces in steps of 128 events, and its figure music-positions.svg. Needs a
# build in build/.
#
#     LL_RUNS=/somewhere recipes/queue/positions-figure.sh          of the runs music-* in LL_RUNS, the folder of run.sh
set -eu
tree=$(cd "$(dirname "$0")/../.." && pwd)
build=$tree/build
rows=$tree/docs/results/music-positions.csv
program=$(realpath "${LL_PROGRAM:-$build/longline}")
cd "${LL_RUNS:?"LL_RUNS is to name the folder that run.sh works in"}"
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT

# The names of systems, from the table of music.
sed -n '/^table music/,/^$/s/^row //p' "$tree/recipes/queue/tables.txt" >"$work/systems"
echo "system,event,nats,events" >"$work/rows"
while read -r system label; do
    model=music-$system-1/best.safetensors
    [ -f "$model" ] || continue
    "$program" score "$model" made/pop909/test/*.mid --per-token --threads 1 -o "$work/tokens.csv" </dev/null
    awk -F, -v label="$(echo "$label" | tr -d ,)" -v step=128 -v most=4096 '
        $2 > 0 && $2 < most { i = int($2 / step); sum[i] -= $4; n[i]++ }
        END { for (i = 0; i < most / step; i++) if (n[i]) printf "%s,%d,%.4f,%d\n", label, (i + 0.5) * step, sum[i] / n[i], n[i] }' \
        "$work/tokens.csv" >>"$work/rows"
done <"$work/systems"
mv "$work/rows" "$rows"
${CC:-cc} -I"$tree/include" "$tree/recipes/draw.c" -o "$work/draw" -L"$build" -llongline-lab -llongline -Wl,-rpath,"$build"
"$work/draw" "$rows" "$tree/docs/results/music-positions.svg" \
    "POP909: loss by the place in a piece, trained on windows of 512 events" event nats
echo "nats an event, from event 1,000 on:"
awk -F, 'NR > 1 { if (!($1 in n)) name[++names] = $1; if ($2 > 1000) { sum[$1] += $3; n[$1]++ } else n[$1] += 0 }
    END { for (i = 1; i <= names; i++) printf "%s: %.2f\n", name[i], sum[name[i]] / n[name[i]] }' "$rows"
