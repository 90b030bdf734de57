# Allocation n is refused, once or with all that follow. The command runs once and forks at each allocation that is tried
# (tests/trust/branch.h); the child gives an error and exit code 1, or works without it. Files are the old or the new ones.
# Allocations of libraries count, too: a crash within a library is counted as the library's, one in our code fails, and so does a
# wait without end in either. LL_MANNERS=once or all chooses one of the two. A folder for temporary files that is in memory
# (TMPDIR=/dev/shm) makes the long form several times as fast. LL_STOP=1 stops training that goes on without the allocation:
# `demo` would take days otherwise.
. "$root/tests/trust/lib"
make_run
t 0 "$longline" data make music --out songs --count 2 --size 2
if long; then # with the fonts of one folder: reading how a system is set up takes thousands of allocations of libraries
    cat >fonts.conf <<END
<fontconfig><dir>/usr/share/fonts/truetype/dejavu</dir><cachedir>$PWD/fonts</cachedir></fontconfig>
END
    export FONTCONFIG_FILE="$PWD/fonts.conf"
    fresh
    "$longline" report here/run >out 2>err || fail "the fonts are read once"
fi
libraries='jansson|cairo|fontconfig|pixman|freetype|expat|sentencepiece|libstdc|libpng|libarchive'
theirs=0
# The run in which allocation n was refused has ended: it said so, and the files are whole.
look() { # CODE FOLDER
    trials=$((trials + 1))
    what="$name, allocation $n of $total ($manner)"
    if [ "$1" -gt 1 ] && grep -qE "^crash in .*/lib.*($libraries)" "$2/err"; then
        theirs=$((theirs + 1))
        ! long || echo "$what: $(grep '^crash in' "$2/err" | head -n 1)" >>theirs
    elif [ "$1" -gt 1 ]; then
        wrong "$what: exit code $1 $(tail -n 1 "$2/err")"
    fi
    [ "$1" -eq 0 ] || [ -s "$2/err" ] || wrong "$what: not a word"
    is_whole "$2/here" || wrong "$what: $why"
    ! long || [ $((trials % 5000)) -ne 0 ] || echo "    $what: $trials trials so far"
}
# A folder for children, whose other files are those of this one.
make_try() {
    rm -rf try ask answer
    mkdir try
    for file in *; do
        case $file in here | try | out | err) ;; *) ln -s "../$file" try/ ;; esac
    done
    mkfifo ask answer
}
# One run without trouble; sets total, its allocations.
counted() { # COMMAND...
    fresh
    if ! LL_COUNT=$PWD/count LD_PRELOAD=$shim "$@" >out 2>err </dev/null; then
        fail "$name without trouble"
        return 1
    fi
    total=$(cat count)
}
trial() { # NAME SAMPLES COMMAND...
    chosen "$1" || return 0
    name=$1 samples=$2
    shift 2
    counted "$@" || return 0
    step=$(((total - 1) / (samples > 1 ? samples - 1 : 1)))
    ! long || step=${LL_STEP:-1}
    step=$((step > 0 ? step : 1))
    for manner in $manners; do
        fresh
        make_try
        before=$trials
        LL_ASK=ask LL_ANSWER=answer LL_STEP=$step LL_ALL=$manner LD_PRELOAD=$shim "$@" >out 2>err </dev/null &
        exec 3<ask 4>answer
        while read -r part n code <&3; do
            case $part in
            copy)
                rm -rf try/here try/out try/err
                cp -r here try/
                ;;
            look) look "$code" try ;;
            esac
            echo >&4
        done
        exec 3<&- 4>&-
        wait $! || wrong "$name: the run from which all others began: $(tail -n 1 err)"
        is_whole here || wrong "$name: the run from which all others began: $why"
        [ "${LL_TO:-}" ] || [ $(((trials - before) * step)) -ge $(((total - ${LL_FROM:-0}) * 19 / 20)) ] || wrong "$name ($manner): only $((trials - before)) trials"
    done
    verdict "$name, with memory that fails"
}
# Each allocation in a run of its own: for a command with sockets, which parent and child would share.
trial_apart() { # NAME COMMAND...
    chosen "$1" || return 0
    name=$1
    shift
    counted "$@" || return 0
    for manner in $manners; do
        for n in $(numbers "$total" 0); do
            fresh
            limited env LD_PRELOAD="$shim" LL_AT="$n" LL_ALL="$manner" "$@"
            look $? .
        done
    done
    verdict "$name, with memory that fails"
}
# shellcheck disable=SC2086
{
    manners=${LL_MANNERS:-once all}
    trial train 12 "$longline" train --resume here/run --set train.steps=6 $one
    trial report 12 "$longline" report here/run $one
    trial generate 12 "$longline" generate "$model" --tokens 3 --load-state here/state --save-state here/state $one
    trial score 12 "$longline" score "$model" begun/recipe.ini $one
    trial inspect 60 "$longline" inspect "$model" $one
    trial grid 60 "$longline" data grid songs $one
}
if long; then
    printf 'one line\nand another\n' >lines.txt
    small_images
    t 0 "$longline" train images.ini --set train.report=off --out pictures
    small_table
    # shellcheck disable=SC2086
    {
        if /usr/bin/python3 "$root/tests/python/write_models.py" models; then
            t 0 "$longline" import models/gpt2 -o gpt2.safetensors
            trial import 0 "$longline" import models/gpt2 -o here/gpt2.safetensors $one
            trial export 0 "$longline" export gpt2.safetensors here/gpt2 --to hf $one
        else
            fail "a model to import (python3-numpy writes it; make deps installs that)"
        fi
        trial new-run 0 "$longline" train here/run/recipe.ini --out here/new $one
        trial eval 0 "$longline" eval "$model" $one
        trial encode 0 "$longline" encode "$model" lines.txt -o here/vectors.npy $one
        trial classify 0 "$longline" classify pictures/best.safetensors images $one
        trial tokenize 0 "$longline" tokenize "$model" lines.txt $one
        trial quantize 0 "$longline" quantize "$model" -o here/small.safetensors --weights int8 $one
        trial table 0 $table
        trial demo 0 "$longline" demo --minutes 0.05 --out here/demo $one
        trial verify 0 "$longline" inspect "$model" --verify $one
        trial list 0 "$longline" list
        trial recipe 0 "$longline" recipe
        trial help 0 "$longline" help train
        trial version 0 "$longline" version
        trial analyse 0 "$longline" analyse moments --quick --json here/table --out here $one
        trial bench 0 "$longline" bench --ops --lengths 64 --repeats 1 --case attention/relu/bidir/fwd/ \
            --json here/bench.json $one
        trial data 0 "$longline" data make listops --out here/listops.tsv --count 20 $one
        trial verify-data 0 "$longline" data verify lines.txt $one
        trial ngrams 0 "$longline" data ngrams begun/recipe.ini --order 2 --set data.train=text.txt --set data.valid=text.txt $one
        trial compare 0 "$longline" data compare songs/*0.mid songs/*1.mid $one
        if small_archive; then
            trial_apart data-get "$longline" data get lra --out here/got --from "$address"
            kill $server
        fi
        trial attend 0 "$longline" attend "$root/tests/fuzz/corpus/case/favor" --out here/attended $one
    }
    [ ! -e theirs ] || sed 's/.*: crash in /    /' theirs | sort | uniq -c
fi
[ $theirs -eq 0 ] || echo "    crashes inside libraries: $theirs"
all_chosen
