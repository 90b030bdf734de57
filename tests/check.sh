#!/bin/sh
# make check: tests/check.sh BUILD MAKE JOBS. Builds and tests in every way, one after the other, and goes on after a
# failure. The last line counts all.
set -u
build=$1/check make=$2 jobs=$3
results=$build/results
failed_steps=
start=$(date +%s)
mkdir -p "$build"
: >"$results"
export RESULTS="$results"
unset MAKEFLAGS MFLAGS LL_CPU LL_THREADS OMP_NUM_THREADS NO_COLOR

# step NAME MAKE-ARGUMENT... All steps have the same flags, since other flags make the next step build everything again.
step() {
    name=$1
    shift
    echo
    echo "== $name"
    name=$(echo "$name" | tr ' ' '-')
    before=$(wc -l <"$results") began=$(date +%s) failed=
    $make --no-print-directory -j"$jobs" B="$build" WERROR=-Werror RESULTS="$results" "$@" </dev/null || failed=1
    echo "   $(($(date +%s) - began)) s"
    [ "$failed" ] || return 0
    failed_steps="$failed_steps $name,"
    # A failed step without a counted failure, because it did not build, counts as one.
    tail -n +$((before + 1)) "$results" | awk '$2 > 0 {n++} END {exit !n}' || echo "0 1 0 $name" >>"$results"
}

# with PROGRAM STEP...: a step that needs a program.
with() {
    if command -v "$1" >/dev/null; then shift && step "$@"; else echo "0 0 1 no-$1" >>"$results"; fi
}

step packages deps
step build all examples
step tests tests
step "plain kernels, and numbers with a decimal comma" scalar
step "the program as a user runs it" cli-tests
# trouble.c knows only the registers of x86-64.
[ "$(uname -m)" != x86_64 ] || step "trouble on order" trust-short
step python python
step "house rules" lint
step "static checks" analyze-short
with valgrind valgrind valgrind
step "sanitizers and fuzz corpora" asan
with clang clang clang
step aarch64 aarch64
step "WebAssembly, in Node and a browser" wasm-check

echo
awk '$3 > 0 {print "not tried: " $4 " (" $3 ")"}' "$results"
awk '$2 > 0 {print "FAILED: " $4 " (" $2 ")"}' "$results"
[ -z "$failed_steps" ] || echo "steps with failures:${failed_steps%,}"
echo "$(($(date +%s) - start)) seconds"
awk '{p += $1; f += $2; s += $3} END {printf "%d passed, %d failed, %d not tried\n", p, f, s; exit f > 0 || p == 0}' "$results"
