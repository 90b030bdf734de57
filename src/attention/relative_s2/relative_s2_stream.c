/* Heads without keys, token by token. A stream has the sum of all values so far, in double, and the values that may be
 * near to later tokens: the last clip - 1 rows of an image, or the last clip values of a text. Every feed reads the
 * learnt vectors. */
#include <math.h>
#include <string.h>

#include "attention/attention_stream.h"
#include "attention/linear/linear.h"
#include "attention/relative_s2/relative_s2.h"
#include "base/integer.h"
#include "base/memory.h"

enum { CHUNK = 16 };

typedef struct {
    const ll_attention *op;
    int B;
    int64_t position, keep; /* keep: values in a ring */
    ll_vectors w;
    float *vectors; /* their memory */
    double *V;      /* (B, keyless, E) */
    float *values;  /* (B, keyless, keep, E) */
} keyless_stream;

static size_t heads(const keyless_stream *s) { return (size_t)s->B * (size_t)s->op->c.encoding.keyless; }

static ll_status create_vectors(keyless_stream *s) {
    ll_arena a = {0};
    ll_vectors_take(&s->w, s->op, &a);
    a = (ll_arena){.base = s->vectors = ll_alloc(a.used, sizeof *s->vectors)};
    if (!s->vectors) return LL_ENOMEM;
    ll_vectors_take(&s->w, s->op, &a);
    return LL_OK;
}

/* Scratch of a worker: CHUNK queries, their weights, a row of sums, neighbours. */
typedef struct {
    float *phi, *work, *a, *num;
    ll_neighbours near;
} scratch;

static scratch take_all(const keyless_stream *s, ll_arena *pool) {
    scratch w = {.phi = ll_arena_take(pool, CHUNK * s->w.ld)};
    w.work = ll_arena_take(pool, CHUNK * s->w.ld);
    w.a = ll_arena_take(pool, CHUNK * s->w.ldt);
    w.num = ll_arena_take(pool, (size_t)s->op->c.E);
    ll_neighbours_take(&w.near, s->op, pool);
    return w;
}

static void keyless_free(keyless_stream *s) {
    if (!s) return;
    ll_free(s->vectors);
    ll_free(s->V);
    ll_free(s->values);
    ll_free(s);
}

static ll_status keyless_create(keyless_stream **stream, const ll_attention *op, int B) {
    const size_t E = (size_t)op->c.E;
    keyless_stream *s = ll_alloc(1, sizeof *s);
    if (!s) return LL_ENOMEM;
    s->op = op;
    s->B = B;
    s->keep = ll_s2_keep(op);
    ll_status status = create_vectors(s);
    if (!status) {
        s->V = ll_alloc(heads(s) * E, sizeof *s->V);
        s->values = ll_alloc(heads(s) * (size_t)s->keep, E * sizeof *s->values);
        if (!s->V || !s->values) status = LL_ENOMEM;
    }
    if (status) {
        keyless_free(s);
        return status;
    }
    *stream = s;
    return LL_OK;
}

static void keyless_reset(keyless_stream *s) {
    s->position = 0;
    memset(s->V, 0, heads(s) * (size_t)s->op->c.E * sizeof *s->V);
    memset(s->values, 0, heads(s) * (size_t)s->keep * (size_t)s->op->c.E * sizeof *s->values);
}

/* Two tensors. Seek and reset keep their shapes, so they cannot fail. */
static int keyless_state(const keyless_stream *s, ll_state_tensor tensor[2]) {
    const size_t B = (size_t)s->B, H = (size_t)s->op->c.encoding.keyless, E = (size_t)s->op->c.E;
    tensor[0] = (ll_state_tensor){"keyless.sum", LL_F64, 3, {B, H, E}, s->V};
    tensor[1] = (ll_state_tensor){"keyless.values", LL_F32, 4, {B, H, (size_t)s->keep, E}, s->values};
    return 2;
}

static void keyless_seek(keyless_stream *s, int64_t position) { s->position = position; }

static size_t keyless_bytes(const keyless_stream *s) {
    const size_t E = (size_t)s->op->c.E, vectors = 3 * (size_t)s->w.n * s->w.ld + (s->w.ld + 1) * s->w.ldt;
    const size_t head = E * sizeof *s->V + (size_t)s->keep * E * sizeof(float);
    return sizeof *s + heads(s) * head + vectors * sizeof(float);
}

