/* For kernel tests: numbers from a seed, the tiers of this machine, and buffers between guard bytes
 * that no kernel may touch. */
#ifndef LL_GUARD_H
#define LL_GUARD_H

#include "test.h"

#include "kernel/kernel.h"

/* AddressSanitizer also sees reads outside: the guard bytes are poisoned while they exist. */
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

enum { GUARD = 32 }; /* floats on each side, more than any vector */

/* splitmix64: independent of the library's own generator. */
static inline uint64_t next64(uint64_t *seed) {
    uint64_t z = *seed += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}
static inline int below(uint64_t *seed, int n) {
    return (int)(next64(seed) % (uint64_t)n);
}
/* Uniform in (-1, 1). */
static inline float signed_one(uint64_t *seed) {
    return (float)(next64(seed) >> 40) * 0x1p-23f - 1;
}

/* Tier number i of those that this machine runs, or NULL. */
static inline const ll_kernels *tier_at(int i) {
    static const char *const names[] = {"scalar", "avx2", "avx512", "avx512bf16", "neon", "neonbf16", "wasm"};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        const ll_kernels *k = ll_kernel_tier(names[n]);
        if (k && i-- == 0) return k;
    }
    return NULL;
}

/* A buffer of n floats that starts `shift` floats past an aligned address. */
typedef struct {
    float *p, *block;
    size_t n, shift;
} guarded;

static inline guarded guard(size_t n, size_t shift) {
    const size_t total = n + shift + 2 * GUARD;
    guarded g = {NULL, aligned_alloc(64, (total * sizeof(float) + 63) / 64 * 64), n, shift};
    assert_non_null(g.block);
    memset(g.block, 0x5a, total * sizeof(float));
    g.p = g.block + GUARD + shift;
    ASAN_POISON_MEMORY_REGION(g.block, (GUARD + shift) * sizeof(float));
    ASAN_POISON_MEMORY_REGION(g.p + n, GUARD * sizeof(float));
    return g;
}
static inline guarded guard_random(size_t n, size_t shift, uint64_t *seed) {
    guarded g = guard(n, shift);
    for (size_t i = 0; i < n; i++) g.p[i] = signed_one(seed);
    return g;
}
/* Frees; fails if a guard changed. */
static inline void guard_end(guarded g, const char *what, const char *tier) {
    const unsigned char *byte = (const unsigned char *)g.block, *from = (const unsigned char *)g.p;
    const size_t front = (size_t)(from - byte), back = GUARD * sizeof(float), body = g.n * sizeof(float);
    ASAN_UNPOISON_MEMORY_REGION(g.block, (2 * GUARD + g.shift + g.n) * sizeof(float));
    for (size_t i = 0; i < front; i++)
        if (byte[i] != 0x5a) fail_msg("%s %s: wrote %zu bytes in front of an array of %zu", tier, what, front - i, g.n);
    for (size_t i = 0; i < back; i++)
        if (from[body + i] != 0x5a) fail_msg("%s %s: wrote %zu bytes past an array of %zu", tier, what, i, g.n);
    free(g.block);
}

/* |got - expect| <= allowed for one number; NaN fails unless expected. */
static inline void near(const char *tier, const char *what, size_t n, size_t at, uint64_t seed, double got,
                        double expect, double allowed) {
    if (got == expect || fabs(got - expect) <= allowed || (isnan(got) && isnan(expect))) return;
    fail_msg("%s %s: size %zu, place %zu, seed %llx: %.9g, expected %.9g; error %.3g, allowed %.3g", tier, what, n, at,
             (unsigned long long)seed, got, expect, fabs(got - expect), allowed);
}

#endif
