# Tokenizers of imported models: every command reads and writes text with them, and text becomes tokens and back.
python=/usr/bin/python3
if ! $python -c 'import numpy' 2>/dev/null; then
    skip "tokenizers of imported models: no python3-numpy here (make deps installs it)"
    exit 0
fi
t 0 $python "$root/tests/python/write_models.py" models
"$longline" import models/gpt2-text -o gpt2.safetensors >out 2>err
if grep -q 'built without PCRE2' err; then
    refused "built without PCRE2 and utf8proc, which tokenizers of other programs need; build it again where" \
        "$longline" import models/gpt2-text -o gpt2.safetensors
    t 0 "$longline" import models/gpt2-text -o gpt2.safetensors --without-tokenizer
    skip "tokenizers of imported models: built without PCRE2 and utf8proc"
    exit 0
fi
out "^import.tokenizer=yes"

# Half of a text for want of memory would be another text.
yes abcdefgh | head -c 60000000 >big.txt
last="tokenize --lines, with 100 MB"
(ulimit -v 100000; "$longline" tokenize gpt2.safetensors big.txt --lines --threads 1 >out 2>err)
check "a text that does not fit into memory is refused" test $? -eq 1
err 'out of memory'
told "^text: [0-9.]+ [kM]B of 60 MB, eta [0-9:]+$" "$longline" tokenize gpt2.safetensors big.txt --lines
rm big.txt

# The merges of this tokenizer, in order: t h, th e, Gthe, i n, e-acute, two line ends.
printf 'in the th\303\251\n\n<|endoftext|>x\377' >text.bin
t 0 "$longline" tokenize gpt2.safetensors text.bin --ids
check "known tokens: $(cat out)" test "$(cat out)" = "259 258 220 256 260 261 299 87 187"
t 0 "$longline" tokenize gpt2.safetensors text.bin
out '^258	" the"$' && out '^187	"\\xff"$'
# a model by any name, packed, or in the folder of a run
mkdir run && cp gpt2.safetensors run/best.safetensors && cp gpt2.safetensors model8 && gzip -k model8
for model in run model8 model8.gz; do
    t 0 "$longline" tokenize $model text.bin --ids
    check "tokens of $model" test "$(cat out)" = "259 258 220 256 260 261 299 87 187"
done
# any bytes give the same bytes back
head -c 20000 "$longline" >any.bin
"$longline" tokenize gpt2.safetensors any.bin --ids >ids && "$longline" tokenize gpt2.safetensors ids --decode >back
check "any bytes come back" cmp any.bin back
# alone, and as an equivalent tokenizer.json
t 0 "$longline" tokenize models/gpt2-text text.bin --ids
check "the tokenizer's folder gives the same" test "$(cat out)" = "259 258 220 256 260 261 299 87 187"
printf 'ab\ncd\n' | "$longline" tokenize gpt2.safetensors --lines >ids
printf 'ab\r\ncd\r\n' | "$longline" tokenize gpt2.safetensors --lines >out
check "the end of a line may be CR LF" cmp out ids
refused "'97.' is no token" sh -c "printf '97\v\n98\n' | '$longline' tokenize gpt2.safetensors --decode --lines"
refused "'x' is no token" sh -c "echo '1 x' | '$longline' tokenize gpt2.safetensors --decode"
refused "'300' is no token; numbers from 0 to 299 are" sh -c "echo 300 | '$longline' tokenize gpt2.safetensors --decode"

