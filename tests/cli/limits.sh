# The runner of the tests: a test that does not end in time fails with its name, and is ended with all that it started.
cat >endless.sh <<'ENDLESS'
pass "so far"
(sleep 3 && touch "$LL_LEFT") &
sleep 1000
ENDLESS
printf '#!/bin/sh\nexec sleep 1000\n' >endless
printf '#!/bin/sh\necho "[  PASSED  ] 3 test(s)."\n' >good
chmod +x endless good
here=$PWD
export LL_LEFT="$here/left"
# Tests are run from the project's folder. The outer timeout ends a runner that does not end by itself.
run() { (cd "$root" && LL_TEST_LIMIT=1 timeout -k 1 60 "$@"); }

t 1 run tests/run.sh "$here/results" scripts "$build" "$here/endless.sh"
out "^FAIL  endless.sh: 1 passed, 1 failed, ended at its limit of 1 s"
t 1 run tests/run.sh "$here/results" programs "$here/endless" "$here/good"
out "^FAIL  endless: 0 passed, 1 failed, ended at its limit of 1 s"
out "^ok    good: 3 passed"
t 1 run tests/run.sh "$here/results" fuzz "$here/endless"
out "^FAIL  endless: 0 passed, 1 failed, ended at its limit of 1 s"
sleep 2
check "what a test started has ended with it" test ! -e left
check "all are counted" test "$(sort results | tr '\n' ' ')" = "0 1 endless 0 1 endless 1 1 endless.sh 3 0 good "

# The caller ignores signals, as nohup does.
cat >signals.sh <<'SIGNALS'
for name in HUP INT TERM; do
    sleep 1000 &
    kill -$name $!
    wait $!
    check "$name ends a program" test $? -gt 128
done
SIGNALS
cat >ignoring <<'IGNORING'
trap '' HUP INT TERM
LL_TEST_LIMIT=5 exec tests/run.sh "$@"
IGNORING
t 0 run sh "$here/ignoring" "$here/results" scripts "$build" "$here/signals.sh"
