/* From the keys of a recipe to the files of a split, and the part of them that is used. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/text.h"
#include "data/reader.h"

static const char *given(const char *path) {
    return path ? path : "";
}

int ll_split_is_cut(const ll_reader_options *c) {
    return !given(c->data.valid)[0] && c->data.valid_fraction > 0;
}

ll_status ll_split_source(ll_source *source, const ll_reader_options *c, int split, int labels) {
    static const char *const keys[2][3] = {{"data.train", "data.valid", "data.test"},
                                           {"data.train-labels", "data.valid-labels", "data.test-labels"}};
    const char *const files[2][3] = {{c->data.train, c->data.valid, c->data.test},
                                     {c->data.train_labels, c->data.valid_labels, c->data.test_labels}};
    const int from = split == LL_SPLIT_VALID && ll_split_is_cut(c) ? LL_SPLIT_TRAIN : split;
    const ll_source s = {keys[labels][from], given(files[labels][from])};
    if (from != split && given(files[1][split])[0])
        return ll_fail(LL_EINVAL, "data.valid-labels is %s, but data.valid is empty; name both or neither",
                       files[1][split]);
    if (s.path[0]) {
        const ll_status status = ll_files_check(s.path);
        *source = s;
        return status ? ll_fail_in(status, s.key) : LL_OK;
    }
    if (split == LL_SPLIT_TEST)
        return ll_fail(LL_EINVAL, "%s is empty: there is no test split; name its file%s", s.key,
                       given(c->data.valid)[0] || ll_split_is_cut(c) ? ", or evaluate on valid" : "");
    if (split == LL_SPLIT_VALID && !labels)
        return ll_fail(LL_EINVAL, "data.valid is empty and data.valid-fraction is 0, so there is no valid split; "
                                  "name its file, or set the share of train to hold out");
    return ll_fail(LL_EINVAL, "%s is empty; name its file: --set %s=FILE", s.key, s.key);
}

static int64_t held_out(const ll_reader_options *c, int64_t n) {
    const int64_t held = ll_split_is_cut(c) ? (int64_t)floor(c->data.valid_fraction * (double)n + 0.5) : 0;
    return held < n ? held : n;
}

void ll_split_range(int64_t *first, int64_t *count, const ll_reader_options *c, int split, int64_t n) {
    const int64_t held = held_out(c, n);
    *first = 0;
    *count = n;
    if (split == LL_SPLIT_VALID && ll_split_is_cut(c)) {
        *first = n - held;
        *count = held;
    } else if (split == LL_SPLIT_TRAIN) {
        *count = n - held;
        if (c->data.limit > 0 && *count > c->data.limit) *count = c->data.limit;
    }
}

int ll_split_is_empty(const ll_reader_options *c, int64_t n) {
    return ll_split_is_cut(c) && (held_out(c, n) < 1 || held_out(c, n) == n);
}

ll_status ll_split_examples(int64_t *first, int64_t *count, const ll_reader_options *c, int split, int64_t n,
                            const char *what, const char *name) {
    const int joins = c->data.format == LL_DATA_FASTA || c->data.format == LL_DATA_MIDI;
    char some[60] = "data.valid-fraction=0 to train without";
    ll_split_range(first, count, c, split, n);
    if (*count > 0) return LL_OK;
    if (!n) return ll_fail(LL_EINVAL, "%s: it is empty, and has no %s", name, what);
    if (n > 1) ll_format_text(some, sizeof some, "data.valid-fraction=%.2g, which holds out one", 1 / (double)n);
    return ll_fail(LL_EINVAL, "%s: data.valid-fraction=%g holds out %s of %lld %s%s; name data.valid=FILE, or set %s%s",
                   name, c->data.valid_fraction, split == LL_SPLIT_TRAIN ? "all" : "none", (long long)n, what,
                   n > 1 ? "s" : "", some, joins ? ", or data.joined=on, which holds out a part of the text" : "");
}

/* ---- Files ---- */

/* The parts of a path with ":" between them; a file of that very name is one part. Calls `use` with each. */
static ll_status each_path(const char *path, ll_status (*use)(void *arg, const char *path), void *arg) {
    const int single = !strchr(path, ':') || !access(path, F_OK);
    char *text = ll_strdup(path);
    ll_status status = text ? LL_OK : LL_ENOMEM;
    for (char *at = text, *next; !status && at; at = next) {
        next = single ? NULL : strchr(at, ':');
        if (next) *next++ = 0;
        if (*at) status = use(arg, at);
    }
    ll_free(text);
    return status;
}

