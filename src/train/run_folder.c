/* The folder of a running run: does it still exist, and is it the run's own? Somebody may remove or move it. Then it is
 * created again from memory; only the best model so far is lost. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "train/train_internal.h"

ll_status ll_run_recipe_write(const ll_trainer *t) {
    char *text = NULL;
    ll_status status = ll_recipe_text(t->recipe, &text);
    if (!status) status = ll_file_write(t->ini, text, strlen(text));
    ll_text_free(text);
    return status;
}

static int is_missing(const char *path) {
    return access(path, F_OK) && errno == ENOENT;
}

/* Does the folder have metrics that this run did not write? */
static int is_of_another(const ll_trainer *t) {
    struct stat info;
    return !stat(t->metrics.path, &info) && !ll_file_is_named(fileno(t->metrics.file), t->metrics.path);
}

/* Locks the folder again, which may be a new one. */
static ll_status take_again(ll_trainer *t) {
    ll_status status = ll_folder_create(t->folder);
    if (t->lock >= 0) close(t->lock);
    t->lock = -1;
    if (!status) status = ll_folder_lock(&t->lock, &t->unlocked, t->folder);
    t->unlocked = 0; /* the caller was told when the run began */
    return status;
}

static int lost_lock(const ll_trainer *t) {
    return t->lock >= 0 && !ll_file_is_named(t->lock, t->lock_file);
}

/* The name that the folder has now, if it was moved or renamed and the system tells; else "". */
static void name_now(const ll_trainer *t, char *to, size_t size) {
    char link[40], path[4096];
    *to = 0;
    if (!lost_lock(t)) return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", t->lock);
    const ssize_t n = readlink(link, path, sizeof path - 1);
    if (n <= 0) return;
    path[n] = 0;
    char *slash = strrchr(path, '/');
    if (slash && slash > path && ll_file_is_named(t->lock, path)) *slash = 0, ll_format_text(to, size, "%s", path);
}

int ll_run_folder_gone(const ll_trainer *t) {
    return lost_lock(t) || is_missing(t->metrics.path) || is_missing(t->ini);
}

/* Creates the folder again, with lock, recipe and metrics; *whole: only the lock was missing. LL_EIO if that fails, or
 * if another run has the folder. */
static ll_status restore(ll_trainer *t, int *whole) {
    *whole = !is_missing(t->metrics.path) && !is_missing(t->ini);
    if (lost_lock(t) && is_of_another(t))
        return ll_fail(LL_EIO, "%s was removed, and is now the folder of another run; this run is not saved",
                       t->folder);
    ll_status status = take_again(t);
    if (!status && !*whole) status = ll_run_recipe_write(t);
    if (!status && !*whole) status = ll_metrics_restore(&t->metrics);
    return status ? ll_fail(status, "the folder of the run, %s, is gone: %s", t->folder, ll_error()) : LL_OK;
}

/* Says what was done: LL_EIO, with the text. */
static ll_status lost(const ll_trainer *t, const char *moved) {
    const long long step = (long long)t->state.step;
    if (*moved)
        return ll_fail(LL_EIO, "%s is now %s; it is made again, and goes on from step %lld: resume this one alone",
                       t->folder, moved, step);
    return ll_fail(LL_EIO, "%s or a file of it was removed; it is made again, with recipe, metrics, step %lld",
                   t->folder, step);
}

ll_status ll_run_folder_keep(ll_trainer *t, int *made) {
    const ll_group all = ll_group_all();
    ll_run_state *s = &t->state;
    char moved[400] = "";
    int gone = !t->ranks.rank && ll_run_folder_gone(t), there[2] = {0}; /* all but the lock; the best model */
    ll_status status = ll_group_broadcast(&all, &gone, sizeof gone, 0);
    if (status || !gone) return status;
    if (!t->ranks.rank) {
        name_now(t, moved, sizeof moved);
        status = restore(t, &there[0]);
        there[1] = !access(t->best, F_OK);
    }
    status = ll_group_agree(&all, status);
    if (!status) status = ll_group_broadcast(&all, there, sizeof there, 0);
    if (status || there[0]) return status;
    if (!there[1]) ll_best_forget(s);
    if (s->evaluated == s->step && s->row != s->step) s->evaluated = 0;
    status = ll_run_save(t, 0);
    if (!status) *made = lost(t, moved) != LL_OK;
    return status;
}

void ll_run_folder_leave(ll_trainer *t) {
    if (t->lock >= 0) close(t->lock);
    t->lock = -1;
    t->left = 1;
}

/* Every run that is resumed writes its metrics to a new file, so that another run since then is noticed even where
 * folders cannot be locked. */
ll_status ll_run_folder_enter(ll_trainer *t) {
    if (!t->ranks.rank) {
        const ll_status status = take_again(t);
        if (status) return status;
        if (is_of_another(t)) {
            ll_run_folder_leave(t);
            return ll_fail(LL_EIO,
                           "another run has gone on in %s since this one left it at step %lld; resume it to go on",
                           t->folder, (long long)t->state.step);
        }
    }
    t->left = 0;
    return LL_OK;
}
