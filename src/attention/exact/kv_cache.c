/* Softmax attention as a stream. All keys and values are kept, in blocks of KEYS tokens, and keys are transposed.
 *
 *   y_i = sum_(j <= i) e^(s_ij - m) v_j / sum_(j <= i) e^(s_ij - m)
 *
 * A few queries are computed at a time, each with a running maximum and sum (online_softmax.c). Blocks begin at fixed
 * positions, and a row of a product does not depend on other rows. So how tokens are cut into calls changes no bit. A
 * query sees only a part of the block that has its own key. Its values of that block are summed separately. */
#include <math.h>
#include <string.h>

#include "attention/attention_stream.h"
#include "attention/exact/exact.h"
#include "attention/exact/logit_bias.h"
#include "base/integer.h"
#include "base/memory.h"

enum { KEYS = 256 /* tokens of a block */, ROWS = 32 /* queries that pass together */ };

static size_t blocks_of(int64_t tokens) { return ((size_t)tokens + KEYS - 1) / KEYS; }

typedef struct {
    float *keys, *values;   /* (blocks, B, H, D, KEYS), (blocks, B, H, KEYS, E) */
    size_t blocks;          /* there is room for */
    ll_distances distances; /* t5, shaw */
    float *of_distances;    /* their memory */
} cache;

static ll_status create(ll_attention_stream *s) {
    cache *own = s->own = ll_alloc(1, sizeof *own);
    ll_arena a = {0};
    if (!own) return LL_ENOMEM;
    ll_distances_take(&own->distances, s->op, &a);
    a = (ll_arena){.base = own->of_distances = ll_alloc(a.used, sizeof *own->of_distances)};
    if (!a.base) return LL_ENOMEM;
    ll_distances_take(&own->distances, s->op, &a);
    return LL_OK;
}

static void destroy(ll_attention_stream *s) {
    cache *own = s->own;
    if (!own) return;
    ll_free(own->of_distances);
    ll_free(own->keys);
    ll_free(own->values);
    ll_free(own);
}

/* A row of running sums: of values, and by distance (shaw). */
static size_t wide(const ll_attention_stream *s) {
    const cache *own = s->own;
    return (size_t)s->op->c.E + (own->distances.values ? own->distances.ld : 0);
}

static size_t scratch_floats(const ll_attention_stream *s) {
    const cache *own = s->own;
    return ROWS * ((size_t)s->op->D + (size_t)s->op->c.E + wide(s) + KEYS + 2 + own->distances.ld);
}

/* Makes the cache large enough for n more tokens, by doubling. If memory is refused, the stream stays as it was. */
static ll_status reserve(ll_attention_stream *s, int64_t n) {
    cache *own = s->own;
    const size_t heads = ll_stream_heads(s), D = (size_t)s->op->D, E = (size_t)s->op->c.E;
    if (n > (1 << 30) - s->position)
        return ll_fail(LL_EINVAL, "attention stream: %lld tokens; softmax keeps all of them and stops at 2^30",
                       (long long)(s->position + n));
    const size_t needed = blocks_of(s->position + n), used = blocks_of(s->position);
    size_t blocks = own->blocks ? own->blocks : 1;
    while (blocks < needed) blocks *= 2;
    if (blocks == own->blocks) return LL_OK;
    float *keys = ll_alloc(blocks, heads * D * KEYS * sizeof *keys);
    float *values = ll_alloc(blocks, heads * E * KEYS * sizeof *values);
    if (!keys || !values) {
        ll_free(keys);
        ll_free(values);
        return LL_ENOMEM;
    }
    if (used) {
        memcpy(keys, own->keys, used * heads * D * KEYS * sizeof *keys);
        memcpy(values, own->values, used * heads * E * KEYS * sizeof *values);
    }
    ll_free(own->keys);
    ll_free(own->values);
    own->keys = keys, own->values = values, own->blocks = blocks;
    return LL_OK;
}

/* One (sequence, head), with the scratch of its worker. */
typedef struct {
    const ll_feed *f;
    const cache *own;
    size_t index, b, h;
    float *q, *P, *sum, *part, *m, *l; /* (ROWS, D), (ROWS, KEYS), (ROWS, wide), (ROWS, E), (ROWS) twice */
    float *by;                         /* (ROWS, ld) logits by distance */
    size_t wide;
} lane;

