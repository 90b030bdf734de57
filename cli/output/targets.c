/* Checks of the paths that options give, before the work whose results go there. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

/* Where a file of this path is written. One that exists is replaced in its own folder, also if a link names it, as
 * /dev/stdout may. */
static void target_folder(const char *path, char folder[PATH_MAX]) {
    char real[PATH_MAX];
    const char *target = realpath(path, real) ? real : path, *slash = strrchr(target, '/');
    snprintf(folder, PATH_MAX, "%.*s", slash ? (int)(slash - target) + 1 : 1, slash ? target : ".");
}

/* texts: a pipe or a device will do. */
static int check_target(const char *option, const char *path, int texts) {
    struct stat about;
    char folder[PATH_MAX];
    const size_t length = strlen(path);
    if (!strcmp(path, "-")) return ll_usage("%s -: this does not go to standard output; name a file", option);
    if (!length || path[length - 1] == '/') return ll_usage("%s '%s': needs the name of a file", option, path);
    const int there = !stat(path, &about);
    if (there && S_ISDIR(about.st_mode)) return ll_usage("%s %s: it is a folder; name a file", option, path);
    if (there && !S_ISREG(about.st_mode))
        return texts ? -1 : ll_usage("%s %s: it is a pipe or a device; name a file", option, path);
    target_folder(path, folder);
    if (!access(folder, W_OK | X_OK)) return -1;
    if (errno == ENOENT || errno == ENOTDIR)
        return ll_usage("%s %s: there is no folder %s; make it first", option, path, folder);
    return ll_fail_message("%s %s: cannot write there: %s", option, path, strerror(errno));
}

int ll_target_check(const char *option, const char *path) { return check_target(option, path, 0); }

int ll_text_target_check(const char *option, const char *path) { return check_target(option, path, 1); }

static int is_same(const struct stat *a, const char *path) {
    struct stat b;
    return !stat(path, &b) && a->st_dev == b.st_dev && a->st_ino == b.st_ino;
}

int ll_target_apart(const char *option, const char *path, int n, const char *const *words) {
    struct stat target, read;
    char file[PATH_MAX], folder[PATH_MAX];
    const char *model = ll_model_file(words[0], file);
    if (stat(path, &target) || !S_ISREG(target.st_mode)) return ll_target_check(option, path);
    target_folder(path, folder);
    if (!stat(model, &read) && S_ISDIR(read.st_mode) && is_same(&read, folder))
        return ll_usage("%s %s: it would overwrite a file of %s", option, path, model);
    for (int i = 0; i < n; i++)
        if (is_same(&target, i ? words[i] : model))
            return ll_usage("%s %s: it would overwrite %s", option, path, i ? "what is read" : "the model");
    return ll_target_check(option, path);
}

static int ends_with(const char *path, const char *ending) {
    const size_t n = strlen(path), m = strlen(ending);
    return n > m && !strcmp(path + n - m, ending);
}

int ll_answers_target(const char **path, int json, int n, const char *const *words) {
    if (*path && !strcmp(*path, "-")) *path = NULL;
    if (!*path) return -1;
    if (json && (ends_with(*path, ".csv") || ends_with(*path, ".tsv")))
        return ll_usage("--out %s: --json writes JSON; name a .jsonl file, or leave out --json", *path);
    if (!json && (ends_with(*path, ".json") || ends_with(*path, ".jsonl")))
        return ll_usage("--out %s: JSON needs --json; else name a .csv or .tsv file", *path);
    return ll_target_apart("--out", *path, n, words);
}

int ll_folder_check(const char *option, const char *path) {
    struct stat about;
    if (!strcmp(path, "-")) return ll_usage("%s -: this does not go to standard output; name a folder", option);
    if (!*path) return ll_usage("%s '': needs the name of a folder", option);
    if (stat(path, &about)) {
        if (errno != ENOTDIR) return -1; /* it is made later, or what makes it says why not */
        return ll_usage("%s %s: a part of this path is a file; name a folder", option, path);
    }
    return S_ISDIR(about.st_mode) ? -1 : ll_usage("%s %s: it is a file; name a folder", option, path);
}
