/* Streams that are fed together. A pass takes as many tokens of the items as there are rows. Each item's tokens are one
 * piece that stays within its document. The network sees one batch of rows; attention sees streams (stream_rows.c). */
#include <string.h>

#include "base/float_mode.h"
#include "base/integer.h"
#include "base/memory.h"
#include "model/layer/head_layers.h"
#include "model/stream/model_stream.h"

/* Scratch that is enough for the streams of all layers, for the present number of threads. */
static ll_status lend(ll_batcher *b) {
    const ll_stack *top = ll_top_stack(b->model);
    ll_status status = LL_OK;
    for (int l = 0; l < top->layers && !status; l++) {
        ll_attention_stream *s = NULL;
        status = ll_attention_stream_create_lean(&s, b->model->attention[ll_operator_of(top, l, 0)], 1);
        if (status) return status;
        b->set.floats = ll_max_size(b->set.floats, ll_attention_stream_lent_floats(s));
        ll_attention_stream_free(s);
    }
    b->set.floats = ll_max_size(b->set.floats, LL_LINE);
    b->set.workers = ll_threads();
    b->set.scratch = ll_alloc((size_t)b->set.workers, b->set.floats * sizeof(float));
    return b->set.scratch ? LL_OK : LL_ENOMEM;
}

static ll_status allocate(ll_batcher *b) {
    const size_t rows = (size_t)b->rows, V = (size_t)b->model->c->model.vocab, C = (size_t)b->model->c->model.width;
    b->set.span = ll_alloc(rows, sizeof *b->set.span);
    b->tokens = ll_alloc(3 * rows, sizeof *b->tokens);
    b->top = ll_alloc(rows, C * sizeof *b->top);
    b->logits = ll_alloc(rows, V * sizeof *b->logits);
    if (!b->set.span || !b->tokens || !b->top || !b->logits) return LL_ENOMEM;
    b->item = b->tokens + rows;
    b->done = b->item + rows;
    return LL_OK;
}

ll_status ll_batcher_create(ll_batcher **out, ll_model *model, int rows) {
    if (rows < 1 || rows > LL_CHUNK)
        return ll_fail(LL_EINVAL, "a batcher of %d rows; there are 1 to %d", rows, LL_CHUNK);
    ll_status status = ll_model_can_stream(model);
    if (status) return status;
    ll_batcher *b = ll_alloc(1, sizeof *b);
    if (!b) return LL_ENOMEM;
    b->model = model;
    b->rows = rows;
    status = ll_workspace_make(&b->ws, model, ll_top_stack(model), 1, rows, 0, LL_STREAM);
    if (!status) status = allocate(b);
    if (!status) status = lend(b);
    if (status) {
        ll_batcher_free(b);
        return status;
    }
    *out = b;
    return LL_OK;
}

void ll_batcher_free(ll_batcher *b) {
    if (!b) return;
    ll_workspace_free(b->ws);
    ll_free(b->set.span);
    ll_free(b->set.scratch);
    ll_free(b->tokens);
    ll_free(b->top);
    ll_free(b->logits);
    ll_free(b);
}

ll_status ll_batcher_stream(ll_stream **stream, ll_batcher *b) { return ll_stream_create_in(stream, b->model, b); }

ll_status ll_batcher_load(ll_stream **stream, ll_batcher *b, const char *path) {
    return ll_stream_load_in(stream, b->model, b, path);
}

/* ---- Feeding ---- */

static ll_status check_items(const ll_batcher *b, const ll_batch_item *items, int count) {
    ll_status status = LL_OK;
    if (count < 0 || count > b->rows)
        return ll_fail(LL_EINVAL, "%d items; the batcher has %d rows", count, b->rows);
    for (int i = 0; i < count && !status; i++) {
        ll_stream *s = items[i].stream;
        if (!s || s->batcher != b)
            status = ll_fail(LL_EINVAL, "item %d: not a stream of this batcher", i);
        else if ((status = ll_stream_check(s, items[i].tokens, items[i].n)))
            status = count > 1 ? ll_fail(status, "item %d: %s", i, ll_error()) : status;
    }
    for (int i = 0; i < count && !status; i++) items[i].stream->taken = 0;
    for (int i = 0; i < count && !status; i++)
        if (items[i].stream->taken++) status = ll_fail(LL_EINVAL, "item %d: its stream is also another item's", i);
    return status;
}

