/* Text as tokens: windows of T tokens, each of which predicts the next one.
 *
 * In an evaluation of one text, window number i has tokens iT .. iT + T - 1. So each token of the split except the
 * first is predicted exactly once, from at most T tokens before it. Texts of their own (proteins) are cut into such
 * windows one by one. */
#include "data/text/text_reader.h"

#include "base/memory.h"
#include "data/text/coder.h"

static ll_status check_length(const ll_reader_options *c) {
    if (c->length >= 1) return LL_OK;
    return ll_fail(LL_EINVAL, "train.length is %d; a window of text has at least 1 token", c->length);
}

ll_status ll_text_use(ll_reader *r, const ll_reader_options *c, int split, const char *name, const uint8_t *text,
                      int64_t size) {
    const int64_t least = split == LL_SPLIT_TRAIN ? (int64_t)c->length + 1 : 2;
    const ll_status status = check_length(c);
    if (status) return status;
    if (size < least)
        return ll_fail(LL_EINVAL,
                       "%s: %lld %s for this split are too few: windows of train.length=%d need %lld; "
                       "give it more text%s",
                       name, (long long)size, text ? "bytes" : "tokens", c->length, (long long)least,
                       split == LL_SPLIT_TRAIN ? " or set a smaller train.length" : "");
    if (text) r->vocab = 256;
    ll_text_windows *own = r->own;
    own->data = text;
    r->size = size;
    r->stride = c->length;
    r->rows = (size - 2) / c->length + 1;
    return LL_OK;
}

ll_status ll_texts_use(ll_reader *r, const ll_reader_options *c, const uint8_t *text, int64_t *begin) {
    r->begin = begin;
    const ll_status status = check_length(c);
    if (status) return status;
    r->row = ll_alloc((size_t)r->size + 1, sizeof *r->row);
    if (!r->row) return LL_ENOMEM;
    for (int64_t i = 0; i < r->size; i++)
        r->row[i + 1] = r->row[i] + (begin[i + 1] - begin[i] - 1) / c->length + 1;
    ll_text_windows *own = r->own;
    own->data = text;
    r->examples = 1;
    r->stride = c->length;
    r->rows = r->row[r->size];
    return LL_OK;
}

int64_t ll_interval_of(const int64_t *begin, int64_t n, int64_t x) {
    int64_t low = 0, high = n;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (begin[middle] <= x)
            low = middle;
        else
            high = middle;
    }
    return low;
}

void ll_text_close(const ll_reader *r) {
    const ll_text_windows *own = r->own;
    ll_free(own->tokens);
}

static int token_at(const ll_text_windows *w, int64_t i) {
    return w->tokens ? w->tokens[i] : w->data[i];
}

void ll_text_fill(const ll_reader *r, ll_batch *batch, int row, int64_t index) {
    const int64_t end = r->begin ? r->begin[ll_interval_of(r->begin, r->size, index) + 1] : r->size - 1;
    const size_t T = (size_t)batch->T, left = (size_t)(end - index), n = left < T ? left : T;
    int *tokens = batch->tokens + (size_t)row * T, *targets = batch->targets + (size_t)row * T;
    for (size_t t = 0; t < n; t++) {
        tokens[t] = token_at(r->own, index + (int64_t)t);
        targets[t] = token_at(r->own, index + (int64_t)t + 1);
    }
    for (size_t t = n; t < T; t++) {
        tokens[t] = 0;
        targets[t] = -1;
    }
    batch->lengths[row] = (int)n;
}

void ll_reader_units(const ll_reader *r, double *words, double *bytes) {
    const ll_text_windows *w = r->format->fill == ll_text_fill ? r->own : NULL;
    const double count = !w ? 0 : w->words < 0 ? (double)ll_count_words(w->data, (size_t)w->bytes) : (double)w->words;
    *words = w ? count / (double)r->size : 0;
    *bytes = w ? (double)w->bytes / (double)r->size : 0;
}

const uint8_t *ll_reader_text(const ll_reader *r, size_t *size) {
    const ll_text_windows *w = r->format->fill == ll_text_fill ? r->own : NULL;
    if (!w || r->examples || w->tokens || r->vocab != 256) return NULL;
    *size = (size_t)r->size;
    return w->data;
}
