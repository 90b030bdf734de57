/* The whole network: a batch through embedding, blocks and output layer, and its gradient back. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "attention/operator.h"
#include "base/finite.h"
#include "base/float_mode.h"
#include "base/integer.h"
#include "model/layer/head_layers.h"
#include "model/layer/soft_loss.h"
#include "model/network.h"
#include "model/sequence/shared_sequence.h"

static void begin_document(const ll_batch_run *run, int i, int b, int t) {
    run->ws->segment[i] = (ll_segment){b, t, 0, t, 0};
    if (run->ws->carry) ll_carry_segment(run->ws->carry, i, &run->ws->segment[i]);
}

/* Documents in packed rows: one begins with the row, and with every separator. */
static int find_documents(const ll_batch_run *run) {
    int count = 0;
    for (int b = 0; b < run->B; b++)
        for (int t = 0; t < run->lengths[b]; t++) {
            const size_t row = (size_t)b * (size_t)run->T + (size_t)t;
            if (t == 0 || run->tokens[row] == run->c->model.separator)
                begin_document(run, count++, b, t);
            ll_segment *s = &run->ws->segment[count - 1];
            run->ws->position[row] = s->queries++;
            s->keys++;
        }
    return count;
}

ll_batch_run ll_network_begin(const ll_model *m, ll_workspace *ws, const ll_batch *x) {
    ll_batch_run run = {.model = m, .c = m->c, .ws = ws, .k = ll_kernel_table(), .tokens = x->tokens, .B = x->B};
    run.stack = ws->stack;
    run.source = x->source;
    run.S = x->S;
    run.T = ll_model_rows(m, x->T);
    run.rows = (size_t)run.B * (size_t)run.T;
    run.first = x->first;
    run.position = ll_shared_offset(ws->shared, x->T);
    assert(run.B <= ws->B && run.rows <= (size_t)ws->B * (size_t)ws->T);
    for (int b = 0; b < run.B; b++) ws->lengths[b] = ll_model_rows(m, x->lengths ? x->lengths[b] : x->T);
    run.lengths = ws->lengths;
    if (ws->position) run.segments = find_documents(&run);
    ll_workspace *source = ws->source;
    if (!source) return run;
    assert(x->source && run.B <= source->B && x->S <= source->T);
    for (int b = 0; b < run.B; b++) source->lengths[b] = x->source_lengths ? x->source_lengths[b] : x->S;
    return run;
}

void ll_network_pooled(ll_batch_run *run) {
    const ll_model *m = run->model;
    const ll_attention *last = m->attention[ll_operator_of(run->stack, run->stack->layers - 1, 0)];
    if (m->cls_tokens && last->kind->cross && run->c->model.norm != LL_NORM_PARALLEL && !run->ws->shared)
        run->reads = LL_READS_FIRST;
}

ll_status ll_stack_forward(const ll_batch_run *run, int blocks) {
    const ll_model *m = run->model;
    const int below = run->stack == &m->stack[0] ? 0 : m->stack[0].layers; /* blocks of other stacks */
    const int above = run->stack == ll_top_stack(m) ? 0 : ll_top_stack(m)->layers;
    ll_status status = LL_OK;
    run->ws->below = below;
    run->ws->blocks = below + blocks + above;
    ll_embed(run);
    for (int l = 0; l < blocks && !status; l++) {
        status = ll_block_forward(run, l);
        if (!status) status = ll_network_report(run, below + l + 1, run->ws->blocks);
    }
    return status;
}

/* The tensors of a block of layers lie side by side. */
static void report_ready(const ll_batch_run *run, int layer) {
    const ll_model *m = run->model;
    const int first = ll_block_tensor(run->stack, layer, 0), next = ll_block_tensor(run->stack, layer + 1, 0);
    if (run->ws->ready)
        run->ws->ready(run->ws->ready_arg, m->param[first].offset, next < m->count ? m->param[next].offset : m->size);
}

static ll_status stack_backward(const ll_batch_run *run) {
    for (int l = run->stack->layers; l-- > 0;) {
        ll_status status = ll_block_again(run, l);
        if (!status) status = ll_block_backward(run, l);
        if (status) return status;
        report_ready(run, l);
        if ((status = ll_network_report_back(run, run->ws->below + l))) return status;
    }
    ll_embed_back(run);
    return LL_OK;
}

ll_status ll_encoder_forward(const ll_batch_run *source) {
    const size_t C = (size_t)source->c->model.width;
    ll_status status = ll_stack_forward(source, source->stack->layers);
    for (ll_rows r = {0}; !status && ll_next_rows(source, &r);)
        ll_copy_rows(source, r.n, ll_head_input(source, r), source->ws->top + r.first * C);
    return status;
}

