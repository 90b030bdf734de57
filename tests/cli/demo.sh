# The demo, shortened to a few seconds, with all its parts.
t 0 "$longline" demo --minutes 0.1
for key in bits_per_byte bigram_bits_per_byte train_tokens_per_second generate_tokens_per_second; do
    out "^demo.$key=[0-9.]+$"
done
tail -n 6 out | cut -d= -f1 | tr '\n' ' ' >keys
check "the last six lines are the results, in order" grep -qxF "demo.bits_per_byte demo.bigram_bits_per_byte \
demo.train_tokens_per_second demo.generate_tokens_per_second demo.model demo.picture " keys
check "there is a model" test -s "$(value demo.model)"
check "there is a picture" test -s "$(value demo.picture)"
out "^demo.model=runs/demo-1/"
t 0 "$longline" inspect "$(value demo.model)"
# Behind the training there is nothing to save.
last="demo, SIGTERM while it generates"
"$longline" demo --minutes 0.05 --out short >out 2>err </dev/null &
pid=$!
until grep -qs "^Linear attention" out || ! kill -0 $pid 2>/dev/null; do sleep 0.1; done
kill -TERM $pid 2>/dev/null # it may have ended
ended $pid
code=$?
check "it ends at once" test $code -eq 143 -o $code -eq 0
not_err "saving"
refused "--minutes 0" "$longline" demo --minutes 0
last="demo, on a disk that is full"
(ulimit -f 100; "$longline" demo --minutes 0.05 --out full >out 2>err </dev/null)
check "it fails" test $? -eq 1
err "File too large; raise the limit of a file's size .* begin again: there is no checkpoint yet"
