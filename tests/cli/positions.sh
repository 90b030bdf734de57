# Positions in the logits, in heads without keys, or as random rotations: each can be trained, evaluated, and generates.
# shellcheck disable=SC2086
tiny="$small --set data.format=demo --set train.steps=6 --set train.eval-every=0 --set train.eval-batches=1"
printf '[model]\ntask = lm\n' >tiny.ini
try() { # NAME TENSOR KEYS...: a language model
    name=$1 tensor=$2
    shift 2
    sets=
    for key in "$@"; do sets="$sets --set $key"; done
    t 0 "$longline" train tiny.ini --out "$name" $tiny $sets
    out "^train.valid_bits_per_byte=[0-9.]+$"
    t 0 "$longline" eval "$name/best.safetensors"
    out "^eval.bits_per_byte=[0-9.]+$"
    t 0 "$longline" inspect "$name/best.safetensors"
    out "$tensor"
    t 0 "$longline" generate "$name/best.safetensors" --tokens 20 --seed 3
    check "$name writes" test -s out
}
try s2 "blocks.0.position.rpe" attention.kernel=favor position.type=relative-s2 position.clip=4
try s2relu "blocks.0.position.rpe" attention.kernel=relu position.type=relative-s2
try t5 " position.bias" attention.kernel=softmax position.type=t5 position.shared=on
try shaw "blocks.0.position.distance_v" attention.kernel=softmax position.type=shaw position.clip=5
try matrix "blocks.0.attention.query" attention.kernel=relu position.type=orthogonal position.decay=fixed
refused "model.heads = 1" "$longline" train tiny.ini --out w $tiny --set position.type=relative-s2 --set model.heads=1
refused "use softmax" "$longline" train tiny.ini --out w $tiny --set attention.kernel=relu --set position.type=t5
refused "favor or relu" "$longline" train tiny.ini --out w $tiny --set position.type=orthogonal
refused "position.clip" "$longline" train tiny.ini --out w $tiny --set position.clip=300

# Images: a window of pixels, with the CLS token in the row below.
small_text
{ idx_images 32 5 6; head -c 960 text.txt; } >images
idx_labels 32 2 >labels
cat >images.ini <<'END'
[model]
task = classify
vocab = 256
classes = 3
layers = 1
width = 16
heads = 2
ff = 32
pool = first
[attention]
kernel = favor
num-features = 16
[position]
type = relative-s2
image = on
clip = 3
[train]
length = 0
batch = 8
steps = 6
warmup = 2
[data]
format = idx
train = images
train-labels = labels
test = images
test-labels = labels
END
t 0 "$longline" train images.ini --out pictures
out "^train.valid_accuracy=[0-9.]+$"
t 0 "$longline" eval pictures/best.safetensors
out "^eval.count=32$"
t 0 "$longline" train images.ini --out bidirectional --set attention.kernel=softmax --set position.type=shaw
out "^train.valid_accuracy=[0-9.]+$"
check "no file is left" test ! -e w
