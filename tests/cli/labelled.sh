# Texts with classes: a table, the same as CSV, and the same as a folder.
mkdir -p films/neg films/pos films/unsup
i=0
while [ $i -lt 40 ]; do
    if [ $i -lt 20 ]; then class=neg word=dull; else class=pos word=good; fi
    text="film $i is $word, as $word as $((i * 37 % 11))"
    printf '%s\t%s\n' $((i / 20)) "$text" >>films.tsv
    printf '"%s",%s\n' "$text" $class >>films.csv
    printf '%s' "$text" >films/$class/$(printf %02d $i).txt
    i=$((i + 1))
done
echo nothing >films/unsup/x.txt
tiny="--set model.layers=1 --set model.width=16 --set model.heads=2 --set model.ff=32 --set train.length=64
 --set train.batch=4 --set train.steps=60 --set train.warmup=2 --set train.eval-every=20 --set train.learning-rate=0.01
 --set data.classes= --set data.label-column=1 --set data.text-column=2"
# shellcheck disable=SC2086
run() { "$longline" train "$root/recipes/lra/text.ini" $tiny "$@"; }
t 0 run --data films.tsv --set data.test=films.tsv --out tsv
out "^train.valid_accuracy=(0.[5-9]|1)"
t 0 "$longline" eval tsv/best.safetensors --split test
out "^eval.count=40$"
out "^eval.accuracy=(0.9|1)"
cp out first
awk -F '\t' -v OFS='\t' '{$1 = 1 - $1; print}' films.tsv >swapped.tsv
refused "data.train is as long as what the run of tsv/last.safetensors began with, but differs" \
    "$longline" train --resume tsv --set train.steps=70 --set data.train=swapped.tsv
# Classes whose names are numbers: a label is a name, and not the number of another class as well.
awk -F '\t' -v OFS='\t' '{$1++; print}' films.tsv >stars.tsv
t 0 run --data stars.tsv --set data.test= --set data.classes=1,2 --out stars
sed 's/^\([12]\)\t\(.*\)/{"label": "\1", "text": "\2"}/; s/label": "1/label": "3/; s/label": "2/label": "1/; s/label": "3/label": "2/' \
    stars.tsv >wrong.jsonl
t 0 "$longline" classify stars/best.safetensors wrong.jsonl --label-key label
right=$(awk 'NR > 1 {n += $2 == $3} END {print n + 0}' out)
err "accuracy 0.[0-9]+: $right of 40 right"
t 0 "$longline" eval tsv/best.safetensors --data films.csv --set data.separator=comma --set data.label-column=2 \
    --set data.text-column=1 --set data.classes=neg,pos
check "CSV gives the same" test "$(value eval.loss)" = "$(value eval.loss first)"
t 0 "$longline" eval tsv/best.safetensors --data films --set data.classes=neg,pos
check "a folder gives the same" test "$(value eval.loss)" = "$(value eval.loss first)"
err "^longline eval: files left out, as data.classes does not name their folders: 1$"
t 0 "$longline" classify tsv/best.safetensors films.csv
err "^longline classify: films.csv is read as lines: each with all of its columns is one text, and so is a header. JSONL keeps"
t 0 "$longline" classify tsv/best.safetensors films.csv --format lines
not_err "read as lines"
sed 's/^\([01]\)\t\(.*\)/{"name": "\1", "review": "\2"}/' films.tsv | gzip >films.jsonl.gz
t 0 "$longline" eval tsv/best.safetensors --data films.jsonl.gz --set data.label-key=name --set data.text-key=review
check "JSONL gives the same" test "$(value eval.loss)" = "$(value eval.loss first)"
refused 'films.jsonl.gz: line 1: the object has no "text"; data.text-key and data.label-key name the keys$' \
    "$longline" eval tsv/best.safetensors --data films.jsonl.gz --set data.text-key=text
t 0 run --data films.csv --set data.separator=comma --set data.label-column=2 --set data.text-column=1 --out named \
    --set data.test= --set model.classes=0
