# Ranks are killed. The same command then continues the run, with any number of ranks, and gives the bits of an
# uninterrupted run. LL_KILLS=100 LL_SEED=7: the number of kills, and the seed of their draws (make dist-faults).
export LL_MPI_WAIT=20 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
kills=${LL_KILLS:-3} seed=${LL_SEED:-1}
text=$root/recipes/text-bytes.ini
small_text
step="$small --set train.batch=6 --set train.eval-every=40 --set train.checkpoint-every=20 --set dist.shards=6
 --set train.schedule=constant --set model.dropout=0.1 --set dist.timeout=5 --threads 1"
libraries=
for l in openmpi mpich; do
    [ -e "$build/longline-mpi-$l.so" ] && command -v mpirun.$l >/dev/null && libraries="$libraries $l"
done
[ -n "$libraries" ] || { skip "ranks that are killed: no MPI here"; return 0; }
# ranks N COMMAND...: each rank writes its process number to pid.RANK. In the background $via is exec, so that the shell
# becomes the launcher and can be ended.
via=
ranks() {
    count=$1
    shift
    more=
    [ "$library" = openmpi ] && more="--oversubscribe"
    $via timeout -k 5 120 mpirun."$library" $more -n "$count" \
        sh -c 'echo $$ >pid.${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; exec "$0" "$@"' "$longline" "$@"
}
# wait_for_end PID: waits for the launcher and returns its exit code. 125: all ranks ended five seconds ago, but the launcher
# did not. 126: a rank does not end. Open MPI 4.1 waits for ever if a rank is killed while it connects to mpirun.
wait_for_end() {
    i=0 quiet=0
    while kill -0 "$1" 2>/dev/null && [ $quiet -lt 25 ] && [ $i -lt 200 ]; do
        sleep 0.2
        i=$((i + 1)) quiet=$((quiet + 1))
        for p in $(cat pid.*); do ! kill -0 "$p" 2>/dev/null || quiet=0; done
    done
    kill -0 "$1" 2>/dev/null && kill -TERM "$1"
    wait "$1" 2>/dev/null
    code=$?
    [ $i -lt 200 ] || code=126
    [ $quiet -lt 25 ] || code=125
    return $code
}
# draw FROM TO: a random whole number from FROM to TO.
drawn=0
draw() {
    drawn=$((drawn + 1))
    awk -v s="$seed" -v n=$drawn -v a="$1" -v b="$2" 'BEGIN {
        srand(s * 100003 + n * 7919); rand(); print a + int(rand() * (b - a + 1))}'
}
steps_of() { tail -n 1 "$1/metrics.csv" 2>/dev/null | cut -d, -f1 | grep -E '^[0-9]+$' || echo 0; }

# ---- Killed ----
# Every other kill comes while ranks start or read a checkpoint. The others come some time after a checkpoint was written.
killed=0 tries=0 lost=0 hung=0
while [ $killed -lt "$kills" ] && [ $tries -lt $((2 * kills + 5)) ]; do
    tries=$((tries + 1))
    set -- $libraries
    shift $((tries % $#))
    library=$1 n=$(draw 1 4)
    victim=$(draw 0 $((n - 1)))
    pause=$(draw 0 700)
    begins="$text --data text.txt $step -o broken"
    [ -e broken/last.safetensors ] && begins="--resume broken --threads 1"
    rm -f pid.*
    touch begun
    via=exec
    ranks "$n" train $begins --set train.steps=1000000 >out 2>err </dev/null &
    pid=$! via=
    i=0
    while ! [ -s "pid.$victim" ] && [ $i -lt 200 ]; do sleep 0.05; i=$((i + 1)); done
    i=0
    while [ $((tries % 2)) = 1 ] && ! [ broken/last.safetensors -nt begun ] && [ $i -lt 600 ]; do
        sleep 0.05
        i=$((i + 1))
    done
    sleep "$(awk -v ms="$pause" 'BEGIN {print ms / 1000}')"
    if kill -KILL "$(cat "pid.$victim")" 2>/dev/null; then killed=$((killed + 1)); fi
    wait_for_end $pid
    code=$?
    case $code in
    0) fail "kill $tries: $n ranks of $library ended with 0 where rank $victim was killed" ;;
    125) hung=$((hung + 1)) ;;
    126) fail "kill $tries: a rank of $n of $library does not end where rank $victim was killed" ;;
    esac
    if [ -e broken/last.safetensors ]; then
        "$longline" inspect broken/last.safetensors >inspected 2>&1 || { fail "kill $tries: $(cat inspected)"; lost=1; }
    fi
done
check "$killed random ranks were killed, of 1 to 4" [ "$killed" -eq "$kills" ]
check "the last checkpoint was whole each time" [ $lost -eq 0 ]
[ $hung -eq 0 ] || echo "    (mpirun itself did not end $hung times; its ranks had)"
library=${libraries##* }
begins="--resume broken --threads 1"
[ -e broken/last.safetensors ] || begins="$text --data text.txt $step -o broken"
steps=$(($(steps_of broken) / 20 * 20 + 40))
t 0 ranks 3 train $begins --set train.steps=$steps
t 0 "$longline" train "$text" --data text.txt $step --set train.steps=$steps -o whole
check "$killed kills, $steps steps: the bits of an uninterrupted run" cmp broken/last.safetensors whole/last.safetensors
# The header of best.safetensors has the recipe, and with it the number of steps at the time of writing. It is left out.
for run in broken whole; do
    head=$(od -An -tu8 -N8 $run/best.safetensors | tr -d ' ')
    tail -c +$((head + 9)) $run/best.safetensors >$run.best
done
check "and its best weights" cmp broken.best whole.best

# ---- A rank that does not come ----
for library in $libraries; do
    more=
    [ "$library" = openmpi ] && more="--oversubscribe"
    # MPICH's launcher kills the other rank, and may end with the number of the signal as its exit code.
    # shellcheck disable=SC2086
    t 1 sh -c 'timeout 60 "$@" || { code=$?; [ $code != 9 ] || code=1; exit $code; }' sh \
        mpirun."$library" $more -n 2 sh -c '
        [ ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} = 0 ] || { sleep 8; exit 1; }; LL_MPI_WAIT=2 exec "$0" "$@"' \
        "$longline" train "$text" --data text.txt $step -o never
    err 'the ranks have not found each other in 2 s'
