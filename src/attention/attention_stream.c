/* Streams of the operator: made, fed, copied; what they remember, for files. Nothing in an answer depends on how
 * tokens are cut into calls. */
#include "attention/attention_stream.h"

#include <math.h>
#include <string.h>

#include "attention/table.h"
#include "base/memory.h"

enum { WORTH = 1 << 16 /* multiply-adds below which waking other threads costs more than it gives */ };

static const ll_recurrence *kind_of(const ll_attention *op) {
    switch (op->method->keeps) {
    case LL_KEEPS_STATE: return &ll_recurrence_linear;
    case LL_KEEPS_KEYS: return &ll_recurrence_exact;
    case LL_KEEPS_WINDOW: return &ll_recurrence_window;
    case LL_KEEPS_BUCKETS: return &ll_recurrence_buckets;
    case LL_KEEPS_NOTHING: break;
    }
    return &ll_recurrence_value;
}

/* Scratch for the threads there are now. */
static ll_status ready(ll_attention_stream *s) {
    const int threads = ll_threads();
    if (s->workers >= threads) return LL_OK;
    const size_t scratch = s->recurrence->scratch ? (s->recurrence->scratch(s) + 15) / 16 * 16 : 0;
    float *pool = ll_alloc((size_t)threads * scratch, sizeof *pool);
    if (!pool) return LL_ENOMEM;
    ll_free(s->pool);
    s->pool = pool, s->scratch = scratch, s->workers = threads;
    return LL_OK;
}

ll_status ll_attention_can_stream(const ll_attention *op) {
    static const char *const rule[] = {"prefix", "token", "sequence", "batch", "none"};
    if (!op->c.causal) return ll_fail(LL_EINVAL, "attention stream: the operator is not causal: it needs later tokens");
    if (!ll_keyed_heads(&op->c)) return LL_OK; /* nothing that a maximum could be over */
    if (op->inner) return ll_attention_can_stream(op->inner);
    if (op->phi[LL_KEY] == LL_PHI_FIXED && op->c.key_max != LL_MAX_NONE)
        return ll_fail(LL_EINVAL,
                       "attention stream: with an eps, a key maximum over the %s needs later tokens; "
                       "use prefix or none",
                       rule[op->c.key_max]);
    if (op->phi[LL_QUERY] == LL_PHI_FIXED && op->c.query_max == LL_MAX_SEQUENCE)
        return ll_fail(LL_EINVAL, "attention stream: a query maximum over the sequence needs later tokens; use token");
    return LL_OK;
}

static ll_status build(ll_attention_stream *s) {
    if (s->op->inner) return ll_shell_stream_create(&s->shell, s->op, s->B);
    s->recurrence = kind_of(s->op);
    const ll_status status = s->recurrence->create ? s->recurrence->create(s) : LL_OK;
    return status ? status : ll_attention_stream_reserve(s, 1);
}

ll_status ll_attention_stream_create(ll_attention_stream **stream, const ll_attention *op, int B) {
    ll_status status = ll_attention_can_stream(op);
    if (status) return status;
    if (B < 1) return ll_fail(LL_EINVAL, "attention stream: %d sequences, must be at least 1", B);
    ll_attention_stream *s = ll_alloc(1, sizeof *s);
    if (!s) return LL_ENOMEM;
    s->op = op;
    s->B = B;
    status = build(s);
    if (status) {
        ll_attention_stream_free(s);
        return status;
    }
    ll_attention_stream_reset(s);
    *stream = s;
    return LL_OK;
}

void ll_attention_stream_free(ll_attention_stream *s) {
    if (!s) return;
    ll_shell_stream_free(s->shell);
    ll_distances_free(&s->distances);
    ll_free(s->state);
    ll_free(s->keys);
    ll_free(s->values);
    ll_free(s->pool);
    ll_free(s);
}

void ll_attention_stream_reset(ll_attention_stream *s) {
    s->position = 0;
    if (s->shell) {
        ll_shell_stream_reset(s->shell);
    } else if (s->recurrence->reset) {
        s->recurrence->reset(s);
    }
}

size_t ll_attention_stream_bytes(const ll_attention_stream *s) {
    if (s->shell) return sizeof *s + ll_shell_stream_bytes(s->shell);
    return sizeof *s + s->recurrence->bytes(s) + (size_t)s->workers * s->scratch * sizeof(float);
}

