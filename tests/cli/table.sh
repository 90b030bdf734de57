# Tables of systems: run whole, killed and resumed, shared by processes, and wrong.
small_text
cat >base.ini <<'END'
[model]
layers = 1
width = 16
heads = 2
ff = 32
[train]
length = 32
batch = 4
warmup = 5
learning-rate = 0.003
report = off
eval-batches = 2
[data]
train = text.txt
valid = text.txt
test = text.txt
END
cat >systems.ini <<'END'
[table]
title = Two systems
paper = Nobody (2021), Table 9
recipe = base.ini
metric = perplexity
batches = 5
differs.data = a few lines for a book

[exact]
label = Transformer
published = 30.18
attention.kernel = softmax
position.type = rope
position.decay = none

[permute]
label = PermuteFormer
published = 32.49
attention.kernel = relu
position.type = permute

[letters]
label = letters alone
baseline = unigram
END
sed '/^test/d' base.ini >untested.ini
sed 's/base.ini/untested.ini/' systems.ini >untested-systems.ini
refused "\[exact\] split=test: data.test is empty: there is no test split" \
    "$longline" table untested-systems.ini --budget 20steps --seeds 2 --out untested
check "no run was made for it" test ! -e untested/exact-1
sed '$a\
[torn]\
model.heads = 3' systems.ini >torn.ini
refused "\[torn\] model.heads = 3 does not divide model.width" "$longline" table torn.ini --budget 20steps --seeds 1 --out untested
check "no run was made for it, either" test ! -e untested/exact-1
t 0 "$longline" table systems.ini --budget 20steps --seeds 2
out "^Nobody \(2021\), Table 9$"
out "^Transformer +[0-9.]+ \+- [0-9.]+ +30.18 +2 +20 +2560 "
out "^letters alone +[0-9.]+ +- +1 +- "
out "[01] of 1 pairs of systems come in the published order"
out "^  data +a few lines for a book$"
out "^table.csv=tables/systems/table.csv$"
err "\[1/5\] exact, seed 1  step 20/20 .* eta 0:00, all 0:0"
check "the page" grep -q "<h1>Two systems</h1>" tables/systems/table.html
check "whole numbers are digits alone" sh -c '! grep -q "e+" tables/systems/table.csv'
cp out whole
t 0 "$longline" table systems.ini --budget 20steps --seeds 2
check "finished runs are not repeated" cmp out whole
not_err "step"
t 0 "$longline" table systems.ini --budget 20steps --seeds 3 --only permute
out "^Transformer .* 30.18 +2 "
out "^PermuteFormer .* 32.49 +3 "
err "\[1/1\] permute, seed 3"

# The table is killed during a run, several times.
t 0 "$longline" table systems.ini --budget 3000steps --seeds 1 --out once
last="killing a table"
n=0 kills=0
while [ ! -f killed/table.csv ] && [ $n -lt 40 ]; do
    "$longline" table systems.ini --budget 3000steps --seeds 1 --out killed >out 2>err &
    pid=$!
    sleep 0.3
    kill -9 $pid 2>/dev/null
    wait $pid 2>/dev/null
    [ $? -ne 137 ] || kills=$((kills + 1))
    n=$((n + 1))
done
check "it was killed $kills times" [ $kills -ge 1 ]
t 0 "$longline" table systems.ini --budget 3000steps --seeds 1 --out killed
table_numbers once/table.csv >a
table_numbers killed/table.csv >b
check "killed or not, the same results" cmp a b
sed -i 's/= done/= diverged/' once/exact-1/result.ini
t 0 "$longline" table systems.ini --budget 3000steps --seeds 1 --out once
out "^Means are of the runs that did not diverge[.]"
# The table is stopped. It prints the results that exist.
rm -f err
"$longline" table systems.ini --budget 100000000steps --seeds 1 --out stopped >out 2>err &
pid=$!
wait_until test -f stopped/exact-1/result.ini
"$longline" table systems.ini --budget 100000000steps --seeds 1 --only exact --out stopped >other.out 2>other.err
check "a run that another process makes is left to it" grep -q "exact, seed 1: another process makes this run" other.err
kill -TERM $pid
ended $pid
check "exit 0 when asked to stop" test $? -eq 0
err "the same command continues"
out "^Transformer +- +30.18 +0 "

