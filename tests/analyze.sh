#!/bin/sh
# Static checks: tests/analyze.sh or `make analyze`. gcc's -fanalyzer looks at src, lab and cli (ROOMS), and so does clang-tidy
# (TIDY), with its checks bugprone and cert and, unless PATHS is empty, with those of scan-build (clang-analyzer), which take most of
# the time. Empty: at nothing. A finding is an error unless tests/analyze.txt has it, with the reason; so is a line of that file for
# which nothing is found; a check that ends by itself is one, too. With RESULTS, what was counted is added there.
set -u
known=tests/analyze.txt
: "${JOBS:=2}" "${ROOMS=src lab cli}" "${TIDY=src lab cli}" "${PATHS=1}"
# Not looked for: parameters that could be exchanged (a matter of taste); conversions (-Wconversion sees them); products that
# widen (factors are bounded where they are read); strcmp without "== 0" (the house's way); memcpy_s for memcpy (Annex K, which
# glibc has not); results of printf (files go through writer.c, which looks); the size of a pointer (tables of pointers are
# counted by sizeof), sums of counts that are widened after they are added, divisions that round down, loops over numbers with
# a point (ticks of an axis).
checks="-*,bugprone-*,cert-*${PATHS:+,clang-analyzer-*}"
checks="$checks,-bugprone-easily-swappable-parameters,-bugprone-narrowing-conversions"
checks="$checks,-bugprone-sizeof-expression,-bugprone-misplaced-widening-cast,-bugprone-integer-division,-cert-flp30-c"
checks="$checks,-bugprone-implicit-widening-of-multiplication-result,-bugprone-suspicious-string-compare,-cert-err33-c"
checks="$checks,-clang-analyzer-security.insecureAPI.DeprecatedOrUnsafeBufferHandling"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 130' HUP INT TERM
flags='-std=c17 -D_GNU_SOURCE -Iinclude -Isrc -Ilab -Icli -Wno-unused-result'
case $(uname -m) in x86_64) flags="$flags -mavx2 -mfma" ;; esac
sources() { find "$@" -name '*.c' | grep -vE 'avx512|neon|mpi_plugin|base/status' | LC_ALL=C sort; }
knows() { case $1 in cli/*) ;; *) echo "-include tests/analyze.h" ;; esac; }
export flags checks
# shellcheck disable=SC2046,SC2086,SC2016
{
    for room in $ROOMS; do
        sources $room | room=$(knows $room/) xargs -P "$JOBS" -n 4 sh -c 'for f; do
            gcc $flags $room -O1 -fanalyzer -c -o /dev/null "$f" 2>&1 ||
                echo "$f:1:1: error: gcc ended with status $? [analyzer-ended]"; done' _
    done
    [ -z "$TIDY" ] || sources $TIDY | room=$(knows src/) xargs -P "$JOBS" -n 1 sh -c '
        clang-tidy --quiet --checks="$checks" "$1" -- $flags $room 2>&1 ||
            echo "$1:1:1: error: clang-tidy ended with status $? [clang-ended]"' _
} >"$work/all"
sed -nE "s|^$PWD/||; s/^([^ :]*):([0-9]+):[0-9]+: (warning|error): (.*) \[-?W?([^][]*)\]\$/\1 \5 \2 \4/p" "$work/all" |
    grep -E '^[^ ]* (analyzer|bugprone|cert|clang)-' | sort -u >"$work/found"
grep -v '^#' $known | awk 'NF {print $1, $2}' | sort -u >"$work/known"
awk 'FNR == NR {known[$1 " " $2] = 1; next} !(($1 " " $2) in known)' "$work/known" "$work/found" >"$work/new"
sources $ROOMS | sed 's/$/ analyzer/' >"$work/looked"
for kind in tidy ${PATHS:+paths}; do
    [ -z "$TIDY" ] || sources $TIDY | sed "s/\$/ $kind/" >>"$work/looked"
done
awk 'function kind(check) {return check ~ /^analyzer/ ? "analyzer" : check ~ /^clang-analyzer/ ? "paths" : "tidy"}
    FILENAME ~ /looked$/ {looked[$1 " " $2] = 1; next}
    FILENAME ~ /found$/ {found[$1 " " $2] = 1; next}
    (($1 " " kind($2)) in looked) && !(($1 " " $2) in found)' \
    "$work/looked" "$work/found" "$work/known" >"$work/gone"
awk '{file = $1; check = $2; line = $3; $1 = $2 = $3 = ""; print file ":" line ":" $0 " [" check "]"}' "$work/new"
sed "s|^|$known: nothing is found for: |" "$work/gone"
echo "$(wc -l <"$work/found") findings, $(wc -l <"$work/new") of them without a reason in $known"
failed=$(cat "$work/new" "$work/gone" | wc -l)
[ -z "${RESULTS:-}" ] || echo "$(wc -l <"$work/looked") $failed 0 analyze" >>"$RESULTS"
[ "$failed" -eq 0 ] && [ -s "$work/looked" ]
