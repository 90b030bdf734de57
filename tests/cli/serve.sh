# longline serve: answers, refusals, bad clients and signals (serve_client.py).
if "$longline" serve nowhere --listen 127.0.0.1:0 2>&1 | grep -q libmicrohttpd; then
    skip "the server: this program was built without libmicrohttpd"
    exit 0
fi
small_text
# shellcheck disable=SC2086
t 0 "$longline" train "$root/recipes/text-bytes.ini" --data text.txt --out run $small
model=run/best.safetensors
cat >"$model.chat.json" <<'END'
{"roles": {"user": ["line ", " of"]}, "begin": "", "stop": ["\n"]}
END
# shellcheck disable=SC2086
t 0 "$longline" train "$root/recipes/text-bytes.ini" --data text.txt --out learned $small --set position.type=learned \
    --set position.decay=none --set position.max-length=128 --set train.steps=2
# shellcheck disable=SC2086
t 0 "$longline" train "$root/recipes/text-bytes.ini" --data text.txt --out broken $small --set model.tied-embedding=off \
    --set model.final-norm=off --set model.init-std=1 --set train.steps=2
# shellcheck disable=SC2086
t 0 "$longline" train "$root/recipes/text-bytes.ini" --data text.txt --out exact $small --set attention.kernel=softmax \
    --set position.type=none --set position.decay=none --set train.steps=2
poke broken/best.safetensors embedding.weight
refused "needs a MODEL" "$longline" serve
refused "no such folder" "$longline" serve --models nowhere
refused "text.txt: it is a file; name a folder" "$longline" serve --models text.txt
refused "No such file" "$longline" serve nowhere.safetensors
refused "two models have the name" "$longline" serve $model $model
refused "must be ADDRESS:PORT" "$longline" serve $model --listen here
refused "not an address" "$longline" serve $model --listen nowhere.example:80
for port in 73616 65536 18446744073709551616 -1 +80 0x50 http 80a ''; do
    refused "port must be a number from 0 to 65535" timeout 20 "$longline" serve $model --listen "127.0.0.1:$port"
done
refused "address cannot be used" "$longline" serve $model --listen 192.0.2.1:80
"$longline" serve $model --listen 127.0.0.1:0 2>first.err &
first=$! port=
for _ in $(seq 100); do
    port=$(sed -n 's|.*listening on http://127.0.0.1:||p' first.err)
    [ -z "$port" ] || break
    sleep 0.1
done
refused "address cannot be used: Address already in use" timeout 60 "$longline" serve $model --listen "127.0.0.1:$port"
kill $first
wait $first
# The command of the unit for systemd, with the variables that systemd sets. A list of folders is joined by colons.
mkdir -p var/longline/models var/longline/sessions credentials
cp $model var/longline/models
echo "a-key-that-nobody-guesses-0123456789 reader" >credentials/keys
chmod 600 credentials/keys
command=$(sed -n '/^ExecStart=/,/[^\\]$/p' "$root/packaging/longline.service" | tr -d '\\\n' |
    sed "s|^ExecStart=/usr/bin/longline|exec '$longline'|; s|%S|$PWD/var|g; s|:8080|:0|")
last="$command"
STATE_DIRECTORY=$PWD/var/longline:$PWD/var/longline/models:$PWD/var/longline/sessions \
    CREDENTIALS_DIRECTORY=$PWD/credentials sh -c "$command" >out 2>err </dev/null &
pid=$!
wait_until grep -q 'listening on' err
err "listening on"
kill $pid
ended $pid
check "the unit's server ended" test $? = 0
refused "cannot be read" "$longline" serve $model --api-keys nowhere
refused "--api-keys run cannot be read: Is a directory" "$longline" serve $model --api-keys run
refused "chat template run cannot be read: Is a directory" "$longline" serve $model --chat-template run
echo short >keys
chmod 600 keys
refused "can be guessed" "$longline" serve $model --api-keys keys
refused "cannot be (made|opened)" "$longline" serve $model --state-dir text.txt
refused "chat template nowhere.json cannot be read: No such file" "$longline" serve $model --chat-template nowhere.json
echo '{"roles": 1}' >bad.json
refused "no roles" "$longline" serve $model --chat-template bad.json
echo '{"roles": {"user": ["", ""]}, "begin": "", "stop": "x"}' >bad.json
refused "stop is not a list" timeout 60 "$longline" serve $model --listen 127.0.0.1:0 --chat-template bad.json
if command -v python3 >/dev/null; then
    mkdir work
    i=0
    while [ $i -lt 40 ]; do
        word=$([ $((i % 2)) = 0 ] && echo dull || echo good)
        printf '%s\tfilm %s is %s\n' "$word" $i "$word"
        i=$((i + 1))
    done >films.tsv
    t 0 "$longline" train "$root/recipes/lra/text.ini" --data films.tsv --set data.test=films.tsv --out films \
        --set model.layers=1 --set model.width=16 --set model.heads=2 --set model.ff=32 --set model.pool=first \
        --set train.length=64 --set train.batch=4 --set train.steps=60 --set train.warmup=2 --set train.eval-every=20 \
        --set train.learning-rate=0.01 --set data.classes=dull,good --set data.label-column=1 --set data.text-column=2
    # shellcheck disable=SC2086
    t 0 "$longline" train "$root/recipes/wikitext-words.ini" --data text.txt $small --set data.valid=text.txt \
        --set data.test=text.txt --out words
    small_images
    t 0 "$longline" train images.ini --out images-run --set train.steps=2
    t 0 "$longline" train images.ini --out patches-run --set train.steps=2 --set model.patch=2 --set model.pool=first
    python3 -B "$root/tests/cli/serve_client.py" "$longline" $model work learned/best.safetensors \
        broken/best.safetensors films/best.safetensors words/best.safetensors images-run/best.safetensors \
        patches-run/best.safetensors exact/best.safetensors
    check "all clients ended" test $? = 0
else
    skip "clients: no python3 here"
fi
# The client that OpenAI publishes, if node and its package are installed: make deps installs it, or LL_NODE_MODULES names
# a folder that has it.
NODE_PATH=${LL_NODE_MODULES:-$build/npm/node_modules}
export NODE_PATH
if command -v node >/dev/null && node -e 'require("openai")' 2>/dev/null; then
    : >log
    "$longline" serve $model --listen 127.0.0.1:0 2>log &
    pid=$!
    i=0
    while ! grep -q 'listening on' log && [ $i -lt 300 ]; do sleep 0.1; i=$((i + 1)); done
    timeout 60 node "$root/tests/cli/serve_openai.js" "$(sed -n 's/.*listening on //p' log)"
    check "the openai client ended" test $? = 0
    kill $pid
    ended $pid
    check "the server ended" test $? = 0
else
    skip "the client of OpenAI: no package openai for node here"
fi
