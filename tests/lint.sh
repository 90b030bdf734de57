#!/bin/sh
# The house rules that a script can check: tests/lint.sh BUILD. Prints what breaks them. CONTRIBUTING.md gives reasons.
set -u
build=$1
export LC_ALL=C
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0

# verdict NAME FILE: FILE lists what breaks the rule.
verdict() {
    if [ -s "$2" ]; then
        failed=$((failed + 1))
        echo "[ FAIL ] $1"
        sed 's/^/    /' "$2"
    else
        passed=$((passed + 1))
        echo "[ ok ] $1"
    fi
}
sources() { find "$@" -type f \( -name '*.[ch]' -o -name '*.S' \) 2>/dev/null | sort; }

# Rooms: which other rooms' headers a room may include.
laboratory=$(cd lab && ls -d */ | tr -d / | paste -sd'|')
law() {
    room=$1
    shift
    allowed=$(echo "${room##*/} $*" | tr ' ' '|')
    grep -nE "#include \"(base|kernel|attention|recipe|model|train|data|dist|$laboratory|cli)/" \
        $(sources "$room") /dev/null | grep -vE "#include \"($allowed)/"
}
{
    law src/base
    law src/kernel base
    law src/attention base kernel
    law src/data base
    law src/dist base
    law src/model base kernel attention | grep -v '"data/batch.h"' # what data makes and a model reads
    # the parts of rooms that are above or beside
    law src/recipe base data model | grep -vE '"(train/train|dist/dist)_options.h"'
    law src/train base kernel attention recipe model data dist
    law lab/measure base kernel
    law lab/rows base
    law lab/exchange base data model train
    law lab/sets base data
    law lab/music base data
    law lab/maps base attention model
    law lab/report base
    law lab/reference base kernel attention
    law lab/case base kernel attention reference
    law lab/analyse base kernel attention model reference
    law lab/study base kernel attention recipe model data report train
    law lab/compare base kernel attention recipe model data report train
} >"$work/rooms"
verdict "a room includes only the rooms below it" "$work/rooms"

grep -nE '#include "[^"]*/[^"]*"' $(sources cli examples wasm) /dev/null | grep -v '^wasm/.*"longline-lab/' |
    grep -vE "#include \"($(cd cli && ls -d */ | tr -d / | paste -sd'|'))/" >"$work/outside"
verdict "cli, examples and wasm see only the public headers" "$work/outside"
find python examples/notebooks -name '*.py' -exec grep -nE '#include|(src|lab)/[a-z_]+\.h' {} + | grep -v '#include <longline.h>' >"$work/python"
verdict "python sees only the public headers" "$work/python"
find python -name '*.py' -exec awk 'length > 132 {print FILENAME ":" FNR ": " length " characters"} FNR == 401 {print FILENAME ": over 400 lines"}' {} + \
    >"$work/pyform"
verdict "no Python file over 400 lines, no line over 132 characters" "$work/pyform"
grep -n 'longline-lab' $(sources src include/longline examples) include/longline.h /dev/null | grep -v '^include/longline.h:[0-9]*: \*' |
    grep '#include' >"$work/lab"
verdict "the core and the examples do not know the laboratory" "$work/lab"

grep -nE '(immintrin|x86intrin|arm_neon|arm_sve)\.h|\b_mm(256|512)?_|__builtin_ia32_' \
    $(sources src lab cli examples include | grep -v '^src/kernel/') /dev/null >"$work/simd"
verdict "vector instructions only in src/kernel" "$work/simd"

sources src lab cli wasm examples include tests | xargs wc -l | awk '$2 != "total" && $1 > 400' >"$work/long"
verdict "no file over 400 lines" "$work/long"
sources src lab cli wasm examples include tests | xargs awk 'length > 120 {print FILENAME ":" FNR ": " length " characters"}' \
    >"$work/wide"
verdict "no line over 120 characters" "$work/wide"
find src lab cli bench tests examples include -name '*.[chS]' -o -name '*.cc' | awk -F/ '
    $NF in path {print path[$NF] " and " $0 " have the same name"}
    {path[$NF] = $0}' >"$work/twice"
verdict "each source file has a name of its own" "$work/twice"
grep -nE '[[:blank:]]$|	' $(sources src lab cli wasm examples include tests) /dev/null | head -20 >"$work/blank"
verdict "no tabs, no blanks at line ends" "$work/blank"
grep -nE '\b(TODO|FIXME|XXX|HACK)\b' $(sources src lab cli wasm examples include tests) /dev/null >"$work/todo"
verdict "nothing left to do in the sources" "$work/todo"

