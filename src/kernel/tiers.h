/* The kernel tables that exist. cpu.c chooses one of them. */
#ifndef LL_TIERS_H
#define LL_TIERS_H

#include "kernel/kernel.h"

extern const ll_kernels ll_scalar;
#if defined(__x86_64__)
extern const ll_kernels ll_avx2, ll_avx512, ll_avx512bf16;
#elif defined(__aarch64__)
extern const ll_kernels ll_neon, ll_neonbf16;
#elif defined(__wasm_simd128__)
extern const ll_kernels ll_wasm;
#endif

#endif
