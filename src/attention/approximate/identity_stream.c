/* Attention that returns each token's own value, as a stream: nothing is kept. */
#include <string.h>

#include "attention/attention_stream.h"

static void feed(void *arg, size_t index, int worker) {
    const ll_feed *f = arg;
    const size_t H = (size_t)f->s->op->c.H, b = index / H, h = index % H;
    (void)worker;
    for (int t = 0; t < f->n; t++)
        memcpy(ll_feed_at(&f->y, b, h, t), ll_feed_at(&f->v, b, h, t), (size_t)f->s->op->c.E * sizeof(float));
}

static double work(const ll_attention_stream *s, int n) {
    (void)s, (void)n;
    return 1;
}

static int state(const ll_attention_stream *s, int64_t position, ll_state_tensor tensor[LL_STATE_TENSORS]) {
    (void)s, (void)position, (void)tensor;
    return 0;
}

static size_t bytes(const ll_attention_stream *s) {
    (void)s;
    return 0;
}

const ll_recurrence ll_recurrence_value = {
    .feed = feed,
    .work = work,
    .state = state,
    .bytes = bytes,
};
