/* Positive random features of the softmax kernel (FAVOR+, Choromanski et al. 2021, lemma 1):
 *
 *   phi = e^(u - n - c) [+ eps]        u = W x, n = |x|^2 / 2; hyperbolic features are those of [W; -W]
 *
 * The stabiliser c is a power of two for each token, or what a released rule says. */
#include "attention/feature/features.h"

static float half_square(const ll_feature_tile *t, int i) {
    return ll_half_square(t->map, t->k, t->in + (size_t)i * t->token);
}

/* The largest exponent of a token, as released rules take it. */
static float largest(const ll_feature_tile *t, const float *u, float n) {
    return t->k->max((size_t)t->map->features, u) - (t->map->c.max_of_u ? 0 : n);
}

/* ---- In units of powers of two, to which no eps is added ---- */

/* The same, no further than their exponents go. */
static float largest_in_units(const ll_feature_tile *t, const float *u, float n) {
    const float top = largest(t, u, n), far = LL_EXP2_FAR * 0.693147181f;
    return top > far ? far : top < -far ? -far : top;
}

static void forward(const ll_feature_tile *t, const float *u, size_t ld, float *phi, int *exponent, float *top) {
    for (int i = 0; i < t->C; i++, u += ld, phi += t->map->ld) {
        const float n = half_square(t, i);
        if (top) top[i] = largest_in_units(t, u, n);
        exponent[i] = t->k->exp2_rows((size_t)t->map->features, n, u, phi);
    }
}

static void back(const ll_feature_tile *t, const float *phi, ll_tile_rows d, ll_tile_rows to, float *sum,
                 double *dtop) {
    const size_t m = (size_t)t->map->features;
    (void)to, (void)dtop; /* a projection follows, so that `to` is d */
    for (int i = 0; i < t->C; i++, phi += t->map->ld, d.at += d.ld) {
        t->k->mul(m, phi, d.at);
        sum[i] = t->k->sum(m, d.at);
    }
}

static ll_epilogue epilogue(const ll_feature_tile *t, const float *u, size_t ld, float *shift, int *exponent,
                            float *top) {
    for (int i = 0; i < t->C; i++, u += ld) {
        shift[i] = half_square(t, i);
        if (top) top[i] = largest_in_units(t, u, shift[i]);
        exponent[i] = t->k->exp2_exponent((size_t)t->map->features, &shift[i], u);
    }
    return (ll_epilogue){.kind = LL_EPILOGUE_EXP, .shift = shift, .exponent = exponent};
}

static ll_epilogue epilogue_back(const ll_feature_tile *t, const float *phi, const float *dphi, float *sum) {
    const size_t ld = (size_t)t->map->ld;
    for (int i = 0; i < t->C; i++)
        sum[i] = t->k->dot((size_t)t->map->features, dphi + (size_t)i * ld, phi + (size_t)i * ld);
    return (ll_epilogue){.kind = LL_EPILOGUE_TIMES, .factor = phi, .ld = ld};
}

/* ---- As released rules scale them ---- */

/* Has each query a maximum of its own? */
static int query_rule(const ll_feature_map *map) { return map->c.query_max != LL_MAX_NONE; }

static void fixed(const ll_feature_tile *t, const float *u, size_t ld, float *phi, int *exponent, float *top) {
    const ll_feature_map *map = t->map;
    const int own = t->side == LL_QUERY && query_rule(map);
    for (int i = 0; i < t->C; i++, u += ld, phi += map->ld) {
        const float n = half_square(t, i), best = top || own ? largest(t, u, n) : 0;
        const float c = t->side == LL_KEY ? t->shift : own ? best : 0;
        if (top) top[i] = best;
        exponent[i] = 0;
        t->k->exp_shift((size_t)map->features, n + c, map->root, map->c.feature_eps, u, phi);
    }
}

/* The gradient at the exponents E of a row: with the exponential part f = phi - eps/sqrt(M), dE = dphi f. Returns the
 * sum of dE, without the part that the stabiliser cancels. If the maximum is differentiated, -sum(dE) is added at it.
 */
static float fixed_row_back(const ll_feature_tile *t, const float *phi, float *dphi, double *dtop) {
    const ll_feature_map *map = t->map;
    const float eps = map->c.feature_eps * map->root;
    float total = 0;
    int best = 0;
    for (int a = 0; a < map->features; a++) {
        dphi[a] *= phi[a] - eps;
        total += dphi[a];
        if (phi[a] > phi[best]) best = a;
    }
    if (!map->c.max_gradient) return total;
    if (t->side == LL_KEY) {
        if (dtop) *dtop -= (double)total;
        return total;
    }
    if (!query_rule(map)) return total;
    dphi[best] -= total;
    return map->c.max_of_u ? total : 0;
}

static void fixed_back(const ll_feature_tile *t, const float *phi, ll_tile_rows d, ll_tile_rows to, float *sum,
                       double *dtop) {
    (void)to;
    for (int i = 0; i < t->C; i++, phi += t->map->ld, d.at += d.ld) sum[i] = fixed_row_back(t, phi, d.at, dtop);
}

static const ll_feature_family of_running = {
    .half_square = 1, .forward = forward, .back = back, .epilogue = epilogue, .epilogue_back = epilogue_back};
static const ll_feature_family of_fixed = {.half_square = 1, .forward = fixed, .back = fixed_back};

const ll_feature_family *ll_favor_family(const ll_feature_map *map, int side) {
    if (ll_is_trigonometric(&map->c)) return &ll_trigonometric_family;
    return map->phi[side] == LL_PHI_RUNNING ? &of_running : &of_fixed;
}
