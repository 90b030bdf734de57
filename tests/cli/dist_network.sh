# The network no longer reaches a rank. Each rank has a network namespace of its own, as if it were a machine.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
. "$root/tests/cli/nodes"
text=$root/recipes/text-bytes.ini timeout=4
small_text
step="$small --set train.batch=6 --set train.eval-every=40 --set train.checkpoint-every=20 --set dist.shards=6
 --set train.schedule=constant --set dist.timeout=$timeout --threads 1"
libraries=
for l in openmpi mpich; do
    [ -e "$build/longline-mpi-$l.so" ] && command -v mpirun.$l >/dev/null && libraries="$libraries $l"
done
[ -n "$libraries" ] || { skip "ranks that are cut off: no MPI here"; return 0; }
nodes 3 || { skip "ranks that are cut off: no network namespaces here"; return 0; }

# disconnect WAY NODE. link: takes the link down. tc: the node receives, but nothing that it sends leaves it.
disconnect() {
    case $1 in
    link) ip -n "$name-$2" link set eth0 down ;;
    tc) tc -n "$name-$2" qdisc add dev eth0 root tbf rate 8bit burst 1b limit 1b ;;
    esac
}
reconnect() {
    ip -n "$name-$1" link set eth0 up
    tc -n "$name-$1" qdisc del dev eth0 root 2>/dev/null
}
# wait_for SECONDS COMMAND...: repeats it until it succeeds, at most for so long.
wait_for() {
    i=$(($1 * 10))
    shift
    while ! "$@" && [ $i -gt 0 ]; do sleep 0.1; i=$((i - 1)); done
    [ $i -gt 0 ]
}
# programs_on NODE: the ranks that run there, without their launchers.
programs_on() { for p in $(ip netns pids "$name-$1"); do [ "$(cat "/proc/$p/comm" 2>/dev/null)" = longline ] && echo "$p"; done; }
empty() { [ -z "$(programs_on "$1")" ]; }
for library in $libraries; do
    for way in link tc; do
        [ $way = link ] || command -v tc >/dev/null || { skip "$library, $way: no tc here"; continue; }
        run=$library-$way
        last="rank 1 is cut off from $library: $way"
        : >err
        ranks_on "$library" "0 1 2" "$longline" train "$text" --data text.txt $step --set train.steps=1000000 -o "$run" \
            >out 2>err </dev/null &
        pid=$!
        check "$run: ranks of three machines make steps" wait_for 60 [ -e "$run/last.safetensors" ]
        disconnect $way 1
        began=$(date +%s)
        check "$run: the others report the loss" wait_for 30 grep -q '^longline.* is lost' err
        took=$(($(date +%s) - began))
        check "$run: within the time of dist.timeout: $took s" [ $took -le $((timeout + 3)) ]
        ended $pid
        code=$?
        check "$run: the launcher ends with a failure: $code" [ $code -ne 0 -a $code -ne 124 ]
        err 'rank 1 on node1 is lost: no sign of life for 4 s'
        check "$run: one message" [ "$(grep -c '^longline.* is lost' err)" -eq 1 ]
        check "$run: the rank that was cut off ends as well" wait_for 30 empty 1
        reconnect 1
        t 0 "$longline" inspect "$run/last.safetensors"
    done
    # The run has so many steps that it cannot be finished yet.
    : >err
    ranks_on "$library" "0 2" "$longline" train --resume "$run" --threads 1 --set train.preempt=SIGUSR1 >out 2>err \
        </dev/null &
    pid=$!
    check "$library: the other two continue" wait_for 60 grep -q '^step ' err
    kill -USR1 $(programs_on 0)
    ended $pid
    code=$?
    check "$library: until they are asked to stop" [ $code -eq 0 ]
    err 'stopped after step [0-9]+ and saved'
    t 0 "$longline" inspect "$run/last.safetensors"
done
