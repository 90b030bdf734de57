/* Text as tokens: windows of T tokens, each of which predicts the next one.
 *
 * In an evaluation of one text, window number i has tokens iT .. iT + T - 1. So each token of the split except the
 * first is predicted exactly once, from at most T tokens before it. Texts of their own (proteins) are cut into such
 * windows one by one.
 *
 * Where tokens are made from the bytes of a file, a window is found from the last mark before it (marks.h). */
#include "base/integer.h"
#include "data/text/text_reader.h"

#include <string.h>

#include "data/text/words.h"

ll_status ll_text_check_length(const ll_reader_options *c) {
    if (c->length >= 1) return LL_OK;
    return ll_fail(LL_EINVAL, "train.length is %d; a window of text has at least 1 token", c->length);
}

ll_status ll_text_use(ll_reader *r, const ll_reader_options *c, int split, const char *name, const uint8_t *text,
                      int64_t size) {
    const int64_t least = split == LL_SPLIT_TRAIN ? (int64_t)c->length + 1 : 2;
    const ll_status status = ll_text_check_length(c);
    if (status) return status;
    if (size < least && split == LL_SPLIT_TRAIN)
        return ll_fail(LL_EINVAL,
                       "%s: %lld %s to train on are too few: windows of train.length=%d need %lld; give it more "
                       "text or set a smaller train.length",
                       name, (long long)size, text ? "bytes" : "tokens", c->length, (long long)least);
    if (size < least)
        return ll_fail(LL_EINVAL, "%s: %lld %s held out are too few, at least %lld are needed; give it more text%s",
                       name, (long long)size, text ? "bytes" : "tokens", (long long)least,
                       split == LL_SPLIT_VALID && ll_split_is_cut(c) ? " or set a larger data.valid-fraction" : "");
    if (text) r->vocab = 256;
    ll_text_windows *own = r->own;
    own->data = text;
    r->size = size;
    r->stride = c->length;
    r->rows = (size - 2) / c->length + 1;
    return LL_OK;
}

int64_t ll_text_windows_of(int64_t begin, int64_t end, int T) { return (end - begin - 1) / T + 1; }

/* Are the texts split after they are joined? */
static int is_cut_within(const ll_text_windows *w, const ll_reader_options *c) {
    return c->data.joined && ll_split_is_empty(c, w->texts.mark[w->texts.count - 1].text);
}

ll_status ll_texts_use(ll_reader *r, const ll_reader_options *c, int split, const char *what, const char *name) {
    ll_text_windows *own = r->own;
    int64_t first = 0;
    r->size = own->texts.mark[own->texts.count - 1].text;
    const ll_status status =
        is_cut_within(own, c) ? LL_OK : ll_split_examples(&first, &r->size, c, split, r->size, what, name);
    if (status) return status;
    own->first = own->row = 0;
    own->row = ll_text_at(r, LL_BY_TEXT, first).row;
    own->first = first;
    r->examples = r->texts = 1;
    r->stride = c->length;
    const ll_text last = ll_text_at(r, LL_BY_TEXT, r->size - 1);
    r->rows = last.row + ll_text_windows_of(last.begin, last.end, r->T);
    return LL_OK;
}

ll_status ll_texts_join(ll_reader *r, const ll_reader_options *c, int split, const char *name) {
    ll_text_windows *w = r->own;
    w->offset = ll_text_at(r, LL_BY_TEXT, 0).begin;
    int64_t size = ll_text_at(r, LL_BY_TEXT, r->size - 1).end - w->offset + 1, first = 0;
    if (is_cut_within(w, c)) ll_split_range(&first, &size, c, split, size);
    w->offset += first;
    r->examples = r->texts = 0;
    return ll_text_use(r, c, split, name, NULL, size);
}

/* Finds the end of a text: the next mark knows that of the last text before it. */
static void find_end(const ll_reader *r, ll_text_place *x, const ll_mark *next) {
    const ll_text_windows *w = r->own;
    if (x->text + 1 == next->text) {
        x->end = next->token;
        return;
    }
    w->scan(r, &x->behind, INT64_MAX, 1, NULL);
    x->end = x->behind.token;
}

static int64_t number_of(const ll_text_place *x, ll_mark_field by) {
    return by == LL_BY_TOKEN ? x->begin : by == LL_BY_TEXT ? x->text : x->row;
}

