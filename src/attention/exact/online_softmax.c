/* A row of softmax weights, tile by tile, with a running maximum and sum (Milakov and Gimelshein 2018). */
#include <math.h>
#include <string.h>

#include "attention/exact/exact.h"

void ll_exact_soften(const ll_kernels *k, int from, int to, int width, float *row, float *m, float *l, int E,
                     float *sum) {
    const int n = to - from;
    memset(row + to, 0, (size_t)(width - to) * sizeof *row);
    memset(row, 0, (size_t)from * sizeof *row);
    if (n == 0) return;
    row += from;
    const float top = fmaxf(*m, k->max((size_t)n, row));
    if (top > *m && *l > 0) {
        const float factor = expf(*m - top);
        *l *= factor;
        k->scale((size_t)E, factor, sum);
    }
    *m = top;
    *l += k->exp_sum((size_t)n, top, row, row);
}