/* At the beginning ws->d is the gradient of the stack's output. */
static ll_status encoder_backward(const ll_batch_run *source) {
    const size_t C = (size_t)source->c->model.width;
    for (ll_rows r = {0}; ll_next_rows(source, &r);) {
        ll_head_input(source, r); /* for the statistics of its norm */
        ll_copy_rows(source, r.n, source->ws->d + r.first * C, source->ws->gradient);
        ll_head_input_back(source, r, source->ws->gradient);
    }
    return stack_backward(source);
}

ll_status ll_network_forward(const ll_batch_run *run) {
    ll_status status = LL_OK;
    if (run->ws->source) {
        const ll_batch_run source = ll_source_run(run);
        status = ll_encoder_forward(&source);
    }
    return status ? status : ll_stack_forward(run, run->stack->layers);
}

ll_status ll_network_backward(const ll_batch_run *run) {
    ll_workspace *source = run->ws->source;
    if (!source) return stack_backward(run);
    const ll_batch_run from = ll_source_run(run);
    memset(source->d, 0, from.rows * (size_t)run->c->model.width * sizeof(float));
    const ll_status status = stack_backward(run);
    return status ? status : encoder_backward(&from);
}

ll_status ll_model_run_soft(const ll_model *m, ll_workspace *ws, const ll_batch *batch, const ll_soft *soft,
                            float *grad, float scale, int64_t draw, ll_tally *tally) {
    ll_batch_run run = ll_network_begin(m, ws, batch);
    assert(!grad || ws->mode == LL_TRAIN);
    run.grad = grad;
    run.soft = soft;
    run.draw = draw;
    ll_network_pooled(&run);
    ll_status status = ll_network_forward(&run);
    if (status) return status;
    ll_head_loss(&run, batch->targets, scale, tally);
    return grad ? ll_network_backward(&run) : LL_OK;
}

double ll_log_sum_exp(const ll_kernels *k, int n, const float *x) {
    const float top = k->max((size_t)n, x);
    double sum = 0;
    for (int i = 0; i < n; i++) sum += exp((double)x[i] - top);
    return top + log(sum);
}

static void log_softmax(const ll_kernels *k, int n, float *x) {
    const double shift = ll_log_sum_exp(k, n, x);
    for (int i = 0; i < n; i++) x[i] = (float)(x[i] - shift);
}

static void logp_lm(const ll_batch_run *run, float *logp) {
    const size_t V = (size_t)run->c->model.vocab, T = (size_t)run->T;
    for (ll_rows r = {0}; ll_next_rows(run, &r);)
        ll_head_logits(run, r.n, ll_head_input(run, r), logp + r.first * V);
    for (size_t i = 0; i < run->rows; i++) {
        if (i % T < (size_t)run->lengths[i / T]) {
            log_softmax(run->k, (int)V, logp + i * V);
        } else {
            memset(logp + i * V, 0, V * sizeof *logp);
        }
    }
}

static void logp_classify(const ll_batch_run *run, float *logp) {
    const size_t V = (size_t)run->c->model.classes;
    ll_head_pool(run);
    for (ll_rows s = {0}; ll_next_chunk(&s, (size_t)run->B);) {
        ll_head_logits(run, s.n, ll_head_pooled(run, s), logp + s.first * V);
        for (size_t i = 0; i < (size_t)s.n; i++) log_softmax(run->k, (int)V, logp + (s.first + i) * V);
    }
}

static void logp_match(const ll_batch_run *run, float *logp) {
    const size_t V = (size_t)run->c->model.classes;
    ll_head_pool(run);
    for (ll_rows s = {0}; ll_next_chunk(&s, (size_t)run->B);) {
        float *out = logp + s.first / 2 * V;
        ll_head_logits(run, s.n / 2, ll_match_forward(run, s.n / 2, ll_head_pooled(run, s)), out);
        for (size_t i = 0; i < (size_t)s.n / 2; i++) log_softmax(run->k, (int)V, out + i * V);
    }
}

/* Causal images have no last row. */
static int64_t most_pixels(const ll_model_config *c) {
    const int image = ll_position_is_image(&c->position) && !c->model.patch && !ll_task_causal(c->model.task);
    return image ? (int64_t)c->position.width * c->position.height : INT64_MAX;
}