ll_status ll_attention_stream_reserve(ll_attention_stream *s, int n) {
    const ll_status status = s->recurrence->grow ? s->recurrence->grow(s, n) : LL_OK;
    return status ? status : ready(s);
}

void ll_stream_share(double work, int workers, size_t n, ll_task *task, void *arg) {
    if (work >= WORTH) {
        const int threads = ll_threads(); /* fewer than there is scratch for, where the number fell */
        ll_parallel_among(threads < workers ? threads : workers, n, task, arg);
        return;
    }
    for (size_t i = 0; i < n; i++) task(arg, i, 0);
}

ll_status ll_attention_stream_feed(ll_attention_stream *s, int n, ll_view q, ll_view k, ll_view v, ll_view y) {
    if (n < 0) return ll_fail(LL_EINVAL, "attention stream: %d tokens, must not be negative", n);
    ll_status status = s->shell ? ll_shell_stream_feed(s->shell, n, q, k, v, y) : ll_attention_stream_reserve(s, n);
    if (status) return status;
    if (!s->shell) {
        ll_feed f = {s, ll_kernel_table(), n, q, k, v, y};
        ll_distances_set(&s->distances, s->op);
        const double work = s->recurrence->work(s, n) * n * (s->op->c.D + s->op->c.E) * (double)ll_stream_heads(s);
        ll_stream_share(work, s->workers, ll_stream_heads(s), s->recurrence->feed, &f);
    }
    s->position += n;
    return LL_OK;
}

/* ---- What a stream remembers ---- */

int ll_attention_stream_state(const ll_attention_stream *s, int64_t position,
                              ll_state_tensor tensor[LL_STATE_TENSORS]) {
    return s->shell ? ll_shell_stream_state(s->shell, position, tensor) : s->recurrence->state(s, position, tensor);
}

ll_status ll_attention_stream_seek(ll_attention_stream *s, int64_t position) {
    ll_attention_stream_reset(s);
    ll_status status = s->shell ? ll_shell_stream_seek(s->shell, position) : LL_OK;
    if (!s->shell && s->recurrence->grow) status = s->recurrence->grow(s, position);
    if (!status) s->position = position;
    return status;
}

ll_status ll_attention_stream_check(const ll_attention_stream *s) {
    ll_state_tensor t[LL_STATE_TENSORS];
    if (s->shell) return ll_shell_stream_check(s->shell);
    if (s->recurrence->check) return s->recurrence->check(s);
    return ll_state_check(t, s->recurrence->state(s, s->position, t));
}

static size_t count_of(const ll_state_tensor *t) {
    size_t count = 1;
    for (int i = 0; i < t->rank; i++) count *= t->shape[i];
    return count;
}

size_t ll_state_bytes(const ll_state_tensor *t) {
    return count_of(t) * (t->dtype == LL_F64 ? sizeof(double) : sizeof(float));
}

ll_status ll_state_check(const ll_state_tensor *t, int count) {
    for (; count; t++, count--) {
        const float *x = t->data;
        const double *wide = t->data;
        for (size_t i = 0, n = count_of(t); i < n; i++)
            if (!isfinite(t->dtype == LL_F64 ? wide[i] : (double)x[i]))
                return ll_fail(LL_EFORMAT, "tensor %s is not finite at element %zu", t->name, i);
    }
    return LL_OK;
}

ll_status ll_attention_stream_clone(ll_attention_stream **copy, const ll_attention_stream *s) {
    ll_attention_stream *new = NULL;
    ll_state_tensor from[LL_STATE_TENSORS], to[LL_STATE_TENSORS];
    ll_status status = ll_attention_stream_create(&new, s->op, s->B);
    if (!status) status = ll_attention_stream_seek(new, s->position);
    if (status) {
        ll_attention_stream_free(new);
        return status;
    }
    const int n = ll_attention_stream_state(s, s->position, from);
    (void)ll_attention_stream_state(new, s->position, to);
    for (int i = 0; i < n; i++) memcpy(to[i].data, from[i].data, ll_state_bytes(&from[i]));
    *copy = new;
    return LL_OK;
}
