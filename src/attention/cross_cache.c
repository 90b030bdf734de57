/* Cross attention as a stream: the keys and values of a source become a state once, and queries read it.
 *
 * Linear kernels keep what the forward pass sums up, S = sum phi(k) v^T and z = sum phi(k): m (E + 1) numbers a head
 * whatever the source's length. Softmax keeps keys and values. A position that acts before the feature map encodes
 * keys here and queries at their positions, and rope-linear asks two memories, of the weighted sums and of the
 * divisors. */
#include <string.h>

#include "attention/linear/linear.h"
#include "attention/table.h"
#include "attention/position/premap.h"
#include "attention/attention_stream.h"
#include "base/memory.h"

enum { KEYS = 256 /* of a sum of floats */ };

struct ll_cross_cache {
    const ll_attention *op;
    int S;
    float *state;         /* (H, state floats); linear kernels */
    float *keys, *values; /* (H, capacity, D), (H, capacity, E); softmax */
    size_t capacity;
    float *pool; /* (workers, scratch) */
    size_t scratch;
    int workers;
    ll_cross_cache *inner, *sums; /* of a shell */
    float *work;                       /* (H, before_scratch) of its encoder */
    float *buffer;                     /* encoded queries (H, tile, R), or sums (H, tile) */
    size_t before_scratch;
};

static int is_exact(const ll_attention *op) {
    return op->c.kernel == LL_KERNEL_SOFTMAX;
}

static size_t scratch_of(const ll_cross_cache *m) {
    const ll_attention *op = m->op;
    const size_t floats = is_exact(op) ? m->capacity + (size_t)(op->c.D + op->c.E)
                                       : ll_bidirectional_scratch(op, ll_attention_tile(op), 0);
    return (floats + 31) / 16 * 16;
}

/* Scratch for the threads there are now and the keys there is room for now. */
static ll_status ready(ll_cross_cache *m) {
    const size_t scratch = scratch_of(m);
    const int threads = ll_threads();
    if (m->pool && m->workers >= threads && m->scratch == scratch) return LL_OK;
    float *pool = ll_alloc((size_t)threads * scratch, sizeof *pool);
    if (!pool) return LL_ENOMEM;
    ll_free(m->pool);
    m->pool = pool, m->scratch = scratch, m->workers = threads;
    return LL_OK;
}

static ll_status check(const ll_attention *op) {
    const ll_method *method = ll_method_of(op->c.kernel);
    const ll_position p = op->c.position;
    if (!method->linear && !is_exact(op))
        return ll_fail(LL_EINVAL,
                       "attention memory: %s keeps nothing that queries could read one after the other; use "
                       "softmax or a linear kernel",
                       method->name);
    if (p == LL_POSITION_RELATIVE_S2 || p == LL_POSITION_T5 || p == LL_POSITION_SHAW)
        return ll_fail(LL_EINVAL, "attention memory: distances within one sequence tell nothing about another; use "
                                  "another position, or none");
    if (op->c.causal)
        return ll_fail(LL_EINVAL, "attention memory: the operator is causal; a source is seen whole by every query");
    if (!op->inner && op->phi[LL_QUERY] == LL_PHI_FIXED && op->c.query_max == LL_MAX_SEQUENCE)
        return ll_fail(LL_EINVAL, "attention memory: a query maximum over the sequence needs later queries; use token");
    return LL_OK;
}

static ll_status build(ll_cross_cache *m) {
    const ll_attention *op = m->op;
    const size_t H = (size_t)op->c.H;
    if (!op->inner) {
        if (!is_exact(op) && !(m->state = ll_alloc(H * ll_state_floats(op), sizeof *m->state))) return LL_ENOMEM;
        return ready(m);
    }
    m->before_scratch = op->before ? (op->before->kind->scratch(op->before) + 15) / 16 * 16 : 0;
    m->work = ll_alloc(H * m->before_scratch, sizeof *m->work);
    m->buffer = ll_alloc(H * LL_PREMAP_TILE * (size_t)(op->before ? op->before->R : 1), sizeof *m->buffer);
    if (!m->work || !m->buffer) return LL_ENOMEM;
    ll_status status = ll_cross_cache_create(&m->inner, op->inner);
    if (!status && op->sums) status = ll_cross_cache_create(&m->sums, op->sums);
    return status;
}

