/* A table of results that were measured before: [table] names a CSV file of "id,measure,key,value" lines (results), and
 * its columns: column.HEADING = PREFIX MEASURE is the accuracy in MEASURE of the runs PREFIX-SYSTEM-SEED. Each other
 * section is a system, with label and published.HEADING. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/ini.h"
#include "base/memory.h"
#include "base/text.h"
#include "compare/compare_internal.h"

enum { COLUMNS_MOST = 12, NAME = 64, SEED_MOST = 9, FILE_MOST = 1 << 26 };
static const char KEY[] = "accuracy";

typedef struct {
    char heading[NAME], prefix[NAME], measure[NAME];
} column;

typedef struct {
    char name[NAME], label[NAME];
    double published[COLUMNS_MOST], value[COLUMNS_MOST][SEED_MOST]; /* per cent; value: of seed k + 1; NaN: none */
} row;

typedef struct {
    const char *path;
    char *title, *paper; /* NULL: not given */
    char results[1000];
    struct {
        char *what, *how;
    } differs[LL_DIFFERENCES_MOST];
    char unknown[NAME]; /* the first key of [table] that is not one of a table of results */
    int unknown_line;
    char early[NAME]; /* the first section of a system before it was known that this is a table of results */
    int columns, rows, differences;
    column column[COLUMNS_MOST];
    row row[LL_SYSTEMS_MOST];
} table;

/* ---- The file ---- */

static int find_column(const table *t, const char *heading) {
    int i = 0;
    while (i < t->columns && strcmp(t->column[i].heading, heading)) i++;
    return i;
}

static ll_status keep(char *to, size_t size, const char *key, const char *value) {
    const size_t n = strlen(value);
    if (n >= size) return ll_fail(LL_EINVAL, "%.60s has %zu bytes; it can have %zu: shorten it", key, n, size - 1);
    memcpy(to, value, n + 1);
    return LL_OK;
}

static ll_status keep_copy(char **to, const char *value) {
    ll_free(*to);
    *to = ll_strdup(value);
    return *to ? LL_OK : LL_ENOMEM;
}

static ll_status add_column(table *t, const char *heading, const char *value) {
    if (t->columns == COLUMNS_MOST) return ll_fail(LL_EINVAL, "a table has at most %d columns", (int)COLUMNS_MOST);
    column *c = &t->column[t->columns];
    char words[NAME];
    ll_status status = keep(words, NAME, "the prefix with its measure", value);
    if (!status) status = keep(c->heading, NAME, "the heading of a column", heading);
    if (status) return status;
    if (find_column(t, heading) < t->columns) return ll_fail(LL_EINVAL, "there are two columns %.60s", heading);
    if (sscanf(words, "%63s %63s", c->prefix, c->measure) != 2)
        return ll_fail(LL_EINVAL, "column.%.60s is \"%.60s\"; it needs the prefix of runs, and a measure", heading,
                       value);
    t->columns++;
    return LL_OK;
}

static ll_status add_difference(table *t, const char *what, const char *value) {
    if (t->differences == LL_DIFFERENCES_MOST)
        return ll_fail(LL_EINVAL, "a table has at most %d differences", (int)LL_DIFFERENCES_MOST);
    const int i = t->differences++;
    const ll_status status = keep_copy(&t->differs[i].what, what);
    return status ? status : keep_copy(&t->differs[i].how, value);
}

static ll_status set_results(table *t, const char *value) {
    if (!*value) return ll_fail(LL_EINVAL, "results is empty; it names a CSV file");
    if (*t->early) return ll_fail(LL_EINVAL, "results comes after [%s]; name them in [table] before", t->early);
    return keep(t->results, sizeof t->results, "results", value);
}

static ll_status table_key(table *t, const char *key, const char *value, int line) {
    if (!strcmp(key, "title")) return keep_copy(&t->title, value);
    if (!strcmp(key, "paper")) return keep_copy(&t->paper, value);
    if (!strcmp(key, "results")) return set_results(t, value);
    if (!strncmp(key, "differs.", 8)) return add_difference(t, key + 8, value);
    if (!strncmp(key, "column.", 7)) return add_column(t, key + 7, value);
    if (!*t->unknown) snprintf(t->unknown, NAME, "%s", key), t->unknown_line = line;
    return LL_OK;
}

