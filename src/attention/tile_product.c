/* Products with the rows of a tile. */
#include "attention/tile_product.h"

#include <math.h>

#include "base/integer.h"

void ll_pair_rows(const ll_kernels *k, int rows, int n, const float *x, size_t ldx, float *pairs) {
    for (int i = 0; i < rows; i += 2, x += 2 * ldx, pairs += n)
        k->interleave_bf16((size_t)n, x, i + 1 < rows ? x + ldx : NULL, pairs);
}

void ll_tile_product(const ll_kernels *k, int n, int N, int K, const float *x, size_t ldx, ll_factor w, float *buffer,
                     float *out, size_t ldo, int add, ll_prefetch *next) {
    const int terms = ll_ceil_div(K, 2);
    if (!w.pairs) {
        k->gemm_prefetch(n, N, K, x, ldx, 1, w.x, w.ld, out, ldo, add, next);
        return;
    }
    for (int i = 0; i < n; i++) k->to_bf16((size_t)K, x + (size_t)i * ldx, buffer + (size_t)i * (size_t)terms);
    k->gemm_bf16(n, N, terms, buffer, (size_t)terms, 1, w.pairs, w.ld, out, ldo, add, next);
}

void ll_zero_nonfinite(int rows, int n, float *x, size_t ld) {
    for (int i = 0; i < rows; i++, x += ld)
        for (int e = 0; e < n; e++)
            if (!isfinite(x[e])) x[e] = 0;
}

void ll_add_nonfinite(int rows, int n, const float *weight, size_t ldw, const float *v, float *out, size_t ldo) {
    for (int e = 0; e < n; e++)
        for (int i = 0; i < rows && !isfinite(v[e]); i++)
            if (weight[(size_t)i * ldw] != 0) out[(size_t)i * ldo + (size_t)e] += weight[(size_t)i * ldw] * v[e];
}

void ll_tile_sum(const ll_kernels *k, int n, int M, int N, const float *x, size_t ldx, const float *y, size_t ldy,
                 float *buffer, float *sum, size_t ld, ll_prefetch *next) {
    const int terms = ll_ceil_div(n, 2);
    if (!buffer) {
        k->gemm_prefetch(M, N, n, x, 1, ldx, y, ldy, sum, ld, 1, next);
        return;
    }
    float *second = buffer + (size_t)terms * (size_t)M;
    ll_pair_rows(k, n, M, x, ldx, buffer);
    ll_pair_rows(k, n, N, y, ldy, second);
    k->gemm_bf16(M, N, terms, buffer, 1, (size_t)M, second, (size_t)N, sum, ld, 1, next);
}