ll_status ll_cross_cache_create(ll_cross_cache **memory, const ll_attention *op) {
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
    *memory = m;
    return LL_OK;
}

void ll_cross_cache_free(ll_cross_cache *m) {
    if (!m) return;
    ll_cross_cache_free(m->inner);
    ll_cross_cache_free(m->sums);
    ll_free(m->state);
    ll_free(m->keys);
    ll_free(m->values);
    ll_free(m->pool);
    ll_free(m->work);
    ll_free(m->buffer);
    ll_free(m);
}

size_t ll_cross_cache_bytes(const ll_cross_cache *m) {
    const ll_attention *op = m->op;
    const size_t H = (size_t)op->c.H, kept = m->capacity * (size_t)(op->c.D + op->c.E);
    size_t floats = (size_t)m->workers * m->scratch + H * (m->state ? ll_state_floats(op) : kept), bytes = sizeof *m;
    if (m->inner) {
        floats = H * (m->before_scratch + LL_PREMAP_TILE * (size_t)(op->before ? op->before->R : 1));
        bytes += ll_cross_cache_bytes(m->inner) + (m->sums ? ll_cross_cache_bytes(m->sums) : 0);
    }
    return bytes + floats * sizeof(float);
}

/* ---- A source ---- */

/* Softmax: room for n keys and values. */
static ll_status room(ll_cross_cache *m, size_t n) {
    const size_t H = (size_t)m->op->c.H, D = (size_t)m->op->c.D, E = (size_t)m->op->c.E;
    float *keys = ll_alloc(H * n, D * sizeof *keys), *values = ll_alloc(H * n, E * sizeof *values);
    if (!keys || !values) {
        ll_free(keys);
        ll_free(values);
        return LL_ENOMEM;
    }
    ll_free(m->keys);
    ll_free(m->values);
    m->keys = keys, m->values = values, m->capacity = n;
    return ready(m);
}

static ll_status keep(ll_cross_cache *m, int S, ll_view k, ll_view v) {
    const size_t H = (size_t)m->op->c.H, D = (size_t)m->op->c.D, E = (size_t)m->op->c.E, n = (size_t)S;
    const ll_status status = room(m, n);
    for (size_t i = 0; i < H * n && !status; i++) {
        memcpy(m->keys + i * D, ll_element(&k, 0, (int)(i / n), (int)(i % n)), D * sizeof *m->keys);
        memcpy(m->values + i * E, ll_element(&v, 0, (int)(i / n), (int)(i % n)), E * sizeof *m->values);
    }
    return status;
}

static ll_status fill_encoded(ll_cross_cache *m, int S, ll_view k, ll_view v) {
    const ll_premap *b = m->op->before;
    const size_t R = (size_t)b->R, H = (size_t)b->c.H;
    ll_status status = ll_premap_reaches(b, S);
    if (status) return status;
    float *encoded = ll_alloc(H * (size_t)S, R * sizeof *encoded);
    if (!encoded) return LL_ENOMEM;
    memset(m->work, 0, H * m->before_scratch * sizeof *m->work);
    const ll_view out = {encoded, 0, (size_t)S * R, R};
    ll_premap_tile t = {.b = b, .k = ll_kernel_table()};
    for (t.head = 0; t.head < b->c.H; t.head++)
        for (t.t0 = 0; t.t0 < S; t.t0 += LL_PREMAP_TILE) {
            t.C = S - (int)t.t0 < LL_PREMAP_TILE ? S - (int)t.t0 : LL_PREMAP_TILE;
            t.work = m->work + (size_t)t.head * m->before_scratch;
            b->kind->prepare(&t);
            b->kind->forward(&t, LL_KEY, t.C, ll_element(&k, 0, t.head, (int)t.t0), k.token,
                             ll_element(&out, 0, t.head, (int)t.t0), R);
        }
    status = ll_cross_cache_fill(m->inner, S, out, v);
    ll_free(encoded);
    return status;
}

