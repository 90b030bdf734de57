/* Reads files from front to back, and unpacks them meanwhile. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

int64_t ll_bytes_wanted(int64_t before, int64_t read, int64_t total, int64_t taken, int64_t most) {
    if (total <= 0 || taken <= 0) return total;
    const double each = (double)(read - before) / (double)taken; /* more than 1 where a block is not all taken yet */
    const double wanted = (double)before + (double)most * (each < 1 ? each : 1);
    return wanted < (double)total ? (int64_t)wanted : total;
}

static void report(ll_progress_line *progress, const ll_input *input, int64_t taken, int64_t most) {
    int64_t done, total;
    ll_input_progress(input, &done, &total);
    if (most) total = ll_bytes_wanted(0, done, total, taken, most);
    ll_progress_report(done, total > 0 ? total : 0, progress);
}

const char *ll_shown_path(const char *path) { return strcmp(path, "-") ? path : "standard input"; }

int ll_read_blocks(const char *path, const char *what, int64_t most, ll_block_fn *take, void *arg) {
    const ll_input_options how = {.format = LL_INPUT_WHOLE, .piece = LL_BLOCK};
    const char *name = ll_shown_path(path);
    ll_progress_line progress = ll_progress_of(LL_PROGRESS_BYTES, what);
    ll_input *input = NULL;
    ll_sequence block;
    int64_t taken = 0;
    int found = 1, enough = 0, cut = 0;
    ll_status status = ll_input_open(&input, &path, 1, &how);
    while (!status && !enough && !(cut = ll_stop_wanted())) {
        status = ll_input_next(input, &block, &found);
        if (status || !found) break;
        enough = take(block.text, block.size, arg);
        taken += (int64_t)block.size;
        if (most && taken >= most) break;
        if (what && !enough) report(&progress, input, taken, most);
    }
    ll_progress_end(&progress);
    ll_input_close(input);
    if (cut || (status && ll_stop_wanted())) { /* a signal also ends a call that waits, with an error */
        ll_print("stopped while reading %s", name);
        return LL_CUT;
    }
    return status ? ll_failed(status, strcmp(path, "-") ? path : NULL) : -1;
}

typedef struct {
    const char *path;
    char *text;
    size_t n, capacity, most;
    int code; /* -1, or the exit code */
} whole;

static int add_block(const uint8_t *bytes, size_t n, void *arg) {
    whole *w = arg;
    if (n > w->most - w->n) {
        w->code = ll_usage("%s is longer than %zu bytes", w->path, w->most);
    } else if (w->n + n >= w->capacity) {
        char *more = realloc(w->text, w->capacity = 2 * (w->n + n) + 1);
        if (more) w->text = more;
        if (!more) w->code = ll_fail_message("out of memory");
    }
    if (w->code >= 0) return 1;
    if (n) memcpy(w->text + w->n, bytes, n);
    w->n += n;
    w->text[w->n] = 0;
    return 0;
}

int ll_next_line(const char *text, size_t n, size_t *at, const char **line, size_t *length) {
    if (*at >= n) return 0;
    *line = text + *at;
    const char *end = memchr(*line, '\n', n - *at);
    *length = end ? (size_t)(end - *line) : n - *at;
    *at += *length + (end != NULL);
    if (*length && (*line)[*length - 1] == '\r') --*length;
    return 1;
}

int ll_read_whole(const char *path, size_t most, char **text, size_t *n) {
    whole w = {.path = path, .most = most, .code = -1};
    int code = add_block(NULL, 0, &w) ? w.code : -1; /* for an empty file */
    if (code < 0) code = ll_read_blocks(path, NULL, 0, add_block, &w);
    if (code == LL_CUT) code = 1; /* a part would be another text */
    *text = w.text;
    *n = w.n;
    return code >= 0 ? code : w.code;
}
