/* Rotates pairs of channels by angles that grow with the position (RoPE, Su et al. 2021). Angles are products in
 * double, because in float they are off by 0.03 at token one million. */
#include <math.h>

#include "attention/position/postmap.h"
#include "attention/position/premap.h"
#include "base/memory.h"

/* sin and cos are called at multiples of ANCHOR. Between these a rotation by w costs four products. */
enum { ANCHOR = 64, BLOCK = 64 };

void ll_rotations(size_t n, const double *w, const double *size, const double *phase, int64_t t0, int C, float *out,
              size_t ldo) {
    const ll_kernels *k = ll_kernel_table();
    double c1[BLOCK], s1[BLOCK], c[BLOCK], s[BLOCK];
    for (size_t first = 0; first < n; first += BLOCK, out += 2 * BLOCK) {
        const size_t m = n - first < BLOCK ? n - first : BLOCK;
        for (size_t j = 0; j < m; j++) c1[j] = cos(w[first + j]), s1[j] = sin(w[first + j]);
        for (int i = 0, run; i < C; i += run) {
            const int past = (int)((t0 + i) % ANCHOR);
            run = C - i < ANCHOR - past ? C - i : ANCHOR - past;
            for (size_t j = 0; j < m; j++) {
                const double angle = (phase ? phase[first + j] : 0) + w[first + j] * (double)(t0 + i - past);
                const double r = size ? size[first + j] : 1;
                c[j] = r * cos(angle), s[j] = r * sin(angle);
            }
            k->sinusoids(m, c1, s1, c, s, past, NULL, 0);
            k->sinusoids(m, c1, s1, c, s, run, out + (size_t)i * ldo, ldo);
        }
    }
}

ll_status ll_theta_create(double **theta, const float *given, int n) {
    const size_t pairs = (size_t)n / 2;
    *theta = ll_alloc(pairs, sizeof **theta);
    if (!*theta) return LL_ENOMEM;
    for (size_t t = 0; t < pairs; t++) (*theta)[t] = given ? (double)given[t] : pow(10000, -2 * (double)t / n);
    return LL_OK;
}

void ll_rotate_features(const ll_feature_map *map, int head, int back, int C, const int64_t *position, const float *in,
                      size_t ldi, float *out, size_t ldo) {
    enum { TOKENS = 64, PAIRS = 64 };
    float cs[TOKENS * 2 * PAIRS];
    const size_t pairs = (size_t)map->features / 2;
    const double *w = map->angles + (map->basis ? (size_t)head * pairs : 0);
    for (int i = 0; i < C; i += TOKENS)
        for (size_t p = 0; p < pairs; p += PAIRS) {
            const size_t n = pairs - p < PAIRS ? pairs - p : PAIRS;
            const int rows = C - i < TOKENS ? C - i : TOKENS;
            ll_rotations(n, w + p, NULL, NULL, position[0] + i, rows, cs, 2 * PAIRS);
            ll_kernel_table()->rotate_pairs(rows, n, back, cs, 2 * PAIRS, in + (size_t)i * ldi + 2 * p, ldi,
                                            out + (size_t)i * ldo + 2 * p, ldo);
        }
}

/* ---- After the feature map: rope-linear ---- */

static ll_status create_angles(ll_feature_map *map) {
    return ll_theta_create(&map->angles, map->c.encoding.theta, map->features);
}

static void rotate(const ll_feature_map *map, const ll_kernels *k, int head, int C, const int64_t *x, const int64_t *y,
                   const ll_epilogue *epilogue, const float *in, size_t ldi, float *out, size_t ldo) {
    (void)k, (void)y, (void)epilogue;
    ll_rotate_features(map, head, 0, C, x, in, ldi, out, ldo);
}

static void rotate_back(const ll_feature_map *map, const ll_kernels *k, int head, int C, const int64_t *x,
                        const int64_t *y, const ll_epilogue *epilogue, float *in, size_t ldi, float *out, size_t ldo) {
    (void)k, (void)y, (void)epilogue;
    ll_rotate_features(map, head, 1, C, x, in, ldi, out, ldo);
}

static double cost_of_features(const ll_feature_map *map) {
    return 2.0 * map->features;
}

const ll_postmap_kind ll_postmap_rope = {
    .in_place = 1, .create = create_angles, .cost = cost_of_features, .forward = rotate, .back = rotate_back};

/* ---- Before the feature map: rope ---- */

static ll_status check(const ll_attention_config *c) {
    if (c->encoding.rotary < 0 || c->encoding.rotary > c->D || c->encoding.rotary % 2)
        return ll_fail(LL_EINVAL, "attention: rope turns an even number of channels up to %d, not %d", c->D,
                       c->encoding.rotary);
    if (!(c->encoding.base >= 0 && isfinite(c->encoding.base)))
        return ll_fail(LL_EINVAL, "attention: rope's base is %g; it must be above 0, or 0 for 10000", c->encoding.base);
    if (c->D % 2) return ll_fail(LL_EINVAL, "attention: rope turns pairs, a query size of %d is odd", c->D);
    return LL_OK;
}

static int width(const ll_attention_config *c) {
    return c->D;
}
static ll_status create(ll_premap *b) {
    const ll_position_config *w = &b->c.encoding;
    const int n = w->rotary ? w->rotary : b->c.D;
    const ll_status status = ll_theta_create(&b->theta, w->theta, b->c.D);
    for (int t = 0; !status && !w->theta && (w->base > 0 || w->rotary) && t < b->c.D / 2; t++)
        b->theta[t] = 2 * t < n ? pow(w->base > 0 ? w->base : 10000, -2 * (double)t / n) : 0;
    return status;
}
static size_t scratch(const ll_premap *b) {
    return LL_PREMAP_TILE * (size_t)b->c.D;
}

/* work: cos and sin of each token and pair. */
static void prepare(const ll_premap_tile *t) {
    const size_t D = (size_t)t->b->c.D;
    ll_rotations(D / 2, t->b->theta, NULL, NULL, t->t0, t->C, t->work, D);
}

static void forward(const ll_premap_tile *t, int side, int n, const float *in, size_t token, float *out, size_t ldo) {
    const size_t D = (size_t)t->b->c.D;
    (void)side;
    t->k->rotate_pairs(n, D / 2, 0, t->work, D, in, token, out, ldo);
}

static void back(const ll_premap_tile *t, int side, int n, const float *in, size_t token, const float *dout, size_t ldd,
                 float *din, size_t dtoken, double *sum) {
    const size_t D = (size_t)t->b->c.D;
    (void)side, (void)in, (void)token, (void)sum;
    t->k->rotate_pairs(n, D / 2, 1, t->work, D, dout, ldd, din, dtoken);
}

/* Pairs of channels, four products each. */
static double cost(const ll_premap *b) {
    return 4.0 * (b->c.encoding.rotary ? b->c.encoding.rotary : b->c.D);
}

const ll_premap_kind ll_premap_rope = {
    .same = 1,
    .check = check,
    .width = width,
    .create = create,
    .scratch = scratch,
    .cost = cost,
    .prepare = prepare,
    .forward = forward,
    .back = back,
};