ll_status ll_cross_cache_fill(ll_cross_cache *m, int S, ll_view k, ll_view v) {
    if (S < 0) return ll_fail(LL_EINVAL, "attention memory: %d keys, must not be negative", S);
    ll_status status;
    m->S = 0; /* until all went well */
    if (m->op->before) {
        status = fill_encoded(m, S, k, v);
    } else if (m->op->inner) {
        float one = 1;
        status = ll_cross_cache_fill(m->inner, S, k, v);
        if (!status) status = ll_cross_cache_fill(m->sums, S, k, (ll_view){.data = &one});
    } else if (is_exact(m->op)) {
        status = keep(m, S, k, v);
    } else {
        const ll_attention_call call = {.B = 1, .S = S, .k = k, .v = v, .saved = m->state};
        status = ll_attention_forward(m->op, &call);
    }
    if (!status) m->S = S;
    return status;
}

/* ---- What it remembers ---- */

int ll_cross_cache_keys(const ll_cross_cache *m) {
    return m->S;
}

int ll_cross_cache_state(const ll_cross_cache *m, int S, ll_state_tensor tensor[LL_STATE_TENSORS]) {
    const size_t H = (size_t)m->op->c.H, n = (size_t)S;
    if (m->inner) {
        const int count = ll_cross_cache_state(m->inner, S, tensor);
        if (!m->sums) return count;
        (void)ll_cross_cache_state(m->sums, S, tensor + count); /* rope-linear is linear: one tensor each */
        tensor[count].name = "sums";
        return count + 1;
    }
    if (!is_exact(m->op)) {
        tensor[0] = (ll_state_tensor){"state", LL_F32, 2, {H, ll_state_floats(m->op)}, m->state};
        return 1;
    }
    tensor[0] = (ll_state_tensor){"keys", LL_F32, 3, {H, n, (size_t)m->op->c.D}, m->keys};
    tensor[1] = (ll_state_tensor){"values", LL_F32, 3, {H, n, (size_t)m->op->c.E}, m->values};
    return 2;
}

