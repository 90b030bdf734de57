# docs/keys.md from what `longline recipe` prints (`make keys`).
BEGIN {
    print "# Recipe keys"
    print ""
    print "Every key of a recipe with its default and what it means, as `longline recipe` prints them; `longline recipe KEY`"
    print "explains one. Written by `make keys`. How a recipe is written, and what formats read: [format.md](format.md)."
}
/^\[/ {
    section = substr($0, 2, length($0) - 2)
    print "\n## [" section "]\n\n| key | default | what |\n| --- | --- | --- |"
}
/^# / {
    what = substr($0, 3)
    needs = ""
    choices = ""
    if (i = index(what, "; one of ")) {
        choices = substr(what, i + 9)
        what = substr(what, 1, i - 1)
        gsub(/\|/, "`, `", choices)
        choices = "; one of `" choices "`"
    }
    if (i = index(what, "; needs ")) {
        needs = substr(what, i + 8)
        what = substr(what, 1, i - 1)
        gsub(/\|/, "\\|", needs)
        gsub(/ or /, "` or `", needs)
        needs = "; needs `" needs "`"
    }
}
/^[a-z].* =/ {
    gsub(/\|/, "\\|", what)
    value = $0
    sub(/^[^=]*= ?/, "", value)
    print "| `" section "." $1 "` | " (value == "" ? "" : "`" value "`") " | " what needs choices " |"
}