typedef struct {
    keyless_stream *s;
    const ll_kernels *k;
    int n;
    ll_view q, v, y;
    const ll_attention_stream *lender; /* of scratch */
} feed;

static void feed_head(void *arg, size_t index, int worker) {
    const feed *f = arg;
    const keyless_stream *s = f->s;
    const ll_attention *op = s->op;
    const size_t keyless = (size_t)op->c.encoding.keyless, E = (size_t)op->c.E;
    const size_t b = index / keyless, h = (size_t)ll_keyed_heads(&op->c) + index % keyless;
    ll_arena pool = {.base = f->lender->pool + (size_t)worker * f->lender->scratch};
    scratch w = take_all(s, &pool);
    float *ring = s->values + index * (size_t)s->keep * E;
    double *V = s->V + index * E;
    const ll_value_rows values = {.data = ring, .token = E, .ring = s->keep};
    for (int t0 = 0; t0 < f->n; t0 += CHUNK) {
        const int C = ll_min_int(f->n - t0, CHUNK);
        ll_s2_weights(&s->w, op, C, ll_element(&f->q, b, h, t0), f->q.token, w.phi, w.work, w.a, s->w.ldt);
        for (int i = 0; i < C; i++) {
            const int64_t t = s->position + t0 + i;
            const float *v = ll_element(&f->v, b, h, t0 + i);
            float far, *y = ll_element(&f->y, b, h, t0 + i);
            memcpy(ring + (size_t)(t % s->keep) * E, v, E * sizeof *ring);
            for (size_t e = 0; e < E; e++) V[e] += (double)v[e];
            ll_neighbours_find(&w.near, op, t, t + 1, &values);
            const double count = (double)(t + 1);
            float *a = w.a + (size_t)i * s->w.ldt;
            ll_s2_exponentials(op, f->k, a, &w.near, count);
            const float sum = ll_s2_row(op, f->k, a, &w.near, V, count, w.num, &far);
            f->k->scaled(E, ll_inverse(ll_s2_divisor(op, sum, w.phi + (size_t)i * s->w.ld, count)), w.num, y);
        }
    }
}

/* The next n tokens; views are of all heads, of which those without keys are the last. Cannot fail. Uses the scratch of
 * `lender`, a stream of the operator. */
static void keyless_feed(keyless_stream *s, int n, ll_view q, ll_view v, ll_view y, const ll_attention_stream *lender) {
    feed f = {s, ll_kernel_table(), n, q, v, y, lender};
    ll_vectors_set(&s->w, s->op);
    const double work = (double)n * (double)heads(s) * ll_s2_parts(s->op)->map->features * (s->op->c.D + s->w.n);
    ll_stream_share(work, lender->workers, heads(s), feed_head, &f);
    s->position += n;
}

/* The state of calls has the same layout. It also has the number of values, and which of them count: here all. */
static void keyless_load(keyless_stream *s, int b, const float *state) {
    const size_t H = (size_t)s->op->c.encoding.keyless, E = (size_t)s->op->c.E, keep = (size_t)s->keep;
    const ll_s2_layout at = ll_s2_layout_of(s->op, 0);
    memcpy(s->V + (size_t)b * H * E, state + at.sum, H * E * sizeof *s->V);
    memcpy(s->values + (size_t)b * H * keep * E, state + at.values, H * keep * E * sizeof *s->values);
}

static void keyless_store(const keyless_stream *s, int b, float *state) {
    const size_t H = (size_t)s->op->c.encoding.keyless, E = (size_t)s->op->c.E, keep = (size_t)s->keep;
    const double tokens = (double)s->position, kept = fmin(tokens, (double)keep), count[2] = {tokens, kept};
    const ll_s2_layout at = ll_s2_layout_of(s->op, 0);
    memcpy(state + at.sum, s->V + (size_t)b * H * E, H * E * sizeof *s->V);
    for (size_t h = 0; h < H; h++) memcpy(state + at.count + 4 * h, count, sizeof count);
    memcpy(state + at.values, s->values + (size_t)b * H * keep * E, H * keep * E * sizeof *s->values);
    for (size_t i = 0; i < H * keep; i++) state[at.kept + i] = (double)(i % keep) < kept;
}

