/* What the experiments with random features share: the estimators, their inputs, and their error. */
#include <math.h>

#include "analyse/analyse_internal.h"
#include "base/memory.h"
#include "base/random.h"

enum { D = LL_ESTIMATOR_SIZE };

const ll_estimator ll_estimators[LL_ESTIMATORS] = {
    {"orthogonal positive", LL_DRAW_ORTHOGONAL, LL_FEATURES_POSITIVE},
    {"iid positive", LL_DRAW_IID, LL_FEATURES_POSITIVE},
    {"orthogonal hyperbolic", LL_DRAW_ORTHOGONAL, LL_FEATURES_HYPERBOLIC},
    {"iid hyperbolic", LL_DRAW_IID, LL_FEATURES_HYPERBOLIC},
    {"orthogonal trigonometric", LL_DRAW_ORTHOGONAL, LL_FEATURES_TRIGONOMETRIC},
    {"iid trigonometric", LL_DRAW_IID, LL_FEATURES_TRIGONOMETRIC},
};

ll_status ll_estimator_draw(ll_attention_config *c, float **W, int estimator, int m, uint64_t seed, int layer,
                            int number) {
    const ll_estimator *as = &ll_estimators[estimator];
    const int M = as->kind == LL_FEATURES_POSITIVE ? m : m / 2;
    if (!(*W = ll_alloc((size_t)M * D, sizeof **W))) return LL_ENOMEM;
    *c = (ll_attention_config){.kernel = LL_KERNEL_FAVOR, .features = as->kind, .H = 1, .D = D, .E = D, .M = M};
    c->projection = *W;
    c->input_scale = (float)pow(D, -0.25);
    return ll_draw_projection(*W, M, D, as->draw, LL_NORMS_CHI, seed, layer, number);
}

ll_attention_config ll_exact_attention(void) {
    const float scale = (float)pow(D, -0.5);
    return (ll_attention_config){.kernel = LL_KERNEL_SOFTMAX, .H = 1, .D = D, .E = D, .input_scale = scale};
}

void ll_draw_inputs(const ll_analysis *how, uint32_t first, int number, size_t n, float *q, float *k, float *v) {
    const float spread = how->spread > 0 ? (float)how->spread : 1;
    float *const inputs[] = {q, k, v};
    for (uint32_t i = 0; i < 3; i++) {
        ll_normal_fill(inputs[i], n, how->seed, ll_stream_id(LL_RANDOM_ANALYSE, first + i, (uint32_t)number), 0);
        for (size_t e = 0; e < n && i < 2; e++) inputs[i][e] *= spread;
    }
}

double ll_square_error(size_t n, const float *a, const float *b, double *size) {
    double sum = 0;
    *size = 0;
    for (size_t i = 0; i < n; i++) {
        const double d = (double)a[i] - (double)b[i];
        sum += d * d;
        *size += (double)b[i] * (double)b[i];
    }
    return sum;
}
