/* In infinities and NaN all bits of the exponent are 1. The test checks many numbers at a time. */
#include "base/finite.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

size_t ll_find_infinite(const float *x, size_t n) {
    enum { PART = 1024 };
    uint32_t bits[PART];
    size_t i = 0;
    for (; n - i >= PART; i += PART) {
        uint32_t infinite = 0;
        memcpy(bits, x + i, sizeof bits);
        for (int j = 0; j < PART; j++) infinite |= (bits[j] & 0x7f800000) == 0x7f800000;
        if (infinite) break;
    }
    while (i < n && isfinite(x[i])) i++;
    return i;
}

const char *ll_name_infinite(double x) {
    return isnan(x) ? "not a number" : "infinite";
}
