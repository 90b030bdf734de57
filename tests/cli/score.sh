# Log-probabilities of sequences: lines, JSONL, FASTA, whole files; in order, batched or alone, short or long.
small_text
# shellcheck disable=SC2086
t 0 "$longline" train "$root/recipes/text-bytes.ini" --data text.txt --out run $small
model=run/best.safetensors
head -c 6000 text.txt | awk '{n = (NR * 7) % 5; s = ""; for (i = 0; i <= n; i++) s = s $0; print s}' >lines

t 0 "$longline" score $model lines
cp out together
out "^id	tokens	logp	bits_per_byte	perplexity$"
err "[0-9]+ sequences, [0-9]+ tokens scored, [0-9.]+ bits a byte, perplexity [0-9.]+"
cut -f 1 out | tail -n +2 >ids
seq "$(wc -l <lines)" >numbers
check "results are in the order of the input" cmp ids numbers
awk 'NR > 1 {d = $2; if (d < 1 || $3 >= 0) exit 1; b = -$3 / d / log(2) - $4; p = exp(-$3 / d) / $5 - 1;
    if (b * b > 1e-10 || p * p > 1e-8) exit 1}' out
check "bits and perplexity follow from the log-probability" test $? -eq 0
awk '{print length($0) - 1}' lines >lengths
tail -n +2 out | cut -f 2 | cmp - lengths
check "all bytes but the first are scored" test $? -eq 0
t 0 "$longline" score $model lines --window 1 --threads 1
check "alone and in batches: the same" cmp out together
t 0 "$longline" score $model lines --window 7 --threads 2
check "other batches give the same" cmp out together
if gzip -k lines; then
    t 0 "$longline" score $model lines.gz
    check "gzip makes no difference" cmp out together
    mkdir packed && cp lines.gz packed
    t 0 "$longline" score $model packed/lines
    check "a file that is there packed alone is found" cmp out together
fi
last="score <lines"
"$longline" score $model <lines >out 2>err
check "standard input" cmp out together
"$longline" score $model - <lines >out 2>err
check "standard input by name" cmp out together

# Files without a sequence are named.
: >none
cp none none-too
head -n 1 lines >one
t 0 "$longline" score $model none one none-too one one none-too
check "the others have their rows" test "$(wc -l <out)" -eq 4
check "each file is named once" [ "$(sed -n 's/.*score: \(.*\): there is no sequence in it/\1/p' err | paste -sd ' ')" = \
    "none none-too none-too" ]
"$longline" score $model - one <one >out 2>err
check "standard input and a file have their rows" test "$(wc -l <out)" -eq 3
not_err "there is no sequence"
t 0 "$longline" score $model -
err "^longline score: standard input: there is no sequence in it$"

# The result of one line comes before the next line is written.
last="score --window 1, line by line"
mkfifo in
"$longline" score $model in --window 1 >out 2>err &
pid=$!
exec 9>in
echo first >&9
wait_until sh -c '[ "$(wc -l <out)" -ge 2 ]'
check "an answer comes before the input ends" test "$(wc -l <out)" -eq 2
exec 9>&-
ended $pid
check "it ends well" test $? -eq 0

# Results for every token, and the tokens around a sequence.
printf 'abc\n\nd\n' >three
t 0 "$longline" score $model three --per-token
out "^id	position	token	logp$"
out "^1	0	97	nan$"
out "^1	2	99	-[0-9.]+$"
out "^3	0	100	nan$"
check "a line for every token" test "$(wc -l <out)" -eq 5
t 0 "$longline" score $model three
out "^2	0	0.000000	nan	nan$"
t 0 "$longline" score $model three --before x --after yz
out "^1	5	-"
out "^2	2	-"
t 0 "$longline" score $model three --before x --per-token
out "^1	0	97	-[0-9.]+$"
sum=$(awk '$1 == 1 {s += $4} END {printf "%.4f", s}' out)
printf 'xabc\n' >four
t 0 "$longline" score $model four
check "tokens in front are not scored" test "$(awk 'NR > 1 {printf "%.4f", $3}' out)" = "$sum"
t 0 "$longline" score $model three --length 2
out "^1	1	-"

