/* The cache of cross attention: creating, filling, reading and copying it. */
#include "attention/cross_cache.h"

#include <string.h>

#include "attention/position/premap.h"
#include "base/float_mode.h"
#include "base/integer.h"
#include "base/memory.h"

static const ll_cross_kind *kind_of(const ll_cross_cache *m) {
    return m->op->kind->cross;
}

/* ---- Created ---- */

ll_status ll_cross_cache_ready(ll_cross_cache *m) {
    const size_t scratch = kind_of(m)->scratch ? ll_round_up(kind_of(m)->scratch(m), LL_LINE) : 0;
    const int threads = ll_threads();
    if (m->pool && m->workers >= threads && m->scratch == scratch) return LL_OK;
    float *pool = ll_alloc((size_t)threads * scratch, sizeof *pool);
    if (!pool) return LL_ENOMEM;
    ll_free(m->pool);
    m->pool = pool, m->scratch = scratch, m->workers = threads;
    return LL_OK;
}

static ll_status check(const ll_attention *op) {
    if (op->kind->keyless || op->logits)
        return ll_fail(LL_EINVAL,
                       "cross-attention cache: distances within one sequence tell nothing about another; use "
                       "another position, or none");
    if (!op->kind->cross)
        return ll_fail(LL_EINVAL,
                       "cross-attention cache: %s keeps nothing that queries could read one after the other; use "
                       "softmax or a linear kernel",
                       op->kind->name);
    if (op->c.causal)
        return ll_fail(LL_EINVAL,
                       "cross-attention cache: the operator is causal; a source is seen whole by every query");
    return op->kind->cross->can ? op->kind->cross->can(op) : LL_OK;
}

static size_t encoded_floats(const ll_cross_cache *m) {
    return m->op->premap ? (size_t)m->op->c.H * LL_PREMAP_TILE * (size_t)m->op->D : 0;
}

static ll_status build(ll_cross_cache *m) {
    ll_status status = ll_premap_stream_create(&m->stage, m->op->premap);
    if (!status && m->op->premap) {
        m->encoded = ll_alloc(encoded_floats(m), sizeof *m->encoded);
        if (!m->encoded) return LL_ENOMEM;
    }
    if (!status) status = kind_of(m)->create(m);
    return status ? status : ll_cross_cache_ready(m);
}

ll_status ll_cross_cache_create(ll_cross_cache **cache, const ll_attention *op) {
    ll_status status = check(op);
    if (status) return status;
    ll_cross_cache *m = ll_alloc(1, sizeof *m);
    if (!m) return LL_ENOMEM;
    m->op = op;
    status = build(m);
    if (status) {
        ll_cross_cache_free(m);
        return status;
    }
    *cache = m;
    return LL_OK;
}

void ll_cross_cache_free(ll_cross_cache *m) {
    if (!m) return;
    kind_of(m)->free(m);
    ll_free(m->pool);
    ll_premap_stream_free(&m->stage);
    ll_free(m->encoded);
    ll_free(m);
}

size_t ll_cross_cache_bytes(const ll_cross_cache *m) {
    const size_t floats = (size_t)m->workers * m->scratch + ll_premap_stream_floats(&m->stage) + encoded_floats(m);
    return sizeof *m + kind_of(m)->bytes(m) + floats * sizeof(float);
}

/* ---- Filled and read ---- */

static ll_status fill_encoded(ll_cross_cache *m, int S, ll_view k, ll_view v) {
    const size_t H = (size_t)m->op->c.H;
    ll_status status = ll_premap_reaches(m->op->premap, S);
    if (status) return status;
    float *encoded = ll_alloc(H * (size_t)S, (size_t)m->op->D * sizeof *encoded);
    if (!encoded) return LL_ENOMEM;
    ll_premap_stream_reset(&m->stage);
    const ll_view out = ll_view_packed(encoded, m->op->c.H, S, m->op->D);
    for (int t = 0; t < S; t += LL_PREMAP_TILE) {
        const ll_view from[2] = {[LL_KEY] = ll_view_from(k, t)}, to[2] = {[LL_KEY] = ll_view_from(out, t)};
        ll_premap_stream_encode(&m->stage, 1, t, ll_min_int(LL_PREMAP_TILE, S - t), from, to);
    }
    status = kind_of(m)->fill(m, S, out, v);
    ll_free(encoded);
    return status;
}

ll_status ll_cross_cache_fill(ll_cross_cache *m, int S, ll_view k, ll_view v) {
    LL_FLOAT_MODE;
    if (S < 0) return ll_fail(LL_EINVAL, "cross-attention cache: %d keys, must not be negative", S);
    m->S = 0; /* until all went well */
    const ll_status status = m->op->premap ? fill_encoded(m, S, k, v) : kind_of(m)->fill(m, S, k, v);
    if (!status) m->S = S;
    return status;
}

ll_status ll_cross_cache_read(const ll_cross_cache *m, int64_t first, int n, ll_view q, ll_view y) {
    LL_FLOAT_MODE;
    if (n < 0 || first < 0)
        return ll_fail(LL_EINVAL, "cross-attention cache: %d queries from position %lld on; neither may be negative", n,
                       (long long)first);
    if (!m->op->premap) return kind_of(m)->read(m, first, n, q, y);
    ll_status status = ll_premap_reaches(m->op->premap, first + n);
    for (int t = 0; t < n && !status; t += LL_PREMAP_TILE) {
        const int C = ll_min_int(LL_PREMAP_TILE, n - t);
        const ll_view encoded = ll_view_packed(m->encoded, m->op->c.H, LL_PREMAP_TILE, m->op->D);
        const ll_view from[2] = {[LL_QUERY] = ll_view_from(q, t)}, to[2] = {[LL_QUERY] = encoded};
        ll_premap_stream_encode(&m->stage, 1, first + t, C, from, to);
        status = kind_of(m)->read(m, first + t, C, encoded, ll_view_from(y, t));
    }
    return status;
}

/* ---- What it remembers ---- */

int ll_cross_cache_keys(const ll_cross_cache *m) {
    return m->S;
}

int ll_cross_cache_state(const ll_cross_cache *m, int S, ll_state_tensor tensor[LL_STATE_TENSORS]) {
    return kind_of(m)->state(m, S, tensor);
}

ll_status ll_cross_cache_seek(ll_cross_cache *m, int S) {
    ll_status status = m->op->premap ? ll_premap_reaches(m->op->premap, S) : LL_OK;
    if (!status && kind_of(m)->seek) status = kind_of(m)->seek(m, S);
    if (!status) m->S = S;
    return status;
}

ll_status ll_cross_cache_check(const ll_cross_cache *m) {
    ll_state_tensor t[LL_STATE_TENSORS];
    return ll_state_check(t, ll_cross_cache_state(m, m->S, t));
}

ll_status ll_cross_cache_clone(ll_cross_cache **copy, const ll_cross_cache *m) {
    ll_cross_cache *new = NULL;
    ll_state_tensor from[LL_STATE_TENSORS], to[LL_STATE_TENSORS];
    ll_status status = ll_cross_cache_create(&new, m->op);
    if (!status) status = ll_cross_cache_seek(new, m->S);
    if (status) {
        ll_cross_cache_free(new);
        return status;
    }
    const int n = ll_cross_cache_state(m, m->S, from);
    (void)ll_cross_cache_state(new, m->S, to);
    for (int i = 0; i < n; i++)
        if (ll_state_bytes(&from[i])) memcpy(to[i].data, from[i].data, ll_state_bytes(&from[i]));
    *copy = new;
    return LL_OK;
}