t 0 "$longline" table systems.ini --budget 1s --seeds 1 --only exact --out timed
err "timing a step"
t 0 "$longline" table systems.ini --list
out "^permute +32.49  PermuteFormer$"
for table in "$root"/recipes/tables/*.ini; do
    t 0 "$longline" table "$table" --list
    out "What differs from the paper"
done
# Results that were measured before. The figures are worked out by hand.
cat >measured.ini <<'END'
[table]
title = Two tasks
results = measures.csv
column.First = one test
column.Second = two test
differs.size = small
[a]
label = System A
published.First = 50
published.Second = 61.5
[b]
END
cat >measures.csv <<'END'
id,measure,key,value
one-a-1,test,accuracy,0.5
one-a-2,test,accuracy,0.6
one-a-2,test,loss,0.7
one-a-2,valid,accuracy,0.9
one-ab-1,test,accuracy,0.9
two-a-3,test,accuracy,0.25
two-b-1,test,accuracy,0.125
END
t 0 "$longline" table measured.ini
out '^system +First +Second +average$'
out '^System A +55[.]00 [+]- 7[.]07 [(]2[)] +25[.]00 +40[.]00$'
out '^  published +50[.]00 +61[.]50 +55[.]75$'
out '^b +- +12[.]50 +-$'
for option in "--only a" "--budget 3m" "--seeds 2" "--seeds 3"; do
    # shellcheck disable=SC2086
    refused "runs nothing; leave out --budget, --seeds, --only" "$longline" table measured.ini $option
done
refused "measured.ini:[0-9]+: .table. makes this a table of systems, which longline table runs" \
    "$longline" train measured.ini --out w
sed 's/^label = System A/label = Système à é/; s/size = small/größe = small/' measured.ini >other.ini
t 0 "$longline" table other.ini
out '^Système à é +55[.]00 [+]- 7[.]07 [(]2[)] +25[.]00 +40[.]00$'
grep -E '^(system|Système|b) ' out | LC_ALL=C tr -d '\200-\277' | awk '{print length}' | sort -u >widths
check "columns are those of characters" test "$(wc -l <widths)" = 1
long=$(printf '%0200d' 0)
sed "s/^title = .*/title = $long$long/; s/= small/= $long$long/" measured.ini >other.ini
t 0 "$longline" table other.ini
out "^$long$long\$"
out "^  size +$long$long\$"
sed "s/^label = .*/label = $long/" measured.ini >other.ini
refused "other.ini:[0-9]*: label has 200 bytes; it can have 63" "$longline" table other.ini
sed "s|= measures.csv|= $PWD/measures.csv|" measured.ini >other.ini
t 0 "$longline" table "$PWD/other.ini"
out '^System A +55[.]00 [+]- 7[.]07 [(]2[)] +25[.]00 +40[.]00$'
sed 's/$/\r/' measures.csv >lines.csv
sed 's/measures.csv/lines.csv/' measured.ini >other.ini
t 0 "$longline" table other.ini
out '^System A +55[.]00 [+]- 7[.]07 [(]2[)] +25[.]00 +40[.]00$'
sed 's/published.First/published.Third/' measured.ini >other.ini
refused "other.ini:9: there is no key .published.Third" "$longline" table other.ini
sed 's/differs.size/differ.size/' measured.ini >other.ini
refused "other.ini:6: there is no key .differ.size" "$longline" table other.ini
sed 's/one test/one/' measured.ini >other.ini
refused "other.ini:4: column.First is .one.; it needs the prefix" "$longline" table other.ini
sed 's/measures.csv/lost.csv/' measured.ini >other.ini
refused "lost.csv: No such file" "$longline" table other.ini
grep -v column measured.ini | grep -v published >other.ini
refused "other.ini has no columns" "$longline" table other.ini
{ echo '[b]' && cat measured.ini; } >other.ini
refused "other.ini:4: results comes after .b.; name them in .table. before" "$longline" table other.ini
{ echo 'title = x' && cat measured.ini; } >other.ini
refused "other.ini:1: title comes before .table." "$longline" table other.ini
{ cat measured.ini && echo '[a]'; } >other.ini
refused "other.ini:12: there are two systems .a." "$longline" table other.ini
sed 's/column.Second/column.First/' measured.ini >other.ini
refused "other.ini:5: there are two columns First" "$longline" table other.ini
sed 's/= measures.csv/=/' measured.ini >other.ini
refused "other.ini:3: results is empty" "$longline" table other.ini
cp measures.csv before.csv
for line in "one-a-2,test,accuracy,0.6:a second accuracy of one-a-2" \
    "one-a-3,test,accuracy,much:the accuracy of one-a-3 is no number from 0 to 1" \
    "one-a-3,test,accuracy,1e300:the accuracy of one-a-3 is no number from 0 to 1"; do
    { cat before.csv && echo "${line%%:*}"; } >measures.csv
    refused "measures.csv: line 9: ${line#*:}" "$longline" table measured.ini