ll_status ll_check_tokens(const ll_model *m, const int *tokens, const int *lengths, int B, int T) {
    if (B < 1 || T < 1) return ll_fail(LL_EINVAL, "a batch of %d x %d tokens; both must be at least 1", B, T);
    for (int b = 0; b < B; b++) {
        const int n = lengths ? lengths[b] : T;
        if (n < 0 || n > T) return ll_fail(LL_EINVAL, "length %d of sequence %d is not in 0..%d", n, b, T);
        if (m->c->model.patch && n != T)
            return ll_fail(LL_EINVAL, "length %d of image %d: a model of patches reads whole images of %d numbers", n,
                           b, T);
        if (n > most_pixels(m->c))
            return ll_fail(LL_EINVAL, "%d tokens in sequence %d, and the model reads images of %d x %d pixels "
                                      "(position.width and position.height)",
                           n, b, m->c->position.width, m->c->position.height);
        for (int t = 0; t < n; t++) {
            const int token = tokens[(size_t)b * (size_t)T + (size_t)t];
            if (token < 0 || token >= m->c->model.vocab)
                return ll_fail(LL_EINVAL, "token %d at position %d of sequence %d is not in 0..%d", token, t, b,
                               m->c->model.vocab - 1);
        }
    }
    return LL_OK;
}

/* Of n tokens: a separator begins a document. */
static int longest_document(const ll_model *m, const int *tokens, int n) {
    int most = 0;
    for (int t = 1, first = 0; t <= n; t++) {
        if (t < n && tokens[t] != m->c->model.separator) continue;
        most = ll_max_int(most, t - first);
        first = t;
    }
    return most;
}

ll_status ll_check_sequences(const ll_model *m, const int *tokens, const int *lengths, int B, int T) {
    ll_status status = ll_check_tokens(m, tokens, lengths, B, T);
    for (int b = 0; b < B && !status; b++) {
        const int n = longest_document(m, tokens + (size_t)b * (size_t)T, lengths ? lengths[b] : T);
        status = ll_check_reach(m, n);
    }
    return status;
}

ll_status ll_check_output(const float *x, int B, int T, int width) {
    const size_t row = (size_t)width, tokens = (size_t)T, n = (size_t)B * tokens * row, i = ll_find_infinite(x, n);
    char where[48] = "in";
    if (i == n) return LL_OK;
    if (T > 1) snprintf(where, sizeof where, "at position %zu of", i / row % tokens);
    return ll_fail(LL_EDIVERGED,
                   "what the model gives became %s %s sequence %zu: its weights are too large; take another",
                   ll_name_infinite((double)x[i]), where, i / row / tokens);
}

/* The number of answers of a row of (B, T): one for each token, sequence or pair. */
static ll_status check_logp(const ll_model *m, const float *logp, int B, int T) {
    if (ll_task_per_token(m->c->model.task)) return ll_check_output(logp, B, T, m->c->model.vocab);
    return ll_check_output(logp, m->c->model.task == LL_TASK_MATCH ? B / 2 : B, 1, m->c->model.classes);
}

static ll_status logp_of(ll_model *m, float *logp, const int *source, const int *source_lengths, int S,
                         const int *tokens, const int *lengths, int B, int T) {
    ll_status status = ll_check_sequences(m, tokens, lengths, B, T);
    if (!status && source) status = ll_check_sequences(m, source, source_lengths, B, S);
    if (status) return status;
    if (m->c->model.task == LL_TASK_MATCH && B % 2)
        return ll_fail(LL_EINVAL, "%d sequences; model.task = match takes two and two", B);
    ll_workspace *ws = NULL;
    if ((status = ll_workspace_make(&ws, m, ll_top_stack(m), B, T, S, LL_EVALUATE))) return status;
    const ll_batch in = {.B = B, .T = T, .tokens = (int *)tokens, .lengths = (int *)lengths,
                         .S = S, .source = (int *)source, .source_lengths = (int *)source_lengths};
    ll_batch_run run = ll_network_begin(m, ws, &in);
    ll_network_pooled(&run);
    status = ll_network_forward(&run);
    if (!status) {
        switch (m->c->model.task) {
        case LL_TASK_CLASSIFY: logp_classify(&run, logp); break;
        case LL_TASK_MATCH: logp_match(&run, logp); break;
        default: logp_lm(&run, logp);
        }
        status = check_logp(m, logp, B, T);
    }
    ll_workspace_free(ws);
    return status;
}

ll_status ll_model_logp(ll_model *m, float *logp, const int *tokens, const int *lengths, int B, int T) {
    LL_FLOAT_MODE;
    if (m->c->model.task == LL_TASK_SEQ2SEQ)
        return ll_fail(LL_EINVAL, "the model makes sequences from others; give it sources, too");
    return logp_of(m, logp, NULL, NULL, 0, tokens, lengths, B, T);
}

ll_status ll_model_logp_from(ll_model *m, float *logp, const int *source, const int *source_lengths, int S,
                             const int *tokens, const int *lengths, int B, int T) {
    LL_FLOAT_MODE;
    if (m->c->model.task != LL_TASK_SEQ2SEQ)
        return ll_fail(LL_EINVAL, "the model has no encoder (model.task = seq2seq), so that it reads no sources");
    return logp_of(m, logp, source, source_lengths, S, tokens, lengths, B, T);
}
