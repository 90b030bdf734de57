# Many ranks give the same bits, messages and files as one process. Needs Open MPI or MPICH; without them it says so.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
text=$root/recipes/text-bytes.ini
small_text
step="$small --set train.batch=8 --set train.steps=8 --set train.eval-every=4 --set train.checkpoint-every=4
 --set model.dropout=0.1 --set train.accumulate=2 --set train.schedule=constant --threads 1"
sharded="$step --set dist.shards=8"
# ranks LAUNCHER N COMMAND...: runs it on N ranks. A launcher adds messages of its own to stderr.
ranks() {
    launcher=$1 count=$2
    shift 2
    more=
    [ "$launcher" = openmpi ] && more="--oversubscribe"
    timeout 120 mpirun."$launcher" $more -n "$count" "$@"
}
same() { cmp -s "$1/last.safetensors" "$2/last.safetensors" && cmp -s "$1/best.safetensors" "$2/best.safetensors"; }
# messages N: stderr has N lines of the program itself.
messages() { [ "$(grep -c '^longline' err)" -eq "$1" ]; }
# wait_for_step_20 RUN: by then all ranks know whether the run has a checkpoint of step 10.
wait_for_step_20() {
    i=0
    while ! grep -qs '^20,' "$1/metrics.csv" && [ $i -lt 300 ]; do sleep 0.1; i=$((i + 1)); done
}

# ---- Without MPI ----
t 1 env PMI_RANK=0 PMI_SIZE=2 LL_MPI=none "$longline" train "$text" --data text.txt $step -o alone
err 'the plug-in longline-mpi-none.so cannot be opened.*start one process'
check "there is one message" messages 1
t 1 env PMI_RANK=1 PMI_SIZE=2 LL_MPI=none "$longline" train "$text" --data text.txt $step -o alone
check "and rank 1 prints none" messages 0

t 0 "$longline" train "$text" --data text.txt $sharded -o one
t 0 "$longline" train "$text" --data text.txt $sharded --threads 2 -o two
check "shards on two threads" same one two

found=
for library in openmpi mpich; do
    [ -e "$build/longline-mpi-$library.so" ] && command -v mpirun.$library >/dev/null ||
        { skip "ranks of $library: it is not here"; continue; }
    # ---- Any number of ranks ----
    counts="1 2 3 4 8"
    [ -z "$found" ] || counts=2
    found=$library
    for n in $counts; do
        t 0 ranks $library $n "$longline" train "$text" --data text.txt $sharded -o $library-$n
        check "$library: $n ranks give the bits of one process" same one $library-$n
        check "one rank prints" [ "$(grep -c '^train.steps=8$' out)" -eq 1 ]
    done
    t 0 ranks $library 2 "$longline" train "$text" --data text.txt $sharded --threads 2 -o $library-threads
    check "$library: so do 2 ranks of 2 threads" same one $library-threads
    # ---- Errors ----
    t 2 ranks $library 3 "$longline" train "$text" --data absent.txt $step -o absent
    err 'cannot open absent.txt'
    check "one rank reports the missing file" messages 1
    check "nothing is left of the run" [ ! -e absent ]
    # Only rank 1 lacks its file.
    t 2 ranks $library 3 sh -c 'case ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} in 1) data=lost.txt ;; *) data=text.txt ;; esac
        exec "$0" "$@" --data $data' "$longline" train "$text" $step -o lost
    err 'rank 1: .*cannot open lost.txt'
    check "one message for the file of one rank" messages 1
    t 2 ranks $library 4 "$longline" train "$text" --data text.txt $step --set dist.shards=3 -o shards
    err '4 ranks cannot share a batch of 3 shards'
done
[ -n "$found" ] || return 0

# ---- Memory ----
# within NUMBER LOW HIGH: in MiB.
within() { awk -v x="$1" -v a="$2" -v b="$3" 'BEGIN {exit !(x >= a && x <= b)}'; }
large="--set model.layers=2 --set model.width=320 --set model.ff=1280 --set train.batch=4 --set train.length=32
 --set train.steps=11 --set train.eval-every=0 --set train.checkpoint-every=0 --set train.report=off --threads 1"
