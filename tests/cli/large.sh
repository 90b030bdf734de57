# Inputs larger than memory: none of them takes more than a small file does. Plain files are mapped; what is unpacked,
# joined or computed from them is in a temporary file.
text=$root/recipes/text-bytes.ini
small_text
step="$small --set train.batch=8 --set train.steps=8 --set train.eval-every=4 --set train.checkpoint-every=4
 --set train.eval-batches=2 --set train.schedule=constant --set data.valid-fraction=0.001 --threads 1"
mkdir temporary
export TMPDIR=$PWD/temporary
# enlarge FILE BYTES: a file again and again, until it has so many bytes.
enlarge() {
    while [ "$(wc -c <"$1")" -lt $(($2 / 16)) ]; do
        cat "$1" "$1" >double.tmp
        mv double.tmp "$1"
    done
    # shellcheck disable=SC2046
    cat $(yes "$1" | head -n $(($2 / $(wc -c <"$1") + 1))) >large.tmp
    mv large.tmp "$1"
}
# many FOLDER NAME N: hard links to a file.
many() {
    mkdir -p "$1"
    i=0
    while [ $i -lt "$3" ]; do
        ln "$2" "$1/$i${2#file}"
        i=$((i + 1))
    done
}
# measured COMMAND...: runs it; file `peak` has the MiB that it took at most.
measured() {
    python3 -c 'import resource, subprocess, sys
code = subprocess.call(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024, file=open("peak", "w"))
sys.exit(code)' "$@"
}
# within MIB NAME COMMAND...: it takes no more.
within() {
    most=$1 name=$2
    shift 2
    t 0 measured "$@"
    check "$name: $(cat peak) MiB" [ "$(cat peak)" -lt "$most" ]
}
# trained MIB NAME KEYS...: trains on what `data` names.
trained() {
    most=$1 name=$2
    shift 2
    rm -rf run
    within $most "$name" "$longline" train "$text" --data $data $step --set model.vocab=0 --set position.decay=none \
        --set data.min-count=1 "$@" -o run
}

# ---- Files of 130 MB, mapped ----
size=130000000
awk 'BEGIN {for (i = 0; i < 9000; i++) printf ">s%d\nMKVLAACDEFGHIKLMNPQRSTVWY\nLLIVE\n", i}' >fasta
awk 'BEGIN {for (i = 0; i < 9000; i++) printf "%d\tthe text of row %d\n", i % 2, i}' >labelled
awk 'BEGIN {for (i = 0; i < 9000; i++) printf "the words of line %d are read\n", i % 90}' >words
awk 'BEGIN {for (i = 0; i < 9000; i++) printf "source %d\ttarget %d\n", i, i}' >pairs
awk 'BEGIN {for (i = 0; i < 9000; i++) printf "%d\ta\tb\tfirst text %d\tsecond %d\n", i % 2, i, i}' >retrieval
awk 'BEGIN {for (i = 0; i < 9000; i++) printf "[MAX 1 %d 0 ]\t%d\n", i % 9, i % 9 ? i % 9 : 1}' >listops
for format in fasta:lm labelled:classify words:lm pairs:seq2seq retrieval:match listops:classify; do
    data=${format%:*}
    enlarge $data $size
    trained 130 "130 MB of $data" --set data.format=$data --set model.task=${format#*:}
    rm $data
done

# ---- Unpacked, joined, computed ----
awk 'BEGIN {for (i = 0; i < 30000; i++) printf "the words of line %d are read\n", i % 90}' >file.txt
enlarge file.txt 1000000
yes "some text of many lines" | head -c $size | gzip -1 >packed.gz
data=packed.gz
trained 130 "130 MB of text, packed" --set data.format=bytes
(ulimit -f 40000 && "$longline" train "$text" --data $data $step -o full >out 2>err </dev/null)
check "a full disk for the temporary file" [ $? -eq 1 ]
err "data.train: packed.gz is large, and its temporary file in $TMPDIR cannot be written: File too large; set TMPDIR to"
rm packed.gz
many texts file.txt 130
data=texts
trained 130 "a folder of texts" --set data.format=bytes
trained 130 "a folder of words" --set data.format=words
mkdir films
mv texts films/pos
many films/neg file.txt 10
data=films
trained 130 "a folder for each class" --set data.format=labelled --set model.task=classify \
    --set data.valid-fraction=0.1
rm -r films

# A tokenizer of bytes: four bytes for each of 30 million tokens.
awk 'BEGIN {
    printf "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},\"decoder\":{\"type\":\"ByteLevel\"},"
    printf "\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{"
    for (b = next_one = 0; b < 256; b++) {
        seen = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174
        printf "%s\"\\u%04x\":%d", b ? "," : "", seen ? b : 256 + next_one++, b
    }
    print "}}}"
}' >tokenizer.json
data=file.txt
enlarge file.txt 30000000
trained 230 "30 million tokens" --set data.format=subwords --set data.tokenizer=tokenizer.json
rm file.txt