/* Goes from the mark before a text, or from the text that was asked for last, to the texts behind it. */
ll_text ll_text_at(const ll_reader *r, ll_mark_field by, int64_t number) {
    ll_text_windows *w = r->own;
    if (by != LL_BY_TOKEN) number += by == LL_BY_TEXT ? w->first : w->row;
    const ll_mark *m = ll_marks_find(&w->texts, by, number);
    if (m + 1 == w->texts.mark + w->texts.count) m--;
    ll_text_place x = w->found;
    if (!x.end || x.text < m->text || x.text >= m[1].text || number_of(&x, by) > number) {
        x = (ll_text_place){m->text, m->row, m->token, 0, {m->byte, m->token, 1}};
        find_end(r, &x, m + 1);
    }
    while (x.text + 1 < m[1].text) {
        const ll_text_place next = {x.text + 1, x.row + ll_text_windows_of(x.begin, x.end, r->T), x.end, 0, x.behind};
        if (number_of(&next, by) > number) break;
        x = next;
        find_end(r, &x, m + 1);
    }
    w->found = x;
    return (ll_text){x.text - w->first, x.row - w->row, x.begin, x.end};
}

void ll_text_close(const ll_reader *r) {
    ll_text_windows *own = r->own;
    ll_bytes_free(&own->tokens);
    ll_marks_free(&own->marks);
    ll_marks_free(&own->texts);
}

/* ---- Tokens ---- */

/* The nearest known place before a token. */
static ll_text_cursor place_before(const ll_text_windows *w, int64_t token) {
    ll_text_cursor best = w->last;
    if (best.token > token) best = (ll_text_cursor){0};
    for (int texts = 0; texts < 2; texts++) {
        const ll_marks *marks = texts ? &w->texts : &w->marks;
        const ll_mark *m = marks->count ? ll_marks_find(marks, LL_BY_TOKEN, token) : NULL;
        if (m && m->token <= token && m->token > best.token) best = (ll_text_cursor){m->byte, m->token, texts};
    }
    return best;
}

static void read_tokens(const ll_reader *r, int64_t first, int64_t n, int *out) {
    ll_text_windows *w = r->own;
    if (w->scan) {
        ll_text_cursor at = place_before(w, first + w->offset);
        w->scan(r, &at, first + w->offset, 0, NULL);
        w->scan(r, &at, first + w->offset + n, 0, out);
        w->last = at;
    } else if (w->tokens.data) {
        memcpy(out, (const int32_t *)w->tokens.data + w->offset + first, (size_t)n * sizeof *out);
        ll_bytes_touch(&w->tokens, (size_t)n * sizeof *out, &w->touched);
    } else {
        for (int64_t i = 0; i < n; i++) out[i] = w->data[first + i];
        ll_bytes_touch(&r->file[0], (size_t)n, &w->touched);
    }
}

void ll_text_fill(const ll_reader *r, ll_batch *batch, int row, int64_t index) {
    const int64_t end = r->texts ? ll_text_at(r, LL_BY_TOKEN, index).end : r->size - 1;
    const size_t T = (size_t)batch->T, left = (size_t)(end - index), n = ll_min_size(left, T);
    int *tokens = batch->tokens + (size_t)row * T, *targets = batch->targets + (size_t)row * T;
    read_tokens(r, index, (int64_t)n, tokens);
    for (size_t t = 1; t < n; t++) targets[t - 1] = tokens[t];
    if (n) read_tokens(r, index + (int64_t)n, 1, targets + n - 1);
    for (size_t t = n; t < T; t++) {
        tokens[t] = 0;
        targets[t] = -1;
    }
    batch->lengths[row] = (int)n;
}

/* As ll_count_words, of bytes that are read on the way. */
static int64_t count_words(const ll_reader *r) {
    int block[1024];
    const int64_t size = r->size;
    int64_t count = 0;
    int inside = 0;
    for (int64_t at = 0, n; at < size; at += n) {
        n = ll_min_int64(size - at, 1024);
        read_tokens(r, at, n, block);
        for (int64_t i = 0; i < n; i++) {
            const int blank = ll_is_between_words((uint8_t)block[i]);
            count += block[i] == '\n' || (!blank && !inside);
            inside = !blank;
        }
    }
    return count;
}

static int64_t words_of(const ll_reader *r, ll_text_windows *w) {
    const ll_bytes text = {(uint8_t *)w->data, (size_t)w->bytes, r->file[0].mapped};
    if (w->words < 0) w->words = w->scan ? count_words(r) : ll_count_words(&text);
    return w->words;
}

void ll_reader_units(const ll_reader *r, double *words, double *bytes) {
    ll_text_windows *w = r->format->fill == ll_text_fill ? r->own : NULL;
    const double count = w ? (double)words_of(r, w) : 0;
    *words = w ? count / (double)r->size : 0;
    *bytes = w ? (double)w->bytes / (double)r->size : 0;
}
