# A model of words as a user trains it; what it knows of words it brings along.
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
t 0 "$longline" generate run/best.safetensors --prompt 'line 3 of' --echo --tokens 40 --seed 2
out "^line 3 of"
check "words come out" sh -c "tr -s ' \n' '\n\n' <out | grep -v '^$' | sort -u | grep -cqE '^(line|of|says|[0-9]+)$'"
err "40 tokens, "
t 0 "$longline" generate run/best.safetensors --tokens 3
mv elsewhere text.txt
t 0 "$longline" train --resume run --set train.steps=40
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
    --set data.vocab-size=300 --out pieces >out 2>err </dev/null
if grep -q "without SentencePiece" err; then
    check "without SentencePiece a run says so" grep -q "libsentencepiece-dev" err
else
    out "^train.valid_bits_per_piece=[0-9.]+$"
    mv text.txt elsewhere
    t 0 "$longline" eval pieces/best.safetensors --split valid
    out "^eval.bits_per_byte=[0-9.]+$"
    out "^eval.word_perplexity=[0-9.]+$"
    t 0 "$longline" generate pieces/best.safetensors --prompt 'line 3 of' --echo --tokens 20
    out "^line 3 of"
    mv elsewhere text.txt
fi