# JSON in and out.
printf '{"id": "a\\tb", "text": "abc", "other": "abd"}\n\n{"id": 7, "sequence": "\\u00e4"}\n' >jsonl
t 0 "$longline" score $model jsonl
out "^a b	2	-"
out "^7	1	-"
t 0 "$longline" score $model jsonl --json --per-token
out '^\{"id":"a\\u0009b","token_logp":\[null,-[0-9.]+,-[0-9.]+\],"tokens":2,"logp":-[0-9.]+,"bits_per_byte":[0-9.]+,"perplexity":[0-9.]+\}$'
if command -v python3 >/dev/null; then
    check "it is JSON" python3 -c 'import json; [json.loads(l) for l in open("out")]'
else skip "is it JSON: no python3 here"; fi
head -n 1 jsonl >first
t 0 "$longline" score $model first --text-key other --id-key text
out "^abc	2	-"
echo line >keyless
for key in text-key id-key; do
    refused "$key is for JSONL" "$longline" score $model first --$key other --format lines
    refused "$key is for JSONL" "$longline" score $model first --$key other --whole
done
refused "keyless is not JSONL, and only JSONL has texts under a key .\"other\"" "$longline" score $model keyless --text-key other
refused "keyless is not JSONL, and only JSONL has names under a key .\"other\"" "$longline" score $model keyless --id-key other
printf '>p1 of something\nabc\nd-*\n>p2\nMK\n' >fasta
t 0 "$longline" score $model fasta
out "^p1	3	-"
out "^p2	1	-"
t 0 "$longline" score $model fasta three
out "^p2	1	-"
out "^three:3	0	"
t 0 "$longline" score $model fasta --format lines
out "^1	15	-"

# A long sequence is scored by a stream: the same numbers, in memory that does not grow.
t 0 "$longline" score $model text.txt --whole
logp=$(awk 'NR > 1 {print $3}' out)
out "^text.txt	$(($(wc -c <text.txt) - 1))	-"
t 0 "$longline" eval $model --data text.txt --set train.length=13038 --set train.batch=1
check "eval gives the same" test "$(awk -v a="$logp" -v b="$(value eval.loss)" -v n="$(value eval.count)" \
    'BEGIN {d = a / n + b; print (d < 2e-6 && d > -2e-6)}')" = 1
t 0 "$longline" score $model text.txt --whole --per-token
check "every byte of a long text" test "$(wc -l <out)" -eq $(($(wc -c <text.txt) + 1))
awk -v all="$logp" 'NR > 1 {if ($2 != NR - 2) exit 1; if (NR > 2) s += $4} END {d = s - all; exit !(d < 0.02 && d > -0.02)}' out
check "they add up" test $? -eq 0
awk 'BEGIN {for (i = 0; i < 15000; i++) printf "0123456789"}' >digits
last="score digits --whole, with 80 MB"
(ulimit -v 80000; "$longline" score $model digits --whole --threads 1 >out 2>err)
check "150,000 tokens in less memory than their vectors take" test $? -eq 0
out "^digits	149999	-"
t 0 "$longline" score $model text.txt --whole --length 9000
out "^text.txt	8999	-"
t 0 "$longline" score $model three text.txt lines --before x
cut -f 1 out | sed -n '2p;5p' >some
printf 'three:1\ntext.txt:1\n' | cmp - some
check "long and short ones in order" test $? -eq 0

# The same by a C program.
if [ -x "$build/examples/score_file" ]; then
    t 0 "$build/examples/score_file" $model three lines
    out "^three:1: log-probability -[0-9.]+, least likely at [12]$"
    sed -n 's/^lines:.*probability \(-[0-9.]*\),.*/\1/p' out >examples
    t 0 "$longline" score $model lines
    awk 'NR > 1 {printf "%.2f\n", $3}' out | paste - examples |
        awk '{d = $1 - $2; if (d > 0.02 || d < -0.02) exit 1} END {if (NR < 10) exit 1}'
    check "a C program gives the same" test $? -eq 0
fi

