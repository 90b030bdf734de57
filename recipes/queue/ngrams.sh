#!/bin/sh
# What n-grams with Kneser-Ney smoothing reach on the data of the recipes, as CSV: loss in nats a token, perplexity, bits a token.
#
#     LL_RUNS=/somewhere recipes/queue/ngrams.sh >docs/results/ngrams.csv
#
# LL_RUNS is the folder that run.sh made, with data/ and made/ in it.
set -eu
tree=$(cd "$(dirname "$0")/../.." && pwd)
program=$(realpath "${LL_PROGRAM:-$tree/build/longline}")
cd "${LL_RUNS:?"LL_RUNS is to name the folder that run.sh works in"}"
out=$(mktemp)
trap 'rm "$out"' EXIT

rows() { # NAME RECIPE ORDER..
    name=$1
    recipe=$2
    shift 2
    for order in "$@"; do
        "$program" data ngrams "$tree/recipes/full/$recipe" --order "$order" --threads 1 >"$out"
        awk -F= -v name="$name" '{ v[$1] = $2 }
            END { print name "," v["ngrams.order"] "," v["ngrams.count"] "," v["ngrams.loss"] "," v["ngrams.perplexity"] "," \
                      v["ngrams.bits_per_token"] }' "$out"
    done
}

echo data,order,tokens,loss,perplexity,bits
rows "words of WikiText-2" wikitext.ini 1 2 3 4 5
rows "bytes of WikiText-2" wikitext-bytes.ini 2 4 6 8 10 12
rows "proteins" protein-causal.ini 1 2 3 4 5
if [ -d made/pop909 ]; then rows "events of POP909" music.ini 1 2 3 5 8; fi
