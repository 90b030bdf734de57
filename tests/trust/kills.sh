# Killed before every call that alters a file, with and without the loss of all that no fsync has brought to the disk; and
# at random moments. What lies there is whole each time, and the run ends in the bits of one that was never killed.
. "$root/tests/trust/lib"
make_run
steps=60
go_on() { "$longline" train --resume here/run --set train.steps=$steps --threads 1; }
fresh
go_on >out 2>err
cp here/run/last.safetensors expected
finish() { # WHAT
    is_whole || wrong "$1: $why"
    if go_on >out 2>err; then cmp -s here/run/last.safetensors expected || wrong "$1: other bits at the end"
    else wrong "$1: cannot go on: $(tail -n 1 err)"; fi
}
fresh
total=$(calls change "$longline" train --resume here/run --set train.steps=$steps --threads 1)
for manner in kill lose; do
    for n in $(numbers "${total:-0}" 10); do
        fresh
        with change "$n" $manner "$longline" train --resume here/run --set train.steps=$steps --threads 1
        trials=$((trials + 1))
        [ $code -eq 137 ] || wrong "change $n of $total, $manner: exit code $code"
        finish "change $n of $total, $manner"
    done
    verdict "every prefix of what a run writes, $manner"
done
fresh
total=$(calls change "$longline" generate "$model" --tokens 3 --load-state here/state --save-state here/state)
for manner in kill lose; do
    for n in $(numbers "${total:-0}" 4); do
        fresh
        with change "$n" $manner "$longline" generate "$model" --tokens 3 --load-state here/state --save-state here/state
        trials=$((trials + 1))
        is_whole || wrong "state, change $n of $total, $manner: $why"
    done
done
verdict "every prefix of what a saved state writes"

# Random moments: the same run, killed until it ends by itself.
if long; then kills=${LL_KILLS:-1000}; else kills=8; fi
steps=3000
fresh
go_on >out 2>err
cp here/run/last.safetensors expected
fresh
i=0 alive=0
while [ $i -lt $kills ] && [ $alive -lt 200 ]; do
    # A random time up to half a second, from a seed that is said where something fails.
    wait_for=$(awk -v seed="${LL_SEED:-1}" -v i=$i 'BEGIN {srand(seed * 7919 + i); printf "%.3f", 0.02 + 0.4 * rand()}')
    go_on >out 2>err </dev/null &
    pid=$!
    sleep "$wait_for"
    if kill -KILL $pid 2>/dev/null; then trials=$((trials + 1)); i=$((i + 1)); else alive=$((alive + 1)); fi
    wait $pid 2>/dev/null
    if grep -qs "finished already" err; then
        cmp -s here/run/last.safetensors expected || wrong "kill $i: other bits at the end"
        fresh
    fi
    is_whole || wrong "kill $i after $wait_for s: $why"
done
finish "after all kills"
verdict "killed at random moments"
