# The page of longline serve, in headless Chromium (page_test.py).
if "$longline" serve nowhere --listen 127.0.0.1:0 2>&1 | grep -q libmicrohttpd; then
    skip "the page: this program was built without libmicrohttpd"
    exit 0
fi
find_browser || exit 0
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
[ -e "$axe" ] || { axe=; skip "accessibility: no axe-core here, npm is missing, or make deps was not run"; }
mkdir work
# shellcheck disable=SC2086
python3 -B "$root/tests/cli/page_test.py" "$longline" run/best.safetensors work other/best.safetensors keys $axe
check "the browser ended" test $? = 0
