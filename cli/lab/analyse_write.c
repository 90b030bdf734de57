/* Writes the tables of experiments. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lab/analyse_write.h"

enum { CURVES = 32 };

static double at(const ll_table *t, int row, int column) {
    return t->number[(size_t)row * (size_t)t->columns + (size_t)column];
}

/* Significant digits, without trailing zeros. Whole numbers, such as those of tokens, have all of theirs. */
static const char *number_text(char *text, size_t size, double x, int digits) {
    if (isnan(x))
        snprintf(text, size, "%s", "");
    else if (fabs(x) < 1e15 && x == floor(x))
        snprintf(text, size, "%.0f", x);
    else
        snprintf(text, size, "%.*g", digits, x);
    return text;
}

/* Width of a column. */
static int width_of(const char *name) {
    return strlen(name) < 10 ? 10 : (int)strlen(name);
}

static void print_row(const ll_table *t, int row, int label) {
    char text[40];
    printf("%-*s", label, t->label[row]);
    for (int c = 0; c < t->columns; c++)
        printf("  %*s", width_of(t->column[c]),
               isnan(at(t, row, c)) ? "-" : number_text(text, sizeof text, at(t, row, c), 5));
    printf("\n");
}

/* Of many rows with one label, only rows 0, 1, 2, 4, 8, ... are printed. */
void ll_analysis_print(const char *name, const ll_table *t) {
    int label = (int)strlen(t->series), left_out = 0;
    for (int r = 0; r < t->rows; r++)
        if ((int)strlen(t->label[r]) > label) label = (int)strlen(t->label[r]);
    printf("%s: %s\n\n%-*s", name, t->title, label, t->series);
    for (int c = 0; c < t->columns; c++) printf("  %*s", width_of(t->column[c]), t->column[c]);
    printf("\n");
    for (int r = 0, number = 0; r < t->rows; r++) {
        number = r && !strcmp(t->label[r], t->label[r - 1]) ? number + 1 : 0;
        if (t->rows > 100 && (number & (number - 1)))
            left_out++;
        else
            print_row(t, r, label);
    }
    if (left_out) printf("(rows 0, 1, 2, 4, 8, ... of each; all of them with --csv or --out)\n");
    printf("\n");
    if (*t->verdict) printf("%s\n\n", t->verdict);
}

void ll_analysis_csv(FILE *file, const ll_table *t) {
    char text[40];
    fprintf(file, "%s", t->series);
    for (int c = 0; c < t->columns; c++) fprintf(file, ",%s", t->column[c]);
    fprintf(file, "\n");
    for (int r = 0; r < t->rows; r++) {
        fprintf(file, "%s", t->label[r]);
        for (int c = 0; c < t->columns; c++) fprintf(file, ",%s", number_text(text, sizeof text, at(t, r, c), 9));
        fprintf(file, "\n");
    }
}

/* JSON has no NaN and no infinities; they become null. */
void ll_analysis_json(FILE *file, const char *name, const ll_table *t) {
    char text[40];
    fprintf(file, "  {\"name\": \"%s\", \"title\": \"%s\", \"verdict\": \"%s\",\n   \"columns\": [\"%s\"", name,
            t->title, t->verdict, t->series);
    for (int c = 0; c < t->columns; c++) fprintf(file, ", \"%s\"", t->column[c]);
    fprintf(file, "],\n   \"rows\": [");
    for (int r = 0; r < t->rows; r++) {
        fprintf(file, "%s\n    [\"%s\"", r ? "," : "", t->label[r]);
        for (int c = 0; c < t->columns; c++)
            fprintf(file, ", %s", isfinite(at(t, r, c)) ? number_text(text, sizeof text, at(t, r, c), 9) : "null");
        fprintf(file, "]");
    }
    fprintf(file, "]}");
}

static int to_pipe;

void ll_analysis_pipe(int piped) { to_pipe = piped; }

void ll_analysis_wrote(const char *what, const char *path) {
    if (!to_pipe) printf("analyse.%s=%s\n", what, path);
}

/* ---- Pictures ---- */

enum { SPLIT = 7 /* so many curves have colours of their own */, WORD = 64 };

/* Rows [first, end) of one label. */
typedef struct {
    int first, end;
    char word[WORD]; /* the first of the label */
    int alike;       /* how many curves have it */
} span;

