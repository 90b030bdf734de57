/* Texts with a class each, read as bytes. They are rows of TSV or CSV, or a folder with a subfolder of files for each
 * class, like the film reviews of Maas et al. (2011). Texts longer than train.length are cut. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "data/examples.h"

enum { CLASSES_MOST = 256, NAME_MOST = 256 };

static const size_t ANY_SIZE = SIZE_MAX / 4;

/* ---- Names of classes ---- */

/* The number of a name in a list "neg,pos"; -1: it is not in the list. */
static int index_in(const char *list, const ll_slice *name) {
    for (int i = 0; *list; i++) {
        const size_t n = strcspn(list, ",");
        if (n == name->size && !memcmp(list, name->at, n)) return i;
        list += n + (list[n] == ',');
    }
    return -1;
}

static int as_number(const ll_slice *name) {
    char text[8];
    int64_t value = -1;
    if (name->size < 1 || name->size >= sizeof text) return -1;
    memcpy(text, name->at, name->size);
    text[name->size] = 0;
    return ll_parse_integer(&value, text) && value >= 0 && value < CLASSES_MOST ? (int)value : -1;
}

static int by_bytes(const ll_slice *a, const ll_slice *b) {
    const int order = memcmp(a->at, b->at, a->size < b->size ? a->size : b->size);
    return order ? order : (a->size > b->size) - (a->size < b->size);
}

