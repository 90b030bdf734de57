# bench: the smallest case of each section. What it writes can be read, and wrong options are refused. Times are not
# checked. Most cases have one thread, where the peak rate is measured once.
small="--set model.width=16 --set model.layers=1 --set model.heads=2 --set model.ff=16 --set attention.num-features=16"
t 0 "$longline" bench --ops --lengths 17,64 --repeats 2 --case relu --json ops.json
out '^attention/relu\+permute/causal/fwdbwd/64 +[0-9]'
out '^bench\.peak_gflops=[0-9]'
check "no case that was not asked for" sh -c '! grep -q "favor\|softmax" out'
check "the JSON has a row for every case" test "$(grep -c '"case"' ops.json)" = "$(grep -c '^attention/' out)"
t 0 "$longline" bench --threads 1 --ops --lengths 1,2,3,4,5,6,7 --repeats 1 --case attention --json many.json
check "no case of many lengths is left out" [ "$(grep -c '/causal/fwdbwd/7"' many.json)" -ge 20 ]
if command -v python3 >/dev/null; then check "the JSON is JSON" python3 -m json.tool ops.json json.out; else
    skip "is it JSON: no python3 here"; fi
t 0 "$longline" bench --threads 1 --ops --lengths 32 --repeats 1 --case 'attention/*/causal/fwdbwd/32' --figure time.svg
check "there is a picture" grep -q '</svg>' time.svg
two=
for length in 48 4000; do two=$two,attention/favor/causal/fwdbwd/$length,attention/softmax/causal/fwdbwd/$length; done
t 0 "$longline" bench --ops --lengths 48,4000 --repeats 1 --case "$two" --figure odd.svg
check "lengths that are no powers of two are drawn, too" grep -q '</svg>' odd.svg
out '^bench\.crossing\.attention\.favor='
t 0 "$longline" bench --threads 1 --models --repeats 1 --case '*512*' $small
out '^train/layer/softmax/512 '
out '^train/lm-512/favor '
tiny="--set model.width=8 --set model.layers=1 --set model.heads=2 --set model.ff=8 --set attention.num-features=8"
t 0 "$longline" bench --threads 1 --models --repeats 1 --case train/text-small $tiny
out '^train/text-small/relu\+permute '
check "long models wait until they are named" sh -c '! grep -q "text-small-1048576" out'
t 0 "$longline" bench --threads 1 --models --repeats 1 --case 'train/lm-131072/value*' $tiny
out '^train/lm-131072/value '
t 0 "$longline" bench --threads 1 --ops --lengths 64 --repeats 1 --case 'attention/*-spe/bidir/fwd/64'
out '^attention/favor\+conv-spe/bidir/fwd/64 '
t 0 "$longline" bench --threads 1 --ops --lengths 64 --repeats 1 --case 'attention/*-one-head/causal/fwdbwd/64'
out '^attention/relu-one-head/causal/fwdbwd/64 '
t 0 "$longline" bench --ops --lengths 16,64 --repeats 3 --case 'favor/bidir/fwd/,attention/favor+permute*/bidir/fwd/*'
out '^bench\.permute_adds\.favor\.bidir/fwd/16=-?[0-9.]+%'
out '^bench\.permute_adds\.favor-random\.bidir/fwd/64=-?[0-9.]+%'
out '^bench\.permute_adds\.favor-random\.bidir/fwd=-?[0-9.]+%'
check "compared runs are side by side" sh -c 'grep "^attention/favor" out | sed 2q | grep -c "/16 " | grep -q 2'
t 0 "$longline" bench --yardsticks --seconds 1 --repeats 2 --case longline --json yard.json
check "a yardstick is the median of all repeats" grep -q 'sgemm-2048/longline/1".*"runs": 2}' yard.json
check "--case longline leaves out other libraries" sh -c '! grep -q libblas out'
out '^bench\.copy_gb_per_s=[1-9]'
out '^bench\.read_gb_per_s=[1-9]'
t 0 "$longline" bench --threads 1 --generate --position 500 --case small $small
out '^generate/small/favor/500 '
out '^bench\.late_state\.small\.favor=1\.000$'
out '^bench\.late_state\.small\.softmax=5\.000$' # keys and values of 500 tokens and of 100, without scratch
out '^bench\.late_token\.small\.value='
check "a stream without a state has no ratio of states" sh -c '! grep -q "late_state.small.value" out'
for vocab in 20 64; do
    t 0 "$longline" bench --threads 1 --generate --position 500 --case small/favor $small --set model.vocab=$vocab
    out '^generate/small/favor/500 '
done
for key in train.length train.batch; do
    refused "--set $key: each case has its own; choose cases with --case" "$longline" bench --models --set $key=7
done

mkfifo rows
cat rows >rows.json &
t 0 "$longline" bench --threads 1 --ops --lengths 17 --repeats 1 --case attention/relu/causal/fwd/17 --json rows
wait $!
check "a pipe gets the JSON" grep -q '"case"' rows.json
refused '--figure rows.svg: it is a pipe or a device' sh -c 'mkfifo rows.svg && exec "$0" bench --figure rows.svg' "$longline"
refused 'lengths' "$longline" bench --lengths 1024,
refused 'lengths' "$longline" bench --lengths 0
refused 'no case' "$longline" bench --ops --case nothing
if awk '/^MemAvailable:/ {exit $2 > 4e8}' /proc/meminfo; then
    t 1 "$longline" bench --ops --lengths 8388608 --case relu/causal/fwdbwd/
    err "all of these cases need more memory than there is; ask for shorter --lengths$"
else skip "cases without memory: this machine has 400 GB"; fi
# Without a terminal the first line of progress comes as early as with one: here within six seconds.
told "^attention: [0-9]+ %, eta [0-9:]+$" "$longline" bench --ops --lengths 4096 --seconds 6 --threads 1
refused 'layer' "$longline" bench --models --set model.layer=1
refused 'did you mean' "$longline" bench --length 5
refused 'model.layer' "$longline" bench --set model.layer=1
refused '--json nowhere/out.json: there is no folder nowhere/; make it first' "$longline" bench --json nowhere/out.json
refused '--figure nowhere/out.svg: there is no folder nowhere/' "$longline" bench --figure nowhere/out.svg
refused 'it is a folder' "$longline" bench --json .
refused 'early tokens go to 400' "$longline" bench --generate --position 400
refused 'add --ops' "$longline" bench --models --figure time.svg
refused 'attention/relu/ leaves nothing that --figure draws: .*relu\+permute/.* softmax and favor' \
    "$longline" bench --ops --lengths 16,64 --repeats 1 --threads 1 --case attention/relu/ --figure time.svg
refused 'leaves nothing that --figure draws' "$longline" bench --case favor/causal/fwd/ --figure time.svg
refused 'must end in .svg or .png' "$longline" bench --figure time.jpg
refused '--set changes the recipe of --models, --generate and --dist; add one' "$longline" bench --ops --set model.width=7
refused '--lengths are for --ops' "$longline" bench --yardsticks --lengths 64
refused '--lengths are for --ops' "$longline" bench --dist --lengths 64
refused '--position is for --generate; add it' "$longline" bench --yardsticks --position 1000
refused '--json -: this does not go to standard output; name a file' "$longline" bench --json -
# A quota of processor time counts: with the worth of one processor there is one thread. Where this script may not make
# a namespace, only tests/base/test_cpus.c tests it.
mkdir cgroup cgroup/cpu
echo "100000 100000" >cgroup/cpu.max
echo 100000 >cgroup/cpu/cpu.cfs_quota_us
echo 100000 >cgroup/cpu/cpu.cfs_period_us
if unshare -rm sh -c 'mount --bind cgroup /sys/fs/cgroup' 2>/dev/null; then
    t 0 unshare -rm sh -c 'mount --bind cgroup /sys/fs/cgroup && exec "$0" "$@"' "$longline" bench --ops --lengths 17 \
        --repeats 1 --case relu/causal/fwd/17
    out ', 1 threads; peak'
else skip "a quota of processor time: this user may not make a namespace"; fi

# Beside an earlier program: this program itself, with its times divided or multiplied by a thousand.
for factor in 0.001 1000; do
    cat >earlier-$factor <<END
#!/bin/sh
"$longline" "\$@" || exit
for word; do case \$before in --json) json=\$word ;; esac; before=\$word; done
awk -v f=$factor '{ if (match(\$0, /"ms": [0-9.e+-]*/)) \$0 = substr(\$0, 1, RSTART + 5) substr(\$0, RSTART + 6, RLENGTH - 6) * f \\
    substr(\$0, RSTART + RLENGTH); print }' "\$json" >"\$json.new" && mv "\$json.new" "\$json"
