/* Feeds text to a stream and prints what it generates. */
#include "generate/generate_output.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static int open_text(ll_text_output *s, ll_model *model) {
    const ll_recipe *recipe = ll_model_recipe(model);
    s->model = model;
    s->vocab = ll_model_size(model).vocab;
    s->bytes = !strcmp(ll_recipe_unit(recipe), "byte");
    const char *separator = ll_recipe_get(recipe, "model.separator");
    s->separator = separator ? atoi(separator) : -1;
    const ll_status status = ll_tokenizer_create(&s->tokenizer, model);
    if (status) return ll_failed(status, NULL);
    s->text_vocab = ll_tokenizer_vocab(s->tokenizer);
    s->logits = calloc((size_t)s->vocab, sizeof *s->logits);
    return s->logits ? -1 : ll_fail_message("out of memory");
}

int ll_text_output_create(ll_text_output *s, ll_model *model, const char *state) {
    ll_status status = state ? ll_stream_load(&s->stream, model, state) : ll_stream_create(&s->stream, model);
    if (status) return ll_failed(status, state);
    const int code = open_text(s, model);
    if (code >= 0) return code;
    if (ll_stream_position(s->stream)) status = ll_stream_logits(s->stream, s->logits);
    return status ? ll_failed(status, state) : -1;
}

ll_status ll_text_output_begin(ll_text_output *s, const ll_stream *from) {
    ll_stream_free(s->stream);
    s->stream = NULL;
    s->size = 0;
    s->fed = 0;
    s->full = 0;
    const ll_status status = ll_stream_clone(&s->stream, from);
    return status || !ll_stream_position(s->stream) ? status : ll_stream_logits(s->stream, s->logits);
}

/* Tokens that stand for other texts there would be drafts of nonsense. */
static int check_tokens(const ll_text_output *s, ll_tokenizer *other) {
    if (ll_tokenizer_vocab(other) != s->text_vocab)
        return ll_usage("--draft: its model has %d tokens of text, this one %d", ll_tokenizer_vocab(other),
                        s->text_vocab);
    for (int i = 0; i < s->text_vocab; i++) {
        size_t a, b;
        const char *mine = ll_tokenizer_text(s->tokenizer, i, &a), *its = ll_tokenizer_text(other, i, &b);
        if (a != b || memcmp(mine, its, a))
            return ll_usage("--draft: its model has other tokens: token %d is '%.*s', here '%.*s'", i, (int)b, its,
                            (int)a, mine);
    }
    return -1;
}

int ll_text_output_draft(ll_text_output *s, ll_model *model, ll_model *draft_model, int draft_tokens) {
    ll_tokenizer *other = NULL;
    int code = open_text(s, model);
    if (code >= 0) return code;
    s->draft_model = draft_model;
    ll_status status = ll_tokenizer_create(&other, draft_model);
    if (!status) code = check_tokens(s, other);
    ll_tokenizer_free(other);
    if (code >= 0) return code;
    if (!status) status = ll_draft_create(&s->draft, model, draft_model, draft_tokens, s->text_vocab);
    return status == LL_EINVAL ? ll_usage("--draft: %s", ll_error()) : status ? ll_failed(status, NULL) : -1;
}

int64_t ll_text_output_position(const ll_text_output *s) {
    if (!s->draft) return ll_stream_position(s->stream);
    const ll_draft_counts n = ll_draft_count(s->draft);
    return n.position - (n.left < 0); /* as of a stream, which does not read a last token without a position */
}

size_t ll_state_at(const ll_model *model, int64_t position) {
    return ll_model_cost(model, position < INT_MAX ? (int)position : INT_MAX).stream_bytes;
}

size_t ll_text_output_bytes(const ll_text_output *s) {
    const int64_t position = ll_text_output_position(s);
    return ll_state_at(s->model, position) + (s->draft_model ? ll_state_at(s->draft_model, position) : 0);
}

static ll_status feed(ll_text_output *s, const int *tokens, size_t n) {
    return s->draft ? ll_draft_feed(s->draft, tokens, (int)n) : ll_stream_feed(s->stream, tokens, (int)n, s->logits);
}

void ll_text_output_free(ll_text_output *s) {
    ll_stream_free(s->stream);
    ll_draft_free(s->draft);
    ll_tokenizer_free(s->tokenizer);
    free(s->logits);
    free(s->text);
    free(s->tokens);
    *s = (ll_text_output){0};
}

