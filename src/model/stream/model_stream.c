/* A model as a stream: a workspace of a few hundred rows, and the attention state of every layer. A block of tokens
 * goes through the network layer by layer, in pieces of at most PIECE tokens. So neither time nor memory of a token
 * depends on how many came before. */
#include "model/stream/model_stream.h"

#include <string.h>

#include "attention/cross_cache.h"
#include "base/finite.h"
#include "base/float_mode.h"
#include "base/memory.h"
#include "model/layer/head_layers.h"

enum { PIECE = 256 /* tokens */ };

ll_status ll_model_can_stream(const ll_model *model) {
    if (!ll_task_causal(model->c->model.task))
        return ll_fail(LL_EINVAL,
                       "a %s reads its whole input at once; streams are for language models (task = lm) and seq2seq",
                       model->c->model.task == LL_TASK_MLM ? "masked language model" : "classifier");
    const ll_stack *top = ll_top_stack(model);
    const ll_status status = ll_attention_can_stream(model->attention[ll_operator_of(top, 0, 0)]);
    if (status != LL_EINVAL || model->c->attention.compat == LL_COMPAT_NONE) return status;
    return ll_fail(LL_EINVAL,
                   "attention.compat = %s stabilises by a maximum over all tokens, later ones too, so that there is no "
                   "stream of this model; train one with attention.compat = none",
                   ll_recipe_get(model->recipe, "attention.compat"));
}

/* Makes a stream without the attention of its layers. */
static ll_status begin(ll_stream **out, ll_model *model, ll_batcher *batcher) {
    const ll_model_config *c = model->c;
    ll_status status = ll_model_can_stream(model);
    if (status) return status;
    ll_stream *s = ll_alloc(1, sizeof *s);
    if (!s) return LL_ENOMEM;
    s->model = model;
    s->batcher = batcher;
    const ll_stack *top = ll_top_stack(model);
    if (batcher)
        s->ws = batcher->ws;
    else
        status = ll_workspace_make(&s->ws, model, top, 1, PIECE, 0, LL_STREAM);
    if (!status) {
        s->attention = ll_alloc((size_t)top->layers, sizeof(ll_attention_stream *));
        s->logits = ll_alloc((size_t)c->model.vocab, sizeof *s->logits);
        if (top->parts > 2) s->cache = ll_alloc((size_t)top->layers, sizeof(ll_cross_cache *));
        if (!s->attention || !s->logits || (top->parts > 2 && !s->cache)) status = LL_ENOMEM;
    }
    if (status) {
        ll_stream_free(s);
        return status;
    }
    *out = s;
    return LL_OK;
}

ll_status ll_stream_create_in(ll_stream **out, ll_model *model, ll_batcher *batcher) {
    const ll_stack *top = ll_top_stack(model);
    ll_stream *s = NULL;
    ll_status status = begin(&s, model, batcher);
    for (int l = 0; l < top->layers && !status; l++) {
        const ll_attention *op = model->attention[ll_operator_of(top, l, 0)];
        status = batcher ? ll_attention_stream_create_lean(&s->attention[l], op, 1)
                         : ll_attention_stream_create(&s->attention[l], op, 1);
        if (!status && s->cache)
            status = ll_cross_cache_create(&s->cache[l], model->attention[ll_operator_of(top, l, 1)]);
    }
    if (status) {
        ll_stream_free(s);
        return status;
    }
    *out = s;
    return LL_OK;
}

ll_status ll_stream_create(ll_stream **out, ll_model *model) { return ll_stream_create_in(out, model, NULL); }

ll_status ll_stream_whole(const ll_stream *s) {
    return s->broken ? ll_fail(LL_EINVAL, "an earlier feed of this stream failed; reset it first") : LL_OK;
}

int ll_stream_keys(const ll_stream *s) { return s->sourced ? ll_cross_cache_keys(s->cache[0]) : 0; }

ll_status ll_stream_clone(ll_stream **copy, const ll_stream *s) {
    ll_stream *new = NULL;
    ll_status status = ll_stream_whole(s);
    if (!status) status = begin(&new, s->model, s->batcher);
    for (int l = 0; !status && l < s->model->c->model.layers; l++) {
        status = ll_attention_stream_clone(&new->attention[l], s->attention[l]);
        if (!status && s->cache) status = ll_cross_cache_clone(&new->cache[l], s->cache[l]);
    }
    if (status) {
        ll_stream_free(new);
        return status;
    }
    memcpy(new->logits, s->logits, (size_t)s->model->c->model.vocab * sizeof *s->logits);
    new->position = s->position;
    new->document = s->document;
    new->sourced = s->sourced;
    *copy = new;
    return LL_OK;
}