/* A table's columns as arrays, and its curves. */
typedef struct {
    const ll_table *t;
    const ll_plot *p;
    double *x, *y, *half; /* (rows) */
    span *spans;
    int n;
} plotted;

/* Consecutive rows of one label are a curve. */
static int list_spans(span *spans, const ll_table *t) {
    int n = 0;
    for (int r = 0; r < t->rows; n++) {
        span *s = &spans[n];
        *s = (span){.first = r};
        while (r < t->rows && !strcmp(t->label[r], t->label[s->first])) r++;
        s->end = r;
        snprintf(s->word, sizeof s->word, "%.*s", (int)strcspn(t->label[s->first], " "), t->label[s->first]);
    }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) spans[i].alike += !strcmp(spans[i].word, spans[j].word);
    return n;
}

/* Has it a number that a logarithmic axis can show? */
static int has_positive(const plotted *d, const span *s) {
    int any = 0;
    for (int r = s->first; r < s->end; r++) any |= d->y[r] > 0;
    return any;
}

/* Is a curve in the picture of `word`? NULL: all are. "": those whose word no other has. */
static int belongs(const span *s, const char *word) {
    return !word || (*word ? s->alike > 1 && !strcmp(s->word, word) : s->alike == 1);
}

static ll_status picture(const plotted *d, const char *word, const char *folder, const char *ending) {
    const ll_plot *p = d->p;
    ll_curve curves[CURVES];
    const double *bands[CURVES];
    const int named = word && *word;
    char path[4200], title[200];
    int all = 0;
    snprintf(path, sizeof path, "%s/%s%s%s.%s", folder, p->name, named ? "-" : "", named ? word : "", ending);
    snprintf(title, sizeof title, "%s%s%s", p->title, named ? ": " : "", named ? word : "");
    ll_figure f = {.title = title, .x_label = p->x_label, .y_label = p->y_label, .log_x = p->log_x, .log_y = p->log_y};
    for (int i = 0; i < d->n; i++) {
        const span *s = &d->spans[i];
        if (!belongs(s, word) || (word && p->log_y && !has_positive(d, s)) || all++ >= CURVES) continue;
        curves[f.n] = (ll_curve){d->t->label[s->first], s->end - s->first, d->x + s->first, d->y + s->first};
        bands[f.n++] = d->half + s->first;
    }
    f.curves = curves;
    f.deviation = bands;
    if (!all) return LL_OK;
    if (f.n < all) ll_print("%s shows the first %d of %d curves; the table has all", path, f.n, all);
    const ll_status status = ll_figure_write(&f, path);
    if (!status) ll_analysis_wrote("figure", path);
    return status;
}

static ll_status pictures(plotted *d, const char *folder, const char *ending) {
    const ll_table *t = d->t;
    for (int r = 0; r < t->rows; r++) {
        d->x[r] = at(t, r, d->p->x);
        d->y[r] = at(t, r, d->p->y);
        d->half[r] = d->p->deviation >= 0 ? at(t, r, d->p->deviation) : 0;
    }
    if (!d->p->split || d->n <= SPLIT) return picture(d, NULL, folder, ending);
    ll_status status = picture(d, "", folder, ending);
    for (int i = 0; i < d->n && !status; i++) {
        int seen = d->spans[i].alike == 1;
        for (int j = 0; j < i && !seen; j++) seen = !strcmp(d->spans[i].word, d->spans[j].word);
        if (!seen) status = picture(d, d->spans[i].word, folder, ending);
    }
    return status;
}

ll_status ll_analysis_pictures(const ll_table *t, const char *folder, const char *ending) {
    ll_status status = LL_OK;
    double *buffer = calloc(3 * (size_t)t->rows + 1, sizeof *buffer);
    span *spans = calloc((size_t)t->rows + 1, sizeof *spans);
    if (!buffer || !spans) status = LL_ENOMEM;
    plotted d = {.t = t, .x = buffer, .spans = spans};
    if (!status) d.y = buffer + t->rows, d.half = d.y + t->rows, d.n = list_spans(spans, t);
    for (int i = 0; i < t->plots && !status; i++) {
        d.p = &t->plot[i];
        status = pictures(&d, folder, ending);
    }
    free(spans);
    free(buffer);
    return status;
}
