/* Calls with gates and gradients, for tests of states that calls pass on. */
#ifndef LL_CARRIED_H
#define LL_CARRIED_H

#include "attention/feature/maps.h"
#include "attention/table.h"
#include "base/memory.h"
#include "drawn.h"
#include "ragged.h"

enum { TENSORS = 10 };

/* The tensors of one call (1, H, T, D or E), and gradients of all parameters. */
typedef struct {
    int T;
    float *x[TENSORS]; /* q, k, v, g, y, dq, dk, dv, gate, dgate */
    learnt *d;
    float *mask; /* (T) of keys, or NULL */
} tensors;

static inline int width(int i) {
    return i >= 8 ? 1 : i == 0 || i == 1 || i == 5 || i == 6 ? D : E;
}

static inline tensors tensors_create(int T, uint64_t seed) {
    tensors t = {.T = T, .d = calloc(1, sizeof *t.d)};
    assert_non_null(t.d);
    for (int i = 0; i < TENSORS; i++) {
        t.x[i] = calloc((size_t)(H * T * width(i)) + 1, sizeof(float));
        assert_non_null(t.x[i]);
        for (int n = 0; n < H * T * width(i) && i < 4; n++) t.x[i][n] = (float)(0.8 * draw_normal(&seed));
        for (int n = 0; n < H * T && i == 8; n++) t.x[i][n] = (float)(-0.1 * draw_uniform(&seed));
    }
    return t;
}

static inline void tensors_free(tensors *t) {
    for (int i = 0; i < TENSORS; i++) free(t->x[i]);
    free(t->mask), free(t->d);
}

/* Two keys in five do not count, and none of a stretch of 30. */
static inline void tensors_mask(tensors *t) {
    t->mask = calloc((size_t)t->T, sizeof *t->mask);
    assert_non_null(t->mask);
    for (int i = 0; i < t->T; i++) t->mask[i] = i % 5 < 3 && (i < 90 || i >= 120);
}

static inline ll_view view(const tensors *t, int i, int from) {
    const size_t w = (size_t)width(i), head = w * (size_t)t->T;
    return (ll_view){t->x[i] + (size_t)from * w, H * head, head, w};
}

static inline ll_attention_call call_of(const ll_attention *op, tensors *t, int from, int queries, int keys) {
    ll_attention_call c = {.B = 1, .T = queries, .S = keys, .query_offset = from, .key_offset = from};
    c.q = view(t, 0, from), c.k = view(t, 1, from), c.v = view(t, 2, from), c.g = view(t, 3, from);
    c.y = view(t, 4, from), c.dq = view(t, 5, from), c.dk = view(t, 6, from), c.dv = view(t, 7, from);
    want(&c, t->d);
    c.key_mask = t->mask ? t->mask + from : NULL;
    if (op->gated) c.gate = view(t, 8, from), c.dgate = view(t, 9, from);
    return c;
}

static inline float *saved_for(const ll_attention *op, const ll_attention_call *c) {
    float *saved = calloc(ll_attention_saved(op, c) + 1, sizeof *saved);
    assert_non_null(saved);
    return saved;
}

typedef void pair_check(const ll_attention_config *c, const char *name);

/* Checks every kernel with every position that goes with it, and returns how many pairs there are. with_eps (NULL:
 * none) checks favor once more, with sums that an eps needs. Sums of weights of both signs may be near 0, so nothing is
 * divided by them here. */
static inline int check_pairs(int causal, pair_check *check, pair_check *with_eps) {
    char name[80];
    int ran = 0;
    make_numbers();
    for (int kernel = 0; kernel < KERNELS; kernel++)
        for (int position = 0; position < POSITIONS; position++) {
            ll_attention_config c;
            if (!describe(&c, kernel, position, causal, 0)) continue;
            const int moved = position == LL_POSITION_ROPE_LINEAR || position == LL_POSITION_ORTHOGONAL;
            const ll_map *map = ll_map_of(c.kernel);
            if ((map && map->sign) || position == LL_POSITION_ORTHOGONAL) c.den = LL_DEN_NONE;
            snprintf(name, sizeof name, "%s %s%s", kernel_names[kernel], position_names[position],
                     causal ? " causal" : "");
            check(&c, name);
            c.feature_eps = 1e-3f;
            if (with_eps && kernel == LL_KERNEL_FAVOR && causal && !moved) with_eps(&c, name);
            ran++;
        }
    return ran;
}

#endif
