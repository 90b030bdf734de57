# Killed before every call that alters a file, and at random moments. The files are whole each time, and the run resumes
# to the same bits: eight kinds of training, a table, generation with saved states. LL_KILLS: the number of kills over
# all trainings; a fifth as many over tables, and over generation.
. "$root/tests/trust/lib"
make_run
make_expected

# ---- Before every call that alters a file ----
prefixes() { # NAME SAMPLES COMMAND...
    name=$1 samples=$2
    shift 2
    fresh
    "$trouble" change 0 EIO -c count "$@" >out 2>err </dev/null || fail "$name"
    total=$(cat count)
    for n in $(numbers "$total" "$samples"); do
        fresh
        limited "$trouble" change "$n" kill "$@"
        code=$?
        trials=$((trials + 1))
        [ $code -eq 137 ] || wrong "$name, change $n of $total: exit code $code"
        is_whole || wrong "$name, change $n of $total: $why"
        go_on "$name, change $n of $total"
    done
    verdict "$name, killed before a call that alters a file"
}
prefixes resume 6 $resume
prefixes save-state 2 "$longline" generate "$model" --tokens 3 --load-state here/state --save-state here/state --threads 1

# A new run resumes from its first checkpoint. Without one it begins again.
anew() { if [ -e here/new/last.safetensors ]; then "$longline" train --resume here/new --threads 1; else
    "$longline" train begun/recipe.ini --out here/new --threads 1; fi; }
fresh
anew >out 2>err </dev/null || fail "a new run"
cp here/new/last.safetensors expected
"$trouble" change 0 EIO -c count "$longline" train begun/recipe.ini --out here/counted --threads 1 >out 2>err </dev/null
total=$(cat count)
for n in $(numbers "$total" 5) $(long || seq 13 2 21); do
    fresh
    limited "$trouble" change "$n" kill "$longline" train begun/recipe.ini --out here/new --threads 1
    trials=$((trials + 1))
    anew >out 2>err </dev/null || wrong "a new run, change $n of $total: $(tail -n 1 err)"
    cmp -s here/new/last.safetensors expected || wrong "a new run, change $n of $total: other bits at the end"
done
verdict "a new run, killed before a call that alters a file"

# ---- At random moments ----
kills=${LL_KILLS:-$(if long; then echo 1000; else echo 12; fi)}
seed=${LL_SEED:-1} drawn=0
# killed COMMAND...: kills it after up to `most` seconds. Fails if the command ended by itself before.
killed() {
    drawn=$((drawn + 1))
    wait_for=$(awk -v seed="$seed" -v i=$drawn -v most="$most" 'BEGIN {srand(seed * 7919 + i); printf "%.3f", 0.01 + most * rand()}')
    "$@" >out 2>err </dev/null &
    pid=$!
    sleep "$wait_for"
    kill -KILL $pid 2>/dev/null
    wait $pid 2>/dev/null
    [ $? -eq 137 ]
}
# The settings of each kind of training.
options_of() {
    case $1 in
    permuteformer) echo "--set attention.kernel=relu --set position.type=permute" ;;
    favor) echo "--set attention.kernel=favor --set position.type=none" ;;
    softmax) echo "--set attention.kernel=softmax --set position.type=rope --set position.decay=none" ;;
    spe) echo "--set attention.kernel=elu1 --set position.type=sine-spe --set position.decay=none" ;;
    local) echo "--set attention.kernel=local --set position.type=none --set position.decay=none" ;;
    carry) echo "--set attention.kernel=elu1 --set train.carry-state=on --set position.type=none --set position.decay=fixed" ;;
    dropout) echo "--set model.dropout=0.1 --set attention.kernel=relu" ;;
    shards) echo "--set dist.shards=2 --set attention.kernel=relu" ;;
    esac
}
kinds="permuteformer favor softmax spe local carry dropout shards"
train() { # KIND OUT
    # Before the first checkpoint there is nothing to resume.
    if [ -e "$2/last.safetensors" ]; then echo "$longline train --resume $2 $one"; else
        echo "$longline train $root/recipes/text-bytes.ini --data text.txt $small --set model.width=16 --set train.length=32 \
            --set train.steps=400 --set train.eval-every=40 --set train.checkpoint-every=10 $(options_of "$1") $one --out $2"
    fi
}
rows() { cut -d , -f 1,3-10 "$1"; } # without times and memory
for kind in $kinds; do
    # shellcheck disable=SC2046
    $(train $kind whole-$kind) >out 2>err </dev/null || fail "$kind without kills: $(tail -n 1 err)"
