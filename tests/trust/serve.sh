# A server whose allocations are refused (serve_memory.py).
. "$root/tests/trust/lib"
if "$longline" serve nowhere --listen 127.0.0.1:0 2>&1 | grep -q libmicrohttpd; then
    skip "the server: this program was built without libmicrohttpd"
    exit 0
fi
make_run
cat >"$model.chat.json" <<'END'
{"roles": {"user": ["line ", " of"]}, "begin": "", "stop": ["\n"]}
END
samples=4
! long || samples=0
/usr/bin/python3 -B "$root/tests/trust/serve_memory.py" "$longline" "$model" . "$shim" $samples >out 2>err
code=$?
if long; then cat out; fi
check "a server without memory: $(tail -n 1 out)" [ $code -eq 0 ]
out '^[1-9][0-9]* trials, '
