# A model of words. Its list of words is in its file.
small_text
awk 'BEGIN {for (i = 0; i < 90; i++) print "line", i, "says", i % 9}' >other.txt
# shellcheck disable=SC2086
t 0 "$longline" train "$root/recipes/wikitext-words.ini" --data text.txt $small --set data.valid=other.txt --set data.test=other.txt \
    --out run
out "^train.valid_bits_per_word=[0-9.]+$"
out "^train.unigram_perplexity=[0-9.]+$"
mv text.txt elsewhere
t 0 "$longline" eval run/best.safetensors
out "^eval.bits_per_byte=[0-9.]+$"
out "^eval.perplexity=[0-9.]+$"
err "no baseline: .*text.txt"
out "^eval.unknown=0.0000$"
not_err "unknown"
refused "trained with data.format = words, where they are words$" "$longline" eval run/best.safetensors --data other.txt \
    --set data.format=bytes
printf 'line neverseen of\nline 3 of\n' >strange
t 0 "$longline" eval run/best.safetensors --data strange --set train.length=4 --set train.batch=1
out "^eval.unknown=0.14"
err ": 14 % of the tokens are unknown words, .*: bits_per_byte is too low"
t 0 "$longline" generate run/best.safetensors --prompt 'line 3 of' --echo --tokens 40 --seed 2
out "^line 3 of[ \t]"
check "only words come out" sh -c "! tr -s ' \n' '\n\n' <out | grep -v '^$' | grep -vqE '^(line|of|says|[0-9]+)$'"
err "40 tokens, "
t 0 "$longline" generate run/best.safetensors --tokens 3

# ---- Scores and vectors of texts in words; long ones line by line, as a stream ----
printf 'line 3 of text\nneverseen of of\n' >two
t 0 "$longline" score run/best.safetensors two
out "^id	tokens	logp	bits_per_word	perplexity$"
out "^1	3	-[0-9.]+	"
out "^2	2	-[0-9.]+	"
t 0 "$longline" score run/best.safetensors two --whole
out "^two	8	-" # ends of lines are tokens, too
t 0 "$longline" score run/best.safetensors two --length 2
out "^1	1	-"
t 0 "$longline" encode run/best.safetensors two --pool all --json
out '"id":"1","tokens":4,'
i=0
while [ $i -lt 60 ]; do cat other.txt; i=$((i + 1)); done >long.txt
head -n 100 long.txt >short.txt
t 0 "$longline" score run/best.safetensors short.txt --whole --per-token
tail -n +2 out | cut -f 2-4 >short
t 0 "$longline" score run/best.safetensors long.txt --whole --per-token
check "a long text has all its tokens" test "$(tail -n +2 out | wc -l)" -eq $((5 * $(wc -l <long.txt)))
tail -n +2 out | head -n "$(wc -l <short)" | cut -f 2-4 | paste short - |
    awk '$1 != $4 || $2 != $5 || (NR > 1 && ($3 - $6) ^ 2 > 1e-8) {exit 1} END {exit NR != 500}'
check "the same piece by piece and at once" test $? -eq 0
t 0 "$longline" score run/best.safetensors long.txt --whole --length 2500
out "^long.txt	2499	-"
mv elsewhere text.txt
t 0 "$longline" train --resume run --set train.steps=40
t 0 "$longline" report run
check "the page has text in words" grep -qE "(line|of|says|[0-9]+) (line|of|says|[0-9]+) (line|of|says|[0-9]+)" run/report.html
check "it counts words" grep -q "bits per word" run/report.html
# shellcheck disable=SC2086
refused "vocab" "$longline" train "$root/recipes/wikitext-words.ini" --data text.txt $small --set data.valid= --out w \
    --set model.vocab=20
# shellcheck disable=SC2086
t 0 "$longline" train "$root/recipes/text-bytes.ini" --data text.txt $small --out bytes
t 0 "$longline" eval bytes/best.safetensors
out "^eval.bits_per_word=[0-9.]+$"
out "^eval.word_perplexity=[0-9.]+$"

# ---- Pieces of words, where the program has SentencePiece ----
last="train, pieces"
# shellcheck disable=SC2086
"$longline" train "$root/recipes/wikitext-words.ini" --data text.txt $small --set data.valid=other.txt --set data.format=pieces \
    --set data.test= --set data.vocab-size=300 --out pieces >out 2>err </dev/null
if grep -q "without SentencePiece" err; then
    check "without SentencePiece a run says so" grep -q "libsentencepiece-dev" err
else
    out "^train.valid_bits_per_piece=[0-9.]+$"
    refused "data.vocab-size = 9 is too small for this text: its characters alone are [0-9]+ tokens" "$longline" train \
        "$root/recipes/wikitext-words.ini" --data text.txt $small --set data.valid=other.txt --set data.format=pieces \
        --set data.test= --set data.vocab-size=9 --out few
    refused "data.vocab-size = 1 has no room" "$longline" train "$root/recipes/wikitext-words.ini" --data text.txt $small \
        --set data.valid=other.txt --set data.format=pieces --set data.test= --set data.vocab-size=1 --out few
    mv text.txt elsewhere
    t 0 "$longline" eval pieces/best.safetensors --split valid
    out "^eval.bits_per_byte=[0-9.]+$"
    out "^eval.word_perplexity=[0-9.]+$"
    t 0 "$longline" generate pieces/best.safetensors --prompt 'line 3 of' --echo --tokens 20
    out "^line 3 of"
    mv elsewhere text.txt
    # SentencePiece takes seconds for many different words, and does not say how far it is.
    awk 'BEGIN {for (i = 0; i < 50000; i++) printf "%d id=%08x%08x %dms\n", i, i * 2654435761 % 4294967296, i * 40503 % 4294967291, i}' >log.txt
    told "^reading the text, whose pieces are learned, 0:[0-9][0-9] so far$" "$longline" train \
        "$root/recipes/wikitext-words.ini" --data log.txt $small --set data.valid=other.txt --set data.format=pieces \
        --set data.test= --out log
fi

# Reading a long prompt reports progress, and a signal ends it: the state is that of what was read.
yes 'line 3 of' | head -c 20000000 >long.txt
told "^tokens read: [0-9]+ of [0-9]+, eta [0-9:]+$" "$longline" generate run/best.safetensors --prompt-file long.txt \
    --save-state read.state
check "a prompt that has not been read to its end" test $code -eq 1
err "stopped while reading the prompt$"
err "state after token [0-9]+ saved"
t 0 "$longline" generate run/best.safetensors --load-state read.state --tokens 3

# So does reading a long text before the first step: here a folder of links to one file.
mkdir long
for i in $(seq 200); do ln long.txt long/$i.txt; done
# shellcheck disable=SC2086
told "^reading (the text|long/[0-9]+.txt): [0-9]+ %, eta [0-9:]+$" "$longline" train "$root/recipes/wikitext-words.ini" --data long \
    $small --set data.valid=long.txt --set data.test= --out longer
