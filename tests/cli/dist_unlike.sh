# Ranks that do not begin with the same, as on machines with other versions, files or settings: all end with exit status 2
# before anything is written, and one message says what differs.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
text=$root/recipes/text-bytes.ini
small_text
step="$small --set train.batch=4 --set train.steps=4 --set train.eval-every=4 --set train.checkpoint-every=4
 --set train.schedule=constant --threads 1"
libraries=
for l in openmpi mpich; do
    [ -e "$build/longline-mpi-$l.so" ] && command -v mpirun.$l >/dev/null && libraries="$libraries $l"
done
[ -n "$libraries" ] || { skip "unlike ranks: no MPI here"; return 0; }

# differs REGEX COMMAND: three ranks, each in the folder unlike/RANK. The shell runs the command, which knows $rank.
differs() {
    more=
    [ "$library" = openmpi ] && more="--oversubscribe"
    t 2 timeout 60 mpirun."$library" $more -n 3 \
        sh -c "rank=\${OMPI_COMM_WORLD_RANK:-\$PMI_RANK}; cd unlike/\$rank; $2" "$longline" "$text" $step
    err "$1"
    check "$library: one message" [ "$(grep -c '^longline' err)" -eq 1 ]
    check "nothing is left" [ -z "$(ls -d unlike/*/unequal* 2>/dev/null)" ]
}
# with FILE OTHER COMMAND...: rank 1 has OTHER in place of FILE while the command runs.
with() {
    kept=unlike/1/$1
    mv "$kept" kept
    cp -r "$2" "$kept"
    shift 2
    "$@"
    rm -rf "$kept"
    mv kept "$kept"
}

t 0 "$longline" train "$text" --data text.txt $step -o first
t 0 "$longline" train "$text" --data text.txt $step --set train.seed=5 -o second
cp -r first longer
t 0 "$longline" train --resume longer --set train.steps=8 --threads 1
head -c 100 text.txt | fold -w 20 >lines.txt
printf 'It\nwas\nso\nit\n' >prompts.txt
t 0 "$longline" generate first/best.safetensors --prompt a --tokens 5 --save-state state
mkdir other unlike
tr a b <text.txt >other/text.txt
head -n 100 text.txt >other/shorter.txt
{ head -n 300 text.txt; tail -n +301 text.txt | tr l b; } >other/late.txt
tr a b <lines.txt >other/lines.txt
sed '2s/$/!/' prompts.txt >other/prompts.txt
t 0 "$longline" generate first/best.safetensors --prompt b --tokens 5 --save-state other/state
cat >classes.ini <<'END'
[model]
task = classify
vocab = 256
classes = 2
layers = 1
width = 16
heads = 2
ff = 32
[data]
format = labelled
classes = a,b
[train]
length = 16
batch = 4
steps = 2
report = off
END
awk 'BEGIN {for (i = 0; i < 40; i++) print i % 2 ? "a" : "b", "text" i}' | tr ' ' '\t' >labelled.tsv
awk -F '\t' -v OFS='\t' '{$1 = $1 == "a" ? "b" : "a"; print}' labelled.tsv >other/labelled.tsv
for seed in 1 2; do
    t 0 "$longline" train classes.ini --data labelled.tsv --set data.valid=labelled.tsv --set train.seed=$seed \
        -o classes-$seed
done
one_system
for i in 0 1 2; do
    mkdir unlike/$i
    cp text.txt lines.txt prompts.txt state systems.ini base.ini labelled.tsv unlike/$i
    cp text.txt unlike/$i/test.txt && cp text.txt unlike/$i/valid.txt
    cp first/best.safetensors unlike/$i/model
    cp first/best.safetensors unlike/$i/teacher
    cp classes-1/last.safetensors unlike/$i/classes
    cp -r first unlike/$i/run
done
# The program with another version. It is as long as the right one.
version=$("$longline" version | sed 's/.* //')
mkdir program
sed "s/$(echo "$version" | sed 's/[.]/[.]/g')/9.9.9/g" "$longline" >program/longline
chmod +x program/longline
cp "$build"/longline-mpi-*.so program

