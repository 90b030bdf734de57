/* The state of causal reformer between calls, in float. It has a ring of two chunks for each bucket of each round, as a
 * stream has. A sequence has tokens (H, rounds, buckets), keys (H, rounds, buckets, 2 chunk, D), values (.., E). */
#include "attention/approximate/reformer.h"

typedef struct {
    size_t buckets, slots, keys, values; /* of a round: numbers of tokens, slots, floats of keys and of values */
    size_t all;                          /* rounds of all heads */
} layout;

static layout layout_of(const ll_attention *op) {
    const ll_approximate_config *r = &op->c.approximate;
    layout l = {.buckets = (size_t)r->buckets, .slots = (size_t)r->buckets * 2 * (size_t)r->chunk};
    l.keys = l.slots * (size_t)op->D, l.values = l.slots * (size_t)op->c.E;
    l.all = (size_t)op->c.H * (size_t)r->rounds;
    return l;
}

ll_status ll_bucket_tensors(const ll_attention *op, ll_state_tensor tensor[LL_STATE_TENSORS], int *count) {
    const layout l = layout_of(op);
    const size_t H = (size_t)op->c.H, rounds = (size_t)op->c.approximate.rounds;
    if (!op->c.causal)
        return ll_fail(LL_EINVAL, "attention state: in both directions reformer cuts its runs from all tokens of a "
                                  "sequence, so that later ones move them; use causal attention");
    tensor[0] = (ll_state_tensor){"tokens", LL_F32, 2, {H, rounds * l.buckets}, NULL};
    tensor[1] = (ll_state_tensor){"keys", LL_F32, 3, {H, rounds * l.slots, (size_t)op->D}, NULL};
    tensor[2] = (ll_state_tensor){"values", LL_F32, 3, {H, rounds * l.slots, (size_t)op->c.E}, NULL};
    *count = 3;
    return LL_OK;
}

ll_status ll_bucket_check(const ll_attention *op, const float *state) {
    const layout l = layout_of(op);
    ll_status status = LL_OK;
    for (size_t i = 0; i < l.all * l.buckets && !status; i++)
        status = ll_state_whole("tokens", (double)state[i], 4.0 * op->c.approximate.chunk - 1);
    return status;
}

static size_t state_floats(const ll_attention *op) {
    const layout l = layout_of(op);
    return l.all * (l.buckets + l.keys + l.values);
}

ll_bucket_state ll_bucket_state_at(const ll_attention *op, const ll_attention_call *c, int sequence, int head,
                                   int round) {
    const layout l = layout_of(op);
    const size_t at = (size_t)head * (size_t)op->c.approximate.rounds + (size_t)round;
    const size_t count = at * l.buckets, keys = l.all * l.buckets + at * l.keys;
    const size_t values = l.all * (l.buckets + l.keys) + at * l.values;
    const ll_carried s = ll_carried_at(c, state_floats(op), sequence, 0);
    ll_bucket_state b = {0};
    if (s.in) b.count = s.in + count, b.keys = s.in + keys, b.values = s.in + values;
    if (s.out) b.count_out = s.out + count, b.keys_out = s.out + keys, b.values_out = s.out + values;
    if (s.dout) b.dkeys_out = s.dout + keys, b.dvalues_out = s.dout + values;
    if (s.din) b.dcount = s.din + count, b.dkeys = s.din + keys, b.dvalues = s.din + values;
    return b;
}
