/* Rotates pairs of channels by angles that grow with the position (RoPE, Su et al. 2021): of queries and keys (rope),
 * or of features (rope-linear). */
#include <math.h>

#include "attention/position/postmap.h"
#include "attention/position/premap.h"
#include "attention/position/rotation.h"
#include "base/memory.h"

static const double PI = 3.14159265358979323846;

static double scaled(const ll_rope_scaling *s, double angle) {
    if (!(s->factor > 1)) return angle;
    const double turns = s->length * angle / (2 * PI);
    const double kept = s->length > 0 ? fmin(fmax((turns - s->low) / (s->high - s->low), 0), 1) : 0;
    return angle * (kept + (1 - kept) / s->factor);
}

/* A table of n angles: the given ones, or those of RoPE over so many channels. What lies behind these has the angle 0.
 */
static ll_status create_table(void **own, size_t n, const float *given, double base, int channels,
                              const ll_rope_scaling *scaling) {
    ll_rotation_table *table = *own = ll_alloc(1, sizeof *table);
    double *angle = ll_alloc(n, sizeof *angle);
    for (size_t t = 0; t < n && angle; t++) {
        const double plain = 2 * t < (size_t)channels ? pow(base, -2 * (double)t / channels) : 0;
        angle[t] = given ? (double)given[t] : scaled(scaling, plain);
    }
    const ll_status status = table && angle ? ll_rotation_table_create(table, 1, n, angle) : LL_ENOMEM;
    ll_free(angle);
    return status;
}

static void free_table(void *own) {
    ll_rotation_table_free(own);
    ll_free(own);
}

/* ---- After the feature map: rope-linear ---- */

static ll_status check_features(const ll_attention_config *c) {
    const int features = ll_feature_count(c);
    if (features % 2) return ll_fail(LL_EINVAL, "attention: rope rotates pairs, %d features are odd", features);
    return ll_rotation_check(c, "rope-linear");
}

static ll_status create_angles(ll_feature_map *map) {
    return create_table(&map->own, (size_t)map->features / 2, map->c.encoding.theta, 10000, map->features,
                        &(ll_rope_scaling){0});
}

static void rotate(const ll_feature_tile *t, const ll_epilogue *epilogue, const float *in, size_t ldi, float *out,
                   size_t ldo) {
    (void)epilogue;
    ll_rotation_table_apply(t->map->own, t->head, 0, t->C, t->x, in, ldi, out, ldo);
}

static void rotate_back(const ll_feature_tile *t, const ll_epilogue *epilogue, float *in, size_t ldi, float *out,
                        size_t ldo) {
    (void)epilogue;
    ll_rotation_table_apply(t->map->own, t->head, 1, t->C, t->x, in, ldi, out, ldo);
}

static double cost_of_features(const ll_feature_map *map) {
    return 2.0 * map->features;
}

const ll_postmap_kind ll_postmap_rope = {.in_place = 1,
                                         .numerator = 1,
                                         .check = check_features,
                                         .create = create_angles,
                                         .free = free_table,
                                         .cost = cost_of_features,
                                         .forward = rotate,
                                         .back = rotate_back};

/* ---- Before the feature map: rope ---- */

static ll_status check_scaling(const ll_rope_scaling *s) {
    if (s->factor == 0 || s->factor == 1) return LL_OK;
    if (!(s->factor > 1 && isfinite(s->factor)))
        return ll_fail(LL_EINVAL, "attention: rope's angles are divided by %g; it must be at least 1", s->factor);
    if (!(s->length >= 0 && isfinite(s->length)) || (s->length > 0 && !(s->low >= 0 && s->high > s->low)))
        return ll_fail(LL_EINVAL,
                       "attention: rope's angles are divided where they turn %g to %g times within %g tokens; this "
                       "needs 0 <= low < high and a length of at least 0",
                       s->low, s->high, s->length);
    return LL_OK;
}

static ll_status check(const ll_attention_config *c) {
    if (c->encoding.rotary < 0 || c->encoding.rotary > c->D || c->encoding.rotary % 2)
        return ll_fail(LL_EINVAL, "attention: rope rotates an even number of channels up to %d, not %d", c->D,
                       c->encoding.rotary);
    if (!(c->encoding.base >= 0 && isfinite(c->encoding.base)))
        return ll_fail(LL_EINVAL, "attention: rope's base is %g; it must be above 0, or 0 for 10000", c->encoding.base);
    if (c->D % 2 && !c->encoding.rotary)
        return ll_fail(LL_EINVAL,
                       "attention: rope rotates pairs, and a query size of %d is odd; set rotary to a smaller, "
                       "even number",
                       c->D);
    return check_scaling(&c->encoding.scaling);
}

static int width(const ll_attention_config *c) {
    return c->D;
}
static ll_status create(ll_premap *b) {
    const ll_position_config *w = &b->c.encoding;
    return create_table(&b->own, (size_t)b->c.D / 2, w->theta, w->base > 0 ? w->base : 10000,
                        w->rotary ? w->rotary : b->c.D, &w->scaling);
}
static size_t scratch(const ll_premap *b) {
    return LL_PREMAP_TILE * (size_t)b->c.D;
}

/* work: cos and sin of each token and pair. */
static void prepare(const ll_premap_tile *t) {
    ll_rotation_table_at(t->b->own, t->t0, t->C, t->work, (size_t)t->b->c.D);
}

/* An odd channel is the last, and stays. */
static void rotate_rows(const ll_premap_tile *t, int n, int back, const float *in, size_t token, float *out,
                        size_t ldo) {
    const size_t D = (size_t)t->b->c.D;
    t->k->rotate_pairs(n, D / 2, back, t->work, D, in, token, out, ldo);
    for (size_t i = 0; i < (size_t)n && D % 2; i++) out[i * ldo + D - 1] = in[i * token + D - 1];
}

static void forward(const ll_premap_tile *t, int side, int n, const float *in, size_t token, float *out, size_t ldo) {
    (void)side;
    rotate_rows(t, n, 0, in, token, out, ldo);
}

static void back(const ll_premap_tile *t, int side, int n, const float *in, size_t token, const float *dout, size_t ldd,
                 float *din, size_t dtoken, double *sum) {
    (void)side, (void)in, (void)token, (void)sum;
    rotate_rows(t, n, 1, dout, ldd, din, dtoken);
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
    .free = free_table,
    .scratch = scratch,
    .cost = cost,
    .prepare = prepare,
    .forward = forward,
    .back = back,
};
