# The page of `make wasm` in headless Chromium (wasm_page_test.py).
find_browser || exit 0
small_text
# shellcheck disable=SC2086
t 0 "$longline" train "$root/recipes/text-bytes.ini" --data text.txt --out run $small
"$longline" generate run/best.safetensors --prompt 'line 17 of' --tokens 100 --temperature 0 --cpu scalar >expected
axe=${LL_NODE_MODULES:-$build/npm/node_modules}/axe-core/axe.min.js
[ -e "$axe" ] || { axe=; skip "accessibility: no axe-core here, npm is missing, or make deps was not run"; }
# shellcheck disable=SC2086
PYTHONPATH=$root/tests/cli python3 -B "$root/tests/wasm/wasm_page_test.py" "$build/wasm" run/best.safetensors expected text.txt $axe
check "the browser ended" test $? = 0
