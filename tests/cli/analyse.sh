# longline analyse: tables, files and pictures. The same seed gives the same bytes. Attention matrices of a model. Wrong
# usage.
t 0 "$longline" analyse --quick --out figures
out "^features: "
out "^orthogonal positive +16 "
out "^claim: Lemma 2"
out "^analyse.figure=figures/features-matrix.svg$"
for f in features-output features-matrix lengths lengths-rounding moments layers periods positions positions-matrix stream-error; do
    check "a picture $f" grep -q "</svg>" figures/$f.svg
done
for f in features lengths moments layers periods positions stream-error; do check "a table $f" test "$(wc -l <figures/$f.csv)" -gt 5; done
t 0 "$longline" analyse moments --quick --csv - --threads 1
out "^estimator,cosine,kernel,formula,measured,interval,ratio,theorem_2_bound$"
check "the table is that of the folder" cmp out figures/moments.csv
t 0 "$longline" analyse moments --quick --csv other.csv --seed 2
check "another seed, other numbers" sh -c "! cmp -s other.csv figures/moments.csv"
t 0 "$longline" analyse periods moments --quick --json all.json
if command -v python3 >/dev/null; then
    check "the JSON is JSON" python3 -c 'import json; x = json.load(open("all.json")); \
        assert [t["name"] for t in x] == ["periods", "moments"] and len(x[1]["rows"][0]) == len(x[1]["columns"])'
else skip "is it JSON: no python3 here"; fi
t 0 "$longline" analyse periods positions --quick --json - --out both
cp out both.json
t 0 "$longline" analyse periods positions --quick --json all.json
check "JSON on standard output is JSON alone" cmp both.json all.json
t 0 "$longline" analyse periods --quick --png --out png
check "a PNG" sh -c 'head -c 4 png/periods.png | grep -q PNG'

# Streams of some pairs, longer than in other experiments. The position `decay` is none with `position.decay = fixed`.
t 0 "$longline" analyse stream-error --kernels relu,softmax --positions rope,decay --length 70000 --csv - --threads 1
out "^kernel and position,tokens,deviation,tiles$"
out "^softmax rope,30000," # its time is quadratic
out "^relu decay,70000,[0-9.]*e-0[6-9],[0-9.]*e-0[4-9]$"
check "no other pairs" test "$(grep -c ",100," out)" -eq 3
t 0 "$longline" analyse stream-error --kernels relu --positions none --length 123456 --threads 1
out "  123456  "
t 0 "$longline" analyse stream-error --kernels all --positions all --length 50 --out pairs
not_err "shows the first"
out "^analyse.figure=pairs/stream-error-relu.svg$"
check "a figure for each kernel with several positions" test "$(find pairs -name 'stream-error-*.svg' | wc -l)" -eq 15
check "one curve of zeros has no figure on a logarithmic scale" test ! -e pairs/stream-error.svg
check "its title" grep -q "<title>Deviation of streams from double precision: relu</title>" pairs/stream-error-relu.svg
t 0 "$longline" analyse stream-error --kernels favor,relu --positions none,rope --length 50 --out together
check "a few curves are one figure" test "$(find together -name "*.svg")" = together/stream-error.svg
refused "no attention.kernel \"favr\"; did you mean favor" "$longline" analyse drift --kernels relu,favr
refused "there is no attention.kernel \"foo\"; .longline list. has them all" "$longline" analyse drift --kernels foo
refused "did you mean decay" "$longline" analyse drift --positions deca
refused "none of these" "$longline" analyse drift --kernels linformer
refused "are for stream-error" "$longline" analyse periods --kernels relu
refused "only stream-error takes longer streams" "$longline" analyse periods --length 70000
refused "positions takes up to 4096 tokens" "$longline" analyse layers positions --quick --length 4097 --out late
check "it is refused before any experiment" test ! -e late

# Experiments on a model.
small_text
printf '[attention]\nkernel=relu\n[position]\ntype=permute\n[data]\ntrain=text.txt\n' >model.ini
t 0 "$longline" train model.ini $small -o run
refused 'json run/last.safetensors: it would overwrite the model' "$longline" analyse positions --model run/last.safetensors \
    --json run/last.safetensors
refused 'csv run/metrics.csv: it would overwrite a file of the run' "$longline" analyse periods --model run/last.safetensors \
    --csv run/metrics.csv
