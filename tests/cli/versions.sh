# What version 0.1.0 wrote stays readable. tests/version-0.1 has a run (recipe, metrics, checkpoint, model), the state
# of a stream, and the text that this version generated from it. The numbers below are from that version with the plain
# kernels.
old=$root/tests/version-0.1
awk 'BEGIN {for (i = 0; i < 100; i++) print "line", i, "of", i % 7, "says", (i * i) % 101}' >text.txt
near() { # NAME VALUE
    check "$1 is $2, as in version 0.1" awk "BEGIN {d = $(value "$1") - $2; exit !(d < 2e-5 && d > -2e-5)}"
}

t 0 "$longline" inspect "$old/best.safetensors"
out "^kernel = favor$"
t 0 "$longline" eval "$old/best.safetensors" --data text.txt --cpu scalar
near eval.loss 3.503374
t 0 "$longline" generate "$old/best.safetensors" --load-state "$old/stream.state" --tokens 30 --seed 3 --cpu scalar
check "a stream goes on with the same bytes" cmp out "$old/continued.bin"

# The recipe that it wrote, with all keys, can be read today, and means the same.
t 0 "$longline" train "$old/recipe.ini" --out anew --cpu scalar
near train.valid_loss "$(tail -n 1 "$old/metrics.csv" | cut -d, -f6)"

# Its run can be resumed.
cp -r "$old" run && rm run/stream.state run/continued.bin
t 0 "$longline" train --resume run --cpu scalar --set train.steps=40
near train.valid_loss 3.478575
check "metrics go on where they ended" sh -c "head -n \$(wc -l <'$old/metrics.csv') run/metrics.csv | cmp - '$old/metrics.csv'"

# Names that version 0.2 changed.
t 0 "$longline" analyse drift --length 100 --kernels relu --positions none --csv old.csv
t 0 "$longline" analyse stream-error --length 100 --kernels relu --positions none --csv new.csv
check "drift is the old name of stream-error" cmp old.csv new.csv