ll_status ll_cross_cache_seek(ll_cross_cache *m, int S) {
    ll_status status = m->op->before ? ll_premap_reaches(m->op->before, S) : LL_OK;
    if (!status && m->inner) status = ll_cross_cache_seek(m->inner, S);
    if (!status && m->sums) status = ll_cross_cache_seek(m->sums, S);
    if (!status && !m->inner && is_exact(m->op)) status = room(m, (size_t)S);
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

/* ---- Queries ---- */

typedef struct {
    const ll_cross_cache *m;
    int n;
    int64_t first;
    ll_view q, y;
} reading;

static void read_linear(void *arg, size_t h, int worker) {
    const reading *r = arg;
    const ll_attention *op = r->m->op;
    const ll_span all = {.queries = r->n};
    const ll_attention_call call = {.q = r->q, .y = r->y};
    ll_head j = {.op = op, .k = ll_kernel_table(), .at = ll_views_at(&call, &all, (int)h), .h = (int)h, .n = r->n};
    j.first = r->first;
    j.keys = r->m->S;
    j.tile = ll_attention_tile(op);
    j.pool = r->m->pool + (size_t)worker * r->m->scratch;
    ll_bidirectional_read(&j, r->m->state + h * ll_state_floats(op));
}

/* y = sum of weights times values (S, E), over the sum of weights: block after block, as one long sum of floats would
 * lose 1e-2 of a million keys. part (E). */
static void weigh(const ll_kernels *k, int S, size_t E, const float *weight, const float *values, float *part,
                  float *y) {
    double sum = 0;
    memset(y, 0, E * sizeof *y);
    for (int s = 0; s < S; s += KEYS) {
        const int n = S - s < KEYS ? S - s : KEYS;
        k->gemv((int)E, n, weight + s, values + (size_t)s * E, E, part, 0);
        k->add(E, part, y);
        sum += (double)k->sum((size_t)n, weight + s);
    }
    k->scale(E, (float)(1 / sum), y);
}

static void read_exact(void *arg, size_t h, int worker) {
    const reading *r = arg;
    const ll_cross_cache *m = r->m;
    const ll_kernels *k = ll_kernel_table();
    const size_t D = (size_t)m->op->c.D, E = (size_t)m->op->c.E, S = (size_t)m->S;
    float *weight = m->pool + (size_t)worker * m->scratch, *q = weight + m->capacity, *part = q + D;
    for (int t = 0; t < r->n; t++) {
        float *y = ll_element(&r->y, 0, (int)h, t);
        if (!S) {
            memset(y, 0, E * sizeof *y);
            continue;
        }
        k->scaled(D, m->op->c.input_scale, ll_element(&r->q, 0, (int)h, t), q);
        k->gemv_rows(m->S, (int)D, m->keys + h * S * D, D, q, weight, 0);
        k->exp_shift(S, k->max(S, weight), 1, 0, weight, weight);
        weigh(k, m->S, E, weight, m->values + h * S * E, part, y);
    }
}

static ll_status read_encoded(const ll_cross_cache *m, int64_t first, int n, ll_view q, ll_view y) {
    const ll_premap *b = m->op->before;
    const size_t R = (size_t)b->R;
    const ll_view out = {m->buffer, 0, LL_PREMAP_TILE * R, R};
    ll_premap_tile t = {.b = b, .k = ll_kernel_table(), .C = n, .t0 = first};
    for (t.head = 0; t.head < b->c.H; t.head++) {
        t.work = m->work + (size_t)t.head * m->before_scratch;
        b->kind->prepare(&t);
        b->kind->forward(&t, LL_QUERY, n, ll_element(&q, 0, t.head, 0), q.token, ll_element(&out, 0, t.head, 0), R);
    }
    return ll_cross_cache_read(m->inner, first, n, out, y);
}

static ll_status read_divided(const ll_cross_cache *m, int64_t first, int n, ll_view q, ll_view y) {
    const ll_attention *op = m->op;
    const ll_view sums = {m->buffer, 0, LL_PREMAP_TILE, 1};
    ll_status status = ll_cross_cache_read(m->inner, first, n, q, y);
    if (!status) status = ll_cross_cache_read(m->sums, first, n, q, sums);
    for (int h = 0; h < op->c.H && !status; h++)
        for (int t = 0; t < n; t++) {
            const float factor = ll_inverse(ll_divisor(op, *ll_element(&sums, 0, h, t), 0, m->S));
            for (int e = 0; e < op->c.E; e++) ll_element(&y, 0, h, t)[e] *= factor;
        }
    return status;
}

ll_status ll_cross_cache_read(const ll_cross_cache *m, int64_t first, int n, ll_view q, ll_view y) {
    const ll_attention *op = m->op;
    if (n < 0 || first < 0) return ll_fail(LL_EINVAL, "attention memory: %d queries, must not be negative", n);
    if (op->inner) {
        ll_status status = op->before ? ll_premap_reaches(op->before, first + n) : LL_OK;
        for (int t = 0; t < n && !status; t += LL_PREMAP_TILE) {
            const int C = n - t < LL_PREMAP_TILE ? n - t : LL_PREMAP_TILE;
            status = op->sums ? read_divided(m, first + t, C, ll_view_from(q, t), ll_view_from(y, t))
                              : read_encoded(m, first + t, C, ll_view_from(q, t), ll_view_from(y, t));
        }
        return status;
    }
    reading r = {m, n, first, q, y};
    ll_task *task = is_exact(op) ? read_exact : read_linear;
    const double rows = is_exact(op) ? m->S : op->features;
    const double work = rows * n * (op->c.D + op->c.E) * op->c.H;
    ll_stream_share(work, m->workers, (size_t)op->c.H, task, &r);
    return LL_OK;
}
