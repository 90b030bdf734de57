# The man page names every command and every option, and man can read it.
page=$root/packaging/longline.1
"$longline" help | sed -n 's/^  \([a-z]*\)  *[a-z].*/\1/p' | grep -vx longline >commands
check "there are commands" test -s commands
while read -r c; do
    last="longline $c --help"
    check "the man page has $c" grep -qE "^\.B[RI]* .*longline $c|^\.SS $c" "$page"
    "$longline" "$c" --help | sed -n 's/^  \(-[a-zA-Z], \)\{0,1\}\(--[a-z-]*\).*/\2/p' |
        sed 's/-/\\-/g' >options
    missing=
    while read -r o; do grep -qF -- "$o" "$page" || missing="$missing $o"; done <options
    check "the man page has the options of $c:$missing" test -z "$missing"
done <commands
if command -v man >/dev/null && command -v groff >/dev/null; then
    man --warnings -l "$page" >out 2>err
    check "man reads it without a warning" test ! -s err
fi
