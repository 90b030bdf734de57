/* rope-linear token by token, and as the source of cross attention. The numerator and the denominator each have a
 * stream, in the scratch of the whole one, or a cache. The output of the first is divided by that of the second. */
#include "attention/attention_stream.h"
#include "attention/cross_cache.h"
#include "attention/linear/rope_linear.h"
#include "base/integer.h"
#include "base/memory.h"

/* ---- As a stream ---- */

enum { TOKENS = 64 /* divided at a time */ };

typedef struct {
    ll_attention_stream *numerator, *denominator;
    float *sums; /* (B, H, TOKENS) */
} streams;

static ll_status create_stream(ll_attention_stream *s) {
    const ll_rope_linear *of = ll_rope_linear_parts(s->op);
    streams *own = s->own = ll_alloc(1, sizeof *own);
    if (!own) return LL_ENOMEM;
    own->sums = ll_alloc(ll_stream_heads(s) * TOKENS, sizeof *own->sums);
    ll_status status = own->sums ? ll_attention_stream_create_lean(&own->numerator, of->numerator, s->B) : LL_ENOMEM;
    return status ? status : ll_attention_stream_create_lean(&own->denominator, of->denominator, s->B);
}

/* Of either: they run one after the other, in the scratch of this stream. */
static size_t scratch(const ll_attention_stream *s) {
    const streams *own = s->own;
    return ll_max_size(ll_attention_stream_lent_floats(own->numerator),
                       ll_attention_stream_lent_floats(own->denominator));
}

static void free_stream(ll_attention_stream *s) {
    streams *own = s->own;
    if (!own) return;
    ll_attention_stream_free(own->numerator);
    ll_attention_stream_free(own->denominator);
    ll_free(own->sums);
    ll_free(own);
}

static void reset_stream(ll_attention_stream *s) {
    const streams *own = s->own;
    ll_attention_stream_reset(own->numerator);
    ll_attention_stream_reset(own->denominator);
}

static ll_status reserve_stream(ll_attention_stream *s, int64_t n) {
    const streams *own = s->own;
    const ll_status status = ll_attention_stream_reserve(own->numerator, (int)n);
    return status ? status : ll_attention_stream_reserve(own->denominator, (int)n);
}

static ll_status seek_stream(ll_attention_stream *s, int64_t position) {
    const streams *own = s->own;
    const ll_status status = ll_attention_stream_seek(own->numerator, position);
    return status ? status : ll_attention_stream_seek(own->denominator, position);
}

static ll_status feed_tokens(ll_feed *f, int64_t t0, int n) {
    const streams *own = f->s->own;
    const ll_attention *op = f->s->op;
    float one = 1;
    const ll_view sums = ll_view_packed(own->sums, op->c.H, TOKENS, 1), y = ll_view_from(f->y, t0);
    const ll_view q = ll_view_from(f->q, t0), k = ll_view_from(f->key, t0), v = ll_view_from(f->v, t0);
    const ll_view gate = ll_view_from(f->gate, t0), ones = {.data = &one};
    ll_status status = ll_attention_stream_feed_gated(own->numerator, n, q, k, v, gate, y);
    if (!status) status = ll_attention_stream_feed_gated(own->denominator, n, q, k, ones, gate, sums);
    if (status) return status;
    for (int b = 0; b < f->s->B; b++)
        for (int h = 0; h < op->c.H; h++)
            for (int t = 0; t < n; t++) {
                const double sum = (double)*ll_element(&sums, b, h, t), keys = (double)(f->s->position + t0 + t + 1);
                const float factor = ll_inverse((float)ll_divisor(op, sum, 0, keys));
                for (int e = 0; e < op->c.E; e++) ll_element(&y, b, h, t)[e] *= factor;
            }
    return LL_OK;
}

static ll_status feed(ll_feed *f) {
    const streams *own = f->s->own;
    ll_status status = LL_OK;
    ll_attention_stream_lend(own->numerator, f->s->pool, f->s->workers);
    ll_attention_stream_lend(own->denominator, f->s->pool, f->s->workers);
    for (int t = 0; t < f->n && !status; t += TOKENS)
        status = feed_tokens(f, t, f->n - t < TOKENS ? f->n - t : TOKENS);
    return status;
}

static int state(const ll_attention_stream *s, int64_t position, ll_state_tensor tensor[LL_STATE_TENSORS]) {
    const streams *own = s->own;
    const int n = ll_attention_stream_state(own->numerator, position, tensor);
    (void)ll_attention_stream_state(own->denominator, position, tensor + n); /* linear: one tensor each */
    tensor[n].name = "sums";
    return n + 1;
}

static size_t numerator_floats(const streams *own) {
    size_t floats = 0;
    return ll_attention_state_floats(own->numerator->op, &floats) ? 0 : floats;
}

static void prefill(ll_attention_stream *s, int b, const float *state) {
    const streams *own = s->own;
    ll_recurrence_linear.prefill(own->numerator, b, state);
    ll_recurrence_linear.prefill(own->denominator, b, state + numerator_floats(own));
}

