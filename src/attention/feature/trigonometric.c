/* Trigonometric features of the softmax and the Gaussian kernel (Rahimi and Recht 2007):
 *
 *   phi = e^(n - c) [cos u_1 .. cos u_M, sin u_1 .. sin u_M] / sqrt(M)        u = W x, n = |x|^2 / 2
 *
 * The Gaussian kernel has no exponential. Weights may be negative, and divisors near 0; these features are here to
 * compare with. W has every row twice (feature_map.c), so that every feature has its own u, and a permutation can move
 * it. map->sine says which features are sines. */
#include <math.h>
#include <string.h>

#include "attention/feature/features.h"

static const double ln2 = 0.69314718055994530942;

static const unsigned char *sines(const ll_feature_tile *t) {
    return t->map->sine + (t->map->own_weight ? (size_t)t->head * (size_t)t->map->features : 0);
}

/* c of token i, from its n, if a released rule scales features. */
static float fixed_shift(const ll_feature_tile *t, float n) {
    const ll_max rule = t->side == LL_KEY ? t->map->c.key_max : t->map->c.query_max;
    if (t->side == LL_KEY || rule == LL_MAX_SEQUENCE) return t->shift;
    return rule == LL_MAX_NONE ? 0 : n;
}

/* The factor of the cosines and sines of token i. */
static float scale_of(const ll_feature_tile *t, int i, int *exponent, float *top) {
    const ll_feature_map *map = t->map;
    const float n = ll_half_square(map, t->k, t->in + (size_t)i * t->token);
    *exponent = 0;
    *top = n;
    if (map->c.features == LL_FEATURES_GAUSSIAN) return map->root;
    if (map->phi[t->side] != LL_PHI_RUNNING) return map->root * expf(n - fixed_shift(t, n));
    *exponent = (int)fmin(ceil((double)n / ln2), LL_EXP2_FAR);
    return ll_exp2_is_far(*exponent) ? 1 : (float)exp((double)n - *exponent * ln2);
}

static void forward(const ll_feature_tile *t, const float *u, size_t ld, float *phi, int *exponent, float *top) {
    const unsigned char *sine = sines(t);
    for (int i = 0; i < t->C; i++, u += ld, phi += t->map->ld) {
        float n;
        const float scale = scale_of(t, i, &exponent[i], &n);
        if (top) top[i] = n;
        for (int a = 0; a < t->map->features; a++) phi[a] = scale * (sine[a] ? sinf(u[a]) : cosf(u[a]));
    }
}

static void back(const ll_feature_tile *t, const float *u, size_t ld, float *buffer, ll_tile_rows d, ll_tile_rows to,
                 float *sum, double *dtop) {
    const ll_feature_map *map = t->map;
    const unsigned char *sine = sines(t);
    (void)buffer, (void)to; /* a projection follows, so that `to` is d */
    for (int i = 0; i < t->C; i++, u += ld, d.at += d.ld) {
        float *dphi = d.at;
        int none;
        float n, total = 0;
        sum[i] = 0;
        if (t->mask && t->mask[i] == 0) { /* it need not be a number, and dtop sums over all keys */
            memset(dphi, 0, (size_t)map->features * sizeof *dphi);
            continue;
        }
        const float scale = scale_of(t, i, &none, &n);
        for (int a = 0; a < map->features; a++) {
            const float c = scale * cosf(u[a]), s = scale * sinf(u[a]);
            total += dphi[a] * (sine[a] ? s : c);
            dphi[a] *= sine[a] ? c : -s;
        }
        sum[i] = map->c.features == LL_FEATURES_GAUSSIAN ? 0 : -total;
        if (map->phi[t->side] != LL_PHI_FIXED || !map->c.max_gradient) continue;
        if (dtop) *dtop -= (double)total;
        const int own = map->c.query_max != LL_MAX_NONE && map->c.query_max != LL_MAX_SEQUENCE;
        if (t->side == LL_QUERY && own) sum[i] = 0; /* n - c is 0 whatever x is */
    }
}

const ll_feature_family ll_trigonometric_family = {.half_square = 1, .forward = forward, .back_from_u = back};
