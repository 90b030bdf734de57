/* metrics.csv: one row every LL_ROW_EVERY steps and at every evaluation. A row is flushed when it is written, so that
 * one can watch a run. A resumed run first removes the rows after its checkpoint, so that the file becomes the same as
 * without the interruption, except for the columns of times. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "train/train_internal.h"

static const char HEADER[] = "step,seconds,tokens,loss,bits,valid_loss,valid_bits,valid_accuracy,learning_rate,"
                             "gradient_norm,tokens_per_second,memory_mib\n";

double ll_recent_loss(const ll_run_state *s, int64_t n) {
    double loss = 0, count = 0;
    if (n > LL_ROW_EVERY) n = LL_ROW_EVERY;
    for (int64_t step = s->step - n + 1; step <= s->step; step++) {
        if (step < 1) continue;
        loss += s->loss[step % LL_ROW_EVERY];
        count += s->count[step % LL_ROW_EVERY];
    }
    return count > 0 ? loss / count : NAN;
}

/* Bytes of `text` up to the last whole row whose step is at most `last`; and step and seconds of that row, where there
 * is one. A text without the header is of somebody else, and stays whole. */
static size_t cut(const char *text, int64_t last, int64_t *step, double *seconds) {
    if (strncmp(text, HEADER, strlen(HEADER))) return strlen(text);
    const char *row = text + strlen(HEADER);
    for (const char *end; (end = strchr(row, '\n')); row = end + 1) {
        char *comma = NULL;
        const long long at = strtoll(row, &comma, 10);
        if (comma == row || *comma != ',' || at > last) break;
        const size_t length = strcspn(comma + 1, ",\n");
        if (length >= LL_NUMBER_TEXT) break;
        char number[LL_NUMBER_TEXT] = {0};
        memcpy(number, comma + 1, length);
        if (!ll_parse_number(seconds, number)) break;
        *step = at;
    }
    return (size_t)(row - text);
}

/* Reads a file of metrics. One that no run wrote is refused. */
static ll_status read_rows(ll_bytes *rows, const char *path) {
    const ll_status status = ll_file_read(rows, path, (uint64_t)1 << 32);
    if (status || !strncmp((char *)rows->data, HEADER, strlen(HEADER))) return status;
    return ll_fail(LL_EFORMAT, "%s does not begin with the columns of a run's metrics; move it away to go on", path);
}

/* A run that begins or moves replaces the metrics of one that ended before its first checkpoint, and no other file. */
static ll_status check_replaced(const char *path) {
    ll_bytes old = {0};
    const ll_status status = ll_is_absent(path) ? LL_OK : read_rows(&old, path);
    ll_bytes_free(&old);
    return status;
}

/* Writes the beginning of the file `to` from the one in `resume`, which may be missing. */
static ll_status carry_over(ll_metrics *metrics, const char *to, const char *resume, int64_t last) {
    ll_bytes old = {0};
    int64_t step = 0;
    char *from = ll_path_join(resume, "metrics.csv");
    if (!from) return LL_ENOMEM;
    if (access(from, F_OK)) {
        ll_free(from);
        return ll_file_write(to, HEADER, strlen(HEADER));
    }
    ll_status status = read_rows(&old, from);
    if (!status) status = ll_file_write(to, old.data, cut((char *)old.data, last, &step, &metrics->seconds));
    ll_bytes_free(&old);
    ll_free(from);
    return status;
}

/* Opens the file that was just written. It is never created here: if somebody removed it since, a new one would lack
 * the header. */
static ll_status open_rows(FILE **file, const char *path) {
    const int fd = open(path, O_RDWR | O_APPEND | O_CLOEXEC);
    *file = fd < 0 ? NULL : fdopen(fd, "a+");
    if (*file) return LL_OK;
    const int error = errno;
    if (fd >= 0) close(fd);
    return ll_fail(error == ENOMEM ? LL_ENOMEM : LL_EIO, "%s cannot be opened for writing: %s", path, strerror(error));
}

