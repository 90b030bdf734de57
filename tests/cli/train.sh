# A run: wrong usage, interrupted, resumed; and what can be done with its model.
small_text
recipe=$root/recipes/text-bytes.ini
# shellcheck disable=SC2086
run() { "$longline" train "$recipe" --data text.txt $small "$@"; }

t 0 run --out straight
err "^step 1/30  [0-9.]+ bits/byte .*tokens/s  eta [0-9:?]+  [0-9.]+ [kMG]B$"
err "^step 30/30 .*valid [0-9.]+"
out "^train.folder=straight$"
out "^train.model=straight/best.safetensors$"
out "^train.valid_bits_per_byte=[0-9.]+$"
check "stdout is key=value alone" sh -c "! grep -vqE '^train\.[a-z_]+=.+$' out"
for f in recipe.ini metrics.csv last.safetensors best.safetensors; do check "the run left $f" test -s straight/$f; done
check "it learned something" awk "BEGIN {exit !($(value train.valid_bits_per_byte) < 7)}"
t 0 run
out "^train.folder=runs/text-bytes-1$"
check "same recipe, same bits" cmp straight/best.safetensors runs/text-bytes-1/best.safetensors
t 0 run --threads 1
out "^train.folder=runs/text-bytes-2$"
check "one thread, same bits" cmp straight/best.safetensors runs/text-bytes-2/best.safetensors
# shellcheck disable=SC2086
t 0 sh -c 'ulimit -s 256; exec "$0" "$@"' "$longline" train "$recipe" --data text.txt $small --out small-stack
check "a small stack gives the same bits" cmp straight/best.safetensors small-stack/best.safetensors
t 0 sh -c 'ulimit -s 256; exec "$0" "$@"' "$longline" report small-stack
refused "holds a run already .*resume it" run --out straight
mkdir kept && cp straight/best.safetensors kept # as of a move that was killed
refused "holds a run already .*without last.safetensors it cannot go on: remove it" run --out kept
mkdir mine && { echo "# my notes" && cat "$recipe"; } >mine/recipe.ini
# shellcheck disable=SC2086
refused "--out mine: the run would overwrite mine/recipe.ini, which it reads" "$longline" train mine/recipe.ini --data text.txt $small --out mine
check "it is as it was" grep -qx "# my notes" mine/recipe.ini
refused "straight holds a run already .*resume it" "$longline" train straight/recipe.ini --out straight
last="train, twice at once"
run >first.out 2>first.err &
run >out 2>err
check "two runs that begin at once both finish" test $? -eq 0
wait $!
check "the other one ends well, too" test $? -eq 0
cat first.out out | sed -n 's/^train.folder=//p' | sort >names
printf 'runs/text-bytes-3\nruns/text-bytes-4\n' | cmp - names
check "each in a folder of its own" test $? -eq 0
t 0 run --out half --cpu scalar --set train.precision=bf16 --set train.steps=2
err "bf16 is slower than fp32 with scalar"
mkdir -p blocked/metrics.csv
t 1 run --out blocked
err "metrics.csv"
check "a run that cannot write its files leaves no lock" test ! -e blocked/.lock
mkdir own
echo "my,own,numbers" | tee own/metrics.csv mine.csv >out
refused "own/metrics.csv does not begin with the columns of a run's metrics; move it away" run --out own
refused "own/metrics.csv does not begin with" "$longline" train --resume straight --out own
check "a file that no run wrote stays" cmp own/metrics.csv mine.csv
check "and nothing comes beside it" test "$(ls -A own)" = metrics.csv
mkdir begun && head -n 2 straight/metrics.csv >begun/metrics.csv
t 0 run --out begun
check "that of a run without a checkpoint is replaced" test "$(wc -l <begun/metrics.csv)" -eq "$(wc -l <straight/metrics.csv)"
# A folder of somebody else that one may not look into. Root may, and becomes another user.
cp -r straight closed && chmod 0 closed
mkdir -m 777 anyone
if [ "$(id -u)" -eq 0 ]; then as_other() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
else as_other() { "$@"; }; fi
chmod 755 .
if as_other "$longline" version >out 2>err && as_other test -r text.txt && ! as_other test -r closed/recipe.ini; then
    refused "cannot open closed/best.safetensors: Permission denied$" as_other "$longline" score closed text.txt
    refused "cannot open closed/metrics.csv: Permission denied$" as_other "$longline" report closed
    refused "cannot open closed/last.safetensors: Permission denied$" as_other "$longline" train --resume closed
    refused "cannot open closed/below: Permission denied$" as_other "$longline" train --resume closed/below
    refused "cannot open closed/config.json: Permission denied$" as_other "$longline" import closed --out anyone/made
    # shellcheck disable=SC2086
    refused "cannot open closed/best.safetensors: Permission denied$" as_other "$longline" train "$recipe" --data text.txt \
        $small --from closed --out anyone/begun