# An error names file and line. Results of earlier lines are printed.
printf '{"text": "a"}\n{"text": 3}\n' >wrong
t 2 "$longline" score $model wrong
out "^1	0"
err "wrong: line 2: the object's \"text\" is not a string"
check "one message" test "$(wc -l <err)" -eq 1
printf '>a\nAC\n>b\nA1C\n' >wrong
t 2 "$longline" score $model wrong
err "wrong: line 4: byte 0x31"
refused "missing: No such file" "$longline" score $model lines missing
refused "no files|is a folder" "$longline" score $model run
for command in "score $model -" "generate $model --prompt-file -"; do
    refused "standard input is a folder; name files$" sh -c "'$longline' $command <."
done
refused "missing.safetensors" "$longline" score missing.safetensors lines
refused "needs lines, jsonl, fasta, idx, png or midi" "$longline" score $model lines --format csv
refused "not both" "$longline" score $model lines --format lines --whole
refused "not a longline model|not a safetensors" "$longline" score lines lines
if [ -e lines.gz ]; then
    head -c 300 lines.gz >cut.gz
    t 2 "$longline" score $model cut.gz
    err "cut.gz is truncated"
fi
# shellcheck disable=SC2086
t 0 "$longline" train "$root/recipes/text-bytes.ini" --data text.txt --out short $small --set position.type=learned \
    --set position.max-length=64
t 2 "$longline" score short/best.safetensors lines
err "lines: line [0-9]+: [0-9]+ tokens, but the model has learned positions for 64"
t 0 "$longline" score short/best.safetensors lines --length 64
if [ -w /dev/full ]; then
    last="score >/dev/full"
    "$longline" score $model lines >/dev/full 2>err
    check "a full disk is a failure" test $? -eq 1
fi

# ---- Into a file ----
t 0 "$longline" score $model lines
mv out scores
t 0 "$longline" score $model lines -o scores.tsv
silent
check "-o: the same bytes" cmp scores scores.tsv
t 0 "$longline" score $model lines -o scores.csv
check "-o FILE.csv: commas in place of tabs" [ "$(tr ',' '\t' <scores.csv)" = "$(cat scores)" ]
printf '{"id": "a,\\"b\\"", "text": "some text"}\n' >names.jsonl
t 0 "$longline" score $model names.jsonl -o names.csv
check "names with commas are quoted" grep -q '^"a,""b""",[0-9]' names.csv
printf '{"id": "a\\u009b31mb\\u00a0\\n", "text": "some text"}\n' >control.jsonl
t 0 "$longline" score $model control.jsonl
check "control characters are blanks" grep -q "^$(printf 'a 31mb\302\240 \t')" out
long=$(printf %0251d 0).csv
t 0 "$longline" score $model lines -o $long
check "a name may be as long as the disk allows" cmp scores.csv $long
rm -f $long
echo old >kept.csv
printf '{"text": "some text"}\nno json\n' >broken.jsonl
t 2 "$longline" score $model broken.jsonl -o kept.csv
check "a run that fails leaves the file as it was" [ "$(cat kept.csv)" = old ]
check "no other file is beside it" [ "$(ls | grep -c tmp-longline)" -eq 0 ]
chmod 600 kept.csv
t 0 "$longline" score $model lines -o kept.csv
check "a private file stays private" [ "$(stat -c %a kept.csv)" = 600 ]
echo old >kept.csv
if command -v strace >/dev/null && strace -o trace true 2>trace.err; then
    # Another program ends between the moment when the file is opened and the one when it is locked.
    strace -qq -o trace -e trace=flock -e inject=flock:delay_enter=3000000:when=1 \
        "$longline" score $model lines -o kept.csv 2>err &
    for _ in $(seq 200); do [ -e kept.csv.tmp-longline ] && break; sleep 0.02; done
    echo other >kept.csv.tmp-longline
    mv kept.csv.tmp-longline kept.csv
    check "two programs write one file one after the other" wait $!
    check "the file is whole" cmp kept.csv scores.csv
    check "nothing else is left" [ "$(ls | grep -c '\.tmp-')" -eq 0 ]
    # The second is that of the folder.
    t 1 strace -qq -o trace -e trace=fsync -e inject=fsync:error=EIO:when=2 "$longline" score $model lines -o kept.csv
    err "cannot write .*kept.csv: Input/output error"
    # A disk without locks: two programs that write one file do not mix their bytes.
    head -n 1 lines >first-line
    t 0 "$longline" score $model first-line -o first.csv
    # The first waits for its second line until the second program has ended.
    mkfifo slow
    exec 3<>slow
    head -n 1 lines >&3
    strace -f -qq -o trace -e trace=flock -e inject=flock:error=ENOLCK "$longline" score $model slow -o kept.csv 2>err-first 3>&- &
    first=$!
    wait_until sh -c "ls | grep -q 'kept\.csv\.tmp-'"
    t 0 strace -f -qq -o trace-2 -e trace=flock -e inject=flock:error=ENOLCK \
        "$longline" score $model first-line -o kept.csv
    check "the second is whole while the first writes" cmp kept.csv first.csv
    tail -n +2 lines >&3
    exec 3>&-
    check "the first ends, too" ended $first
    check "it is whole" cmp kept.csv scores.csv
    check "nothing is left beside it" [ "$(ls | grep -c 'kept.csv.tmp-')" -eq 0 ]
