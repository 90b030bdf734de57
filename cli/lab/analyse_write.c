/* Writes the tables of experiments. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lab/analyse_write.h"

enum { CURVES = 32 };

static double at(const ll_table *t, int row, int column) {
    return t->number[(size_t)row * (size_t)t->columns + (size_t)column];
}

/* Six significant digits, without trailing zeros. */
static const char *number_text(char *text, size_t size, double x, int digits) {
    if (isnan(x))
        snprintf(text, size, "%s", "");
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
    fprintf(file, "  {\"name\": \"%s\", \"title\": \"%s\", \"verdict\": \"%s\",\n   \"columns\": [\"%s\"", name,
            t->title, t->verdict, t->series);
    for (int c = 0; c < t->columns; c++) fprintf(file, ", \"%s\"", t->column[c]);
    fprintf(file, "],\n   \"rows\": [");
    for (int r = 0; r < t->rows; r++) {
        fprintf(file, "%s\n    [\"%s\"", r ? "," : "", t->label[r]);
        for (int c = 0; c < t->columns; c++)
            if (isfinite(at(t, r, c)))
                fprintf(file, ", %.9g", at(t, r, c));
            else
                fprintf(file, ", null");
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

/* Consecutive rows of one label are a curve; columns become arrays. */
static int gather(const ll_table *t, const ll_plot *p, double *x, double *y, double *half, ll_curve *curves,
                  const double **bands) {
    int n = 0;
    for (int r = 0; r < t->rows && n < CURVES; n++) {
        const int first = r;
        for (; r < t->rows && !strcmp(t->label[r], t->label[first]); r++) {
            x[r] = at(t, r, p->x);
            y[r] = at(t, r, p->y);
            half[r] = p->deviation >= 0 ? at(t, r, p->deviation) : 0;
        }
        curves[n] = (ll_curve){t->label[first], r - first, x + first, y + first};
        bands[n] = half + first;
    }
    return n;
}

/* Labels that have rows, one after the other. */
static int labels(const ll_table *t) {
    int n = t->rows > 0;
    for (int r = 1; r < t->rows; r++) n += strcmp(t->label[r], t->label[r - 1]) != 0;
    return n;
}

static ll_status picture(const ll_table *t, const ll_plot *p, const char *path, double *buffer) {
    ll_curve curves[CURVES];
    const double *bands[CURVES];
    ll_figure f = {
        .title = p->title, .x_label = p->x_label, .y_label = p->y_label, .log_x = p->log_x, .log_y = p->log_y};
    f.n = gather(t, p, buffer, buffer + t->rows, buffer + 2 * t->rows, curves, bands);
    f.curves = curves;
    f.deviation = bands;
    if (f.n < labels(t)) ll_print("%s shows the first %d of %d curves; the table has all", path, f.n, labels(t));
    return ll_figure_write(&f, path);
}

ll_status ll_analysis_pictures(const ll_table *t, const char *folder, const char *ending) {
    ll_status status = LL_OK;
    double *buffer = calloc(3 * (size_t)t->rows + 1, sizeof *buffer);
    if (!buffer) return LL_ENOMEM;
    for (int i = 0; i < t->plots && !status; i++) {
        char path[4200];
        snprintf(path, sizeof path, "%s/%s.%s", folder, t->plot[i].name, ending);
        status = picture(t, &t->plot[i], path, buffer);
        if (!status) ll_analysis_wrote("figure", path);
    }
    free(buffer);
    return status;
}