/* ---- With the heads that have keys, as the stream of an operator ---- */

typedef struct {
    ll_attention_stream *keyed; /* NULL where no head has keys */
    keyless_stream *keyless;
} streams;

static ll_status create(ll_attention_stream *s) {
    streams *own = s->own = ll_alloc(1, sizeof *own);
    if (!own) return LL_ENOMEM;
    const int keyed = ll_keyed_heads(&s->op->c);
    const ll_status status =
        keyed ? ll_attention_stream_create_lean(&own->keyed, ll_s2_parts(s->op)->keyed, s->B) : LL_OK;
    return status ? status : keyless_create(&own->keyless, s->op, s->B);
}

/* Of heads with keys, or of those without: they run one after the other, in the scratch of this stream. */
static size_t scratch_floats(const ll_attention_stream *s) {
    const streams *own = s->own;
    ll_arena a = {0};
    (void)take_all(own->keyless, &a);
    return own->keyed ? ll_max_size(a.used, ll_attention_stream_lent_floats(own->keyed)) : a.used;
}

static void destroy(ll_attention_stream *s) {
    streams *own = s->own;
    if (!own) return;
    ll_attention_stream_free(own->keyed);
    keyless_free(own->keyless);
    ll_free(own);
}

static void reset(ll_attention_stream *s) {
    const streams *own = s->own;
    if (own->keyed) ll_attention_stream_reset(own->keyed);
    keyless_reset(own->keyless);
}

static ll_status reserve(ll_attention_stream *s, int64_t n) {
    const streams *own = s->own;
    return own->keyed ? ll_attention_stream_reserve(own->keyed, n) : LL_OK;
}

static void seek(ll_attention_stream *s, int64_t position) {
    const streams *own = s->own;
    if (own->keyed) own->keyed->position = position;
    keyless_seek(own->keyless, position);
}

static ll_status feed_both(ll_feed *f) {
    const streams *own = f->s->own;
    if (own->keyed) ll_attention_stream_lend(own->keyed, f->s->pool, f->s->workers);
    const ll_status status =
        own->keyed ? ll_attention_stream_feed(own->keyed, f->n, f->q, f->key, f->v, (ll_view){0}, f->y) : LL_OK;
    if (!status) keyless_feed(own->keyless, f->n, f->q, f->v, f->y, f->s);
    return status;
}

static int state(const ll_attention_stream *s, int64_t position, ll_state_tensor tensor[LL_STATE_TENSORS]) {
    const streams *own = s->own;
    const int n = own->keyed ? ll_attention_stream_state(own->keyed, position, tensor) : 0;
    return n + keyless_state(own->keyless, tensor + n);
}

static size_t keyed_floats(const streams *own) {
    size_t floats = 0;
    return !own->keyed || ll_attention_state_floats(own->keyed->op, &floats) ? 0 : floats;
}

static void load_state(ll_attention_stream *s, int b, const float *state) {
    const streams *own = s->own;
    if (own->keyed) ll_recurrence_linear.load_state(own->keyed, b, state);
    keyless_load(own->keyless, b, state + keyed_floats(own));
}

static void store_state(const ll_attention_stream *s, int b, float *state) {
    const streams *own = s->own;
    if (own->keyed) ll_recurrence_linear.store_state(own->keyed, b, state);
    keyless_store(own->keyless, b, state + keyed_floats(own));
}

static size_t bytes(const ll_attention_stream *s) {
    const streams *own = s->own;
    return (own->keyed ? ll_attention_stream_bytes(own->keyed) : 0) + keyless_bytes(own->keyless);
}

static ll_status check(const ll_attention_stream *s) {
    const streams *own = s->own;
    ll_state_tensor t[LL_STATE_TENSORS];
    const ll_status status = own->keyed ? ll_attention_stream_check(own->keyed) : LL_OK;
    return status ? status : ll_state_check(t, keyless_state(own->keyless, t));
}

const ll_recurrence ll_recurrence_relative_s2 = {
    .create = create,
    .free = destroy,
    .scratch = scratch_floats,
    .reserve = reserve,
    .seek = seek,
    .reset = reset,
    .step = feed_both,
    .load_state = load_state,
    .store_state = store_state,
    .state = state,
    .bytes = bytes,
    .check = check,
};
