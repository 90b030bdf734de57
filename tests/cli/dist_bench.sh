# bench --dist. Bytes and messages are compared with what they must be. Times are not checked.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
tiny="--set model.layers=2 --set model.width=64 --set model.heads=2 --set model.ff=128 --set train.length=64 --threads 1"

refused 'rehearse goes with --dist' "$longline" bench --rehearse 1
refused 'dist goes with --rehearse, --repeats and --set alone' "$longline" bench --dist --ops
refused 'dist goes with --rehearse, --repeats and --set alone' "$longline" bench --dist --seconds 3
refused '--set train.batch: the steps of --dist have their own' "$longline" bench --dist --set train.batch=3
refused '--set dist.shards: the steps of --dist have their own' "$longline" bench --dist --set dist.shards=3
t 0 "$longline" bench --dist --repeats 1 $tiny
out '^bench.dist.ranks=1$'
check "one process sends nothing" [ "$(value bench.dist.weak.sent)" -eq 0 ]

library=
for l in openmpi mpich; do
    [ -e "$build/longline-mpi-$l.so" ] && command -v mpirun.$l >/dev/null && library=$l
done
[ -n "$library" ] || { skip "ranks: no MPI here"; return 0; }
ranks() {
    count=$1
    shift
    more=
    [ $library = openmpi ] && more="--oversubscribe"
    timeout 120 mpirun.$library $more -n "$count" "$@"
}
# in_range A X B
in_range() { awk -v a="$1" -v x="$2" -v b="$3" 'BEGIN {exit !(x != "" && x >= a && x <= b)}'; }

t 0 ranks 2 "$longline" bench --dist --repeats 1 $tiny
out '^bench.dist.latency_us=[0-9.]+$'
rate=$(value bench.dist.gb_per_s)
if [ -n "$rate" ]; then
    check "the rate of the link is one that can be: $rate" in_range 0.000001 "$rate" 100000
else
    err 'the rate of the link is not known'
fi
for step in exchange weak strong; do
    check "$step: the bytes are the least" in_range 0.97 "$(value bench.dist.$step.sent_over_least)" 1.03
done
t 2 ranks 2 "$longline" bench --dist --repeats 1 $tiny --set dist.sequence=4
err 'dist.sequence = 4 does not divide the 2 ranks'
t 0 ranks 2 "$longline" bench --dist --repeats 1 --rehearse 0.2 $tiny
check "a simulated step sleeps for so long" in_range 0.2 "$(value bench.dist.rehearsal.seconds)" 60
out '^bench.dist.rehearsal.hidden=[0-9.]+$'

# A sequence over two ranks: a step sends the same bytes for longer sequences.
for length in 64 256; do
    t 0 ranks 2 "$longline" bench --dist --repeats 1 $tiny --set dist.sequence=2 --set train.length=$length
    sent=$(value bench.dist.weak.sent)
    [ $length = 64 ] && short=$sent
done
check "four times the length, the same bytes: $sent" in_range "$short" "$sent" "$short"

t 0 ranks 2 "$longline" bench --case attention/relu/bidir/fwd --ops --lengths 256 --repeats 1
check "other sections are measured by one rank" [ "$(grep -c '^bench.peak_gflops=' out)" -eq 1 ]
