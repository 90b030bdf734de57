#!/bin/sh
# Static checks (`make analyze`) of the sources of src, lab and cli: gcc's -fanalyzer, and clang-tidy with its checks bugprone and
# cert and those of scan-build (clang-analyzer), which take most of the time. A finding is an error unless tests/analyze.txt has
# it, with the reason; so is a line of that file for which nothing is found; a check that ends by itself is one, too.
#
# tests/analyzed.txt records what was looked at: a sum of each file, its headers and the checks, for some versions of the
# programs. Only files that are not there as they are now are looked at, and those without a fault are added.
#   ALL=1    looks at every file: 20 minutes of processor time.
#   SHORT=1  for `make check`: writes no record. Where other versions wrote it, or more than 60 files changed since, -fanalyzer
#            looks at the rooms that read files and clang-tidy at all, without the checks of scan-build, and the rest counts as
#            not tried.
# With RESULTS, what was counted is added there.
set -u
known=tests/analyze.txt record=tests/analyzed.txt
# Not looked for: parameters that could be exchanged (a matter of taste); conversions (-Wconversion sees them); products that
# widen (factors are bounded where they are read); strcmp without "== 0" (the house's way); memcpy_s for memcpy (Annex K, which
# glibc has not); results of printf (files go through writer.c, which looks); the size of a pointer (tables of pointers are
# counted by sizeof), sums of counts that are widened after they are added, divisions that round down, loops over numbers with
# a point (ticks of an axis).
checks="-*,bugprone-*,cert-*,clang-analyzer-*"
checks="$checks,-bugprone-easily-swappable-parameters,-bugprone-narrowing-conversions"
checks="$checks,-bugprone-sizeof-expression,-bugprone-misplaced-widening-cast,-bugprone-integer-division,-cert-flp30-c"
checks="$checks,-bugprone-implicit-widening-of-multiplication-result,-bugprone-suspicious-string-compare,-cert-err33-c"
checks="$checks,-clang-analyzer-security.insecureAPI.DeprecatedOrUnsafeBufferHandling"
flags='-std=c17 -D_GNU_SOURCE -Iinclude -Isrc -Ilab -Icli -Wno-unused-result'
case $(uname -m) in x86_64) flags="$flags -mavx2 -mfma" ;; esac
# What the analyzers cannot know of the library.
flags_of() { case $1 in cli/*) echo "$flags" ;; *) echo "$flags -include tests/analyze.h" ;; esac; }

# tests/analyze.sh sum|gcc|tidy|paths FILE...: one kind of check, of some files; the script calls itself so, in parallel.
# shellcheck disable=SC2046
if [ $# -gt 0 ]; then
    kind=$1
    shift
    for f; do
        case $kind in
        sum)
            read_files=$(gcc $(flags_of "$f") -MM "$f" | sed 's/^[^:]*://; s/\\$//')
            echo "$({ echo "$flags $checks" && cat $read_files; } | sha256sum | cut -c 1-16) $f"
            ;;
        gcc) gcc $(flags_of "$f") -O1 -fanalyzer -c -o /dev/null "$f" 2>&1 ;;
        tidy) clang-tidy --quiet --checks="$checks,-clang-analyzer-*" "$f" -- $(flags_of "$f") 2>&1 ;;
        paths) clang-tidy --quiet --checks="$checks" "$f" -- $(flags_of "$f") 2>&1 ;;
        esac || echo "$f:1:1: error: $kind ended with status $? [analyzer-ended]"
    done
    exit
fi

: "${JOBS:=2}"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 130' HUP INT TERM
each() { xargs -r -P "$JOBS" -n 2 "$0" "$1"; } # KIND: of the files that stdin names
find src lab cli -name '*.c' | grep -vE 'avx512|neon|mpi_plugin|base/status' | LC_ALL=C sort >"$work/sources"
clang=$(clang-tidy --version 2>/dev/null | sed -n 's/.*version \([0-9.]*\).*/\1/p')
{
    echo "# make analyze, gcc $(gcc -dumpfullversion), clang-tidy ${clang:--}, $(uname -m): the sum of each file without a fault"
    each sum <"$work/sources" | LC_ALL=C sort -k 2
} >"$work/now"
same=
if [ -f $record ] && [ "$(head -n 1 $record)" = "$(head -n 1 "$work/now")" ]; then same=1; fi
{ [ -z "$same" ] || [ "${ALL:-}" ] || cat $record; } >"$work/record"
awk 'FILENAME ~ /record$/ {done[$0] = 1; next} !/^#/ && !($0 in done) {print $2}' "$work/record" "$work/now" >"$work/changed"
echo "$(wc -l <"$work/changed") of $(wc -l <"$work/sources") files were not looked at as they are now"

# Which files gcc, clang-tidy, and clang-tidy with the checks of scan-build look at.
skipped=
if [ "${SHORT:-}" ] && { [ -z "$same" ] || [ "$(wc -l <"$work/changed")" -gt 60 ]; }; then
    skipped=scan-build,-and-fanalyzer-of-all-rooms
    grep -E '^src/(base|data|recipe)/' "$work/sources" >"$work/gcc"
    if [ "$clang" ]; then cat "$work/sources"; else skipped=$skipped,-no-clang-tidy; fi >"$work/tidy"
    : >"$work/paths"
else
    cp "$work/changed" "$work/gcc"
    cp "$work/changed" "$work/paths"
    : >"$work/tidy"
fi
for kind in gcc tidy paths; do each $kind <"$work/$kind"; done >"$work/all"

sed -nE "s|^$PWD/||; s/^([^ :]*):([0-9]+):[0-9]+: (warning|error): (.*) \[-?W?([^][]*)\]\$/\1 \5 \2 \4/p" "$work/all" |
    grep -E '^[^ ]* (analyzer|bugprone|cert|clang)-' | sort -u >"$work/found"
grep -v '^#' $known | awk 'NF {print $1, $2}' | sort -u >"$work/known"
awk 'FNR == NR {known[$1 " " $2] = 1; next} !(($1 " " $2) in known)' "$work/known" "$work/found" >"$work/new"
for kind in gcc tidy paths; do sed "s/\$/ $kind/" "$work/$kind"; done >"$work/looked"
sed 's/$/ tidy/' "$work/paths" >>"$work/looked"
awk 'function kind(check) {return check ~ /^analyzer/ ? "gcc" : check ~ /^clang-analyzer/ ? "paths" : "tidy"}
    FILENAME ~ /looked$/ {looked[$1 " " $2] = 1; next}
    FILENAME ~ /found$/ {found[$1 " " $2] = 1; next}
    (($1 " " kind($2)) in looked) && !(($1 " " $2) in found)' \
    "$work/looked" "$work/found" "$work/known" >"$work/gone"
while read -r file check; do [ -e "$file" ] || echo "$file $check"; done <"$work/known" >>"$work/gone"
awk '{file = $1; check = $2; line = $3; $1 = $2 = $3 = ""; print file ":" line ":" $0 " [" check "]"}' "$work/new"
sed "s|^|$known: nothing is found for: |" "$work/gone"
echo "$(wc -l <"$work/found") findings, $(wc -l <"$work/new") of them without a reason in $known"
# Nothing is recorded where a fault is in a header: any of the files may have it.
[ "${SHORT:-}" ] || grep -q '^[^ ]*\.h ' "$work/new" ||
    awk 'FILENAME !~ /now$/ {fault[$1] = 1; next} /^#/ || !($2 in fault)' "$work/new" "$work/gone" "$work/now" >$record
failed=$(cat "$work/new" "$work/gone" | wc -l)
if [ "${RESULTS:-}" ]; then
    echo "$(wc -l <"$work/sources") $failed 0 analyze" >>"$RESULTS"
    [ -z "$skipped" ] || echo "0 0 1 $skipped" >>"$RESULTS"
fi
[ "$failed" -eq 0 ] && [ -s "$work/sources" ]