else skip "folders of another user: cannot become another user who runs the program"; fi
chmod 755 closed
mkdir elsewhere
check "a run that cannot begin leaves no folder" sh -c "cd elsewhere && ! '$longline' train '$recipe' --data gone \
    2>err && test ! -e runs"

# ---- Interrupted, then gone on with ----
more="--set train.steps=400 --set train.eval-every=100 --set train.checkpoint-every=100"
# shellcheck disable=SC2086
t 0 run --out whole $more
last="train, SIGTERM"
rm -f out err
# shellcheck disable=SC2086
"$longline" train "$recipe" --data text.txt $small $more --out halved >out 2>err </dev/null &
pid=$!
wait_until grep -qs '^step' err
kill -TERM $pid
ended $pid
check "SIGTERM ends the run with exit code 0" test $? -eq 0
err "stopped after step [0-9]+ and saved; go on with: longline train --resume 'halved'"
silent
check "it did not reach the end" sh -c "! grep -q '^step 400/400' err"
t 0 "$longline" train --resume halved
out "^train.steps=400$"
check "the same bits as without interruption" cmp whole/best.safetensors halved/best.safetensors
t 0 "$longline" train --resume halved
err "^longline train: finished already: step 400 of 400; go on with: longline train --resume 'halved' --set train.steps=N$"
not_err "tokens/s|eta"
out "^train.steps=400$"
rm halved/recipe.ini # the checkpoint has it, too
t 0 "$longline" train --resume halved --set train.steps=402
out "^train.steps=402$"
refused "train.steps = 10: halved/last.safetensors has made 402 steps; set train.steps to more" "$longline" train \
    --resume halved --set train.steps=10
check "its recipe is as before" grep -q '^steps = 402$' halved/recipe.ini
refused "cannot open nobody: .*set train.teacher" run --set train.distil=logits --set train.teacher=nobody --out w
t 0 run --set train.steps=0 --set train.teacher=halved --out untaught
err "^longline train: train.teacher has no effect: it needs train.distil=attention|logits|both"
t 0 run --set train.steps=0 --set model.norm=parallel --set model.final-norm=off --out parallel
not_err "has no effect"
t 0 run --set train.steps=0 --set attention.kernel=relu --set attention.compat=lucidrains --set attention.num-features=24 --out lucid
not_err "has no effect"
t 0 run --set train.steps=0 --set data.resize=8 --set data.only=1 --set data.classes=a,b --out images
err "^longline train: data.resize has no effect: it needs data.format=idx|cifar10|pathfinder|png$"
check "one line for each key" test "$(grep -c "has no effect" err)" = 3
# shellcheck disable=SC2086
t 0 "$longline" train "$recipe" $small --set train.steps=0 --set data.format=demo --set model.vocab=0 --set data.valid=nothing \
    --set data.valid-fraction=0.2 --out made
err "^longline train: data.valid has no effect: it needs data.format=bytes|"
err "^longline train: data.valid-fraction has no effect: it needs data.format=bytes|"
t 0 run --set train.steps=0 --set ' train.teacher = halved' --out blanks
err "^longline train: train.teacher has no effect: it needs train.distil=attention|logits|both"
t 0 run --set train.steps=0 --out none
check "no step has no loss" sh -c '! grep -q "^train.loss=" out'
t 0 "$longline" train --resume straight --set train.steps=40
out "^train.steps=40$"