# Commands read and write text.
echo "the thin thing in the inn" >line.txt
"$longline" tokenize gpt2.safetensors line.txt --lines >ids
# shellcheck disable=SC2046
t 0 "$build/examples/log_probabilities" gpt2.safetensors $(cat ids)
mv out table
t 0 "$longline" score gpt2.safetensors line.txt --json
check "score is of these tokens" $python -c "
import json, sys
ids = list(map(int, open('ids').read().split()))
rows = [list(map(float, line.split())) for line in open('table')]
expected = sum(rows[i][ids[i + 1]] for i in range(len(ids) - 1))
got = json.loads(open('out').readline())
value = [v for k, v in got.items() if isinstance(v, float) and abs(abs(v) - abs(expected)) < 1e-3 * abs(expected)]
sys.exit(not value and f'{expected}: {got}')"
t 0 "$longline" generate gpt2.safetensors --prompt "in the" --tokens 12 --seed 3 --echo
out "^in the"
t 0 "$longline" encode gpt2.safetensors line.txt -o vectors.safetensors
for i in 1 2 3 4 5 6 7 8 9; do seq 200; cat line.txt line.txt; done >corpus.txt
t 0 "$longline" eval gpt2.safetensors --data corpus.txt
out "^eval.bits_per_byte="
small="--set model.layers=1 --set model.width=16 --set model.heads=2 --set train.length=32 --set train.steps=2 --set train.batch=2"
# shellcheck disable=SC2086
t 0 "$longline" train "$root/recipes/text-bytes.ini" --data corpus.txt --out own $small --set data.format=subwords \
    --set data.tokenizer=models/gpt2-text --set model.vocab=0
t 0 "$longline" tokenize own/last.safetensors text.bin --ids
check "a model that was trained with it has it" test "$(cat out)" = "259 258 220 256 260 261 299 87 187"
refused "data.format=subwords needs a tokenizer: data.tokenizer, or train.from" \
    "$longline" train "$root/recipes/text-bytes.ini" --data corpus.txt --out other --set data.format=subwords
refused "data.tokenizer = models has no tokenizer.json, no vocab.txt, no tokenizer.model, and no vocab.json" \
    "$longline" train "$root/recipes/text-bytes.ini" --data corpus.txt \
    --out other --set data.format=subwords --set data.tokenizer=models
echo '{"model":' >broken.json
refused "broken.json: its tokenizer is no JSON object" "$longline" train "$root/recipes/text-bytes.ini" --data corpus.txt \
    --out other --set data.format=subwords --set data.tokenizer=broken.json

# Tokens around a text: the vocab.txt of BERT, and that of ESM-2, where each letter is a token.
t 0 "$longline" import models/bert-pairs -o bert.safetensors
echo "Word word" >line.txt
t 0 "$longline" tokenize bert.safetensors line.txt --lines
check "[CLS] and [SEP] go around: $(cat out)" test "$(cat out)" = "2 4 4 3"
t 0 "$longline" tokenize bert.safetensors line.txt --lines --bare
check "it can be left out" test "$(cat out)" = "4 4"
echo "4 4" | "$longline" tokenize bert.safetensors --decode >back
check "text is words again" test "$(cat back)" = "word word"
t 0 "$longline" import models/esm -o esm.safetensors
echo "MKT<mask>L" >line.txt
t 0 "$longline" tokenize esm.safetensors line.txt --lines
check "letters are tokens: $(cat out)" test "$(cat out)" = "0 20 15 11 32 4 2"
"$longline" tokenize esm.safetensors line.txt --lines --bare >ids
t 0 "$longline" tokenize esm.safetensors ids --decode --lines
check "letters are text again: $(cat out)" test "$(cat out)" = "MKT<mask>L"
t 0 "$longline" encode esm.safetensors line.txt -o vectors.safetensors
# A tokenizer with a mask gives that to masked language models: one that was imported is evaluated, trained further and
# exported.
cp -r models/bert-pairs masks && awk 'BEGIN {print "[MASK]"; for (i = 6; i < 41; i++) print "w" i}' >>masks/vocab.txt
awk 'BEGIN {for (i = 0; i < 2000; i++) printf "w%d%s", 6 + i * i % 35, i % 9 ? " " : "\n"}' >masked.txt
t 0 "$longline" import masks -o masks.safetensors
t 0 "$longline" eval masks.safetensors --data masked.txt
out "^eval.loss=[345]"
"$longline" inspect masks.safetensors | sed '/^tensor /,$d; s/^vocab = .*/vocab = 0/' >masks.ini
t 0 "$longline" train masks.ini --from masks.safetensors --data masked.txt --out masks-run \
    --set train.steps=1 --set train.batch=1 --set train.length=16 --set train.warmup=0 --set train.report=off
check "no token is added for the mask" grep -q "^vocab = 41$" masks-run/recipe.ini
t 0 "$longline" export masks-run/last.safetensors masks-again
check "its vocabulary is as large as before" grep -q "vocab_size.*41" masks-again/config.json

