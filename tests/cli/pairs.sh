# Encoder-decoders: generated pairs, pairs of texts from a file, wrong files; and packed lines.
# ---- A toy ----
tiny='--set model.width=16 --set model.heads=2 --set model.ff=16 --set attention.query-multiple=2 --set train.batch=4
    --set train.steps=60 --set train.eval-batches=2 --set train.warmup=2'
# shellcheck disable=SC2086
toy() { "$longline" train "$root/recipes/copy.ini" $tiny "$@"; }
t 0 toy --out toy
out "^train.valid_bits_per_token=[0-9.]+$"
model=toy/best.safetensors
row=$(sed -n '/should become/,/<\/table>/p' toy/report.html | grep '<th scope="row">' | head -n 1)
check "it has 12 of them, though a batch has 4" test "$(sed -n '/should become/,/<\/table>/p' toy/report.html | grep -c '<th scope="row">')" -eq 12
source=$(echo "$row" | sed 's/.*<th scope="row">\([^<]*\)<.*/\1/')
t 0 "$longline" generate $model --prompt "$source" --tokens 34 --temperature 0
check "the page has the answers that generate gives" test "$(cat out)" = \
    "$(echo "$row" | sed 's/.*<td>\([^<]*\)<.*/\1/')"
t 0 "$longline" eval $model --split test --batches 3
out "^eval.sequences=12$"
out "^eval.exact=[01]\.[0-9]+$"
t 0 "$longline" eval $model --split test --batches 2 --set train.length=50 --set data.shortest=33 --set data.longest=48
out "^eval.sequences=8$"
t 0 "$longline" generate $model --prompt abc --tokens 5 --seed 3
cp out first
err "bytes; the state has [0-9.]+ [kM]?B$"
check "at most 5 bytes and a new line" test "$(wc -c <out)" -le 6
refused "does not continue its source; no --echo" "$longline" generate $model --prompt abc --tokens 5 --echo
t 0 "$longline" generate $model --prompt abc --tokens 1 --seed 3 --save-state counted
t 0 "$longline" generate $model --load-state counted --tokens 1 --seed 3
err "^longline generate: [01] bytes; "
echo abc >source.txt
refused "model.task = seq2seq.* gives no probabilities.*; use generate, eval$" "$longline" score $model source.txt
refused "^longline encode: the model .model.task = seq2seq. has no vectors.*; use generate, eval" "$longline" encode \
    $model source.txt
refused "data.format=bytes has no pairs for model.task=seq2seq; these have: pairs, copy, reverse, copy-reverse$" \
    "$longline" train "$root/recipes/text-bytes.ini" --data source.txt --out w --set model.task=seq2seq
t 0 "$longline" generate $model --prompt-file source.txt --tokens 5 --seed 3
check "the same from a file" cmp out first
t 0 sh -c "printf abc | '$longline' generate $model --prompt-file - --tokens 5 --seed 3"
check "the same from standard input" cmp out first
gzip -c source.txt >source.gz
t 0 "$longline" generate $model --prompt-file source.gz --tokens 5 --seed 3
check "the same from a packed file" cmp out first
head -c 5000000 /dev/zero | tr '\000' a >long.txt
told "^source read: [0-9]+ %, eta [0-9:]+$" "$longline" generate $model --prompt-file long.txt --threads 1 --cpu scalar \
    --save-state cut.state
check "a source that has not been read to its end" test $code -eq 1
err "^longline generate: stopping; again stops at once$"
err "^longline generate: the state was not saved$"
not_err "saving"
check "no state is left" test ! -e cut.state
# ---- It stops and goes on: the source is in the state ----
for m in 1 2; do
    t 0 "$longline" generate $model --prompt abcdef --tokens $((4 * m)) --seed 3
    tr -d '\n' <out >whole$m