for n in 1 4; do
    t 0 "$longline" train "$text" --data text.txt $small $large --memory --ranks $n
    announced=$(($(value memory.total) / 1048576))
    t 0 ranks "$found" $n "$longline" train "$text" --data text.txt $small $large -o memory-$n
    used=$(awk -F, '$1 == 10 {print $NF}' memory-$n/metrics.csv)
    eval "over_$n=$((used - announced)) used_$n=$used"
    check "rank 0 of $n uses $used MiB: what was announced ($announced), and the program" within $((used - announced)) 5 40
done
check "4 ranks use no more beyond what was announced than one: $over_4, $over_1 MiB" within $((over_4 - over_1)) -4 4
t 0 timeout 30 "$longline" train "$text" --data text.txt $small --set train.batch=65536 --memory --ranks 65536
# The page. The run has written into its recipe how many shards it has.
page="--set train.report=on --set train.length=2048 --set train.recompute=on"
t 0 "$longline" train "$text" --data text.txt $small $large $page --memory --ranks 4
mv out planned
t 0 "$longline" train memory-4/recipe.ini $page --threads 1 --memory --ranks 4
check "the page is counted with the shards that the run has" cmp -s planned out
# Row 20 of the resumed run comes before rank 0 collects all moments for a checkpoint.
t 0 ranks "$found" 4 "$longline" train --resume memory-4 --set train.steps=21 --threads 1
used=$(awk -F, '$1 == 20 {print $NF}' memory-4/metrics.csv)
check "rank 0 of 4 resumes in the memory that it ran in: $used, $used_4 MiB" within $((used - used_4)) -4 4

# ---- Resumed with other numbers ----
for n in 1 3; do
    t 0 ranks "$found" 2 "$longline" train "$text" --data text.txt $sharded --set train.steps=4 -o go-$n
    t 0 ranks "$found" $n "$longline" train --resume go-$n --set train.steps=8 --threads 1
    check "2 ranks, then $n" same one go-$n
done
t 0 ranks "$found" 4 "$longline" train "$text" --data text.txt $step -o default
check "each example is a shard by default" same one default
# The headers differ, since they have the recipe, so the tensors behind them are compared.
tensors() {
    head=$(od -An -tu8 -N8 "$1" | tr -d ' ')
    tail -c +$((head + 9)) "$1"
}
exact=$(value train.valid_loss)
t 0 ranks "$found" 3 "$longline" train "$text" --data text.txt $step --set dist.reduce=fast -o fast
tensors one/last.safetensors >exact.tensors
tensors fast/last.safetensors >fast.tensors
check "the fast sum gives as many numbers" [ "$(wc -c <exact.tensors)" -eq "$(wc -c <fast.tensors)" ]
cmp -s exact.tensors fast.tensors
check "which differ" [ $? -eq 1 ]
fast=$(value train.valid_loss)
check "and nearly the same loss: $fast, $exact" \
    awk -v a="$fast" -v b="$exact" 'BEGIN {exit !(a > 0 && (a - b) ^ 2 < (1e-3 * b) ^ 2)}'

# ---- Ranks that share no folder of runs ----
# apart N COMMAND...: each of N ranks works in a folder of its own.
apart() {
    n=$1
    shift
    ranks "$found" "$n" sh -c 'cd apart/${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; exec "$0" "$@"' "$@"
}
for i in 0 1 2; do
    mkdir -p apart/$i
    cp text.txt apart/$i
    cp -r one apart/$i
done
wild="$sharded --set train.steps=24 --set train.accumulate=1 --set train.warmup=0 --set train.learning-rate=4
 --set train.clip=0 --set train.on-divergence=rewind"
t 0 "$longline" train "$text" --data text.txt $wild -o wild
err 'back to step .*3 of at most 3 times'
t 0 apart 3 "$longline" train "$text" --data text.txt $wild -o wild
check "3 ranks that go back give the bits of one process" same wild apart/0/wild
check "and the others write nothing" [ ! -e apart/1/wild ]
anew="--set train.steps=12 --set train.eval-batches=2 --threads 1"
t 0 "$longline" train --resume one $anew -o anew
err 'with the evaluation there is now, the best model so far'
t 0 apart 3 "$longline" train --resume one $anew -o anew
check "3 ranks that measure the best model anew do so, too" same anew apart/0/anew

