/* Tables of numbers in CSV, as runs write them. Columns are found by name, and fields may be empty. A last line without
 * a line end, which a run is just writing, does not count. */
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "report/report_internal.h"

static size_t field_length(const char *s) {
    return strcspn(s, ",\r\n");
}

/* The field number of each column, or -1; returns the number of fields. */
static int read_header(const char *s, const char *const *names, int columns, int *at) {
    int fields = 0;
    for (int c = 0; c < columns; c++) at[c] = -1;
    for (;; s++) {
        const size_t n = field_length(s);
        for (int c = 0; c < columns; c++)
            if (n == strlen(names[c]) && !memcmp(s, names[c], n)) at[c] = fields;
        fields++;
        s += n;
        if (*s != ',') return fields;
    }
}

static ll_status read_number(const char *path, const char *s, size_t n, int line, double *value) {
    char *end = NULL;
    *value = n ? ll_scan_number(s, &end) : NAN;
    if (n && end != s + n)
        return ll_fail(LL_EFORMAT, "%s line %d: \"%.*s\" is not a number", path, line, n < 30 ? (int)n : 30, s);
    return LL_OK;
}

typedef struct {
    const char *path;
    int fields, columns;
    int at[LL_COLUMNS_MOST];
} layout;

static ll_status read_row(ll_columns *t, const layout *l, const char *s, int row) {
    const int line = row + 2;
    int field = 0;
    for (;; s++, field++) {
        const size_t n = field_length(s);
        for (int c = 0; c < l->columns; c++) {
            if (l->at[c] != field) continue;
            const ll_status status = read_number(l->path, s, n, line, &t->column[c][row]);
            if (status) return status;
        }
        s += n;
        if (*s != ',') break;
    }
    if (field + 1 != l->fields)
        return ll_fail(LL_EFORMAT, "%s line %d: %d fields where the first line names %d", l->path, line, field + 1,
                       l->fields);
    if (isnan(t->column[0][row])) return ll_fail(LL_EFORMAT, "%s line %d: its %s is empty", l->path, line, t->key);
    return LL_OK;
}

static ll_status read_text(ll_columns *t, const char *path, const char *s, const char *const *names, int columns,
                           int needed) {
    layout l = {.path = path, .columns = columns};
    for (const char *p = s; (p = strchr(p, '\n')); p++) t->n++;
    t->n -= 1; /* the first line has the names */
    if (t->n < 0) {
        t->n = 0;
        return ll_fail(LL_EFORMAT, "%s is empty or cut off in its first line", path);
    }
    l.fields = read_header(s, names, columns, l.at);
    for (int c = 0; c < needed; c++)
        if (l.at[c] < 0)
            return ll_fail(LL_EFORMAT, "%s: its first line names no column \"%s\"; is this the file of a run?", path,
                           names[c]);
    for (int c = 0; c < columns; c++) {
        if (!(t->column[c] = ll_alloc((size_t)t->n, sizeof **t->column))) return LL_ENOMEM;
        for (int row = 0; row < t->n; row++) t->column[c][row] = NAN;
    }
    ll_status status = LL_OK;
    for (int row = 0; row < t->n && !status; row++) {
        s = strchr(s, '\n') + 1;
        status = read_row(t, &l, s, row);
    }
    return status;
}

ll_status ll_columns_read(ll_columns *t, const char *path, const char *const *names, int columns, int needed) {
    ll_bytes file = {0};
    *t = (ll_columns){.key = names[0]};
    ll_status status = ll_file_read(&file, path, (size_t)1 << 30);
    if (status) return status;
    if (memchr(file.data, 0, file.size))
        status = ll_fail(LL_EFORMAT, "%s holds zero bytes; it is not a table", path);
    else
        status = read_text(t, path, (const char *)file.data, names, columns, needed);
    ll_bytes_free(&file);
    if (status) ll_columns_free(t);
    return status;
}

void ll_columns_free(ll_columns *t) {
    for (int c = 0; c < LL_COLUMNS_MOST; c++) ll_free(t->column[c]);
    *t = (ll_columns){0};
}

int ll_columns_last(const ll_columns *t, int column) {
    int i = t->n - 1;
    while (i >= 0 && !isfinite(t->column[column][i])) i--;
    return i;
}

int ll_columns_least(const ll_columns *t, int column) {
    int best = -1;
    for (int i = 0; i < t->n; i++)
        if (isfinite(t->column[column][i]) && (best < 0 || t->column[column][i] < t->column[column][best])) best = i;
    return best;
}

double ll_columns_median(const ll_columns *t, int column) {
    double *x = ll_alloc((size_t)t->n, sizeof *x);
    int n = 0;
    if (!x) return NAN;
    for (int i = 0; i < t->n; i++)
        if (isfinite(t->column[column][i])) x[n++] = t->column[column][i];
    const double median = ll_median(x, n);
    ll_free(x);
    return median;
}