done
t 0 "$longline" generate $model --prompt abcdef --only-read --save-state read.state
silent
err "state after byte 0 of the target saved"
t 0 "$longline" generate $model --load-state read.state --tokens 4 --seed 3 --save-state read.state
tr -d '\n' <out >part
check "from the source in a state, the same bytes" cmp part whole1
t 0 "$longline" generate $model --load-state read.state --tokens 4 --seed 3
tr -d '\n' <out >>part
check "4 bytes and 4 more are 8" cmp part whole2
t 0 toy --out learned --set train.steps=1 --set position.type=learned --set position.max-length=64 --set position.cross=none
t 0 "$longline" generate learned --prompt abc --tokens 900 --temperature 0
err "the target ends because the model's learned positions do, after 64 tokens"
printf 'abc\n%0100d\n' 5 >prompts.txt
t 2 "$longline" generate learned --prompts prompts.txt --tokens 3
check "the first prompt has its answer" test "$(wc -l <out)" -eq 1
err "^longline generate: prompts.txt, line 2: "
refused "data.format = copy makes its data" "$longline" eval toy --data source.txt
refused "data.format = copy makes its data" toy --data source.txt --out w
refused "cannot open nostate" "$longline" generate $model --load-state nostate
refused "has a source already" "$longline" generate $model --load-state read.state --prompt abc
refused "not the state of a stream" "$longline" generate $model --load-state $model
refused "would leave no result" "$longline" generate $model --prompt abc --only-read

t 0 "$longline" inspect $model
out "^tensor decoder.blocks.0.cross.query.weight 16x32$"
out "^tensor encoder.norm.gain 16$"
out "^inspect.stream_bytes=[0-9]+$"
refused "--prompt" "$longline" generate $model
refused "the source is empty, and no model is trained on such; give it some text$" "$longline" generate $model --prompt ''
printf '\n' >empty.txt
refused "the source is empty" "$longline" generate $model --prompt-file empty.txt
refused "empty.txt, line 1: the source is empty" "$longline" generate $model --prompts empty.txt
refused "missing.txt" "$longline" generate $model --prompt-file missing.txt
refused "train.length=50" toy --out w --set data.longest=48
refused "data.shortest" toy --out w --set data.shortest=40
refused "model.vocab=259" toy --out w --set model.vocab=256
refused "model.task=seq2seq" toy --out w --set model.task=lm --set position.cross=none
refused "start or end" toy --out w --set model.heads=1 --set position.cross=both

# ---- Pairs from a file ----
awk 'BEGIN {for (i = 0; i < 200; i++) printf "%d\tnumber %d\n", i, i % 10}' >pairs.tsv
gzip -k pairs.tsv
pairs() { toy --set data.format=pairs --set attention.kernel=softmax --set position.type=rope "$@"; }
t 0 pairs --data pairs.tsv --out pairs
loss=$(value train.loss)
t 0 pairs --data pairs.tsv.gz --out packed
check "packed or not, the same loss" test "$loss" = "$(value train.loss)"
t 0 "$longline" eval pairs/best.safetensors --data pairs.tsv
out "^eval.sequences=200$"
t 0 "$longline" generate pairs/best.safetensors --prompt 17 --temperature 0 --tokens 9
awk 'BEGIN {for (i = 0; i < 20; i++) {printf "%s", i % 2 ? "b" : "bb"; for (j = 0; j < 75; j++) printf "\342\202\254"; print "\ty"}}' \
    >euros.tsv
t 0 pairs --data euros.tsv --set train.length=240 --set train.steps=2 --out euros
grep -o '<th scope="row">b[^<]*' euros/report.html >sources
check "a long source is cut behind a whole character" sh -c "grep -q '€[.][.][.]$' sources && ! grep -q '�' sources"
printf 'a\tb\nno tab here\n' >bad.tsv
refused "bad.tsv: line 2 has no TAB" pairs --data bad.tsv --out w
printf 'a\tb\tc\n' >bad.tsv
refused "more than one TAB" pairs --data bad.tsv --out w
awk 'BEGIN {while (n++ < 40) printf "x"; print "\ty"}' >bad.tsv
refused "line 1 has a source of 40 bytes.*train.length=42" pairs --data bad.tsv --out w
refused "data.train" pairs --out w

# ---- Lines as documents ----
small_text
# shellcheck disable=SC2086
t 0 "$longline" train "$root/recipes/text-bytes.ini" --data text.txt $small --set model.separator=10 --out lines
out "^train.valid_bits_per_byte=[0-9.]+$"
t 0 "$longline" eval lines/best.safetensors --data text.txt
# Text before a line changes nothing in the line.
t 0 "$longline" generate lines/best.safetensors --prompt "
line 5" --tokens 40 --temperature 0
cp out alone
t 0 "$longline" generate lines/best.safetensors --prompt "something else
line 5" --tokens 40 --temperature 0
check "another line in front, the same line" cmp out alone
refused "model.task=lm" toy --out w --set model.separator=10
