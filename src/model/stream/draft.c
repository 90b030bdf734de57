/* Speculative decoding: a draft model drafts, the target model verifies (longline-draft.h). Each model has a stream
 * that stands at or before the end of the text; it has yet to read the last `behind` tokens. A copy of it reads drafted
 * tokens. */
#include <string.h>

#include "base/float_mode.h"
#include "base/integer.h"
#include "base/memory.h"
#include "base/versioned.h"
#include "longline-draft.h"
#include "model/stream/model_stream.h"
#include "model/stream/sample.h"

enum { TAIL = LL_DRAFT_MOST + 2, BLOCK = 256 };

typedef struct {
    ll_batcher *batcher;
    ll_stream *stream, *copy; /* copy: NULL but within a block */
    int behind;
} text_stream;

struct ll_draft {
    text_stream target, draft;
    int draft_tokens, V, vocab; /* drafted at a time; of both models; tokens that may be made */
    int target_only;            /* the draft model can read no more */
    int broken;                 /* a call failed after a stream had read something of it */
    int tail[TAIL];             /* the last tokens, */
    int tails;                  /* so many; one of them at least after a feed */
    int64_t position;
    ll_draft_counts counts;
    float *q;      /* (draft_tokens, V) weights of the draft model where it drafted */
    double *q_sum; /* (draft_tokens) */
    float *p;      /* (2 draft_tokens + 2, V) logits of the target */
};

/* Draws of one position that depend on each other in no way. */
enum { DRAW_BONUS = 0, DRAW_DRAFT, DRAW_ACCEPT, DRAW_RESIDUAL };

/* ---- Made and freed ---- */

static ll_status check_models(const ll_model *target, const ll_model *draft_model, int draft_tokens, int vocab) {
    const int V = target->c->model.vocab;
    if (target->stacks > 1 || draft_model->stacks > 1)
        return ll_fail(LL_EINVAL, "drafts are for language models (model.task = lm), not for seq2seq");
    if (draft_model->c->model.vocab != V)
        return ll_fail(LL_EINVAL, "the model that drafts has a vocabulary of %d, the other one of %d",
                       draft_model->c->model.vocab, V);
    if (draft_tokens < 1 || draft_tokens > LL_DRAFT_MOST)
        return ll_fail(LL_EINVAL, "%d tokens to draft; there are 1 to %d", draft_tokens, LL_DRAFT_MOST);
    if (vocab < 1 || vocab > V) return ll_fail(LL_EINVAL, "%d tokens to draw from; there are 1 to %d", vocab, V);
    return LL_OK;
}

static ll_status open_stream(text_stream *s, ll_model *model) {
    ll_status status = ll_batcher_create(&s->batcher, model, BLOCK);
    return status ? status : ll_batcher_stream(&s->stream, s->batcher);
}

ll_status ll_draft_create(ll_draft **out, ll_model *target, ll_model *draft_model, int draft_tokens, int vocab) {
    ll_status status = ll_model_can_stream(target);
    if (!status) status = ll_model_can_stream(draft_model);
    if (!status) status = check_models(target, draft_model, draft_tokens, vocab);
    if (status) return status;
    ll_draft *d = ll_alloc(1, sizeof *d);
    if (!d) return LL_ENOMEM;
    const size_t k = (size_t)draft_tokens, row = (size_t)target->c->model.vocab * sizeof(float);
    d->draft_tokens = draft_tokens, d->V = target->c->model.vocab, d->vocab = vocab;
    status = open_stream(&d->target, target);
    if (!status) status = open_stream(&d->draft, draft_model);
    if (!status) {
        d->q = ll_alloc(k, row);
        d->p = ll_alloc(2 * k + 2, row);
        d->q_sum = ll_alloc(k, sizeof *d->q_sum);
        if (!d->q || !d->p || !d->q_sum) status = LL_ENOMEM;
    }
    if (status) {
        ll_draft_free(d);
        return status;
    }
    *out = d;
    return LL_OK;
}

static void close_stream(text_stream *s) {
    ll_stream_free(s->copy);
    ll_stream_free(s->stream);
    ll_batcher_free(s->batcher);
}

void ll_draft_free(ll_draft *d) {
    if (!d) return;
    close_stream(&d->target);
    close_stream(&d->draft);
    ll_free(d->q);
    ll_free(d->q_sum);
    ll_free(d->p);
    ll_free(d);
}