ll_status ll_metrics_open(ll_metrics *metrics, const char *out, const char *resume, int64_t last) {
    ll_metrics m = {.path = ll_path_join(out, "metrics.csv")};
    if (!m.path) return LL_ENOMEM;
    ll_status status = check_replaced(m.path);
    if (!status && resume) status = carry_over(&m, m.path, resume, last);
    if (!status && !resume) status = ll_file_write(m.path, HEADER, strlen(HEADER));
    if (!status) status = open_rows(&m.file, m.path);
    if (status) {
        ll_metrics_close(&m);
        return status;
    }
    *metrics = m;
    return LL_OK;
}

static ll_status check(ll_metrics *m, int failed) {
    return failed ? ll_fail(LL_EIO, "cannot write %s: %s", m->path, strerror(errno)) : LL_OK;
}

/* Writes the comma of a cell before its number; a NaN gives an empty cell. */
static void cell(FILE *file, double value, const char *end) {
    char text[LL_NUMBER_TEXT] = "";
    if (!isnan(value)) ll_print_number(text, value);
    fputs(text, file);
    fputs(end, file);
}

ll_status ll_metrics_row(ll_metrics *m, const ll_progress *p, const ll_run_state *s) {
    const int evaluated = s->evaluated == s->step;
    const double loss = ll_recent_loss(s, s->step - s->row), valid = evaluated ? s->valid_loss : NAN;
    fprintf(m->file, "%lld,", (long long)s->step);
    cell(m->file, round(p->seconds * 1000) / 1000, ",");
    fprintf(m->file, "%lld,", (long long)s->tokens);
    cell(m->file, loss, ",");
    cell(m->file, p->matching ? NAN : loss / M_LN2, ","); /* of no code */
    cell(m->file, valid, ",");
    cell(m->file, valid / M_LN2, ",");
    cell(m->file, evaluated ? s->valid_accuracy : NAN, ",");
    cell(m->file, p->learning_rate, ",");
    cell(m->file, s->norm, ",");
    cell(m->file, round(p->tokens_per_second), ",");
    cell(m->file, round((double)ll_memory_now() / 1048576), "\n");
    return check(m, fflush(m->file) || ferror(m->file));
}

ll_status ll_metrics_sync(ll_metrics *m) {
    return check(m, fflush(m->file) || fsync(fileno(m->file)));
}

/* The contents of the open file, which may have lost its name. */
static ll_status read_all(ll_bytes *rows, FILE *file) {
    struct stat info;
    if (fflush(file) || fstat(fileno(file), &info)) return ll_fail(LL_EIO, "its rows cannot be read");
    rows->data = ll_alloc((size_t)info.st_size + 1, 1);
    while (rows->data && rows->size < (size_t)info.st_size) {
        const size_t left = (size_t)info.st_size - rows->size;
        const ssize_t n = pread(fileno(file), rows->data + rows->size, left, (off_t)rows->size);
        if (n <= 0) return ll_fail(LL_EIO, "its rows cannot be read");
        rows->size += (size_t)n;
    }
    return rows->data ? LL_OK : LL_ENOMEM;
}

ll_status ll_metrics_restore(ll_metrics *m) {
    ll_bytes rows = {0};
    FILE *file = NULL;
    ll_status status = read_all(&rows, m->file);
    if (!status)
        status = ll_file_write(m->path, rows.data, rows.size);
    else if (status == LL_EIO)
        status = ll_file_write(m->path, HEADER, strlen(HEADER)); /* removed by another machine, on NFS */
    if (!status) status = open_rows(&file, m->path);
    ll_bytes_free(&rows);
    if (status) return status;
    fclose(m->file);
    m->file = file;
    return LL_OK;
}

ll_status ll_metrics_cut(ll_metrics *m, int64_t last, int64_t *row) {
    ll_bytes rows = {0};
    double seconds;
    *row = 0;
    ll_status status = read_all(&rows, m->file);
    if (!status) {
        rows.data[rows.size] = 0;
        status = check(m, ftruncate(fileno(m->file), (off_t)cut((char *)rows.data, last, row, &seconds)));
    }
    ll_bytes_free(&rows);
    return status;
}

void ll_metrics_close(ll_metrics *m) {
    if (m->file) fclose(m->file);
    ll_free(m->path);
    *m = (ll_metrics){0};
}