END
    chmod +x earlier-$factor
done
one="--threads 1 --ops --lengths 17 --case attention/relu/causal/fwd/17 --repeats 6"
t 1 "$longline" bench $one --against ./earlier-0.001
out '^attention/relu/causal/fwd/17 .*  slower$'
out '^bench\.against\.slower=1$'
err '1 of 1 cases are slower than ./earlier-0.001 by more than 3 %'
t 0 "$longline" bench $one --against ./earlier-1000
out "^case +before: least ms +now: least ms +median ratio +95 % interval"
out '^attention/relu/causal/fwd/17 .*  faster$'
out '^bench\.against\.slower=0$'
# An earlier program that leaves one of two cases out after its first turn.
cat >earlier-once <<END
#!/bin/sh
"$longline" "\$@" || exit
for word; do case \$before in --json) json=\$word ;; esac; before=\$word; done
[ ! -f turned ] || sed 's:fwd/33:fwd/34:' "\$json" >"\$json.new"
[ ! -f turned ] || mv "\$json.new" "\$json"
: >turned
END
chmod +x earlier-once
"$longline" bench --threads 1 --ops --lengths 17,33 --case attention/relu/causal/fwd/ --repeats 6 \
    --against ./earlier-once >out 2>err # its exit status is of the other case
out '^attention/relu/causal/fwd/33 +turns of both programs: 1; an interval needs 6$'
out '^attention/relu/causal/fwd/34 +only in ./earlier-once$'
refused '--seconds: with --against, --repeats is the number of turns' "$longline" bench $one --against ./earlier-1000 --seconds 9
refused 'needs the path of a program' "$longline" bench --against nothing
# A signal to bench alone ends the program that it runs, too.
printf '#!/bin/sh\necho $$ >slow.pid\nexec sleep 100\n' >earlier-slow
chmod +x earlier-slow
mkdir temporary
last="bench --against, SIGTERM"
TMPDIR=temporary "$longline" bench $one --against ./earlier-slow >out 2>err </dev/null &
pid=$!
wait_until test -s slow.pid
kill -TERM $pid
ended $pid
check "it ends with exit code 1" test $? -eq 1
check "and the other program with it" sh -c '! kill -0 "$(cat slow.pid)" 2>/dev/null'
check "its folder is gone" test -z "$(ls temporary)"
# Late tokens have the same position in both programs.
late="--threads 1 --generate --case generate/small/favor --repeats 6 $small"
for position in 4096 500; do
    given=
    [ $position = 500 ] && given="--position 500"
    t 0 "$longline" bench $late $given --against ./earlier-1000
    out "^generate/small/favor/$position  *[0-9.]+  *[0-9.]+ "
    out '^bench\.against\.cases=2$'
done
# A case is found in whichever section it is.
t 0 "$longline" bench --threads 1 --case generate/small/favor/500 --position 500 --repeats 6 $small --against ./earlier-1000
out '^generate/small/favor/500 .*  faster$'
out '^bench\.against\.cases=2$'
refused 'at least 6' "$longline" bench --against ./earlier-1000 --repeats 3
refused "one program's times" "$longline" bench --against ./earlier-1000 --json x.json
refused "no case is called 'nothing'" "$longline" bench --ops --against ./earlier-1000 --case nothing
