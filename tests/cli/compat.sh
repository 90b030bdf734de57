# attention.compat: a model whose stabiliser looks ahead can be trained, and all later commands say so.
small_text
printf '[attention]\nkernel=favor\ncompat=google\nnum-features=16\n[data]\ntrain=text.txt\n' >google.ini
t 0 "$longline" train google.ini $small -o run
err "losses will be too low: attention.compat = google .*later ones too"
t 0 "$longline" inspect run/last.safetensors
out "^inspect.stream=no: attention.compat = google"
refused "attention.compat = google" "$longline" generate run/last.safetensors --tokens 5
t 0 "$longline" eval run/last.safetensors --batches 1
t 0 "$longline" train google.ini $small --set attention.compat=lucidrains --set attention.kernel=relu -o relu
not_err "compat"
t 0 "$longline" generate relu/last.safetensors --tokens 5
refused "has relu" "$longline" train google.ini $small --set attention.compat=permuteformer -o no
check "a refused recipe leaves no folder" test ! -e no
