# The page of a run and of several runs, wrong usage; and, where Chromium is installed, the pages as a reader sees them.
small_text
recipe=$root/recipes/text-bytes.ini
# shellcheck disable=SC2086
run() { "$longline" train "$recipe" --data text.txt $small --set train.report=on "$@"; }

t 0 run --out one --set model.layers=2 --set train.length=32
out "^train.report=one/report.html$"
check "there is a page" test -s one/report.html
result() { sed -n "s:.*<th scope=\"row\">$1</th><td>\([^<]*\)<.*:\1:p" one/report.html | tr -d ,; }
check "it has the speed that train prints" test "$(result 'Tokens a second')" = "$(value train.tokens_per_second)"
check "it has the time that train prints" test "$(result 'Wall time')" = "$(value train.seconds) s"
check "no unfinished file" sh -c "! ls one one/figures | grep -q tmp"
for f in loss loss-by-position speed memory learning-rate gradient-norm attention-1 attention-2; do
    check "figure $f" test -s one/figures/$f.svg -a -s one/figures/$f.csv
done
check "whole numbers are digits alone" sh -c '! grep -q "e+" one/metrics.csv'
check "a key at its default does not differ from it" sh -c "test \$(grep -c '>train.eps<' one/report.html) -eq 1"
check "memory in the unit of its figure" grep -q '<dt>Memory</dt><dd>[0-9]* MiB<' one/report.html
check "it names no address" sh -c "! grep -qE '(src|href)=\"(https?:)?//' one/report.html"
cp one/report.html first
t 0 "$longline" report one
out "^report.page=one/report.html$"
check "the same model, the same page" cmp one/report.html first
mkdir other other/folder.html
t 0 "$longline" report one -o other/page.html
refused "out nowhere/page.html: there is no folder nowhere/; make it first" "$longline" report one -o nowhere/page.html
refused "out other/folder.html: it is a folder; name a file" "$longline" report one -o other/folder.html
check "no folder is made" test ! -e nowhere
two_lines=$(printf 'two\nlines')
refused "RUN two.lines: its name has a line end" "$longline" report "$two_lines"
refused "out two.lines.html: its name has a line end" "$longline" report one -o "$two_lines.html"
refused "out two.lines: its name has a line end" run --out "$two_lines"
refused "resume two.lines: its name has a line end" "$longline" train --resume "$two_lines"
refused "FOLDER two.lines: its name has a line end" "$longline" export one "$two_lines"
cp "$root/recipes/text-bytes.ini" "$two_lines.ini"
# shellcheck disable=SC2086
t 0 "$longline" train "$two_lines.ini" --data text.txt $small --set train.steps=1 --set train.warmup=0
out "^train.folder=runs/two-lines-1$"
check "its figures have their own folder" test -s other/page-figures/loss.svg
t 0 run --out two --set position.type=sine-spe --set position.decay=none --set position.realizations=8 \
    --set train.checkpoint-every=10
check "learned positions" test -s two/figures/distance.csv
t 0 run --out vectors --set attention.kernel=softmax --set position.type=shaw --set position.decay=none
check "learned vectors" test -s vectors/figures/distance.csv -a -s vectors/figures/distance-length.svg
awk '{printf "%s\r\n", $0}' text.txt >crlf.txt
t 0 run --out crlf --data crlf.txt
sed -n '/<span class="prompt"/,/<.span>/ {s/<.span>.*//; p}' crlf/report.html >prompt
check "CR LF is a line end" test "$(wc -l <prompt)" -gt 2
check "the page has no replacement characters" sh -c '! grep -q "$(printf "\357\277\275")" prompt'
t 0 run --out quiet --set train.report=off
check "train.report=off writes no page" test ! -e quiet/report.html
not_err "report"
t 0 run --out all --set data.valid-fraction=0
check "nothing was held out" grep -q 'There is none on held-out data' all/report.html
check "the page says so" grep -q 'data.valid and data.test are empty, and data.valid-fraction is 0' all/report.html
check "it names no split that is not there" sh -c '! grep -q "never trained on\|evaluate on valid" all/report.html'
refused "data.test is empty: there is no test split; name its file$" "$longline" eval all/last.safetensors --split test
refused "name its file, or evaluate on valid$" "$longline" eval one/best.safetensors --split test
t 0 "$longline" report one two quiet
out "^report.page=comparison.html$"
check "differences are marked" grep -q 'class="marked"><th scope="row">position.type</th><td>permute</td><td>sine-spe<' \
    comparison.html
check "curves of all runs" grep -q '^curve,step,' comparison-figures/loss.csv
check "loss by position has both runs" grep -q '^two,' comparison-figures/loss-by-position.csv
"$longline" recipe train.report >out 2>err
out "report.html"

(cd one && "$longline" report . >../out 2>../err)
check "the page names the working folder" grep -q '<h1>one</h1>' one/report.html

refused "needs RUN" "$longline" report
refused "no run folder nowhere" "$longline" report nowhere
refused "no run folder nowhere" "$longline" report one nowhere -o x.html
refused "text.txt is a file" "$longline" report text.txt
refused "must end in .html" "$longline" report one -o page.txt
mkdir empty
refused "empty is not the folder of a run: it has no metrics.csv" "$longline" report empty
: >empty/metrics.csv
refused "empty or cut off" "$longline" report empty
check "no file is left" test ! -e x.html -a ! -e empty/report.html
: >file
refused "out file/page.html: there is no folder file/" "$longline" report one -o file/page.html
# What cannot be written, or is stopped, leaves nothing: the disk may be full, and a checkpoint needs the space.
last="report, with files of 20 blocks"
(ulimit -f 20; "$longline" report one -o large.html >out 2>err)
check "exit code 1" test $? -eq 1
check "a page that is too large leaves no figures" sh -c '! ls -d large* 2>/dev/null'
t 0 run --out wide --set model.width=256 --set model.ff=1024 --set train.length=128 --set train.batch=1 --set train.steps=1 \
    --set train.warmup=0 --set train.eval-batches=1 --set train.report=off
