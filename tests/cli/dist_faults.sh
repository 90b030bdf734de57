# Ranks that are killed: the same command goes on, with any number of ranks, to the bits of a run that nothing
# interrupted. LL_KILLS=100 LL_SEED=7: so many kills, drawn from this seed (make dist-faults).
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
kills=${LL_KILLS:-3} seed=${LL_SEED:-1}
text=$root/recipes/text-bytes.ini
small_text
step="$small --set train.batch=6 --set train.eval-every=40 --set train.checkpoint-every=20 --set dist.shards=6
 --set train.schedule=constant --set model.dropout=0.1 --set dist.timeout=5 --threads 1"
libraries=
for l in openmpi mpich; do
    [ -e "$build/longline-mpi-$l.so" ] && command -v mpirun.$l >/dev/null && libraries="$libraries $l"
done
[ -n "$libraries" ] || { echo "    (no MPI here: ranks are not killed)"; return 0; }
# ranks N COMMAND...: each rank leaves its process in pid.RANK.
ranks() {
    count=$1
    shift
    more=
    [ "$library" = openmpi ] && more="--oversubscribe"
    timeout -k 5 120 mpirun."$library" $more -n "$count" \
        sh -c 'echo $$ >pid.${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; exec "$0" "$@"' "$longline" "$@"
}
# draw FROM TO: a whole number, both ends among them.
drawn=0
draw() {
    drawn=$((drawn + 1))
    awk -v s="$seed" -v n=$drawn -v a="$1" -v b="$2" 'BEGIN {
        srand(s * 100003 + n * 7919); rand(); print a + int(rand() * (b - a + 1))}'
}
steps_of() { tail -n 1 "$1/metrics.csv" 2>/dev/null | cut -d, -f1 | grep -E '^[0-9]+$' || echo 0; }

# ---- Killed ----
# Every other kill comes as soon as the rank is there, or soon after: also while ranks begin or read a checkpoint.
killed=0 tries=0 lost=0
while [ $killed -lt "$kills" ] && [ $tries -lt $((2 * kills + 5)) ]; do
    tries=$((tries + 1))
    set -- $libraries
    shift $((tries % $#))
    library=$1 n=$(draw 1 4)
    victim=$(draw 0 $((n - 1)))
    pause=$(draw 0 $((tries % 2 ? 2500 : 600)))
    begins="$text --data text.txt $step -o broken"
    [ -e broken/last.safetensors ] && begins="--resume broken --threads 1"
    rm -f pid.*
    ranks "$n" train $begins --set train.steps=1000000 >out 2>err </dev/null &
    pid=$!
    i=0
    while ! [ -s "pid.$victim" ] && [ $i -lt 200 ]; do sleep 0.05; i=$((i + 1)); done
    sleep "$(awk -v ms="$pause" 'BEGIN {print ms / 1000}')"
    if kill -KILL "$(cat "pid.$victim")" 2>/dev/null; then killed=$((killed + 1)); fi
    ended $pid
    code=$?
    [ $code -ne 0 ] || fail "kill $tries: $n ranks of $library ended with 0 where rank $victim was killed"
    # Open MPI 4.1 may wait for ever where a rank was killed while it began; its ranks have ended.
    if [ $code -eq 124 ]; then
        echo "    (kill $tries: mpirun.$library does not end)"
        for p in $(cat pid.*); do
            ! kill -0 "$p" 2>/dev/null || fail "kill $tries: a rank of $n does not end where rank $victim was killed"
        done
    fi
    if [ -e broken/last.safetensors ]; then
        "$longline" inspect broken/last.safetensors >inspected 2>&1 || { fail "kill $tries: $(cat inspected)"; lost=1; }
    fi
done
check "$killed random ranks were killed, of 1 to 4" [ "$killed" -eq "$kills" ]
check "the last checkpoint was whole each time" [ $lost -eq 0 ]
library=${libraries##* }
begins="--resume broken --threads 1"
[ -e broken/last.safetensors ] || begins="$text --data text.txt $step -o broken"
steps=$(($(steps_of broken) / 20 * 20 + 40))
t 0 ranks 3 train $begins --set train.steps=$steps
t 0 "$longline" train "$text" --data text.txt $step --set train.steps=$steps -o whole
for file in last best; do
    check "$killed kills, $steps steps: $file.safetensors is that of an uninterrupted run" \
        cmp broken/$file.safetensors whole/$file.safetensors
done

# ---- Out of memory: one rank may not have what it needs ----
for library in $libraries; do
    more=
    [ "$library" = openmpi ] && more="--oversubscribe"
    t 1 timeout 60 mpirun."$library" $more -n 3 sh -c '[ ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} != 1 ] || narrow=1
        exec ${narrow:+prlimit --data=300000000} "$0" "$@"' "$longline" train "$text" --data text.txt $step \
        --set model.width=1024 --set model.layers=8 --set train.steps=100 -o full-"$library"
    err 'rank 1.*memory'
    check "$library: one message" [ "$(grep -c '^longline' err)" -eq 1 ]
done
