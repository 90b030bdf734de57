/* Reformer as a stream. Causal attention cuts each bucket into runs from its first token on. A token sees earlier
 * tokens of its run, and the run before (reformer.c). So later tokens see at most the last two runs of each bucket of
 * each round. The stream has a ring of 2 chunk keys and values for each, so its size is constant.
 *
 *   y_i = sum_rounds sum_j e^(s_ij - m) v_j / sum_rounds sum_j e^(s_ij - m), or v_i where i sees nothing
 *
 * Tokens are computed one by one. Which slots are read, and in which order, depends only on earlier tokens. */
#include <math.h>
#include <string.h>

#include "attention/approximate/reformer.h"
#include "attention/attention_stream.h"
#include "base/integer.h"
#include "base/memory.h"

enum { PIECES = 128 /* runs that a token can see: two for each of at most 64 rounds */ };

static size_t buckets(const ll_attention_stream *s) {
    return (size_t)s->op->c.approximate.rounds * (size_t)s->op->c.approximate.buckets;
}

/* Slots of a bucket. */
static size_t slots(const ll_attention_stream *s) { return 2 * (size_t)s->op->c.approximate.chunk; }

typedef struct {
    double *count;        /* (B, H, rounds, buckets) tokens that each has had */
    float *keys, *values; /* (B, H, rounds, buckets, slots, D), (.., E) */
} rings;

static ll_status create(ll_attention_stream *s) {
    const size_t rows = ll_stream_heads(s) * buckets(s) * slots(s);
    rings *own = s->own = ll_alloc(1, sizeof *own);
    if (!own) return LL_ENOMEM;
    own->count = ll_alloc(ll_stream_heads(s) * buckets(s), sizeof *own->count);
    own->keys = ll_alloc(rows, (size_t)s->op->D * sizeof *own->keys);
    own->values = ll_alloc(rows, (size_t)s->op->c.E * sizeof *own->values);
    return own->count && own->keys && own->values ? LL_OK : LL_ENOMEM;
}

static void destroy(ll_attention_stream *s) {
    rings *own = s->own;
    if (!own) return;
    ll_free(own->count);
    ll_free(own->keys);
    ll_free(own->values);
    ll_free(own);
}

static size_t scratch_floats(const ll_attention_stream *s) {
    const ll_approximate_config *r = &s->op->c.approximate;
    return (size_t)r->buckets / 2 + 2 * (size_t)s->op->D + (size_t)r->rounds * slots(s);
}

static void reset(ll_attention_stream *s) {
    const size_t rows = ll_stream_heads(s) * buckets(s) * slots(s);
    const rings *own = s->own;
    memset(own->count, 0, ll_stream_heads(s) * buckets(s) * sizeof *own->count);
    memset(own->keys, 0, rows * (size_t)s->op->D * sizeof *own->keys);
    memset(own->values, 0, rows * (size_t)s->op->c.E * sizeof *own->values);
}

/* One (sequence, head), and this worker's scratch. */
typedef struct {
    const ll_attention *op;
    const ll_kernels *k;
    size_t slots;
    double *count; /* (rounds, buckets) tokens that each has had */
    float *keys, *values;
    float *hashes, *q, *key, *weight;
} lane;

static lane lane_at(const ll_feed *f, size_t index, int worker) {
    const ll_attention_stream *s = f->s;
    const size_t D = (size_t)s->op->D, E = (size_t)s->op->c.E, rows = index * buckets(s) * slots(s);
    const rings *own = s->own;
    lane j = {.op = s->op, .k = f->k, .slots = slots(s), .count = own->count + index * buckets(s)};
    j.keys = own->keys + rows * D, j.values = own->values + rows * E;
    j.hashes = s->pool + (size_t)worker * s->scratch;
    j.q = j.hashes + s->op->c.approximate.buckets / 2, j.key = j.q + D, j.weight = j.key + D;
    return j;
}

/* Slots of a bucket that follow each other. */
typedef struct {
    size_t first, n;
} piece;

/* The slots that the next token of bucket `at` sees. Returns how many pieces they are. */
static int seen(const lane *j, size_t at, piece out[2]) {
    const size_t chunk = j->slots / 2, n = (size_t)j->count[at], run = n / chunk;
    const size_t from = run ? (run - 1) * chunk : 0, first = from % j->slots, count = n - from;
    const size_t straight = ll_min_size(count, j->slots - first);
    out[0] = (piece){at * j->slots + first, straight};
    out[1] = (piece){at * j->slots, count - straight};
    return out[1].n ? 2 : out[0].n ? 1 : 0;
}