static ll_status check_path(void *arg, const char *path) {
    struct stat info;
    (void)arg;
    if (stat(path, &info) || S_ISREG(info.st_mode) || S_ISDIR(info.st_mode)) return LL_OK;
    return ll_fail(LL_EINVAL,
                   "%s is a pipe or a device, and data are read more than once; save them in a file, and name that",
                   path);
}

ll_status ll_files_check(const char *path) { return each_path(path, check_path, NULL); }

typedef struct {
    char **name;
    int count;
} file_list;

/* Appends n names and takes ownership. */
static ll_status append(file_list *list, char **more, int n) {
    char **all = ll_alloc((size_t)list->count + (size_t)n, sizeof *all);
    if (!all) {
        ll_names_free(more, n);
        return LL_ENOMEM;
    }
    for (int i = 0; i < list->count; i++) all[i] = list->name[i];
    for (int i = 0; i < n; i++) all[list->count + i] = more[i];
    ll_free(list->name);
    ll_free(more);
    list->name = all;
    list->count += n;
    return LL_OK;
}

static ll_status add_path(void *arg, const char *path) {
    file_list *list = arg;
    char **more = NULL;
    int n = 0;
    if (ll_is_folder(path)) {
        const ll_status status = ll_folder_list(&more, &n, path);
        if (status) return status;
        if (n) return append(list, more, n);
        ll_names_free(more, n);
        return ll_fail(LL_EINVAL,
                       "%s: no files in this folder (hidden ones and those of runs do not count); put data in it",
                       path);
    }
    more = ll_alloc(1, sizeof *more);
    char *copy = more ? ll_strdup(path) : NULL;
    if (!copy) {
        ll_free(more);
        return LL_ENOMEM;
    }
    more[0] = copy;
    return append(list, more, 1);
}

ll_status ll_files_list(char ***paths, int *count, const char *path) {
    file_list list = {0};
    ll_status status = each_path(path, add_path, &list);
    if (!status && !list.count) status = ll_fail(LL_EINVAL, "\"%s\" names no file", path);
    if (status) {
        ll_names_free(list.name, list.count);
        return status;
    }
    *paths = list.name;
    *count = list.count;
    return LL_OK;
}

/* ---- Files of two splits ---- */

typedef struct {
    dev_t device;
    ino_t number;
} identity;

static int by_identity(const void *a, const void *b) {
    const identity *x = a, *y = b;
    return x->device != y->device ? (x->device > y->device) - (x->device < y->device)
                                  : (x->number > y->number) - (x->number < y->number);
}

static identity identity_of(const char *path) {
    struct stat info;
    return stat(path, &info) ? (identity){0} : (identity){info.st_dev, info.st_ino};
}

int ll_files_shared(char *first, size_t size, const char *path, const char *other) {
    file_list a = {0}, b = {0};
    identity *of = NULL;
    int found = 0;
    if (!ll_files_list(&a.name, &a.count, path) && !ll_files_list(&b.name, &b.count, other) &&
        (of = ll_alloc((size_t)b.count, sizeof *of))) {
        for (int i = 0; i < b.count; i++) of[i] = identity_of(b.name[i]);
        qsort(of, (size_t)b.count, sizeof *of, by_identity);
        for (int i = 0; i < a.count && !found; i++) {
            const identity x = identity_of(a.name[i]);
            found = x.number && bsearch(&x, of, (size_t)b.count, sizeof *of, by_identity);
            if (found) ll_format_text(first, size, "%s", a.name[i]);
        }
    }
    ll_free(of);
    ll_names_free(a.name, a.count);
    ll_names_free(b.name, b.count);
    return found;
}

ll_status ll_bytes_keep(ll_bytes *bytes, int64_t first, int64_t count) {
    uint8_t *data = ll_alloc((size_t)count + 1, 1);
    if (!data) return LL_ENOMEM;
    memcpy(data, bytes->data + first, (size_t)count);
    ll_bytes_free(bytes);
    *bytes = (ll_bytes){data, (size_t)count};
    return LL_OK;
}
