/* The whole network: a batch up through embedding, blocks and head, and its gradient down again. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "model/network.h"

ll_batch_run ll_network_begin(const ll_model *m, ll_workspace *ws, const int *tokens, const int *lengths, int B,
                              int T) {
    ll_batch_run run = {.model = m, .c = m->c, .ws = ws, .k = ll_kernel_table(), .tokens = tokens, .B = B};
    run.T = T + m->front;
    run.rows = (size_t)B * (size_t)run.T;
    assert(B <= ws->B && run.rows <= (size_t)ws->B * (size_t)ws->T);
    for (int b = 0; b < B; b++) ws->lengths[b] = (lengths ? lengths[b] : T) + m->front;
    run.lengths = ws->lengths;
    return run;
}

ll_status ll_network_forward(const ll_batch_run *run) {
    ll_embed(run);
    for (int l = 0; l < run->c->layers; l++) {
        ll_status status = ll_block_forward(run, l);
        if (status) return status;
    }
    return LL_OK;
}

ll_status ll_model_run(const ll_model *m, ll_workspace *ws, const int *tokens, const int *targets, const int *lengths,
                       int B, int T, float *grad, float scale, int64_t draw, ll_tally *tally) {
    ll_batch_run run = ll_network_begin(m, ws, tokens, lengths, B, T);
    assert(!grad || ws->mode == LL_TRAIN);
    run.grad = grad;
    run.draw = draw;
    ll_status status = ll_network_forward(&run);
    if (status) return status;
    ll_head_loss(&run, targets, scale, tally);
    if (!grad) return LL_OK;
    for (int l = m->c->layers; l-- > 0 && !status;) status = ll_block_backward(&run, l);
    if (status) return status;
    ll_embed_back(&run);
    return LL_OK;
}

/* x - log sum exp x, the sum in double. */
static void log_softmax(const ll_kernels *k, int n, float *x) {
    const float top = k->max((size_t)n, x);
    double sum = 0;
    for (int i = 0; i < n; i++) sum += exp((double)x[i] - top);
    const double shift = top + log(sum);
    for (int i = 0; i < n; i++) x[i] = (float)(x[i] - shift);
}

static void logp_lm(const ll_batch_run *run, float *logp) {
    const size_t V = (size_t)run->c->vocab, T = (size_t)run->T;
    for (ll_rows r = {0}; ll_next_chunk(&r, run->rows);) {
        ll_head_logits(run, r.n, ll_head_input(run, r), logp + r.first * V);
        for (size_t i = r.first; i < r.first + (size_t)r.n; i++) {
            if (i % T < (size_t)run->lengths[i / T]) {
                log_softmax(run->k, (int)V, logp + i * V);
            } else {
                memset(logp + i * V, 0, V * sizeof *logp);
            }
        }
    }
}

static void logp_classify(const ll_batch_run *run, float *logp) {
    const size_t V = (size_t)run->c->classes;
    ll_head_pool(run);
    for (ll_rows s = {0}; ll_next_chunk(&s, (size_t)run->B);) {
        ll_head_logits(run, s.n, ll_head_pooled(run, s), logp + s.first * V);
        for (size_t i = 0; i < (size_t)s.n; i++) log_softmax(run->k, (int)V, logp + (s.first + i) * V);
    }
}

ll_status ll_check_tokens(const ll_model *m, const int *tokens, const int *lengths, int B, int T) {
    if (B < 1 || T < 1) return ll_fail(LL_EINVAL, "a batch of %d x %d tokens; both must be at least 1", B, T);
    for (int b = 0; b < B; b++) {
        const int n = lengths ? lengths[b] : T;
        if (n < 0 || n > T) return ll_fail(LL_EINVAL, "length %d of sequence %d is not in 0..%d", n, b, T);
        for (int t = 0; t < n; t++) {
            const int token = tokens[(size_t)b * (size_t)T + (size_t)t];
            if (token < 0 || token >= m->c->vocab)
                return ll_fail(LL_EINVAL, "token %d at position %d of sequence %d is not in 0..%d", token, t, b,
                               m->c->vocab - 1);
        }
    }
    return LL_OK;
}

ll_status ll_model_logp(ll_model *m, float *logp, const int *tokens, const int *lengths, int B, int T) {
    ll_status status = ll_check_tokens(m, tokens, lengths, B, T);
    if (status) return status;
    ll_workspace *ws = NULL;
    if ((status = ll_workspace_make(&ws, m, B, T, LL_EVALUATE))) return status;
    const ll_batch_run run = ll_network_begin(m, ws, tokens, lengths, B, T);
    status = ll_network_forward(&run);
    if (!status) m->c->task == LL_TASK_CLASSIFY ? logp_classify(&run, logp) : logp_lm(&run, logp);
    ll_workspace_free(ws);
    return status;
}
