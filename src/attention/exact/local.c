/* Softmax over the tokens of a window (Beltagy et al. 2020). Whole sequences are computed in the tiles of exact
 * attention, without the tiles beyond the window. A stream has a ring of the window's keys and values, so its size is
 * constant.
 *
 *   y_i = sum_(i - w < j <= i) e^(s_ij - m) v_j / sum e^(s_ij - m)
 *
 * The stream computes tokens one by one. Its sums go over the slots of the ring, whose order depends on the position
 * alone. */
#include <math.h>
#include <string.h>

#include "attention/attention_stream.h"
#include "attention/exact/exact.h"
#include "attention/table.h"
#include "base/integer.h"
#include "base/memory.h"

static size_t window(const ll_attention_stream *s) { return (size_t)s->op->c.approximate.window; }

typedef struct {
    float *keys, *values; /* (B, H, window, D), (B, H, window, E) */
} ring;

static ll_status create(ll_attention_stream *s) {
    ring *own = s->own = ll_alloc(1, sizeof *own);
    if (!own) return LL_ENOMEM;
    own->keys = ll_alloc(ll_stream_heads(s) * window(s), (size_t)s->op->D * sizeof *own->keys);
    own->values = ll_alloc(ll_stream_heads(s) * window(s), (size_t)s->op->c.E * sizeof *own->values);
    return own->keys && own->values ? LL_OK : LL_ENOMEM;
}

static void destroy(ll_attention_stream *s) {
    ring *own = s->own;
    if (!own) return;
    ll_free(own->keys);
    ll_free(own->values);
    ll_free(own);
}

static size_t scratch_floats(const ll_attention_stream *s) { return window(s) + (size_t)s->op->D; }

static void reset(ll_attention_stream *s) {
    const ring *own = s->own;
    memset(own->keys, 0, ll_stream_heads(s) * window(s) * (size_t)s->op->D * sizeof *own->keys);
    memset(own->values, 0, ll_stream_heads(s) * window(s) * (size_t)s->op->c.E * sizeof *own->values);
}

static void feed_head(void *arg, size_t index, int worker) {
    const ll_feed *f = arg;
    const ll_attention_stream *s = f->s;
    const ring *own = s->own;
    const ll_attention_config *c = &s->op->c;
    const size_t b = index / (size_t)c->H, h = index % (size_t)c->H, D = (size_t)s->op->D, E = (size_t)c->E,
                 w = window(s);
    float *keys = own->keys + index * w * D, *values = own->values + index * w * E;
    float *weight = s->pool + (size_t)worker * s->scratch, *q = weight + w;
    for (int t = 0; t < f->n; t++) {
        const size_t token = (size_t)s->position + (size_t)t, n = token < w ? token + 1 : w;
        float *y = ll_feed_at(&f->y, b, h, t);
        memcpy(keys + token % w * D, ll_feed_at(&f->key, b, h, t), D * sizeof *keys);
        memcpy(values + token % w * E, ll_feed_at(&f->v, b, h, t), E * sizeof *values);
        f->k->scaled(D, c->input_scale, ll_feed_at(&f->q, b, h, t), q);
        f->k->gemv_rows((int)n, (int)D, keys, D, q, weight, 0);
        const float sum = f->k->exp_sum(n, f->k->max(n, weight), weight, weight);
        f->k->gemv((int)E, (int)n, weight, values, E, y, 0);
        f->k->scale(E, 1 / sum, y);
    }
}

static ll_status feed(ll_feed *f) {
    ll_stream_share_heads(f, (double)window(f->s), feed_head);
    return LL_OK;
}

static int state(const ll_attention_stream *s, int64_t position, ll_state_tensor tensor[LL_STATE_TENSORS]) {
    const ring *own = s->own;
    const size_t B = (size_t)s->B, H = (size_t)s->op->c.H;
    (void)position;
    tensor[0] = (ll_state_tensor){"keys", LL_F32, 4, {B, H, window(s), (size_t)s->op->D}, own->keys};
    tensor[1] = (ll_state_tensor){"values", LL_F32, 4, {B, H, window(s), (size_t)s->op->c.E}, own->values};
    return 2;
}

/* The state of calls has the last window - 1 tokens, the oldest first; here token t is in slot t mod window. */
static void load_state(ll_attention_stream *s, int b, const float *state) {
    const ring *own = s->own;
    const size_t n = (size_t)state[0], w = window(s), H = (size_t)s->op->c.H;
    const size_t D = (size_t)s->op->D, E = (size_t)s->op->c.E;
    const float *keys = state + 1, *values = keys + H * (w - 1) * D;
    for (size_t i = 0; i < H * n; i++) {
        const size_t h = i / n, row = h * (w - 1) + i % n;
        const size_t slot = ((size_t)b * H + h) * w + ((size_t)s->position - n + i % n) % w;
        memcpy(own->keys + slot * D, keys + row * D, D * sizeof *keys);
        memcpy(own->values + slot * E, values + row * E, E * sizeof *values);
    }
}

static void store_state(const ll_attention_stream *s, int b, float *state) {
    const ring *own = s->own;
    const size_t w = window(s), H = (size_t)s->op->c.H, D = (size_t)s->op->D, E = (size_t)s->op->c.E;
    const size_t n = ll_min_size((size_t)s->position, w - 1);
    float *keys = state + 1, *values = keys + H * (w - 1) * D;
    state[0] = (float)n;
    for (size_t i = 0; i < H * n; i++) {
        const size_t h = i / n, row = h * (w - 1) + i % n;
        const size_t slot = ((size_t)b * H + h) * w + ((size_t)s->position - n + i % n) % w;
        memcpy(keys + row * D, own->keys + slot * D, D * sizeof *keys);
        memcpy(values + row * E, own->values + slot * E, E * sizeof *values);
    }
}

static size_t bytes(const ll_attention_stream *s) {
    return ll_stream_heads(s) * window(s) * (size_t)(s->op->D + s->op->c.E) * sizeof(float);
}

static const ll_recurrence recurrence = {
    .create = create,
    .free = destroy,
    .scratch = scratch_floats,
    .reset = reset,
    .step = feed,
    .load_state = load_state,
    .store_state = store_state,
    .state = state,
    .bytes = bytes,
};

/* ---- The kind ---- */

static ll_status check_local(const ll_attention_config *c) {
    enum { WINDOW_MOST = 1 << 20 };
    const int window = c->approximate.window;
    if (window >= 1 && window <= WINDOW_MOST) return LL_OK;
    return ll_fail(LL_EINVAL, "attention: a window of %d tokens, must be 1 to %d", window, WINDOW_MOST);
}

static ll_cost cost(const ll_attention *op, double keys) {
    const double window = op->c.approximate.window, row = op->D + op->c.E, H = op->c.H;
    const double seen = fmin(keys, op->c.causal ? window : 2 * window - 1);
    return (ll_cost){H * seen * row, H * window * row * sizeof(float)};
}

const ll_operator_kind ll_operator_local = {
    .name = "local",
    .reads = 2,
    .itself = 1,
    .packs = 1,
    .check = check_local,
    .saved = ll_exact_saved,
    .scratch = ll_exact_scratch,
    .forward = ll_exact_forward,
    .backward = ll_exact_backward,
    .state = ll_window_state,
    .check_counts = ll_window_check,
    .cost = cost,
    .recurrence = &recurrence,
};