else skip "two programs that write one file: no strace here"; fi
mkfifo kept.csv.tmp-longline
t 0 timeout 60 "$longline" score $model lines -o kept.csv
check "what has the name of the unfinished file is in nobody's way" cmp kept.csv scores.csv
rm kept.csv.tmp-longline
ln -s behind.csv before.csv
t 0 "$longline" score $model lines -o before.csv
check "a link to a file that is not there yet stays one" [ -L before.csv ]
check "the file is made" cmp behind.csv scores.csv
chmod 444 behind.csv
t 0 "$longline" score $model lines -o before.csv
check "permissions stay" [ "$(stat -c %a behind.csv)" = 444 ]
refused '--out /dev/null: it is a pipe or a device; name a file' "$longline" score $model lines -o /dev/null
check "a device is not replaced" [ -c /dev/null ]
t 0 "$longline" score $model lines -o -
check "-o - is standard output" cmp out scores
check "no file is called -" test ! -e ./-
refused "--out w.csv: --json writes JSON; name a .jsonl file" "$longline" score $model lines -o w.csv --json
refused "--out w.jsonl: JSON needs --json; else name a .csv or .tsv file" "$longline" score $model lines -o w.jsonl
t 0 "$longline" score $model lines -o w.jsonl --json
check "JSON goes to the file" grep -q '^{"id"' w.jsonl
t 0 "$longline" encode $model lines --json -o -
out '^\{"id"'
refused "--out -: this does not go to standard output; name a file" "$longline" quantize $model -o -
refused "--out -: this does not go to standard output; name a folder" "$longline" data make music --out - --count 1
refused "--out -: this does not go to standard output; name a file" "$longline" data make listops --out - --count 1
refused "--labels nosuch: the labels of idx images are a file, and data.format = bytes has none; leave out --labels" \
    "$longline" eval $model --data lines --labels nosuch
refused "there is no folder absent/" "$longline" score $model lines -o absent/scores.csv
refused "--out lines: it would overwrite what is read" "$longline" score $model lines -o lines
refused "--out .*: it would overwrite the model" "$longline" score $model lines -o $model
refused "it would overwrite the model" "$longline" encode "$(dirname $model)" lines -o $model
for ending in csv.gz json.xz tsv.zst; do
    refused "answers are not packed; name a .csv or .tsv file" "$longline" score $model lines -o w.$ending
done
refused "answers are not packed; name a .jsonl file" "$longline" score $model lines -o w.jsonl.gz --json
refused "answers are text; name a .csv or .tsv file" "$longline" score $model lines -o w.npy
# No file of a run is overwritten, whichever of its models is read.
for name in last.safetensors back.safetensors recipe.ini metrics.csv; do
    refused "run/$name: it would overwrite a file of the run" "$longline" quantize run -o run/$name
done
refused "it would overwrite a file of the run" "$longline" score run lines -o run/last.safetensors
refused "run/metrics.csv: it would overwrite a file of the run" "$longline" score $model lines -o ./run/metrics.csv
ln -s run/last.safetensors link
refused "it would overwrite a file of the run" "$longline" generate run --prompt a --only-read --save-state link
t 0 "$longline" score run lines -o run/scores.csv
mkdir unfinished
refused "the folder unfinished has no model: neither best.safetensors nor last.safetensors" "$longline" score unfinished lines
