/* Streams of the operator: made, fed, copied; what they remember, for files. Nothing in an answer depends on how
 * tokens are cut into calls. */
#include "attention/stream.h"

#include <string.h>

#include "base/memory.h"
#include "base/parallel.h"

enum { WORTH = 1 << 20 /* multiply-adds below which waking other threads costs more than it gives */ };

static int is_exact(const ll_attention_stream *s) {
    return s->op->c.kernel == LL_KERNEL_SOFTMAX;
}

/* Scratch for the threads there are now. */
static ll_status ready(ll_attention_stream *s) {
    if (s->pool && s->workers >= ll_threads()) return LL_OK;
    const size_t floats = is_exact(s) ? ll_exact_stream_scratch(s->op) : ll_linear_stream_scratch(s->op);
    const size_t scratch = (floats + 15) / 16 * 16;
    float *pool = ll_alloc((size_t)ll_threads() * scratch, sizeof *pool);
    if (!pool) return LL_ENOMEM;
    ll_free(s->pool);
    s->pool = pool, s->scratch = scratch, s->workers = ll_threads();
    return LL_OK;
}

static ll_status check(const ll_attention *op) {
    static const char *const rule[] = {"prefix", "token", "sequence", "batch", "none"};
    if (!op->c.causal) return ll_fail(LL_EINVAL, "attention stream: the operator is not causal: it needs later tokens");
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
    if (is_exact(s)) {
        const ll_status status = ll_exact_stream_grow(s, 1);
        return status ? status : ready(s);
    }
    s->state_size = ll_linear_stream_state(s->op);
    s->state = ll_alloc(ll_stream_heads(s) * s->state_size, sizeof *s->state);
    return s->state ? ready(s) : LL_ENOMEM;
}

ll_status ll_attention_stream_create(ll_attention_stream **stream, const ll_attention *op, int B) {
    ll_status status = check(op);
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
    } else if (s->state) {
        ll_linear_stream_reset(s);
    }
}

size_t ll_attention_stream_bytes(const ll_attention_stream *s) {
    if (s->shell) return sizeof *s + ll_shell_stream_bytes(s->shell);
    const size_t cache = s->blocks * LL_CACHE_BLOCK * (size_t)(s->op->c.D + s->op->c.E) * sizeof(float);
    return sizeof *s + ll_stream_heads(s) * (s->state_size * sizeof *s->state + cache) +
           (size_t)s->workers * s->scratch * sizeof(float);
}

ll_status ll_attention_stream_reserve(ll_attention_stream *s, int n) {
    const ll_status status = is_exact(s) ? ll_exact_stream_grow(s, n) : LL_OK;
    return status ? status : ready(s);
}

ll_status ll_attention_stream_feed(ll_attention_stream *s, int n, ll_view q, ll_view k, ll_view v, ll_view y) {
    if (n < 0) return ll_fail(LL_EINVAL, "attention stream: %d tokens, must not be negative", n);
    ll_status status = s->shell ? ll_shell_stream_feed(s->shell, n, q, k, v, y) : ll_attention_stream_reserve(s, n);
    if (status) return status;
    if (!s->shell) {
        ll_feed f = {s, ll_kernel_table(), n, q, k, v, y};
        ll_task *task = is_exact(s) ? ll_exact_stream_feed : ll_linear_stream_feed;
        const double rows = is_exact(s) ? (double)s->position + n : s->op->features;
        if (rows * n * (s->op->c.D + s->op->c.E) * (double)ll_stream_heads(s) < WORTH) {
            for (size_t i = 0; i < ll_stream_heads(s); i++) task(&f, i, 0);
        } else {
            ll_parallel_for(ll_stream_heads(s), task, &f);
        }
    }
    s->position += n;
    return LL_OK;
}

/* ---- What a stream remembers --------------------------------------------------------------------- */

int ll_attention_stream_state(const ll_attention_stream *s, int64_t position,
                              ll_state_tensor tensor[LL_STATE_TENSORS]) {
    const size_t B = (size_t)s->B, H = (size_t)s->op->c.H, D = (size_t)s->op->c.D, E = (size_t)s->op->c.E;
    if (s->shell) return ll_shell_stream_state(s->shell, position, tensor);
    if (!is_exact(s)) {
        tensor[0] = (ll_state_tensor){"state", LL_F64, 3, {B, H, s->state_size}, s->state};
        return 1;
    }
    const size_t used = ll_exact_stream_blocks(position);
    tensor[0] = (ll_state_tensor){"keys", LL_F32, 4, {used, B * H, D, LL_CACHE_BLOCK}, s->keys};
    tensor[1] = (ll_state_tensor){"values", LL_F32, 4, {used, B * H, LL_CACHE_BLOCK, E}, s->values};
    return 2;
}

ll_status ll_attention_stream_seek(ll_attention_stream *s, int64_t position) {
    ll_attention_stream_reset(s);
    ll_status status = s->shell ? ll_shell_stream_seek(s->shell, position) : LL_OK;
    if (!s->shell && is_exact(s)) status = ll_exact_stream_grow(s, position);
    if (!status) s->position = position;
    return status;
}

ll_status ll_attention_stream_check(const ll_attention_stream *s) {
    if (s->shell) return ll_shell_stream_check(s->shell);
    return is_exact(s) ? ll_exact_stream_check(s) : ll_linear_stream_check(s);
}

size_t ll_state_bytes(const ll_state_tensor *t) {
    size_t count = 1;
    for (int i = 0; i < t->rank; i++) count *= t->shape[i];
    return count * (t->dtype == LL_F64 ? sizeof(double) : sizeof(float));
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
