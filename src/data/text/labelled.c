/* Texts with a class each, read as bytes. They are rows of TSV or CSV, or a folder with a subfolder of files for each
 * class, like the film reviews of Maas et al. (2011). Texts longer than train.length are cut.
 *
 * Rows stay in their file (table_rows.h). A folder's files are joined, in a temporary file if they are large
 * together. */
#include <string.h>

#include "base/integer.h"
#include "base/memory.h"
#include "data/examples.h"
#include "data/text/class_labels.h"

typedef struct {
    ll_examples examples;
    char *list;      /* the names of the classes, or NULL: labels are numbers */
    int label, text; /* the columns of a table that are read, from 0 */
} labelled;

static const char *given(const ll_reader_options *c) {
    return c->data.class_names && c->data.class_names[0] ? c->data.class_names : NULL;
}

/* ---- Rows ---- */

/* A row that is there no more is empty. */
static int read_row(const ll_reader *r, int64_t number, ll_slice *text) {
    labelled *own = r->own;
    const ll_slice *field = ll_row_read(&own->examples.rows, number);
    *text = field ? field[own->text] : (ll_slice){.at = own->examples.rows.file.data};
    const int label = field ? ll_label_number(own->list, &field[own->label]) : 0;
    return ll_max_int(label, 0);
}

static ll_status read_table(ll_reader *r, const ll_reader_options *c, ll_labels *labels, const char *path) {
    labelled *own = r->own;
    ll_rows *rows = &own->examples.rows;
    own->label = c->data.label_column - 1, own->text = c->data.text_column - 1;
    own->examples.read = read_row;
    if (own->label == own->text)
        return ll_fail(LL_EINVAL,
                       "data.label-column and data.text-column are both %d: each text would be its own class",
                       c->data.label_column);
    const int fields = 1 + ll_max_int(own->label, own->text);
    ll_status status =
        ll_rows_open(rows, path, fields, c->data.separator == LL_SEPARATOR_COMMA, own->text + 1 == fields);
    if (!status && c->data.header) status = ll_rows_skip(rows);
    for (; ll_rows_next(rows, &status); r->size++) {
        ll_examples_see(r, &rows->field[own->text]);
        status = ll_labels_see(labels, &rows->field[own->label]);
    }
    return status;
}

/* ---- Folders ---- */

/* The files that have a class, one after the other; labels[i] is that of file i. */
static ll_status join_files(ll_reader *r, ll_slice *labels, char **names, int count, const char *list,
                            const char *path) {
    ll_examples *own = r->own;
    ll_spill all = {.name = path};
    ll_status status = LL_OK;
    for (int i = 0; !status && i < count; i++) {
        if (!ll_label_of_file(&labels[r->size], path, names[i], list)) continue;
        const size_t before = all.bytes.size;
        status = ll_spill_add_file(&all, names[i]);
        own->text[r->size++].size = all.bytes.size - before;
    }
    if (!status) status = ll_spill_end(&all, &r->file[0]);
    ll_spill_free(&all);
    uint8_t *at = r->file[0].data;
    for (int64_t i = 0; !status && i < r->size; at += own->text[i++].size) own->text[i].at = at;
    return status;
}

/* The numbers of the labels, which all have been seen. */
static ll_status number_labels(ll_reader *r, const ll_slice *label) {
    labelled *own = r->own;
    uint8_t *out = ll_alloc((size_t)r->size + 1, 1);
    if (!out) return LL_ENOMEM;
    for (int64_t i = 0; i < r->size; i++) out[i] = (uint8_t)ll_label_number(own->list, &label[i]);
    r->file[1] = (ll_bytes){out, (size_t)r->size};
    own->examples.labels = out;
    return LL_OK;
}

static ll_status end_labels(ll_reader *r, ll_labels *labels, const char *list) {
    labelled *own = r->own;
    const ll_status status = ll_labels_end(labels, &own->examples.most, &r->class_names);
    if (status) return status;
    if (!list) list = r->class_names;
    if (list && !(own->list = ll_strdup(list))) return LL_ENOMEM;
    return LL_OK;
}

static ll_status read_folder(ll_reader *r, const ll_reader_options *c, ll_labels *labels, const char *path) {
    ll_examples *own = r->own;
    char **names = NULL;
    int count = 0;
    ll_status status = ll_folder_list(&names, &count, path);
    if (status) return status;
    ll_slice *label = ll_alloc((size_t)count, sizeof *label);
    own->text = ll_alloc((size_t)count, sizeof *own->text);
    status = label && own->text ? join_files(r, label, names, count, given(c), path) : LL_ENOMEM;
    if (!status && !r->size) status = ll_label_missing(path, given(c));
    for (int64_t i = 0; i < r->size && !status; i++) status = ll_labels_see(labels, &label[i]);
    if (!status) status = end_labels(r, labels, given(c));
    if (!status) status = number_labels(r, label);
    ll_free(label);
    ll_names_free(names, count);
    return status;
}

/* ---- Reader ---- */

/* Names of labels that are more than model.classes. In a table one of them may stand in the row of headings. */
static ll_status check_names(ll_reader *r, const ll_reader_options *c, const char *path) {
    labelled *own = r->own;
    const int n = own->examples.most + 1, table = own->examples.read != NULL;
    if (!r->class_names || c->classes < 1 || n <= c->classes) return LL_OK;
    const char *first = c->data.header ? "" : "; if its first row has names of columns, set data.header=on";
    return ll_fail(LL_EFORMAT, "%s: there are %d labels (%.200s%s), and model.classes = %d; set model.classes=%d%s",
                   path, n, r->class_names, strlen(r->class_names) > 200 ? ".." : "", c->classes, n,
                   table ? first : "");
}

static ll_status open_labelled(ll_reader *r, const ll_reader_options *c, int split) {
    ll_source from = {0};
    ll_labels *labels = NULL;
    ll_status status = ll_split_source(&from, c, split, 0);
    if (!status) status = ll_labels_create(&labels, given(c), split != LL_SPLIT_TRAIN && c->classes > 0, from.path);
    if (status) return status;
    if (ll_is_folder(from.path)) {
        status = read_folder(r, c, labels, from.path);
    } else {
        status = read_table(r, c, labels, from.path);
        if (!status) status = end_labels(r, labels, given(c));
        if (!status && !c->data.header) ll_labels_heading(labels, r->heading, sizeof r->heading);
    }
    ll_labels_free(labels);
    if (status) return ll_fail_in(status, from.key);
    status = check_names(r, c, from.path);
    if (status) return status;
    r->vocab = 256;
    return ll_examples_use(r, c, split, from.path);
}

static void close_labelled(const ll_reader *r) {
    labelled *own = r->own;
    ll_free(own->list);
    ll_examples_close(r);
}

const ll_format ll_format_labelled = {"labelled",       1u << LL_TASK_CLASSIFY, open_labelled,
                                      ll_examples_fill, sizeof(labelled),       close_labelled};
