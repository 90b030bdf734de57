/* Floats in 16 bits: the upper half of a float, rounded to nearest, ties to even. */
#ifndef LL_BF16_H
#define LL_BF16_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline void ll_bf16_round(uint16_t *to, const float *from, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint32_t x;
        memcpy(&x, &from[i], sizeof x);
        /* Infinities and NaN stay so. */
        to[i] = (uint16_t)((x & 0x7f800000u) == 0x7f800000u ? x >> 16 | ((x & 0xffffu) != 0)
                                                             : (x + 0x7fffu + (x >> 16 & 1)) >> 16);
    }
}

static inline void ll_bf16_floats(float *to, const uint16_t *from, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const uint32_t x = (uint32_t)from[i] << 16;
        memcpy(&to[i], &x, sizeof x);
    }
}

#endif
