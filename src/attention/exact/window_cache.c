/* Softmax over the tokens of a window as a stream: a ring of their keys and values, of constant size.
 *
 *   y_i = sum_(i - w < j <= i) e^(s_ij - m) v_j / sum e^(s_ij - m)
 *
 * Token by token; sums run over the slots of the ring, whose order depends on the position alone. */
#include <math.h>
#include <string.h>

#include "attention/attention_stream.h"
#include "base/memory.h"

static size_t window(const ll_attention_stream *s) {
    return (size_t)s->op->c.baseline.window;
}

static ll_status create(ll_attention_stream *s) {
    s->keys = ll_alloc(ll_stream_heads(s) * window(s), (size_t)s->op->c.D * sizeof *s->keys);
    s->values = ll_alloc(ll_stream_heads(s) * window(s), (size_t)s->op->c.E * sizeof *s->values);
    return s->keys && s->values ? LL_OK : LL_ENOMEM;
}

static size_t scratch_floats(const ll_attention_stream *s) {
    return window(s) + (size_t)s->op->c.D;
}

static void reset(ll_attention_stream *s) {
    memset(s->keys, 0, ll_stream_heads(s) * window(s) * (size_t)s->op->c.D * sizeof *s->keys);
    memset(s->values, 0, ll_stream_heads(s) * window(s) * (size_t)s->op->c.E * sizeof *s->values);
}

static void feed(void *arg, size_t index, int worker) {
    const ll_feed *f = arg;
    const ll_attention_stream *s = f->s;
    const ll_attention_config *c = &s->op->c;
    const size_t b = index / (size_t)c->H, h = index % (size_t)c->H, D = (size_t)c->D, E = (size_t)c->E, w = window(s);
    float *keys = s->keys + index * w * D, *values = s->values + index * w * E;
    float *weight = s->pool + (size_t)worker * s->scratch, *q = weight + w;
    for (int t = 0; t < f->n; t++) {
        const size_t token = (size_t)s->position + (size_t)t, n = token < w ? token + 1 : w;
        float *y = ll_feed_at(&f->y, b, h, t);
        memcpy(keys + token % w * D, ll_feed_at(&f->key, b, h, t), D * sizeof *keys);
        memcpy(values + token % w * E, ll_feed_at(&f->v, b, h, t), E * sizeof *values);
        f->k->scaled(D, c->input_scale, ll_feed_at(&f->q, b, h, t), q);
        f->k->gemv_rows((int)n, (int)D, keys, D, q, weight, 0);
        f->k->exp_shift(n, f->k->max(n, weight), 1, 0, weight, weight);
        const float sum = f->k->sum(n, weight);
        f->k->gemv((int)E, (int)n, weight, values, E, y, 0);
        f->k->scale(E, 1 / sum, y);
    }
}

static double work(const ll_attention_stream *s, int n) {
    (void)n;
    return (double)window(s);
}

static int state(const ll_attention_stream *s, int64_t position, ll_state_tensor tensor[LL_STATE_TENSORS]) {
    const size_t B = (size_t)s->B, H = (size_t)s->op->c.H;
    (void)position;
    tensor[0] = (ll_state_tensor){"keys", LL_F32, 4, {B, H, window(s), (size_t)s->op->c.D}, s->keys};
    tensor[1] = (ll_state_tensor){"values", LL_F32, 4, {B, H, window(s), (size_t)s->op->c.E}, s->values};
    return 2;
}

static size_t bytes(const ll_attention_stream *s) {
    return ll_stream_heads(s) * window(s) * (size_t)(s->op->c.D + s->op->c.E) * sizeof(float);
}

const ll_recurrence ll_recurrence_window = {
    .create = create,
    .scratch = scratch_floats,
    .reset = reset,
    .feed = feed,
    .work = work,
    .state = state,
    .bytes = bytes,
};
