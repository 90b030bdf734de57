/* Heads without keys (relative-s2). A query weighs values by their distance alone, through learnt vectors w_0 .. w_k.
 *
 *   A_ij = a_D(i,j)     a_t = <phi(q_i), phi(w_t)>     D = min(distance, k)     y_i = sum_j A_ij v_j / sum_j A_ij
 *
 * All tokens but the few neighbours closer than k have the same weight. So with V, the sum of all values that i sees,
 *
 *   sum_j A_ij v_j = a_k V + sum_{j: D < k} (a_D - a_k) v_j
 *
 * costs as much as the window, for any length. V is in double. If no token is as far as k, a_k counts as 0, because
 * what it adds and subtracts again may be larger than the rest. Distances are |i - j|, or |dx| + |dy| of pixels in
 * rows. Tokens that are no pixels (a class token) are, as queries, at the first column of the row below the image. As
 * keys they are far from all tokens, even from themselves. For tokens before the first of a text, all tokens are
 * far. */
#include "attention/relative_s2/relative_s2.h"

#include <math.h>
#include <string.h>

#include "attention/linear/linear.h"
#include "base/integer.h"

/* ---- Neighbours ---- */

const float *ll_value_row(const ll_value_rows *v, int64_t j) {
    if (j < v->first) return v->past + (size_t)(j % v->keep) * v->token_past;
    return v->data + (size_t)(v->ring ? j % v->ring : j - v->first) * v->token;
}

int ll_value_counts(const ll_value_rows *v, int64_t j) {
    if (j < v->first) return v->past_kept[j % v->keep] != 0;
    return !v->mask || v->mask[j - v->first] != 0;
}

size_t ll_neighbours_most(const ll_attention *op) {
    const size_t reach = (size_t)op->c.encoding.clip - 1;
    if (op->c.encoding.axes == 1) return 2 * reach + 1;
    return ll_min_size(2 * reach * (reach + 1) + 1, (2 * reach + 1) * (size_t)op->c.width);
}

void ll_neighbours_take(ll_neighbours *near, const ll_attention *op, ll_arena *a) {
    const size_t most = ll_neighbours_most(op);
    near->n = 0;
    near->key = ll_arena_bytes(a, most, sizeof *near->key);
    near->distance = ll_arena_bytes(a, most, sizeof *near->distance);
    near->value = ll_arena_bytes(a, most, sizeof *near->value);
    near->number = ll_arena_take(a, most);
}

/* Keys from..to-1 that exist and count; the distance of key j is base + |j - centre|. */
static void add_run(ll_neighbours *near, const ll_value_rows *values, int64_t from, int64_t to, int64_t centre,
                    int base) {
    const ll_value_rows v = *values; /* a copy, which no store below changes */
    int n = near->n;
    for (int64_t j = ll_max_int64(from, v.begin); j < to; j++) {
        if (!ll_value_counts(&v, j)) continue;
        near->key[n] = j;
        near->value[n] = ll_value_row(&v, j);
        near->distance[n++] = base + (int)(j < centre ? centre - j : j - centre);
    }
    near->n = n;
}

void ll_neighbours_find(ll_neighbours *near, const ll_attention *op, int64_t i, int64_t keys, const ll_value_rows *v) {
    const int64_t W = op->c.width, H = op->c.height, before = op->c.before, p = i - before;
    const int64_t seen = op->c.causal ? ll_min_int64(i + 1, keys) : keys;
    const int reach = op->c.encoding.clip - 1;
    near->n = 0;
    if (op->c.encoding.axes == 1) {
        if (p >= 0) add_run(near, v, ll_max_int64(before, i - reach), ll_min_int64(seen, i + reach + 1), i, 0);
        return;
    }
    /* Causal images have no last row. */
    const int outside = p < 0 || (p >= W * H && !op->c.causal);
    const int64_t x = outside ? 0 : p % W, y = outside ? H : p / W;
    for (int dy = -reach; dy <= reach; dy++) {
        const int away = dy < 0 ? -dy : dy, side = reach - away;
        if (y + dy < 0 || (y + dy >= H && !op->c.causal)) continue;
        const int64_t row = before + (y + dy) * W;
        add_run(near, v, row + ll_max_int64(0, x - side), ll_min_int64(seen, row + ll_min_int64(W, x + side + 1)),
                row + x, away);
    }
}

/* ---- The learnt vectors ---- */

static int is_softmax(const ll_attention *op) { return op->c.kernel == LL_KERNEL_SOFTMAX; }

void ll_vectors_take(ll_vectors *w, const ll_attention *op, ll_arena *a) {
    const size_t n = (size_t)op->c.encoding.clip + 1, ld = (size_t)ll_s2_parts(op)->map->ld,
                 ldt = ll_round_up(n, LL_LINE);
    *w = (ll_vectors){.n = (int)n, .ld = ld, .ldt = ldt};
    w->raw = ll_arena_take(a, n * ld);
    w->phi = ll_arena_take(a, n * ld);
    w->work = ll_arena_take(a, n * ld);
    w->phi_t = ll_arena_take(a, ld * ldt);
    w->unit = ll_arena_take(a, ldt);
}

static ll_feature_tile vectors_tile(const ll_vectors *w, const ll_attention *op) {
    const ll_feature_map *map = ll_s2_parts(op)->map;
    return (ll_feature_tile){.map = map,
                             .k = ll_kernel_table(),
                             .side = LL_KEY,
                             .C = w->n,
                             .in = op->c.encoding.rpe,
                             .token = (size_t)map->c.D,
                             .shift = w->shift,
                             .work = w->work};
}