# Runs in the folder of the data are no data.
mkdir project
cp text.txt project
for name in one two; do
    # shellcheck disable=SC2086
    t 0 "$longline" train "$root/recipes/text-bytes.ini" --data project $small --out project/runs/$name
    cut -d, -f1,4-8 project/runs/$name/metrics.csv >losses.$name
done
check "a second run in the folder of its data learns the same" cmp losses.one losses.two
t 0 "$longline" train --resume project/runs/one --set train.steps=40

# The folder is removed during training. This is reported at once, and the run is whole again.
last="train, its folder removed"
cp -r straight removed
rm -f out err
"$longline" train --resume removed --set train.steps=100000 --set train.checkpoint-every=0 >out 2>err </dev/null &
pid=$!
wait_until grep -qs '^step' err
rm -r removed 2>/dev/null # which the run may be quicker than
wait_until grep -qs 'no folder' err
wait_until test -s removed/recipe.ini -a -s removed/metrics.csv -a -s removed/last.safetensors
check "it is whole again" test -s removed/recipe.ini -a -s removed/metrics.csv -a -s removed/last.safetensors
# With pauses: a run whose folder goes ten times on end gives up.
moved=0
while [ $moved -lt 20 ] && kill -0 $pid; do
    mv removed/metrics.csv rows.$moved 2>/dev/null && moved=$((moved + 1)) && sleep 0.05
done
check "metrics that go as soon as they are there begin with the header, each time" \
    test "$(grep -l '^step,seconds,' rows.* | wc -l)" -eq 20
wait_until test -s removed/metrics.csv
mv removed moved-away
wait_until grep -qs 'removed is now ' err
wait_until test -s removed/metrics.csv
kill -TERM $pid
ended $pid
check "it goes on until it is stopped" test $? -eq 0
err "^longline train: no folder: removed or a file of it was removed; it is made again, with recipe, metrics, step [0-9]+$"
err "^longline train: no folder: removed is now /.*/moved-away; it is made again, and goes on from step [0-9]+: resume this one alone$"
err "go on with: longline train --resume 'removed'"
t 0 "$longline" report removed

# ---- A notice that the time of a job ends ----
# catches PID: its handler of SIGUSR1 (10) is installed.
catches() { awk '/^SigCgt/ {exit !(substr($2, length($2) - 2, 1) ~ /[2367abef]/)}' "/proc/$1/status"; }
last="train.preempt=SIGUSR1"
rm -f err
"$longline" train "$recipe" --data text.txt $small --set model.width=512 --set train.steps=1000000 \
    --set train.preempt=SIGUSR1 --out noticed >out 2>err </dev/null &
pid=$!
wait_until grep -qs '^step' err
i=0
while [ $i -lt 100 ] && kill -USR1 $pid 2>/dev/null; do sleep 0.01; i=$((i + 1)); done
ended $pid
check "notices that are repeated: the run saves, and exits with 0" test $? -eq 0
err "^longline train: saving$"
err "stopped after step [0-9]+ and saved"
# Data that take about a second to read.
awk '{text = text $0 "\n"} END {for (i = 0; i < 2500; i++) printf "%s", text}' text.txt >long.txt
rm -f err
"$longline" train "$recipe" --data long.txt --set data.format=words --set model.vocab=0 $small \
    --set train.preempt=SIGUSR1 --out early >out 2>err </dev/null &
pid=$!
wait_until catches $pid
check "a run heeds it while it reads its data" test ! -e early
kill -USR1 $pid
ended $pid
check "and begins, saves, and exits with 0" test $? -eq 0
err "stopped after step 1 and saved"
last="a signal before the first step"
mkdir away
(cd away && exec "$longline" train "$recipe" --data ../long.txt --set data.format=words --set model.vocab=0 $small) >out 2>err </dev/null &
pid=$!
wait_until test -d away/runs/text-bytes-1
kill -TERM $pid
ended $pid
check "ends the program" test $? -eq 143
check "and leaves no folder" test ! -e away/runs
rm long.txt