void ll_draft_reset(ll_draft *d) {
    ll_stream_reset(d->target.stream);
    ll_stream_reset(d->draft.stream);
    d->target.behind = d->draft.behind = d->tails = d->target_only = d->broken = 0;
    d->position = 0;
}

/* What the target can read behind the text, of which its stream has not read the end yet. */
static int64_t left(const ll_draft *d) {
    const ll_model_config *c = d->target.stream->model->c;
    const int64_t limit = ll_position_limit(&c->position);
    int64_t left = ll_stream_left(d->target.stream);
    for (int i = d->tails - d->target.behind; i < d->tails && limit < INT64_MAX; i++)
        left = d->tail[i] == c->model.separator ? limit - 1 : left - 1;
    return left;
}

ll_draft_counts ll_draft_count(const ll_draft *d) {
    ll_draft_counts counts = d->counts;
    counts.position = d->position;
    counts.left = left(d);
    counts.bytes = ll_stream_bytes(d->target.stream) + ll_stream_bytes(d->draft.stream);
    return counts;
}

/* ---- The text ---- */

/* The text grows by n tokens that neither stream has read. */
static void grow(ll_draft *d, const int *tokens, int n) {
    const int kept = ll_min_int(d->tails, TAIL - n);
    memmove(d->tail, d->tail + d->tails - kept, (size_t)kept * sizeof *tokens);
    memcpy(d->tail + kept, tokens, (size_t)n * sizeof *tokens);
    d->tails = kept + n;
    d->target.behind += n;
    d->draft.behind += n;
    d->position += n;
}

/* What a stream has not read, but for the last `but`. */
static ll_status catch_up(const ll_draft *d, text_stream *s, int but, float *logits) {
    const int n = s->behind - but;
    if (n <= 0) return logits ? ll_stream_logits(s->stream, logits) : LL_OK;
    ll_batch_item item = {.stream = s->stream, .tokens = d->tail + d->tails - s->behind, .n = n, .logits = logits};
    const ll_status status = ll_batcher_feed(s->batcher, &item, 1);
    if (!status) s->behind = but;
    return status;
}

static ll_status feed_stream(const ll_draft *d, text_stream *s, const int *tokens, int n) {
    ll_status status = catch_up(d, s, 0, NULL);
    if (status || n < 2) return status;
    ll_batch_item item = {.stream = s->stream, .tokens = tokens, .n = n - 1};
    return ll_batcher_feed(s->batcher, &item, 1);
}

static ll_status check_whole(const ll_draft *d) {
    return d->broken ? ll_fail(LL_EINVAL, "an earlier call of this draft failed; reset it first") : LL_OK;
}

static ll_status feed_both(ll_draft *d, const int *tokens, int n) {
    ll_status status = feed_stream(d, &d->target, tokens, n);
    if (status || d->target_only) return status;
    status = feed_stream(d, &d->draft, tokens, n);
    if (status != LL_EINVAL) return status;
    d->target_only = 1; /* its learned positions end */
    return LL_OK;
}

ll_status ll_draft_feed(ll_draft *d, const int *tokens, int n) {
    if (n < 1) return ll_fail(LL_EINVAL, "%d tokens fed; feed at least 1", n);
    ll_status status = check_whole(d);
    if (!status) status = ll_check_tokens(d->target.stream->model, tokens, NULL, 1, n);
    if (status) return status;
    status = feed_both(d, tokens, n);
    d->broken = status != LL_OK;
    if (status) return status;
    d->position += n - 1;
    d->tails = 0;
    grow(d, tokens + n - 1, 1);
    return LL_OK;
}

/* ---- A block ---- */

/* Drafts k tokens by a copy of the draft stream. */
static ll_status draft_block(ll_draft *d, const ll_sampling *how, int *drafted, int k) {
    text_stream *s = &d->draft;
    ll_status status = catch_up(d, s, 0, d->q);
    if (!status) status = ll_stream_clone(&s->copy, s->stream);
    for (int i = 0; i < k && !status; i++) {
        float *q = d->q + (size_t)i * (size_t)d->V;
        d->q_sum[i] = ll_sample_weights(q, d->vocab, how);
        drafted[i] = ll_sample_at(q, d->vocab, d->q_sum[i], ll_sample_uniform(how->seed, DRAW_DRAFT, d->position + i));
        if (i + 1 == k) break;
        ll_batch_item item = {.stream = s->copy, .tokens = drafted + i, .n = 1, .logits = q + d->V};
        status = ll_batcher_feed(s->batcher, &item, 1);
    }
    ll_stream_free(s->copy);
    s->copy = NULL;
    return status;
}

