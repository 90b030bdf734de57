# Generation that stops and goes on: with a saved state it gives the same bytes as without a stop.
small_text
recipe=$root/recipes/text-bytes.ini
# shellcheck disable=SC2086
run() { "$longline" train "$recipe" --data text.txt $small "$@"; }
t 0 run --out linear
t 0 run --out exact --set attention.kernel=softmax --set attention.query-multiple=1 --set position.type=rope \
    --set position.decay=none
t 0 run --out learned --set position.type=learned --set position.decay=none --set position.max-length=100 --set train.steps=2
sampling='--temperature 0.9 --top-k 40 --seed 5'

# keep NAME: copies the stdout of the last command.
keep() { cp out "$1"; }
joined() { cat "$1" "$2" | cmp - "$3"; }
sampled() { # MODEL OPTIONS...
    model=$1
    shift
    # shellcheck disable=SC2086
    "$longline" generate "$model/best.safetensors" $sampling "$@"
}

for model in linear exact; do
    t 0 sampled $model --prompt 'line 7' --tokens 600
    keep whole
    not_err "state after"
    t 0 sampled $model --prompt 'line 7' --tokens 299 --save-state $model.state
    err "^longline generate: state after byte 305 saved; go on with: --load-state '$model.state'$"
    keep first
    t 0 sampled $model --tokens 301 --load-state $model.state --save-state $model.state
    err "state after byte 606 saved"
    keep second
    check "$model: 299 bytes and 301 more are 600" joined first second whole
    t 0 sampled $model --tokens 1000 --prompt 'line 7'
    keep longer
    t 0 sampled $model --tokens 400 --load-state $model.state
    keep third
    check "$model: a state that was gone on from and saved again" sh -c 'cat whole third | cmp - longer'

    # A prompt in two parts, the second after a saved state.
    printf 'line 7 of 0 says' >prompt
    t 0 sampled $model --prompt-file prompt --tokens 50
    keep whole
    t 0 sampled $model --prompt 'line 7' --only-read --save-state read.state
    silent
    err "state after byte 6 saved"
    t 0 sampled $model --prompt ' of 0 says' --tokens 50 --load-state read.state
    check "$model: a prompt cut in two" cmp out whole
    t 0 sampled $model --prompt ' of 0 says' --tokens 50 --load-state read.state --echo
    out "^ of 0 says"
    t 0 sampled $model --prompt ' of 0 says' --tokens 50 --load-state read.state --threads 1
    check "$model: one thread, same bytes" cmp out whole
done
t 0 sampled linear --prompt 'line 7' --tokens 1 --save-state short.state
check "a linear state does not depend on the length" \
    test $(($(wc -c <linear.state) - $(wc -c <short.state))) -le 64

# ---- Interrupted: what was written is what the state knows ----
last="generate, SIGTERM"
rm -f out err
# shellcheck disable=SC2086
"$longline" generate linear/best.safetensors $sampling --prompt 'line 7' --tokens 0 --save-state cut.state \
    >out 2>err </dev/null &
pid=$!
wait_until test -s out
kill -TERM $pid
ended $pid
check "SIGTERM saves and ends with exit code 0" test $? -eq 0
err "state after byte $(($(wc -c <out) + 6)) saved"
keep first
t 0 sampled linear --load-state cut.state --tokens 30
keep second
t 0 sampled linear --prompt 'line 7' --tokens $(($(wc -c <first) + 30))
check "no byte is lost between" joined first second out
last="generate reading from a pipe, SIGHUP"
mkfifo pipe
"$longline" generate linear/best.safetensors --prompt-file pipe --save-state cut.state >out 2>err &
pid=$!
exec 3>pipe
printf 'line 7' >&3
sleep 0.5
kill -HUP $pid
ended $pid
check "a signal while it waits for its prompt: the prompt has not been read to its end" test $? -eq 1
exec 3>&-
silent
err "stopped while reading pipe"
err "state after byte [06] saved"

# The command of a message can be pasted.
t 0 sampled linear --prompt 'line 7' --only-read --save-state "it's.state"
sed -n 's/.* go on with: //p' err >command
t 0 sh -c "'$longline' generate linear/best.safetensors $(cat command) --tokens 1"
err "^longline generate: 1 bytes"

