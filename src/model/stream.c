/* A model as a stream: a workspace of a few hundred rows, and for every layer the state of its attention.
 * A block of tokens goes through the network layer by layer, in pieces of at most PIECE tokens, so that
 * neither time nor memory of a token depends on how many came before. */
#include "model/stream.h"

#include <string.h>

#include "base/memory.h"

enum { PIECE = 256 };

/* Without the attention of its layers. */
static ll_status begin(ll_stream **out, ll_model *model) {
    const ll_config *c = model->c;
    if (c->task != LL_TASK_LM)
        return ll_fail(LL_EINVAL,
                       "a %s reads its whole input at once; streams are for language models (task = lm)",
                       c->task == LL_TASK_MLM ? "masked language model" : "classifier");
    ll_stream *s = ll_alloc(1, sizeof *s);
    if (!s) return LL_ENOMEM;
    s->model = model;
    const int learned = c->position == LL_POS_LEARNED && c->max_length < PIECE;
    ll_status status = ll_workspace_make(&s->ws, model, 1, learned ? c->max_length : PIECE, LL_STREAM);
    if (!status) {
        s->attention = ll_alloc((size_t)c->layers, sizeof(ll_attention_stream *));
        s->logits = ll_alloc((size_t)c->vocab, sizeof *s->logits);
        if (!s->attention || !s->logits) status = LL_ENOMEM;
    }
    if (status) {
        ll_stream_free(s);
        return status;
    }
    s->ws->stream = s->attention;
    *out = s;
    return LL_OK;
}

ll_status ll_stream_create(ll_stream **out, ll_model *model) {
    ll_stream *s = NULL;
    ll_status status = begin(&s, model);
    for (int l = 0; !status && l < model->c->layers; l++)
        status = ll_attention_stream_create(&s->attention[l], model->attention[l], 1);
    if (status) {
        ll_stream_free(s);
        return status;
    }
    *out = s;
    return LL_OK;
}

ll_status ll_stream_whole(const ll_stream *s) {
    return s->broken ? ll_fail(LL_EINVAL, "an earlier feed of this stream failed; reset it first") : LL_OK;
}

ll_status ll_stream_clone(ll_stream **copy, const ll_stream *s) {
    ll_stream *new = NULL;
    ll_status status = ll_stream_whole(s);
    if (!status) status = begin(&new, s->model);
    for (int l = 0; !status && l < s->model->c->layers; l++)
        status = ll_attention_stream_clone(&new->attention[l], s->attention[l]);
    if (status) {
        ll_stream_free(new);
        return status;
    }
    memcpy(new->logits, s->logits, (size_t)s->model->c->vocab * sizeof *s->logits);
    new->position = s->position;
    *copy = new;
    return LL_OK;
}

void ll_stream_free(ll_stream *s) {
    if (!s) return;
    for (int l = 0; s->attention && l < s->model->c->layers; l++) ll_attention_stream_free(s->attention[l]);
    ll_free(s->attention);
    ll_free(s->logits);
    ll_workspace_free(s->ws);
    ll_free(s);
}

void ll_stream_reset(ll_stream *s) {
    for (int l = 0; l < s->model->c->layers; l++) ll_attention_stream_reset(s->attention[l]);
    s->position = 0;
    s->broken = 0;
}

/* Before anything moves: a refused feed leaves the stream as it was. */
static ll_status check(const ll_stream *s, const int *tokens, int n) {
    const ll_config *c = s->model->c;
    const ll_status status = ll_stream_whole(s);
    if (status) return status;
    if (n < 1) return ll_fail(LL_EINVAL, "%d tokens fed to a stream; feed at least 1", n);
    for (int i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= c->vocab)
            return ll_fail(LL_EINVAL, "token %d is not in 0..%d", tokens[i], c->vocab - 1);
    if (c->position == LL_POS_LEARNED && s->position + n > c->max_length)
        return ll_fail(LL_EINVAL, "the model's learned positions end at %d tokens (position.max-length)",
                       c->max_length);
    return LL_OK;
}

ll_status ll_stream_logits(const ll_stream *s, float *logits) {
    const ll_status status = ll_stream_whole(s);
    if (status) return status;
    if (!s->position) return ll_fail(LL_EINVAL, "nothing has been fed to this stream, so nothing follows from it yet");
    memcpy(logits, s->logits, (size_t)s->model->c->vocab * sizeof *logits);
    return LL_OK;
}

/* One piece of at most ws->T tokens through the network; logp as ll_stream_score, or NULL. last: the logits of what
 * comes after it are wanted. */
static ll_status feed_piece(ll_stream *s, const int *tokens, int n, float *logp, int last) {
    ll_batch_run run = ll_network_begin(s->model, s->ws, tokens, NULL, 1, n);
    run.position = s->position;
    if (logp && s->position)
        logp[0] = (float)((double)s->logits[tokens[0]] - ll_log_sum_exp(run.k, s->model->c->vocab, s->logits));
    const ll_status status = ll_network_forward(&run);
    if (status) {
        s->broken = 1;
        return status;
    }
    s->position += n;
    if (logp) ll_score_rows(&run, tokens, logp);
    if (last) ll_head_logits(&run, 1, ll_head_input(&run, (ll_rows){(size_t)n - 1, 1}), s->logits);
    return LL_OK;
}

static ll_status feed(ll_stream *s, const int *tokens, int n, float *logp) {
    ll_status status = check(s, tokens, n);
    if (logp && !status) memset(logp, 0, (size_t)n * sizeof *logp);
    for (int done = 0, piece; done < n && !status; done += piece) {
        piece = n - done < s->ws->T ? n - done : s->ws->T;
        status = feed_piece(s, tokens + done, piece, logp ? logp + done : NULL, logp || done + piece == n);
    }
    return status;
}

ll_status ll_stream_feed(ll_stream *s, const int *tokens, int n, float *logits) {
    const ll_status status = feed(s, tokens, n, NULL);
    if (!status && logits) memcpy(logits, s->logits, (size_t)s->model->c->vocab * sizeof *logits);
    return status;
}

ll_status ll_stream_score(ll_stream *s, float *logp, const int *tokens, int n) {
    return feed(s, tokens, n, logp);
}

int64_t ll_stream_position(const ll_stream *s) {
    return s->position;
}

size_t ll_stream_bytes(const ll_stream *s) {
    size_t bytes = sizeof *s + sizeof *s->ws + s->ws->bytes + (size_t)s->model->c->vocab * sizeof *s->logits;
    for (int l = 0; l < s->model->c->layers; l++) bytes += ll_attention_stream_bytes(s->attention[l]);
    return bytes;
}
