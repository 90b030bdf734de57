/* Texts with a class each, read as bytes. They are rows of TSV or CSV, objects of JSONL, or a folder with a subfolder
 * of files for each class, like the film reviews of Maas et al. (2011). Texts longer than train.length are cut.
 *
 * Rows stay in their file (table_rows.h). The texts of objects and of a folder's files are joined, in a temporary file
 * if they are large together. */
#include <string.h>

#include "base/integer.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/unpack.h"
#include "data/examples.h"
#include "data/text/class_files.h"
#include "longline/files.h"

typedef struct {
    ll_examples examples;
    char *list;      /* the names of the classes, or NULL: labels are numbers */
    int label, text; /* the columns of a table that are read, from 0 */
} labelled;

/* ---- Labels ---- */

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

static ll_status end_labels(ll_reader *r, const ll_reader_options *c, ll_labels *labels) {
    labelled *own = r->own;
    const ll_status status = ll_labels_end(labels, &own->examples.most, &r->class_names);
    if (status) return status;
    own->examples.most_line = ll_labels_line(labels);
    const char *list = ll_class_list(c) ? ll_class_list(c) : r->class_names;
    if (list && !(own->list = ll_strdup(list))) return LL_ENOMEM;
    return LL_OK;
}

/* ---- Rows ---- */

static int read_row(const ll_reader *r, int64_t number, ll_slice *text) {
    labelled *own = r->own;
    const ll_slice *field = ll_table_row_read(&own->examples.rows, number);
    if (!field) return -1;
    *text = field[own->text];
    return ll_label_number(own->list, &field[own->label]);
}

static ll_status read_table(ll_reader *r, const ll_reader_options *c, ll_labels *labels, const char *path) {
    labelled *own = r->own;
    ll_table_rows *rows = &own->examples.rows;
    own->label = c->data.label_column - 1, own->text = c->data.text_column - 1;
    own->examples.read = read_row;
    if (own->label == own->text)
        return ll_fail(LL_EINVAL,
                       "data.label-column and data.text-column are both %d: each text would be its own class",
                       c->data.label_column);
    const int fields = 1 + ll_max_int(own->label, own->text), comma = c->data.separator == LL_SEPARATOR_COMMA;
    ll_status status = ll_table_rows_open(rows, path, fields, comma, 0);
    if (!status && c->data.header) status = ll_table_rows_skip(rows);
    /* Tabs belong to a text in the last column, if no header names more. */
    rows->cells.rest = !comma && own->text + 1 == fields && rows->cells.columns <= fields;
    for (; ll_table_rows_next(rows, &status); r->size++) {
        ll_examples_see(r, &rows->field[own->text]);
        status = ll_labels_see(labels, &rows->field[own->label], rows->cells.line);
    }
    if (!status) status = end_labels(r, c, labels);
    if (!status && !c->data.header) ll_labels_heading(labels, r->heading, sizeof r->heading);
    return status;
}

/* ---- Folders ---- */

/* The files, one after the other. */
static ll_status join_files(ll_reader *r, const ll_class_files *files, const char *path) {
    ll_examples *own = r->own;
    ll_spill all = {.name = path};
    ll_status status = LL_OK;
    if (!(own->text = ll_alloc((size_t)files->count, sizeof *own->text))) return LL_ENOMEM;
    for (; !status && r->size < files->count; r->size++) {
        const size_t before = all.bytes.size;
        status = ll_spill_add_file(&all, files->file[r->size].path);
        own->text[r->size].size = all.bytes.size - before;
    }
    if (!status) status = ll_spill_end(&all, &r->file[0]);
    ll_spill_free(&all);
    uint8_t *at = r->file[0].data;
    for (int64_t i = 0; !status && i < r->size; at += own->text[i++].size) own->text[i].at = at;
    return status;
}

static ll_status read_folder(ll_reader *r, const ll_reader_options *c, ll_labels *labels, const char *path) {
    ll_class_files files = {0};
    ll_status status = ll_class_files_find(&files, c, path);
    ll_slice *label = status ? NULL : ll_alloc((size_t)files.count, sizeof *label);
    if (!status && !label) status = LL_ENOMEM;
    for (int64_t i = 0; i < files.count && !status; i++) {
        label[i] = files.file[i].label;
        status = ll_labels_see(labels, &label[i], 0);
    }
    if (!status) status = end_labels(r, c, labels);
    if (!status) status = join_files(r, &files, path);
    if (!status) status = number_labels(r, label);
    r->left_out = files.left_out;
    ll_free(label);
    ll_class_files_free(&files);
    return status;
}

/* ---- Objects ---- */

/* Does a file begin as JSONL? */
static int has_objects(const char *path) {
    uint8_t first[64];
    size_t n = 0, got = 1;
    ll_unpack *u = NULL;
    ll_status status = ll_unpack_open(&u, path);
    for (; !status && got && n < sizeof first; n += got)
        if ((status = ll_unpack_read(u, &got, first + n, sizeof first - n))) break;
    ll_unpack_close(u);
    size_t at = ll_byte_order_mark(first, n);
    if (status || at == n || first[at++] != '{') return 0;
    while (at < n && (first[at] == ' ' || first[at] == '\t')) at++;
    return at < n && first[at] == '"';
}

