# longline recipe: the list can be read as a recipe, keys are explained, and names like a wrong one are suggested.
t 0 "$longline" recipe
for section in model attention position train data; do out "^\[$section\]$"; done
cp out all.ini
awk -f "$root/docs/keys.awk" out >keys.md
check "docs/keys.md is what make keys writes" cmp keys.md "$root/docs/keys.md"
t 0 "$longline" recipe position.type
out "^position.type$"
out "choices .*permute2d"
out "default "
t 0 "$longline" recipe train
out "^train.steps$"
check "a section lists only its keys" sh -c "! grep -q '^model' out"
refused "no key 'positon.type'; did you mean 'position.type'" "$longline" recipe positon.type
refused "no key 'positin'; did you mean 'position'" "$longline" recipe positin
refused "no key or section 'qqqqqqqqqqqqqqqq'" "$longline" recipe qqqqqqqqqqqqqqqq

small_text
# shellcheck disable=SC2086
t 0 "$longline" train all.ini --data text.txt --out run $small
check "the resolved recipe has all keys" sh -c "test \$(grep -c '^[a-z0-9-]* *=' run/recipe.ini) -eq \$(grep -c '^[a-z0-9-]* *=' all.ini)"
