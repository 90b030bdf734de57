# Streams are as near to double precision after their last token as after the first: 1e5 tokens, or 1e8 (LL_TRUST=long).
. "$root/tests/trust/lib"
tokens=100000
! long || tokens=100000000
for pair in relu/none relu/decay favor/rope favor/permute favor/decay gla/none; do
    last="long_stream $tokens ${pair%/*} ${pair#*/}"
    name="$pair, $tokens tokens: within 1e-5 of double precision"
    if "$build/tests/trust/long_stream" $tokens "${pair%/*}" "${pair#*/}" >out 2>err && grep -q "^$tokens " out; then
        pass "$name"
    else fail "$name"; fi
    ! long || sed 's/^/    /' out
done