# ---- Sequences in chunks ----
# A shard has several sequences, whose gradients are complete only after the last one. Blocks of this width are buckets of
# their own.
chunked="$step --set dist.shards=2 --set train.length=32 --set train.chunk=8 --set model.layers=2 --set model.width=320
 --set model.ff=1280 --set train.accumulate=1 --set train.steps=2"
t 0 "$longline" train "$text" --data text.txt $chunked -o chunks-1
t 0 ranks "$found" 2 "$longline" train "$text" --data text.txt $chunked -o chunks-2
check "train.chunk on 2 ranks gives the bits of one process" same chunks-1 chunks-2

# ---- Ranks that are stopped or killed ----
long="$sharded --set train.steps=100000 --set train.checkpoint-every=10 --set dist.timeout=6"
for signal in STOP KILL; do
    ranks "$found" 3 sh -c 'echo $$ >pid.${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; exec "$0" "$@"' \
        "$longline" train "$text" --data text.txt $long -o sig-$signal >out 2>err </dev/null &
    pid=$!
    wait_for_step_20 sig-$signal
    began=$(date +%s)
    kill -$signal "$(cat pid.1)"
    if [ $signal = STOP ]; then
        sleep 5 # the last heartbeat may be half a second old
        check "a rank is not lost before dist.timeout" [ "$(grep -c 'is lost' err)" -eq 0 ]
    fi
    ended $pid
    code=$?
    check "$signal: the others end with a failure: $code" [ $code -ne 0 ]
    check "within some seconds" [ $(($(date +%s) - began)) -lt 20 ]
    if [ $signal = STOP ]; then
        err "rank 1.* is lost: no sign of life for 6 s.*; go on from step [0-9]+ with: longline train --resume 'sig-STOP'"
        check "one message" messages 1
    fi
    step_now=$(tail -n 1 sig-$signal/metrics.csv | cut -d, -f1)
    t 0 ranks "$found" 2 "$longline" train --resume sig-$signal --set train.steps=$((step_now + 20)) --threads 1
done

# Where rank 0 is lost, another one names the folder that rank 0 has found. It does not see whether that has a checkpoint.
for every in 10 0; do
    rm -rf runs
    saves="--set train.checkpoint-every=$every --set train.eval-every=$every"
    ranks "$found" 2 sh -c 'echo $$ >pid.${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; exec "$0" "$@"' \
        "$longline" train "$text" --data text.txt $long $saves --set dist.timeout=3 >out 2>err </dev/null &
    pid=$!
    wait_for_step_20 runs/text-bytes-1
    kill -STOP "$(cat pid.0)"
    ended $pid
    case $every in
    10) remedy="go on from step [0-9]+ with" ;;
    0) remedy="begin again, or, where the folder of rank 0 has a checkpoint, go on with" ;;
    esac
    err "rank 0.* is lost: .*; $remedy: longline train --resume 'runs/text-bytes-1'"
done

# ---- The time of a job ends ----
ranks "$found" 2 sh -c 'echo $$ >pid.${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; exec "$0" "$@"' \
    "$longline" train "$text" --data text.txt $long --set train.preempt=SIGUSR1 -o preempted >out 2>err </dev/null &
pid=$!
wait_for_step_20 preempted
kill -USR1 "$(cat pid.1)"
ended $pid
check "SIGUSR1 to one rank saves, and all exit with 0" [ $? -eq 0 ]
err 'stopped after step [0-9]+ and saved'

# ---- One sequence over several ranks ----
# near A B: do two numbers agree except for rounding?
near() { awk -v a="$1" -v b="$2" 'BEGIN {exit !(a > 0 && (a - b) ^ 2 < (1e-5 * a) ^ 2)}'; }
shared="$step --set dist.shards=2 --set train.batch=2 --set train.length=128"
causal="--set position.type=permute"
both="--set model.task=mlm --set model.vocab=257 --set position.type=rope --set position.decay=none"
# Ring attention, causal, and in both directions with recomputation.
ring="--set attention.kernel=softmax --set position.type=t5 --set position.decay=none"
round="--set attention.kernel=softmax --set model.task=mlm --set model.vocab=257 --set position.type=rope
 --set position.decay=none --set train.recompute=on"
