# Data sets are listed, generated, checked, and fetched from a server in this script, if Python is installed.
t 0 "$longline" data list
out "^mnist$"
out "sha256 440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"
t 0 "$longline" data make listops --out lists.tsv --count 20 --size 100 --seed 3
out "^data.made=lists.tsv$"
check "20 and a line of names" test "$(wc -l <lists.tsv)" -eq 21
t 0 "$longline" data make listops --out again.tsv --count 20 --size 100 --seed 3
check "the same seed, the same expressions" cmp lists.tsv again.tsv
t 0 "$longline" data make pathfinder --out pf --count 12 --size 64
check "images of 64 x 64" test "$(wc -c <pf/images-idx3-ubyte)" -eq $((16 + 12 * 4096))
t 0 "$longline" train "$root/recipes/lra/pathfinder.ini" --out run --set data.resize=16 --set train.length=256 \
    --data pf/images-idx3-ubyte --set train.steps=2 \
    --set train.batch=4 --set train.warmup=1
t 0 "$longline" train "$root/recipes/lra/listops.ini" --data lists.tsv --set data.valid=again.tsv --set data.test= --out lists \
    --set train.length=100 --set train.batch=4 --set train.steps=2 --set train.warmup=1 --set model.width=16
loss=$(value train.valid_loss)
# What takes longer than two seconds reports its progress, and leaves no file if it is stopped.
# An escape in a name does not reach the terminal.
told "^many\?\[1m.tsv: [0-9]+ of 2000000000, eta [0-9:?]+$" "$longline" data make listops --count 2000000000 \
    --out "$(printf 'many\033[1m.tsv')"
check "SIGTERM ends the drawing with exit code 1" test $code -eq 1
err "stopped on request"
check "no file was left" test -z "$(find . -name 'many*')"
refused "16, 32, 64, 128 and 256" "$longline" data make pathfinder --out w --size 48
t 0 "$longline" data make pathfinder-6 --out easy --count 12
check "other paths, as many images" test "$(wc -c <easy/images-idx3-ubyte)" -eq $((16 + 12 * 1024))
t 0 "$longline" data make pathfinder-1 --out first --count 12 --size 16
check "images of 16 x 16" test "$(wc -c <first/images-idx3-ubyte)" -eq $((16 + 12 * 256))
t 0 "$longline" data make pathfinder-6-0 --out alone --count 12
t 0 "$longline" data make pathfinder-6-10 --out among --count 12
check "as many distractors as usual" cmp among/images-idx3-ubyte easy/images-idx3-ubyte
check "fewer bright pixels without them" test "$(tr -d '\0' <alone/images-idx3-ubyte | wc -c)" -lt \
    "$(tr -d '\0' <easy/images-idx3-ubyte | wc -c)"
refused "2000 of 2, cannot be drawn" "$longline" data make pathfinder-6-2000 --out w
refused "2000 of 2, cannot be drawn" "$longline" data make pathfinder-6-2000 --out deep/er/w
check "no folder is left" test ! -e w -a ! -e deep
mkdir mine
refused "2000 of 2, cannot be drawn" "$longline" data make pathfinder-6-2000 --out mine
check "one that was there stays" rmdir mine
refused "there are 1 to 14" "$longline" data make pathfinder-15 --out w
for name in x ' 6' 6- 6-x 6--1 6-3-2 -4294967290; do
    refused "pathfinder-1 to -14" "$longline" data make "pathfinder-$name" --out w
done
refused "listops, pathfinder .or pathfinder-1 to -14, -6-3 with 3 distractors. and music" "$longline" data make nothing --out w
refused "listops of size 5; .*--size, which is 6 at least" "$longline" data make listops --out l --size 5
t 0 "$longline" data make listops --out folder/of/lists.tsv --count 2 --size 100
check "folders are made for it" test -s folder/of/lists.tsv
refused "listops of size 5" "$longline" data make listops --out another/folder/l.tsv --size 5
check "none is made where the size is refused" test ! -e another
refused "a part of this path is a file" "$longline" data make listops --out lists.tsv/more/l.tsv --count 2
refused "needs --out" "$longline" data make listops
refused "--from file:///here: needs an address that begins with http:// or https://" \
    "$longline" data get mnist --from file:///here --out w
