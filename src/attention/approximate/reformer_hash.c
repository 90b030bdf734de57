/* The hash of reformer: the bucket of a query in a round, and the key that the query becomes. */
#include <math.h>

#include "attention/approximate/reformer.h"

static const float *rotation(const ll_attention *op, int round, int h) {
    const size_t n = (size_t)op->D * (size_t)(op->c.approximate.buckets / 2);
    return op->c.approximate.rotations + ((size_t)round * (size_t)op->c.H + (size_t)h) * n;
}

void ll_reformer_hash(const ll_attention *op, const ll_kernels *k, int round, int h, int n, const float *q, size_t ldq,
                      float *work, int *bucket) {
    const int half = op->c.approximate.buckets / 2;
    k->gemm(n, half, op->D, q, ldq, 1, rotation(op, round, h), (size_t)half, work, (size_t)half, 0);
    for (int i = 0; i < n; i++, work += half) {
        float best = -INFINITY;
        bucket[i] = 0;
        for (int a = 0; a < 2 * half; a++) {
            const float x = a < half ? work[a] : -work[a - half];
            if (x > best) best = x, bucket[i] = a;
        }
    }
}

float ll_reformer_inverse(const ll_attention *op, const ll_kernels *k, const float *q) {
    const float square = k->dot((size_t)op->D, q, q);
    return square > 1e-24f ? 1 / sqrtf(square) : 0; /* a vector without a direction is a key of zeros */
}