# ---- Wrong ----
refused "missing.state" sampled linear --load-state missing.state
refused "another model" sampled exact --load-state linear.state
refused "not the state of a stream" sampled linear --load-state linear/last.safetensors
refused "not a longline model" "$longline" generate linear.state
head -c 1000 linear.state >cut.state
refused "cut.state" sampled linear --load-state cut.state
: >empty.state
refused "empty.state" sampled linear --load-state empty.state
cp linear.state patched.state
unsum patched.state
printf '\377\377\377\377\377\377\377\377' | dd of=patched.state bs=1 seek=$(($(wc -c <patched.state) - 2048)) conv=notrunc 2>/dev/null
t 2 sampled linear --load-state patched.state
err "not finite"
silent
refused "overwrite the model" sampled linear --save-state linear/best.safetensors
mkdir folder
refused "folder" sampled linear --save-state folder
refused "--save-state pipe: it is a pipe or a device; name a file" sampled linear --prompt a --only-read --save-state pipe
refused "name of a file" sampled linear --save-state ''
refused "name of a file" sampled linear --save-state folder/
refused "--save-state nowhere/a.state: there is no folder nowhere/" sampled linear --save-state nowhere/a.state
silent
refused "only-read needs --save-state" sampled linear --only-read --prompt a
refused "needs a prompt" sampled linear --only-read --save-state a.state
refused "load-sate.*--load-state" sampled linear --load-sate a.state
check "no file is left" test ! -e a.state
last="generate with files limited to 1 kB"
cp linear.state old.state
(ulimit -f 2 && sampled linear --tokens 3 --save-state linear.state >out 2>err </dev/null)
check "a state that does not fit is a failure" test $? -eq 1
check "the old file stays" cmp linear.state old.state
if [ -w /dev/full ]; then
    sampled linear --tokens 3 --save-state full.state >/dev/full 2>err </dev/null
    check "text that cannot be written is a failure" test $? -eq 1
    err "state after byte [0-9]+ saved"
    err "cannot write to standard output: No space left"
fi
head -c 50000000 /dev/zero >zeros
told "^prompt read: [0-9.]+ [kM]B of 30 MB, eta [0-9:]+$" "$longline" generate linear/best.safetensors --prompt-file zeros \
    --prompt-tokens 30000000
# Text that goes to a file has a line of progress, and so have prompts.
told "^generated: [0-9]+ of 100000000, eta [0-9:]+$" "$longline" generate linear/best.safetensors --tokens 100000000
yes 'line 3 of' | head -n 1000000 >prompts
told "^prompts: [0-9]+ %, eta [0-9:]+$" "$longline" generate linear/best.safetensors --prompts prompts --tokens 20
# No more of a prompt is read than is used: the end of this file is missing.
head -c 1000000 "$longline" | gzip | head -c 200000 >cut.gz
t 0 "$longline" generate linear/best.safetensors --prompt-file cut.gz --prompt-tokens 1000 --tokens 3
refused "cut.gz is truncated" "$longline" generate linear/best.safetensors --prompt-file cut.gz --tokens 3
told "^prompt read: [0-9.]+ [kM]B of 50 MB, eta [0-9:]+$" "$longline" generate linear/best.safetensors --prompt-file zeros
# Where learned positions end, the text does, with the same bytes in one run and in two.
learned=learned/best.safetensors
t 0 "$longline" generate $learned --prompt 'line ' --tokens 0 --seed 3
check "the last token has no position of its own" test "$(wc -c <out)" -eq 96
err "the text ends because the model's learned positions do, after 100 tokens"
keep whole
t 0 "$longline" generate $learned --prompt 'line ' --tokens 900 --seed 3 --save-state learned.state
check "a text whose state is saved ends before it" test "$(wc -c <out)" -eq 95
keep part
t 0 "$longline" generate $learned --load-state learned.state --seed 3
check "it is what comes next" joined part out whole
t 0 "$longline" generate $learned --load-state learned.state --save-state more.state
silent
printf 'line \nline\n' >prompts.txt
t 0 "$longline" generate $learned --prompts prompts.txt --tokens 900 --seed 3
check "a line for each prompt" test "$(wc -l <out)" -eq 2
err "prompts.txt, line 2: the text ends because"
# Each line of --prompts begins with the same state.
t 0 "$longline" generate linear/best.safetensors --prompt 'line 3' --only-read --save-state read.state
printf 'of\n says\nof\n' >prompts.txt
t 0 "$longline" generate linear/best.safetensors --load-state read.state --prompts prompts.txt --tokens 9 --temperature 0
keep lines
for i in 1 2 3; do
    t 0 "$longline" generate linear/best.safetensors --load-state read.state --prompt "$(sed -n ${i}p prompts.txt)" --tokens 9 \
        --temperature 0
    check "line $i has the text that it gets alone" [ "$(sed -n "${i}p" lines | sed 's/\\n/\n/g')" = "$(cat out)" ]
done
