/* Readers: which rows make up which batch. A row of training batch i is a function of (seed, i) and of
 * nothing that was read before it. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "data/reader.h"

static const char *const split_name[3] = {"train", "valid", "test"};

/* ---- Splits ---- */

static const char *given(const char *path) {
    return path ? path : "";
}

/* Is the valid split the end of train? */
static int is_cut(const ll_config *c) {
    return !given(c->valid)[0] && c->valid_fraction > 0;
}

ll_status ll_split_source(ll_source *source, const ll_config *c, int split, int labels) {
    static const char *const keys[2][3] = {{"data.train", "data.valid", "data.test"},
                                           {"data.train-labels", "data.valid-labels", "data.test-labels"}};
    const char *const files[2][3] = {{c->train, c->valid, c->test}, {c->train_labels, c->valid_labels, c->test_labels}};
    const int from = split == LL_SPLIT_VALID && is_cut(c) ? LL_SPLIT_TRAIN : split;
    const ll_source s = {keys[labels][from], given(files[labels][from])};
    if (from != split && given(files[1][split])[0])
        return ll_fail(LL_EINVAL, "data.valid-labels is %s, but data.valid is empty; name both or neither",
                       files[1][split]);
    if (s.path[0]) {
        *source = s;
        return LL_OK;
    }
    if (split == LL_SPLIT_TEST)
        return ll_fail(LL_EINVAL, "%s is empty: there is no test split; name its file, or evaluate on valid", s.key);
    if (split == LL_SPLIT_VALID && !labels)
        return ll_fail(LL_EINVAL, "data.valid is empty and data.valid-fraction is 0: there is no valid split; "
                                  "name its file, or set the fraction of train to hold out");
    return ll_fail(LL_EINVAL, "%s is empty; name its file: --set %s=FILE", s.key, s.key);
}

void ll_split_range(int64_t *first, int64_t *count, const ll_config *c, int split, int64_t n) {
    int64_t held = is_cut(c) ? (int64_t)floor(c->valid_fraction * (double)n + 0.5) : 0;
    if (held > n) held = n;
    *first = 0;
    *count = n;
    if (split == LL_SPLIT_VALID && is_cut(c)) {
        *first = n - held;
        *count = held;
    } else if (split == LL_SPLIT_TRAIN) {
        *count = n - held;
        if (c->limit > 0 && *count > c->limit) *count = c->limit;
    }
}

/* ---- Readers ---- */

static const ll_format *const formats[] = {
    [LL_DATA_BYTES] = &ll_format_bytes,
    [LL_DATA_IDX] = &ll_format_idx,
    [LL_DATA_DEMO] = &ll_format_demo,
    [LL_DATA_PAIRS] = &ll_format_pairs,
    [LL_DATA_COPY] = &ll_format_copy,
    [LL_DATA_REVERSE] = &ll_format_reverse,
    [LL_DATA_COPY_REVERSE] = &ll_format_copy_reverse,
};

ll_status ll_reader_open(ll_reader **reader, const ll_config *c, const char *split) {
    int which = 0;
    while (which < 3 && strcmp(split, split_name[which])) which++;
    if (which == 3) return ll_fail(LL_EINVAL, "there is no split \"%s\"; there are train, valid and test", split);
    if (c->format < 0 || (size_t)c->format >= sizeof formats / sizeof *formats)
        return ll_fail(LL_EINVAL, "data.format number %d does not exist", c->format);
    const ll_format *format = formats[c->format];
    static const char *const has[3][2] = {{"has no classes to learn", "lm"},
                                          {"has examples with classes", "classify"},
                                          {"has pairs of sequences", "seq2seq"}};
    if (format->task != c->task)
        return ll_fail(LL_EINVAL, "data.format=%s %s; set model.task=%s", format->name, has[format->task][0],
                       has[format->task][1]);
    ll_reader *r = ll_alloc(1, sizeof *r);
    if (!r) return LL_ENOMEM;
    r->format = format;
    r->B = c->batch;
    r->T = c->length;
    ll_status status = format->open(r, c, which);
    if (status) {
        ll_reader_free(r);
        return status;
    }
    *reader = r;
    return LL_OK;
}