for classes in pos,neg new,neg pos,new; do
    refused "data.classes = $classes: '[a-z]*' is class [01] of the model, whose classes are neg,pos; keep their order" \
        "$longline" eval named --split train --set data.classes=$classes
done
refused "data.classes is empty, and the model's are neg,pos" "$longline" eval named --split train --set data.classes=
sed 's/,neg$/,bad/' films.csv >renamed.csv
t 0 "$longline" eval named --data renamed.csv --set data.classes=bad,pos
err "data.classes = bad,pos: these names stand for the model's classes neg,pos"
refused "data.test: cannot open data/imdb/test: .*; longline data get imdb fetches it" run --data films --out folder \
    --set model.classes=0
t 0 run --data films --out folder --set model.classes=0 --set data.test=
not_err "model.classes"
check "the run knows the names" grep -q "^classes = neg,pos,unsup$" folder/recipe.ini
check "the page has the names" grep -q "unsup</th>" folder/report.html
# A folder that is no class: of train it is left out where data.classes says so, and of other data it is refused.
mkdir -p other/neg other/po
cp films/neg/00.txt other/neg
cp films/pos/20.txt other/po
refused "data.valid: other: its folder \"po\" is no class; to leave it out, set data.classes=neg,pos,unsup$" run --data films \
    --out w --set model.classes=0 --set data.test= --set data.valid=other
refused "data.test: other: its folder \"po\" is no class" run --data films --out w --set model.classes=0 --set data.test=other
t 0 run --data films --out two --set data.test= --set data.valid=other --set data.classes=neg,pos --set train.steps=2
err "^longline train: no class: files left out, as data.classes does not name their folders: 2$"
refused "data.test: other: its folder \"po\" is no class" "$longline" eval two/best.safetensors --data other
t 0 "$longline" eval two/best.safetensors --data other --set data.classes=neg,pos
out "^eval.count=1$"
t 0 "$longline" eval two/best.safetensors --split train
not_err "is no class"
refused "no example has the class \"pso\" of data.classes=neg,pso; correct" run --data films --out w --set data.test= \
    --set data.classes=neg,pso
refused "no example has the class \"2\" of data.classes=0,1,2; correct" run --data films.tsv --out w --set data.test= \
    --set data.classes=0,1,2
t 0 run --data films --out many --set model.classes=10 --set data.test= --set train.steps=5
err "model.classes = 10, but the data has 3 classes \(neg,pos,unsup\); set model.classes=3 or 0$"
check "it says so once" test "$(grep -c 'model.classes' err)" -eq 1
t 0 "$longline" train --resume many --set train.steps=6
not_err "model.classes"
# A table of so many classes would have 320 GB.
t 0 run --data films.tsv --out wide --set model.classes=200000 --set model.width=4 --set data.test= --set train.steps=3
check "the page of very many classes" test -s wide/report.html
# Texts that are longer than train.length. None has 64 bytes.
not_err "longer than train.length"
awk -F '\t' '{n += length($2) > 24} END {print n}' films.tsv >longer
t 0 run --data films.tsv --out short --set train.length=24 --set data.test= --set train.steps=5 --set train.report=off
err "^longline train: cut: $(cat longer) of 40 texts are longer than train.length = 24 and are cut to it$"
t 0 "$longline" eval short/best.safetensors --data films.csv --set data.separator=comma --set data.label-column=2 \
    --set data.text-column=1 --set data.classes=neg,pos
err "^longline eval: $(cat longer) of 40 texts are longer than train.length = 24 and are cut to it; classify and encode"
cut -f 2 films.tsv >lines
t 0 "$longline" classify short/best.safetensors lines
err "^longline classify: $(cat longer) of 40 texts are longer than train.length = 24, .* whole; --length 24 cuts them"
t 0 "$longline" classify short/best.safetensors lines --length 24
not_err "longer than"
t 0 run --data films.tsv --out learned --set train.length=24 --set data.test= --set train.steps=5 --set train.report=off \
    --set position.type=learned --set position.max-length=24