for library in $libraries; do
    # ---- The program ----
    t 0 program/longline version
    out '^longline 9[.]9[.]9$'
    for command in 'train "$1" --data text.txt --set train.steps=2 -o unequal' 'score model lines.txt' \
        'eval model --data text.txt'; do
        differs "rank 2: the version of longline is not that of rank 0: 9[.]9[.]9, and there $version; install the same" \
            "[ \$rank != 2 ] || set -- ../../program/longline \"\$@\"; [ \$rank = 2 ] || set -- \"\$0\" \"\$@\"
            program=\$1; shift; exec \"\$program\" $command"
    done
    differs 'rank 1: the instruction tier of its processor is not that of rank 0: scalar, and there .*; set LL_CPU' \
        '[ $rank != 1 ] || export LL_CPU=scalar; exec "$0" encode model lines.txt -o unequal.csv'

    # ---- train ----
    train='recipe=$1; shift; exec "$0" train "$recipe" --data text.txt "$@" -o unequal'
    differs 'rank 2: its recipe is not that of rank 0: "seed = 1", and there "seed = 0"; give all ranks the same' \
        "$train --set train.seed=\$((rank / 2))"
    differs 'rank 1: the instruction tier of its processor is not that of rank 0: scalar, and there .*; set LL_CPU' \
        "[ \$rank = 0 ] || export LL_CPU=scalar; $train"
    with text.txt other/text.txt differs \
        'rank 1: a checksum of some rows of data.train is not that of rank 0: .*; give all machines the same files' "$train"
    with test.txt other/late.txt differs \
        'rank 1: a checksum of some rows of the held-out data is not that of rank 0' "$train --set data.valid=test.txt"
    with text.txt other/shorter.txt differs 'rank 1: the size of data.train is not that of rank 0: .*; give all' "$train"
    resume='exec "$0" train --resume run --set train.steps=12 --threads 1 -o unequal'
    with run longer differs \
        'rank 1: the model at the beginning is not that of rank 0: .*; give all ranks the same train.from or --resume' "$resume"
    check "the checkpoint is as it was" cmp unlike/0/run/last.safetensors first/last.safetensors

    with teacher second/best.safetensors differs \
        'rank 1: its teacher is not that of rank 0: .*; give all ranks the same train.teacher' \
        "$train --from model --set train.distil=both --set train.teacher=teacher"
    with labelled.tsv other/labelled.tsv differs 'rank 1: a checksum of some rows of data.train is not that of rank 0' \
        'exec "$0" train ../../classes.ini --data labelled.tsv --threads 1 -o unequal'

    # ---- Another model ----
    for command in 'score model lines.txt -o unequal.csv' 'encode model lines.txt -o unequal.npy' 'eval model --data text.txt' \
        'generate model --prompts prompts.txt --tokens 3'; do
        with model second/best.safetensors differs \
            'rank 1: its model is not that of rank 0: .*; give all machines the same model file' "exec \"\$0\" $command"
        silent
    done
    with classes classes-2/last.safetensors differs 'rank 1: its model is not that of rank 0' \
        'exec "$0" classify classes lines.txt -o unequal.csv'

    case $libraries in " $library"*) ;; *) continue ;; esac # one library is enough for the rest
    # ---- Other data ----
    for command in 'score model' 'encode model -o unequal.npy' 'classify classes -o unequal.csv'; do
        with lines.txt other/lines.txt differs 'rank 1 reads other sequences than rank 0; give all machines the same files' \
            "exec \"\$0\" $command lines.txt"
    done
    for other in text shorter; do
        with text.txt other/$other.txt differs \
            'rank 1: .* of the evaluated data is not that of rank 0: .*; give all machines the same files' \
            'exec "$0" eval model --data text.txt'
    done
    for file in prompts.txt state; do
        with $file other/$file differs 'rank 1: the checksum of --(prompts|load-state) is not that of rank 0' \
            'exec "$0" generate model --prompts prompts.txt --tokens 3 --load-state state'
        silent
    done

    # ---- A model that one rank lacks ----
    mkdir -p other/empty
    with run other/empty differs 'rank 1: the folder run has no model: neither best.safetensors nor last.safetensors' \
        'exec "$0" score run lines.txt -o unequal.csv'

    # ---- table ----
    table='exec "$0" table systems.ini --set model.layers=1 --set model.width=16 --set model.heads=2 --set model.ff=32
        --set train.length=32 --set train.report=off --set train.batch=4 --set data.train=text.txt --set data.valid=valid.txt
        --set data.test=test.txt --budget 10steps --seeds 1 -o'
    table=$(echo "$table" | tr '\n' ' ')
    with text.txt other/text.txt differs 'rank 1: a checksum of some rows of data.train' "$table unequal"
    with test.txt other/text.txt differs 'rank 1: .* of the evaluated data is not that of rank 0' "$table ../../runs-$library"
    t 0 sh -c "cd unlike/0; $table done-$library" "$longline"
    differs 'rank 1: a checksum of its systems and finished runs is not that of rank 0: .*; give all ranks the same table' \
        "$table done-$library"
done
