/* Checks row kernels in every tier of this machine, at sizes around the vector width, at unaligned addresses. */
#ifndef LL_EVERYWHERE_H
#define LL_EVERYWHERE_H

#include "guard.h"

typedef void check_fn(const ll_kernels *k, size_t n, size_t shift, uint64_t seed);

/* A check in every tier, size and misalignment. */
static inline void everywhere(check_fn *check) {
    static const int sizes[] = {0, 1, 2, 3, 7, 8, 9, 13, 15, 16, 17, 31, 32, 33, 61, 64, 97, 255, 256, 257};
    uint64_t seed = 1;
    const ll_kernels *k;
    for (int t = 0; (k = tier_at(t)); t++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (size_t shift = 0; shift < 4; shift++) check(k, (size_t)sizes[s], shift, next64(&seed));
}

#endif
