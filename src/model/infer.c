/* A trained model on batches: log-probabilities of the given tokens, and embeddings.
 *
 * Logits are computed for a few rows at a time, so (tokens, V) is never in memory. Sums have the order of the tokens,
 * and a row of a product has the same bits among any other rows. So neither padding nor other sequences change a
 * result. */
#include <string.h>

#include "base/float_mode.h"
#include "base/integer.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "model/layer/head_layers.h"
#include "model/network.h"

/* ---- Scores ---- */

typedef struct {
    const ll_batch_run *run;
    const int *tokens; /* (B, T) */
    float *logp, *logits;
    size_t first; /* the row of the first logits */
    int n;
} scores;

/* Is the next row a token of the same sequence? */
static int has_next(const ll_batch_run *run, size_t row) {
    const size_t T = (size_t)run->T;
    return row % T + 1 < (size_t)run->lengths[row / T];
}

static void score_task(void *arg, size_t i) {
    const scores *s = arg;
    const int V = s->run->c->model.vocab;
    for (int r = (int)i * LL_PIECE; r < ((int)i + 1) * LL_PIECE && r < s->n; r++) {
        const size_t row = s->first + (size_t)r;
        if (!has_next(s->run, row)) continue;
        const float *x = s->logits + (size_t)r * (size_t)V;
        s->logp[row + 1] = (float)((double)x[s->tokens[row + 1]] - ll_log_sum_exp(s->run->k, V, x));
    }
}

static int any_next(const ll_batch_run *run, size_t first, int n) {
    for (int r = 0; r < n; r++)
        if (has_next(run, first + (size_t)r)) return 1;
    return 0;
}

/* Memory for some rows of logits, and their number. A stream has memory for one; but while logits are computed, the
 * memory of the feed-forward layers is free. */
static float *logits_buffer(const ll_batch_run *run, int *rows) {
    const ll_workspace *ws = run->ws;
    const size_t wide = (size_t)ll_min_int(ws->T, LL_CHUNK) * (size_t)run->c->model.ff / (size_t)run->c->model.vocab;
    *rows = ws->logit_rows;
    if (ws->mode != LL_STREAM || wide <= 1) return ws->logits;
    *rows = wide < LL_CHUNK ? (int)wide : LL_CHUNK;
    return ws->wide;
}

void ll_score_rows(const ll_batch_run *run, const int *tokens, float *logp) {
    const size_t C = (size_t)run->c->model.width;
    int most;
    scores s = {.run = run, .tokens = tokens, .logp = logp, .logits = logits_buffer(run, &most)};
    for (ll_rows r = {0}; ll_next_rows(run, &r);) {
        const float *x = ll_head_input(run, r);
        for (int done = 0; done < r.n; done += s.n) {
            s.n = ll_min_int(r.n - done, most);
            s.first = r.first + (size_t)done;
            if (!any_next(run, s.first, s.n)) continue;
            ll_head_logits(run, s.n, x + (size_t)done * C, s.logits);
            ll_parallel_for(ll_ceil_div_size((size_t)s.n, LL_PIECE), score_task, &s);
        }
    }
}

ll_status ll_model_score(ll_model *m, float *logp, const int *tokens, const int *lengths, int B, int T) {
    LL_FLOAT_MODE;
    if (m->c->model.task != LL_TASK_LM)
        return ll_fail(LL_EINVAL, "only language models (task = lm) give probabilities of sequences");
    ll_workspace *ws = NULL;
    ll_status status = ll_check_sequences(m, tokens, lengths, B, T);
    if (!status) status = ll_workspace_make(&ws, m, ll_top_stack(m), B, T, 0, LL_EVALUATE);
    if (status) return status;
    const ll_batch in = {.B = B, .T = T, .tokens = (int *)tokens, .lengths = (int *)lengths};
    const ll_batch_run run = ll_network_begin(m, ws, &in);
    status = ll_network_forward(&run);
    if (!status) {
        memset(logp, 0, run.rows * sizeof *logp);
        ll_score_rows(&run, tokens, logp);
        status = ll_check_output(logp, B, T, 1);
    }
    ll_workspace_free(ws);
    return status;
}

/* ---- Embeddings ---- */

