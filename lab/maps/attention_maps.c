/* Attention matrices of a model's layer on a text. */
#include "attention/operator.h"
#include "base/finite.h"
#include "base/memory.h"
#include "model/network.h"
#include "longline-lab.h"

int ll_model_cls_tokens(const ll_model *model) { return model->cls_tokens; }

/* The input of a layer's attention: its operator; q, k and gate of one sequence. */
typedef struct {
    ll_workspace *ws;
    const ll_attention *op;
    ll_view q, k, gate;
    int n; /* tokens, with the CLS token */
} seen;

static ll_status watch(seen *s, const ll_model *m, const int *tokens, int T, int layer) {
    if (m->stacks > 1)
        return ll_fail(LL_EINVAL, "attention matrices need a model with one stack; model.task = seq2seq has two");
    if (layer < 0 || layer >= m->c->model.layers)
        return ll_fail(LL_EINVAL, "layer %d is not in 0..%d", layer, m->c->model.layers - 1);
    ll_status status = ll_check_sequences(m, tokens, NULL, 1, T);
    if (!status) status = ll_workspace_make(&s->ws, m, ll_top_stack(m), 1, T, 0, LL_EVALUATE);
    if (status) return status;
    const ll_batch in = {.B = 1, .T = T, .tokens = (int *)tokens};
    const ll_batch_run run = ll_network_begin(m, s->ws, &in);
    const size_t width = ll_row_width(m), head = (size_t)(m->queries / m->c->model.heads);
    float *q = s->ws->project[layer];
    s->op = m->attention[layer];
    s->q = (ll_view){q, 0, head, width};
    s->k = (ll_view){q + m->queries, 0, head, width};
    s->gate = ll_gate_view(&run, s->ws->gate[layer]);
    s->n = run.T;
    return ll_stack_forward(&run, layer + 1); /* the last block's q and k stay in the workspace */
}

/* Weights A (heads, rows, tokens) of a layer; a row is a query, number `query` of it or NULL: row i is token i. */
static ll_status check_weights(const seen *s, const float *A, const int *query, int rows, int layer) {
    const size_t row = (size_t)s->n, head = (size_t)rows * row, n = (size_t)s->op->c.H * head;
    const size_t i = ll_find_infinite(A, n);
    if (i == n) return LL_OK;
    const int at = (int)(i % head / row);
    return ll_fail(LL_EDIVERGED,
                   "attention became %s in head %zu of layer %d, in the row of token %d: the model's weights are too "
                   "large; take another",
                   ll_name_infinite((double)A[i]), i / head, layer, query ? query[at] : at);
}

ll_status ll_model_attention(const ll_model *m, const int *tokens, int T, int layer, int streaming, float *A) {
    seen s = {0};
    ll_status status = streaming ? ll_model_can_stream(m) : LL_OK;
    if (!status) status = watch(&s, m, tokens, T, layer);
    if (!status) status = ll_attention_matrix(s.op, s.q, s.k, s.gate, s.n, s.n, streaming, A);
    if (!status) status = check_weights(&s, A, NULL, s.n, layer);
    ll_workspace_free(s.ws);
    return status;
}

ll_status ll_model_attention_rows(const ll_model *m, const int *tokens, int T, int layer, const int *query, int count,
                                  float *A) {
    seen s = {0};
    ll_status status = watch(&s, m, tokens, T, layer);
    if (!status) status = ll_attention_rows(s.op, s.q, s.k, s.gate, s.n, s.n, query, count, A);
    if (!status) status = check_weights(&s, A, query, count, layer);
    ll_workspace_free(s.ws);
    return status;
}
