/* Chooses the rows of a batch. A row of training batch i is a function of (seed, i) and does not depend on what was
 * read before. */
#include <string.h>

#include "base/integer.h"
#include "base/memory.h"
#include "base/random.h"
#include "data/text/pairs.h"
#include "data/format.h"

/* The remainder of a 64-bit draw has a bias of n / 2^64, which is negligible. */
static int64_t draw_below(int64_t n, uint64_t seed, int64_t number) {
    uint32_t draw[4];
    ll_random4(draw, seed, ll_stream_id(LL_RANDOM_BATCH, 0, 0), (uint64_t)number);
    return (int64_t)(((uint64_t)draw[0] << 32 | draw[1]) % (uint64_t)n);
}

/* A window of a text begins anywhere that leaves space for T tokens and the one after them. This also holds for texts
 * of their own that are longer than a window. */
static int64_t train_index(const ll_reader *r, int T, uint64_t seed, int64_t number) {
    if (r->endless) return number;
    if (!r->examples) return draw_below(r->size - T, seed, number);
    const int64_t i = ll_shuffle(number % r->size, r->size, seed, (uint32_t)(number / r->size));
    if (!r->texts) return i;
    const ll_text text = ll_text_at(r, LL_BY_TEXT, i);
    const int64_t spare = text.end - text.begin - T;
    return text.begin + (spare > 0 ? draw_below(spare + 1, seed, number) : 0);
}

static int64_t eval_index(const ll_reader *r, int64_t number) {
    if (!r->texts) return number * r->stride;
    const ll_text text = ll_text_at(r, LL_BY_ROW, number);
    return text.begin + (number - text.row) * r->stride;
}

/* Row `row` of batch `index` with n streams. Each stream goes through its part of the windows, again and again. */
typedef struct {
    int64_t window, first; /* the beginning of the row's stream or, if that is later, of its text */
    int64_t text, pass;
} window_position;

static window_position stream_at(const ll_reader *r, int row, int n, int64_t index) {
    const int64_t from = r->rows / n * row + r->rows % n * row / n;
    const int64_t to = r->rows / n * (row + 1) + r->rows % n * (row + 1) / n;
    window_position p = {.window = from + index % (to - from), .first = from, .pass = index / (to - from)};
    if (!r->texts) return p;
    const ll_text text = ll_text_at(r, LL_BY_ROW, p.window);
    p.text = text.text;
    if (text.row > from) p.first = text.row;
    return p;
}

void ll_reader_offsets(const ll_reader *r, int64_t *offset, int n, int64_t index) {
    for (int row = 0; row < n; row++) {
        const window_position p = stream_at(r, row, n, index);
        offset[row] = r->examples && !r->texts ? 0 : (p.window - p.first) * r->stride;
    }
}

/* A text is augmented in the same way in all of its windows, and in another way in the next pass. */
static void fill_streams(const ll_reader *r, ll_batch *batch, uint64_t seed, int64_t index) {
    for (int row = 0; row < batch->B; row++) {
        const window_position p = stream_at(r, row, batch->B, index);
        r->format->fill(r, batch, row, eval_index(r, p.window));
        if (r->format->augment) r->format->augment(r, batch, row, seed, p.pass * r->size + p.text);
    }
}

/* The number of rows, or of pairs of rows. */
static int examples_of(const ll_reader *r, const ll_batch *batch) {
    return r->task == LL_TASK_MATCH ? batch->B / 2 : batch->B;
}

void ll_reader_batch(const ll_reader *r, ll_batch *batch, uint64_t seed, int64_t index) {
    ll_reader_rows(r, batch, seed, index * examples_of(r, batch));
}

void ll_reader_rows(const ll_reader *r, ll_batch *batch, uint64_t seed, int64_t first) {
    const int n = examples_of(r, batch);
    if (r->streams) {
        fill_streams(r, batch, seed, first / n);
        return;
    }
    for (int row = 0; row < n; row++) {
        const int64_t number = first + row;
        r->format->fill(r, batch, row, train_index(r, batch->T, seed, number));
        if (r->format->augment) r->format->augment(r, batch, row, seed, number);
        if (r->task == LL_TASK_MLM) ll_mask_row(r, batch, row, seed, number);
    }
}

int64_t ll_reader_eval_batches(const ll_reader *r) {
    return (r->rows + r->B - 1) / r->B;
}

static void leave_empty(const ll_reader *r, ll_batch *batch, int row) {
    const size_t T = (size_t)batch->T, at = (size_t)row * T, texts = r->task == LL_TASK_MATCH ? 2 : 1;
    memset(batch->tokens + at * texts, 0, texts * T * sizeof *batch->tokens);
    for (size_t i = 0; i < texts; i++) batch->lengths[(size_t)row * texts + i] = 0;
    if (batch->source) {
        ll_pair_fill(batch, row, NULL, 0, NULL, 0);
        batch->source_lengths[row] = batch->lengths[row] = 0;
    }
    if (r->classes)
        batch->targets[row] = -1;
    else
        for (size_t t = 0; t < T; t++) batch->targets[at + t] = -1;
}

void ll_reader_eval_batch(const ll_reader *r, ll_batch *batch, int64_t index) {
    ll_reader_eval_rows(r, batch, index * examples_of(r, batch));
}

/* Evaluation masks with seed 0, so that the masks are the same for every model. */
void ll_reader_eval_rows(const ll_reader *r, ll_batch *batch, int64_t first) {
    const int n = examples_of(r, batch);
    for (int row = 0; row < n; row++) {
        const int64_t number = first + row;
        if (number >= r->rows) {
            leave_empty(r, batch, row);
            continue;
        }
        r->format->fill(r, batch, row, eval_index(r, number));
        if (r->task == LL_TASK_MLM) ll_mask_row(r, batch, row, 0, number);
    }
}

void ll_reader_count(const ll_reader *r, ll_batch *batch, int64_t index, int64_t *count) {
    const int masked = r->task == LL_TASK_MLM;
    const int *of = masked ? batch->tokens : batch->targets;
    const int64_t first = index * r->B, end = ll_min_int64(first + r->B, r->rows);
    for (int64_t number = first; number < end; number++) {
        r->format->fill(r, batch, 0, eval_index(r, number));
        const int n = ll_task_per_token(r->task) ? batch->lengths[0] : 1;
        for (int t = 0; t < n; t++)
            if (of[t] >= (masked ? r->maskable : 0)) count[of[t]]++;
    }
}

ll_status ll_batch_allocate(ll_batch *batch, const ll_reader_options *c) {
    const size_t B = (size_t)c->batch * (size_t)ll_task_sequences(c->task), n = B * (size_t)c->length;
    ll_batch b = {.B = (int)B, .T = c->length};
    b.tokens = ll_alloc(n, sizeof *b.tokens);
    b.targets = ll_alloc(ll_task_per_token(c->task) ? n : (size_t)c->batch, sizeof *b.targets);
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
