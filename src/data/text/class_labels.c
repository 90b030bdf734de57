/* Labels of examples (class_labels.h). One pass sees them all; only different names are kept. */
#include "base/integer.h"
#include "data/text/class_labels.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "data/format.h"

enum { NAME_MOST = 256 };

typedef struct {
    uint8_t at[NAME_MOST + 1]; /* a longer name is cut, and known to be too long */
    size_t size;
} name;

struct ll_labels {
    const char *list, *file, *key;
    int64_t seen;        /* examples so far */
    char wrong[40];      /* "line 3": of the first label that can be no name; or "" */
    int64_t line;        /* of the first one with the largest number */
    int numbers;         /* must labels be numbers? */
    int all;             /* must each class of the list have an example? */
    uint8_t has[LL_CLASSES_MOST]; /* has class i of the list one? */
    int64_t like_first;  /* examples with the label of the first one */
    int names, most;     /* is there a label that is not a number; the largest number */
    name first;
    int count;
    name known[LL_CLASSES_MOST]; /* sorted */
};

static name name_of(const ll_slice *label) {
    name n;
    n.size = ll_slice_copy(n.at, sizeof n.at, label);
    return n;
}

static int index_in(const char *list, const name *x) {
    for (int i = 0; *list; i++) {
        const size_t n = strcspn(list, ",");
        if (n == x->size && !memcmp(list, x->at, n)) return i;
        list += n + (list[n] == ',');
    }
    return -1;
}

static int names_of(const char *list) {
    int count = 1;
    while ((list = strchr(list, ',')) && list++) count++;
    return count;
}

/* Every class needs a name of its own. Each message has its reason before the name, which may be long. */
static ll_status check_list(const char *list) {
    static const char need[] = "every class needs a name of its own";
    const char *at = list;
    const int count = names_of(list);
    if (count > LL_CLASSES_MOST)
        return ll_fail(LL_EINVAL, "data.classes has %d names, and data of this format have at most %d classes", count,
                       LL_CLASSES_MOST);
    for (int i = 0; i < count; i++) {
        name x = {.size = strcspn(at, ",")};
        if (!x.size || x.size > NAME_MOST)
            return ll_fail(LL_EINVAL, "data.classes: %s, and name %d of %d %s", need, i + 1, count,
                           x.size ? "has more than 256 bytes" : "is empty");
        memcpy(x.at, at, x.size);
        if (index_in(list, &x) != i)
            return ll_fail(LL_EINVAL, "data.classes: %s, and names %d and %d of %d are both \"%.*s\"", need,
                           index_in(list, &x) + 1, i + 1, count, (int)x.size, at);
        at += x.size + (i + 1 < count);
    }
    return LL_OK;
}

static int as_number(const name *x) {
    char text[8];
    int64_t value = -1;
    if (x->size < 1 || x->size >= sizeof text) return -1;
    memcpy(text, x->at, x->size);
    text[x->size] = 0;
    return ll_parse_integer(&value, text) && value >= 0 && value < LL_CLASSES_MOST ? (int)value : -1;
}

int ll_label_number(const char *list, const ll_slice *label) {
    const name x = name_of(label);
    const int number = list ? index_in(list, &x) : as_number(&x);
    return number < LL_CLASSES_MOST ? number : -1;
}

const char *ll_class_list(const ll_reader_options *c) {
    return c->data.class_names && c->data.class_names[0] ? c->data.class_names : NULL;
}

static int by_bytes(const name *a, const name *b) {
    const int order = memcmp(a->at, b->at, ll_min_size(a->size, b->size));
    return order ? order : (a->size > b->size) - (a->size < b->size);
}