# A large vocabulary of this kind. An algorithm that takes O(n^2) would exceed the time limit.
mkdir large && (echo "<unk>" && seq 150000) >large/vocab.txt
echo "1500007" >line.txt
t 0 "$longline" tokenize large line.txt --ids
check "the longest ones are found: $(cat out)" test "$(cat out)" = "150000 7"
t 0 "$longline" import models/gpt2 -o numbers.safetensors
out "^import.tokenizer=no"

# Folders with wrong files.
cp -r models/gpt2-text bad
bad() { # what has to be said
    refused "$1" "$longline" import bad -o bad.safetensors
    check "nothing is written" test ! -e bad.safetensors
}
rm bad/merges.txt
bad "has only one of vocab.json and merges.txt"
echo "q zz" >bad/merges.txt
bad "merge 0 of its tokenizer has a side, or a result, that is no token"
echo '{"a": 300}' >bad/vocab.json && : >bad/merges.txt
bad "its tokenizer has 301 tokens, and config.json says vocab_size = 300; import it with --without-tokenizer"
echo '{' >bad/vocab.json
bad "bad/vocab.json: not JSON at byte 2: "
echo '[]' >bad/vocab.json
bad "bad/vocab.json is no JSON object"
: >bad/tokenizer.json
bad "its tokenizer is no JSON object"
refused "bad: its tokenizer is no JSON object" "$longline" tokenize bad
refused "its tokenizer is no JSON object" "$longline" train "$root/recipes/text-bytes.ini" --data corpus.txt --out other \
    --set data.format=subwords --set data.tokenizer=bad
echo '{"model": {"type": "Magic", "vocab": {"a": 0}}}' >bad/tokenizer.json
bad "its tokenizer has the model \"Magic\", which is not supported"
t 0 "$longline" import bad -o bad.safetensors --without-tokenizer
out "^import.tokenizer=no"
rm bad/tokenizer.json bad/vocab.json bad/merges.txt bad.safetensors
echo x >bad/tokenizer.model
bad "bad/tokenizer.model is damaged, or not a model of SentencePiece"
printf '\022\002\030\003\012\003\012\001a' >bad/tokenizer.model # a model of words
bad "bad/tokenizer.model is of a kind that is not read: only unigram and BPE"
printf '\012\016\012\005<unk>\025\000\000\000\000\030\002' >pieces.model
refused "pieces.model is no tokenizer.json, but a file of SentencePiece; put it into a folder as tokenizer.model" \
    "$longline" tokenize pieces.model one
# What SentencePiece trains is read without SentencePiece, and cuts text as it does (ties of equal sums apart).
if command -v spm_train >/dev/null && command -v spm_encode >/dev/null; then
    grep -v '^$' "$root/src/data/text/demo.txt" | grep -v '<' | head -1500 >lines
    for kind in unigram bpe; do
        mkdir "$kind"
        t 0 spm_train --input=lines --model_prefix="$kind/m" --vocab_size=600 --model_type=$kind --byte_fallback=true \
            --minloglevel=2
        mv "$kind/m.model" "$kind/tokenizer.model" && rm "$kind/m.vocab"
        printf '  two  blanks \n日本 été ﬁn ½\n' >>lines
        spm_encode --model="$kind/tokenizer.model" --output_format=id <lines >expected
        t 0 "$longline" tokenize "$kind" lines --ids --lines
        different=$(paste -d '|' expected out | awk -F '|' '$1 != $2' | wc -l)
        check "$kind: $different of 1500 lines are cut otherwise" test "$different" -le 15
        echo '{"tokenizer_class": "LlamaTokenizer", "add_eos_token": true}' >"$kind/tokenizer_config.json"
        echo 'hello world' >one
        t 0 "$longline" tokenize "$kind" one --ids --lines
        out "^1 .* 2$"
        cp out numbers
        t 0 "$longline" tokenize "$kind" numbers --decode
        out '^<s> hello world</s>$'
    done
else skip "models that SentencePiece trains: no spm_train and spm_encode here"; fi
refused "models has no tokenizer" "$longline" tokenize models
refused "MODEL" "$longline" tokenize