static lane lane_at(const ll_feed *f, size_t index, int worker) {
    const ll_attention_config *c = &f->s->op->c;
    lane j = {.f = f, .own = f->s->own, .index = index, .b = index / (size_t)c->H, .h = index % (size_t)c->H};
    j.q = f->s->pool + (size_t)worker * f->s->scratch;
    j.P = j.q + ROWS * (size_t)f->s->op->D;
    j.sum = j.P + ROWS * KEYS;
    j.wide = wide(f->s);
    j.part = j.sum + ROWS * j.wide;
    j.m = j.part + ROWS * (size_t)c->E;
    j.l = j.m + ROWS;
    j.by = j.l + ROWS;
    return j;
}

static float *keys_of(const lane *j, size_t block) {
    return j->own->keys + (block * ll_stream_heads(j->f->s) + j->index) * (size_t)j->f->s->op->D * KEYS;
}
static float *values_of(const lane *j, size_t block) {
    return j->own->values + (block * ll_stream_heads(j->f->s) + j->index) * (size_t)j->f->s->op->c.E * KEYS;
}

/* Puts token t of the call into the cache. When a block begins, what an earlier stream left there is cleared. */
static void keep(const lane *j, int t) {
    const ll_feed *f = j->f;
    const size_t D = (size_t)f->s->op->D, E = (size_t)f->s->op->c.E, n = (size_t)f->s->position + (size_t)t;
    float *keys = keys_of(j, n / KEYS), *values = values_of(j, n / KEYS);
    const float *key = ll_feed_at(&f->key, j->b, j->h, t);
    if (n % KEYS == 0) {
        memset(keys, 0, D * KEYS * sizeof *keys);
        memset(values, 0, E * KEYS * sizeof *values);
    }
    for (size_t e = 0; e < D; e++) keys[e * KEYS + n % KEYS] = key[e];
    memcpy(values + n % KEYS * E, ll_feed_at(&f->v, j->b, j->h, t), E * sizeof *values);
}

/* out (rows, N) = A B. A single row reads B in the order of memory, because its speed depends on that. Its sums are the
 * same as those of the product. */
static void product(const ll_kernels *k, int rows, int N, int K, const float *A, size_t lda, const float *B, size_t ldb,
                    float *out, size_t ldo) {
    if (rows > 1) {
        k->gemm(rows, N, K, A, lda, 1, B, ldb, out, ldo, 0);
        return;
    }
    if (N < KEYS) {
        k->gemv(N, K, A, B, ldb, out, 0);
        return;
    }
    memset(out, 0, (size_t)N * sizeof *out);
    for (int i = 0; i < K; i++) k->axpy((size_t)N, A[i], B + (size_t)i * ldb, out);
}

/* One block of keys. Row i sees sees[i] > 0 of them: more than row i - 1, or all. Row 0 is token `first`. */
static void pass(const lane *j, size_t block, int64_t first, int rows, const int *sees) {
    const ll_kernels *k = j->f->k;
    const ll_distances *d = &j->own->distances;
    const int D = j->f->s->op->D, E = j->f->s->op->c.E;
    const float *values = values_of(j, block);
    int whole = 0;
    product(k, rows, sees[rows - 1], D, j->q, (size_t)D, keys_of(j, block), KEYS, j->P, KEYS);
    for (int i = 0; i < rows; i++) {
        float *P = j->P + i * KEYS, *sum = j->sum + (size_t)i * j->wide;
        const int64_t far = (int64_t)block * KEYS - (first + i);
        if (d->biased || d->keys)
            ll_distances_spread(d, k, d->biased ? d->row + j->h * d->ld : j->by + (size_t)i * d->ld, far, sees[i], P);
        ll_exact_soften(k, 0, sees[i], sees[i], P, j->m + i, j->l + i, (int)j->wide, sum);
        if (d->values) ll_distances_gather(d, k, P, far, sees[i], sum + E);
        whole += sees[i] == KEYS;
        if (sees[i] < KEYS) product(k, 1, E, sees[i], P, KEYS, values, (size_t)E, j->part + i * E, (size_t)E);
    }
    const int from = rows - whole;
    if (whole) product(k, whole, E, KEYS, j->P + from * KEYS, KEYS, values, (size_t)E, j->part + from * E, (size_t)E);
    for (int i = 0; i < rows; i++) k->add((size_t)E, j->part + i * E, j->sum + (size_t)i * j->wide);
}

