/* Attention as matrices. No operator holds the weight A_ij that token i gives the value of token j, but all of them
 * compute y_i = sum_j A_ij v_j, so that A_ij is the derivative of y_i[e] by v_j[e] for any e: a backward pass whose
 * gradient g is 1 at (i, e) and 0 elsewhere leaves row i of A in dv[.][e]. E rows, of all heads, in one pass, whatever
 * the mechanism is, in time linear in the length where the mechanism is. */
#include <string.h>

#include "base/memory.h"
#include "model/network.h"

/* What the passes of a layer write to, in one block. */
typedef struct {
    float *memory, *saved;
    ll_view y, g, dq, dk, dv;
    size_t values; /* floats of g */
} scratch;

static ll_view packed(float *data, size_t T, size_t heads, size_t width) {
    return (ll_view){data, T * heads * width, T * width, width};
}

static ll_status scratch_create(scratch *s, const ll_batch_run *run, int layer) {
    const ll_model *m = run->model;
    const size_t T = (size_t)run->T, heads = (size_t)run->c->heads, D = (size_t)m->queries / heads,
                 E = (size_t)m->values / heads, q = T * heads * D, v = T * heads * E;
    const size_t saved = ll_attention_saved(m->attention[layer], 1, run->T, run->T);
    float *at = ll_alloc(2 * q + 3 * v + saved + 1, sizeof *at);
    if (!at) return LL_ENOMEM;
    *s = (scratch){.memory = at, .values = v};
    s->y = packed(at, T, heads, E);
    s->g = packed(at + v, T, heads, E);
    s->dv = packed(at + 2 * v, T, heads, E);
    s->dq = packed(at + 3 * v, T, heads, D);
    s->dk = packed(at + 3 * v + q, T, heads, D);
    s->saved = at + 3 * v + 2 * q;
    return LL_OK;
}

/* Queries first .. first + n - 1 of those asked for, n <= E. */
static void copy_rows(const ll_batch_run *run, int layer, const scratch *s, int first, int n) {
    const ll_look *look = run->ws->look;
    const size_t T = (size_t)run->T, heads = (size_t)run->c->heads;
    for (size_t h = 0; h < heads; h++)
        for (int e = 0; e < n; e++) {
            const size_t row = ((size_t)layer * heads + h) * (size_t)look->n + (size_t)(first + e);
            for (size_t j = 0; j < T; j++)
                look->weights[row * T + j] = s->dv.data[h * s->dv.head + j * s->dv.token + (size_t)e];
        }
}

ll_status ll_look_at(const ll_batch_run *run, int layer, const ll_view v[3]) {
    const ll_look *look = run->ws->look;
    const ll_attention *op = run->model->attention[layer];
    const int heads = run->c->heads, E = run->model->values / heads;
    scratch s;
    ll_status status = scratch_create(&s, run, layer);
    if (status) return status;
    ll_attention_call call = {.B = 1, .T = run->T, .S = run->T, .q = v[0], .k = v[1], .v = v[2], .y = s.y};
    call.saved = s.saved;
    call.g = s.g, call.dv = s.dv;
    if (v[0].data) call.dq = s.dq; /* some kernels have no queries, or no keys, of their own */
    if (v[1].data) call.dk = s.dk;
    status = ll_attention_forward(op, &call);
    for (int first = 0; first < look->n && !status; first += E) {
        const int n = look->n - first < E ? look->n - first : E;
        memset(s.g.data, 0, s.values * sizeof(float));
        for (int h = 0; h < heads; h++)
            for (int e = 0; e < n; e++)
                s.g.data[(size_t)h * s.g.head + (size_t)look->query[first + e] * s.g.token + (size_t)e] = 1;
        status = ll_attention_backward(op, &call);
        if (!status) copy_rows(run, layer, &s, first, n);
    }
    ll_free(s.memory);
    return status;
}

ll_status ll_model_attention(ll_model *m, float *weights, const int *tokens, int T, const int *query, int n) {
    ll_status status = ll_check_tokens(m, tokens, NULL, 1, T);
    for (int i = 0; i < n && !status; i++)
        if (query[i] < 0 || query[i] >= T + m->front)
            status = ll_fail(LL_EINVAL, "query %d is token %d, which is not in 0..%d", i, query[i], T + m->front - 1);
    if (status) return status;
    ll_workspace *ws = NULL;
    if ((status = ll_workspace_make(&ws, m, 1, T, LL_EVALUATE))) return status;
    const ll_look look = {query, n, weights};
    ws->look = &look;
    const ll_batch_run run = ll_network_begin(m, ws, tokens, NULL, 1, T);
    status = ll_network_forward(&run);
    ll_workspace_free(ws);
    return status;
}