# ---- In chunks: the same training to rounding, in less memory ----
t 0 run --out whole-length
one=$(value train.valid_bits_per_byte)
t 0 run --out chunks --set train.chunk=13
check "chunks give the end of the whole" awk "BEGIN {d = $(value train.valid_bits_per_byte) / $one; exit !(d > 0.99 && d < 1.01)}"
t 0 run --out chunked --set train.chunk=13 --set train.steps=15
t 0 "$longline" train --resume chunked --set train.steps=30
t 0 "$longline" eval chunks/best.safetensors
grep -v seconds out >of-file
t 0 "$longline" eval chunks
check "the folder of a run is its best model" sh -c 'test -s of-file && grep -v seconds out | cmp - of-file'
t 0 "$longline" inspect chunks --verify
t 0 "$longline" quantize chunks --out chunks.int8 --weights int8
mkdir -p no-run
refused "the folder no-run has no model" "$longline" inspect no-run
t 0 run --memory --set train.length=100000
all=$(value memory.activations)
parts=$(($(value memory.weights) + $(value memory.gradients) + $(value memory.received) + $(value memory.moments) + all
    + $(value memory.states) + $(value memory.teacher) + $(value memory.report)))
check "the total of its parts" [ "$(value memory.total)" -eq $parts ]
not_err "the run needs"
(ulimit -v 250000; run --memory --set train.length=100000 >out 2>err)
err "^longline train: the run needs about [0-9]+ MB of memory, and ulimit -v leaves [0-9]+ MB: train.recompute = on, "
t 0 run --memory --set train.length=100000000
err "^longline train: the run needs about .* of memory, and this machine has left .*: train.recompute = on, train.chunk"
printf 'a b c\na b c\na b c\n' >abc.txt
words="$root/recipes/wikitext-words.ini --memory --set data.valid= --set data.test= --set data.min-count=1 --set train.length=4"
# shellcheck disable=SC2086
t 0 "$longline" train $words --set model.vocab=5
cp out first
# shellcheck disable=SC2086
t 0 "$longline" train $words --data abc.txt
check "sizes come from the data" cmp -s first out
# shellcheck disable=SC2086
refused "model.vocab = 0 takes the number from the data; .* set it; the data cannot be read: .*missing" \
    "$longline" train $words --data missing.txt
t 0 run --memory --set train.length=100000 --set train.chunk=1000
check "a hundredth of the activations, and states" [ "$(value memory.activations)" -lt $((all / 10)) ]
refused "train.chunk = 13 needs a state of constant size.*set it to 0" run --out w --set train.chunk=13 \
    --set attention.kernel=softmax --set position.type=rope --set position.decay=none
refused "train.chunk = -1 is out of range.*0 to 134217728" run --out w --set train.chunk=-1

# ---- With another model's weights ----
t 0 run --out further --from straight --set train.seed=2
err "^longline train: begins with straight: ([0-9]+) of \\1 tensors$"
check "it begins where the other run ended" awk "BEGIN {exit !($(value train.valid_bits_per_byte) < 6.5)}"
t 0 run --out kernel --from straight/best.safetensors --set attention.kernel=softmax --set attention.query-multiple=1 \
    --set position.type=rope --set position.decay=none
err "; new are blocks.0.attention.query.weight, blocks.0.attention.key.weight"
refused "set model.width=" run --out w --from straight --set model.width=16
refused "cannot open nowhere" run --out w --from nowhere
refused "begins a new run" "$longline" train --resume straight --from straight

# ---- Wrong ----
refused "missing.ini" "$longline" train missing.ini
refused "train.stepps.*train.steps" run --out w --set train.stepps=3
refused "train.steps" run --out w --set train.steps=many
refused "heads" run --out w --set model.heads=3
refused "missing.txt" run --out w --data missing.txt
refused "missing.txt" run --out w --set data.valid=missing.txt
refused "data.test: cannot open missing.txt.*--set data.test= trains without" run --out w --set data.test=missing.txt
refused "data.test: cannot open missing.txt" "$longline" train --resume straight --set data.test=missing.txt
refused "data.valid is set, and the run of straight/last.safetensors began without it" \
    "$longline" train --resume straight --set data.valid=text.txt
