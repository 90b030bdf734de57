# The approximate kernels that papers compare with: trained for a few steps on the demo's text and evaluated. Those that
# are causal and can stream also generate. What they cannot do is refused.
tiny="--set data.format=demo --set model.layers=2 --set model.width=16 --set model.heads=2 --set model.ff=16
--set attention.query-multiple=1 --set position.type=none --set position.decay=none --set train.length=64
--set train.batch=2 --set train.steps=6 --set train.warmup=2 --set train.eval-batches=2"
recipe=$root/recipes/text-bytes.ini
# shellcheck disable=SC2086
train() { kernel=$1 && shift && "$longline" train "$recipe" $tiny --set "attention.kernel=$kernel" "$@"; }

for kernel in value local; do
    t 0 train $kernel --set attention.window=20 --out $kernel
    m=$kernel/best.safetensors
    t 0 "$longline" eval $m --set train.length=96
    out "^eval.bits_per_byte=[0-9.]+$"
    t 0 "$longline" generate $m --prompt 'line' --tokens 200
    check "$kernel generates" test "$(wc -c <out)" -eq 200
    t 0 "$longline" inspect $m
    cost=$(value inspect.multiply_adds_per_token) stream=$(value inspect.stream_bytes)
    t 0 "$longline" inspect $m --length 100000
    check "$kernel: a token costs the same after many" test "$(value inspect.multiply_adds_per_token)" = "$cost"
    check "$kernel: a stream holds the same after many" test "$(value inspect.stream_bytes)" = "$stream"
done
t 0 "$longline" inspect value/best.safetensors
check "value has no queries and keys" sh -c "! grep -qE '^tensor .*(query|key)\.weight' out"
refused "favor or relu" train local --out w --set position.type=permute
t 0 train reformer --set attention.chunk=8 --set position.type=rope --out reformer
t 0 "$longline" eval reformer/best.safetensors
t 0 "$longline" generate reformer/best.safetensors --tokens 90 --seed 3
cp out whole
t 0 "$longline" generate reformer/best.safetensors --tokens 40 --seed 3 --save-state reformer.state
cp out first
t 0 "$longline" generate reformer/best.safetensors --tokens 50 --seed 3 --load-state reformer.state
check "reformer: a stream goes on" sh -c 'cat first out | cmp - whole'
refused "make it even" train reformer --out w --set attention.buckets=5
refused "are the same; use rope" train reformer --out w --set position.type=conv-spe
refused "attention.window" train local --out w --set attention.window=0
refused 'attention.kernel = value has none' train value --out w --set position.type=rope
refused "attention.normalise=on" train value --out w --set attention.normalise=off
check "no file is left" test ! -e w

# ---- Whole sequences: small images, of two classes ----
small_text
{ printf '\000\000\010\003\000\000\000\040\000\000\000\004\000\000\000\004'; head -c 512 text.txt; } >images
{ printf '\000\000\010\001\000\000\000\040'; for i in 1 2 3 4 5 6 7 8; do printf '\000\001\001\000'; done; } >labels
images="--set model.task=classify --set model.classes=2 --set model.layers=1 --set data.format=idx --set train.length=16
--set data.train=images --set data.train-labels=labels --set data.test=images --set data.test-labels=labels"
for kernel in linformer nystrom reformer value local; do
    # shellcheck disable=SC2086
    t 0 train $kernel $images --set attention.max-length=17 --set attention.projected-length=4 \
        --set attention.landmarks=4 --set attention.chunk=4 --set attention.buckets=4 --out images-$kernel
    out "^train.valid_accuracy=[0-9.]+$"
    t 0 "$longline" eval images-$kernel/best.safetensors
    out "^eval.count=32$"
    t 0 "$longline" inspect images-$kernel/best.safetensors
    out "^inspect.multiply_adds_per_token=[0-9]+$"
done
refused "sees only earlier tokens; use local" train nystrom --out w
refused "sees only earlier tokens; use local" train linformer --out w
# shellcheck disable=SC2086
refused "set train.length=15 or less, or, in a new model, attention.max-length=16$" train linformer $images --set attention.max-length=15 --out w
check "no file is left" test ! -e w
