# The program beside MPICH's plug-in alone, as on a machine whose only MPI is MPICH: one test of each kind. make check-mpich
# runs all scripts of ranks that way.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
text=$root/recipes/text-bytes.ini
[ -e "$build/longline-mpi-mpich.so" ] && command -v mpirun.mpich >/dev/null || {
    skip "MPICH alone: it is not here"
    return 0
}
mkdir alone
cp "$longline" "$build/longline-mpi-mpich.so" alone
longline=$PWD/alone/longline
small_text
step="$small --set train.batch=4 --set train.steps=6 --set train.eval-every=3 --set train.checkpoint-every=3
 --set train.schedule=constant --set dist.shards=4 --set dist.timeout=3 --threads 1"
ranks() {
    count=$1
    shift
    timeout 60 mpirun.mpich -n "$count" "$@"
}
t 0 "$longline" train "$text" --data text.txt $step -o one
for n in 2 4; do
    t 0 ranks $n "$longline" train "$text" --data text.txt $step -o run-$n
    check "$n ranks give the bits of one process" cmp one/last.safetensors run-$n/last.safetensors
done
t 0 ranks 4 "$longline" train "$text" --data text.txt $step --set train.steps=3 -o go
t 0 ranks 3 "$longline" train --resume go --set train.steps=6 --threads 1
check "4 ranks, then 3" cmp one/last.safetensors go/last.safetensors
t 0 ranks 2 "$longline" train "$text" --data text.txt $step --set dist.sequence=2 -o shared
t 2 ranks 2 "$longline" train "$text" --data absent.txt $step -o absent
err 'cannot open absent.txt'
check "one message" [ "$(grep -c '^longline' err)" -eq 1 ]
t 0 "$longline" score one/best.safetensors text.txt --window 64
mv out alone.csv
t 0 ranks 3 "$longline" score one/best.safetensors text.txt --window 64
check "score: the same bytes" cmp out alone.csv
t 0 "$longline" eval one/best.safetensors --data text.txt
mv out alone.eval
t 0 ranks 3 "$longline" eval one/best.safetensors --data text.txt
check "eval: the same loss" [ "$(grep loss out)" = "$(grep loss alone.eval)" ]
t 0 ranks 2 "$longline" train "$text" --data text.txt $step --set dist.reduce=fast -o fast
t 0 ranks 2 "$longline" bench --dist --rehearse 0.01
# hurt SIGNAL RUN [COMMAND]: sends it to rank 1 of three in a run that would not end, then runs a command.
hurt() {
    timeout 60 mpirun.mpich -n 3 sh -c 'echo $$ >pid.$PMI_RANK; exec "$0" "$@"' "$longline" train "$text" --data text.txt \
        $step --set train.steps=1000000 -o "$2" >out 2>err </dev/null &
    pid=$!
    wait_until [ -e "$2/last.safetensors" ]
    kill -"$1" "$(cat pid.1)"
    ${3:-}
    ended $pid
    code=$?
    kill -KILL "$(cat pid.1)" 2>/dev/null
}
hurt STOP stopped
check "a rank that is stopped ends the others" [ $code -ne 0 ]
err 'rank 1'
t 0 "$longline" inspect stopped/last.safetensors
# Rank 2 finds that rank 1 is lost while rank 0, which is to print it, is slow.
slow() {
    sleep 1.5
    kill -STOP "$(cat pid.0)"
    sleep 3
    kill -CONT "$(cat pid.0)"
}
hurt STOP late slow
check "the loss ends all" [ $code -ne 0 ]
err 'rank 1 .*is lost: no sign of life for 3 s'
hurt KILL killed
check "so does one that is killed" [ $code -ne 0 ]
t 0 "$longline" inspect killed/last.safetensors
if command -v mpirun.openmpi >/dev/null; then
    t 1 timeout 60 mpirun.openmpi --oversubscribe -n 2 "$longline" train "$text" --data text.txt $step -o other
    err 'the plug-in longline-mpi-openmpi.so cannot be opened'
fi