refused "cannot open missing.txt: [^;]*$" "$longline" train --resume straight --data missing.txt
cp -r straight moved
sed -i 's/^train = text.txt/train = missing.txt/' moved/recipe.ini
refused "cannot open missing.txt: .*; paths of a run count from the folder where it began: .* give --data PATH$" \
    "$longline" train --resume moved --set train.steps=50
refused "text.txt:1: .* is neither .section. nor key = value; name a recipe \(.ini\); data go to --data$" \
    "$longline" train text.txt
yes 'a long text' | head -c 1100000 >long.txt
refused "long.txt is longer than 1048576 bytes, which is too long for a recipe; .*data go to --data$" \
    "$longline" train long.txt
t 0 "$longline" eval --help
out "f32, bf16, int8 or int4"
for format in words fasta; do
    refused "tokens of data.format = $format are [a-z]*s, and .* trained with data.format = bytes, where they are bytes$" \
        "$longline" eval straight/best.safetensors --data text.txt --set data.format=$format
done
refused "data.train" "$longline" train "$recipe" --out w
refused "no run folder nowhere" "$longline" train --resume nowhere
refused "nowhere" "$longline" train --memory --resume nowhere
refused "memory does not train; leave out --out" run --memory --out w
refused "length is for costs, which --verify does not print" "$longline" inspect straight --verify --length 4
refused "give --data or --set data.train" run --set ' data.train = text.txt'
refused "give --from or --set train.from" run --from straight --set train.from=nobody
refused "give --data or --set data.test" "$longline" eval straight --data text.txt --set data.test=lines.txt
refused "give --labels or --set data.test-labels" "$longline" eval straight --data text.txt --labels a --set data.test-labels=b
refused "straight/last.safetensors is a file; give the folder" "$longline" train --resume straight/last.safetensors
refused "moves images" "$longline" eval straight/best.safetensors --shift 2
refused "model.width" "$longline" train --resume straight --set model.width=64
printf 'not a recipe' >bad.ini
refused "bad.ini" "$longline" train bad.ini
printf '[model]\nwidht = 3\n' >bad.ini
refused "bad.ini.*widht.*width" "$longline" train bad.ini
: >empty.txt
refused "empty.txt" run --out w --data empty.txt
check "no file is left" test ! -e w
: >file
refused "a part of this path is a file" run --out file/run
if [ -w /dev/full ]; then
    run --out full >/dev/full 2>err </dev/null
    check "results to a full disk are a failure" test $? -eq 1
    check "the model is there" test -s full/best.safetensors
fi

# ---- No room for the next checkpoint ----
cp -r straight tight
last="train --resume tight, with files limited to 10 kB"
(ulimit -f 20 && "$longline" train --resume tight --set train.steps=60 >out 2>err </dev/null)
check "a checkpoint that does not fit is a failure" test $? -eq 1
err "^longline train: .*tight/"
check "the checkpoint before stays whole" cmp tight/last.safetensors straight/last.safetensors
check "no other file is beside it" sh -c "! ls tight | grep -q tmp"

# ---- The model ----
m=straight/best.safetensors
t 0 "$longline" inspect $m
out "^\[model\]$"
out "^tensor [a-z0-9_.]+ [0-9]+x[0-9]+$"
out "^inspect.parameters=[0-9]+$"
out "^inspect.multiply_adds_per_token=[0-9]+$"
stream=$(value inspect.stream_bytes)
t 0 "$longline" inspect $m --length 1000000
check "a stream has the same size after a million tokens" test "$(value inspect.stream_bytes)" = "$stream"
t 0 "$longline" eval $m
out "^eval.split=valid$"
out "^eval.bits_per_byte=[0-9.]+$"
bits=$(value eval.bits_per_byte)
t 0 "$longline" eval $m --threads 1
check "one thread, same result" test "$(value eval.bits_per_byte)" = "$bits"
for kind in bf16 int8; do
    t 0 "$longline" eval $m --weights $kind
    check "$kind loses less than a twentieth of a bit" awk "BEGIN {d = $(value eval.bits_per_byte) - $bits; exit !(d < 0.05 && d > -0.05)}"
    t 0 "$longline" generate $m --tokens 20 --weights $kind