awk 'BEGIN {
    print "Piece Bar Meter_4/4"
    for (i = 0; i < 200000; i++) printf "Position_%d Pitch_%d Duration_4\n", 1 + i % 16, 50 + i % 20
}' >file.txt
many music file.txt 30
data=music
trained 230 "18 million tokens of music" --set data.format=midi --set data.valid-fraction=0.1
rm -r music

# 130,000 images of CIFAR-10's binary version, all black.
head -c 3073 /dev/zero >file.bin
enlarge file.bin 400000000
rm -rf run
images="$root/recipes/fashion-mnist.ini --set data.test= --set model.layers=1 --set model.width=16 --set model.heads=2
 --set model.ff=16 --set train.batch=1 --set train.steps=2 --set train.eval-batches=1 --set train.length=0
 --set train.report=off --threads 1"
within 220 "400 MB of images" "$longline" train $images --data file.bin --set data.format=cifar10 \
    --set model.classes=10 -o run
rm file.bin
check "no temporary file is left" [ -z "$(ls temporary)" ]

# ---- Files of 100 GB, of which little is read ----
if truncate -s 100G huge.txt 2>/dev/null; then
    data=huge.txt
    trained 200 "100 GB of text" --set data.format=bytes --set data.valid-fraction=0.5
    rm huge.txt
    # A FASTA file is read once for each split: 512 MB here, 100 GB and minutes with LL_LARGE=1. Four proteins, and between
    # them a comment of zeros.
    size=512M
    [ -z "${LL_LARGE:-}" ] || size=100G
    printf '>a\nMKVLAACDEFGHIKLM\n>b\nACDEFGHIKLMNPQRS\n;' >huge.fasta
    truncate -s $size huge.fasta
    printf '\n>c\nMKVLAACDEFGHIKLM\n>d\nACDEFGHIKLMNPQRS\n' >>huge.fasta
    data=huge.fasta
    trained 200 "$size of FASTA" --set data.format=fasta --set data.valid-fraction=0.5 --set train.batch=1 \
        --set train.steps=1 --set train.eval-batches=1
    rm huge.fasta
    # Ten million images of 100 x 100, all black.
    printf '\0\0\10\3\0\230\226\200\0\0\0\144\0\0\0\144' >images
    printf '\0\0\10\1\0\230\226\200' >labels
    truncate -s 100000000016 images
    truncate -s 10000008 labels
    rm -rf run
    within 200 "100 GB of images" "$longline" train $images --data images --set data.train-labels=labels -o run
    rm images
else
    skip "files of 100 GB: no sparse files here"
fi

# ---- A mapped file that another program shortens ends the run with its name, not with a signal ----
head -c 70000000 /dev/zero >shrinking.txt
rm -f err
# shellcheck disable=SC2086
"$longline" train "$text" --data shrinking.txt $step --set train.steps=1000000 --out shrunk >out 2>err </dev/null &
pid=$!
wait_until grep -qs "^step [1-9]" err
: >shrinking.txt
last="a file that is truncated while a run reads it"
ended $pid
check "exit code 1" test $? -eq 1
err "^longline train: /.*/shrinking.txt became shorter while it was read, or its disk failed; restore it; .*--resume 'shrunk'$"
head -c 70000000 /dev/zero >shrinking.txt
reached=$(sed -n "s/.*go on from step \([0-9]*\) .*/\1/p" err)
t 0 "$longline" train --resume shrunk --set train.steps=$((reached + 1))
rm shrinking.txt
# ---- Pages and evaluation: no more than training ----
yes "some text of many lines" | head -c 1000000 >data
long="$step --set train.steps=2 --set train.batch=1 --set train.length=60000 --set train.eval-every=0 --set train.report=on
 --set data.valid-fraction=0.5"
# shellcheck disable=SC2086
t 0 "$longline" train "$text" --data data $long --memory
announced=$(($(value memory.total) / 1048576))
# shellcheck disable=SC2086
within $((announced + 25)) "a run with its page, announced with $announced MiB" "$longline" train "$text" --data data $long -o page
check "the page has longer texts than training" grep -q '^[0-9]\{6\}[.]' page/figures/loss-by-position.csv
# shellcheck disable=SC2086
within 60 "evaluation of large batches" "$longline" eval page --set train.length=2000 --set train.batch=200 --batches 1 --threads 1