/* Chooses the spans of one pass and their tokens; returns the number of tokens. */
static int gather(ll_batcher *b, ll_batch_item *items, int count) {
    int used = 0;
    b->set.count = 0;
    for (int i = 0; i < count && used < b->rows; i++) {
        const int *from = items[i].tokens + b->done[i], left = items[i].n - b->done[i];
        if (items[i].status || !left) continue;
        const int n = ll_stream_piece(items[i].stream, from, left, b->rows - used);
        b->item[b->set.count] = i;
        b->set.span[b->set.count++] = ll_stream_begin(items[i].stream, from[0], used, n);
        memcpy(b->tokens + used, from, (size_t)n * sizeof *from);
        used += n;
    }
    return used;
}

/* The rows of a span that need logits: its last ones. */
static int wanted(const ll_batcher *b, const ll_batch_item *items, int span) {
    const ll_batch_item *item = &items[b->item[span]];
    const int n = b->set.span[span].n;
    return item->every && item->logits ? n : b->done[b->item[span]] + n == item->n;
}

static int any_wanted(const ll_batcher *b, const ll_batch_item *items) {
    int rows = 0;
    for (int i = 0; i < b->set.count; i++) rows += wanted(b, items, i);
    return rows > 0;
}

/* Collects the rows that need logits, and computes these. */
static void make_logits(ll_batcher *b, const ll_batch_run *run, const ll_batch_item *items) {
    const size_t C = (size_t)run->c->model.width;
    const float *x = ll_head_input(run, (ll_rows){0, (int)run->rows});
    int count = 0;
    for (int i = 0; i < b->set.count; i++) {
        const int n = wanted(b, items, i), first = b->set.span[i].first + b->set.span[i].n - n;
        memcpy(b->top + (size_t)count * C, x + (size_t)first * C, (size_t)n * C * sizeof *x);
        count += n;
    }
    if (count) ll_head_stream_logits(run, count, b->top, b->logits);
}

/* Gives a span's rows of logits to the item and its stream. */
static void deliver(ll_batcher *b, ll_batch_item *item, int done, int n, const float *logits, int rows) {
    const size_t V = (size_t)b->model->c->model.vocab;
    ll_stream *s = item->stream;
    s->position += n;
    if (item->every && item->logits)
        memcpy(item->logits + (size_t)done * V, logits, (size_t)rows * V * sizeof *logits);
    item->status = ll_stream_check_logits(s, logits, rows);
    if (done + n < item->n) return;
    memcpy(s->logits, logits + (size_t)(rows - 1) * V, V * sizeof *logits);
    if (!item->every && item->logits) memcpy(item->logits, s->logits, V * sizeof *logits);
}

/* A pass that fails fails for all items in it, and for no other. */
static void pass(ll_batcher *b, ll_batch_item *items, int n) {
    const size_t V = (size_t)b->model->c->model.vocab;
    ll_batch_run run = ll_network_begin(b->model, b->ws, &(ll_batch){.B = 1, .T = n, .tokens = b->tokens});
    run.streams = &b->set;
    if (!any_wanted(b, items) && run.stack->parts == 2) run.reads = LL_READS_NONE;
    const ll_status status = ll_network_forward(&run);
    const float *logits = b->logits;
    if (!status && run.reads == LL_READS_ALL) make_logits(b, &run, items);
    for (int i = 0; i < b->set.count; i++) {
        ll_batch_item *item = &items[b->item[i]];
        const int rows = wanted(b, items, i), fed = b->set.span[i].n;
        if (status) {
            item->status = status;
            item->stream->broken = 1;
        } else {
            deliver(b, item, b->done[b->item[i]], fed, logits, rows);
        }
        logits += (size_t)rows * V;
        b->done[b->item[i]] += fed;
    }
}

ll_status ll_batcher_feed(ll_batcher *b, ll_batch_item *items, int count) {
    LL_FLOAT_MODE;
    ll_status status = check_items(b, items, count);
    for (int i = 0; i < count; i++) items[i].status = status;
    if (status) return status;
    memset(b->done, 0, (size_t)count * sizeof *b->done);
    for (int n; (n = gather(b, items, count)) > 0;) pass(b, items, n);
    for (int i = 0; i < count && !status; i++) status = items[i].status;
    return status;
}