static void token(lane *j, int head, const float *q, const float *v, float *y) {
    const ll_attention_config *c = &j->op->c;
    const size_t D = (size_t)j->op->D, E = (size_t)c->E;
    size_t n = 0, at[PIECES / 2];
    piece pieces[PIECES];
    int count = 0;
    j->k->scaled(D, c->input_scale, q, j->q);
    j->k->scaled(D, ll_reformer_inverse(j->op, j->k, q), q, j->key);
    for (int round = 0; round < c->approximate.rounds; round++) {
        int bucket;
        ll_reformer_hash(j->op, j->k, round, head, 1, q, D, j->hashes, &bucket);
        at[round] = (size_t)round * (size_t)c->approximate.buckets + (size_t)bucket;
        count += seen(j, at[round], pieces + count);
    }
    for (int i = 0; i < count; n += pieces[i++].n)
        j->k->gemv_rows((int)pieces[i].n, (int)D, j->keys + pieces[i].first * D, D, j->q, j->weight + n, 0);
    if (n) {
        const float sum = j->k->exp_sum(n, j->k->max(n, j->weight), j->weight, j->weight);
        const float *weight = j->weight;
        for (int i = 0; i < count; weight += pieces[i++].n)
            j->k->gemv((int)E, (int)pieces[i].n, weight, j->values + pieces[i].first * E, E, y, i > 0);
        j->k->scale(E, 1 / sum, y);
    } else {
        memcpy(y, v, E * sizeof *y);
    }
    for (int round = 0; round < c->approximate.rounds; round++) {
        const size_t slot = at[round] * j->slots + (size_t)j->count[at[round]] % j->slots;
        memcpy(j->keys + slot * D, j->key, D * sizeof *j->key);
        memcpy(j->values + slot * E, v, E * sizeof *v);
        j->count[at[round]] += 1;
    }
}

static void feed_head(void *arg, size_t index, int worker) {
    const ll_feed *f = arg;
    const size_t H = (size_t)f->s->op->c.H, b = index / H, h = index % H;
    lane j = lane_at(f, index, worker);
    for (int t = 0; t < f->n; t++)
        token(&j, (int)h, ll_feed_at(&f->q, b, h, t), ll_feed_at(&f->v, b, h, t), ll_feed_at(&f->y, b, h, t));
}

static ll_status feed(ll_feed *f) {
    const ll_approximate_config *r = &f->s->op->c.approximate;
    ll_stream_share_heads(f, (double)r->rounds * ((double)slots(f->s) + r->buckets / 2), feed_head);
    return LL_OK;
}

static int state(const ll_attention_stream *s, int64_t position, ll_state_tensor tensor[LL_STATE_TENSORS]) {
    const rings *own = s->own;
    const size_t B = (size_t)s->B, H = (size_t)s->op->c.H, rows = buckets(s) * slots(s);
    (void)position;
    tensor[0] = (ll_state_tensor){"tokens", LL_F64, 3, {B, H, buckets(s)}, own->count};
    tensor[1] = (ll_state_tensor){"keys", LL_F32, 4, {B, H, rows, (size_t)s->op->D}, own->keys};
    tensor[2] = (ll_state_tensor){"values", LL_F32, 4, {B, H, rows, (size_t)s->op->c.E}, own->values};
    return 3;
}

/* The state of calls is the same, but counts are float. Those of full buckets are reduced modulo their slots. */
static void load_state(ll_attention_stream *s, int b, const float *state) {
    const rings *own = s->own;
    const size_t n = (size_t)s->op->c.H * buckets(s), first = (size_t)b * n;
    const size_t D = (size_t)s->op->D, E = (size_t)s->op->c.E;
    const float *keys = state + n, *values = keys + n * slots(s) * D;
    for (size_t i = 0; i < n; i++) own->count[first + i] = (double)state[i];
    memcpy(own->keys + first * slots(s) * D, keys, n * slots(s) * D * sizeof *keys);
    memcpy(own->values + first * slots(s) * E, values, n * slots(s) * E * sizeof *values);
}

static void store_state(const ll_attention_stream *s, int b, float *state) {
    const rings *own = s->own;
    const size_t n = (size_t)s->op->c.H * buckets(s), first = (size_t)b * n;
    const size_t D = (size_t)s->op->D, E = (size_t)s->op->c.E;
    float *keys = state + n, *values = keys + n * slots(s) * D;
    for (size_t i = 0; i < n; i++) state[i] = ll_bucket_count((size_t)own->count[first + i], slots(s));
    memcpy(keys, own->keys + first * slots(s) * D, n * slots(s) * D * sizeof *keys);
    memcpy(values, own->values + first * slots(s) * E, n * slots(s) * E * sizeof *values);
}

static size_t bytes(const ll_attention_stream *s) {
    const rings *own = s->own;
    const size_t row = (size_t)(s->op->D + s->op->c.E) * sizeof(float);
    return ll_stream_heads(s) * buckets(s) * (sizeof *own->count + slots(s) * row);
}

/* Every token is in one bucket of each round. After a prompt that a call has read, counts of full buckets may be too
 * small by whole rings. */
static ll_status check(const ll_attention_stream *s) {
    const rings *own = s->own;
    const size_t n = (size_t)s->op->c.approximate.buckets, rounds = (size_t)s->op->c.approximate.rounds;
    ll_state_tensor t[LL_STATE_TENSORS];
    ll_status status = ll_state_check(t, state(s, s->position, t));
    for (size_t r = 0; r < ll_stream_heads(s) * rounds && !status; r++) {
        double sum = 0;
        for (size_t a = 0; a < n; a++) {
            const double count = own->count[r * n + a];
            sum += count >= 0 && count == floor(count) ? count : NAN;
        }
        if (!(sum <= (double)s->position) || fmod((double)s->position - sum, (double)slots(s)) != 0)
            status = ll_fail(LL_EFORMAT,
                             "tensor tokens: the buckets of round %zu do not have the %lld tokens that there "
                             "were",
                             r % rounds, (long long)s->position);
    }
    return status;
}

const ll_recurrence ll_recurrence_reformer = {
    .create = create,
    .free = destroy,
    .scratch = scratch_floats,
    .reset = reset,
    .step = feed,
    .load_state = load_state,
    .store_state = store_state,
    .state = state,
    .bytes = bytes,
    .check = check,
};
