/* Texts with classes as rows of a batch. */
#include "data/examples.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"

/* The text of an example (match: its two texts), and its label. A file may change while it is read: a row that is there
 * no more, or whose label was in no row before, is empty and has label 0. */
static int example(const ll_reader *r, int64_t number, ll_slice text[2]) {
    ll_examples *own = r->own;
    if (own->read) {
        const int label = own->read(r, number, text);
        if (label >= 0 && label <= own->most) return label;
        text[0] = text[1] = (ll_slice){.at = own->rows.file.data};
        return 0;
    }
    text[0] = own->text[number];
    ll_bytes_touch(&r->file[0], text[0].size, &own->touched);
    return own->labels[number];
}

void ll_examples_see(ll_reader *r, const ll_slice *text) {
    int n = 0;
    for (size_t i = 0; text->quoted && i < text->size && n <= r->T; n++) ll_slice_byte(text, &i);
    r->seen++;
    r->cut += text->quoted ? n > r->T : (int64_t)text->size > r->T;
}

static ll_status too_large(const ll_examples *own, int classes, const char *name) {
    char place[40] = "it";
    if (own->most_line) snprintf(place, sizeof place, "line %lld", (long long)own->most_line);
    return ll_fail(LL_EFORMAT, "%s: %s has label %d, expected 0..%d (model.classes=%d)", name, place, own->most,
                   classes - 1, classes);
}

ll_status ll_examples_use(ll_reader *r, const ll_reader_options *c, int split, const char *name) {
    ll_examples *own = r->own;
    int64_t first = 0, count = 0;
    if (c->length < 1)
        return ll_fail(LL_EINVAL, "train.length is %d; set the number of bytes of each text that is read",
                       c->length);
    if (c->classes > 0 && r->size && own->most >= c->classes) return too_large(own, c->classes, name);
    const ll_status status = ll_split_examples(&first, &count, c, split, r->size, "example", name);
    if (status) return status;
    for (int64_t i = 0; own->text && i < r->size; i++) ll_examples_see(r, &own->text[i]);
    r->classes = c->classes > 0 ? c->classes : own->most + 1;
    own->first = first;
    own->mixed = split == LL_SPLIT_TRAIN || (split == LL_SPLIT_VALID && ll_split_is_cut(c)) ? r->size : 0;
    r->size = r->rows = count;
    r->stride = 1;
    r->examples = 1;
    return LL_OK;
}

/* The number in the file of example `index` of the split. Files are often sorted by class. So held-out examples, and
 * those that data.limit keeps, are a fixed random choice from all of train. */
static int64_t number_of(const ll_reader *r, int64_t index) {
    const ll_examples *own = r->own;
    return own->mixed ? ll_shuffle(own->first + index, own->mixed, 0, UINT32_MAX) : own->first + index;
}

void ll_examples_close(const ll_reader *r) {
    ll_examples *own = r->own;
    ll_free(own->text);
    ll_table_rows_close(&own->rows);
}

static void fill_text(const ll_slice *text, ll_batch *batch, int row) {
    const size_t T = (size_t)batch->T;
    int *tokens = batch->tokens + (size_t)row * T;
    size_t n = 0;
    for (size_t i = 0; i < text->size && n < T;) tokens[n++] = ll_slice_byte(text, &i);
    memset(tokens + n, 0, (T - n) * sizeof *tokens);
    batch->lengths[row] = (int)n;
}

void ll_examples_fill(const ll_reader *r, ll_batch *batch, int row, int64_t index) {
    const int texts = r->task == LL_TASK_MATCH ? 2 : 1;
    ll_slice text[2];
    batch->targets[row] = example(r, number_of(r, index), text);
    for (int i = 0; i < texts; i++) fill_text(&text[i], batch, row * texts + i);
}
