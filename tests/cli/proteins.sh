# Proteins as a user trains on them: masked and causal, in several files, and files that are none.
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
done
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
echo 'no proteins, but text' >text
# shellcheck disable=SC2086
refused "text: line 1 comes before" "$longline" train "$root/recipes/protein/exact.ini" --data text $tiny --out w
# shellcheck disable=SC2086
refused "decay" "$longline" train "$root/recipes/protein/permuteformer.ini" --data some.fasta $tiny --out w \
    --set position.decay=fixed
check "nothing was left behind" test ! -e w
