/* Softmax attention as the source of cross attention. The cache has all keys and values. */
#include <string.h>

#include "attention/cross_cache.h"
#include "base/integer.h"
#include "base/memory.h"

enum { KEYS = 256 /* of a sum of floats */ };

typedef struct {
    float *keys, *values; /* (H, capacity, D), (H, capacity, E) */
    size_t capacity;
} source;

static ll_status create(ll_cross_cache *m) {
    m->own = ll_alloc(1, sizeof(source));
    return m->own ? LL_OK : LL_ENOMEM;
}

static void destroy(ll_cross_cache *m) {
    source *own = m->own;
    if (!own) return;
    ll_free(own->keys);
    ll_free(own->values);
    ll_free(own);
}

static size_t scratch(const ll_cross_cache *m) {
    const source *own = m->own;
    return own->capacity + (size_t)(m->op->D + m->op->c.E);
}

static size_t bytes(const ll_cross_cache *m) {
    const source *own = m->own;
    return (size_t)m->op->c.H * own->capacity * (size_t)(m->op->D + m->op->c.E) * sizeof(float);
}

static ll_status seek(ll_cross_cache *m, int S) {
    source *own = m->own;
    const size_t H = (size_t)m->op->c.H, D = (size_t)m->op->D, E = (size_t)m->op->c.E, n = (size_t)S;
    float *keys = ll_alloc(H * n, D * sizeof *keys), *values = ll_alloc(H * n, E * sizeof *values);
    if (!keys || !values) {
        ll_free(keys);
        ll_free(values);
        return LL_ENOMEM;
    }
    ll_free(own->keys);
    ll_free(own->values);
    own->keys = keys, own->values = values, own->capacity = n;
    return ll_cross_cache_ready(m);
}

static ll_status fill(ll_cross_cache *m, int S, ll_view k, ll_view v) {
    const source *own = m->own;
    const size_t H = (size_t)m->op->c.H, D = (size_t)m->op->D, E = (size_t)m->op->c.E, n = (size_t)S;
    const ll_status status = seek(m, S);
    for (size_t i = 0; i < H * n && !status; i++) {
        memcpy(own->keys + i * D, ll_element(&k, 0, i / n, i % n), D * sizeof *own->keys);
        memcpy(own->values + i * E, ll_element(&v, 0, i / n, i % n), E * sizeof *own->values);
    }
    return status;
}

static int state(const ll_cross_cache *m, int S, ll_state_tensor tensor[LL_STATE_TENSORS]) {
    const source *own = m->own;
    const size_t H = (size_t)m->op->c.H, n = (size_t)S;
    tensor[0] = (ll_state_tensor){"keys", LL_F32, 3, {H, n, (size_t)m->op->D}, own->keys};
    tensor[1] = (ll_state_tensor){"values", LL_F32, 3, {H, n, (size_t)m->op->c.E}, own->values};
    return 2;
}

typedef struct {
    const ll_cross_cache *m;
    int n;
    ll_view q, y;
} reading;

/* y = sum of weights times values (S, E), divided by the sum of weights. Blocks are summed on their own, because one
 * long sum of floats would be off by 1e-2 at a million keys. part (E): scratch. */
static void weigh(const ll_kernels *k, int S, size_t E, const float *weight, const float *values, float *part,
                  float *y) {
    double sum = 0;
    memset(y, 0, E * sizeof *y);
    for (int s = 0; s < S; s += KEYS) {
        const int n = ll_min_int(S - s, KEYS);
        k->gemv((int)E, n, weight + s, values + (size_t)s * E, E, part, 0);
        k->add(E, part, y);
        sum += (double)k->sum((size_t)n, weight + s);
    }
    k->scale(E, (float)(1 / sum), y);
}

static void read_head(void *arg, size_t h, int worker) {
    const reading *r = arg;
    const ll_cross_cache *m = r->m;
    const source *own = m->own;
    const ll_kernels *k = ll_kernel_table();
    const size_t D = (size_t)m->op->D, E = (size_t)m->op->c.E, S = (size_t)m->S;
    float *weight = m->pool + (size_t)worker * m->scratch, *q = weight + own->capacity, *part = q + D;
    for (int t = 0; t < r->n; t++) {
        float *y = ll_element(&r->y, 0, h, (size_t)t);
        if (!S) {
            memset(y, 0, E * sizeof *y);
            continue;
        }
        k->scaled(D, m->op->c.input_scale, ll_element(&r->q, 0, h, (size_t)t), q);
        k->gemv_rows(m->S, (int)D, own->keys + h * S * D, D, q, weight, 0);
        k->exp_shift(S, k->max(S, weight), 1, 0, weight, weight);
        weigh(k, m->S, E, weight, own->values + h * S * E, part, y);
    }
}

static ll_status read(const ll_cross_cache *m, int64_t first, int n, ll_view q, ll_view y) {
    reading r = {m, n, q, y};
    const double work = (double)m->S * n * (m->op->D + m->op->c.E) * m->op->c.H;
    (void)first;
    ll_stream_share(work, m->workers, (size_t)m->op->c.H, read_head, &r);
    return LL_OK;
}

const ll_cross_kind ll_cross_exact = {
    .create = create,
    .free = destroy,
    .scratch = scratch,
    .bytes = bytes,
    .seek = seek,
    .fill = fill,
    .state = state,
    .read = read,
};
