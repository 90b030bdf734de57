# Proteins: masked and causal models, several files, and wrong files.
awk 'BEGIN {for (i = 0; i < 60; i++) {print ">p" i " made up"; s = ""; for (j = 0; j < 30 + i; j++)
    s = s substr("ACDEFGHIKLMNPQRSTVWY", 1 + (i * j * j + j) % 20, 1); print s}}' >some.fasta
printf '>q\nMKVLAMKVLAMKVLA\n' | gzip >more.fasta.gz
tiny="--set model.layers=1 --set model.width=16 --set model.heads=2 --set model.ff=32 --set train.length=32
 --set train.batch=4 --set train.steps=20 --set train.warmup=2 --set train.eval-every=10 --set data.test=more.fasta.gz
 --set attention.num-features=16"
for recipe in "$root"/recipes/protein/*.ini; do
    # shellcheck disable=SC2086
    t 0 "$longline" train "$recipe" --data some.fasta:more.fasta.gz $tiny --out "run-$(basename "$recipe")"
    out "^train.valid_bits_per_residue=[0-9.]+$"
    out "^train.unigram_perplexity=[0-9.]+$"
    not_err "too low"
done
check "the page describes the model" grep -q "Masked language model" run-exact.ini/report.html
check "it shows its input with masks" grep -qE "[A-Z]{3,}_" run-exact.ini/report.html
t 0 "$longline" eval run-permuteformer.ini/best.safetensors --split test
out "^eval.perplexity=[0-9.]+$"
out "^eval.unigram_accuracy=[0-9.]+$"
cp out first
t 0 "$longline" eval run-permuteformer.ini/best.safetensors --split test --set train.batch=1 --set train.seed=7
check "an evaluation has one set of masks" test "$(value eval.accuracy)" = "$(value eval.accuracy first)"
refused "masked language model" "$longline" generate run-exact.ini/best.safetensors
# shellcheck disable=SC2086
t 0 "$longline" train "$root/recipes/protein/permuteformer.ini" --data some.fasta $tiny --out lm --set model.task=lm \
    --set position.decay=fixed --set data.joined=on
t 0 "$longline" score lm/best.safetensors some.fasta more.fasta.gz
out "^id	tokens	logp	bits_per_residue	perplexity$"
out "^p0	29	-[0-9.]+	"
out "^q	14	-[0-9.]+	"
printf 'mkvlamkvlamkvla\n' >lower
t 0 "$longline" score lm/best.safetensors lower --json
out '"id":"1","tokens":14,"logp":-'
check "small letters are large ones" test "$(sed 's/.*logp"*:\([^,]*\),.*/\1/' out)" = \
    "$("$longline" score lm/best.safetensors more.fasta.gz 2>err | awk 'NR == 2 {print $3}')"
t 0 "$longline" analyse matrices --model lm --text lower --length 9
cp out of-letters
t 0 "$longline" analyse matrices --model lm --text more.fasta.gz --length 9
check "matrices of a sequence in FASTA are those of its letters" cmp -s out of-letters
printf 'MKV1\n' >wrong
check "a file that is no protein is refused" sh -c "'$longline' score lm/best.safetensors wrong >out 2>err; test \$? -eq 2"
err "wrong: line 1: .*not a letter of a protein"
t 0 "$longline" encode run-permuteformer.ini/best.safetensors more.fasta.gz --json
out '"id":"q","tokens":15,"embedding":\['
refused "model.task = mlm.* gives no probabilities" "$longline" score run-exact.ini/best.safetensors more.fasta.gz
refused "model.task = mlm.* does not classify" "$longline" classify run-exact.ini/best.safetensors more.fasta.gz
echo 'no proteins, but text' >text
# shellcheck disable=SC2086
refused "text: line 1 comes before" "$longline" train "$root/recipes/protein/exact.ini" --data text $tiny --out w
# shellcheck disable=SC2086
refused "decay" "$longline" train "$root/recipes/protein/permuteformer.ini" --data some.fasta $tiny --out w \
    --set position.decay=fixed
check "no file is left" test ! -e w
refused "byte 0x3e at position 0 is not a letter of a protein; leave out the header line$" \
    "$longline" generate lm/best.safetensors --prompt-file some.fasta --tokens 4
# A byte order mark is no letter.
printf '\357\273\277>marked\nMKVLAMKVLAMKVLA\n' >marked.fasta
t 0 "$longline" eval lm/best.safetensors --data marked.fasta
t 0 "$longline" score lm/best.safetensors marked.fasta
out "^marked	"