/* The output of a block, or the input of the first, or the input of the output layer. */
static const float *hidden(const ll_batch_run *run, int layer, ll_rows rows) {
    if (layer == run->c->model.layers) return ll_head_input(run, rows);
    if (!ll_pre_norm(run)) return ll_sublayer_input(run, run->stack->parts * layer, rows, run->ws->input);
    return ll_residual(run, 0, rows); /* evaluation has one for all layers */
}

/* The memory to which a token's vector is written or added. */
typedef struct {
    const ll_batch_run *run;
    ll_embed_kind kind;
    float *out;
    double *sum; /* (B, C) */
} embedding;

static void take_row(const embedding *e, size_t row, const float *x) {
    const ll_batch_run *run = e->run;
    const size_t C = (size_t)run->c->model.width, T = (size_t)run->T, cls_tokens = (size_t)run->model->cls_tokens;
    const size_t b = row / T, t = row % T, n = (size_t)run->lengths[b];
    if (t >= n) return;
    switch (e->kind) {
    case LL_EMBED_ALL:
        if (t >= cls_tokens) memcpy(e->out + (b * (T - cls_tokens) + t - cls_tokens) * C, x, C * sizeof *x);
        break;
    case LL_EMBED_FIRST:
        if (t == 0 && n > cls_tokens) memcpy(e->out + b * C, x, C * sizeof *x);
        break;
    case LL_EMBED_LAST:
        if (t + 1 == n && t >= cls_tokens) memcpy(e->out + b * C, x, C * sizeof *x);
        break;
    case LL_EMBED_MEAN:
        for (size_t c = 0; t >= cls_tokens && c < C; c++) e->sum[b * C + c] += x[c];
        break;
    }
}

static ll_status embed(const embedding *e, int layer) {
    const ll_batch_run *run = e->run;
    const size_t C = (size_t)run->c->model.width, B = (size_t)run->B;
    const int cls_tokens = run->model->cls_tokens;
    memset(e->out, 0, (e->kind == LL_EMBED_ALL ? B * (size_t)(run->T - cls_tokens) : B) * C * sizeof *e->out);
    const ll_status status = ll_stack_forward(run, layer);
    if (status) return status;
    for (ll_rows r = {0}; ll_next_rows(run, &r);) {
        const float *x = hidden(run, layer, r);
        for (size_t i = 0; i < (size_t)r.n; i++) take_row(e, r.first + i, x + i * C);
    }
    for (size_t b = 0; e->kind == LL_EMBED_MEAN && b < B; b++) {
        const int n = run->lengths[b] - cls_tokens;
        for (size_t c = 0; c < C && n > 0; c++) e->out[b * C + c] = (float)(e->sum[b * C + c] / n);
    }
    return LL_OK;
}

ll_status ll_model_encode(ll_model *m, int layer, ll_embed_kind kind, float *out, const int *tokens, const int *lengths,
                          int B, int T) {
    LL_FLOAT_MODE;
    const int layers = m->c->model.layers;
    if (m->stacks > 1) return ll_fail(LL_EINVAL, "a seq2seq model has two stacks; embeddings need a model with one");
    if ((unsigned)kind > LL_EMBED_ALL) return ll_fail(LL_EINVAL, "there is no embedding of kind %d", (int)kind);
    if (layer < -1 || layer > layers)
        return ll_fail(LL_EINVAL, "there is no layer %d: the model has %d, and 0 is the input of the first", layer,
                       layers);
    ll_workspace *ws = NULL;
    double *sum = NULL;
    ll_status status = ll_check_sequences(m, tokens, lengths, B, T);
    if (!status) status = ll_workspace_make(&ws, m, ll_top_stack(m), B, T, 0, LL_EVALUATE);
    if (!status && kind == LL_EMBED_MEAN && !(sum = ll_alloc((size_t)B * (size_t)m->c->model.width, sizeof *sum)))
        status = LL_ENOMEM;
    if (!status) {
        const ll_batch in = {.B = B, .T = T, .tokens = (int *)tokens, .lengths = (int *)lengths};
        const ll_batch_run run = ll_network_begin(m, ws, &in);
        const embedding e = {&run, kind, out, sum};
        status = embed(&e, layer < 0 ? layers : layer);
        if (!status)
            status = ll_check_output(out, B, kind == LL_EMBED_ALL ? run.T - m->cls_tokens : 1, m->c->model.width);
    }
    ll_free(sum);
    ll_workspace_free(ws);
    return status;
}