t 0 "$longline" analyse matrices --model run/last.safetensors --text text.txt --length 20 --out look
out "^ +0 +1 .* 1.0000 +1.0000 +[0-9.]*e-0[6-9]$"
check "a heat map" grep -q "</svg>" look/attention.svg
check "every weight of a layer" test "$(wc -l <look/attention-0.csv)" -eq 801
t 0 "$longline" analyse matrices --model run/last.safetensors --text text.txt --length 5 --layer 0
cp out plain
gzip -c text.txt >text.gz
t 0 "$longline" analyse matrices --model run/last.safetensors --text text.gz --length 5 --layer 0
check "packed or not, the same" cmp -s out plain
printf '[attention]\nkernel=relu\n[model]\nvocab=600\n[data]\nformat=words\ntrain=text.txt\n' >words.ini
t 0 "$longline" train words.ini $small --set train.steps=2 -o words
printf 'says of line' >few
t 0 "$longline" analyse matrices --model words/last.safetensors --text few --out words-look
check "three words are three tokens" test "$(wc -l <words-look/attention-0.csv)" -eq 19
small_images
t 0 "$longline" train images.ini -o pixels
t 0 "$longline" analyse matrices --model pixels --text images --length 9
cp out many
{ idx_images 1 4 4; head -c 16 text.txt; } | gzip >image.gz
t 0 "$longline" analyse matrices --model pixels --text image.gz --length 9
check "an image is read without the head of its file" cmp -s out many
t 0 "$longline" train images.ini --set model.patch=2 -o patches
t 0 "$longline" analyse matrices --model patches --text images --out patches-look
check "4 patches are 4 tokens" test "$(wc -l <patches-look/attention-0.csv)" -eq 33
out "^ +0 +1 .* 1.0000 +1.0000 +-$"
refused "text.txt has no image; the model reads those of 16 numbers" "$longline" analyse matrices --model pixels --text text.txt
t 0 "$longline" analyse positions periods --model run/last.safetensors --quick
out "^layer 0 head 1 "
out "^periods: Least common multiples of the cycles of the model's permutations$"
out "^layer and head +features "

t 0 "$longline" train model.ini $small --set train.length=32 --set position.type=learned \
    --set position.max-length=40 -o learned
t 0 "$longline" analyse positions --model learned/last.safetensors --quick --length 40 --out forty
out "^analyse.figure=forty/positions-matrix.svg$"

t 0 "$longline" train model.ini $small --set train.steps=1 --set model.heads=16 --set model.layers=5 -o heads
t 0 "$longline" analyse positions --model heads/last.safetensors --quick --out heads-look
err "positions-matrix.svg shows the first 64 of 80 heads"

refused "did you mean 'moments'" "$longline" analyse moment
refused "needs a number|whole number" "$longline" analyse --repeats many
refused "give --model" "$longline" analyse matrices
refused "by itself" "$longline" analyse moments matrices
set -- --model run/last.safetensors --text text.txt
refused "are for tables" "$longline" analyse matrices "$@" --csv a.csv
refused "are for tables" "$longline" analyse matrices "$@" --json -
refused "other experiments" "$longline" analyse matrices "$@" --kernels relu
refused "other experiments" "$longline" analyse matrices "$@" --repeats 3
refused "other experiments" "$longline" analyse matrices "$@" --seed 1
for option in "--repeats 3" "--seed 1" --quick; do
    # shellcheck disable=SC2086
    refused "periods of a model takes no --repeats, --seed or --quick" "$longline" analyse periods \
        --model run/last.safetensors $option
done
refused "up to 65536" "$longline" analyse matrices "$@" --length 70000
awk 'BEGIN { while (n++ < 4200) print "abc" }' >long.txt
refused "pictures of matrices are of up to 16384 tokens, not 16385" "$longline" analyse matrices \
    --model run/last.safetensors --text long.txt --length 16385 --out long
check "it is refused before its CSV" test ! -e long/attention-0.csv
refused "needs --out" "$longline" analyse matrices "$@" --png
refused "no-model" "$longline" analyse matrices --model no-model --text text.txt
refused "no-text" "$longline" analyse matrices --model run/last.safetensors --text no-text
refused "layers 0 to 0" "$longline" analyse matrices --model run/last.safetensors --text text.txt --layer 3
refused "makes its own" "$longline" analyse features --model run/last.safetensors
refused "cannot both be a.csv" "$longline" analyse moments --quick --csv a.csv --json a.csv
refused "cannot both be a.csv" "$longline" analyse moments --quick --csv a.csv --json "$PWD/a.csv"
refused "one experiment" "$longline" analyse features moments --csv a.csv
refused "for matrices" "$longline" analyse moments --text text.txt
refused "for matrices" "$longline" analyse moments --layer 0
refused "for features" "$longline" analyse moments --spread 0.5
refused "moments takes no --length" "$longline" analyse moments periods --length 64
refused "stream-error takes no --repeats" "$longline" analyse stream-error --repeats 2
refused "needs --out" "$longline" analyse moments --png
: >empty
refused "empty is empty; name" "$longline" analyse matrices --model run/last.safetensors --text empty
refused "run is a folder" "$longline" analyse matrices --model run/last.safetensors --text run
refused "empty is empty; name" "$longline" analyse matrices --model run/last.safetensors --text empty --out none/for/it
refused "no-model" "$longline" analyse positions --model no-model --out none/for/it
check "refused inputs leave no folders" test ! -e none
mkdir mine
refused "empty is empty; name" "$longline" analyse matrices --model run/last.safetensors --text empty --out mine/for/it
check "one that was there stays" rmdir mine
: >file
refused "file/x: a part of this path is a file" "$longline" analyse periods --quick --out file/x
t 0 "$longline" analyse periods --quick --out new/folder/of/figures
check "folders are made" test -s new/folder/of/figures/periods.csv
check "no table has two columns of one name" sh -c 'for f in figures/*.csv new/folder/of/figures/*.csv; do
    head -n 1 $f | tr , "\n" | sort | uniq -d; done | test -z "$(cat)"'
refused "nowhere/x.csv: there is no folder nowhere/" "$longline" analyse periods --quick --csv nowhere/x.csv