static ll_status add_row(table *t, const char *name) {
    if (t->rows == LL_SYSTEMS_MOST) return ll_fail(LL_EINVAL, "a table has at most %d systems", (int)LL_SYSTEMS_MOST);
    for (int i = 0; i < t->rows; i++)
        if (!strcmp(t->row[i].name, name)) return ll_fail(LL_EINVAL, "there are two systems [%.60s]", name);
    row *r = &t->row[t->rows++];
    for (int i = 0; i < COLUMNS_MOST; i++) {
        r->published[i] = NAN;
        for (int k = 0; k < SEED_MOST; k++) r->value[i][k] = NAN;
    }
    const ll_status status = keep(r->name, NAME, "the name of a system", name);
    return status ? status : keep(r->label, NAME, "label", name);
}

static ll_status row_key(table *t, const char *key, const char *value) {
    row *r = &t->row[t->rows - 1];
    if (!strcmp(key, "label")) return keep(r->label, NAME, key, value);
    const int i = strncmp(key, "published.", 10) ? t->columns : find_column(t, key + 10);
    if (i == t->columns)
        return ll_fail(LL_EINVAL, "there is no key \"%.60s\" here; known are label, and published.HEADING of a column",
                       key);
    return ll_parse_number(&r->published[i], value) ? LL_OK : ll_fail(LL_EINVAL, "%.60s is no number", key);
}

/* Of a table of systems that are to be run, only [table] is looked at. */
static ll_status read_key(void *arg, const char *section, const char *key, const char *value, int line) {
    table *t = arg;
    if (!strcmp(section, "table")) return key ? table_key(t, key, value, line) : LL_OK;
    if (key && !*section) return ll_fail(LL_EFORMAT, "%.60s comes before [table]", key);
    if (!*t->results && !*t->early) snprintf(t->early, NAME, "%s", section);
    if (!*t->results) return LL_OK;
    return key ? row_key(t, key, value) : add_row(t, section);
}

/* ---- Results ---- */

/* The seed at the end of PREFIX-SYSTEM-SEED; 0: the id is of another run. */
static int seed_of(const char *id, const char *prefix, const char *system) {
    char begin[2 * NAME + 3];
    const int n = snprintf(begin, sizeof begin, "%s-%s-", prefix, system);
    if (strncmp(id, begin, (size_t)n)) return 0;
    return id[n] >= '1' && id[n] <= '0' + SEED_MOST && !id[n + 1] ? id[n] - '0' : 0;
}

static ll_status take_line(table *t, char *line, int64_t number) {
    char *field[4], *next = line, begin[64];
    int n = 0;
    snprintf(begin, sizeof begin, "%s", line);
    while (n < 4 && next) field[n++] = strsep(&next, ",");
    if (n < 4 || next) return ll_fail(LL_EFORMAT, "line %lld has not four fields: \"%s\"", (long long)number, begin);
    if (strcmp(field[2], KEY)) return LL_OK;
    for (int i = 0; i < t->columns; i++)
        for (int k = 0; k < t->rows && !strcmp(field[1], t->column[i].measure); k++) {
            const int seed = seed_of(field[0], t->column[i].prefix, t->row[k].name);
            double share;
            if (!seed) continue;
            if (!ll_parse_number(&share, field[3]) || !(share >= 0 && share <= 1))
                return ll_fail(LL_EFORMAT, "line %lld: the %s of %.60s is no number from 0 to 1", (long long)number,
                               KEY, field[0]);
            double *value = &t->row[k].value[i][seed - 1];
            if (isfinite(*value))
                return ll_fail(LL_EFORMAT, "line %lld: a second %s of %.60s", (long long)number, KEY, field[0]);
            *value = 100 * share;
        }
    return LL_OK;
}

/* The results are named from where the table is. */
static ll_status read_results(table *t) {
    char path[4096];
    const char *slash = *t->results == '/' ? NULL : strrchr(t->path, '/');
    ll_bytes bytes = {0};
    snprintf(path, sizeof path, "%.*s%s", slash ? (int)(slash - t->path) + 1 : 0, t->path, t->results);
    ll_status status = ll_file_read(&bytes, path, FILE_MOST);
    if (status) return status == LL_EIO ? ll_fail_in(LL_EINVAL, t->path) : status; /* the error is in the table */
    char *next = (char *)bytes.data;
    for (int64_t number = 1; next && *next && !status; number++) {
        char *line = strsep(&next, "\n");
        line[strcspn(line, "\r")] = 0;
        if (*line) status = take_line(t, line, number);
    }
    ll_bytes_free(&bytes);
    return status ? ll_fail_in(status, path) : LL_OK;
}

/* ---- The text ---- */

typedef struct {
    char *text; /* NULL: its size is counted alone */
    size_t size, most;
} writing;

