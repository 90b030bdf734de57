# Embeddings of sequences, on standard output and in files that are whole or absent.
small_text
# shellcheck disable=SC2086
t 0 "$longline" train "$root/recipes/text-bytes.ini" --data text.txt --out run $small --set model.layers=2
model=run/best.safetensors
head -n 40 text.txt | awk '{print substr($0 $0 $0, 1, 1 + (NR * 11) % 50)}' >lines

t 0 "$longline" encode $model lines
cp out csv
out "^id,e0,e1,.*,e31$"
check "a row for every sequence" test "$(wc -l <out)" -eq 41
check "33 columns" test "$(awk -F, 'NF != 33' out | wc -l)" -eq 0
t 0 "$longline" encode $model lines --window 1 --threads 1
check "alone and in batches: the same" cmp out csv
t 0 "$longline" encode $model lines --layer 2
check "the last layer is the default" cmp out csv
t 0 "$longline" encode $model lines --layer 1
check "another layer is another" sh -c "! cmp -s out csv"
t 0 "$longline" encode $model lines -o vectors.csv
silent
check "a file has the same content" cmp vectors.csv csv
t 0 "$longline" encode $model lines --pool all
out "^id,position,e0,"
check "a row for every token" test "$(wc -l <out)" -eq $(($(tr -d '\n' <lines | wc -c) + 1))
awk -F, 'NR > 1 {if ($1 != id) {id = $1; n = 0} for (c = 3; c <= NF; c++) {if (!n) s[c] = 0; s[c] += $c}
    n++; row = id; for (c = 3; c <= NF; c++) row = row "," s[c] / n; mean[id] = row}
    END {for (i = 1; i <= 40; i++) print mean[i]}' out >means
tail -n +2 csv | paste -d, means - | awk -F, '{for (c = 2; c <= 33; c++) {d = $c - $(c + 33); if (d * d > 1e-9) exit 1}}'
check "means are the means of all tokens" test $? -eq 0
awk -F, 'NR > 1 {last[$1] = $3} END {for (i = 1; i <= 40; i++) print last[i]}' out >lasts
t 0 "$longline" encode $model lines --pool last
tail -n +2 out | cut -d, -f 2 | cmp - lasts
check "--pool last is the last token's vector" test $? -eq 0
t 0 "$longline" encode $model lines --pool first --json
out '^\{"id":"40","tokens":[0-9]+,"embedding":\[[-0-9.e,]+\]\}$'
t 0 "$longline" encode $model lines --pool all --json
out '^\{"id":"1","tokens":12,"embeddings":\[\[[-0-9.e,]+\],.*\]\]\}$'

t 0 "$longline" encode $model lines -o vectors.npy
check "npy: a head and 40 x 32 floats" test "$(wc -c <vectors.npy)" -eq $((128 + 40 * 32 * 4))
check "the head of the npy file has the shape" grep -q "'shape': (40, 32)" vectors.npy
t 0 "$longline" encode $model lines --pool all -o vectors.safetensors
check "safetensors: rows of every sequence" grep -q '"rows":{"dtype":"I32","shape":\[40\]' vectors.safetensors
check "nothing is left beside them" test -z "$(find . -name '*.tmp-*' -o -name '*.part*')"

# Wrong input leaves no new file, and keeps an old one.
printf '{"text": "a"}\n{"txt": "a"}\n' >wrong
t 2 "$longline" encode $model wrong -o new.npy
err "wrong: line 2: "
check "no unfinished file" test ! -e new.npy
cp vectors.npy old.npy
t 2 "$longline" encode $model wrong -o old.npy
check "the old file stays" cmp old.npy vectors.npy
check "no file is left" test -z "$(find . -name '*.tmp-*' -o -name '*.part*')"
printf 'line\n\nline\n' >gap
t 0 "$longline" encode $model gap -o gap.npy
err "1 sequence has no tokens: the vector is zeros"
refused "must end with .safetensors, .npy or .csv" "$longline" encode $model lines -o vectors.txt
refused "must end with .* --json writes to standard output" "$longline" encode nowhere lines -o vectors.jsonl
refused "\-\-layer: there is no layer 3: the model has 2" "$longline" encode $model lines --layer 3
refused "needs mean, first, last or all" "$longline" encode $model lines --pool some
refused "missing" "$longline" encode $model missing -o new.npy
refused "no/where.npy: there is no folder no/" "$longline" encode $model lines -o no/where.npy

# Ctrl-C removes the unfinished file.
last="encode -o new.npy, interrupted"
mkfifo in
"$longline" encode $model in -o new.npy >out 2>err &
pid=$!
exec 9>in
echo something >&9
wait_until sh -c "find . -name 'new.npy.tmp-*' | grep -q ."
kill -INT $pid 2>/dev/null || true
kill -TERM $pid
echo more >&9
exec 9>&-
ended $pid
check "a signal ends it" test $? -eq 1
err "interrupted after [0-9]+ sequences"
check "no file is left" test -z "$(find . -name 'new.npy*')"

# Progress is reported within one long text and in an evaluation, and both can be stopped. The model has one layer, so
# the progress is that of parts of a layer.
# shellcheck disable=SC2086
t 0 "$longline" train "$root/recipes/text-bytes.ini" --data text.txt $small --out slow --set train.steps=1 --set model.layers=1
head -c 500000 /dev/zero >zeros
told "^0 sequences, [0-9.]+ [kB]+ of 500 kB, eta [0-9:]+$" "$longline" encode slow/best.safetensors zeros --whole \
    -o zeros.npy --threads 1 --cpu scalar
err "interrupted after 0 sequences"
check "no file is left" test $code -eq 1 -a ! -e zeros.npy
head -c 20000000 /dev/zero >zeros
told "^evaluated: [0-9]+ %, eta [0-9:]+$" "$longline" eval slow/best.safetensors --data zeros

# What a sequence as long as its file takes is named, with the remedy.
yes abcdefgh | head -c 100000000 >big.txt
last="encode --whole, with 250 MB"
(ulimit -v 250000; "$longline" encode $model big.txt --whole --threads 1 >out 2>err)
check "exit code 1" test $? -eq 1
err "big.txt: no memory for [0-9]+ bytes.*; to use the first tokens of each sequence alone, give --length N$"
head -c 30000000 big.txt >long.txt
(ulimit -v 1500000; "$longline" encode $model long.txt --whole --threads 1 >out 2>err)
check "exit code 1" test $? -eq 1
err "long.txt: no memory for [0-9]+ bytes.*; to use the first tokens of each sequence alone, give --length N$"