/* Row i from its sums to y. */
static void finish(const lane *j, int i, float *y) {
    const ll_distances *d = &j->own->distances;
    const size_t E = (size_t)j->f->s->op->c.E;
    memcpy(y, j->sum + (size_t)i * j->wide, E * sizeof *y);
    if (d->values) {
        j->f->k->gemv((int)E, d->n, j->sum + (size_t)i * j->wide + E, d->v, E, j->part, 0);
        j->f->k->add(E, j->part, y);
    }
    j->f->k->scale(E, 1 / j->l[i], y);
}

/* Tokens t0..t0+n-1 of the call, which are in the cache. */
static void answer(const lane *j, int t0, int n) {
    const ll_feed *f = j->f;
    const ll_attention_config *c = &f->s->op->c;
    const ll_distances *d = &j->own->distances;
    const size_t D = (size_t)f->s->op->D, E = (size_t)c->E;
    const int64_t first = f->s->position + t0;
    for (int i = 0; i < n; i++) {
        memcpy(j->q + (size_t)i * D, ll_feed_at(&f->q, j->b, j->h, t0 + i), D * sizeof *j->q);
        j->m[i] = -INFINITY, j->l[i] = 0;
    }
    f->k->scale((size_t)n * D, c->input_scale, j->q);
    if (d->keys) product(f->k, n, d->n, (int)D, j->q, D, d->kt, d->ld, j->by, d->ld);
    memset(j->sum, 0, (size_t)n * j->wide * sizeof *j->sum);
    for (int64_t j0 = 0; j0 < first + n; j0 += KEYS) {
        int sees[ROWS], skip = 0;
        for (int i = 0; i < n; i++) {
            const int64_t seen = first + i + 1 - j0;
            sees[i] = seen < 0 ? 0 : seen < KEYS ? (int)seen : KEYS;
            skip += sees[i] == 0;
        }
        lane rest = *j; /* rows that see something */
        rest.q += (size_t)skip * D, rest.sum += (size_t)skip * j->wide, rest.m += skip, rest.l += skip;
        rest.by += (size_t)skip * d->ld, rest.part += (size_t)skip * E;
        pass(&rest, (size_t)j0 / KEYS, first + skip, n - skip, sees + skip);
    }
    for (int i = 0; i < n; i++) finish(j, i, ll_feed_at(&f->y, j->b, j->h, t0 + i));
}

static void feed_head(void *arg, size_t index, int worker) {
    const ll_feed *f = arg;
    const lane j = lane_at(f, index, worker);
    for (int t0 = 0; t0 < f->n; t0 += ROWS) {
        const int n = ll_min_int(f->n - t0, ROWS);
        for (int t = t0; t < t0 + n; t++) keep(&j, t);
        answer(&j, t0, n);
    }
}

static ll_status feed(ll_feed *f) {
    cache *own = f->s->own;
    ll_distances_set(&own->distances, f->s->op);
    ll_stream_share_heads(f, (double)f->s->position + f->n, feed_head);
    return LL_OK;
}

static int state(const ll_attention_stream *s, int64_t position, ll_state_tensor tensor[LL_STATE_TENSORS]) {
    const cache *own = s->own;
    const size_t used = blocks_of(position), heads = ll_stream_heads(s);
    const size_t D = (size_t)s->op->D, E = (size_t)s->op->c.E;
    tensor[0] = (ll_state_tensor){"keys", LL_F32, 4, {used, heads, D, KEYS}, own->keys};
    tensor[1] = (ll_state_tensor){"values", LL_F32, 4, {used, heads, KEYS, E}, own->values};
    return 2;
}

static size_t bytes(const ll_attention_stream *s) {
    const cache *own = s->own;
    return own->blocks * ll_stream_heads(s) * KEYS * (size_t)(s->op->D + s->op->c.E) * sizeof(float);
}

const ll_recurrence ll_recurrence_exact = {
    .create = create,
    .free = destroy,
    .scratch = scratch_floats,
    .reserve = reserve,
    .step = feed,
    .state = state,
    .bytes = bytes,
};