void ll_reader_free(ll_reader *r) {
    if (!r) return;
    for (int i = 0; i < 2; i++) ll_bytes_free(&r->file[i]);
    ll_free(r->pairs);
    ll_free(r);
}

int ll_reader_vocab(const ll_reader *reader) {
    return reader->vocab;
}

int ll_reader_classes(const ll_reader *reader) {
    return reader->classes;
}

int64_t ll_reader_size(const ll_reader *reader) {
    return reader->size;
}

void ll_reader_image(const ll_reader *reader, int *width, int *height) {
    *width = reader->width;
    *height = reader->height;
}

const uint8_t *ll_reader_text(const ll_reader *reader, size_t *size) {
    if (reader->format->order != LL_ORDER_WINDOWS) return NULL;
    *size = (size_t)reader->size;
    return reader->data;
}

/* ---- Batches ---- */

/* Windows begin anywhere that leaves room for T tokens and the one after them. The remainder of a 64-bit
 * draw is biased by size / 2^64, which no text can show. */
static int64_t window(const ll_reader *r, int T, uint64_t seed, int64_t number) {
    uint32_t draw[4];
    ll_random4(draw, seed, ll_stream_id(LL_RANDOM_BATCH, 0, 0), (uint64_t)number);
    return (int64_t)(((uint64_t)draw[0] << 32 | draw[1]) % (uint64_t)(r->size - T));
}

void ll_reader_batch(const ll_reader *r, ll_batch *batch, uint64_t seed, int64_t index) {
    for (int row = 0; row < batch->B; row++) {
        const int64_t number = index * batch->B + row, n = r->size;
        int64_t place = number;
        if (r->format->order == LL_ORDER_WINDOWS) place = window(r, batch->T, seed, number);
        if (r->format->order == LL_ORDER_SHUFFLED) place = ll_shuffle(number % n, n, seed, (uint32_t)(number / n));
        r->format->fill(r, batch, row, place);
    }
}

int64_t ll_reader_eval_batches(const ll_reader *r) {
    return (r->rows + r->B - 1) / r->B;
}

static void leave_empty(const ll_reader *r, ll_batch *batch, int row) {
    const size_t T = (size_t)batch->T, at = (size_t)row * T;
    memset(batch->tokens + at, 0, T * sizeof *batch->tokens);
    if (batch->source) {
        ll_pair_fill(batch, row, NULL, 0, NULL, 0);
        for (size_t t = 0; t < T; t++) batch->targets[at + t] = -1;
        batch->source_lengths[row] = 0;
    } else if (r->labels) {
        batch->targets[row] = -1;
    } else {
        for (size_t t = 0; t < T; t++) batch->targets[at + t] = -1;
    }
    batch->lengths[row] = 0;
}

void ll_reader_eval_batch(const ll_reader *r, ll_batch *batch, int64_t index) {
    for (int row = 0; row < batch->B; row++) {
        const int64_t number = index * batch->B + row;
        if (number < r->rows)
            r->format->fill(r, batch, row, number * r->stride);
        else
            leave_empty(r, batch, row);
    }
}

ll_status ll_batch_create(ll_batch *batch, const ll_config *c) {
    const size_t B = (size_t)c->batch, n = B * (size_t)c->length;
    ll_batch b = {.B = c->batch, .T = c->length};
    b.tokens = ll_alloc(n, sizeof *b.tokens);
    b.targets = ll_alloc(c->task == LL_TASK_CLASSIFY ? B : n, sizeof *b.targets);
    b.lengths = ll_alloc(B, sizeof *b.lengths);
    const int pairs = c->task == LL_TASK_SEQ2SEQ;
    if (pairs) {
        b.S = b.T;
        b.source = ll_alloc(n, sizeof *b.source);
        b.source_lengths = ll_alloc(B, sizeof *b.source_lengths);
    }
    if (!b.tokens || !b.targets || !b.lengths || (pairs && (!b.source || !b.source_lengths))) {
        ll_batch_free(&b);
        return LL_ENOMEM;
    }
    *batch = b;
    return LL_OK;
}

void ll_batch_free(ll_batch *batch) {
    ll_free(batch->tokens);
    ll_free(batch->targets);
    ll_free(batch->lengths);
    ll_free(batch->source);
    ll_free(batch->source_lengths);
    *batch = (ll_batch){0};
}
