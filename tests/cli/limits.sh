# The runner of the tests: a test that does not end in time fails with its name, and is ended with all that it started.
cat >endless.sh <<'ENDLESS'
pass "so far"
(sleep 6 && touch "$LL_LEFT") &
sleep 1000
ENDLESS
printf '#!/bin/sh\nexec sleep 1000\n' >endless
printf '#!/bin/sh\necho "[  PASSED  ] 3 test(s)."\n' >good
chmod +x endless good
here=$PWD
export LL_LEFT="$here/left"
# Tests are run from the project's folder. The outer timeout ends a runner that does not end by itself.
run() { (cd "$root" && LL_TEST_LIMIT=${limit:-60} timeout -k 1 60 "$@"); }

limit=2
t 1 run tests/run.sh "$here/results" scripts "$build" "$here/endless.sh"
out "^FAIL  endless.sh: 1 passed, 1 failed, ended at its limit of 2 s"
t 1 run tests/run.sh "$here/results" programs "$here/endless" "$here/good"
out "^FAIL  endless: 0 passed, 1 failed, ended at its limit of 2 s"
out "^ok    good: 3 passed"
t 1 run tests/run.sh "$here/results" fuzz "$here/endless"
out "^FAIL  endless: 0 passed, 1 failed, ended at its limit of 2 s"
limit=
sleep 4
check "what a test started has ended with it" test ! -e left
check "all are counted" test "$(sort results | tr '\n' ' ')" = "0 1 0 endless 0 1 0 endless 1 1 0 endless.sh 3 0 0 good "

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

# What was not tried is counted, and said; what checks nothing at all has failed.
cat >partly.sh <<'PARTLY'
pass "one"
skip "the other: there is none here"
PARTLY
echo 'skip "nothing here"' >none.sh
: >empty.sh
printf '#!/bin/sh\nprintf "[  PASSED  ] 2 test(s).\\n[  SKIPPED ] 3 test(s), listed below:\\n[  SKIPPED ] test_a\\n"\n' >some
chmod +x some
rm results
t 1 run tests/run.sh "$here/results" scripts "$build" "$here/partly.sh" "$here/none.sh" "$here/empty.sh"
out "^ok    partly.sh: 1 passed, 1 not tried, "
out "^    not tried: the other: there is none here$"
out "^FAIL  empty.sh: 0 passed, 1 failed, it checked nothing, "
t 0 run tests/run.sh "$here/results" programs "$here/some"
out "^ok    some: 2 passed, 3 not tried, "
out "^    not tried: test_a$"
check "all are counted" test "$(sort results | tr '\n' ' ')" = "0 0 1 none.sh 0 1 0 empty.sh 1 0 1 partly.sh 2 0 3 some "

# No line is lost where several programs end at the same time and the output is a file.
printf '#!/bin/sh\nsleep 0.2\necho "[  PASSED  ] 1 test(s)."\n' >together
chmod +x together
many=
while [ ${#many} -lt 2000 ]; do many="$many $here/together"; done
LL_TEST_JOBS=20 t 0 run tests/run.sh "$here/shown" programs $many
check "each program is shown" test "$(grep -c '^ok    together: 1 passed' out)" = "$(wc -l <shown)"

# A program that was not run, or not to its end, has failed: the disk is full, or a worker is killed.
mkdir bin
printf '#!/bin/sh\nexit 1\n' >bin/mkdir
chmod +x bin/mkdir
rm results
PATH=$here/bin:$PATH t 1 run tests/run.sh "$here/results" programs "$here/good"
out "^FAIL  good: it was not run to its end$"
printf '#!/bin/sh\nkill -9 $(cut -d " " -f 4 /proc/$PPID/stat)\n' >killer
chmod +x killer
LL_TEST_JOBS=1 t 1 run tests/run.sh "$here/results" programs "$here/good" "$here/killer" "$here/endless"
out "^ok    good: 3 passed"
out "^FAIL  killer: it was not run to its end$"
out "^FAIL  endless: it was not run to its end$"
check "all are counted" test "$(sort results | tr '\n' ' ')" = "0 1 0 endless 0 1 0 good 0 1 0 killer 3 0 0 good "
