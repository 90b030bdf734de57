# Every n-th allocation fails, once or for good: an error in words and exit code 1 (2 where a file could not be judged),
# or the command did without; the run as it was or one that is whole. A crash inside a library that draws is listed as its
# own; one of ours fails.
. "$root/tests/trust/lib"
make_run
theirs=0
trial() { # NAME SAMPLES COMMAND...
    name=$1 samples=$2
    shift 2
    fresh
    total=$(calls memory "$@")
    check "$name allocates" test "${total:-0}" -gt 0
    for manner in once all; do
        for n in $(numbers "$total" "$samples"); do
            fresh
            with memory "$n" $manner "$@"
            trials=$((trials + 1))
            if [ $code -gt 2 ]; then
                if grep -q 'crash in .*/lib.*\(cairo\|fontconfig\|pixman\|freetype\|expat\|sentencepiece\|libstdc\)' err &&
                    [ "$(sed -n 's/^crash in //p' err | head -n 1)" != "$longline" ]
                then theirs=$((theirs + 1))
                else wrong "$name, allocation $n of $total fails ($manner): exit code $code $(tail -n 1 err)"
                fi
            fi
            if [ $code -ne 0 ] && [ ! -s err ]; then wrong "$name, allocation $n fails ($manner): not a word"; fi
            is_whole || wrong "$name, allocation $n fails ($manner): $why"
        done
    done
    verdict "$name, with memory that fails"
}
one='--threads 1'
# shellcheck disable=SC2086
{
    trial train 5 "$longline" train --resume here/run --set train.steps=24 $one
    trial generate 5 "$longline" generate "$model" --tokens 3 --load-state here/state --save-state here/state $one
    trial eval 4 "$longline" eval "$model" $one
    trial score 4 "$longline" score "$model" text.txt $one
    trial report 4 "$longline" report here/run $one
}
if long; then
    # shellcheck disable=SC2086
    {
        trial encode 6 "$longline" encode "$model" text.txt -o here/vectors.npy $one
        trial inspect 6 "$longline" inspect "$model" $one
        trial new-run 6 "$longline" train here/run/recipe.ini --out here/new $one
        trial list 6 "$longline" list $one
        trial recipe 6 "$longline" recipe $one
        trial analyse 6 "$longline" analyse moments --quick --json here/table --out here $one
        trial data 6 "$longline" data make listops --out here/listops.tsv --count 20 $one
    }
fi
[ $theirs -eq 0 ] || echo "    crashes inside libraries that draw: $theirs"
