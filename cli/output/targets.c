/* Checks of the paths that options give, before the work whose results go there. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

/* Where a file of this path is written: the folder, and (NULL: not asked for) the name in it. One that exists is
 * replaced in its own folder, also if a link names it, as /dev/stdout may. */
static void find_target(const char *path, char folder[PATH_MAX], char name[PATH_MAX]) {
    char real[PATH_MAX];
    const char *target = realpath(path, real) ? real : path, *slash = strrchr(target, '/');
    snprintf(folder, PATH_MAX, "%.*s", slash ? (int)(slash - target) + 1 : 1, slash ? target : ".");
    if (name) snprintf(name, PATH_MAX, "%s", slash ? slash + 1 : target);
}

int ll_line_check(const char *option, const char *path) {
    return strchr(path, '\n')
               ? ll_usage("%s %s: its name has a line end, and results are lines; use another name", option, path)
               : -1;
}

/* texts: a pipe or a device will do. */
static int check_target(const char *option, const char *path, int texts) {
    struct stat about;
    char folder[PATH_MAX];
    const size_t length = strlen(path);
    if (!strcmp(path, "-")) return ll_usage("%s -: this does not go to standard output; name a file", option);
    if (!length || path[length - 1] == '/') return ll_usage("%s '%s': needs the name of a file", option, path);
    if (ll_line_check(option, path) >= 0) return 2;
    const int there = !stat(path, &about);
    if (!there && errno == ENAMETOOLONG) return ll_usage("%s: %s", option, strerror(errno));
    if (there && S_ISDIR(about.st_mode)) return ll_usage("%s %s: it is a folder; name a file", option, path);
    if (there && !S_ISREG(about.st_mode))
        return texts ? -1 : ll_usage("%s %s: it is a pipe or a device; name a file", option, path);
    find_target(path, folder, NULL);
    if (!access(folder, W_OK | X_OK)) return -1;
    if (errno == ENOENT || errno == ENOTDIR)
        return ll_usage("%s %s: there is no folder %s; make it first", option, path, folder);
    return ll_fail_message("%s %s: cannot write there: %s", option, path, strerror(errno));
}

int ll_target_check(const char *option, const char *path) { return check_target(option, path, 0); }

int ll_text_target_check(const char *option, const char *path) { return check_target(option, path, 1); }

static int is_same(const char *one, const char *other) {
    struct stat a, b;
    return !stat(one, &a) && !stat(other, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

int ll_target_is(const char *path, const char *second) {
    char folder[PATH_MAX], name[PATH_MAX], folder2[PATH_MAX], name2[PATH_MAX];
    find_target(path, folder, name);
    find_target(second, folder2, name2);
    return !strcmp(name, name2) && is_same(folder, folder2);
}

int ll_targets_differ(const char *option, const char *path, const char *other, const char *second) {
    if (!ll_target_is(path, second)) return -1;
    return ll_usage("%s and %s cannot both be %s", option, other, path);
}

/* Is it one of the files that the run in the model's folder needs to go on? */
static int is_of_run(const char *folder, const char *name, const char *model) {
    static const char *const names[] = {"last.safetensors", "best.safetensors", "back.safetensors", "recipe.ini",
                                        "metrics.csv"};
    char home[PATH_MAX], recipe[PATH_MAX + 16];
    find_target(model, home, NULL);
    snprintf(recipe, sizeof recipe, "%s/recipe.ini", home);
    if (!is_same(home, folder) || !ll_has_checkpoint(home) || access(recipe, F_OK)) return 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i])) return 1;
    return 0;
}

static int apart(const char *option, const char *path, int n, const char *const *words) {
    struct stat read;
    char file[PATH_MAX], folder[PATH_MAX], name[PATH_MAX];
    const char *model = ll_model_file(words[0], file);
    find_target(path, folder, name);
    if (!access(path, F_OK) && !stat(model, &read) && S_ISDIR(read.st_mode) && is_same(model, folder))
        return ll_usage("%s %s: it would overwrite a file of %s", option, path, model);
    for (int i = 0; i < n; i++)
        if (is_same(path, i ? words[i] : model))
            return ll_usage("%s %s: it would overwrite %s", option, path, i ? "what is read" : "the model");
    if (is_of_run(folder, name, model)) return ll_usage("%s %s: it would overwrite a file of the run", option, path);
    return -1;
}

int ll_target_apart(const char *option, const char *path, int n, const char *const *words) {
    const int code = ll_target_check(option, path);
    return code >= 0 ? code : apart(option, path, n, words);
}

int ll_text_target_apart(const char *option, const char *path, int n, const char *const *words) {
    const int code = ll_text_target_check(option, path);
    return code >= 0 || !n ? code : apart(option, path, n, words);
}

int ll_ends_with(const char *path, const char *ending) {
    const size_t n = strlen(path), m = strlen(ending);
    return n > m && !strcmp(path + n - m, ending);
}

int ll_answers_target(const char **path, int json, int n, const char *const *words) {
    static const char *const packed[] = {".gz", ".xz", ".zst"}, *const tensors[] = {".safetensors", ".npy"};
    const char *name = json ? "name a .jsonl file" : "name a .csv or .tsv file";
    if (*path && !strcmp(*path, "-")) *path = NULL;
    const int code = *path ? ll_target_apart("--out", *path, n, words) : -1;
    if (!*path || code >= 0) return code;
    for (int i = 0; i < 3; i++)
        if (ll_ends_with(*path, packed[i])) return ll_usage("--out %s: answers are not packed; %s", *path, name);
    for (int i = 0; i < 2; i++)
        if (ll_ends_with(*path, tensors[i])) return ll_usage("--out %s: answers are text; %s", *path, name);
    if (json && (ll_ends_with(*path, ".csv") || ll_ends_with(*path, ".tsv")))
        return ll_usage("--out %s: --json writes JSON; name a .jsonl file, or leave out --json", *path);
    if (!json && (ll_ends_with(*path, ".json") || ll_ends_with(*path, ".jsonl")))
        return ll_usage("--out %s: JSON needs --json; else name a .csv or .tsv file", *path);
    return -1;
}

int ll_vectors_target(const char **path, int n, const char *const *words) {
    static const char *const endings[] = {".safetensors", ".npy", ".csv"};
    if (*path && !strcmp(*path, "-")) *path = NULL;
    if (!*path) return -1;
    for (int i = 0; i < 3; i++)
        if (ll_ends_with(*path, endings[i])) return ll_target_apart("--out", *path, n, words);
    return ll_usage(
        "--out %s: a file of embeddings must end with .safetensors, .npy or .csv; --json writes to standard "
        "output",
        *path);
}

int ll_folder_check(const char *option, const char *path) {
    struct stat about;
    if (!strcmp(path, "-")) return ll_usage("%s -: this does not go to standard output; name a folder", option);
    if (!*path) return ll_usage("%s '': needs the name of a folder", option);
    if (ll_line_check(option, path) >= 0) return 2;
    if (stat(path, &about)) {
        if (errno != ENOTDIR) return -1; /* it is made later, or what makes it says why not */
        return ll_usage("%s %s: a part of this path is a file; name a folder", option, path);
    }
    return S_ISDIR(about.st_mode) ? -1 : ll_usage("%s %s: it is a file; name a folder", option, path);
}
