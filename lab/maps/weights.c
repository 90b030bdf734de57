/* The attention matrix, which linear attention never computes. One-hot values through the operator give its columns
 * (Choromanski et al. 2021, appendix C.4). So this shows what the operator does, with its kernel, position, divisor and
 * draws, in tiles or as a stream.
 *
 * Since y_i = sum_j A_ij v_j, A_ij is also the derivative of y_i[e] with respect to v_j[e], for any e. A backward pass
 * whose gradient is 1 at (i, e) and 0 elsewhere leaves row i of A in dv[.][e]. One pass gives E rows of all heads. */
#include <string.h>

#include "attention/attention_stream.h"
#include "base/integer.h"
#include "base/memory.h"
#include "longline-lab.h"

typedef struct {
    const ll_attention *op;
    int T, S, streaming;
    ll_view q, k, gate;
    float *v, *y; /* (S, E), the same for all heads; (H, T, E) */
} pass;

static ll_status run(const pass *p, ll_view v, ll_view y) {
    if (!p->streaming) {
        const ll_attention_call call = {.B = 1, .T = p->T, .S = p->S, .q = p->q, .k = p->k, .v = v, .y = y,
                                        .gate = p->gate};
        return ll_attention_forward(p->op, &call);
    }
    ll_attention_stream *s = NULL;
    ll_status status = ll_attention_stream_create(&s, p->op, 1);
    if (!status) status = ll_attention_stream_feed(s, p->T, p->q, p->k, v, p->gate, y);
    ll_attention_stream_free(s);
    return status;
}

/* Columns from .. from + E - 1 of every head's matrix. */
static ll_status columns(const pass *p, int from, float *A) {
    const int H = p->op->c.H, E = p->op->c.E, n = ll_min_int(p->S - from, E);
    const size_t token = (size_t)E, head = token * (size_t)p->T;
    memset(p->v, 0, (size_t)p->S * token * sizeof *p->v);
    for (int i = 0; i < n; i++) p->v[(size_t)(from + i) * token + (size_t)i] = 1;
    const ll_status status = run(p, (ll_view){p->v, 0, 0, token}, (ll_view){p->y, 0, head, token});
    for (size_t row = 0; row < (size_t)H * (size_t)p->T && !status; row++)
        memcpy(A + row * (size_t)p->S + (size_t)from, p->y + row * token, (size_t)n * sizeof *A);
    return status;
}

ll_status ll_attention_matrix(const ll_attention *op, ll_view q, ll_view k, ll_view gate, int T, int S, int streaming,
                              float *A) {
    if (T < 1 || S < 1) return ll_fail(LL_EINVAL, "attention: a matrix of %d x %d weights", T, S);
    if (streaming && T != S) return ll_fail(LL_EINVAL, "attention: a stream has as many queries as keys");
    pass p = {.op = op, .T = T, .S = S, .streaming = streaming, .q = q, .k = k, .gate = gate};
    p.v = ll_alloc((size_t)S * (size_t)op->c.E, sizeof *p.v);
    p.y = ll_alloc((size_t)op->c.H * (size_t)T * (size_t)op->c.E, sizeof *p.y);
    ll_status status = p.v && p.y ? LL_OK : LL_ENOMEM;
    for (int from = 0; from < S && !status; from += op->c.E) status = columns(&p, from, A);
    ll_free(p.v);
    ll_free(p.y);
    return status;
}

/* ---- Rows ---- */

typedef struct {
    const ll_attention *op;
    ll_attention_call call;
    float *memory;
    size_t values; /* floats of the gradient at y */
} rows;

/* A tensor of n tokens in rows of `width` for each head, at *at, which advances. */
static ll_view take(float **at, int H, int n, int width) {
    const ll_view v = {*at, 0, (size_t)n * (size_t)width, (size_t)width};
    *at += (size_t)H * v.head;
    return v;
}

static ll_status rows_create(rows *r, const ll_attention *op, ll_view q, ll_view k, int T, int S) {
    const int H = op->c.H, D = op->c.D, E = op->c.E;
    const size_t t = (size_t)H * (size_t)T, s = (size_t)H * (size_t)S;
    const size_t size =
        (t + s) * ((size_t)D + 2 * (size_t)E) + ll_attention_saved(op, &(ll_attention_call){.B = 1, .T = T, .S = S});
    float *at = ll_alloc(size, sizeof *at);
    if (!at) return LL_ENOMEM;
    *r = (rows){.op = op, .memory = at, .values = t * (size_t)E};
    r->call = (ll_attention_call){.B = 1, .T = T, .S = S, .q = q, .k = k};
    r->call.v = take(&at, H, S, E), r->call.y = take(&at, H, T, E), r->call.g = take(&at, H, T, E);
    r->call.dv = take(&at, H, S, E), r->call.dq = take(&at, H, T, D), r->call.dk = take(&at, H, S, D);
    r->call.saved = at;
    return LL_OK;
}

/* Rows of queries from .. from + n - 1 of the requested ones, n <= E. */
static ll_status some_rows(const rows *r, const int *query, int count, int from, int n, float *A) {
    const size_t H = (size_t)r->op->c.H, S = (size_t)r->call.S;
    const ll_view g = r->call.g, dv = r->call.dv;
    memset(g.data, 0, r->values * sizeof *g.data);
    for (size_t h = 0; h < H; h++)
        for (int e = 0; e < n; e++) g.data[h * g.head + (size_t)query[from + e] * g.token + (size_t)e] = 1;
    const ll_status status = ll_attention_backward(r->op, &r->call);
    for (size_t h = 0; h < H && !status; h++)
        for (int e = 0; e < n; e++) {
            float *out = A + (h * (size_t)count + (size_t)(from + e)) * S;
            for (size_t j = 0; j < S; j++) out[j] = dv.data[h * dv.head + j * dv.token + (size_t)e];
        }
    return status;
}

ll_status ll_attention_rows(const ll_attention *op, ll_view q, ll_view k, ll_view gate, int T, int S, const int *query,
                            int count, float *A) {
    const int E = op->c.E;
    rows r;
    if (T < 1 || S < 1) return ll_fail(LL_EINVAL, "attention: a matrix of %d x %d weights", T, S);
    if (count < 0) return ll_fail(LL_EINVAL, "attention: weights of %d queries", count);
    for (int i = 0; i < count; i++)
        if (query[i] < 0 || query[i] >= T)
            return ll_fail(LL_EINVAL, "attention: query %d is token %d, which is not in 0..%d", i, query[i], T - 1);
    ll_status status = rows_create(&r, op, q, k, T, S);
    if (status) return status;
    r.call.gate = gate;
    status = ll_attention_forward(op, &r.call);
    for (int from = 0; from < count && !status; from += E)
        status = some_rows(&r, query, count, from, ll_min_int(count - from, E), A);
    ll_free(r.memory);
    return status;
}
