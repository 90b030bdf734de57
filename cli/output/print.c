/* Messages on stderr, exit codes, and how times and sizes are written. */
#include "output/print.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "output/show.h"

static const char *name;
static _Thread_local char last[1200]; /* message */

void ll_print_as(const char *command) {
    name = command;
}

void ll_print_text(char *line, size_t size, const char *text, const char *more) {
    const int n = snprintf(line, size, "longline%s%s: %s%s", name ? " " : "", name ? name : "", text, more);
    const size_t end = n < 0 ? 0 : (size_t)n < size - 2 ? (size_t)n : size - 2;
    ll_replace_controls(line, end, '?');
    memcpy(line + end, "\n", 2);
}

const char *ll_printed(void) { return *last ? last : NULL; }

/* In a single write. */
static void print_line(const char *format, va_list list) {
    char line[1300];
    vsnprintf(last, sizeof last, format, list);
    if (!ll_dist_ranks().reports) return;
    ll_print_text(line, sizeof line, last, "");
    ll_line_break();
    fwrite(line, 1, strlen(line), stderr);
}

void ll_print(const char *format, ...) {
    va_list list;
    va_start(list, format);
    print_line(format, list);
    va_end(list);
}

int ll_fail_message(const char *format, ...) {
    va_list list;
    va_start(list, format);
    print_line(format, list);
    va_end(list);
    return 1;
}

int ll_usage(const char *format, ...) {
    char text[1000];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    ll_print("%s (see 'longline %s%s--help')", text, name ? name : "", name ? " " : "");
    return 2;
}

/* Does it exist, and may we read it? */
static int readable(const char *path) {
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return 0;
    close(fd);
    return 1;
}

static int code_of(ll_status status, int input_is_there) {
    switch (status) {
    case LL_OK: return 0;
    case LL_EINVAL:
    case LL_EFORMAT: return 2;
    case LL_EIO: return input_is_there ? 1 : 2;
    case LL_ENOMEM:
    case LL_ESTOPPED:
    case LL_EDIST:
    case LL_EDIVERGED: break;
    }
    return 1;
}

int ll_failed(ll_status status, const char *input) {
    struct stat about;
    ll_print("%s", ll_error());
    return code_of(status, !input || (readable(input) && !stat(input, &about) && !S_ISDIR(about.st_mode)));
}

int ll_failed_at(ll_status status, const char *place) {
    ll_print("%s: %s", place, ll_error());
    return code_of(status, 1);
}

/* Is this a path of the data set, "data/SET" or below it? */
static int is_of(const char *path, const char *set) {
    const size_t n = strlen(set);
    return !strncmp(path, "data/", 5) && !strncmp(path + 5, set, n) && (path[5 + n] == '/' || !path[5 + n]);
}

/* The command that makes a missing file of the recipes: "; longline data get mnist fetches it". Otherwise text is
 * unchanged. */
static void remedy(char text[120], const char *path) {
    static const char *const drawn[] = {"listops", "pathfinder", "music"};
    char error[4300];
    snprintf(error, sizeof error, "cannot open %s: %s", path, strerror(ENOENT));
    if (!strstr(ll_error(), error)) return;
    for (int i = 0; ll_data_known(i); i++)
        if (is_of(path, ll_data_known(i)->set))
            snprintf(text, 120, "; longline data get %s fetches it", ll_data_known(i)->set);
    for (int i = 0; i < 3; i++)
        if (is_of(path, drawn[i]))
            snprintf(text, 120, "; longline data make %s draws it, as the recipe's comment says", drawn[i]);
}

int ll_failed_data(ll_status status, const ll_recipe *recipe) {
    static const char *const keys[] = {"data.train",        "data.valid",        "data.test",
                                       "data.train-labels", "data.valid-labels", "data.test-labels",
                                       "data.docs",         "train.from",        "train.teacher"};
    char what[120] = "";
    int there = 1;
    for (size_t i = 0; recipe && i < sizeof keys / sizeof *keys; i++) {
        const char *path = ll_recipe_get(recipe, keys[i]);
        if (!path || !*path || readable(path)) continue;
        there = 0;
        if (!*what) remedy(what, path);
    }
    ll_print("%s%s", ll_error(), what);
    return code_of(status, there);
}

char *ll_duration(char *text, double seconds) {
    if (!isfinite(seconds) || seconds < 0 || seconds > 1e8) {
        snprintf(text, 24, "?");
        return text;
    }
    const int s = (int)(seconds + 0.5);
    if (s >= 3600)
        snprintf(text, 24, "%d:%02d:%02d", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(text, 24, "%d:%02d", s / 60, s % 60);
    return text;
}

const char *ll_quoted(char text[LL_QUOTED], const char *path) {
    size_t n = 0;
    text[n++] = '\'';
    for (; *path && n + 5 < LL_QUOTED; path++) {
        if (*path == '\'') text[n++] = '\'', text[n++] = '\\', text[n++] = '\'';
        text[n++] = *path;
    }
    text[n++] = '\'';
    text[n] = 0;
    return text;
}

const char *ll_article(const char *word) { return *word && strchr("aeiou", *word) ? "an" : "a"; }

char *ll_size(char *text, double bytes) {
    static const char *const unit[] = {"B", "kB", "MB", "GB", "TB"};
    int i = 0;
    for (; bytes >= 999.5 && i < 4; i++) bytes /= 1000;
    snprintf(text, 24, bytes < 9.95 && i ? "%.1f %s" : "%.0f %s", bytes, unit[i]);
    return text;
}
