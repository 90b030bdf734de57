/* Runs the library on a random call (oracle.h). */
#ifndef LL_DRAWN_H
#define LL_DRAWN_H

#include "attention/attention_stream.h"
#include "attention/operator.h"
#include "base/memory.h"
#include "oracle/oracle.h"
#include "test.h"

/* The number of random calls: fewer if each is slow (sanitizers, valgrind). */
static inline int rounds(int n) {
    return getenv("LL_FAST") ? (n + 9) / 10 : n;
}

static inline void drawn_forget(drawn *d, const ll_view *v) {
    for (size_t i = 0; i < v->batch * (size_t)d->call.B; i++) v->data[i] = NAN;
}

/* The library's results, with tiles of `tile` tokens (0: its default). Outputs are NaN before. */
static inline void drawn_run(drawn *d, int tile, int backward) {
    ll_attention *op;
    ll_attention_call *c = &d->call;
    CHECK_OK(ll_attention_create(&op, &d->config));
    ll_attention_set_tile(op, tile);
    const size_t saved = ll_attention_saved(op, c);
    drawn_forget(d, &c->y);
    if (backward) {
        drawn_forget(d, &c->dq);
        drawn_forget(d, &c->dk);
        drawn_forget(d, &c->dv);
        for (int h = 0; h < d->config.H; h++) c->ddecay[h] = (float)d->dr[h]; /* ddecay is added to */
        c->saved = calloc(saved + 1, sizeof(float));
        assert_non_null(c->saved);
        for (size_t i = 0; i < saved; i++) c->saved[i] = NAN;
    }
    CHECK_OK(ll_attention_forward(op, c));
    if (backward) CHECK_OK(ll_attention_backward(op, c));
    ll_attention_free(op);
    free(c->saved);
    c->saved = NULL;
}

/* n normal numbers; the caller frees them. */
static inline float *drawn_normals(int n, double spread, uint64_t *seed) {
    float *x = calloc((size_t)n + 1, sizeof *x);
    assert_non_null(x);
    for (int i = 0; i < n; i++) x[i] = (float)(spread * draw_normal(seed));
    return x;
}

/* All tokens of the call through a stream, in blocks of `least` to `most`. */
static inline void drawn_feed(const drawn *d, ll_attention_stream *s, int least, int most, uint64_t *seed) {
    const ll_attention_call *c = &d->call;
    for (int t = 0; t < c->T;) {
        const int left = c->T - t, n = draw_int(seed, least, left < most ? left : most);
        CHECK_OK(ll_attention_stream_feed(s, n, ll_view_from(c->q, t), ll_view_from(c->k, t), ll_view_from(c->v, t),
                                          (ll_view){0}, ll_view_from(c->y, t)));
        t += n;
    }
}

/* A stream of the operator, token by token and in random blocks, gives the solved definition. Its size is the same at
 * the end as before, unless it `grows`. */
static inline void drawn_stream(drawn *d, const char *name, int grows, double tolerance, uint64_t *seed) {
    ll_attention *op;
    ll_attention_stream *s;
    CHECK_OK(ll_attention_create(&op, &d->config));
    CHECK_OK(ll_attention_stream_create(&s, op, d->call.B));
    const size_t bytes = ll_attention_stream_bytes(s);
    for (int pass = 0; pass < 3; pass++) {
        drawn_forget(d, &d->call.y);
        drawn_feed(d, s, 1, pass == 0 ? 1 : pass == 1 ? 9 : d->call.T, seed);
        drawn_check(d, name, 0, tolerance, 0);
        ll_attention_stream_reset(s);
    }
    if (!grows) assert_int_equal(ll_attention_stream_bytes(s), bytes);
    ll_attention_stream_free(s);
    ll_attention_free(op);
}

/* Each allocation in turn is refused: the failure is reported, and nothing is left behind (sanitizers check). For a
 * causal operator, its stream, and a call forward and backward. */
static inline void drawn_without_memory(drawn *d) {
    ll_attention *op;
    ll_attention_call *c = &d->call;
    CHECK_OK(ll_attention_create(&op, &d->config));
    c->saved = calloc(ll_attention_saved(op, c) + 1, sizeof(float));
    ll_attention_free(op);
    for (long n = 1;; n++) {
        ll_attention_stream *s;
        ll_memory_fail_at(n);
        ll_status status = ll_attention_create(&op, &d->config);
        if (!status) {
            status = ll_attention_stream_create(&s, op, 1);
            if (!status) ll_attention_stream_free(s);
            if (!status) status = ll_attention_forward(op, c);
            if (!status) status = ll_attention_backward(op, c);
            ll_attention_free(op);
        }
        ll_memory_fail_at(0);
        if (!status) break;
        assert_int_equal(status, LL_ENOMEM);
    }
    free(c->saved);
    c->saved = NULL;
}

/* A changed configuration is refused, with an error that has the word. The names c (ll_attention_config) and op
 * (ll_attention *) are in scope. */
#define REFUSED(base, change, word)                                                                                    \
    c = base;                                                                                                          \
    change;                                                                                                            \
    CHECK_FAILS(ll_attention_create(&op, &c), LL_EINVAL, word)

/* y and the gradients, packed one after the other, and their size in bytes; the caller frees them. */
static inline float *drawn_results(drawn *d, size_t *size) {
    const ll_view *v[] = {&d->call.y, &d->call.dq, &d->call.dk, &d->call.dv};
    const int n[] = {d->call.T, d->call.T, d->call.S, d->call.S}, D = d->config.D, E = d->config.E, w[] = {E, D, D, E};
    const size_t rows = (size_t)(d->call.B * d->config.H);
    *size = rows * (size_t)((d->call.T + d->call.S) * (D + E)) * sizeof(float);
    float *all = malloc(*size + 1), *to = all;
    assert_non_null(all);
    for (int i = 0; i < 4; i++) {
        const size_t floats = rows * (size_t)(n[i] * w[i]);
        memcpy(to, drawn_packed(d, v[i], n[i], w[i]), floats * sizeof *to);
        to += floats;
    }
    return all;
}

#endif
