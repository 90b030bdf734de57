# The kernels that papers compare with: trained a few steps on the demo's text, evaluated, and where they are causal
# and stream, generating; and how they refuse what they cannot do.
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
refused "attention.window" train local --out w --set attention.window=0
refused "position.type=none" train value --out w --set position.type=rope
refused "attention.normalise=on" train value --out w --set attention.normalise=off
check "nothing was left behind" test ! -e w
