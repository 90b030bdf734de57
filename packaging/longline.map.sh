#!/bin/sh
# The version script of the shared core: packaging/longline.map.sh ABI VERSION OBJECT-OF-LAB... Public functions are those
# that include/longline/, longline-batch.h and longline-draft.h mark LL_API. What the objects of liblongline-lab take from
# inside the core is exported, too, under a version that only the lab of the same release asks for; everything else stays inside.
set -eu
export LC_ALL=C
abi=$1 version=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat include/longline/*.h include/longline-batch.h include/longline-draft.h | tr '\n' ' ' |
    grep -oE 'LL_API [^;]*;' | grep -oE '\bll_[a-z0-9_]+ ?\(' | tr -d ' (' |
    sort -u >"$work/public"
${NM:-nm} -g --defined-only "$@" | awk 'NF == 3 {print $3}' | sort -u >"$work/own"
${NM:-nm} -u "$@" | awk 'NF == 2 && $2 ~ /^ll_/ {print $2}' | sort -u | comm -23 - "$work/own" |
    comm -23 - "$work/public" >"$work/inside"
echo "LONGLINE_$abi {"
echo "    global:"
sed 's/.*/        &;/' "$work/public"
echo "    local: *;"
echo "};"
echo "LONGLINE_PRIVATE_$version {"
echo "    global:"
sed 's/.*/        &;/' "$work/inside"
echo "};"