/* Adds a name to a sorted list if it is new; 0: the list is full. */
static int insert(ll_slice *names, int *count, const ll_slice *name) {
    int low = 0, high = *count;
    while (low < high) {
        const int middle = (low + high) / 2, order = by_bytes(name, &names[middle]);
        if (!order) return 1;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    if (*count == CLASSES_MOST) return 0;
    memmove(names + low + 1, names + low, (size_t)(*count - low) * sizeof *names);
    names[low] = *name;
    ++*count;
    return 1;
}

/* All names, sorted, as a list. Text or a number out of range shows that data.label-column is wrong. */
static ll_status list_names(char **list, const ll_slice *label, int64_t count, const char *name) {
    ll_slice names[CLASSES_MOST];
    int n = 0;
    size_t size = 1;
    for (int64_t i = 0; i < count; i++) {
        if (!label[i].size || label[i].size > NAME_MOST || memchr(label[i].at, ',', label[i].size) ||
            memchr(label[i].at, 0, label[i].size) || !insert(names, &n, &label[i]))
            return ll_fail(LL_EFORMAT,
                           "%s: example %lld has a label that is not one of at most %d numbers or names; is "
                           "data.label-column right?",
                           name, (long long)i + 1, CLASSES_MOST);
    }
    for (int i = 0; i < n; i++) size += names[i].size + 1;
    char *text = ll_alloc(size, 1);
    if (!text) return LL_ENOMEM;
    *list = text;
    for (int i = 0; i < n; i++) {
        if (i) *text++ = ',';
        memcpy(text, names[i].at, names[i].size);
        text += names[i].size;
    }
    if (ll_is_plain_text(*list)) return LL_OK;
    ll_free(*list);
    *list = NULL;
    return ll_fail(LL_EFORMAT, "%s: the labels are not names in UTF-8; is data.label-column right?", name);
}

/* Writes the numbers of the labels to r->file[1]. A label that is not in the list is an error; files in a folder
 * outside of the list get -1. */
static ll_status number_labels(ll_reader *r, const ll_reader_options *c, const ll_slice *label, const char *name) {
    const char *list = c->data.class_names && c->data.class_names[0] ? c->data.class_names : NULL;
    int64_t numbers = 0;
    uint8_t *out = ll_alloc((size_t)r->size + 1, 1);
    if (!out) return LL_ENOMEM;
    r->file[1] = (ll_bytes){out, (size_t)r->size};
    while (numbers < r->size && as_number(&label[numbers]) >= 0) numbers++;
    if (!list && numbers < r->size) {
        const ll_status status = list_names(&r->class_names, label, r->size, name);
        if (status) return status;
        list = r->class_names;
    }
    for (int64_t i = 0; i < r->size; i++) {
        const int number = list ? index_in(list, &label[i]) : as_number(&label[i]);
        if (number < 0 || number >= CLASSES_MOST)
            return ll_fail(LL_EFORMAT, "%s: example %lld has the label \"%.*s\", which is not in data.classes=%s", name,
                           (long long)i + 1, (int)(label[i].size < 60 ? label[i].size : 60), (char *)label[i].at, list);
        out[i] = (uint8_t)number;
    }
    return LL_OK;
}

/* ---- Rows ---- */

static ll_status read_rows(ll_reader *r, ll_slice **labels, const ll_reader_options *c, const char *path) {
    ll_examples *own = r->own;
    const int most = c->data.label_column > c->data.text_column ? c->data.label_column : c->data.text_column;
    const size_t capacity = ll_count_lines(&r->file[0]);
    ll_cells t = ll_cells_of(&r->file[0], path, c->data.separator == LL_SEPARATOR_COMMA, c->data.text_column == most);
    ll_slice *field = ll_alloc((size_t)most, sizeof *field);
    own->text = ll_alloc(capacity, sizeof *own->text);
    *labels = ll_alloc(capacity, sizeof **labels);
    ll_status status = field && own->text && *labels ? LL_OK : LL_ENOMEM;
    int found = 1;
    if (!status && c->data.header) status = ll_cells_next(&t, field, most, &found);
    while (!status && found) {
        status = ll_cells_next(&t, field, most, &found);
        if (status || !found) break;
        (*labels)[r->size] = field[c->data.label_column - 1];
        own->text[r->size++] = field[c->data.text_column - 1];
    }
    ll_free(field);
    return status;
}

/* ---- Folders ---- */

/* The class of a file: the first folder below `path`, if it is in the list. */
static int class_of(ll_slice *label, const char *path, const char *file, const char *list) {
    const char *name = file + strlen(path);
    while (*name == '/') name++;
    const char *end = strchr(name, '/');
    if (!end) return 0;
    *label = (ll_slice){(uint8_t *)name, (size_t)(end - name)};
    return !list[0] || index_in(list, label) >= 0;
}

static ll_status read_files(ll_reader *r, ll_slice **labels, char **names, int count, const ll_reader_options *c,
                            const char *path) {
    ll_examples *own = r->own;
    ll_bytes *all = &r->file[0];
    size_t capacity = 0;
    ll_status status = LL_OK;
    own->text = ll_alloc((size_t)count, sizeof *own->text);
    *labels = ll_alloc((size_t)count, sizeof **labels);
    ll_bytes *part = ll_alloc((size_t)count, sizeof *part);
    if (!own->text || !*labels || !part) status = LL_ENOMEM;
    for (int i = 0; !status && i < count; i++) {
        ll_slice *label = &(*labels)[r->size];
        if (!class_of(label, path, names[i], c->data.class_names ? c->data.class_names : "")) continue;
        status = ll_file_read(&part[r->size], names[i], ANY_SIZE);
        capacity += part[r->size++].size;
    }
    if (!status && !(all->data = ll_alloc(capacity + 1, 1))) status = LL_ENOMEM;
    for (int64_t i = 0; !status && i < r->size; i++) {
        own->text[i] = (ll_slice){all->data + all->size, part[i].size};
        memcpy(own->text[i].at, part[i].data, part[i].size);
        all->size += part[i].size;
    }
    for (int i = 0; part && i < count; i++) ll_bytes_free(&part[i]);
    ll_free(part);
    if (!status && !r->size)
        status = ll_fail(LL_EINVAL, "%s: no files in subfolders that name their class%s%s", path,
                         c->data.class_names && c->data.class_names[0] ? ", of data.classes=" : "",
                         c->data.class_names ? c->data.class_names : "");
    return status;
}

/* ---- Reader ---- */

static ll_status open_labelled(ll_reader *r, const ll_reader_options *c, int split) {
    ll_source from = {0};
    ll_slice *label = NULL;
    char **names = NULL;
    int count = 0;
    ll_status status = ll_split_source(&from, c, split, 0);
    if (status) return status;
    if (ll_is_folder(from.path)) {
        status = ll_folder_list(&names, &count, from.path);
        if (!status) status = read_files(r, &label, names, count, c, from.path);
    } else {
        status = ll_file_read(&r->file[0], from.path, ANY_SIZE);
        if (!status) status = read_rows(r, &label, c, from.path);
    }
    if (status) status = ll_fail_in(status, from.key);
    if (!status) status = number_labels(r, c, label, from.path);
    ll_free(label);
    ll_names_free(names, count);
    if (!status) r->vocab = 256;
    return status ? status : ll_examples_use(r, c, split, from.path);
}

const ll_format ll_format_labelled = {"labelled",       1u << LL_TASK_CLASSIFY, open_labelled,
                                      ll_examples_fill, sizeof(ll_examples),    ll_examples_close};