done
echo 'one-a-1,test' >measures.csv
refused "measures.csv: line 1 has not four fields: .one-a-1,test." "$longline" table measured.ini
t 0 "$longline" table "$root/recipes/tables/lra.ini"
out '^  published +18[.]01 +65[.]40 +53[.]82 +42[.]77 +77[.]05 +51[.]41$'
# The data have been moved.
mv text.txt moved.txt
t 2 "$longline" table systems.ini --budget 5steps --seeds 1 --out lost
err "text.txt: No such file"
silent
check "no run was begun" test ! -e lost
t 0 "$longline" table systems.ini --budget 5steps --seeds 1 --out found --set data.train=moved.txt \
    --set data.valid=moved.txt --set data.test=moved.txt
mv moved.txt text.txt

refused "needs TABLE" "$longline" table
refused "nowhere.ini" "$longline" table nowhere.ini
printf '[table]\nmetric = bits\nrecipe = gone.ini\n[one]\nlabel = One\n' >lost.ini
refused "lost.ini: cannot open gone.ini: No such file" "$longline" table lost.ini --list
refused "did you mean 'permute'" "$longline" table systems.ini --only permut
refused "no such system" "$longline" table systems.ini --only xyzzyxyzzy
refused "no such system" "$longline" table systems.ini --only xyzzyxyzzy --list
refused "needs a time with its unit" "$longline" table systems.ini --budget 30
refused "needs a time with its unit" "$longline" table systems.ini --budget soon
refused "needs a time with its unit" "$longline" table systems.ini --budget -3m
refused "needs a time with its unit" "$longline" table systems.ini --budget soon --list
refused "99999999999999999999steps: needs at most 1000000000000 steps" "$longline" table systems.ini \
    --budget 99999999999999999999steps
refused "a second at least" "$longline" table systems.ini --budget 0.01s
refused "seeds" "$longline" table systems.ini --seeds 0
refused "model.nose" "$longline" table systems.ini --set model.nose=1
refused "budget of 20 steps, not 30 steps" "$longline" table systems.ini --budget 30steps --seeds 2
refused "with other settings" "$longline" table systems.ini --budget 20steps --seeds 2 --set train.batch=8
refused "with other settings" "$longline" table systems.ini --budget 20steps --seeds 2 --set train.eval-every=7
refused "have the steps of their budget" "$longline" table systems.ini --set train.steps=7
refused "seeds 1, 2" "$longline" table systems.ini --set " train.seed = 7"
t 0 "$longline" table systems.ini --budget 20steps --seeds 1 --only permute --out own --set train.eval-every=7 \
    --set train.warmup=9
sed 's/^label = PermuteFormer/&\ntrain.steps = 9/' systems.ini >steps.ini
refused "steps.ini:[0-9]*: .train.steps=9.: runs of a table" "$longline" table steps.ini --list
check "the run has the settings of --set" sh -c \
    "grep -q '^eval-every = 7' own/permute-1/recipe.ini && grep -q '^warmup = 9' own/permute-1/recipe.ini"
sed 's/metric = .*/metric = speed/' systems.ini >bad.ini
refused "bad.ini:5: metric is" "$longline" table bad.ini
refused "comes before" "$longline" table base.ini
: >file
refused "file/x: a part of this path is a file" "$longline" table systems.ini --budget 5steps --seeds 1 --out file/x
