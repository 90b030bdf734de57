# Broken models: each command that reads a model says in one line what is wrong, and writes nothing.
small_text
# shellcheck disable=SC2086
t 0 "$longline" train "$root/recipes/text-bytes.ini" --data text.txt $small --out run
m=run/best.safetensors
size=$(wc -c <$m)

each() {
    pattern=$1 file=$2
    refused "$pattern" "$longline" eval "$file"
    refused "$pattern" "$longline" generate "$file" --tokens 3
    refused "$pattern" "$longline" inspect "$file"
    refused "$pattern" "$longline" attend "$file" -o result.safetensors
}
each "missing.safetensors" missing.safetensors
: >empty.safetensors
each "empty.safetensors" empty.safetensors
head -c 7 $m >short.safetensors
each "short.safetensors" short.safetensors
head -c 100 $m >header.safetensors
each "header.safetensors" header.safetensors
head -c $((size - 1)) $m >cut.safetensors
each "cut.safetensors" cut.safetensors
printf 'PK\003\004 something else altogether, and long enough' >magic.safetensors
each "magic.safetensors" magic.safetensors
{ printf '\377\377\377\377\377\377\377\177'; tail -c +9 $m; } >huge.safetensors
each "huge.safetensors" huge.safetensors
mkdir folder
each "folder" folder
# A model is no case, and a case is no model.
refused "best.safetensors" "$longline" attend $m -o result.safetensors
# A flipped bit somewhere in the header: an error or a model, never a crash.
bad=0
for at in 8 9 20 50 90 130 200 300 500 700 1000; do
    { head -c $at $m; printf '\052'; tail -c +$((at + 2)) $m; } >flip.safetensors
    "$longline" inspect flip.safetensors >out 2>err
    code=$?
    [ $code -eq 0 ] || [ $code -eq 2 ] || { bad=1; last="a star at byte $at: exit code $code"; }
done
check "a star in the header never crashes it" test $bad -eq 0
# A run is resumed whose checkpoint is cut.
cp -r run cutrun
head -c 3000 run/last.safetensors >cutrun/last.safetensors
refused "last.safetensors" "$longline" train --resume cutrun
check "no result was left" test ! -e result.safetensors

# Finite weights whose results are not finite: a failure, and no file.
cp $m huge.safetensors
poke huge.safetensors embedding.weight
poke huge.safetensors norm.gain
head -n 3 text.txt | tr 'l' '\000' >zeros
diverges() {
    t 1 "$longline" "$@"
    err "became (infinite|not a number) (in|at) .*: (its|the model's) weights are too large"
    check "one message" test "$(grep -vc 'has no checksums' err)" -eq 1
}
diverges eval huge.safetensors --data zeros
silent
diverges score huge.safetensors zeros
err "zeros: line 1: "
diverges score huge.safetensors text.txt --whole
diverges encode huge.safetensors zeros -o vectors.npy
diverges generate huge.safetensors --tokens 5
silent
diverges generate huge.safetensors --prompt 'a line' --only-read --save-state huge.state
check "no vectors and no state were left" test ! -e vectors.npy -a ! -e huge.state
small_images
t 0 "$longline" train images.ini --out images-run --set train.report=off
cp images-run/best.safetensors huge.safetensors
poke huge.safetensors norm.gain
poke huge.safetensors head.weight
diverges classify huge.safetensors images
# What could steer a terminal does not come out of a message: also U+009B, which begins a sequence as ESC [ does.
refused 'cannot open x\?31m\?: No such' "$longline" inspect "$(printf 'x\302\23331m\007')"
refused "option '--a\?31m'" "$longline" inspect "$(printf -- '--a\23331m')"
