# A stopped rank can block the queue through which another hears all others. The rank that is named is the stopped one, by
# one message.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
text=$root/recipes/text-bytes.ini
small_text
step="$small --set train.batch=4 --set train.steps=1000000 --set train.eval-every=3 --set train.checkpoint-every=3
 --set train.schedule=constant --set dist.shards=4 --set dist.timeout=4 --threads 1"
# shellcheck disable=SC2086
t 0 ${CC:-cc} -D_GNU_SOURCE -shared -fPIC -I"$root/src" "$root/tests/cli/deaf.c" -o deaf.so -ldl
export LL_DEAF_FILE="$PWD/deaf" LL_DEAF_RANK LL_MUTE_RANK LL_DEAF_PLUGIN
# deafen RANK LIBRARY RANKS MUTE: rank RANK hears nobody from when rank MUTE falls silent; -1: none does. With `all` as RANK
# MPI carries nothing any more.
deafen() {
    LL_DEAF_RANK=$1 LL_MUTE_RANK=$4 LL_DEAF_PLUGIN=$build/longline-mpi-$2.so
    rm -rf run deaf
    more=
    [ "$2" = openmpi ] && more="--oversubscribe"
    # shellcheck disable=SC2086
    LL_MPI=$PWD/deaf.so timeout 60 mpirun."$2" $more -n "$3" "$longline" train "$text" --data text.txt $step -o run \
        >out 2>err </dev/null &
    pid=$!
    wait_until [ -e run/last.safetensors ]
    touch deaf
    ended $pid
    code=$?
}
for library in openmpi mpich; do
    [ -e "$build/longline-mpi-$library.so" ] && command -v mpirun.$library >/dev/null || {
        skip "a deaf rank of $library: it is not here"
        continue
    }
    cases="0:3:1"
    [ $library = openmpi ] || cases="0:3:1 2:3:1 3:4:1"
    for case in $cases; do
        deafen "${case%%:*}" $library "$(echo "$case" | cut -d: -f2)" "${case##*:}"
        check "$library: a rank is deaf and another mute (deaf:ranks:mute $case): all end" [ $code -ne 0 -a $code -ne 124 ]
        err "rank ${case##*:} .*is lost: no sign of life"
        check "one message" [ "$(grep -c 'is lost' err)" -eq 1 ]
    done
    deafen 0 $library 3 -1
    check "$library: rank 0 is deaf and the others live: all end" [ $code -ne 0 -a $code -ne 124 ]
    err "rank 2 .*is lost: no sign of life"
    check "one message" [ "$(grep -c 'is lost' err)" -eq 1 ]
    t 0 "$longline" inspect run/last.safetensors
    deafen all $library 3 -1
    check "$library: no rank reaches another: all end" [ $code -ne 0 -a $code -ne 124 ]
    err "^longline.* MPI cannot (send to|receive from) rank"
    t 0 "$longline" inspect run/last.safetensors
done
