# The power fails. The calls that alter files are recorded. After each of them POSIX allows a disk several contents;
# disk_states.c makes every different folder. All its models and checkpoints are the old or a new one, and runs resume
# to the same bits. Without the calls of fsync the same trial finds broken files.
. "$root/tests/trust/lib"
make_run
fresh
last="a recorded run"
"$trouble" change 0 EIO -t trace $resume >out 2>err </dev/null || fail "$last"
cp here/run/last.safetensors expected
mkdir found
check "no file is broken" "$disk_states" trace begun found "$PWD/here/run" 12
total=$(ls found | wc -l)
check "there are different folders" test "$total" -gt 30
mkdir unsynced
grep -av '^sync ' trace >trace.unsynced
check "without fsync there are broken files" sh -c "! '$disk_states' trace.unsynced begun unsynced '$PWD/here/run' 4 >found.unsynced"
rm -rf unsynced
! long || sed 's/^/    without fsync: /' found.unsynced
for n in $(numbers "$total" 10); do
    rm -rf here
    mkdir here
    mv found/$((n - 1)) here/run
    trials=$((trials + 1))
    go_on "folder $n"
done
verdict "runs go on after a power failure"
