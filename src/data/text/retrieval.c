/* Pairs of texts and whether they match, read as bytes. The file is TSV. A row has a label (0, 1) and either the names
 * of two texts, whose contents are in another TSV (data.docs: name, text), or, as in the Long-Range Arena, the names
 * and the texts. */
#include <stdlib.h>
#include <string.h>

#include "base/integer.h"
#include "base/memory.h"
#include "data/examples.h"
#include "data/file_list.h"

typedef struct {
    ll_slice name, text;
} doc;

/* Rows stay in their files. Of data.docs, a list says where each text is. */
typedef struct {
    ll_examples examples;
    doc *docs; /* (count) sorted by name; NULL: the rows have the texts. Their file is r->file[0] */
    size_t count;
} retrieval;

static int by_name(const void *a, const void *b) {
    const ll_slice *x = &((const doc *)a)->name, *y = &((const doc *)b)->name;
    const int order = memcmp(x->at, y->at, ll_min_size(x->size, y->size));
    return order ? order : (x->size > y->size) - (x->size < y->size);
}

static int shown(const ll_slice *s) { return (int)ll_min_size(s->size, 60); }

static size_t count_lines(const ll_bytes *bytes) {
    const uint8_t *const data = bytes->data, *const end = data + bytes->size;
    size_t n = 1, left = 0;
    for (const uint8_t *p = data; (p = memchr(p, '\n', (size_t)(end - p))); p++, n++)
        ll_bytes_pass(bytes, (size_t)(p - data), &left);
    return n;
}

static ll_status read_docs(retrieval *own, ll_bytes *file, const char *path) {
    ll_status status = ll_file_take(file, path);
    if (status) return status;
    doc *list = own->docs = ll_alloc(count_lines(file), sizeof *list);
    if (!list) return LL_ENOMEM;
    ll_cells t = ll_cells_of(file, path, 0, 1);
    ll_slice field[2];
    size_t n = 0, left = 0;
    for (int found = 1; !(status = ll_cells_next(&t, field, 2, &found)) && found;) {
        list[n++] = (doc){field[0], field[1]};
        ll_bytes_pass(file, (size_t)(t.at - file->data), &left);
    }
    if (!status && n) qsort(list, n, sizeof *list, by_name);
    for (size_t i = 1; i < n && !status; i++)
        if (!by_name(&list[i - 1], &list[i]))
            status = ll_fail(LL_EFORMAT, "%s: the name \"%.*s\" occurs twice", path, shown(&list[i].name),
                             (char *)list[i].name.at);
    own->count = n;
    ll_bytes_leave(file);
    return status;
}

static int label_of(const ll_slice *s) {
    if (ll_slice_is(s, "0") || ll_slice_is(s, "0.0")) return 0;
    return ll_slice_is(s, "1") || ll_slice_is(s, "1.0") ? 1 : -1;
}

/* The texts of a row: fields 4 and 5, or those that fields 2 and 3 name. Returns how many were found. */
static int find_texts(const ll_reader *r, const ll_slice *field, ll_slice text[2]) {
    retrieval *own = r->own;
    for (int i = 0; i < 2; i++) {
        const doc wanted = {.name = field[1 + i]};
        const doc *found = &(doc){.text = field[own->docs ? 0 : 3 + i]};
        if (own->docs && !(found = bsearch(&wanted, own->docs, own->count, sizeof wanted, by_name))) return i;
        text[i] = found->text;
    }
    if (own->docs) ll_bytes_touch(&r->file[0], text[0].size + text[1].size, &own->examples.touched);
    return 2;
}

static int read_row(const ll_reader *r, int64_t number, ll_slice text[2]) {
    retrieval *own = r->own;
    const ll_slice *field = ll_table_row_read(&own->examples.rows, number);
    return field && find_texts(r, field, text) == 2 ? label_of(&field[0]) : -1;
}

static ll_status check_row(ll_reader *r) {
    retrieval *own = r->own;
    const ll_cells *t = &own->examples.rows.cells;
    const ll_slice *field = own->examples.rows.field;
    const int label = label_of(&field[0]);
    ll_slice text[2];
    if (label < 0)
        return ll_fail(LL_EFORMAT, "%s: line %lld has the label \"%.*s\", expected 0 or 1", t->name, (long long)t->line,
                       shown(&field[0]), (char *)field[0].at);
    const int found = find_texts(r, field, text);
    if (found < 2)
        return ll_fail(LL_EFORMAT, "%s: line %lld names \"%.*s\", which is not in data.docs", t->name,
                       (long long)t->line, shown(&field[1 + found]), (char *)field[1 + found].at);
    if (label > own->examples.most) own->examples.most = label, own->examples.most_line = t->line;
    for (int i = 0; i < 2; i++) ll_examples_see(r, &text[i]);
    return LL_OK;
}

static ll_status read_rows(ll_reader *r, const char *path) {
    retrieval *own = r->own;
    ll_table_rows *rows = &own->examples.rows;
    ll_status status = ll_table_rows_open(rows, path, own->docs ? 3 : 5, 0, 1);
    own->examples.read = read_row;
    for (; ll_table_rows_next(rows, &status); r->size++) status = check_row(r);
    return status;
}

static ll_status open_retrieval(ll_reader *r, const ll_reader_options *c, int split) {
    ll_source from = {0};
    ll_status status = ll_split_source(&from, c, split, 0);
    if (status) return status;
    if (c->data.docs && c->data.docs[0]) {
        status = ll_files_check(c->data.docs);
        if (!status) status = read_docs(r->own, &r->file[0], c->data.docs);
        if (status) return ll_fail_in(status, "data.docs");
    }
    status = read_rows(r, from.path);
    r->vocab = 256;
    return status ? ll_fail_in(status, from.key) : ll_examples_use(r, c, split, from.path);
}

static void close_retrieval(const ll_reader *r) {
    retrieval *own = r->own;
    ll_free(own->docs);
    ll_examples_close(r);
}

const ll_format ll_format_retrieval = {
    "retrieval", 1u << LL_TASK_MATCH, open_retrieval, ll_examples_fill, sizeof(retrieval), close_retrieval,
    .unit = "byte", .cut = LL_CUT_BYTE};