t 2 "$longline" encode learned/best.safetensors lines
err "lines: line 1: .*position.max-length.; to use the first tokens of each sequence alone, give --length N$"
# Classes that are not as frequent as each other: 36 of 40 texts are of one.
awk -F '\t' -v OFS='\t' '{$1 = NR > 36 ? "rare" : "usual"; print}' films.tsv >unlike.tsv
t 0 run --data unlike.tsv --out unlike --set data.test=unlike.tsv --set data.valid-fraction=0.5 --set model.classes=0 \
    --set train.steps=4
t 0 "$longline" eval unlike
out "^eval.majority_accuracy=0.9000$"
balanced=$(value eval.balanced_accuracy)
sed 's/\(.*\)\t\(.*\)/{"label": "\1", "text": "\2"}/' unlike.tsv >unlike.jsonl
t 0 "$longline" classify unlike unlike.jsonl --label-key label
check "the mean over classes: $balanced" [ "$balanced" = \
    "$(awk 'NR > 1 {n[$2]++; r[$2] += $2 == $3} END {printf "%.4f", (r["rare"] / n["rare"] + r["usual"] / n["usual"]) / 2}' out)" ]
check "the page says so" grep -q "of test examples right; always one class: 90.00 %" unlike/report.html
check "of held-out data, too" grep -q 'Most frequent held-out class</th><td>[0-9.]* %' unlike/report.html
check "examples of each class" grep -q '<th scope="row">rare</th><td>[0-9]*</td><td>[0-9]* (' unlike/report.html
t 0 "$longline" eval tsv
out "^eval.majority_accuracy=0.5000$"
ln -s "$PWD/nowhere" films/neg/99.txt
t 2 run --data films --out w --set data.test=
err "data.train: cannot open films/neg/99.txt: it is a link that leads nowhere$"
rm films/neg/99.txt
rm -rf w
refused "label-column" run --data films.tsv --out w --set data.label-column=2 --set data.text-column=1 --set data.limit=30
refused "are both 2: each text would be its own class" run --data films.tsv --out w --set data.label-column=2
refused "line 1 has 2 columns" run --data films.tsv --out w --set data.text-column=3
refused "neg,bad" run --data films.csv --out w --set data.separator=comma --set data.label-column=2 \
    --set data.text-column=1 --set data.classes=neg,bad
refused "every class needs a name of its own" run --data films.tsv --out w --set data.classes=neg,pos,neg
refused "every class needs a name of its own" run --data films.tsv --out w --set data.classes=neg,,pos
refused "labelled.*classify" run --data films.tsv --out w --set model.task=lm
check "no file is left" test ! -e w

printf 'Source\tTarget\n( ( ( [MIN 4 ) 2 ) ] )\t2\n( ( ( [SM 9 ) 9 ) ] )\t8\n' >lists.tsv
# shellcheck disable=SC2086
t 0 "$longline" train "$root/recipes/lra/listops.ini" --data lists.tsv --set data.valid=lists.tsv --set data.test= $tiny --out lists
printf '[MIN 1 2 ]\t1\n' >one.tsv
refused "tokens of data.format = listops are symbols, and .* data.format = labelled, where they are bytes$" \
    "$longline" eval tsv/best.safetensors --data one.tsv --set data.format=listops
printf '[MIN 4 2 ]\t4\n' >wrong.tsv
# A row of headings that counts as an example, and lines that end with CR.
{ echo text,label; awk 'BEGIN {for (i = 0; i < 20; i++) print "film " i "," i % 2}'; } >named.csv
{ printf 'label\ttext\n'; sed 's/^0/neg/; s/^1/pos/' films.tsv; } >headed.tsv
t 0 run --data headed.tsv --out headed --set model.classes=0 --set data.test= --set train.steps=2
err "no header: only the first row has the label .label.; if it names the columns, set data.header=on$"
t 0 run --data headed.tsv --out headed2 --set model.classes=0 --set data.test= --set train.steps=2 --set data.header=on
not_err "no header"
grep ^pos headed.tsv >alike.tsv
refused "data.train: alike.tsv: all examples have the class pos, and a classifier needs at least 2$" run --data alike.tsv \
    --out w --set model.classes=0 --set data.test=
