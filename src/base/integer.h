/* Whole numbers: minimum and maximum, quotient rounded up, powers of two, big-endian bytes. */
#ifndef LL_INTEGER_H
#define LL_INTEGER_H

#include <stddef.h>
#include <stdint.h>

static inline int ll_min_int(int a, int b) { return a < b ? a : b; }
static inline int ll_max_int(int a, int b) { return a > b ? a : b; }
static inline size_t ll_min_size(size_t a, size_t b) { return a < b ? a : b; }
static inline size_t ll_max_size(size_t a, size_t b) { return a > b ? a : b; }
static inline int64_t ll_min_int64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t ll_max_int64(int64_t a, int64_t b) { return a > b ? a : b; }

/* n / unit, rounded up: the number of pieces of that size that cover n. */
static inline int ll_ceil_div(int n, int unit) { return (n + unit - 1) / unit; }
static inline size_t ll_ceil_div_size(size_t n, size_t unit) { return (n + unit - 1) / unit; }

/* The smallest multiple of unit that is at least n. */
static inline size_t ll_round_up(size_t n, size_t unit) { return ll_ceil_div_size(n, unit) * unit; }

/* The number of n <= 4 bytes, the most significant first. */
static inline uint32_t ll_big_endian(const uint8_t *p, int n) {
    uint32_t x = 0;
    for (int i = 0; i < n; i++) x = x << 8 | p[i];
    return x;
}

static inline int ll_is_power_of_two(int n) { return n > 0 && (n & (n - 1)) == 0; }

#endif
