/* Products with the rows of a tile: in float, or of numbers that are rounded to bfloat16 first (kernel.h). */
#ifndef LL_TILE_PRODUCT_H
#define LL_TILE_PRODUCT_H

#include "kernel/kernel.h"

/* A matrix by which rows are multiplied; its rows are ld apart. pairs: its rows 2i and 2i + 1 as row i, in pairs of
 * bfloat16. NULL: products are in float. */
typedef struct {
    const float *x, *pairs;
    size_t ld;
} ll_factor;

/* Rows 2i and 2i + 1 of x (rows, n) become row i of `pairs`, in rows n apart. The last row may have no second one. */
void ll_pair_rows(const ll_kernels *k, int rows, int n, const float *x, size_t ldx, float *pairs);
/* out (n, N) = x (n, K) w (K, N), or += if `add`. buffer: n (K + 1) / 2 floats for bfloat16; it may be x. */
void ll_tile_product(const ll_kernels *k, int n, int N, int K, const float *x, size_t ldx, ll_factor w, float *buffer,
                     float *out, size_t ldo, int add, ll_prefetch *next);
/* A weight of 0 times a value that is not finite would be NaN. So a product is made without such values, which become 0
 * in x; then those of each row v of values are added to the rows of out whose weight for v (ldw apart) is not 0. */
void ll_zero_nonfinite(int rows, int n, float *x, size_t ld);
void ll_add_nonfinite(int rows, int n, const float *weight, size_t ldw, const float *v, float *out, size_t ldo);
/* sum (M, N) += x^T y of x (n, M) and y (n, N). buffer: (n + 1) / 2 (M + N) floats for bfloat16; NULL: in float. */
void ll_tile_sum(const ll_kernels *k, int n, int M, int N, const float *x, size_t ldx, const float *y, size_t ldy,
                 float *buffer, float *sum, size_t ld, ll_prefetch *next);

#endif
