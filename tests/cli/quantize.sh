# longline quantize: smaller weights, in a smaller file that every command reads.
small_text
recipe=$root/recipes/text-bytes.ini
# shellcheck disable=SC2086
t 0 "$longline" train "$recipe" --data text.txt $small --set model.width=64 --set model.ff=256 --out run
size() { wc -c <"$1"; }
for kind in bf16 int8 int4; do
    t 0 "$longline" quantize run/best.safetensors -o $kind.safetensors --weights $kind
    out "^quantize\.bytes=$(size $kind.safetensors)$"
    t 0 "$longline" inspect --verify $kind.safetensors
    t 0 "$longline" inspect $kind.safetensors
    out '^tensor blocks\.0\.feed\.in\.weight 64x256$'
    t 0 "$longline" eval $kind.safetensors --data text.txt
    grep '^eval.loss' out >stored
    t 0 "$longline" eval run/best.safetensors --data text.txt --weights $kind
    check "$kind in a file is $kind on the way" grep -qxF "$(cat stored)" out
    t 0 "$longline" generate $kind.safetensors --prompt 'line 7' --tokens 60 --seed 2 --save-state $kind.state
    t 0 "$longline" generate $kind.safetensors --tokens 20 --load-state $kind.state
done
check "8 bits are less than 16, and 4 less than 8" test "$(size bf16.safetensors)" -gt "$(size int8.safetensors)" -a \
    "$(size int8.safetensors)" -gt "$(size int4.safetensors)"
t 0 "$longline" quantize int8.safetensors -o again.safetensors --weights int8
check "writing it again gives the same file" cmp -s int8.safetensors again.safetensors
t 0 "$longline" quantize run/best.safetensors -o again.safetensors --weights int8
out "^quantize\.bytes_before=$(size run/best.safetensors)$"
refused "it would overwrite the model" "$longline" quantize run/last.safetensors -o run/last.safetensors --weights int8
# A run can start with the weights of a quantized model.
# shellcheck disable=SC2086
t 0 "$longline" train "$recipe" --data text.txt $small --set model.width=64 --set model.ff=256 --from int8.safetensors --out next
refused 'state of a model with weights int8, and this one has int4' "$longline" generate int4.safetensors --load-state int8.state
refused 'are int4 already; load the model that they were made of' "$longline" quantize int4.safetensors -o x --weights int8
refused 'are int4 already' "$longline" generate int4.safetensors --weights f32
refused 'needs f32, bf16, int8 or int4' "$longline" quantize run/best.safetensors -o x --weights int3
refused 'f32 makes nothing smaller; give bf16, int8 or int4' "$longline" quantize run/best.safetensors -o x --weights f32
refused '--out /dev/null: it is a pipe or a device' "$longline" quantize run/best.safetensors -o /dev/null
refused 'needs --out' "$longline" quantize run/best.safetensors
refused 'cannot open nothing' "$longline" quantize nothing -o x
# Errors name the damage: a scale that is not finite, a tensor of another type, an unknown kind.
damaged() { sed "$1; s/\"xxh3/\"none/g" int4.safetensors >damaged.safetensors; }
damaged 's/"weights": *"int4"/"weights":"int5"/'
refused 'weights are "int5"; this program reads f32, bf16, int8 and int4' "$longline" eval damaged.safetensors
damaged 's/"weights": *"int4"/"weights":"int8"/'
refused 'has not the type or the shape' "$longline" eval damaged.safetensors
damaged 's/x/x/'
header=$(od -An -tu8 -N8 int4.safetensors | tr -d ' ')
scale=$(head -c "$header" int4.safetensors | grep -aoE '"blocks\.0\.feed\.in\.weight\.scale": *\{[^}]*' |
    sed 's/.*"data_offsets": *\[\([0-9]*\).*/\1/')
printf '\200\177' | dd of=damaged.safetensors bs=1 seek=$((8 + header + scale)) conv=notrunc 2>err
refused 'tensor blocks.0.feed.in.weight.scale is not finite at element 0' "$longline" eval damaged.safetensors
check "nothing else was written" test ! -e x
