# What unattended runs rely on: nothing is lost, damage is noticed, and each failure is reported.
small_text
recipe=$root/recipes/text-bytes.ini
# shellcheck disable=SC2086
run() { "$longline" train "$recipe" --data text.txt $small "$@"; }
t 0 run --out run
not_err "warmup|chance"
m=run/best.safetensors
t 0 "$longline" generate $m --prompt 'line 1' --tokens 5 --save-state good.state

# ---- A flipped bit in the tensors ----
t 0 "$longline" inspect $m --verify
out "^inspect.tensors=[0-9]+$"
check "every tensor has a checksum" test "$(value inspect.tensors)" = "$(value inspect.checked)"
t 0 "$longline" inspect run/last.safetensors --verify
t 0 "$longline" inspect good.state --verify
flip() { # FILE BYTES-FROM-THE-END
    at=$(($(wc -c <"$1") - $2))
    byte=$(od -An -tu1 -j$at -N1 "$1" | tr -d ' ')
    octal $((byte ^ 4)) | dd of="$1" bs=1 seek=$at conv=notrunc 2>/dev/null
}
for from in 1 1000 9000; do
    cp $m flipped.safetensors
    flip flipped.safetensors $from
    refused "flipped.safetensors is damaged: tensor [a-z0-9_.]+ is not what was written" \
        "$longline" inspect flipped.safetensors --verify
    refused "is damaged: tensor" "$longline" generate flipped.safetensors --tokens 3
    cp good.state flipped.state
    flip flipped.state $from
    refused "flipped.state is damaged: tensor" "$longline" generate $m --load-state flipped.state --tokens 3
done
cp -r run flipped-run
flip flipped-run/last.safetensors 3000
refused "last.safetensors is damaged: tensor" "$longline" train --resume flipped-run --set train.steps=40
sed 's/norm-eps = 1e-05/norm-eps = 1e-04/' $m >flipped.safetensors
refused "flipped.safetensors is damaged: its header is not what was written" "$longline" generate flipped.safetensors --tokens 3
sed 's/"position":"\([0-9]*\)[0-9]"/"position":"\17"/' good.state >flipped.state
refused "flipped.state is damaged: its header" "$longline" generate $m --load-state flipped.state --tokens 3
# Files of earlier versions have no checksums.
cp $m old.safetensors
cp good.state old.state
unsum old.safetensors
unsum old.state
t 0 "$longline" generate old.safetensors --tokens 3
err "old.safetensors has no checksums"
t 0 "$longline" generate $m --load-state old.state --tokens 3
err "old.state has no checksums"
t 2 "$longline" inspect old.safetensors --verify
out "^inspect.checked=0$"
err "have no checksum"

# ---- A state is saved, whatever becomes of the text ----
last="generate --save-state, its reader goes"
{ "$longline" generate $m --prompt 'line 1' --tokens 0 --save-state piped.state 2>err; echo $? >code; } | head -c 100 >out
check "the reader got its text" test "$(wc -c <out)" -eq 100
check "it is no failure" test "$(cat code)" -eq 0
err "state after byte [0-9]+ saved"
t 0 "$longline" generate $m --load-state piped.state --tokens 3
last="generate --save-state >&-"
"$longline" generate $m --prompt 'line 1' --tokens 4 --save-state closed.state 2>err >&-
check "a closed stdout is a failure" test $? -eq 1
err "state after byte [0-9]+ saved"
err "cannot write to standard output"
t 0 "$longline" generate $m --load-state closed.state --tokens 3

# ---- Files are whole or not there ----
for file in --json --csv; do
    { ulimit -f 0; "$longline" analyse moments --quick $file table 2>&1 >/dev/null; echo "code $?"; } | cat >err
    check "analyse $file without room fails" grep -q "^code 1$" err
    err "^longline analyse: cannot write .*table: File too large"
    check "no file is left" sh -c '! ls | grep -q table'
    echo before >table
    (ulimit -f 0; "$longline" analyse moments --quick $file table >/dev/null 2>&1)
    check "analyse $file without room leaves the file that was there" test "$(cat table)" = before
    t 0 "$longline" analyse moments --quick $file table
    check "with enough space it is written" test "$(wc -c <table)" -gt 100
    rm table
done
t 0 "$longline" analyse moments --quick --json /dev/stdout
out '"name": "moments"'
last="score -o, with files limited to 1 kB"
(ulimit -f 2; "$longline" score $m text.txt -o scores.tsv >out 2>err)
check "score without room fails" test $? -eq 1
err "^longline score: cannot write scores.tsv: File too large"
check "no file is left" sh -c '! ls | grep -q scores'

# ---- Two signals ----
begin() { # OPTIONS..: a run that goes on until it is stopped
    rm -f err
    # Background jobs of a shell ignore SIGINT, and the ignored signal stays ignored.
    env --default-signal "$longline" train "$@" --set train.steps=100000000 --set train.checkpoint-every=40 >out 2>err </dev/null &
    pid=$!
    wait_until grep -qs '^step' err
}
for signal in INT TERM; do
    cp -r run twice
    last="train, SIG$signal"
    begin --resume twice
    kill -$signal $pid
    ended $pid
    check "one SIG$signal ends it in order" test $? -eq 0
    err "^longline train: saving; again stops at once$"
    err "stopped after step [0-9]+ and saved"
    rm -r twice