done
refused "int5" "$longline" generate $m --weights int5
cp text.txt '"quotes" and spaces .txt'
t 0 "$longline" eval $m --data '"quotes" and spaces .txt' --set train.length=200
t 0 "$longline" train "$recipe" --data '"quotes" and spaces .txt' $small --set train.steps=1 --set train.warmup=0 --out quoted
t 0 "$longline" eval quoted --split train --batches 1
t 0 "$longline" eval $m --data text.txt --set train.length=200
out "^eval.split=test$"
gzip -k text.txt 2>/dev/null && {
    plain=$(value eval.bits_per_byte)
    t 0 "$longline" eval $m --data text.txt.gz --set train.length=200
    check "gzip makes no difference" test "$(value eval.bits_per_byte)" = "$plain"
}
refused "missing.txt" "$longline" eval $m --data missing.txt
refused "model.width" "$longline" eval $m --set model.width=8
refused "data.test" "$longline" eval $m --split test

# ---- Text ----
t 0 "$longline" generate $m --prompt 'line 1' --tokens 300 --seed 5
check "as many bytes as asked for" test "$(wc -c <out)" -eq 300
err "^longline generate: 300 bytes, [0-9]+ a second; the state has [0-9.]+ kB, the program"
cp out first
state=$(sed -n 's/.*state has \([0-9.]*\) kB.*/\1/p' err)
t 0 "$longline" inspect $m
check "the state that inspect has, without scratch" awk "BEGIN {x = $(value inspect.stream_bytes) / 1000 - $state; exit !(x < 1 && x > -1)}"
t 0 "$longline" generate $m --prompt 'line 1' --tokens 300 --seed 5 --threads 1
check "same seed, same text" cmp -s out first
t 0 "$longline" generate $m --prompt 'line 1' --tokens 300 --seed 6
check "other seed, other text" sh -c "! cmp -s out first"
printf 'line 1' >prompt
t 0 "$longline" generate $m --prompt-file prompt --tokens 300 --seed 5
check "a prompt from a file" cmp -s out first
"$longline" generate $m --prompt-file - --tokens 300 --seed 5 <prompt >out 2>err
check "a prompt from standard input" cmp -s out first
gzip -c prompt >packed.anything
t 0 "$longline" generate $m --prompt-file packed.anything --tokens 300 --seed 5
check "a packed prompt, whatever its name" cmp -s out first
"$longline" generate $m --prompt-file - --tokens 300 --seed 5 <packed.anything >out 2>err
check "the same from standard input" cmp -s out first
head -c 15 packed.anything >cut.gz
refused "cut.gz is truncated" "$longline" generate $m --prompt-file cut.gz
t 0 "$longline" generate $m --prompt 'line 1' --tokens 300 --seed 5 --echo
check "--echo prints the prompt first" sh -c "cat prompt first | cmp -s - out"
t 0 "$longline" generate $m --prompt 'a\nb' --tokens 1 --echo
out '^a\\nb'
t 0 "$longline" generate $m --tokens 100 --temperature 0
cp out first
t 0 "$longline" generate $m --tokens 100 --top-k 1 --seed 9
check "--top-k 1 takes the likeliest byte, as --temperature 0 does" cmp -s out first
"$longline" generate $m --tokens 0 2>err | head -c 1000 >out
check "it writes until the reader closes the pipe" test "$(wc -c <out)" -eq 1000
check "it prints no message" test ! -s err
refused "missing" "$longline" generate $m --prompt-file missing
refused "is a folder" "$longline" generate $m --prompt-file .
if [ -w /dev/full ]; then
    "$longline" generate $m --tokens 0 >/dev/full 2>err
    check "text to a full disk is a failure" test $? -eq 1
    check "it is one line" test "$(wc -l <err)" -eq 1
fi