__attribute__((format(printf, 2, 3))) static void print(writing *to, const char *format, ...) {
    va_list list;
    va_start(list, format);
    char *end = to->text ? to->text + to->size : NULL;
    const int n = ll_format_text_list(end, end ? to->most - to->size : 0, format, list);
    va_end(list);
    to->size += n > 0 ? (size_t)n : 0;
}

/* Text in a column: bytes that continue a character of UTF-8 take no width. */
static void print_left(writing *to, const char *text, int width) {
    const int rest = width - ll_text_columns(text);
    print(to, "%s%*s", text, rest > 0 ? rest : 0, "");
}

static void print_right(writing *to, const char *text, int width) {
    const int rest = width - ll_text_columns(text);
    print(to, "%*s%s", rest > 0 ? rest : 0, "", text);
}

/* "36.60 +- 0.28 (2)" for a mean over two seeds. */
static void print_mean(writing *to, double mean, double deviation, int seeds) {
    char text[64] = "-", more[40] = "";
    if (isfinite(deviation)) ll_format_text(more, sizeof more, " +- %.2f (%d)", deviation, seeds);
    if (isfinite(mean)) ll_format_text(text, sizeof text, "%.2f%s", mean, more);
    print(to, "  %18s", text);
}

static void print_cell(writing *to, double value) { print_mean(to, value, NAN, 1); }

/* The average is NaN unless every column has a figure. */
static void print_row(writing *to, const table *t, const row *r, int width) {
    double average = 0, published = 0, mean, deviation;
    print_left(to, r->label, width);
    for (int i = 0; i < t->columns; i++) {
        const int seeds = ll_mean_of(r->value[i], SEED_MOST, &mean, &deviation);
        print_mean(to, mean, deviation, seeds);
        average += mean / t->columns;
        published += r->published[i] / t->columns;
    }
    print_cell(to, average);
    print(to, "\n%-*s", width, "  published");
    for (int i = 0; i < t->columns; i++) print_cell(to, r->published[i]);
    print_cell(to, published);
    print(to, "\n");
}

static void print_table(writing *to, const table *t) {
    int width = 11;
    for (int i = 0; i < t->rows; i++)
        if (ll_text_columns(t->row[i].label) > width) width = ll_text_columns(t->row[i].label);
    print(to, "%s\n%s\n%-*s", t->title ? t->title : "", t->paper ? t->paper : "", width, "system");
    for (int i = 0; i < t->columns; i++) print_right(to, t->column[i].heading, 20);
    print(to, "  %18s\n", "average");
    for (int i = 0; i < t->rows; i++) print_row(to, t, &t->row[i], width);
    print(to,
          "\nPer cent right, mean and standard deviation over (n) seeds; without both: one seed. -: not measured, or\n"
          "not published. Results are those of %s.\n",
          t->results);
    if (t->differences) print(to, "\nWhat differs from the paper:\n");
    for (int i = 0; i < t->differences; i++) {
        print(to, "  ");
        print_left(to, t->differs[i].what, 10);
        print(to, " %s\n", t->differs[i].how);
    }
}

/* The first pass counts, the second one writes. */
static ll_status write_table(char **text, const table *t) {
    writing to = {0};
    print_table(&to, t);
    const size_t most = to.size + 1;
    to = (writing){.text = ll_alloc(most, 1), .most = most};
    if (!to.text) return LL_ENOMEM;
    print_table(&to, t);
    *text = to.text;
    return LL_OK;
}

static void free_table(table *t) {
    ll_free(t->title);
    ll_free(t->paper);
    for (int i = 0; i < LL_DIFFERENCES_MOST; i++) {
        ll_free(t->differs[i].what);
        ll_free(t->differs[i].how);
    }
    ll_free(t);
}

ll_status ll_measured_table(char **text, const char *path) {
    *text = NULL;
    table *t = ll_alloc(1, sizeof *t);
    if (!t) return LL_ENOMEM;
    t->path = path;
    ll_status status = ll_ini_load(path, read_key, t);
    if (!status && *t->results) {
        if (*t->unknown)
            status = ll_fail(LL_EINVAL, "%s:%d: there is no key \"%s\" here; known are title, paper, results, "
                             "column.HEADING and differs.WHAT", path, t->unknown_line, t->unknown);
        else if (!t->columns || !t->rows)
            status = ll_fail(LL_EFORMAT, "%s has no columns (column.NAME), or no systems", path);
        if (!status) status = read_results(t);
        if (!status) status = write_table(text, t);
    }
    free_table(t);
    return status;
}