# ---- Numbers know no locale: src/base/text.c alone reads and writes those with a point ----
for file in $(sources src lab | grep -v '^src/base/text\.c$'); do
    awk -v RS=';' -v file="$file" '{
        line += lines
        lines = gsub(/\n/, " ")
        gsub(/%%/, "")
        number = /"[^"]*%[-+0#]*[0-9*]*(\.([0-9]+|\*))?[lL]?[aefgAEFG]/
        if ((number && /(printf|scanf) *\(/) || /snprintf\([^,"]*,[^,"]*, *[a-z][^"]*$/) print file ":" line + 1 ":" $0
    }' "$file"
done | cut -c 1-200 >"$work/numbers"
grep -nE '\b(set|new|use)locale *\(|\b(strto(d|f|ld)|atof|localeconv) *\(' $(sources src lab | grep -v '^src/base/text\.c$') /dev/null \
    >>"$work/numbers"
grep -nE '\b(set|new|use)locale *\(' $(sources cli) /dev/null >>"$work/numbers" # printf and strtod are in the C locale there
verdict "numbers are read and written by src/base/text.c, in no locale" "$work/numbers"

# ---- What the objects say ----
prints='printf|vprintf|__v?printf_chk|puts|putchar|perror|dprintf|vdprintf|stdout|stderr'
ends='exit|_exit|_Exit|abort|quick_exit|__assert_fail'
allocates='malloc|calloc|realloc|aligned_alloc|posix_memalign|memalign|_Zn[wa]m|(__)?strdup|(__)?strndup|v?asprintf|__v?asprintf_chk'
allocates="$allocates|open_memstream|fmemopen|getline|getdelim|__getdelim|opendir|fdopendir|scandir(64)?"
nm "$build"/liblongline*.a 2>/dev/null | awk '/\.o:$/ {file = $1} $1 == "U" {print file, $2}' |
    grep -E " ($prints|$ends|$allocates|rand|srand|system|popen)$" |
    grep -vE '^(memory\.o: (malloc|calloc|realloc)|folder\.o: opendir|pieces_shim\.o: _Znwm|(network|output_head)\.o: __assert_fail)$' \
        >"$work/forbidden"
verdict "the library does not print, exit, abort, or allocate outside memory.c" "$work/forbidden"
nm -g --defined-only "$build"/liblongline*.a | awk 'NF == 3 && $2 !~ /[VWu]/ && $3 !~ /^ll_/ {print $3}' | sort -u >"$work/names"
verdict "every global name begins with ll_" "$work/names"
nm "$build"/liblongline*.a 2>/dev/null | awk '/\.o:$/ {file = $1} $1 == "U" {print file, $2}' |
    grep -E ' (__)?(v[a-z]*printf|strto(d|f|ld)|atof|setlocale|newlocale|uselocale|localeconv)(_chk|@.*)?$' |
    grep -v '^text\.o: ' >"$work/locale"
verdict "no other object formats, or parses, what may have a point" "$work/locale"

# api NAME HEADER..: the shared library exports to everybody exactly what these headers declare. Functions for the
# laboratory of the same release have a version of their own.
api() {
    library=$1
    shift
    cat "$@" | tr '\n' ' ' | grep -oE 'LL_API [^;]*;' | grep -oE '\bll_[a-z0-9_]+ ?\(' | tr -d ' (' | sort -u >"$work/declared"
    nm -D --defined-only "$build/$library.so" | awk '$2 != "A" && $3 !~ /_PRIVATE_/ {sub(/@.*/, "", $3); print $3}' |
        sort -u >"$work/exported"
    comm -3 "$work/declared" "$work/exported" |
        sed 's/^\t\(.*\)/exported, not declared: \1/; t; s/^/declared, not exported: /' >"$work/api"
    verdict "$library.so exports what its headers declare, and nothing else" "$work/api"
}
api liblongline-lab include/longline-lab/*.h
api liblongline include/longline/*.h include/longline-batch.h include/longline-draft.h
public=$(cat include/longline/*.h | grep -c '^ *LL_API')
[ "$public" -le 90 ] || echo "there are $public; what is laboratory belongs to include/longline-lab" >"$work/count"
verdict "at most 90 public functions in longline.h: $public" "$work/count"

tests/links.sh $(find ./*.md docs python examples recipes -name '*.md' | sort) >"$work/links" 2>&1
verdict "links between pages name files and headings that exist" "$work/links"
tests/names.sh "$build" $(find ./*.md Makefile rules.mk .ci docs python examples recipes packaging bench src lab cli include tests -type f \
    \( -name '*.[ch]' -o -name '*.md' -o -name '*.sh' -o -name '*.py' -o -name '*.ini' -o -name '*akefile' -o -name '*.mk' \) | sort) \
    >"$work/named" 2>&1
verdict "targets, commands, keys and files that pages and comments name exist" "$work/named"

for table in $(sed -n 's/^<!-- table \(.*\) -->$/\1/p' docs/study.md); do
    sed -n "/^<!-- table $table -->/,/^<!-- end -->/{/^|/p}" docs/study.md >"$work/shown"
    recipes/queue/tables.sh "$table" | cmp -s - "$work/shown" || echo "docs/study.md: table $table; run recipes/queue/tables.sh"
done >"$work/tables"
verdict "the tables of docs/study.md are those of docs/results" "$work/tables"
(cd recipes && awk '
    FILENAME ~ /measures.csv$/ { id = $0; sub(/,.*/, "", id); if (FNR > 1) ids[id]; next }
    function line(text,    word) {
        split(text, word, " ")
        if (word[1] == "table") table = word[2]
        if (word[1] == "column") column[table, word[2]]
        if (word[1] == "row") row[table, word[2]]
        if (word[1] == "text") quoted[word[2]]
        if (word[1] != "ini") return
        while ((getline text < ("tables/" word[2])) > 0)
            if (text ~ /^column/) { sub(/.* = /, "column ", text); line(text) }
            else if (text ~ /^\[/) { gsub(/[][]/, "", text); line("row " text) }
    }
    { line($0) }
    END {
        for (id in ids) {
            one = id
            sub(/-[0-9]+$/, "", one)
            missing = 0
            for (key in column) {
                split(key, of, SUBSEP)
                if (index(id, of[2] "-") != 1) continue
                if ((of[1], substr(one, length(of[2]) + 2)) in row) { missing = 0; break }
                missing = 1
            }
            if (missing && !(one in quoted)) print "recipes/queue/tables.txt has no row for " id " of docs/results"
        }
    }' queue/tables.txt ../docs/results/measures.csv) >"$work/rows"
verdict "each result of a column of docs/study.md has a row" "$work/rows"

grep -rnE '^(<<<<<<<|>>>>>>>)' bench cli docs examples include lab packaging python recipes src tests wasm .ci ./*.md Makefile rules.mk \
    >"$work/merges"
verdict "no conflict of a merge is left" "$work/merges"

# A name that no other object uses. Where no other source and no public header has it either, as for a part that was not
# built, its file alone uses it.
tests/symbols.sh "$build" | awk '
    $1 == "defines" && $3 ~ /^ll_/ {where[$3] = $2}
    $1 == "uses" {used[$3]}
    END {for (name in where) if (!(name in used)) print where[name], name}' | sort >"$work/lone"
cut -d' ' -f2 "$work/lone" >"$work/patterns"
grep -rowFf "$work/patterns" --include='*.[chS]' --include='*.cc' src lab cli include tests examples wasm |
    awk -F: 'NR == FNR {split($0, part, " "); where[part[2]] = part[1]; next}
        {
            file = $1
            sub(/\.[a-zA-Z]*$/, "", file)
            if ($2 in where && file != where[$2] && $1 !~ /^(src|lab|cli)\/.*\.h$/) delete where[$2]
        }
        END {for (name in where) print where[name] ": " name}' "$work/lone" - | sort >"$work/static"
verdict "what only its own file uses is static" "$work/static"

tests/circles.sh "$build" >"$work/circles" 2>&1
verdict "no circles of calls or includes between the files of a room" "$work/circles"

# ---- Headers stand alone, and all of them together ----
headers() { find "$@" -name '*.h' ! -path 'src/kernel/body*' ! -path 'src/kernel/vec_*' | sort; } # those: pieces of one file
for header in $(headers include src lab cli tests); do
    case $header in
    tests/test.h) continue ;; # needs cmocka
    tests/*) grep -q cmocka "$header" && continue ;;
    esac
    echo "$PWD/$header"
done | xargs -P "$(nproc 2>/dev/null || echo 2)" -n 8 sh -c 'for header; do
    printf "#include \"%s\"\nextern int nothing;\n" "$header" |
        cc -std=c17 -D_GNU_SOURCE -Wall -Wextra -Werror -Iinclude -Isrc -Ilab -Icli -Itests -fsyntax-only -x c - 2>&1
done' _ >"$work/headers"
verdict "every header compiles by itself" "$work/headers"
for rooms in 'include src lab' 'include cli'; do
    # shellcheck disable=SC2086
    headers $rooms | sed 's/.*/#include "&"/' |
        cc -std=c17 -D_GNU_SOURCE -I. -Iinclude -Isrc -Ilab -Icli -fsyntax-only -x c - 2>&1
done >"$work/together"
verdict "all headers of the library compile in one file, and all of the program: no name means two things" "$work/together"
: >"$work/cxx"
for standard in c++11 c++20; do
    command -v c++ >/dev/null || { skipped=1; echo "[ skip ] the public headers as C++: no compiler here"; break; }
    printf '#include "longline-lab.h"\nint main() { return ll_error() == nullptr; }\n' |
        c++ -std=$standard -Wall -Wextra -Wpedantic -Werror -Iinclude -fsyntax-only -x c++ - 2>>"$work/cxx"
done
printf '#include "longline-lab.h"\nextern int nothing;\n' |
    cc -std=c99 -Wall -Wextra -Wpedantic -Werror -Iinclude -fsyntax-only -x c - 2>>"$work/cxx"
verdict "the public headers compile as C99 and as C++" "$work/cxx"

[ -z "${RESULTS:-}" ] || echo "$passed $failed $skipped lint" >>"$RESULTS"
[ "$failed" -eq 0 ]
