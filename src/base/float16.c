/* Numbers of 16 bits: IEEE's binary16 (F16) and bfloat16 (BF16). */
#include <math.h>

#include "base/bf16.h"
#include "base/safetensors.h"

float ll_float16_to_float(enum ll_dtype dtype, uint16_t bits) {
    if (dtype == LL_ST_BF16) return ll_bf16_to_float(bits);
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const float sign = bits >> 15 ? -1.0f : 1.0f;
    if (exponent == 31) return fraction ? NAN : sign * INFINITY;
    return sign * (exponent ? ldexpf((float)(fraction + 1024), exponent - 25) : ldexpf((float)fraction, -24));
}

/* Steps of binary16 are 2^(e - 10) where 2^e <= |x| < 2^(e+1), and 2^-24 below 2^-14. */
static uint16_t to_f16(float x) {
    const uint16_t sign = signbit(x) ? 0x8000 : 0;
    const float size = fabsf(x);
    int e = 0;
    if (isnan(x)) return (uint16_t)(sign | 0x7e00);
    if (size >= 65520) return (uint16_t)(sign | 0x7c00);
    if (size == 0) return sign;
    frexpf(size, &e);
    const int shift = e - 11 < -24 ? -24 : e - 11;
    const uint16_t steps = (uint16_t)rintf(ldexpf(size, -shift)); /* at most 2048: then the exponent grows by one */
    return (uint16_t)(sign | (steps + ((shift + 24) << 10)));
}

uint16_t ll_float16_from_float(enum ll_dtype dtype, float x) {
    return dtype == LL_ST_BF16 ? ll_bf16_from_float(x) : to_f16(x);
}
