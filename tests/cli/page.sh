# The page of longline serve, in headless Chromium (page_test.py).
if "$longline" serve nowhere --listen 127.0.0.1:0 2>&1 | grep -q libmicrohttpd; then
    pass "this program was built without libmicrohttpd: there is no page"
    exit 0
fi
browser=$(command -v chromium || command -v chromium-browser || command -v chromium-headless-shell || :)
if [ -z "$browser" ] || ! command -v python3 >/dev/null; then
    if [ -n "${LL_NEED_BROWSER:-}" ]; then fail "chromium and python3 are needed here (LL_NEED_BROWSER)"; else
    pass "no chromium or no python3 here: the page is not opened; apt-get install chromium python3"; fi
    exit 0
fi
small_text
# shellcheck disable=SC2086
t 0 "$longline" train "$root/recipes/text-bytes.ini" --data text.txt --out run $small
# shellcheck disable=SC2086
t 0 "$longline" train "$root/recipes/text-bytes.ini" --data text.txt --out other $small --set train.steps=2 --set train.seed=2
echo "a-key-that-nobody-guesses-0123456789 reader" >keys
chmod 600 keys
# axe-core, which checks accessibility, is a package of npm. make deps installs it, or LL_NODE_MODULES names a folder with
# it.
axe=${LL_NODE_MODULES:-$build/npm/node_modules}/axe-core/axe.min.js
[ -e "$axe" ] || { axe=; echo "    (no axe-core here: npm is missing, or make deps was not run)"; }
mkdir work
# shellcheck disable=SC2086
python3 -B "$root/tests/cli/page_test.py" "$longline" run/best.safetensors work other/best.safetensors keys $axe
check "the browser ended" test $? = 0
