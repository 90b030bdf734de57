# A classifier of images: idx files, plain and compressed, and wrong ones.
small_images
t 0 "$longline" train images.ini --out run
out "^train.valid_accuracy=[0-9.]+$"
check "no bits a byte for images" sh -c "! grep -q bits_per out"
err "valid [0-9.]+, [0-9.]+ % right"
t 0 "$longline" eval run/best.safetensors
out "^eval.split=test$"
out "^eval.count=64$"
loss=$(value eval.loss)
gzip -k images labels 2>/dev/null && {
    t 0 "$longline" eval run/best.safetensors --data images.gz --labels labels.gz
    check "gzip makes no difference" test "$(value eval.loss)" = "$loss"
}
t 0 "$longline" inspect run/best.safetensors
out "^tensor "
mkdir named
cp images named/t10k-images-idx3-ubyte
refused "cannot open named/t10k-labels-idx1-ubyte.*; name them in data.test-labels" "$longline" eval run/best.safetensors \
    --data named/t10k-images-idx3-ubyte
cp labels named/t10k-labels-idx1-ubyte
t 0 "$longline" eval run/best.safetensors --data named/t10k-images-idx3-ubyte
check "labels with their published name are found beside images" test "$(value eval.loss)" = "$loss"
t 0 "$longline" train images.ini --out patches --set model.patch=2
check "tokens are patches: 20 steps of 8 images of 4" test "$(tail -n 1 patches/metrics.csv | cut -d, -f3)" = 640
t 0 "$longline" train images.ini --out beside --set data.train=named/t10k-images-idx3-ubyte --set data.train-labels=
for run in run beside; do cut -d , -f 1,4,6 $run/metrics.csv >$run.losses; done
check "training does the same" cmp run.losses beside.losses
refused "classifier" "$longline" generate run/best.safetensors
refused "images need labels, too: --labels FILE" "$longline" eval run/best.safetensors --data images --set data.test-labels=
idx_labels 64 4 >four
refused "four.*label 3" "$longline" train images.ini --out w --set data.train-labels=four
idx_labels 63 3 >fewer
refused "fewer" "$longline" train images.ini --out w --set data.train-labels=fewer
refused "images" "$longline" train images.ini --out w --set data.train-labels=images
refused "labels: byte 0 has magic" "$longline" train images.ini --out w --set data.train=labels --set data.train-labels=
refused "labels" "$longline" train images.ini --out w --set data.train=labels
refused "missing" "$longline" train images.ini --out w --set data.train-labels=missing
head -c 1000 images >cut
refused "cut" "$longline" train images.ini --out w --set data.train=cut
refused "decay" "$longline" train images.ini --out w --set position.decay=fixed
refused "classify" "$longline" train images.ini --out w --set model.task=lm
check "no file is left" test ! -e w

# ---- Shifts: images with empty columns stay whole ----
{ idx_images 64 4 4; i=0
  while [ $i -lt 256 ]; do printf '\000\200%b\000' "\\0$(printf %03o $((i % 3 * 60)))"; i=$((i + 1)); done; } >narrow
t 0 "$longline" eval run/best.safetensors --data narrow --labels labels --shift 1
out "^eval.count=64$"
out "^eval.shift.-1.accuracy=[0-9.]+$"
out "^eval.shift.1.loss=[0-9.]+$"
check "three places" test "$(grep -c accuracy out)" -eq 3
t 0 "$longline" eval run/best.safetensors --data narrow --labels labels --shift 1 --class 2
out "^eval.count=21$"
refused "2 empty columns" "$longline" eval run/best.safetensors --data narrow --labels labels --shift 2
refused "shift" "$longline" eval run/best.safetensors --class 2
sed -e 's/^width = 4/width = 0/; s/^height = 4/height = 0/; s/^length = 16/length = 36/' images.ini >resized.ini
t 0 "$longline" train resized.ini --out resized --set data.resize=6
t 0 "$longline" eval resized/best.safetensors --data images --labels labels
refused "images are 36 tokens|images of 6 x 6" "$longline" train resized.ini --out w --set data.resize=6 --set train.length=16

# ---- CIFAR-10 ----
head -c 30730 /dev/zero | tr '\000' '\003' >batch.bin
sed -e 's/^format = idx/format = cifar10/; s/labels = labels/labels =/; s/= images/= batch.bin/; s/^length = 16/length = 1024/' \
    -e 's/^classes = 3/classes = 10/; s/^width = 4/width = 32/; s/^height = 4/height = 32/' images.ini >cifar.ini
t 0 "$longline" train cifar.ini --out cifar --set train.steps=2 --set train.batch=2
out "^train.valid_accuracy="
head -c 3072 batch.bin >cut.bin
refused "cut.bin: 3072 bytes" "$longline" eval cifar/best.safetensors --data cut.bin

# ---- The page of a run has accuracy against shift, for images that are empty at both sides ----
{
    printf '\000\000\010\003\000\000\000\100\000\000\000\020\000\000\000\020'
    awk 'BEGIN {for (r = 0; r < 1024; r++) printf "....%08d....", r * 7919 % 100000000}' | tr . '\000'
} >bare
sed 's/^width = 4/width = 16/; s/^height = 4/height = 16/; s/^length = 16/length = 256/; s/^train = images/train = bare/' \
    images.ini | sed '/^\[model\]/,/^\[/s/^width = 16/width = 8/' >bare.ini
refused "data.test: .*the images of the data are 4 x 4" "$longline" train bare.ini --out bared
t 0 "$longline" train bare.ini --set data.valid-fraction=0.5 --set data.test= --out bared
t 0 "$longline" eval bared/best.safetensors --split valid --shift 4
check "nine places" test "$(wc -l <bared/figures/accuracy-by-shift.csv)" -eq 10
tail -n +2 bared/figures/accuracy-by-shift.csv | tr -d '\r' | awk -F, '{printf "eval.shift.%d.accuracy=%.4f\n", $1, $2 / 100}' >page
grep accuracy out | cmp - page
check "the page has the figures of eval" test $? -eq 0
check "images without empty sides have no such figure" sh -c "test -e cifar/report.html && test ! -e cifar/figures/accuracy-by-shift.csv"