/* A copy of the target stream reads what is behind and k drafted tokens; the stream itself, in the same pass, what is
 * behind but for the last token, which costs rows of products but no more weights. */
static ll_status score_block(ll_draft *d, const int *drafted, int k) {
    text_stream *s = &d->target;
    const int behind = s->behind, *unread = d->tail + d->tails - behind;
    int tokens[TAIL + LL_DRAFT_MOST];
    memcpy(tokens, unread, (size_t)behind * sizeof *tokens);
    if (k) memcpy(tokens + behind, drafted, (size_t)k * sizeof *tokens);
    ll_status status = ll_stream_clone(&s->copy, s->stream);
    if (status) return status;
    ll_batch_item items[2] = {{.stream = s->copy, .tokens = tokens, .n = behind + k, .every = 1, .logits = d->p},
                              {.stream = s->stream, .tokens = unread, .n = behind - 1}};
    return ll_batcher_feed(s->batcher, items, behind > 1 ? 2 : 1);
}

/* A token in place of one that was rejected: a draw from max(0, p - q). */
static int sample_residual(const ll_draft *d, float *p, double p_sum, const float *q, double q_sum, double u) {
    double total = 0;
    for (int v = 0; v < d->vocab; v++) {
        const double rest = (double)p[v] / p_sum - (double)q[v] / q_sum;
        p[v] = rest > 0 ? (float)rest : 0;
        total += p[v];
    }
    return ll_sample_at(p, d->vocab, total, u);
}

/* The drafted tokens that are accepted, of k, and the one after them; gives their number. */
static int verify(ll_draft *d, const ll_sampling *how, const int *drafted, int k, int *tokens) {
    float *p = d->p + (size_t)(d->target.behind - 1) * (size_t)d->V;
    for (int i = 0;; i++, p += d->V) {
        const int64_t position = d->position + i;
        const double sum = ll_sample_weights(p, d->vocab, how);
        if (i == k) {
            tokens[i] = ll_sample_at(p, d->vocab, sum, ll_sample_uniform(how->seed, DRAW_BONUS, position));
            return i + 1;
        }
        const float *q = d->q + (size_t)i * (size_t)d->V;
        const int x = tokens[i] = drafted[i];
        const double u = ll_sample_uniform(how->seed, DRAW_ACCEPT, position);
        if (u * (double)q[x] * sum < (double)p[x] * d->q_sum[i]) continue;
        tokens[i] = sample_residual(d, p, sum, q, d->q_sum[i], ll_sample_uniform(how->seed, DRAW_RESIDUAL, position));
        return i + 1;
    }
}

/* All drafts were accepted: the copy has read the text but for its last token. */
static void commit_copy(text_stream *s) {
    ll_stream *before = s->stream;
    s->stream = s->copy;
    s->copy = before;
    s->behind = 1;
}

static ll_status block(ll_draft *d, const ll_sampling *how, int k, int *tokens, int *n) {
    int drafted[LL_DRAFT_MOST];
    text_stream *s = &d->target;
    ll_status status = k ? draft_block(d, how, drafted, k) : LL_OK;
    if (!status) status = score_block(d, drafted, k);
    if (!status) {
        *n = verify(d, how, drafted, k, tokens);
        if (s->behind > 1) s->behind = 1;
        grow(d, tokens, *n);
        d->counts.blocks++, d->counts.drafted += k, d->counts.taken += *n - 1;
        if (*n == k + 1) commit_copy(s);
    }
    ll_stream_free(s->copy);
    s->copy = NULL;
    return status;
}

/* A block ends behind the last position of a model where one token may not. */
static ll_status next(ll_draft *d, const ll_sampling *how, int *tokens, int *n) {
    const ll_status status = d->target_only ? LL_EINVAL : block(d, how, d->draft_tokens, tokens, n);
    if (status != LL_EINVAL) return status;
    d->target_only = 1;
    return block(d, how, 0, tokens, n);
}

ll_status ll_draft_next(ll_draft *d, const ll_sampling *how, int *tokens, int *n) {
    LL_FLOAT_MODE;
    ll_sampling own;
    ll_status status = check_whole(d);
    if (!status && !d->tails) status = ll_fail(LL_EINVAL, "nothing has been fed, so nothing follows from it yet");
    if (!status) status = ll_struct_take(&own, sizeof own, how, "ll_sampling");
    if (status) return status;
    status = next(d, &own, tokens, n);
    d->broken = status && status != LL_EINVAL; /* that is found before a stream reads */
    return status;
}