check "nothing was begun" test ! -e w
refused "did you mean 'verify'" "$longline" data verfy mnist
refused "--order is for ngrams; make does not take it" "$longline" data make listops --out w --order 3
refused "--out is for make, verify and get; ngrams does not take it" "$longline" data ngrams none.ini -o w
refused "--count is for make; get does not take it" "$longline" data get mnist --count 3
refused "--count is for make; list does not take it" "$longline" data list --count 10000
refused "--from is for get; verify does not take it" "$longline" data verify mnist --from http://127.0.0.1:1
refused "--split is for ngrams; list does not take it" "$longline" data list --split test
refused "--out is the folder of a data set, and 'abc' is none" "$longline" data verify abc --out w
refused "there is no action 'mak'; did you mean 'make'" "$longline" data mak --order 3
refused "needs the name" "$longline" data get
refused "no data set 'nothing'" "$longline" data get nothing
refused "no data set 'mnsit' to get; did you mean 'mnist'" "$longline" data get mnsit
: >file
refused "--out file: it is a file; name a folder" "$longline" data get mnist --out file --from http://127.0.0.1:1
refused "--out file/deep: a part of this path is a file" "$longline" data make music --out file/deep
refused "data.train: cannot open data/mnist/.*; longline data get mnist fetches it" "$longline" train "$root/recipes/mnist.ini"
refused "data make listops draws it" "$longline" train "$root/recipes/lra/listops.ini"
refused "data get wikitext-2 fetches it" "$longline" train "$root/recipes/wikitext-words.ini"
refused "cannot open nowhere: No such file or directory$" "$longline" train "$root/recipes/mnist.ini" --data nowhere
gzip lists.tsv
t 0 "$longline" train "$root/recipes/lra/listops.ini" --data lists.tsv --set data.valid=again.tsv.xz --set data.test= --out packed \
    --set train.length=100 --set train.batch=4 --set train.steps=2 --set train.warmup=1 --set model.width=16
check "a compressed file is found, too" test "$loss" = "$(value train.valid_loss)"
printf abc >abc
t 0 "$longline" data verify abc
out "^ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad +3 abc$"
refused "missing" "$longline" data verify missing
# A file without blocks on the disk: its checksum takes seconds.
mkdir sparse
if truncate -s 8G sparse/lra_release.gz 2>err; then
    told "^reading sparse/lra_release.gz: [0-9]+ %, eta [0-9:]+$" "$longline" data verify sparse/lra_release.gz
    told "^reading sparse/lra_release.gz: [0-9]+ %, eta [0-9:]+$" "$longline" data get lra --out sparse
else skip "long checksums: no files of 8 GB here"; fi
rm -r sparse
t 2 "$longline" data verify mnist --out missing
mkdir wrong && printf abc >wrong/lra_release.gz && printf abc >wrong/train-images-idx3-ubyte.gz
t 0 "$longline" data verify lra --out wrong
t 1 "$longline" data verify wrong/train-images-idx3-ubyte.gz
out " WRONG$"
t 1 "$longline" data verify mnist --out wrong
err "not have the published checksum"
t 1 "$longline" data get lra --out got --from http://127.0.0.1:1
err "check the network|without libcurl"
check "nothing has the file's name" test ! -e got/lra_release.gz
check "no empty folder is left" test ! -e got
t 1 "$longline" data get mnist --from http://127.0.0.1:1
check "nor is one without --out" test ! -e data
mkdir got
t 1 "$longline" data get lra --out got --from http://127.0.0.1:1
check "one that was there stays" rmdir got
if command -v python3 >/dev/null && ! grep -q "without libcurl" err; then
    serve_files wrong
    t 1 "$longline" data get lra --out got --from "$address"
    out "^data.file=got/lra_release.gz$"
    err "cannot unpack got/lra_release.gz"
    check "it is the server's file" cmp got/lra_release.gz wrong/lra_release.gz
    rm -r got
    mkdir -p lra/lra/train/neg lra/lra/train/pos && printf bad >lra/lra/train/neg/0.txt && printf fine >lra/lra/train/pos/1.txt
    tar czf wrong/lra_release.gz lra
    t 0 "$longline" data get lra --out got --from "$address"
    if grep -q "without libarchive" err; then
        err "strip-components=2"
        skip "archives: built without libarchive"
    else
        out "^data.folder=got$"
        check "files lie where recipes look for them" diff -r lra/lra/train got/train
        printf worse >got/train/neg/0.txt
        t 0 "$longline" data get lra --out got --from "$address"
        err "is there already"
        check "a file of another size is unpacked again" diff -r lra/lra/train got/train
        python3 -c '
import io, tarfile, zipfile
with zipfile.ZipFile("z", "w") as z:
    z.writestr("lra/lra/test/pos/2.txt", "zip")
