/* Pairs of texts and whether they match, read as bytes. The file is TSV. A row has a label (0, 1) and either the names
 * of two texts, whose contents are in another TSV (data.docs: name, text), or, as in the Long-Range Arena, the names
 * and the texts. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "data/examples.h"

typedef struct {
    ll_slice name, text;
} doc;

static int by_name(const void *a, const void *b) {
    const ll_slice *x = &((const doc *)a)->name, *y = &((const doc *)b)->name;
    const int order = memcmp(x->at, y->at, x->size < y->size ? x->size : y->size);
    return order ? order : (x->size > y->size) - (x->size < y->size);
}

static int shown(const ll_slice *s) {
    return (int)(s->size < 60 ? s->size : 60);
}

static ll_status read_docs(doc **docs, size_t *count, ll_bytes *file, const char *path) {
    ll_status status = ll_file_read(file, path, SIZE_MAX / 4);
    if (status) return status;
    doc *list = ll_alloc(ll_count_lines(file), sizeof *list);
    if (!list) return LL_ENOMEM;
    ll_cells t = ll_cells_of(file, path, 0, 1);
    ll_slice field[2];
    size_t n = 0;
    for (int found = 1; !(status = ll_cells_next(&t, field, 2, &found)) && found;)
        list[n++] = (doc){field[0], field[1]};
    if (!status && n) qsort(list, n, sizeof *list, by_name);
    for (size_t i = 1; i < n && !status; i++)
        if (!by_name(&list[i - 1], &list[i]))
            status = ll_fail(LL_EFORMAT, "%s: the name \"%.*s\" occurs twice", path, shown(&list[i].name),
                             (char *)list[i].name.at);
    if (status) {
        ll_free(list);
        return status;
    }
    *docs = list;
    *count = n;
    return LL_OK;
}

static int label_of(const ll_slice *s) {
    if (ll_slice_is(s, "0") || ll_slice_is(s, "0.0")) return 0;
    return ll_slice_is(s, "1") || ll_slice_is(s, "1.0") ? 1 : -1;
}

/* The texts of a row: fields 4 and 5, or those that fields 2 and 3 name. */
static ll_status take(ll_reader *r, const ll_cells *t, const ll_slice *field, const doc *docs, size_t count) {
    ll_examples *own = r->own;
    const int label = label_of(&field[0]);
    if (label < 0)
        return ll_fail(LL_EFORMAT, "%s: line %lld has the label \"%.*s\", expected 0 or 1", t->name, (long long)t->line,
                       shown(&field[0]), (char *)field[0].at);
    for (int i = 0; i < 2; i++) {
        const doc wanted = {.name = field[1 + i]};
        const doc *found = docs ? bsearch(&wanted, docs, count, sizeof *docs, by_name) : NULL;
        if (docs && !found)
            return ll_fail(LL_EFORMAT, "%s: line %lld names \"%.*s\", which is not in data.docs", t->name,
                           (long long)t->line, shown(&wanted.name), (char *)wanted.name.at);
        own->text[2 * r->size + i] = docs ? found->text : field[3 + i];
    }
    r->file[1].data[r->size++] = (uint8_t)label;
    if (label > own->most) own->most = label;
    return LL_OK;
}

static ll_status read_pairs(ll_reader *r, ll_bytes *file, const char *path, const doc *docs, size_t count) {
    ll_examples *own = r->own;
    const size_t capacity = ll_count_lines(file);
    ll_cells t = ll_cells_of(file, path, 0, 1);
    ll_slice field[5];
    int found = 1;
    ll_status status = LL_OK;
    own->text = ll_alloc(capacity, 2 * sizeof *own->text);
    r->file[1].data = ll_alloc(capacity, 1);
    if (!own->text || !r->file[1].data) return LL_ENOMEM;
    own->labels = r->file[1].data;
    while (!status && found) {
        status = ll_cells_next(&t, field, docs ? 3 : 5, &found);
        if (!status && found) status = take(r, &t, field, docs, count);
    }
    return status;
}

static ll_status open_retrieval(ll_reader *r, const ll_reader_options *c, int split) {
    ll_source from = {0};
    ll_bytes pairs = {0};
    doc *docs = NULL;
    size_t count = 0;
    const int apart = c->data.docs && c->data.docs[0];
    ll_status status = ll_split_source(&from, c, split, 0);
    if (status) return status;
    if (apart) {
        status = read_docs(&docs, &count, &r->file[0], c->data.docs);
        if (status) return ll_fail_in(status, "data.docs");
    }
    status = ll_file_read(&pairs, from.path, SIZE_MAX / 4);
    if (!status) status = read_pairs(r, &pairs, from.path, docs, count);
    if (apart)
        ll_bytes_free(&pairs);
    else
        r->file[0] = pairs;
    ll_free(docs);
    r->vocab = 256;
    return status ? ll_fail_in(status, from.key) : ll_examples_use(r, c, split, from.path);
}

const ll_format ll_format_retrieval = {"retrieval",      1u << LL_TASK_MATCH, open_retrieval,
                                       ll_examples_fill, sizeof(ll_examples), ll_examples_close};
