#!/bin/sh
# Draws the tables of docs/study.md from docs/results: what stands there between <!-- table NAME --> and <!-- end --> is
# written anew.
#
#     recipes/queue/tables.sh           into docs/study.md
#     recipes/queue/tables.sh NAME      to standard output
set -eu
tree=$(cd "$(dirname "$0")/../.." && pwd)
here=$tree/recipes/queue

draw() { # NAME
    awk -v wanted="$1" -v docs="$tree/docs" -v tables="$tree/recipes/tables" '
    function as(x, how) {
        return how == "percent" ? 100 * x : how == "bits" ? x / log(2) : how == "perplexity" ? exp(x) : x
    }
    function number(x, how) { return sprintf(how == "bits" || how == "as-is" ? "%.3f" : "%.2f", x) }
    function one(id, measure, key, how) {
        return (id, measure, key) in value ? number(as(value[id, measure, key], how), how) : ""
    }
    function rest(from,    text, i) {
        for (i = from; i <= NF; i++) text = text (i > from ? " " : "") $i
        return text
    }
    function cell(prefix, measure, key, how, who,    n, sum, square, seed, x, mean) {
        for (seed = 1; seed < 10; seed++) {
            if (!((prefix "-" who "-" seed, measure, key) in value)) continue
            x = as(value[prefix "-" who "-" seed, measure, key], how)
            n++; sum += x; square += x * x
        }
        if (!n) return ""
        mean = sum / n
        if (n == 1) return number(mean, how)
        return number(mean, how) " ± " number(sqrt((square - n * mean * mean > 0 ? square - n * mean * mean : 0) / (n - 1)), how) \
            " (" n ")"
    }
    function read_ini(file,    line, key, text, part, at, who) {
        while ((getline line < file) > 0) {
            if (line ~ /^\[/) { who = substr(line, 2, length(line) - 2); continue }
            at = index(line, " = ")
            key = substr(line, 1, at - 1)
            text = substr(line, at + 3)
            if (key ~ /^column[.]/) {
                split(text, part, " ")
                prefix[++c] = part[1]; measures[c] = part[2]; keys[c] = "accuracy"; hows[c] = "percent"
                heading[c] = substr(key, 8)
                of[heading[c]] = part[1]
            } else if (key == "label") {
                names[++r] = who; label[r] = text
            } else if (key ~ /^published[.]/) {
                key = of[substr(key, 11)]
                published[key, who] = text; has[key] = 1
            }
        }
    }
    FILENAME ~ /measures.csv$/ { split($0, f, ","); value[f[1], f[2], f[3]] = f[4]; ids[FNR] = f[1]; rows = FNR; next }
    FILENAME ~ /runs.csv$/ { split($0, f, ","); steps[f[1]] = f[6]; cpu[f[1]] = f[10]; next }
    /^#/ || !NF { next }
    $1 == "table" { on = $2 == wanted; known = known || on; next }
    !on { next }
    $1 == "ini" { read_ini(tables "/" $2) }
    $1 == "list" { list = 1; pattern = $2; measure = $3; for (i = 4; i < NF; i += 2) { keys[++c] = $i; hows[c] = $(i + 1) } }
    $1 == "except" { except = substr($2, 1, length($2) - 1) }
    $1 == "column" { c++; prefix[c] = $2; measures[c] = $3; keys[c] = $4; hows[c] = $5; heading[c] = rest(6) }
    $1 == "csv" {
        file = docs "/" $2
        for (n = 0; (getline line < file) > 0; n++) {
            split(line, f, ",")
            row = "|"
            rule = "|"
            for (i = 3; i <= NF; i++) {
                row = row " " (f[$i] ~ /^-?[0-9.]+(e[+-]?[0-9]+)?$/ ? sprintf(f[$i] ~ /^[0-9]+$/ ? "%d" : "%.4g", f[$i]) : f[$i]) " |"
                rule = rule " --- |"
            }
            print row
            if (!n) print rule
        }
        exit
    }
    $1 == "matrix" { matrix = 1; pattern = $2; measure = $3; key = $4; how = $5 }
    $1 == "across" { for (wide = 0; wide < NF - 1; wide++) across[wide + 1] = $(wide + 2) }
    $1 == "down" { for (high = 0; high < NF - 1; high++) down[high + 1] = $(high + 2) }
    $1 == "row" { r++; names[r] = $2; label[r] = rest(3) }
    $1 == "published" { published[$2, $3] = $4; has[$2] = 1 }
    END {
        if (!known) {
            print "tables.sh: tables.txt has no table " wanted >"/dev/stderr"
            exit 2
        }
        if (!list && !c && !matrix) exit
        if (list) {
            sub(/[*]$/, "", pattern)
            line = "| run | steps | seconds |"; rule = "| --- | --- | --- |"
            for (k = 1; k <= c; k++) { line = line " " measure ", " keys[k] " |"; rule = rule " --- |" }
            print line "\n" rule
            for (i = 1; i <= rows; i++)
                if (index(ids[i], pattern) == 1 && !(except && index(ids[i], except) == 1) && !(ids[i] in seen)) {
                    seen[ids[i]] = 1
                    line = "| `" ids[i] "` | " steps[ids[i]] " | " cpu[ids[i]] " |"
                    for (k = 1; k <= c; k++) line = line " " one(ids[i], measure, keys[k], hows[k]) " |"
                    print line
                }
            exit
        }
        if (matrix) {
            line = "| |"; rule = "| --- |"
            for (k = 1; k <= wide; k++) { line = line " " across[k] " |"; rule = rule " --- |" }
            print line "\n" rule
            for (i = 1; i <= high; i++) {
                line = "| " down[i] " |"
                for (k = 1; k <= wide; k++) {
                    text = cell(pattern, measure, key, how, down[i] "+" across[k])
                    sub(/ ±.*/, "", text)
                    line = line " " text " |"
                }
                print line
            }
            exit
        }
        line = "| system |"; rule = "| --- |"
        for (k = 1; k <= c; k++) {
            line = line " " heading[k] " |"; rule = rule " --- |"
            first[prefix[k]] = first[prefix[k]] ? first[prefix[k]] : k
            if (has[prefix[k]] && first[prefix[k]] == k) { line = line " published |"; rule = rule " --- |" }
        }
        print line "\n" rule
        for (i = 1; i <= r; i++) {
            line = "| " label[i] " |"
            for (k = 1; k <= c; k++) {
                line = line " " cell(prefix[k], measures[k], keys[k], hows[k], names[i]) " |"
                if (has[prefix[k]] && first[prefix[k]] == k) line = line " " published[prefix[k], names[i]] " |"
            }
            print line
        }
    }' "$tree/docs/results/measures.csv" "$tree/docs/results/runs.csv" "$here/tables.txt"
}

if [ $# = 1 ]; then
    draw "$1"
    exit
fi
page=$tree/docs/study.md
while IFS= read -r line; do
    case $line in
    '<!-- table '*)
        name=${line#<!-- table }
        printf '%s\n\n' "$line"
        draw "${name% -->}" || {
            rm -f "$page.part"
            exit 2
        }
        printf '\n'
        inside=1
        ;;
    '<!-- end -->')
        inside=
        printf '%s\n' "$line"
        ;;
    *) if [ -z "${inside-}" ]; then printf '%s\n' "$line"; fi ;;
    esac
done <"$page" >"$page.part"
mv "$page.part" "$page"