"$longline" report wide -o rp.html >out 2>err </dev/null &
pid=$!
wait_until test -s rp-figures/loss.svg
kill -TERM $pid
ended $pid
check "a report that is stopped ends with 1" test $? -eq 1
err "stopped on request"
check "and leaves nothing" sh -c '! ls -d rp* 2>/dev/null'
if [ -w /dev/full ]; then
    "$longline" report one >/dev/full 2>err
    check "a result to a full disk is a failure" test $? -eq 1
fi
# A report that cannot be written does not stop the run.
mkdir -p stuck
: >stuck/figures
t 0 run --out stuck
err "no report: .*figures"
check "there is a model" test -s stuck/best.safetensors
# The data no longer exist.
cp text.txt gone.txt
t 0 run --out lost --data gone.txt
rm gone.txt
cp lost/report.html page.html
cp -r lost/figures whole
refused "cannot open gone.txt: .*; lost/report.html is left as it is; -o FILE.html writes a page without" "$longline" report lost
check "the page is as it was" cmp -s lost/report.html page.html
check "its figures, too" diff -r lost/figures whole
t 0 "$longline" report lost -o poor.html
err "^longline report: data.train: cannot open gone.txt: .*; the page lacks what needs the data$"
check "the page names what is missing" grep -q "gone.txt" poor.html
rm lost/report.html
t 0 "$longline" report lost
check "a page of which there was none" grep -q "gone.txt" lost/report.html
# A folder that cannot be written to, as on a CD.
read_only() {
    unshare -rm sh -c 'mount --bind lost lost && mount -o remount,bind,ro lost && cd . && exec "$@"' sh "$@"
}
if read_only true 2>/dev/null; then
    cp text.txt gone.txt
    t 1 read_only "$longline" report lost
    err "^longline report: .*: Read-only file system; -o FILE.html writes the page elsewhere$"
    t 0 read_only "$longline" report lost -o elsewhere.html
else
    skip "a run that cannot be written to: no mounts here"
fi

# ---- Images ----
{ printf '\000\000\010\003\000\000\000\100\000\000\000\004\000\000\000\004'; head -c 1024 text.txt; } >images
{ printf '\000\000\010\001\000\000\000\100'; i=0; while [ $i -lt 16 ]; do printf '\000\001\002\001'; i=$((i + 1)); done; } >labels
t 0 "$longline" train "$root/recipes/mnist.ini" --set data.train=images --set data.train-labels=labels \
    --set data.test=images --set data.test-labels=labels --set train.length=0 --set model.width=16 --set model.ff=16 \
    --set train.steps=20 --set train.batch=8 --set train.eval-every=10 --set data.valid-fraction=0.5 --out clothes \
    --set data.classes=T-shirt,trouser,pullover,dress,coat,sandal,shirt,sneaker,bag,boot
check "columns have names" grep -q '<div class="cols long" aria-hidden="true"><span>T-shirt</span><span>trouser<' \
    clothes/report.html
check "accuracy" test -s clothes/figures/accuracy.svg
check "figures are in per cent" awk -F, '$2 > 1 && $2 <= 100 {n++} END {exit !n}' clothes/figures/accuracy.csv
check "shares of a class add up" awk -F, 'NR > 1 {s = 0; for (i = 3; i <= NF; i++) s += $i
    if ($3 != "" && (s < 0.999 || s > 1.001)) exit 1; n++} END {exit n != 10}' clothes/figures/classes.csv
check "the page has the test of 64 examples" grep -q '<td>64 examples</td>' clothes/report.html
check "mistakes" grep -q 'taken for' clothes/report.html

# ---- A table of systems ----
cat >systems.ini <<END
[table]
title = Two systems
recipe = two/recipe.ini
metric = bits
split = valid
differs.data = some lines, some <more>, and a text that is long enough to be broken where a phone is too narrow for it
[sines]
published = 1.25
[none]
label = no positions, and a name that is rather long for the first column of a table
published = 2.5
position.type = none
END
t 0 "$longline" table systems.ini --budget 20steps --seeds 2 --out systems

# ---- As a reader has them ----
if find_browser; then
    python3 -B "$root/tests/cli/report_test.py" . one/report.html 7 two/report.html 8 vectors/report.html 9 \
        clothes/report.html 10 comparison.html 3 systems/table.html 2
    check "the browser ended" test $? = 0
fi

# A page that takes long reports its progress.
# shellcheck disable=SC2086
t 0 run --out slow --set train.report=off --set model.width=512 --set model.layers=4 --set train.length=1024 \
    --set train.batch=1 --set train.steps=1 --set train.warmup=1 --set train.eval-batches=1
# A report that takes longer than lines of progress are apart does not repeat the last one.
cp -r slow slower
"$longline" train --resume slower --set train.steps=2 --set train.report=on --cpu scalar --threads 1 >out 2>err </dev/null &
pid=$!
wait_until grep -qs "^step 2/2 .*valid" err
kill -STOP $pid
sleep 10.5
kill -CONT $pid
ended $pid
check "the report is written" grep -q "^train.report=" out
check "the last step has one line" test "$(grep -c '^step 2/2 .*valid' err)" -eq 1
told "^report: [0-9]+ %, eta [0-9:]+$" "$longline" report slow --cpu scalar --threads 1
