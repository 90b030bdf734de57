/* Reformer in double. Into which bucket a token falls hangs on the last bit of its query where two are as near: buckets
 * are taken as given, from the float query that the stream hashes. */
#include <math.h>
#include <string.h>

#include "attention/position/premap.h"
#include "attention/approximate/reformer.h"
#include "reference/reference.h"
#include "base/memory.h"

/* Slots of a bucket. */
static size_t slots(const ll_attention_config *c) {
    return 2 * (size_t)c->approximate.chunk;
}

ll_status ll_reference_buckets_create(ll_reference_buckets *t, const ll_attention *op) {
    const ll_attention_config *c = &op->c;
    const size_t H = (size_t)c->H, D = (size_t)c->D, rounds = (size_t)c->approximate.rounds;
    const size_t all = H * rounds * (size_t)c->approximate.buckets;
    *t = (ll_reference_buckets){.op = op};
    if (c->kernel != LL_KERNEL_REFORMER) return LL_OK;
    t->count = ll_alloc(all, sizeof *t->count);
    t->keys = ll_alloc(all * slots(c), D * sizeof *t->keys);
    t->values = ll_alloc(all * slots(c), (size_t)c->E * sizeof *t->values);
    t->bucket = ll_alloc(H, rounds * sizeof *t->bucket);
    t->q = ll_alloc(D + (size_t)c->approximate.buckets / 2, sizeof *t->q);
    t->work = ll_alloc(op->premap ? op->premap->kind->scratch(op->premap) : 0, sizeof *t->work);
    if (t->count && t->keys && t->values && t->bucket && t->q && t->work) return LL_OK;
    ll_reference_buckets_free(t);
    return LL_ENOMEM;
}

void ll_reference_buckets_free(ll_reference_buckets *t) {
    ll_free(t->count), ll_free(t->keys), ll_free(t->values), ll_free(t->bucket), ll_free(t->q), ll_free(t->work);
    memset(t, 0, sizeof *t);
}

static void hash(ll_reference_buckets *t, int h, int64_t position, const float *q) {
    const ll_attention *op = t->op;
    const ll_premap *b = op->premap;
    const int rounds = op->c.approximate.rounds;
    const ll_premap_tile tile = {b, ll_kernel_table(), h, 1, position, t->work};
    if (b) {
        b->kind->prepare(&tile);
        b->kind->forward(&tile, LL_QUERY, 1, q, (size_t)op->c.D, t->q, (size_t)op->c.D);
    } else {
        memcpy(t->q, q, (size_t)op->c.D * sizeof *q);
    }
    for (int r = 0; r < rounds; r++)
        ll_reformer_hash(op, tile.k, r, h, 1, t->q, (size_t)op->c.D, t->q + op->c.D, &t->bucket[h * rounds + r]);
}

/* Number of head h's bucket of round r, of the token fed last. */
static size_t bucket_of(const ll_reference_buckets *t, int h, int r) {
    const size_t at = (size_t)h * (size_t)t->op->c.approximate.rounds + (size_t)r;
    return at * (size_t)t->op->c.approximate.buckets + (size_t)t->bucket[at];
}

void ll_reference_buckets_feed(ll_reference_buckets *t, int h, int64_t position, const float *q, const double *x,
                          const float *v) {
    const ll_attention_config *c = &t->op->c;
    double square = 0;
    hash(t, h, position, q);
    for (int e = 0; e < c->D; e++) square += x[e] * x[e];
    for (int r = 0; r < c->approximate.rounds; r++) {
        const size_t at = bucket_of(t, h, r), slot = at * slots(c) + (size_t)t->count[at]++ % slots(c);
        for (int e = 0; e < c->D; e++) t->keys[slot * (size_t)c->D + (size_t)e] = x[e] / sqrt(square);
        for (int e = 0; e < c->E; e++) t->values[slot * (size_t)c->E + (size_t)e] = (double)v[e];
    }
}

/* The run before the token's, and of its own what came before it; where there is nothing, its own value. */
double ll_reference_buckets_answer(const ll_reference_buckets *t, int h, const double *x, double *y) {
    const ll_attention_config *c = &t->op->c;
    const int64_t chunk = c->approximate.chunk;
    double den = 0;
    for (int r = 0; r < c->approximate.rounds; r++) {
        const size_t at = bucket_of(t, h, r);
        const int64_t n = t->count[at] - 1;
        for (int64_t j = n / chunk ? (n / chunk - 1) * chunk : 0; j < n; j++) {
            const size_t slot = at * slots(c) + (size_t)j % slots(c);
            double s = 0;
            for (int e = 0; e < c->D; e++)
                s += (double)c->input_scale * x[e] * t->keys[slot * (size_t)c->D + (size_t)e];
            den += exp(s);
            for (int e = 0; e < c->E; e++) y[e] += exp(s) * t->values[slot * (size_t)c->E + (size_t)e];
        }
    }
    if (den > 0) return den;
    const size_t own = bucket_of(t, h, 0), slot = own * slots(c) + (size_t)(t->count[own] - 1) % slots(c);
    memcpy(y, t->values + slot * (size_t)c->E, (size_t)c->E * sizeof *y);
    return 1;
}
