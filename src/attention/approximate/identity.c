/* Attention that returns V: each token gets its own value. Papers call it identity attention, or OPT. A layer with it
 * costs as much as a layer without attention, so no attention is faster. A model with it learns from single tokens
 * alone. */
#include <string.h>

#include "attention/attention_stream.h"
#include "attention/table.h"
#include "base/parallel.h"

enum { TOKENS = 1024 };

/* out = in for the tokens in use, and 0 after them. With in NULL, out is 0. */
typedef struct {
    const ll_attention_call *c;
    int H, blocks, width;
    ll_view in, out;
} copying;

static void copy_block(void *arg, size_t index, int worker) {
    const copying *x = arg;
    (void)worker;
    const size_t head = index / (size_t)x->blocks, b = head / (size_t)x->H, h = head % (size_t)x->H;
    const size_t row = (size_t)x->width * sizeof(float), from = index % (size_t)x->blocks * TOKENS;
    const size_t n = (size_t)(x->c->lengths ? x->c->lengths[b] : x->c->T), T = (size_t)x->c->T;
    for (size_t t = from; t < T && t < from + TOKENS; t++) {
        float *out = ll_element(&x->out, b, h, t);
        if (x->in.data && t < n)
            memcpy(out, ll_element(&x->in, b, h, t), row);
        else
            memset(out, 0, row);
    }
}

static void copy(const ll_attention *op, const ll_attention_call *c, ll_view in, ll_view out, int width) {
    copying x = {c, op->c.H, (c->T + TOKENS - 1) / TOKENS, width, in, out};
    if (out.data) ll_parallel_among(c->threads, (size_t)c->B * (size_t)x.H * (size_t)x.blocks, copy_block, &x);
}

static size_t saved(const ll_attention *op, int B, int T, int S, int segments) {
    (void)op, (void)B, (void)T, (void)S, (void)segments;
    return 0;
}

static ll_status forward(const ll_attention *op, const ll_attention_call *c) {
    copy(op, c, c->v, c->y, op->c.E);
    return LL_OK;
}

static ll_status backward(const ll_attention *op, const ll_attention_call *c) {
    copy(op, c, c->g, c->dv, op->c.E);
    copy(op, c, (ll_view){0}, c->dq, op->D);
    copy(op, c, (ll_view){0}, c->dk, op->D);
    return LL_OK;
}

/* ---- As a stream: nothing is kept ---- */

static void feed_head(void *arg, size_t index, int worker) {
    const ll_feed *f = arg;
    const size_t H = (size_t)f->s->op->c.H, b = index / H, h = index % H;
    (void)worker;
    for (int t = 0; t < f->n; t++)
        memcpy(ll_feed_at(&f->y, b, h, t), ll_feed_at(&f->v, b, h, t), (size_t)f->s->op->c.E * sizeof(float));
}

static ll_status feed(ll_feed *f) {
    ll_stream_share_heads(f, 1, feed_head);
    return LL_OK;
}

static const ll_recurrence recurrence = {.step = feed};

static ll_status state(const ll_attention *op, ll_state_tensor tensor[LL_STATE_TENSORS], int *count) {
    (void)op, (void)tensor;
    *count = 0;
    return LL_OK;
}

static ll_cost cost(const ll_attention *op, double keys) {
    (void)op, (void)keys;
    return (ll_cost){0};
}

const ll_operator_kind ll_operator_identity = {
    .name = "value",
    .itself = 1,
    .saved = saved,
    .forward = forward,
    .backward = backward,
    .state = state,
    .cost = cost,
    .recurrence = &recurrence,
};
