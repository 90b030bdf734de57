# The n-th call of the system of each kind fails with each error, or comes back short: afterwards every file is the old or
# the new one, whole, and the run goes on to the same bits as one that met no trouble.
. "$root/tests/trust/lib"
make_run
go_on() { "$longline" train --resume here/run --set train.steps=40 --threads 1; }
fresh
go_on >out 2>err
cp here/run/last.safetensors expected
trial() { # NAME SAMPLES KINDS COMMAND...
    name=$1 samples=$2 kinds=$3
    shift 3
    for kind in $kinds; do
        fresh
        total=$(calls "$kind" "$@")
        errors='EIO ENOSPC EINTR EDQUOT EACCES short'
        long || errors='ENOSPC short'
        for manner in $errors; do
            for n in $(numbers "${total:-0}" "$samples"); do
                fresh
                with "$kind" "$n" "$manner" "$@"
                trials=$((trials + 1))
                [ $code -le 2 ] || wrong "$name, $kind $n of $total: $manner: exit code $code $(tail -n 1 err)"
                [ $code -eq 0 ] || [ -s err ] || wrong "$name, $kind $n: $manner: not a word"
                is_whole || wrong "$name, $kind $n: $manner: $why"
                if go_on >out 2>err; then
                    cmp -s here/run/last.safetensors expected || wrong "$name, $kind $n: $manner: other bits at the end"
                else
                    wrong "$name, $kind $n: $manner: cannot go on: $(tail -n 1 err)"
                fi
            done
        done
        verdict "$name, $kind fails"
    done
}
trial resume 2 "open read write fsync rename mmap ftruncate close" \
    "$longline" train --resume here/run --set train.steps=40 --threads 1
trial save-state 2 "open write fsync rename" \
    "$longline" generate "$model" --tokens 3 --load-state here/state --save-state here/state --threads 1
trial report 2 "open write rename" "$longline" report here/run --threads 1