void ll_stream_free(ll_stream *s) {
    if (!s) return;
    for (int l = 0; s->attention && l < s->model->c->model.layers; l++) ll_attention_stream_free(s->attention[l]);
    for (int l = 0; s->cache && l < s->model->c->model.layers; l++) ll_cross_cache_free(s->cache[l]);
    ll_free(s->attention);
    ll_free(s->cache);
    ll_free(s->logits);
    if (!s->batcher) ll_workspace_free(s->ws);
    ll_free(s);
}

static void forget(ll_stream *s) {
    for (int l = 0; l < s->model->c->model.layers; l++) ll_attention_stream_reset(s->attention[l]);
    s->document = s->position;
}

void ll_stream_reset(ll_stream *s) {
    s->position = 0;
    s->broken = 0;
    forget(s);
}

/* Runs the encoder in a workspace of its own, which is freed when all layers have their memory of the source. */
static ll_status encode(ll_stream *s, const int *tokens, int n) {
    const ll_model *m = s->model;
    const ll_stack *encoder = &m->stack[0], *decoder = ll_top_stack(m);
    ll_workspace *ws = NULL;
    ll_status status = ll_workspace_make(&ws, m, encoder, 1, n, 0, LL_EVALUATE);
    if (status) return status;
    float *buffer = ll_alloc((size_t)n, (size_t)(m->queries + m->values) * sizeof *buffer);
    const ll_batch in = {.B = 1, .T = n, .tokens = (int *)tokens};
    const ll_batch_run run = ll_network_begin(m, ws, &in);
    status = buffer ? ll_encoder_forward(&run) : LL_ENOMEM;
    for (int l = 0; l < decoder->layers && !status; l++) {
        status = ll_attend_remember(&run, decoder, l, buffer, s->cache[l]);
        if (!status) status = ll_network_report(&run, encoder->layers + l + 1, encoder->layers + decoder->layers);
    }
    ll_free(buffer);
    ll_workspace_free(ws);
    return status;
}

ll_status ll_stream_source(ll_stream *s, const int *tokens, int n) {
    LL_FLOAT_MODE;
    if (!s->cache)
        return ll_fail(LL_EINVAL, "the model has no encoder (model.task = seq2seq), so that it reads no source");
    if (n < 1) return ll_fail(LL_EINVAL, "a source of %d tokens; give at least 1", n);
    ll_status status = ll_check_tokens(s->model, tokens, NULL, 1, n);
    const int64_t limit = ll_position_limit(&s->model->c->position);
    if (!status && n > limit)
        status = ll_fail(LL_EINVAL,
                         "a source of %d tokens, and the model's learned positions end at %d "
                         "(position.max-length)",
                         n, (int)limit);
    if (status) return status;
    ll_stream_reset(s);
    s->sourced = 0;
    status = encode(s, tokens, n);
    s->sourced = !status;
    return status;
}

ll_status ll_stream_check(const ll_stream *s, const int *tokens, int n) {
    const ll_model_config *c = s->model->c;
    if (s->cache && !s->sourced)
        return ll_fail(LL_EINVAL, "the stream has no source to read; give it one before the first token");
    ll_status status = ll_stream_whole(s);
    if (status) return status;
    if (n < 1) return ll_fail(LL_EINVAL, "%d tokens fed to a stream; feed at least 1", n);
    status = ll_check_tokens(s->model, tokens, NULL, 1, n);
    if (status) return status;
    int64_t at = s->position - s->document;
    const int64_t limit = ll_position_limit(&c->position);
    for (int i = 0; i < n && at <= limit; i++) at = tokens[i] == c->model.separator ? 1 : at + 1;
    if (at > limit)
        return ll_fail(LL_EINVAL, "the model's learned positions end at %d tokens (position.max-length)",
                       (int)limit);
    return LL_OK;
}

int ll_stream_piece(const ll_stream *s, const int *tokens, int n, int most) {
    int piece = 1;
    while (piece < n && piece < most && tokens[piece] != s->model->c->model.separator) piece++;
    return piece;
}

ll_status ll_stream_logits(const ll_stream *s, float *logits) {
    LL_FLOAT_MODE;
    const ll_status status = ll_stream_whole(s);
    if (status) return status;
    if (!s->position) return ll_fail(LL_EINVAL, "nothing has been fed to this stream, so nothing follows from it yet");
    memcpy(logits, s->logits, (size_t)s->model->c->model.vocab * sizeof *logits);
    return LL_OK;
}

