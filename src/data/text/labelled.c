/* Texts with a class each, read as bytes. They are rows of TSV or CSV, or a folder with a subfolder of files for each
 * class, like the film reviews of Maas et al. (2011). Texts longer than train.length are cut.
 *
 * Rows stay in their file: one pass checks them and leaves marks, and a row is read from there. A folder's files are
 * all read. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "data/examples.h"
#include "data/text/class_labels.h"

static const size_t ANY_SIZE = SIZE_MAX / 4;

typedef struct {
    ll_examples examples;
    char *list; /* the names of the classes, or NULL: labels are numbers */
    /* Rows: */
    ll_marks rows;
    ll_cells cells; /* behind the row that was read last ... */
    int64_t next;   /* ... and the number of the next one */
    int64_t touched; /* for ll_pages_due */
    ll_slice *field;
    int fields, label, text; /* the columns that are read, from 0 */
} labelled;

static const char *given(const ll_reader_options *c) {
    return c->data.class_names && c->data.class_names[0] ? c->data.class_names : NULL;
}

/* ---- Rows ---- */

static ll_status open_rows(ll_reader *r, const ll_reader_options *c, const char *path) {
    labelled *own = r->own;
    own->label = c->data.label_column - 1, own->text = c->data.text_column - 1;
    own->fields = 1 + (own->label > own->text ? own->label : own->text);
    const ll_status status = ll_file_take(&r->file[0], &r->mapped, path);
    if (status) return status;
    own->cells = ll_cells_of(&r->file[0], path, c->data.separator == LL_SEPARATOR_COMMA, own->text + 1 == own->fields);
    own->field = ll_alloc((size_t)own->fields, sizeof *own->field);
    return own->field ? ll_marks_create(&own->rows, (int64_t)r->file[0].size, 0) : LL_ENOMEM;
}

static ll_status pass_rows(ll_reader *r, ll_labels *labels, int header) {
    labelled *own = r->own;
    ll_cells t = own->cells;
    size_t left = 0;
    int found = 1;
    ll_status status = header ? ll_cells_next(&t, own->field, own->fields, &found) : LL_OK;
    for (ll_mark at = {0}; !status && found; r->size = at.text) {
        at.byte = t.at - r->file[0].data;
        status = ll_cells_next(&t, own->field, own->fields, &found);
        if (status || !found) break;
        ll_marks_pass(&own->rows, &at);
        if (r->mapped) ll_bytes_pass(r->file[0].data, (size_t)at.byte, &left);
        status = ll_labels_see(labels, &own->field[own->label]);
        at.text++;
    }
    return status;
}

/* A file that was changed after it was opened may lack the row. It is empty then. */
static int read_row(const ll_reader *r, int64_t number, ll_slice *text) {
    labelled *own = r->own;
    const ll_mark *m = ll_marks_find(&own->rows, LL_BY_TEXT, number);
    int found = 1;
    if (r->mapped && ll_pages_due(&own->touched, own->rows.spacing)) ll_bytes_leave(&r->file[0]);
    if (own->next > number || own->next < m->text) {
        own->cells.at = r->file[0].data + m->byte;
        own->next = m->text;
    }
    for (; own->next <= number && found; own->next++)
        if (ll_cells_next(&own->cells, own->field, own->fields, &found)) found = 0;
    *text = found ? own->field[own->text] : (ll_slice){.at = r->file[0].data};
    const int label = found ? ll_label_number(own->list, &own->field[own->label]) : 0;
    return label < 0 ? 0 : label;
}

static ll_status read_table(ll_reader *r, const ll_reader_options *c, ll_labels *labels, const char *path) {
    labelled *own = r->own;
    ll_status status = open_rows(r, c, path);
    if (!status) status = pass_rows(r, labels, c->data.header);
    if (status) return status;
    if (r->mapped) ll_bytes_leave(&r->file[0]);
    own->next = INT64_MAX;
    own->cells.name = "the file"; /* the reader may outlive its recipe */
    own->examples.read = read_row;
    return LL_OK;
}

/* ---- Folders ---- */

/* The class of a file: the first folder below `path`, if it is in the list. */
static int class_of(ll_slice *label, const char *path, const char *file, const char *list) {
    const char *name = file + strlen(path);
    while (*name == '/') name++;
    const char *end = strchr(name, '/');
    if (!end) return 0;
    *label = (ll_slice){.at = (uint8_t *)name, .size = (size_t)(end - name)};
    return !list || ll_label_number(list, label) >= 0;
}

/* The files that have a class, one after the other; labels[i] is that of file i. */
static ll_status join_files(ll_reader *r, ll_slice *labels, char **names, int count, const char *list,
                            const char *path) {
    ll_examples *own = r->own;
    ll_bytes *all = &r->file[0];
    size_t capacity = 0;
    ll_status status = LL_OK;
    ll_bytes *part = ll_alloc((size_t)count, sizeof *part);
    if (!part) status = LL_ENOMEM;
    for (int i = 0; !status && i < count; i++) {
        if (!class_of(&labels[r->size], path, names[i], list)) continue;
        status = ll_file_read(&part[r->size], names[i], ANY_SIZE);
        capacity += part[r->size++].size;
    }
    if (!status && !(all->data = ll_alloc(capacity + 1, 1))) status = LL_ENOMEM;
    for (int64_t i = 0; !status && i < r->size; i++) {
        own->text[i] = (ll_slice){.at = all->data + all->size, .size = part[i].size};
        memcpy(own->text[i].at, part[i].data, part[i].size);
        all->size += part[i].size;
    }
    for (int i = 0; part && i < count; i++) ll_bytes_free(&part[i]);
    ll_free(part);
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
    if (!status && !r->size)
        status = ll_fail(LL_EINVAL, "%s: no files in subfolders that name their class%s%s", path,
                         given(c) ? ", of data.classes=" : "", given(c) ? given(c) : "");
    for (int64_t i = 0; i < r->size && !status; i++) status = ll_labels_see(labels, &label[i]);
    if (!status) status = end_labels(r, labels, given(c));
    if (!status) status = number_labels(r, label);
    ll_free(label);
    ll_names_free(names, count);
    return status;
}

/* ---- Reader ---- */

static ll_status open_labelled(ll_reader *r, const ll_reader_options *c, int split) {
    ll_source from = {0};
    ll_labels *labels = NULL;
    ll_status status = ll_split_source(&from, c, split, 0);
    if (!status) status = ll_labels_create(&labels, given(c), from.path);
    if (status) return status;
    if (ll_is_folder(from.path)) {
        status = read_folder(r, c, labels, from.path);
    } else {
        status = read_table(r, c, labels, from.path);
        if (!status) status = end_labels(r, labels, given(c));
    }
    ll_labels_free(labels);
    if (status) return ll_fail_in(status, from.key);
    r->vocab = 256;
    return ll_examples_use(r, c, split, from.path);
}

static void close_labelled(const ll_reader *r) {
    labelled *own = r->own;
    ll_free(own->list);
    ll_free(own->field);
    ll_marks_free(&own->rows);
    ll_examples_close(r);
}

const ll_format ll_format_labelled = {"labelled",       1u << LL_TASK_CLASSIFY, open_labelled,
                                      ll_examples_fill, sizeof(labelled),       close_labelled};
