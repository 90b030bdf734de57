/* Cross-entropy with a target, and divergence from a teacher, of one row of logits. */
#include "base/integer.h"
#include "model/layer/soft_loss.h"

#include <math.h>

enum { BLOCK = 256 };

/* log sum exp(x / t), in blocks that stay in L1. */
static double log_sum(const ll_kernels *k, int n, const float *x, float inverse) {
    const float top = k->max((size_t)n, x);
    float e[BLOCK];
    double sum = 0;
    for (int from = 0; from < n; from += BLOCK) {
        const int m = ll_min_int(n - from, BLOCK);
        for (int i = 0; i < m; i++) e[i] = (x[from + i] - top) * inverse;
        k->exp((size_t)m, e, e);
        for (int i = 0; i < m; i++) sum += (double)e[i];
    }
    return (double)(top * inverse) + log(sum);
}

/* z becomes p - p', softmax of x / t and of z / t; returns KL(p' || p) = sum p' (log p' - log p). */
static double compare(const ll_kernels *k, int n, const float *x, float *z, float inverse) {
    const double own = log_sum(k, n, x, inverse), other = log_sum(k, n, z, inverse);
    float p[BLOCK], q[BLOCK], ratio[BLOCK];
    double divergence = 0;
    for (int from = 0; from < n; from += BLOCK) {
        const int m = ll_min_int(n - from, BLOCK);
        for (int i = 0; i < m; i++) {
            p[i] = (float)((double)(x[from + i] * inverse) - own);
            q[i] = (float)((double)(z[from + i] * inverse) - other);
            ratio[i] = q[i] - p[i];
        }
        k->exp((size_t)m, p, p);
        k->exp((size_t)m, q, q);
        for (int i = 0; i < m; i++) {
            if (q[i] > 0) divergence += (double)q[i] * (double)ratio[i];
            z[from + i] = p[i] - q[i];
        }
    }
    return divergence;
}

double ll_soft_loss(const ll_kernels *k, int n, float *x, float *z, int target, double weight, double temperature,
                    float scale) {
    const double divergence = compare(k, n, x, z, (float)(1 / temperature));
    /* d (t^2 KL) / dx = t (p - p') */
    k->scale((size_t)n, (float)(weight * temperature) * scale, z);
    const float hard = k->softmax_loss(n, x, target, (float)(1 - weight) * scale);
    k->add((size_t)n, z, x);
    return (1 - weight) * (double)hard + weight * temperature * temperature * divergence;
}