done
finish() { # KIND: goes on to the end, and looks at it
    # shellcheck disable=SC2046
    $(train "$1" cut) >out 2>err </dev/null || wrong "$1: cannot go on: $(tail -n 1 err)"
    for file in last best; do
        cmp -s cut/$file.safetensors "whole-$1/$file.safetensors" || wrong "$1, draws to $drawn: other bits in $file"
    done
    rows cut/metrics.csv >a
    rows "whole-$1/metrics.csv" | cmp -s - a || wrong "$1, draws to $drawn: other metrics"
    rm -rf cut
}
most=0.4
for kind in $kinds; do
    n=0 idle=0
    rm -rf cut
    while [ $n -lt $((kills / 8)) ] && [ $idle -lt 1000 ]; do
        # shellcheck disable=SC2046
        if killed $(train $kind cut); then n=$((n + 1)); else
            idle=$((idle + 1))
            finish $kind
        fi
    done
    finish $kind
    trials=$((trials + n))
    ! long || echo "    $kind: $n kills"
done
verdict "killed at random moments of training"

# ---- A table ----
sed "s/^test = .*/test = text.txt/; s/^steps = .*/steps = 100/" begun/recipe.ini >base.ini
cat >systems.ini <<END
[table]
title = Two systems
recipe = base.ini
metric = perplexity
batches = 5

[exact]
attention.kernel = softmax
position.type = rope
position.decay = none

[permute]
attention.kernel = relu
position.type = permute
END
table() { echo "$longline table systems.ini --budget 100steps --seeds 2 --out $1 $one"; }
$(table table-whole) >out 2>err </dev/null || fail "a table: $(tail -n 1 err)"
table_numbers table-whole/table.csv >expected.csv
n=0 idle=0
while [ $n -lt $((kills / 5)) ] && [ $idle -lt 1000 ]; do
    # shellcheck disable=SC2046
    if killed $(table table-cut); then n=$((n + 1)); else
        idle=$((idle + 1))
        $(table table-cut) >out 2>err </dev/null || wrong "table: cannot go on: $(tail -n 1 err)"
        table_numbers table-cut/table.csv | cmp -s - expected.csv || wrong "table, draws to $drawn: other numbers"
        rm -rf table-cut
    fi
done
$(table table-cut) >out 2>err </dev/null || wrong "table: cannot go on: $(tail -n 1 err)"
table_numbers table-cut/table.csv | cmp -s - expected.csv || wrong "table, draws to $drawn: other numbers"
trials=$n
verdict "killed at random moments of a table"

# ---- Generation: a text in pieces, each going on from the state that the last one saved ----
piece() { "$longline" generate "$model" --tokens 40 --seed 5 --load-state state --save-state state --threads 1; }
cp begun.state state
i=0
while [ $i -lt 8 ]; do
    piece >piece 2>err </dev/null || fail "a piece"
    md5sum <state >>states
    i=$((i + 1))
done
n=0 at=0
most=0.06
cp begun.state state
while [ $n -lt $((kills / 5)) ]; do
    if killed "$longline" generate "$model" --tokens 40 --seed 5 --load-state state --save-state state $one; then n=$((n + 1)); fi
    sum=$(md5sum <state)
    now=$(grep -n "^$sum" states | head -n 1 | cut -d : -f 1)
    [ "$sum" != "$(md5sum <begun.state)" ] || now=0
    if [ -z "$now" ] || [ "$now" -lt $at ] || [ "$now" -gt $((at + 1)) ]; then
        wrong "generation, draw $drawn: the state is none of those without kills"
        now=8
    fi
    at=$now
    if [ "$at" -ge 8 ]; then at=0; cp begun.state state; fi
done
trials=$n
verdict "killed at random moments of generation"