typedef struct {
    ll_spill all;    /* text and label of each example, one after the other */
    ll_slice *label; /* (capacity), as the texts */
    size_t capacity;
} objects;

static ll_status grow(ll_reader *r, objects *o) {
    ll_examples *own = r->own;
    const size_t n = (size_t)r->size, capacity = o->capacity ? 2 * o->capacity : 1024;
    ll_slice *text = ll_alloc(capacity, sizeof *text), *label = ll_alloc(capacity, sizeof *label);
    if (!text || !label) {
        ll_free(text);
        ll_free(label);
        return LL_ENOMEM;
    }
    if (n) memcpy(text, own->text, n * sizeof *text);
    if (n) memcpy(label, o->label, n * sizeof *label);
    ll_free(own->text);
    ll_free(o->label);
    own->text = text, o->label = label, o->capacity = capacity;
    return LL_OK;
}

static ll_status add_piece(ll_reader *r, objects *o, ll_labels *labels, const ll_sequence *piece) {
    ll_examples *own = r->own;
    ll_slice label = {.at = (uint8_t *)piece->label, .size = strlen(piece->label)};
    ll_status status = (size_t)r->size < o->capacity ? LL_OK : grow(r, o);
    if (!status && piece->begins) status = ll_labels_see(labels, &label, piece->line);
    if (!status) status = ll_spill_add(&o->all, piece->text, piece->size);
    if (!status && piece->ends) status = ll_spill_add(&o->all, label.at, label.size);
    if (status) return status;
    own->text[r->size].size += piece->size;
    if (piece->ends) o->label[r->size++].size = label.size;
    return LL_OK;
}

static ll_status join_objects(ll_reader *r, const ll_reader_options *c, objects *o, ll_labels *labels,
                              const char *path) {
    const char *text = c->data.text_key, *label = c->data.label_key;
    const ll_input_options how = {.format = LL_INPUT_JSONL,
                                  .text_key = text && *text ? text : NULL,
                                  .label_key = label && *label ? label : "label"};
    ll_input *in = NULL;
    ll_sequence piece;
    int found = 1;
    ll_status status = ll_input_open(&in, &path, 1, &how);
    while (!status && !(status = ll_input_next(in, &piece, &found)) && found) status = add_piece(r, o, labels, &piece);
    ll_input_close(in);
    if (status == LL_EFORMAT && strstr(ll_error(), "the object has n"))
        return ll_fail(status, "%s; data.text-key and data.label-key name the keys", ll_error());
    return status ? status : ll_spill_end(&o->all, &r->file[0]);
}

static ll_status read_objects(ll_reader *r, const ll_reader_options *c, ll_labels *labels, const char *path) {
    ll_examples *own = r->own;
    objects o = {.all.name = path};
    ll_status status = join_objects(r, c, &o, labels, path);
    uint8_t *at = r->file[0].data;
    for (int64_t i = 0; !status && i < r->size; i++) {
        own->text[i].at = at;
        o.label[i].at = at += own->text[i].size;
        at += o.label[i].size;
    }
    if (!status) status = end_labels(r, c, labels);
    if (!status) status = number_labels(r, o.label);
    ll_spill_free(&o.all);
    ll_free(o.label);
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

/* The first key that is set for files of another form than this one; NULL: there is none. */
static const char *unused_key(const ll_data_options *d, int jsonl, int table) {
    if (!jsonl && d->label_key && *d->label_key) return "data.label-key";
    if (!jsonl && d->text_key && *d->text_key) return "data.text-key";
    if (table) return NULL;
    if (d->separator != LL_SEPARATOR_TAB) return "data.separator";
    if (d->header) return "data.header";
    if (d->label_column != 1) return "data.label-column";
    return d->text_column != 2 ? "data.text-column" : NULL;
}

static ll_status open_labelled(ll_reader *r, const ll_reader_options *c, int split) {
    ll_source from = {0};
    ll_labels *labels = NULL;
    ll_status status = ll_split_source(&from, c, split, 0);
    if (status) return status;
    const int folder = ll_is_folder(from.path), jsonl = !folder && has_objects(from.path);
    status = ll_labels_create(&labels, c, split, from.path,
                              folder  ? NULL
                              : jsonl ? "data.label-key"
                                      : "data.label-column");
    if (status) return status;
    r->unused = unused_key(&c->data, jsonl, !folder && !jsonl);
    status = folder  ? read_folder(r, c, labels, from.path)
             : jsonl ? read_objects(r, c, labels, from.path)
                     : read_table(r, c, labels, from.path);
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

const ll_format ll_format_labelled = {
    "labelled", 1u << LL_TASK_CLASSIFY, open_labelled, ll_examples_fill, sizeof(labelled), close_labelled,
    .unit = "byte", .cut = LL_CUT_BYTE};
