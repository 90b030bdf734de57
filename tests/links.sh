#!/bin/sh
# Links between pages: each relative link in a Markdown file names a file that exists, and each anchor a heading in that
# file. Prints those that do not: tests/links.sh FILE.md...
set -u

# A heading's anchor is its text in small letters, without punctuation, with - for each space.
anchors() {
    awk '/^ *```/ {code = !code} !code && /^#+ / {
        sub(/^#+ +/, ""); s = tolower($0)
        gsub(/\]\([^)]*\)/, "", s); gsub(/[^a-z0-9 _-]/, "", s); gsub(/ /, "-", s)
        print s (seen[s]++ ? "-" seen[s] - 1 : "")
    }' "$1"
}

# Targets of [text](target) and <img src="target">, except in code, and except addresses elsewhere.
targets() {
    awk '/^ *```/ {code = !code} !code {gsub(/`[^`]*`/, ""); print}' "$1" |
        grep -oE '\]\([^) ]+|src="[^"]+' | sed -E 's/^(\]\(|src=")//' | grep -vE '^[a-z]+:' | sort -u
}

for page in "$@"; do
    folder=$(dirname "$page")
    for target in $(targets "$page"); do
        path=${target%%#*} anchor=${target#"${target%%#*}"}
        file=$page
        [ -z "$path" ] || file=$folder/$path
        if [ ! -e "$file" ]; then
            echo "$page: there is no $path"
        elif [ -n "$anchor" ] && ! anchors "$file" | grep -qxF "${anchor#\#}"; then
            echo "$page: $file has no heading for $anchor"
        fi
    done
done