/* Adds a name to the sorted ones if it is new; 0: there are too many. */
static int insert(ll_labels *l, const name *x) {
    int low = 0, high = l->count;
    while (low < high) {
        const int middle = (low + high) / 2, order = by_bytes(x, &l->known[middle]);
        if (!order) return 1;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    if (l->count == LL_CLASSES_MOST) return 0;
    memmove(l->known + low + 1, l->known + low, (size_t)(l->count - low) * sizeof *l->known);
    l->known[low] = *x;
    l->count++;
    return 1;
}

ll_status ll_labels_create(ll_labels **labels, const ll_reader_options *c, int split, const char *file,
                           const char *key) {
    const char *list = ll_class_list(c);
    const ll_status status = list ? check_list(list) : LL_OK;
    if (status) return status;
    ll_labels *l = ll_alloc(1, sizeof *l);
    if (!l) return LL_ENOMEM;
    l->list = list;
    l->file = file;
    l->key = key;
    l->numbers = !list && split != LL_SPLIT_TRAIN && c->classes > 0;
    l->all = list && split == LL_SPLIT_TRAIN;
    *labels = l;
    return LL_OK;
}

void ll_labels_free(ll_labels *l) { ll_free(l); }

/* "line 3", or "example 3" where a label has no line. */
static const char *place(char out[40], const ll_labels *l, int64_t line) {
    snprintf(out, 40, "%s %lld", line ? "line" : "example", (long long)(line ? line : l->seen));
    return out;
}

ll_status ll_labels_see(ll_labels *l, const ll_slice *label, int64_t line) {
    const name x = name_of(label);
    const int number = ll_label_number(l->list, label);
    char at[40];
    l->seen++;
    if (number > l->most) l->most = number, l->line = line;
    if (l->list && number < 0)
        return ll_fail(LL_EFORMAT, "%s: %s has the label \"%.*s\", which is not in data.classes=%s", l->file,
                       place(at, l, line), (int)ll_min_size(x.size, 60), (const char *)x.at, l->list);
    if (l->numbers && number < 0)
        return ll_fail(LL_EFORMAT,
                       "%s: %s has the label \"%.*s\", and the classes of the model are numbers, of 0..%d; "
                       "correct it, or if all labels are names, set data.classes",
                       l->file, place(at, l, line), (int)ll_min_size(x.size, 60), (const char *)x.at,
                       LL_CLASSES_MOST - 1);
    if (l->list) {
        l->has[number] = 1;
        return LL_OK;
    }
    if (l->seen == 1) l->first = x;
    l->like_first += !by_bytes(&x, &l->first);
    l->names |= number < 0;
    const int fits = x.size && x.size <= NAME_MOST && !memchr(x.at, ',', x.size) && !memchr(x.at, 0, x.size);
    if (!*l->wrong && (!fits || !insert(l, &x))) place(l->wrong, l, line);
    return LL_OK;
}

int64_t ll_labels_line(const ll_labels *l) { return l->list ? 0 : l->line; }

void ll_labels_heading(const ll_labels *l, char *out, size_t size) {
    const int alone = !l->list && l->names && l->like_first == 1 && l->seen > l->count;
    snprintf(out, size, "%.*s", alone ? (int)l->first.size : 0, (const char *)l->first.at);
}

/* A class without an example is most likely a name with a mistake. */
static ll_status check_classes(const ll_labels *l) {
    const char *at = l->list;
    for (int i = 0; l->all && l->seen && *at; i++) {
        const size_t n = strcspn(at, ",");
        if (!l->has[i])
            return ll_fail(
                LL_EFORMAT,
                "%s: no example has the class \"%.*s\" of data.classes=%s; correct its name, or leave it out", l->file,
                (int)n, at, l->list);
        at += n + (at[n] == ',');
    }
    return LL_OK;
}

/* Text or a number out of range shows that data.label-column is wrong. */
ll_status ll_labels_end(ll_labels *l, int *most, char **list) {
    size_t size = 1;
    char column[60] = "";
    if (l->key) snprintf(column, sizeof column, "; is %s right?", l->key);
    *most = l->list ? names_of(l->list) - 1 : l->most;
    *list = NULL;
    if (l->list) return check_classes(l);
    if (!l->names) return LL_OK;
    if (*l->wrong)
        return ll_fail(LL_EFORMAT, "%s: %s has a label that is not one of at most %d numbers or names without commas%s",
                       l->file, l->wrong, LL_CLASSES_MOST, column);
    for (int i = 0; i < l->count; i++) size += l->known[i].size + 1;
    char *text = *list = ll_alloc(size, 1);
    if (!text) return LL_ENOMEM;
    for (int i = 0; i < l->count; i++) {
        if (i) *text++ = ',';
        memcpy(text, l->known[i].at, l->known[i].size);
        text += l->known[i].size;
    }
    *most = l->count - 1;
    if (ll_is_plain_text(*list)) return LL_OK;
    ll_free(*list);
    *list = NULL;
    return ll_fail(LL_EFORMAT, "%s: the labels are not names in UTF-8%s", l->file, column);
}