done
# The second signal must come while the run saves. The process is stopped meanwhile, so that it finds both.
cp -r run twice
last="train, SIGTERM twice"
begin --resume twice
kill -STOP $pid
kill -INT $pid
kill -TERM $pid
kill -CONT $pid
ended $pid
check "the second one ends it" test $? -gt 128
err "^longline train: saving; again stops at once$"
err "^longline train: stopped at once; the steps since the checkpoint are lost; go on from step [0-9]+ with: longline train --resume 'twice'$"
step=$(sed -n 's/.*go on from step \([0-9]*\) .*/\1/p' err)
refused "has made [0-9]+ steps" "$longline" train --resume twice --set train.steps=0
# If a checkpoint was just being renamed when the signal came, it may be a later one.
check "the checkpoint is of that step or a later one" test "$(sed -n 's/.*has made \([0-9]*\) steps.*/\1/p' err)" -ge "$step"

# ---- Runs that are not what their user thinks ----
t 0 run --out far --set train.learning-rate=100 --set train.clip=0 --set train.report=on
err "^longline train: no learning: the loss is [0-9.e+]+ nats, and 5.5[0-9]* would be chance: lower train.learning-rate = 100, or try train.clip = 1$"
check "it is printed once" test "$(grep -c 'would be chance' err)" -eq 1
check "the page has it, too" grep -q "far above chance, which is 8" far/report.html
check "a run that learns prints no such line" sh -c "'$longline' report run >/dev/null && ! grep -q 'above chance' run/report.html"
t 0 run --out rising --set train.warmup=100 --set train.steps=3
err "train.warmup = 100 is longer than train.steps = 3, so that the learning rate rises to 3 % of train.learning-rate"
t 0 run --out stages --from run --set train.distil=both --set train.distil-switch=30 --set train.distil-until=2
err "train.distil-switch = 30 is not before the last step with a teacher, 2, so that logits are not matched"
t 0 run --out logits --from run --set train.distil=logits
err "^step 30/30  distillation loss [0-9.]+  valid"
out "^train.distillation_loss=[0-9.]+$"
check "a loss against a teacher is in no bits" sh -c '! grep -q "^train.loss\|^train.bits" out'
t 0 "$longline" train --resume run
err "^longline train: finished already: step 30 of 30; go on with: longline train --resume 'run' --set train.steps=N$"
check "a run without a step prints no speed" sh -c '! grep -q "tokens_per_second\|train.seconds" out'

# ---- A full disk ----
cp -r run tight
last="train --resume tight, with files limited"
(ulimit -f 20 && "$longline" train --resume tight --set train.steps=60 >out 2>err </dev/null)
check "a checkpoint that does not fit is a failure" test $? -eq 1
err "raise the limit of a file's size .ulimit -f.*, then go on from step 30 with: longline train --resume 'tight'$"
(ulimit -f 20 && "$longline" train --resume tight --out tighter >out 2>err </dev/null)
err "tighter/.*raise the limit of a file's size .ulimit -f.*, then give the same command again$"
t 0 "$longline" train --resume tight --out tighter --set train.steps=60

# ---- Wrong values ----
refused "attention.kernel = \"rellu\" is not known; did you mean relu\?" run --out w --set attention.kernel=rellu
refused "position.type = \"permutte\" is not known; did you mean permute\?" run --out w --set position.type=permutte
refused "must be one of" run --out w --set attention.kernel=something-else
for value in inf 1e400 -inf; do
    refused "train.learning-rate = $value is out of range.*\(0 to 100\)" run --out w --set train.learning-rate=$value
done
refused "must be a number" run --out w --set train.learning-rate=nan
refused "without control characters.*rename" run --out w --data "a$(printf '\001')b"
refused "without control characters.*; where it names a file, rename that" run --out w --set data.classes="a$(printf '\001')b"
for kind in bf16 int8; do
    t 0 "$longline" generate $m --weights $kind --tokens 3 --save-state $kind.state
    refused "the state of a model with weights $kind, and this one has f32; if it is of this model, load it with --weights $kind" \
        "$longline" generate $m --load-state $kind.state
    t 0 "$longline" generate $m --weights $kind --tokens 3 --load-state $kind.state
done

# ---- Memory runs out ----
# With any amount of memory above what the libraries themselves take, a command works, or fails with one clear line, and
# leaves no unfinished file.
least=8000
while [ $least -lt 200000 ] && ! (ulimit -v $least; "$longline" version >out 2>&1); do least=$((least + 1000)); done
bad=0
for more in 0 700 1400 2100 2800 3500 5000 8000 17000; do
    for what in "report run" "train --resume tight --set train.steps=61" "generate $m --tokens 2"; do
        # shellcheck disable=SC2086
        (ulimit -v $((least + more)); "$longline" $what >out 2>err </dev/null)
        code=$?
        if [ $code -gt 1 ]; then bad=1 last="ulimit -v $((least + more)); longline $what: exit code $code"; fi
        if [ $code -eq 1 ] && ! grep -qiE "no memory|out of memory|cannot allocate|not enough memory" err; then
            bad=1 last="ulimit -v $((least + more)); longline $what: $(cat err)"
        fi
        if ls run tight | grep -q tmp; then bad=1 last="ulimit -v $((least + more)); longline $what: left a file"; fi
    done
done
check "little memory is an error, not a crash" test $bad -eq 0
# A packed model is unpacked as far as its beginning says.
gzip -c $m >packed.gz
t 0 "$longline" inspect packed.gz --verify
head -c 300M /dev/zero | gzip -1 >zeros.gz
(ulimit -v $((least + 100000)); refused "its header does not begin with {" "$longline" inspect zeros.gz)
{ cat $m; head -c 300M /dev/zero; } | gzip -1 >longer.gz
(ulimit -v $((least + 100000)); refused "holds more than [0-9]* bytes unpacked" "$longline" inspect longer.gz)
"$longline" inspect packed.gz | grep ^tensor >expected
cat packed.gz | "$longline" inspect /dev/stdin 2>err | grep ^tensor >out
check "a packed model from a pipe" cmp -s out expected