# Keys of another form of files.
t 0 run --data headed.tsv --out keys --set model.classes=0 --set data.test= --set train.steps=0 --set data.text-key=text
err "no effect: data.text-key is for JSONL, and headed.tsv is another form of texts with classes$"
awk 'BEGIN {for (i = 0; i < 20; i++) print "{\"label\":" i % 2 ",\"text\":\"film " i "\"}"}' >films.jsonl
t 0 run --data films.jsonl --out columns --set model.classes=0 --set data.test= --set train.steps=0 --set data.label-column=3
err "no effect: data.label-column is for TSV and CSV, and films.jsonl is another form"
t 0 run --data films.jsonl --out plain --set model.classes=0 --set data.test= --set train.steps=0
not_err "no effect"
csv="--set data.separator=comma --set data.label-column=2 --set data.text-column=1 --set data.test= --set model.classes=2"
# shellcheck disable=SC2086
refused "named.csv: there are 3 labels .0,1,label., and model.classes = 2; .*set data.header=on$" run --data named.csv \
    $csv --set data.header=off --out w
tr '\n' '\r' <named.csv >returns.csv
# shellcheck disable=SC2086
refused "returns.csv: its lines end with CR alone; convert them: tr " run --data returns.csv $csv --out w
refused "answer 4, but its expression comes to 2" "$longline" eval lists/best.safetensors --data wrong.tsv

printf '[MIN 4 2 ]\n( ( ( [SM 9 ) 9 ) ] )\n' >some
t 0 "$longline" classify lists/best.safetensors some --top 10
check "two lists have their classes" test "$(wc -l <out)" -eq 3
cp out first
printf '[MIN 4 2 ]\n[SM 9 9 ]\n' >some
t 0 "$longline" classify lists/best.safetensors some --top 10
check "round brackets only group" cmp out first
printf '[SUM 9 9 ]\n' >some
last="classify what is no list"
check "a text that is no list is refused" sh -c "'$longline' classify lists/best.safetensors some >out 2>err; test \$? -eq 2"
err "some: line 1: this is not an expression"
t 0 "$longline" classify folder/best.safetensors films/pos/20.txt --whole
out "	(neg|pos|unsup)	"

# ---- Pairs ----
awk 'BEGIN {for (i = 0; i < 20; i++) print "d" i "\tpaper " i " on " (i % 2 ? "cats and mice" : "dogs and bones")}' >docs.tsv
awk 'BEGIN {for (i = 0; i < 60; i++) {a = i % 20; b = (i * 7) % 20; print (a % 2 == b % 2) + 0 "\td" a "\td" (b + i % 3) % 20}}' >pairs.tsv
pairs="--set data.docs=docs.tsv --set data.valid=pairs.tsv --set data.test=pairs.tsv"
# shellcheck disable=SC2086
t 0 "$longline" train "$root/recipes/lra/retrieval.ini" --data pairs.tsv $pairs $tiny --out pairs
t 0 "$longline" eval pairs/best.safetensors
out "^eval.count=60$"
refused "not in data.docs" "$longline" eval pairs/best.safetensors --set data.docs=lists.tsv
refused "missing" "$longline" eval pairs/best.safetensors --set data.docs=missing
refused "classifier|language" "$longline" generate pairs/best.safetensors
refused "model.task = match.* does not classify.*; use encode, eval$" "$longline" classify pairs/best.safetensors docs.tsv
refused "model.task = match.* gives no probabilities.*; use encode, eval$" "$longline" score pairs/best.safetensors docs.tsv
refused "has no pairs for model.task=match; these have: retrieval$" "$longline" train "$root/recipes/text-bytes.ini" \
    --data docs.tsv --out w --set model.task=match
t 0 "$longline" encode pairs/best.safetensors docs.tsv --json
check "every text of a pair has its own vector" test "$(wc -l <out)" -eq 20
