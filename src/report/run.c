/* The loss curves of a run, from its metrics.csv: columns are found by their names, fields may be empty, and
 * a last row without an end (a run that is writing it just now) does not count. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "report/report.h"

enum { STEP, BITS, VALID, COLUMNS };
static const char *const NAME[COLUMNS] = {"step", "bits", "valid_bits"};

typedef struct {
    ll_bytes file;
    int n, fields;
    int at[COLUMNS];         /* field number of a column */
    double *column[COLUMNS]; /* (n) NaN where a field is empty */
    char *path;
} table;

static void table_free(table *t) {
    for (int c = 0; c < COLUMNS; c++) ll_free(t->column[c]);
    ll_bytes_free(&t->file);
    ll_free(t->path);
}

static size_t field_length(const char *s) {
    return strcspn(s, ",\r\n");
}

static ll_status read_header(table *t, const char *s) {
    for (int c = 0; c < COLUMNS; c++) t->at[c] = -1;
    for (t->fields = 0;; s++) {
        const size_t n = field_length(s);
        for (int c = 0; c < COLUMNS; c++)
            if (n == strlen(NAME[c]) && !memcmp(s, NAME[c], n)) t->at[c] = t->fields;
        t->fields++;
        s += n;
        if (*s != ',') break;
    }
    for (int c = 0; c < COLUMNS; c++)
        if (t->at[c] < 0)
            return ll_fail(LL_EFORMAT, "%s: its first line names no column \"%s\"; is this the file of a run?", t->path,
                           NAME[c]);
    return LL_OK;
}

static ll_status read_number(const table *t, const char *s, size_t n, int line, double *value) {
    char *end = NULL;
    *value = n ? strtod(s, &end) : NAN;
    if (n && end != s + n)
        return ll_fail(LL_EFORMAT, "%s line %d: \"%.*s\" is not a number", t->path, line, n < 30 ? (int)n : 30, s);
    return LL_OK;
}

static ll_status read_row(table *t, const char *s, int row) {
    const int line = row + 2;
    int field = 0;
    for (;; s++, field++) {
        const size_t n = field_length(s);
        for (int c = 0; c < COLUMNS; c++) {
            if (t->at[c] != field) continue;
            const ll_status status = read_number(t, s, n, line, &t->column[c][row]);
            if (status) return status;
        }
        s += n;
        if (*s != ',') break;
    }
    if (field + 1 != t->fields)
        return ll_fail(LL_EFORMAT, "%s line %d: %d fields where the first line names %d", t->path, line, field + 1,
                       t->fields);
    if (isnan(t->column[STEP][row])) return ll_fail(LL_EFORMAT, "%s line %d: its step is empty", t->path, line);
    return LL_OK;
}

static ll_status read_table(table *t, const char *run) {
    t->path = ll_path_join(run, "metrics.csv");
    if (!t->path) return LL_ENOMEM;
    ll_status status = ll_file_read(&t->file, t->path, (size_t)1 << 30);
    if (status) return status;
    const char *s = (const char *)t->file.data;
    if (memchr(s, 0, t->file.size)) return ll_fail(LL_EFORMAT, "%s holds zero bytes; it is not a table", t->path);
    for (const char *p = s; (p = strchr(p, '\n')); p++) t->n++;
    t->n -= 1; /* the first line is no row */
    if (t->n < 0) return ll_fail(LL_EFORMAT, "%s is empty or cut off in its first line", t->path);
    status = read_header(t, s);
    for (int c = 0; c < COLUMNS && !status; c++)
        if (!(t->column[c] = ll_alloc((size_t)t->n, sizeof **t->column))) status = LL_ENOMEM;
    for (int row = 0; row < t->n && !status; row++) {
        s = strchr(s, '\n') + 1;
        status = read_row(t, s, row);
    }
    return status;
}

/* Last number of a column, and its step. */
static double last_of(const table *t, int column, double *step) {
    for (int i = t->n - 1; i >= 0; i--)
        if (isfinite(t->column[column][i])) {
            *step = t->column[STEP][i];
            return t->column[column][i];
        }
    return NAN;
}

/* What a bit is of: the recipe beside the table knows. */
static const char *unit(const char *run) {
    const char *of = "token";
    ll_recipe *recipe = NULL;
    char *path = ll_path_join(run, "recipe.ini");
    if (path && !ll_recipe_load(&recipe, path)) {
        of = ll_recipe_unit(recipe);
    }
    ll_recipe_free(recipe);
    ll_free(path);
    return of;
}

static void write_title(char *out, size_t size, const table *t, const char *run, const char *of) {
    char step_text[24];
    double step = 0, bits = last_of(t, VALID, &step);
    const int valid = !isnan(bits);
    if (!valid) bits = last_of(t, BITS, &step);
    size_t n = strlen(run);
    while (n > 1 && run[n - 1] == '/') n--;
    size_t from = n;
    while (from > 0 && run[from - 1] != '/') from--;
    ll_number_text(step_text, sizeof step_text, step, 1, fmin(step, 999999));
    snprintf(out, size, "%.*s: %.3f bits per %s on %s data after %s steps", (int)(n - from), run + from, bits, of,
             valid ? "validation" : "training", step_text);
}

ll_status ll_run_picture(const char *run, const char *path) {
    table t = {0};
    ll_status status = read_table(&t, run);
    double step;
    if (!status && isnan(last_of(&t, BITS, &step)) && isnan(last_of(&t, VALID, &step)))
        status = ll_fail(LL_EFORMAT, "%s holds no loss yet; draw it when the run has made some steps", t.path);
    if (!status) {
        char title[256], y_label[64];
        const char *of = unit(run);
        const ll_curve curves[] = {{"validation", t.n, t.column[STEP], t.column[VALID]},
                                   {"training", t.n, t.column[STEP], t.column[BITS]}};
        write_title(title, sizeof title, &t, run, of);
        snprintf(y_label, sizeof y_label, "loss, bits per %s", of);
        const ll_figure f = {.title = title, .x_label = "step", .y_label = y_label, .n = 2, .curves = curves};
        const int faint[2] = {0, 1};
        status = ll_figure_draw(&f, faint, path);
    }
    table_free(&t);
    return status;
}
