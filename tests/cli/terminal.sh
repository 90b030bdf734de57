# Lines of progress in terminals of several widths: each field is whole or left out, and the time left is among the last
# to go.
if ! command -v python3 >/dev/null; then
    skip "terminals: no python3 here"
    return
fi
small_text
shown() { python3 "$root/tests/cli/terminal.py" "$@"; }
step='step [0-9]+/30(, evaluating [0-9]+ %)?' loss='  [0-9.]+ bits/byte' valid='  valid [0-9.]+'
speed='  [0-9.]+ tokens/s' eta='  eta [0-9:?]+' memory='  [0-9.]+ [kMG]B'
# widths COLUMNS REGEX: all texts of the moving line have whole fields, and the last one matches.
widths() {
    # shellcheck disable=SC2086
    t 0 shown "$1" '' "$longline" train "$root/recipes/text-bytes.ini" --data text.txt $small --out "wide$1"
    grep '^step' out >lines
    check "$1 columns: no text is wider" sh -c "! grep -E '.{$1}' lines"
    check "$1 columns: all fields are whole" sh -c \
        "! grep -vE '^$step($loss)?($valid)?($speed)?($eta)?($memory)?$' lines"
    tail -n 1 lines >out
    out "^$2$"
}
widths 200 "step 30/30$loss$valid$speed$eta$memory"
widths 60 "step 30/30$loss$valid$eta"
widths 45 "step 30/30$loss$eta"
widths 26 "step 30/30$eta"
widths 14 "step 30/30"
# A terminal that does not say how wide it is: COLUMNS does.
COLUMNS=45
export COLUMNS
widths 27 "step 30/30$eta"
# shellcheck disable=SC2086
t 0 shown 0 '' "$longline" train "$root/recipes/text-bytes.ini" --data text.txt $small --out unsaid
grep '^step' out | tail -n 1 >last
mv last out
out "^step 30/30$loss$eta$"
unset COLUMNS
# A table: the time of the run and that of all runs come before the loss on held-out data, tokens/s and memory.
one_system
t 0 shown 80 '' "$longline" table systems.ini --budget 20steps --seeds 2 --out table --set model.layers=1 \
    --set model.width=16 --set model.heads=2 --set train.length=32 --set train.batch=4 --set train.warmup=2 \
    --set train.report=off --set train.eval-batches=2 --set data.train=text.txt --set data.valid=text.txt \
    --set data.test=text.txt
out "^\[1/2\] linear, seed 1  step 20/20  [0-9.]+ bits/byte  eta 0:00, all [0-9:]+$"
# Other work: what it is goes first.
head -c 20000000 /dev/zero >zeros
shown 24 '%, eta [0-9:]+[^0-9:]' "$longline" eval wide200/best.safetensors --data zeros --set train.length=8192 \
    --set train.batch=1 --cpu scalar --threads 1 >out
out "^[0-9]+ %, eta [0-9:]+$"
# Answers go to the same terminal: a line of progress comes before them. With --length it counts what will be read.
shown 80 'eta [0-9:]+[^0-9:]' "$longline" score wide200/best.safetensors zeros --length 10000000 --cpu scalar \
    --threads 1 >out
out "^0 sequences, [0-9.]+ [kM]B of 10 MB, eta [0-9:]+$"
shown 80 'eta [0-9:]+[^0-9:]' "$longline" score wide200/best.safetensors zeros --per-token --length 10000 >out
not_out() { if grep -qE -- "$1" out; then fail "stdout has $1"; else pass "stdout lacks $1"; fi; }
not_out "sequences, .*eta"
# Experiments and measurements have the same line.
shown 20 '%, eta [0-9:]+[^0-9:]' "$longline" analyse moments --repeats 2000000 --threads 1 >out
out "^[0-9]+ %, eta [0-9:]+$"
shown 20 '%, eta [0-9:]+[^0-9:]' "$longline" bench --ops --lengths 65536 --case relu/causal/fwd/65536 --repeats 99 --threads 1 >out
out "^[0-9]+ %, eta [0-9:]+$"
