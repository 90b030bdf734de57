# The man page names every command and every option, and man can read it.
page=$root/packaging/longline.1
"$longline" help | sed -n 's/^  \([a-z]*\)  *[a-z].*/\1/p' | grep -vx longline >commands
check "there are commands" test -s commands
while read -r c; do
    last="longline $c --help"
    check "the man page has $c" grep -qE "^\.B[RI]* .*longline $c|^\.SS $c" "$page"
    "$longline" "$c" --help | sed -n 's/^  \(-[a-zA-Z], \)\{0,1\}\(--[a-z-]*\).*/\2/p' | sort >options
    # Options are in the command's own part, in that for all commands, or in that for commands that read sequences.
    awk -v c="$c" '/^\.S[SH]/ {own = $2 == c || $2 == "COMMON" || ($2 == "Options" && c ~ /^(score|encode|classify)$/)}
        entry {print} {entry = own && $1 == ".TP"}' "$page" | sed 's/\\//g' | grep -oE -- '--[a-z-]+' | sort >entries
    check "the man page has the options of $c, each once: $(comm -3 options entries | tr -d '\n')" cmp -s options entries
    awk -v c="$c" '/^\.S[SH]/ {own = $2 == c || $2 == "COMMON" || ($2 == "Options" && c ~ /^(score|encode|classify)$/)}
        {gsub(/\\/, "")} /^\.(TP|S[SH])/ {option = ""}
        entry && match($0, /--[a-z-]+/) {option = substr($0, RSTART, RLENGTH)} {entry = own && $1 == ".TP"}
        option {print option, $0}' "$page" >texts
    # What a description cannot leave out: values that are used without the option, and names of files.
    "$longline" "$c" --help | awk '/^  (-[a-zA-Z], )?--/ && match($0, /--[a-z-]+/) {
        option = substr($0, RSTART, RLENGTH)
        if (match($0, /\(default [^)]*\)/) && $0 !~ /\(default (0|-1)\)/) print option, substr($0, RSTART + 9, RLENGTH - 10)
        if (match($0, /[A-Za-z.]+\.json/)) print option, substr($0, RSTART, RLENGTH)}' | sort -u |
        while read -r option value; do grep -qwF -- "$value" <<END || echo "$option $value"
$(grep -e "^$option " texts)
END
        done >lacking
    check "the man page has the defaults of $c: $(tr '\n' ' ' <lacking)" test ! -s lacking
done <commands
check "its version is the program's" grep -q "^\.TH .* \"longline $("$longline" version | sed -n 's/^longline \([0-9.]*\).*/\1/p')\"" "$page"
if command -v man >/dev/null && command -v groff >/dev/null; then
    man --warnings -l "$page" >out 2>err
    check "man reads it without a warning" test ! -s err
else skip "does man read it: no man and groff here"; fi