static void leave(const ll_attention_stream *s, int b, float *state) {
    const streams *own = s->own;
    ll_recurrence_linear.leave(own->numerator, b, state);
    ll_recurrence_linear.leave(own->denominator, b, state + numerator_floats(own));
}

static size_t bytes(const ll_attention_stream *s) {
    const streams *own = s->own;
    return ll_attention_stream_bytes(own->numerator) + ll_attention_stream_bytes(own->denominator) +
           ll_stream_heads(s) * TOKENS * sizeof *own->sums;
}

static ll_status check_stream(const ll_attention_stream *s) {
    const streams *own = s->own;
    const ll_status status = ll_attention_stream_check(own->numerator);
    return status ? status : ll_attention_stream_check(own->denominator);
}

const ll_recurrence ll_recurrence_rope_linear = {
    .create = create_stream,
    .free = free_stream,
    .scratch = scratch,
    .reserve = reserve_stream,
    .seek = seek_stream,
    .reset = reset_stream,
    .step = feed,
    .prefill = prefill,
    .leave = leave,
    .state = state,
    .bytes = bytes,
    .check = check_stream,
};

/* ---- As the source of cross attention ---- */

typedef struct {
    ll_cross_cache *numerator, *denominator;
    float *sums; /* (H, TOKENS) */
} caches;

static ll_status create_cache(ll_cross_cache *m) {
    const ll_rope_linear *of = ll_rope_linear_parts(m->op);
    caches *own = m->own = ll_alloc(1, sizeof *own);
    if (!own) return LL_ENOMEM;
    own->sums = ll_alloc((size_t)m->op->c.H * TOKENS, sizeof *own->sums);
    ll_status status = own->sums ? ll_cross_cache_create(&own->numerator, of->numerator) : LL_ENOMEM;
    return status ? status : ll_cross_cache_create(&own->denominator, of->denominator);
}

static void free_cache(ll_cross_cache *m) {
    caches *own = m->own;
    if (!own) return;
    ll_cross_cache_free(own->numerator);
    ll_cross_cache_free(own->denominator);
    ll_free(own->sums);
    ll_free(own);
}

static size_t cache_bytes(const ll_cross_cache *m) {
    const caches *own = m->own;
    return ll_cross_cache_bytes(own->numerator) + ll_cross_cache_bytes(own->denominator) +
           (size_t)m->op->c.H * TOKENS * sizeof *own->sums;
}

static ll_status fill_cache(ll_cross_cache *m, int S, ll_view k, ll_view v) {
    const caches *own = m->own;
    float one = 1;
    const ll_status status = ll_cross_cache_fill(own->numerator, S, k, v);
    return status ? status : ll_cross_cache_fill(own->denominator, S, k, (ll_view){.data = &one});
}

static ll_status seek_cache(ll_cross_cache *m, int S) {
    const caches *own = m->own;
    const ll_status status = ll_cross_cache_seek(own->numerator, S);
    return status ? status : ll_cross_cache_seek(own->denominator, S);
}

static int cache_state(const ll_cross_cache *m, int S, ll_state_tensor tensor[LL_STATE_TENSORS]) {
    const caches *own = m->own;
    const int count = ll_cross_cache_state(own->numerator, S, tensor);
    (void)ll_cross_cache_state(own->denominator, S, tensor + count); /* linear: one tensor each */
    tensor[count].name = "sums";
    return count + 1;
}

static ll_status read_tokens(const ll_cross_cache *m, int64_t first, int n, ll_view q, ll_view y) {
    const caches *own = m->own;
    const ll_attention *op = m->op;
    const ll_view sums = ll_view_packed(own->sums, op->c.H, TOKENS, 1);
    ll_status status = ll_cross_cache_read(own->numerator, first, n, q, y);
    if (!status) status = ll_cross_cache_read(own->denominator, first, n, q, sums);
    for (int h = 0; h < op->c.H && !status; h++)
        for (int t = 0; t < n; t++) {
            const double sum = (double)*ll_element(&sums, 0, h, t);
            const float factor = ll_inverse((float)ll_divisor(op, sum, 0, m->S));
            for (int e = 0; e < op->c.E; e++) ll_element(&y, 0, h, t)[e] *= factor;
        }
    return status;
}

static ll_status read_cache(const ll_cross_cache *m, int64_t first, int n, ll_view q, ll_view y) {
    ll_status status = LL_OK;
    for (int t = 0; t < n && !status; t += TOKENS)
        status = read_tokens(m, first + t, n - t < TOKENS ? n - t : TOKENS, ll_view_from(q, t), ll_view_from(y, t));
    return status;
}

const ll_cross_kind ll_cross_rope_linear = {
    .create = create_cache,
    .free = free_cache,
    .bytes = cache_bytes,
    .fill = fill_cache,
    .seek = seek_cache,
    .state = cache_state,
    .read = read_cache,
};
