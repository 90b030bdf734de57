# longline generate --draft: gives the text of the large model alone. Wrong uses are refused.
small_text
# shellcheck disable=SC2086
t 0 "$longline" train "$root/recipes/text-bytes.ini" --data text.txt --out large $small --set model.layers=2
# shellcheck disable=SC2086
t 0 "$longline" train "$root/recipes/text-bytes.ini" --data text.txt --out little $small --set train.seed=2
large=large/best.safetensors little=little/best.safetensors
for more in "--temperature 0" "--temperature 0 --draft-tokens 1" "--temperature 0 --draft-tokens 32" \
    "--top-k 1 --echo"; do
    # shellcheck disable=SC2086
    t 0 "$longline" generate $large --prompt "line 17 of" --tokens 200 $more --draft $little
    err "blocks; [0-9]+ of [0-9]+ drafted tokens were accepted"
    mv out drafted
    # shellcheck disable=SC2086
    t 0 "$longline" generate $large --prompt "line 17 of" --tokens 200 $(echo "$more" | sed 's/--draft-tokens [0-9]*//')
    check "the same text as without drafts: $more" cmp out drafted
done
t 0 "$longline" generate $large --prompt-file text.txt --tokens 50 --seed 5 --draft $little
check "as many tokens as were asked for" test "$(wc -c <out)" -eq 50
mv out first
t 0 "$longline" generate $large --prompt-file text.txt --tokens 50 --seed 5 --draft $little
check "the same seed, the same text" cmp out first
t 0 "$longline" generate $large --prompt-file text.txt --tokens 50 --seed 5 --draft $large
err "of [0-9]+ drafted tokens were accepted \(100 %\)"
t 0 "$longline" quantize $large -o small.safetensors --weights int8
t 0 "$longline" generate $large --tokens 50 --draft small.safetensors
# shellcheck disable=SC2086
t 0 "$longline" train "$root/recipes/text-bytes.ini" --data text.txt --out wide $small --set model.vocab=300 \
    --set train.steps=2
# Where learned positions end, the text does, with drafts and without.
# shellcheck disable=SC2086
t 0 "$longline" train "$root/recipes/text-bytes.ini" --data text.txt --out learned $small --set position.type=learned \
    --set position.decay=none --set position.max-length=70 --set train.steps=2
t 0 "$longline" generate learned/best.safetensors --prompt "line 17" --tokens 100 --temperature 0
mv out alone
for draft in learned/best.safetensors $little; do
    t 0 "$longline" generate learned/best.safetensors --prompt "line 17" --tokens 100 --temperature 0 --draft "$draft"
    err "the text ends because the model's learned positions do, after 70 tokens"
    err "blocks; [0-9]+ of [0-9]+ drafted tokens were accepted"
    check "the same text ends there" cmp out alone
done
refused "no such file|No such file" "$longline" generate $large --draft nowhere.safetensors
refused "vocabulary of 300" "$longline" generate $large --draft wide/best.safetensors
refused "draft-tokens needs --draft" "$longline" generate $large --draft-tokens 4
refused "draft-tokens" "$longline" generate $large --draft $little --draft-tokens 33
refused "draft-tokens" "$longline" generate $large --draft $little --draft-tokens 0
refused "not with --prompts" "$longline" generate $large --draft $little --prompts text.txt
refused "not with --prompts" "$longline" generate $large --draft $little --save-state s