static ll_status diverged(ll_stream *s, float value, int64_t token) {
    s->broken = 1;
    return ll_fail(LL_EDIVERGED,
                   "what the model gives became %s at token %lld: its weights are too large; take another",
                   ll_name_infinite((double)value), (long long)token);
}

ll_status ll_stream_check_logits(ll_stream *s, const float *logits, int n) {
    const size_t V = (size_t)s->model->c->model.vocab, all = (size_t)n * V, v = ll_find_infinite(logits, all);
    return v < all ? diverged(s, logits[v], s->position - n + (int64_t)(v / V)) : LL_OK;
}

/* If the numbers for the last n tokens are not finite, the stream is broken. */
static ll_status check_output(ll_stream *s, const float *logp, int n, int last) {
    const size_t all = (size_t)n, t = logp ? ll_find_infinite(logp, all) : all;
    if (t < all) return diverged(s, logp[t], s->position - n + (int64_t)t);
    return last ? ll_stream_check_logits(s, s->logits, 1) : LL_OK;
}

ll_stream_rows ll_stream_begin(ll_stream *s, int token, int first, int n) {
    if (token == s->model->c->model.separator) forget(s);
    return (ll_stream_rows){first, n, s->position - s->document, s->attention, s->cache};
}

/* One piece of at most ws->T tokens through the network; logp as in ll_stream_score, or NULL. last: computes the logits
 * of the next token. */
static ll_status feed_piece(ll_stream *s, const int *tokens, int n, float *logp, int last) {
    const ll_batch in = {.B = 1, .T = n, .tokens = (int *)tokens};
    ll_stream_rows rows = ll_stream_begin(s, tokens[0], 0, n);
    ll_stream_set set = {.span = &rows, .count = 1};
    if (s->batcher) set.scratch = s->batcher->set.scratch, set.workers = s->batcher->set.workers;
    ll_batch_run run = ll_network_begin(s->model, s->ws, &in);
    run.streams = &set;
    if (!logp && !s->cache) run.reads = last ? LL_READS_LAST : LL_READS_NONE;
    if (logp && s->position)
        logp[0] = (float)((double)s->logits[tokens[0]] - ll_log_sum_exp(run.k, s->model->c->model.vocab, s->logits));
    const ll_status status = ll_network_forward(&run);
    if (status) {
        s->broken = 1;
        return status;
    }
    s->position += n;
    if (logp) ll_score_rows(&run, tokens, logp);
    if (last) ll_head_stream_logits(&run, 1, ll_head_input(&run, (ll_rows){(size_t)n - 1, 1}), s->logits);
    return check_output(s, logp, n, last);
}

static ll_status feed(ll_stream *s, const int *tokens, int n, float *logp) {
    LL_FLOAT_MODE;
    ll_status status = ll_stream_check(s, tokens, n);
    if (logp && !status) memset(logp, 0, (size_t)n * sizeof *logp);
    for (int done = 0, piece; done < n && !status; done += piece) {
        piece = ll_stream_piece(s, tokens + done, n - done, s->ws->T);
        status = feed_piece(s, tokens + done, piece, logp ? logp + done : NULL, logp || done + piece == n);
    }
    return status;
}

ll_status ll_stream_feed(ll_stream *s, const int *tokens, int n, float *logits) {
    const ll_status status = feed(s, tokens, n, NULL);
    if (!status && logits) memcpy(logits, s->logits, (size_t)s->model->c->model.vocab * sizeof *logits);
    return status;
}

ll_status ll_stream_score(ll_stream *s, float *logp, const int *tokens, int n) { return feed(s, tokens, n, logp); }

int64_t ll_stream_position(const ll_stream *s) { return s->position; }

int64_t ll_stream_left(const ll_stream *s) {
    const int64_t limit = ll_position_limit(&s->model->c->position);
    return limit == INT64_MAX ? limit : limit - (s->position - s->document);
}

size_t ll_stream_bytes(const ll_stream *s) {
    size_t bytes = sizeof *s + (size_t)s->model->c->model.vocab * sizeof *s->logits;
    if (!s->batcher) bytes += sizeof *s->ws + s->ws->bytes;
    for (int l = 0; l < s->model->c->model.layers; l++) bytes += ll_attention_stream_bytes(s->attention[l]);
    for (int l = 0; s->cache && l < s->model->c->model.layers; l++) bytes += ll_cross_cache_bytes(s->cache[l]);
    return bytes;
}
