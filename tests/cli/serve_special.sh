# longline serve: the tokens that go before and after every text of an imported model, as other commands have them
# (serve_special.py).
python=/usr/bin/python3
if "$longline" serve nowhere --listen 127.0.0.1:0 2>&1 | grep -q libmicrohttpd || ! $python -c 'import numpy' 2>/dev/null; then
    skip "imported models served: no libmicrohttpd or no python3-numpy here"
    return 0
fi
t 0 $python "$root/tests/python/write_models.py" models
# A GPT-2 whose vocabulary has <s> and </s>.
sed -i 's/"<|endoftext|>"/"<s>"/; s/"ĊĊ"/"<\/s>"/' models/gpt2-text/vocab.json
grep -v 'Ċ Ċ' models/gpt2-text/merges.txt >merges
mv merges models/gpt2-text/merges.txt
t 0 "$longline" import models/gpt2-text -o model.safetensors
mkdir served
t 0 "$longline" import models/bert -o served/bert.safetensors
refused "served/bert.safetensors: the model knows 41 tokens, .* without its tokenizer, import it with that" \
    timeout 20 "$longline" serve model.safetensors --models served --listen 127.0.0.1:0
t 0 "$longline" quantize model.safetensors --weights int8 -o served/bert.safetensors
refused "served/bert.safetensors: the weights of this model are int8 already" \
    timeout 20 "$longline" serve model.safetensors --models served --weights int4 --listen 127.0.0.1:0
printf a >a
t 0 "$longline" tokenize model.safetensors --ids a
out '^299 64 261$'
mkdir work
$python -B "$root/tests/cli/serve_special.py" "$longline" model.safetensors work
check "the client ended" test $? = 0
