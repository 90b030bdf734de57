# longline attend with files that exist, and with wrong ones. Test programs check the numbers.
shared=${LL_SHARED:-$root/../shared}
golden=$shared/golden
if [ ! -d "$golden" ]; then
    skip "attend on the golden cases: there is no folder ../shared/golden"
else
    c=$golden/relu-proj-causal.safetensors
    t 0 "$longline" attend "$c" -o whole.safetensors
    out "^attend.out=whole.safetensors$"
    check "the result has y and gradients" sh -c "head -c 2000 whole.safetensors | grep -q '\"grad.q\"'"
    t 0 "$longline" attend "$c" -o again.safetensors --threads 1
    check "one thread, same bits" cmp whole.safetensors again.safetensors
    t 0 "$longline" attend "$c" --out stream.safetensors --streaming
    check "the stream's result has y" sh -c "head -c 2000 stream.safetensors | grep -q '\"y\"'"
    t 0 "$longline" attend "$c" -o tile.safetensors --tile 7
    t 0 "$longline" attend "$c" -o scalar.safetensors --cpu scalar
    for c in permute-bidir permute2d-bidir favor-eps0-causal softmax-bidir permute-decay-causal rope-linear-relu-causal \
        sine-spe-relu-causal conv-spe2d-gated-relu-bidir relative-s1-2d-bidir; do
        t 0 "$longline" attend "$golden/$c.safetensors" -o o.safetensors
        rm -f o.safetensors
    done
    refused "later" "$longline" attend "$golden/relative-s1-1d-causal.safetensors" -o o.safetensors --streaming
    refused "causal|later" "$longline" attend "$golden/permute-bidir.safetensors" -o o.safetensors --streaming
    check "a refused input leaves no file" test ! -e o.safetensors
    : >file
    refused "there is no folder file/" "$longline" attend "$golden/relu-proj-causal.safetensors" -o file/o.safetensors
    refused "there is no folder nowhere/" "$longline" attend "$golden/relu-proj-causal.safetensors" -o nowhere/o.safetensors
    cp "$golden/relu-proj-causal.safetensors" own.safetensors
    refused "own.safetensors: it would overwrite" "$longline" attend own.safetensors -o own.safetensors
    head -c 5000 "$golden/relu-proj-causal.safetensors" >cut.safetensors
    refused "cut.safetensors" "$longline" attend cut.safetensors -o o.safetensors
fi
# A stream of 200,000 zeros takes long with exact attention, and says how far it is.
axes='"dtype":"F32","shape":[1,1,200000,16],"data_offsets"'
header='{"__metadata__":{"kernel":"exact","causal":"1","position":"none","logit_scale":"1"},"q":{'$axes':[0,12800000]},'
header=$header'"k":{'$axes':[12800000,25600000]},"v":{'$axes':[25600000,38400000]}}'
{ printf '\100\001\000\000\000\000\000\000%-320s' "$header" && head -c 38400000 /dev/zero; } >long.safetensors
told "^reading the tokens, one at a time: [0-9]+ %, eta [0-9:]+$" "$longline" attend long.safetensors -o o.safetensors \
    --streaming --threads 1
refused "missing.safetensors" "$longline" attend missing.safetensors -o o.safetensors