static int shared_rule(const ll_feature_map *map) {
    return map->phi[LL_KEY] == LL_PHI_FIXED && map->c.key_max != LL_MAX_NONE;
}

void ll_vectors_set(ll_vectors *w, const ll_attention *op) {
    const ll_feature_map *map = ll_s2_parts(op)->map;
    const size_t m = (size_t)map->features;
    int exponent[LL_CLIP_MOST + 1] = {0}, most = LL_NO_EXPONENT;
    w->shift = 0;
    ll_feature_tile tile = vectors_tile(w, op);
    if (is_softmax(op)) {
        for (int t = 0; t < w->n; t++) memcpy(w->raw + (size_t)t * w->ld, tile.in + (size_t)t * m, m * sizeof(float));
    } else {
        if (shared_rule(map)) {
            w->top = ll_features_top(&tile, NULL);
            tile.shift = w->shift = w->top.value;
        }
        ll_features(&tile, w->raw, exponent, NULL);
    }
    for (int t = 0; t < w->n; t++)
        if (exponent[t] > most) most = exponent[t];
    memcpy(w->phi, w->raw, (size_t)w->n * w->ld * sizeof(float));
    for (int t = 0; t < w->n; t++) {
        w->unit[t] = ll_power2(exponent[t] - most);
        tile.k->scale(m, w->unit[t], w->phi + (size_t)t * w->ld);
    }
    tile.k->transpose(w->n, (int)m, w->phi, w->ld, w->phi_t, w->ldt);
}

void ll_vectors_back(const ll_vectors *w, const ll_attention *op, float *dphi, float *dw, float *drpe) {
    const ll_feature_map *map = ll_s2_parts(op)->map;
    const size_t D = (size_t)map->c.D, n = (size_t)w->n;
    const ll_feature_tile tile = vectors_tile(w, op);
    double dtop = 0;
    if (is_softmax(op)) {
        for (size_t t = 0; t < n; t++) tile.k->add(D, dphi + t * w->ld, drpe + t * D);
        return;
    }
    for (size_t t = 0; t < n; t++) tile.k->scale((size_t)map->features, w->unit[t], dphi + t * w->ld);
    ll_features_back(&tile, w->raw, dphi, dw, D, map->c.max_gradient ? &dtop : NULL);
    if (map->c.max_gradient && shared_rule(map))
        ll_features_top_back(map, 0, w->top.feature, dtop, tile.in + (size_t)w->top.token * D,
                             dw + (size_t)w->top.token * D);
    tile.k->add(n * D, dw, drpe);
}

/* ---- Weights and rows ---- */

ll_feature_tile ll_s2_weights(const ll_vectors *w, const ll_attention *op, int C, const float *q, size_t token,
                              float *phi, float *work, float *a, size_t lda) {
    const ll_feature_map *map = ll_s2_parts(op)->map;
    const ll_feature_tile tile = {
        .map = map, .k = ll_kernel_table(), .side = LL_QUERY, .C = C, .in = q, .token = token, .work = work};
    int exponent[LL_TILE_MOST]; /* a common factor of a row of weights: it cancels */
    if (is_softmax(op)) {
        for (int i = 0; i < C; i++)
            tile.k->scaled((size_t)map->c.D, op->c.input_scale, q + (size_t)i * token, phi + (size_t)i * w->ld);
    } else {
        ll_features(&tile, phi, exponent, NULL);
    }
    tile.k->gemm(C, w->n, map->features, phi, w->ld, 1, w->phi_t, w->ldt, a, lda, 0);
    return tile;
}

/* The largest logit among the distances of keys that a row has; -infinity if it has none. */
static float largest(const ll_attention *op, const float *a, const ll_neighbours *near, double count) {
    float most = count > near->n ? a[op->c.encoding.clip] : -INFINITY;
    for (int i = 0; i < near->n; i++) most = fmaxf(most, a[near->distance[i]]);
    return most;
}

void ll_s2_exponentials(const ll_attention *op, const ll_kernels *k, float *a, const ll_neighbours *near,
                        double count) {
    enum { APART = 40 };
    const size_t n = (size_t)op->c.encoding.clip + 1;
    if (!is_softmax(op)) return;
    float top = k->max(n, a), least = top;
    for (size_t t = 0; t < n; t++) least = fminf(least, a[t]);
    const float most = top - least > APART ? largest(op, a, near, count) : top;
    if (most > -INFINITY && top - most > APART) {
        top = most;
        for (size_t t = 0; t < n; t++)
            if (a[t] > top) a[t] = top; /* of no key */
    }
    k->exp_shift(n, top, 1, 0, a, a);
}

float ll_s2_row(const ll_attention *op, const ll_kernels *k, const float *a, const ll_neighbours *near, const double *V,
                double count, float *num, float *far) {
    const size_t E = (size_t)op->c.E;
    const double beyond = count - near->n;
    float sum = 0;
    *far = beyond > 0 ? a[op->c.encoding.clip] : 0;
    for (size_t e = 0; e < E; e++) num[e] = *far * (float)V[e];
    for (int i = 0; i < near->n; i++) {
        const float weight = a[near->distance[i]];
        sum += weight;
        near->number[i] = weight - *far;
    }
    k->gather(near->n, E, near->number, near->value, num);
    return sum + *far * (float)beyond;
}

float ll_s2_divisor(const ll_attention *op, float sum, const float *phi, double count) {
    if (is_softmax(op)) return sum;
    const int whole = op->c.den == LL_DEN_EPS_PHI;
    const float all = whole ? ll_kernel_table()->sum((size_t)ll_s2_parts(op)->map->features, phi) : 0;
    return (float)ll_divisor(op, (double)sum, (double)all, count);
}
