# What is exported: training in between, weights that do not fit, folders that cannot be written, and the time that it takes.
# import.sh compares exports with what was imported.
python=/usr/bin/python3
if ! $python -c 'import numpy' 2>/dev/null; then
    skip "exported models: no python3-numpy here (make deps installs it)"
    exit 0
fi
t 0 $python "$root/tests/python/write_models.py" models
for name in gpt2 gpt2-bare-f16; do t 0 "$longline" import models/$name -o $name.safetensors; done
# What the help of export shows is run as it stands, in a short training.
mkdir shown && cp -r models/gpt2-text shown/gpt2
awk 'BEGIN {for (i = 0; i < 999; i++) print i * i " in the hat"}' >shown/my.txt
"$longline" export --help >out
{
    printf 'set -e\nlongline() { "%s" "$@"; }\n' "$longline"
    sed -n '/^  longline train/s/$/ --set train.steps=2 --set train.warmup=0 --set train.report=off/; /^  longline/p' out
} >shown/commands
t 0 sh -c 'cd shown && sh commands'
check "it is all of a folder" test "$(ls shown/gpt2)" = "$(ls shown/gpt2-tuned)"
# A weight that the folder's type cannot hold does not become infinite.
cp gpt2-bare-f16.safetensors large.safetensors
poke large.safetensors embedding.weight
t 2 "$longline" export large.safetensors large
err "tensor wte.weight has the weight 3e\+38, which its type, F16, cannot hold; .* import one with F32 weights"
check "no folder is left" test ! -e large
# A folder is written as a whole, or not.
cp -r models/gpt2 before
last="export, with files limited to 5 kB"
for folder in before new; do
    (ulimit -f 10; "$longline" export gpt2.safetensors $folder >out 2>err)
    check "exit code 1" test $? -eq 1
    err "cannot write .*$folder/[a-z.]+: File too large"
done
check "what was there stays" diff -r before models/gpt2
check "no new folder is left" test ! -e new
# A model of 400 layers takes a moment. Where each tensor is looked for among all, it would exceed the time limit.
$python -c "
import sys
sys.path.insert(0, '$root/tests/python'), sys.path.insert(0, '$root/tests/python/reference')
import families, write_models
write_models.save('deep', *families.llama(layers=400, width=16, n_head=2, groups=2, head=8)[:2], 'F32', 1)"
t 0 "$longline" import deep -o deep.safetensors
t 0 timeout 30 "$longline" export deep.safetensors deep-again
check "it comes back byte for byte" diff -r deep deep-again
: >file
refused "file is a file; name a folder" "$longline" export gpt2.safetensors file
refused "there is no such format; give hf" "$longline" export gpt2.safetensors elsewhere --to onnx
mkdir beside && cp gpt2.safetensors beside/model.safetensors
refused "beside/model.safetensors is not of an earlier export" "$longline" export beside/model.safetensors beside
check "the model is still there" cmp beside/model.safetensors gpt2.safetensors
mkdir named && cp gpt2.safetensors named/config.json
refused "named/config.json is not of an earlier export" "$longline" export named/config.json named
check "so is one of another name" cmp named/config.json gpt2.safetensors
check "nothing is written" test "$(ls named)" = config.json

# A model that was not imported, or has changed its form since, is not exported.
small_text
# shellcheck disable=SC2086
t 0 "$longline" train "$root/recipes/text-bytes.ini" --data text.txt --out run $small
refused "the model was not imported" "$longline" export run/best.safetensors elsewhere
check "no folder is made" test ! -e elsewhere
