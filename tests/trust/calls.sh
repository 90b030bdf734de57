# Call n of each kind of system call fails with each error, or is incomplete. Afterwards every file is the old or the
# new one, whole. A command that failed printed why. The run resumes to the same bits as without a failure.
. "$root/tests/trust/lib"
make_run
make_expected
limit=120

# Equal folders are resumed only once.
go_on_once() { # WHAT
    left=$(cat here/run/last.safetensors here/run/best.safetensors here/run/metrics.csv here/run/recipe.ini | md5sum)
    if grep -qs "^$left" gone; then return; fi
    before=$bad
    go_on "$1"
    [ $bad -gt $before ] || echo "$left" >>gone
}
# What the next start must come to.
next_start() { # COMMAND...
    case $name in
    resume) go_on_once "$what" ;;
    data-get | table) "$@" >out 2>err </dev/null || wrong "$what: cannot go on: $(tail -n 1 err)" ;;
    esac
    case $name in
    data-get) diff -r lra/lra/train here/got/train >differs || wrong "$what: $(head -n 1 differs)" ;;
    table) table_numbers here/table/table.csv | cmp -s - expected.csv || wrong "$what: other numbers" ;;
    esac
}
trial() { # NAME SAMPLES "KINDS" COMMAND...
    chosen "$1" || return 0
    name=$1 samples=$2 kinds=$3
    shift 3
    for kind in $kinds; do
        fresh
        "$trouble" "$kind" 0 EIO -c count "$@" >out 2>err </dev/null || fail "$name without trouble"
        total=$(cat count)
        [ "$total" -gt 0 ] || continue
        errors='EIO ENOSPC EINTR EDQUOT EACCES short'
        long || errors='ENOSPC EINTR short'
        for how in $errors; do
            case $how:$kind in short:read | short:write | short:pwrite) ;; short:*) continue ;; esac
            for n in $(numbers "$total" "$samples"); do
                fresh
                limited "$trouble" "$kind" "$n" $how "$@"
                code=$?
                what="$name, $kind $n of $total, $how"
                trials=$((trials + 1))
                [ $code -le 2 ] || wrong "$what: exit code $code $(tail -n 1 err)"
                [ $code -eq 0 ] || [ -s err ] || wrong "$what: not a word"
                is_whole || wrong "$what: $why"
                ! ls here here/run | grep '\.tmp-' >left || [ $code -ne 0 ] || wrong "$what: leaves $(cat left)"
                next_start "$@"
            done
        done
        verdict "$name, $kind fails"
    done
}
all="open read write pwrite fsync rename mmap ftruncate close"
trial resume 2 "$all" $resume
trial save-state 1 "open write fsync rename" \
    "$longline" generate "$model" --tokens 3 --load-state here/state --save-state here/state --threads 1
trial report 1 "open write rename" "$longline" report here/run --threads 1
if long; then
    trial train 0 "$all" "$longline" train begun/recipe.ini --out here/new --threads 1
    trial save-state 0 "read pwrite mmap ftruncate close" \
        "$longline" generate "$model" --tokens 3 --load-state here/state --save-state here/state --threads 1
    trial report 0 "read fsync mmap ftruncate close" "$longline" report here/run --threads 1
    trial data-make 0 "$all" "$longline" data make listops --out here/listops --count 20 --threads 1
    trial score 0 "$all" "$longline" score "$model" text.txt -o here/scores.tsv --threads 1
    trial analyse 0 "$all" "$longline" analyse moments --quick --json here/table --threads 1
    small_table
    fresh
    # shellcheck disable=SC2086
    {
        t 0 $table
        table_numbers here/table/table.csv >expected.csv
        trial table 0 "$all" $table
    }
    if small_archive; then
        trial data-get 0 "$all" "$longline" data get lra --out here/got --from "$address"
        kill $server
    fi
fi
all_chosen
