/* The state of a window: the keys and values of the last window - 1 tokens, which the first queries of the next call
 * still see. A sequence has their number, keys (H, window - 1, D) and values (H, window - 1, E), the oldest first. */
#include <string.h>

#include "attention/exact/exact.h"
#include "base/integer.h"

static size_t rows_of(const ll_attention *op) { return (size_t)op->c.approximate.window - 1; }

ll_status ll_window_state(const ll_attention *op, ll_state_tensor tensor[LL_STATE_TENSORS], int *count) {
    const size_t H = (size_t)op->c.H;
    if (!op->c.causal)
        return ll_fail(LL_EINVAL,
                       "attention state: in both directions a window also sees later tokens, which no earlier "
                       "call can leave; use causal attention");
    tensor[0] = (ll_state_tensor){"tokens", LL_F32, 1, {1}, NULL};
    tensor[1] = (ll_state_tensor){"keys", LL_F32, 3, {H, rows_of(op), (size_t)op->D}, NULL};
    tensor[2] = (ll_state_tensor){"values", LL_F32, 3, {H, rows_of(op), (size_t)op->c.E}, NULL};
    *count = 3;
    return LL_OK;
}

ll_status ll_window_check(const ll_attention *op, const float *state) {
    return ll_state_whole("tokens", (double)state[0], (double)rows_of(op));
}

size_t ll_window_floats(const ll_attention *op) {
    return 1 + (size_t)op->c.H * rows_of(op) * (size_t)(op->D + op->c.E);
}

/* Where the keys of a head begin, and its values. */
static size_t keys_at(const ll_attention *op, int head) { return 1 + (size_t)head * rows_of(op) * (size_t)op->D; }
static size_t values_at(const ll_attention *op, int head) {
    return keys_at(op, op->c.H) + (size_t)head * rows_of(op) * (size_t)op->c.E;
}

ll_window ll_window_at(const ll_attention *op, const ll_attention_call *c, int sequence, int head) {
    const ll_carried s = ll_carried_at(c, ll_window_floats(op), sequence, 0);
    const size_t keys = keys_at(op, head), values = values_at(op, head);
    ll_window w = {.n = s.in ? (int)s.in[0] : 0};
    if (s.in) w.keys = s.in + keys, w.values = s.in + values;
    if (s.din) w.dkeys = s.din + keys, w.dvalues = s.din + values;
    if (s.dout) w.dkeys_out = s.dout + keys, w.dvalues_out = s.dout + values;
    return w;
}

/* Copies the last `kept` rows of `past` (n) and of the call (own) to `out`, which may be `past`. */
static void leave(const float *past, int n, const ll_view *view, int own, int kept, size_t rows, size_t width,
                  float *out) {
    const int old = kept > own ? kept - own : 0;
    if (old) memmove(out, past + (size_t)(n - old) * width, (size_t)old * width * sizeof *out);
    for (int i = old; i < kept; i++)
        memcpy(out + (size_t)i * width, ll_at(view, (size_t)(own - kept + i)), width * sizeof *out);
    memset(out + (size_t)kept * width, 0, (rows - (size_t)kept) * width * sizeof *out);
}

void ll_window_leave(const ll_attention *op, const ll_attention_call *c) {
    const size_t rows = rows_of(op);
    for (int i = 0; i < ll_sequence_count(c); i++) {
        const ll_span s = ll_sequence_at(c, i);
        const ll_carried state = ll_carried_at(c, ll_window_floats(op), i, 0);
        int kept = 0;
        if (!state.out) continue;
        for (int h = 0; h < op->c.H; h++) {
            const ll_window past = ll_window_at(op, c, i, h);
            const ll_views at = ll_views_at(c, &s, h);
            kept = (int)ll_min_size((size_t)past.n + (size_t)s.keys, rows);
            leave(past.keys, past.n, &at.k, s.keys, kept, rows, (size_t)op->D, state.out + keys_at(op, h));
            leave(past.values, past.n, &at.v, s.keys, kept, rows, (size_t)op->c.E, state.out + values_at(op, h));
        }
        state.out[0] = (float)kept; /* last: heads have read it where it was taken */
    }
}

/* One row of n numbers: dout NULL: zeros. */
static void pass(const float *dout, size_t n, float *d) {
    if (dout) memcpy(d, dout, n * sizeof *d);
    if (!dout) memset(d, 0, n * sizeof *d);
}

static void add(const float *dout, size_t n, float *d) {
    for (size_t i = 0; i < n && dout; i++) d[i] += dout[i];
}

void ll_window_gradients(const ll_attention *op, const ll_window *past, const ll_views *at, int s, int from, int to) {
    const size_t D = (size_t)op->D, E = (size_t)op->c.E;
    const int first = s - (int)ll_min_size((size_t)s, rows_of(op)); /* of those that are left */
    for (int i = from; i < to && i < s; i++) {
        const size_t row = (size_t)(i - first);
        const float *dk = i >= first && past->dkeys_out ? past->dkeys_out + row * D : NULL;
        const float *dv = i >= first && past->dvalues_out ? past->dvalues_out + row * E : NULL;
        if (i >= past->n) {
            add(dk, D, ll_at(&at->dk, (size_t)(i - past->n)));
            add(dv, E, ll_at(&at->dv, (size_t)(i - past->n)));
        } else if (past->dkeys) {
            pass(dk, D, past->dkeys + (size_t)i * D);
            pass(dv, E, past->dvalues + (size_t)i * E);
        }
    }
}