with tarfile.open("up", "w:gz") as t:
    member = tarfile.TarInfo("lra/lra/../../out"); member.size = 3
    t.addfile(member, io.BytesIO(b"abc"))'
        for link in -s ''; do
            rm -f lra/lra/train/pos/2.txt
            ln $link lra/lra/train/neg/0.txt lra/lra/train/pos/2.txt
            tar czf got/lra_release.gz lra/lra/train/neg lra/lra/train/pos
            t 1 "$longline" data get lra --out got
            err "cannot unpack got/lra_release.gz: lra/lra/train/pos/2.txt is a link or a device"
        done
        rm lra/lra/train/pos/2.txt
        cp z got/lra_release.gz
        t 0 "$longline" data get lra --out got
        check "a zip is unpacked, too" grep -q "^zip$" got/test/pos/2.txt
        cp up got/lra_release.gz
        t 1 "$longline" data get lra --out got
        err "would lie outside of got"
        check "no file is outside of got" test ! -e out.part -a ! -e ../out
        head -c 100 wrong/lra_release.gz >got/lra_release.gz
        rm -r got/train
        t 1 "$longline" data get lra --out got
        err "cannot unpack got/lra_release.gz: .*fetch it again"
        check "no unfinished file" test -z "$(find got -name '*.part')"
    fi
    t 1 "$longline" data get mnist --out got --from "$address/"
    err "checksum"
    check "a wrong file is not kept" test ! -e got/train-images-idx3-ubyte.gz
    t 1 "$longline" data get protein --out got --from "$address/"
    err "404"
    kill $server
    wait $server 2>/dev/null || :
    rm -f port
    python3 -c '
import socket
server = socket.create_server(("127.0.0.1", 0))
open("port", "w").write(str(server.getsockname()[1]) + "\n")
connection = server.accept()[0]
open("asked", "w").close()
while connection.recv(4096): pass' &
    server=$!
    wait_until test -s port
    last="data get, SIGTERM before an answer"
    "$longline" data get mnist --out stopped --from "http://127.0.0.1:$(cat port)" >out 2>err </dev/null &
    pid=$!
    wait_until test -e asked
    kill -TERM $pid
    ended $pid
    check "a signal ends the download with exit code 1" test $code -eq 1
    err "stopping; again stops at once$"
    check "it leaves no empty folder" test ! -e stopped
    wait $server
else skip "downloads: no python3 here, or built without libcurl"; fi

t 0 "$longline" data make music --out songs --count 3 --size 1
refused "songs has more than 2 pieces already" "$longline" data make music --out songs --count 2 --size 1
t 0 "$longline" data make music --out songs --count 4 --size 1
mkfifo pipe
refused "data.train: pipe is a pipe or a device" "$longline" train "$root/recipes/text-bytes.ini" --data pipe --out w
refused "data.train: pipe is a pipe or a device" "$longline" train "$root/recipes/text-bytes.ini" --data songs:pipe --out w
refused "data.docs: pipe is a pipe or a device" "$longline" train "$root/recipes/lra/retrieval.ini" --data letters \
    --set data.docs=pipe --set data.valid= --set data.test= --out w

# Held-out files that are trained on are told, by whatever name.
mkdir both
cp "$root/README.md" both/a.txt
cp "$root/CHANGELOG.md" both/valid.txt
small() {
    "$longline" train "$root/recipes/text-bytes.ini" --set data.train=both --set train.steps=1 --set model.width=16 \
        --set model.layers=1 --set train.length=32 --set data.test= "$@"
}
t 0 small --set data.valid=both/../both/valid.txt --out w1
err "^longline train: no held-out data: both/../both/valid.txt is in data.train, too"
cp both/valid.txt apart.txt
t 0 small --set data.valid=apart.txt --out w2
not_err "held-out"
t 0 small --set data.valid=apart.txt --set data.test=both/a.txt --out w3
err "^longline train: no held-out data: both/a.txt is in data.train, too, so that the test loss"
gzip both/valid.txt
t 0 small --set data.valid=both/valid.txt --out w4
err "^longline train: no held-out data: both/valid.txt is in data.train, too, so that the held-out loss"

# N-grams: of a text in which each letter decides the next, pairs know all but the first; of one of chance, nothing does.
for i in $(seq 400); do printf abcdefgh; done >letters
t 0 "$longline" data ngrams "$root/recipes/text-bytes.ini" --order 2 --set data.train=letters --set data.valid-fraction=0.3 \
    --set train.length=64
out "^ngrams.order=2$"
out "^ngrams.split=valid$"
out "^ngrams.count=9[0-9][0-9]$"
out "^ngrams.perplexity=1.0"
t 0 "$longline" data ngrams "$root/recipes/text-bytes.ini" --order 1 --set data.train=letters --set data.valid-fraction=0.3 \
    --set train.length=64
out "^ngrams.perplexity=8.0"
refused "ngrams needs a recipe" "$longline" data ngrams
refused "nothing.ini" "$longline" data ngrams nothing.ini
refused "they need a recipe with model.task=lm" "$longline" data ngrams "$root/recipes/lra/text.ini"
refused "needs valid or test" "$longline" data ngrams "$root/recipes/text-bytes.ini" --split train
refused "cannot open nowhere" "$longline" data ngrams "$root/recipes/text-bytes.ini" --set data.train=nowhere
refused "order" "$longline" data ngrams "$root/recipes/text-bytes.ini" --order 17
refused "did you mean 'ngrams'" "$longline" data ngram "$root/recipes/text-bytes.ini"
