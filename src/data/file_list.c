/* The files of a path: a file, a folder, or several with ":" between them. */
#include "data/file_list.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/unpack.h"

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

/* Of the file that is read: where there is none of this name, the same packed or unpacked. */
static identity identity_of(const char *path) {
    struct stat info;
    char *found = ll_unpack_find(path);
    const int is = found && !stat(found, &info);
    ll_free(found);
    return is ? (identity){info.st_dev, info.st_ino} : (identity){0};
}

int ll_files_shared(char *first, size_t size, ll_files_pick *pick, const char *path, int split, const char *other,
                    int other_split) {
    file_list a = {0}, b = {0};
    identity *of = NULL;
    int found = 0;
    if (!ll_files_list(&a.name, &a.count, path) && !ll_files_list(&b.name, &b.count, other) &&
        (of = ll_alloc((size_t)b.count, sizeof *of))) {
        size_t n = 0;
        for (int i = 0; i < b.count; i++)
            if (!pick || pick(other, b.name[i], other_split)) of[n++] = identity_of(b.name[i]);
        qsort(of, n, sizeof *of, by_identity);
        for (int i = 0; i < a.count && !found; i++) {
            const identity x = !pick || pick(path, a.name[i], split) ? identity_of(a.name[i]) : (identity){0};
            found = x.number && bsearch(&x, of, n, sizeof *of, by_identity);
            if (found) ll_format_text(first, size, "%s", a.name[i]);
        }
    }
    ll_free(of);
    ll_names_free(a.name, a.count);
    ll_names_free(b.name, b.count);
    return found;
}
