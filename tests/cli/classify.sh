# Classes of images and texts.
small_images
t 0 "$longline" train images.ini --out run --set model.pool=first --set train.steps=40 --set train.eval-every=20
model=run/best.safetensors
t 0 "$longline" eval $model
accuracy=$(value eval.accuracy)
t 0 "$longline" classify $model images --labels labels
cp out all
out "^id	label	class	probability$"
out "^0	0	[012]	0\.[0-9]+$"
out "^63	0	[012]	0\.[0-9]+$"
err "accuracy $accuracy: [0-9]+ of 64 right"
refused "run/best.safetensors reads images, which have no tokens of text; use classify, encode, eval$" \
    "$longline" tokenize $model text.txt
refused "labels.*overwrite" "$longline" classify $model images --labels labels -o labels
refused "--json writes JSON" "$longline" classify $model images --json -o w.tsv
t 0 "$longline" classify $model images --labels labels --window 1 --threads 1
check "alone and in batches: the same" cmp out all
t 0 "$longline" classify $model images --top 3
out "^id	class	probability	class2	probability2	class3	probability3$"
awk 'NR > 1 {s = $3 + $5 + $7 - 1; if (s * s > 1e-10 || $3 < $5 || $5 < $7 || $2 == $4 || $4 == $6) exit 1}' out
check "three classes add up to 1, the likeliest first" test $? -eq 0
t 0 "$longline" classify $model images --top 9 --json
out '^\{"id":"0","class":"[012]","probability":0.[0-9]+,"top":\[\{"class":"[012]","probability":0.[0-9]+\},.*\]\}$'
: >nothing
t 2 "$longline" classify $model nothing images
err "^longline classify: nothing is empty, and no image$"
if gzip -k images; then
    t 0 "$longline" classify $model images.gz --labels labels
    check "gzip makes no difference" cmp out all
fi
head -c 600 images >cut
t 2 "$longline" classify $model cut
err "cut: the file ends in image 36 of 64"
head -c 20 labels >fewer
t 2 "$longline" classify $model images --labels absent
err "cannot open absent"
t 2 "$longline" classify $model images --labels fewer
err "fewer: the file ends before label 12 of 64"
refused "not a longline model|not a safetensors" "$longline" classify images images
t 2 "$longline" classify $model images --labels images
err "images.*magic"
printf 'some text\n' >text
t 2 "$longline" classify $model text
err "text: .*9 tokens; the model reads images of 16"
t 0 "$longline" encode $model images --pool first
check "an embedding of every image" test "$(wc -l <out)" -eq 65
refused "model.task = classify.* gives no probabilities.*; use classify, encode, eval$" "$longline" score $model images

# JSONL with labels and texts of 16 bytes, which this model reads as images.
awk 'BEGIN {for (i = 0; i < 30; i++) printf "{\"text\": \"%016d\", \"label\": %s}\n", i, i % 2 ? i % 3 : "\"" i % 3 "\""}' >jsonl
t 0 "$longline" classify $model jsonl --label-key label
out "^30	2	[012]	0"
right=$(awk 'NR > 1 {n += $2 == $3} END {print n}' out)
err "accuracy 0.[0-9]+: $right of 30 right"
not_err "not classes of the model"
refused 'jsonl: line 1: the object has no "class"' "$longline" classify $model jsonl --label-key class
sed 's/"label": *[^}]*/"label": 0.5/' jsonl >half
refused "half: line 1: the object's \"label\" is neither string nor integer" "$longline" classify $model half \
    --label-key label
refused "text is not JSONL.*\"label\"" "$longline" classify $model text --label-key label
refused "label-key is for JSONL" "$longline" classify $model jsonl --label-key label --format lines
sed '2,4s/"label": *[^}]*/"label": "cat"/' jsonl >strangers
t 0 "$longline" classify $model strangers --label-key label
t 0 "$longline" classify $model strangers --label-key label --top 2
mv out classes
t 0 "$longline" classify $model strangers --label-key label --top 2 -o classes.csv
check "-o FILE.csv: commas in place of tabs" [ "$(tr ',' '\t' <classes.csv)" = "$(cat classes)" ]
err "3 of 30 labels are not classes of the model, the first is 'cat'"
err "accuracy 0.[0-9]+: [0-9]+ of 30 right"
# shellcheck disable=SC2086
t 0 "$longline" train "$root/recipes/text-bytes.ini" --data text.txt --out lm $small
refused "model.task = lm.* does not classify" "$longline" classify lm/best.safetensors text