static ll_status keep(ll_text_output *s, const int *tokens, size_t n) {
    if (!s->keeps) return LL_OK;
    if (s->token_capacity - s->token_count < n) {
        const size_t capacity = 2 * (s->token_count + n);
        int *grown = realloc(s->tokens, capacity * sizeof *grown);
        if (!grown) return LL_ENOMEM;
        s->tokens = grown;
        s->token_capacity = capacity;
    }
    memcpy(s->tokens + s->token_count, tokens, n * sizeof *tokens);
    s->token_count += n;
    return LL_OK;
}

/* Feeds blocks of tokens; a signal cuts what is longer than a block of a file. */
static ll_status feed_tokens(ll_text_output *s, const int *tokens, size_t n) {
    enum { TOGETHER = 1024 };
    if (s->most && (int64_t)n > s->most - s->fed) n = (size_t)(s->most - s->fed);
    ll_status status = LL_OK;
    ll_progress_line progress = ll_progress_of(LL_PROGRESS_COUNT, "tokens read");
    for (size_t i = 0, m; i < n && !status && !s->cut; i += m) {
        m = n - i < TOGETHER ? n - i : TOGETHER;
        status = feed(s, tokens + i, m);
        if (!status) status = keep(s, tokens + i, m);
        s->fed += (int64_t)m;
        s->last = tokens[i + m - 1];
        if (s->reports && n > LL_BLOCK) ll_progress_report((int64_t)(i + m), (int64_t)n, &progress);
        s->cut = n > LL_BLOCK && i + m < n && ll_stop_wanted();
    }
    ll_progress_end(&progress);
    return status;
}

/* The tokens that go before every text: at the very beginning alone. */
static ll_status feed_special(ll_text_output *s) {
    size_t n;
    const int *before = ll_tokenizer_special(s->tokenizer, LL_SPECIAL_BEFORE, &n);
    return n && !ll_text_output_position(s) ? feed(s, before, n) : LL_OK;
}

static ll_status feed_text(ll_text_output *s, const void *text, size_t n) {
    int *tokens = NULL;
    size_t count = 0;
    ll_status status = ll_tokenizer_encode(s->tokenizer, text, n, &tokens, &count);
    if (!status) status = feed_special(s);
    if (!status) status = feed_tokens(s, tokens, count);
    ll_text_free(tokens);
    return status;
}

ll_status ll_text_output_feed(ll_text_output *s, const uint8_t *bytes, size_t n) {
    if (s->bytes) return feed_text(s, bytes, n);
    if (s->capacity - s->size < n) {
        const size_t capacity = 2 * (s->size + n);
        char *text = realloc(s->text, capacity);
        if (!text) return LL_ENOMEM;
        s->text = text;
        s->capacity = capacity;
    }
    memcpy(s->text + s->size, bytes, n);
    s->size += n;
    return LL_OK;
}

ll_status ll_text_output_flush(ll_text_output *s) {
    const ll_status status = s->size ? feed_text(s, s->text, s->size) : feed_special(s);
    s->size = 0;
    return status;
}

/* The next of the tokens that were made with drafts. */
static ll_status next_drafted(ll_text_output *s, const ll_sampling *how, int *token) {
    ll_status status = LL_OK;
    if (s->given == s->readies) {
        s->given = 0;
        status = ll_draft_next(s->draft, how, s->ready, &s->readies);
    }
    if (!status) *token = s->ready[s->given++];
    return status;
}

int ll_text_output_ended(const ll_text_output *s) { return s->full || (s->saves && !ll_stream_left(s->stream)); }

void ll_print_end(const char *what, int64_t position, const char *place) {
    ll_print("%s%sthe %s ends because the model's learned positions do, after %lld tokens", place ? place : "",
             place ? ": " : "", what, (long long)position);
}

ll_status ll_text_output_next(ll_text_output *s, const ll_sampling *how, const char **text, size_t *size) {
    int token;
    ll_status status = LL_OK;
    if (s->draft)
        status = next_drafted(s, how, &token);
    else
        token = ll_sample(s->logits, s->text_vocab, how, ll_stream_position(s->stream));
    if (!status) status = keep(s, &token, 1);
    if (status) return status;
    *text = ll_tokenizer_text(s->tokenizer, token, size);
    if (s->draft) {
        s->full = s->given == s->readies && ll_draft_count(s->draft).left < 0;
        return LL_OK;
    }
    s->full = token != s->separator && !ll_stream_left(s->stream);
    return s->full ? LL_OK : ll_stream_feed(s->stream, &token, 1, s->logits);
}
