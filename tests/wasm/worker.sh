# The program of `make wasm` in Node, compared with the native program with plain kernels.
small_text
# shellcheck disable=SC2086
t 0 "$longline" train "$root/recipes/text-bytes.ini" --data text.txt --out run $small
small_images
t 0 "$longline" train images.ini --set data.train=images --set data.train-labels=labels --set data.valid=images \
    --set data.valid-labels=labels --out pictures
# shellcheck disable=SC2086
t 0 "$longline" train "$root/recipes/copy.ini" $small --out copies
tr -d '\n' <text.txt | head -c 3000 >one
model=run/best.safetensors
"$longline" score "$model" one --whole --per-token --json --cpu scalar >scores.json
"$longline" generate "$model" --prompt 'line 17 of' --tokens 400 --temperature 0 --cpu scalar >most-likely
"$longline" generate "$model" --prompt 'line 17 of' --tokens 400 --temperature 0.8 --seed 5 --cpu scalar >drawn
"$longline" quantize "$model" --weights int8 --out int8.safetensors
"$longline" generate int8.safetensors --prompt 'line 17 of' --tokens 400 --temperature 0 --cpu scalar >most-likely-int8
# shellcheck disable=SC2086
t 0 "$longline" train "$root/recipes/text-bytes.ini" --data text.txt --out learned $small --set position.type=learned \
    --set position.max-length=64
cp learned/best.safetensors positions.safetensors
"$longline" generate positions.safetensors --prompt 'line 17 of' --tokens 54 --temperature 0 --cpu scalar >most-likely-positions
head -c 5000 "$model" >short
/usr/bin/python3 "$root/tests/python/write_models.py" models &&
    "$longline" import models/gpt2-text -o imported.safetensors >/dev/null ||
    skip "a model with a tokenizer of another program: no NumPy or no PCRE2 here"
for owner in 'The longline authors' 'Petri Lehtinen' 'Yann Collet' 'D. E. Shaw Research' 'The Emscripten Authors' 'Rich Felker'; do
    check "the folder has the licence of $owner" grep -q "$owner" "$build/wasm/LICENSES.txt"
done
node --no-warnings "$root/tests/wasm/worker_test.mjs" "$build/wasm" "$model" pictures/best.safetensors \
    copies/best.safetensors
check "Node ended" test $? = 0
