/* The attention matrix, which linear attention never makes: one-hot values pushed through the operator come out as its
 * columns (Choromanski et al. 2021, appendix C.4). What is seen so is what the operator does, with its kernel,
 * position, divisor and draws, in tiles or as a stream. */
#include <string.h>

#include "attention/attention.h"
#include "base/memory.h"

typedef struct {
    const ll_attention *op;
    int T, S, streaming;
    ll_view q, k;
    float *v, *y; /* (S, E), the same for all heads; (H, T, E) */
} pass;

static ll_status run(const pass *p, ll_view v, ll_view y) {
    if (!p->streaming) {
        const ll_attention_call call = {.B = 1, .T = p->T, .S = p->S, .q = p->q, .k = p->k, .v = v, .y = y};
        return ll_attention_forward(p->op, &call);
    }
    ll_attention_stream *s = NULL;
    ll_status status = ll_attention_stream_create(&s, p->op, 1);
    if (!status) status = ll_attention_stream_feed(s, p->T, p->q, p->k, v, y);
    ll_attention_stream_free(s);
    return status;
}

/* Columns from .. from + E - 1 of every head's matrix. */
static ll_status columns(const pass *p, int from, float *A) {
    const int H = p->op->c.H, E = p->op->c.E, n = p->S - from < E ? p->S - from : E;
    const size_t token = (size_t)E, head = token * (size_t)p->T;
    memset(p->v, 0, (size_t)p->S * token * sizeof *p->v);
    for (int i = 0; i < n; i++) p->v[(size_t)(from + i) * token + (size_t)i] = 1;
    const ll_status status = run(p, (ll_view){p->v, 0, 0, token}, (ll_view){p->y, 0, head, token});
    for (size_t row = 0; row < (size_t)H * (size_t)p->T && !status; row++)
        memcpy(A + row * (size_t)p->S + (size_t)from, p->y + row * token, (size_t)n * sizeof *A);
    return status;
}

ll_status ll_attention_matrix(const ll_attention *op, ll_view q, ll_view k, int T, int S, int streaming, float *A) {
    if (T < 1 || S < 1) return ll_fail(LL_EINVAL, "attention: a matrix of %d x %d weights", T, S);
    if (streaming && T != S) return ll_fail(LL_EINVAL, "attention: a stream has as many queries as keys");
    pass p = {.op = op, .T = T, .S = S, .streaming = streaming, .q = q, .k = k};
    p.v = ll_alloc((size_t)S * (size_t)op->c.E, sizeof *p.v);
    p.y = ll_alloc((size_t)op->c.H * (size_t)T * (size_t)op->c.E, sizeof *p.y);
    ll_status status = p.v && p.y ? LL_OK : LL_ENOMEM;
    for (int from = 0; from < S && !status; from += op->c.E) status = columns(&p, from, A);
    ll_free(p.v);
    ll_free(p.y);
    return status;
}