done

# ---- Out of memory: rank 1 may use less than it needs ----
for library in $libraries; do
    more=
    [ "$library" = openmpi ] && more="--oversubscribe"
    t 1 timeout 60 mpirun."$library" $more -n 3 sh -c '[ ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} != 1 ] || limited=1
        exec ${limited:+prlimit --data=300000000} "$0" "$@"' "$longline" train "$text" --data text.txt $step \
        --set model.width=1024 --set model.layers=3 --set train.steps=100 -o full-"$library"
    err 'rank 1.*memory'
    check "$library: one message" [ "$(grep -c '^longline' err)" -eq 1 ]
done

# ---- A failure that all ranks agree on and survive; then rank 0 alone fails ----
# cannot_write REGEX ARGUMENTS-OF-TRAIN: from when stderr has a line that matches, rank 0 of two cannot write to a file.
cannot_write() {
    survived=$1
    shift
    rm -f pid.* err
    via=exec
    ranks 2 train "$@" --set train.steps=1000000 >out 2>err </dev/null &
    pid=$! via= i=0
    while ! grep -qs "$survived" err && [ $i -lt 600 ]; do sleep 0.05; i=$((i + 1)); done
    prlimit --pid "$(cat pid.0)" --fsize=100
    wait_for_end $pid
    case $? in
    0 | 126) fail "rank 1 goes on where rank 0 cannot write" ;;
    *) pass "all ranks end where rank 0 cannot write" ;;
    esac
    err "$survived"
    err 'File too large'
}
library=${libraries##* }
cannot_write '3 of at most 3 times' "$text" --data text.txt $step --set train.on-divergence=rewind \
    --set train.learning-rate=9 --set train.clip=0 --set attention.kernel=favor -o wild
for library in $libraries; do
    t 0 ranks 2 train "$text" --data text.txt $step --set train.steps=40 -o best-"$library"
    head -c 2000 best-"$library"/best.safetensors >half
    mv half best-"$library"/best.safetensors
    cannot_write 'the best model so far, of step 40, does not count any more' --resume best-"$library" \
        --set train.eval-batches=3 --set train.checkpoint-every=0 --threads 1
done

# ---- The folder of a run is moved away before an evaluation that would measure its best model anew ----
# has_row RUN STEP: has metrics.csv that row, or a later one?
has_row() { [ "$(steps_of "$1")" -ge "$2" ]; }
for library in $libraries; do
    gone=gone-$library
    t 0 ranks 2 train "$text" --data text.txt $step --set train.steps=40 -o "$gone"
    rm -f pid.* err
    via=exec
    ranks 2 train --resume "$gone" --set train.steps=1000000 --set train.eval-batches=3 --set train.eval-every=120 \
        --set train.checkpoint-every=0 --set dist.timeout=60 --threads 1 >out 2>err </dev/null &
    pid=$! via=
    wait_until has_row "$gone" 50
    mv "$gone" "$gone".old
    wait_until [ -e "$gone"/last.safetensors ]
    check "$library: the folder is made again with a checkpoint" [ -e "$gone"/last.safetensors ]
    wait_until has_row "$gone" 130
    check "the ranks go on after the next evaluation" has_row "$gone" 130
    err "$gone is now .*$gone.old; it is made again"
    kill -KILL "$(cat pid.1)"
    wait_for_end $pid
    t 0 ranks 2 train --resume "$gone" --set train.steps=$(($(steps_of "$gone") / 10 * 10 + 10)) --threads 1
done

# The system kills a rank that uses more memory than its control group allows.
group=/sys/fs/cgroup/memory$(sed -n 's/.*:memory://p' /proc/self/cgroup 2>/dev/null)/longline-$$
limited() {
    if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
        group=/sys/fs/cgroup/longline-$$
        mkdir "$group" && echo 60000000 >"$group/memory.max" && echo 0 >"$group/memory.swap.max"
        return
    fi
    mkdir "$group" && echo 60000000 >"$group/memory.limit_in_bytes" || return 1
    grep -q '^SwapTotal: *0 kB' /proc/meminfo || echo 60000000 >"$group/memory.memsw.limit_in_bytes"
}
if limited 2>/dev/null; then
    for library in $libraries; do
        more= code=9
        [ "$library" = openmpi ] && more="--oversubscribe" code=137
        began=$(date +%s)
        t $code timeout 60 mpirun."$library" $more -n 3 sh -c '[ ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} != 1 ] ||
            echo $$ >"$0/cgroup.procs"; exec "$@"' "$group" "$longline" train "$text" --data text.txt $step \
            --set model.width=512 --set model.layers=3 --set train.steps=100000 -o killed-"$library"
        cat out >>err # MPICH's launcher writes to stdout, and does not name the rank
        err 'process rank 1 .*signal 9|Killed \(signal 9\)'
        check "$library: it takes no longer than dist.timeout" [ $(($(date +%s) - began)) -lt 40 ]
    done
    rmdir "$group"
else
    rmdir "$group" 2>/dev/null
    skip "a rank that the system kills for its memory: no control groups here"
fi