for kind in causal both ring round; do
    eval "keys=\$$kind"
    t 0 "$longline" train "$text" --data text.txt $shared $keys -o $kind-1
    valid=$(value train.valid_loss)
    for shape in "2 2" "4 2"; do
        n=${shape% *} parts=${shape#* }
        t 0 ranks "$found" $n "$longline" train "$text" --data text.txt $shared $keys --set dist.sequence=$parts -o $kind-$n-$parts
        check "$kind: $parts ranks share a sequence, of $n: $valid" near "$valid" "$(value train.valid_loss)"
    done
done
t 2 ranks "$found" 2 "$longline" train "$text" --data text.txt $shared --set dist.sequence=2 --set attention.kernel=nystrom \
    --set model.task=mlm --set model.vocab=257 --set position.type=none --set position.decay=none -o mixed
err 'nystrom keeps all tokens, or mixes them'
t 2 ranks "$found" 3 "$longline" train "$text" --data text.txt $shared --set dist.sequence=2 -o odd
err 'dist.sequence = 2 does not divide the 3 ranks'
t 2 ranks "$found" 2 "$longline" train "$text" --data text.txt $step --set dist.shards=1 --set dist.sequence=2 \
    --set train.carry-state=on -o carried
err 'train.carry-state needs whole sequences, and here 2 ranks share each; use one process, with dist.sequence=1'

# ---- Commands that use a model, on several ranks ----
model=one/best.safetensors
split -l 150 text.txt part.
t 0 ranks "$found" 3 "$longline" score $model part.* --window 64 -o ranks.csv
t 0 "$longline" score $model part.* --window 64 -o process.csv
check "score -o: the same file" cmp -s ranks.csv process.csv
for command in "score --window 64" "encode --pool first" "encode --json --window 7"; do
    t 0 "$longline" ${command%% *} $model part.* ${command#* }
    mv out alone
    t 0 ranks "$found" 3 "$longline" ${command%% *} $model part.* ${command#* }
    check "$command: the same bytes" cmp -s out alone
done
# MPICH may use UCX, which writes what it logs to stdout.
export UCX_LOG_LEVEL=info
t 0 ranks "$found" 2 "$longline" encode $model part.* --json --window 7
unset UCX_LOG_LEVEL
check "only results are on stdout" cmp -s out alone
# Prompts that all differ. Some are empty.
awk '{print substr($0, 1, NR % 7 * 3)}' text.txt | head -n 11 >prompts.txt
t 0 "$longline" generate $model --prompts prompts.txt --tokens 20 --seed 5
check "a line for each prompt" [ "$(wc -l <out)" -eq 11 ]
mv out alone
t 0 ranks "$found" 3 "$longline" generate $model --prompts prompts.txt --tokens 20 --seed 5
check "generate --prompts: the same bytes" cmp -s out alone
t 0 "$longline" generate $model --prompt a --tokens 5 --save-state state
t 0 "$longline" generate $model --prompts prompts.txt --tokens 5 --seed 5 --load-state state
mv out alone
t 0 ranks "$found" 2 "$longline" generate $model --prompts prompts.txt --tokens 5 --seed 5 --load-state state
check "generate --prompts --load-state: the same bytes" cmp -s out alone
# A prompt of rank 1 that is too long for the model. Rank 0 tries again, and says what is wrong.
t 0 "$longline" train "$text" --data text.txt $step --set train.steps=2 --set position.type=learned \
    --set position.max-length=64 -o learned
{ echo a; head -c 100 text.txt | tr '\n' ' '; printf '\nb\n'; } >long.txt
t 2 "$longline" generate learned/last.safetensors --prompts long.txt --tokens 5
check "the first prompt has its answer" [ "$(wc -l <out)" -eq 1 ]
err "^longline generate: long.txt, line 2: "
mv out alone
mv err alone.err
t 2 ranks "$found" 2 "$longline" generate learned/last.safetensors --prompts long.txt --tokens 5
check "generate --prompts with a rank that fails: the same bytes" cmp -s out alone
check "and the same message" [ "$(grep '^longline' err)" = "$(cat alone.err)" ]
t 0 "$longline" generate $model --prompts prompts.txt --tokens 5 --temperature 0
sed -n 4p out >alone
t 0 "$longline" generate $model --prompt "$(sed -n 4p prompts.txt)" --tokens 5 --temperature 0
check "each has the text that it gets alone" [ "$(cat out)" = "$(cat alone)" ]
t 2 ranks "$found" 2 "$longline" generate $model --prompts -
err 'standard input goes to one rank alone'
t 0 ranks "$found" 2 "$longline" generate $model --prompt a --tokens 5
check "one text is written once" [ "$(grep -c 'bytes, .* a second' err)" -eq 1 ]
t 0 "$longline" encode $model text.txt -o one.npy
t 0 ranks "$found" 3 "$longline" encode $model text.txt -o three.npy
check "encode -o: the same file" cmp -s one.npy three.npy
t 0 "$longline" eval $model --data text.txt
grep -v seconds out >alone
t 0 ranks "$found" 3 "$longline" eval $model --data text.txt
check "eval: the same bytes" [ "$(grep -v seconds out)" = "$(cat alone)" ]
small_images
t 0 "$longline" train images.ini -o classes --set train.report=off
t 0 "$longline" eval classes
grep -v seconds out >alone
t 0 ranks "$found" 3 "$longline" eval classes
check "eval of a classifier: the same bytes" [ "$(grep -v seconds out)" = "$(cat alone)" ]
t 0 "$longline" inspect $model
grep -v memory_now out >alone
t 0 ranks "$found" 2 "$longline" inspect $model
check "work that ranks do not share is printed once" [ "$(grep -v memory_now out)" = "$(cat alone)" ]
t 2 ranks "$found" 2 "$longline" score $model
err 'only one rank can read standard input'

# ---- A table ----
one_system
tiny="--set model.layers=1 --set model.width=16 --set model.heads=2 --set model.ff=32 --set train.length=32
 --set train.report=off --set train.eval-batches=2 --set data.train=text.txt --set data.valid=text.txt
 --set data.test=text.txt --set dist.shards=4 --set train.batch=4 --budget 10steps --seeds 1"
t 0 "$longline" table systems.ini $tiny -o table-1
grep '^Linear' out >alone
t 0 ranks "$found" 3 "$longline" table systems.ini $tiny -o table-3
figures() { awk '/^Linear/ {print $2, $5, $6, $8}' "$1"; } # all but the minutes
check "table: the same figures" [ "$(figures out)" = "$(figures alone)" ]
check "of the same models" cmp -s table-1/linear-1/last.safetensors table-3/linear-1/last.safetensors
# A model that gives no numbers for zero bytes, which the test split alone has: all ranks learn of it, and end.
tiny="$tiny --set model.tied-embedding=off"
t 0 "$longline" train base.ini ${tiny%% --budget*} --set train.steps=1 -o huge
i=0
while [ $i -lt 16 ]; do
    poke huge/last.safetensors embedding.weight $((4 * i))
    i=$((i + 1))
done
{ cat text.txt; printf '\000\000\000\000'; } >zeros.txt
t 0 ranks "$found" 2 "$longline" table systems.ini $tiny --set data.test=zeros.txt --set train.from=huge/last.safetensors -o table-2
out '^Linear .*diverged'

# ---- The next batch is tried before a checkpoint ----
# Its first shard is, whatever the number of ranks. With some seed the second shard of step 2 alone has the bytes for which
# the model gives no numbers: then step 1 is saved.
{ head -c 100 text.txt; printf '\000\000\000\000'; tail -c 100 text.txt; } >few.txt
tried="${tiny%% --budget*} --set model.tied-embedding=off --set train.from=huge/last.safetensors
 --set data.train=few.txt --set train.batch=2 --set train.steps=2 --set train.checkpoint-every=1 --set dist.shards=2"
kept='at step 2; .*still holds step 1'
seed=0
: >err
while ! grep -q "$kept" err && [ $seed -lt 100 ]; do
    seed=$((seed + 1))
    "$longline" train base.ini $tried --set train.seed=$seed -o tried-$seed >out 2>err </dev/null
done
err "$kept"
t 1 ranks "$found" 2 "$longline" train base.ini $tried --set train.seed=$seed -o tried-ranks
err "$kept"
check "2 ranks save the step that one process saves" cmp -s tried-$seed/last.safetensors tried-ranks/last.safetensors
