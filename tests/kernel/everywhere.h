/* Checks row kernels in every tier of this machine, at sizes around the vector width, at unaligned addresses, in the
 * host's mode of floating point and in the library's. */
#ifndef LL_EVERYWHERE_H
#define LL_EVERYWHERE_H

#include "base/float_mode.h"
#include "guard.h"

typedef void check_fn(const ll_kernels *k, size_t n, size_t shift, uint64_t seed);

static inline void in_library_mode(check_fn *check, const ll_kernels *k, size_t n, size_t shift, uint64_t seed) {
    LL_FLOAT_MODE;
    check(k, n, shift, seed);
}

/* A check in every tier, size and misalignment. */
static inline void everywhere(check_fn *check) {
    static const int sizes[] = {0, 1, 2, 3, 7, 8, 9, 13, 15, 16, 17, 31, 32, 33, 61, 64, 97, 255, 256, 257};
    uint64_t seed = 1;
    const ll_kernels *k;
    for (int t = 0; (k = tier_at(t)); t++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (size_t shift = 0; shift < 4; shift++) {
                const uint64_t from = next64(&seed);
                check(k, (size_t)sizes[s], shift, from);
                in_library_mode(check, k, (size_t)sizes[s], shift, from);
            }
}

#endif
