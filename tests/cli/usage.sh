# The program without work: help, versions, wrong words, streams that are full or closed.
commands=$("$longline" help | sed -n 's/^  \([a-z]*\)  *[a-z].*/\1/p' | grep -vx longline)
check "there are commands" [ "$(echo "$commands" | wc -l)" -ge 20 ]

t 0 "$longline" help
for c in $commands; do out "^  $c +[a-z]"; done
out "^Exit codes: 0 "
t 0 "$longline" --help
out "^usage: longline COMMAND"
for c in $commands; do
    t 0 "$longline" "$c" --help
    out "^usage: longline $c"
    out "^  longline $c"        # an example
    out "--threads N .*(default 0)"
    check "help $c and $c --help are the same" sh -c "'$longline' help $c | cmp -s - out"
    awk 'length > 120' out >wide
    check "$c --help fits in 120 columns" test ! -s wide
done
t 0 "$longline" version
out "^longline [0-9]+\.[0-9]+\.[0-9]+$"
t 0 "$longline" --version
out "^longline [0-9]"

refused "needs a command" "$longline"
refused "no command 'trian'; did you mean 'train'" "$longline" trian
refused "no command 'zzzzzz'" "$longline" zzzzzz
t 0 "$longline" import --help
out "RoFormer, ESM-2, ViT"
out "file of the model \(default model.safetensors\)$"
out "tokenizer.model"
t 0 "$longline" tokenize --help
out "tokenizer.model"
t 0 "$longline" eval --help
check "no default is one that is refused" sh -c "! grep -e '--class .*default' out"
for c in generate eval serve; do
    t 0 "$longline" $c --help
    out "--weights KIND .*f32, bf16, int8 or int4"
done
t 0 "$longline" generate --help
out 'control characters by their number, as .x1b'
refused "did you mean 'generate'" "$longline" help genrate
refused "unexpected argument 'b'" "$longline" help a b
refused "unknown option '--lenght'; did you mean '--length'" "$longline" inspect x --lenght 3
for option in --steps --stes --kernl; do
    refused "did you mean '--set (train.steps|attention.kernel)=VALUE'" "$longline" train x $option 3
done
: >file
refused "--out file: it is a file; name a folder" "$longline" train "$root/recipes/copy.ini" --out file
refused "--out file: it is a file; name a folder" "$longline" demo --out file
refused "--out file/deep: a part of this path is a file" "$longline" analyse moments --quick --out file/deep
refused "unknown option '-x'" "$longline" inspect -x
refused "unknown option '--nothing-like-it'" "$longline" eval --nothing-like-it=3 x
refused "needs MODEL" "$longline" generate
refused "an argument is empty; needs MODEL" "$longline" generate ''
refused "an argument is empty; needs .RECIPE" "$longline" train ''
refused "needs MODEL" "$longline" eval
refused "needs MODEL" "$longline" inspect
refused "needs CASE" "$longline" attend
refused "needs -o FILE" "$longline" attend case.safetensors
refused "needs a RECIPE, or --resume" "$longline" train
refused "unexpected argument 'b'" "$longline" train a b
refused "unexpected argument 'train.steps=3'; did you mean '--set train.steps=3'" "$longline" train a --set train.batch=2 train.steps=3
refused "--tokens needs a value" "$longline" generate x --tokens
refused "--tokens ten: needs a whole number" "$longline" generate x --tokens ten
refused "--tokens 1.5: needs a whole number" "$longline" generate x --tokens=1.5
refused "--tokens -1: needs a whole number from 0" "$longline" generate x --tokens -1
refused "--tokens : needs a whole number" "$longline" generate x --tokens ''
refused "--temperature nan: needs a number" "$longline" generate x --temperature nan
refused "--top-p 1.5: needs a number" "$longline" generate x --top-p 1.5
refused "--top-k 99999999999999999999" "$longline" generate x --top-k 99999999999999999999
refused "--threads -2" "$longline" version --threads -2
refused "--threads 257" "$longline" version --threads 257
refused "not both" "$longline" generate x --prompt a --prompt-file b
refused "--echo takes no value" "$longline" generate x --echo=1
refused "--split all: needs train, valid or test" "$longline" eval x --split all
refused "--labels needs --data" "$longline" eval x --labels y
refused "needs MODEL" "$longline" score
refused "needs MODEL" "$longline" encode
refused "needs MODEL" "$longline" classify
refused "--pool middle: needs mean, first, last or all" "$longline" encode x --pool middle
refused "not both" "$longline" encode x --json -o y.csv
refused "--top 0: needs a whole number from 1" "$longline" classify x --top 0
refused "--window 0: needs a whole number from 1" "$longline" score x --window 0
refused "^longline version: --cpu: .turbo" "$longline" version --cpu turbo
t 0 "$longline" quantize --weights int4 x --help
out "[(]default int8[)]"
t 2 "$longline" quantize --weights --help
long=$(printf 'a%.0s' $(seq 300))
: >named
refused "^longline quantize: --out: File name too long" "$longline" quantize named -o "$long"
t 0 "$longline" version --cpu scalar --threads 1
refused "turbo" env LL_CPU=turbo "$longline" inspect x --cpu turbo
refused "no kernels that run here" "$longline" inspect x --cpu ''
refused "LL_CPU=.turbo" env LL_CPU=turbo "$longline" version
t 0 env LL_CPU=turbo "$longline" version --cpu scalar
refused "line.?break" "$longline" "line
break"

if [ -w /dev/full ]; then
    for c in help version recipe; do
        last="$c >/dev/full"
        "$longline" $c >/dev/full 2>err
        check "$c to a full disk is a failure" test $? -eq 1
        err "^longline $c: cannot write to standard output"
    done
fi
last="version >&-"
"$longline" version >&- 2>err
check "a closed stdout is a failure" test $? -eq 1
last="help | head -1"
check "a closed pipe ends it without a message" sh -c "{ '$longline' recipe; } 2>err | head -n 1 >out; test ! -s err"
