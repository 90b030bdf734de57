/* bfloat16: the upper half of a float. */
#ifndef LL_BF16_H
#define LL_BF16_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A bfloat16 as a float. This is exact. */
static inline float ll_bf16_to_float(uint16_t bf16) {
    const uint32_t bits = (uint32_t)bf16 << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Rounded to nearest, ties to even. A NaN stays a NaN, and subnormal numbers are rounded like others. */
static inline uint16_t ll_bf16_from_float(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const int nan = (bits & 0x7fffffffu) > 0x7f800000u;
    return (uint16_t)(nan ? bits >> 16 | 0x40 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline void ll_bf16_round(uint16_t *to, const float *from, size_t n) {
    for (size_t i = 0; i < n; i++) to[i] = ll_bf16_from_float(from[i]);
}

static inline void ll_bf16_floats(float *to, const uint16_t *from, size_t n) {
    for (size_t i = 0; i < n; i++) to[i] = ll_bf16_to_float(from[i]);
}

#endif
