#!/bin/sh
# Static checks: tests/analyze.sh FOLDER.. or `make analyze`. clang-tidy's checks bugprone and cert, and what scan-build runs
# (clang-analyzer), over every source file of the folders; with gcc 13 or later also its -fanalyzer, which in gcc 12 does not
# end on some files. A finding is an error unless tests/analyze.txt has it, with the reason.
set -u
known=tests/analyze.txt
checks='-*,bugprone-*,cert-*,clang-analyzer-*'
# Not looked for:
without='
bugprone-easily-swappable-parameters
bugprone-narrowing-conversions
bugprone-implicit-widening-of-multiplication-result
bugprone-suspicious-string-compare
clang-analyzer-security.insecureAPI.DeprecatedOrUnsafeBufferHandling
cert-err33-c
'
# - parameters that could be exchanged: two ints side by side are a matter of taste
# - conversions: gcc's -Wconversion, which the build has, sees the same
# - products that widen: the factors are bounded where they are read (dimensions, tiles)
# - strcmp without "== 0": the house's way to write it
# - memcpy_s for memcpy: Annex K, which glibc has not
# - the result of printf: what cannot be written to stderr cannot be told; files go through writer.c, which looks
for w in $without; do checks="$checks,-$w"; done
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 130' HUP INT TERM
simd=
case $(uname -m) in x86_64) simd='-mavx2 -mfma' ;; esac
find "$@" -name '*.c' | grep -vE 'avx512|neon|mpi_plugin' | LC_ALL=C sort >"$work/files"
# shellcheck disable=SC2086
xargs -P "${JOBS:-2}" -n 4 sh -c 'flags=$1; checks=$2; shift 2; clang-tidy --quiet --checks="$checks" "$@" -- -std=c17 -D_GNU_SOURCE \
    -Iinclude -Isrc -Ilab -Icli $flags 2>/dev/null' _ "$simd" "$checks" <"$work/files" |
    sed -n "s|^$PWD/||; s|^\([^:]*\):\([0-9]*\):[0-9]*: [a-z]*: \(.*\) \[\([^]]*\)\]\$|\1 \4 \2 \3|p" | sort -u >"$work/found"
grep -v '^#' $known | awk 'NF >= 2 {print $1, $2}' | sort -u >"$work/known"
awk 'FNR == NR {known[$1 " " $2] = 1; next} !(($1 " " $2) in known)' "$work/known" "$work/found" >"$work/new"
awk 'FNR == NR {found[$1 " " $2] = 1; next} !(($1 " " $2) in found)' "$work/found" "$work/known" |
    while read -r file check; do ! grep -qx "$file" "$work/files" || echo "$file $check"; done >"$work/gone"
awk '{file = $1; check = $2; line = $3; $1 = $2 = $3 = ""; print file ":" line ":" $0 " [" check "]"}' "$work/new"
sed "s|^|$known: no longer found: |" "$work/gone"
echo "$(wc -l <"$work/files") files, $(wc -l <"$work/found") findings, $(wc -l <"$work/new") of them without a reason in $known"
[ ! -s "$work/new" ] && [ ! -s "$work/gone" ] && [ -s "$work/files" ]
