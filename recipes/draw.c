/* Draws rows of a CSV file, "name,x,..,y,.." with names of columns in the first line, as one curve a name.
 *
 *     cc draw.c $(pkg-config --cflags --libs longline-lab) && ./a.out results.csv out.svg "Title" step bits
 *
 * The next two arguments name the columns of x and y. Rows where one of them is no number are left out. A last argument
 * "log" makes the scale of x logarithmic. */
#include <longline-lab.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CURVES = 32, POINTS = 1 << 16, LINE = 4096 };

typedef struct {
    char name[CURVES][64];
    double x[CURVES][POINTS], y[CURVES][POINTS];
    int points[CURVES], curves;
} rows;

/* Number of the field with this name; -1: there is none. */
static int column(const char *header, const char *name) {
    const size_t n = strlen(name);
    int i = 0;
    for (const char *at = header; at; at = strchr(at, ','), i++) {
        at += *at == ',';
        if (!strncmp(at, name, n) && strchr(",\r\n", at[n])) return i;
    }
    return -1;
}

/* The text of field i of a line. */
static const char *field(const char *line, int i) {
    for (; line && i > 0; i--) line = (line = strchr(line, ',')) ? line + 1 : NULL;
    return line ? line : "";
}

/* NAN: it is no number. */
static double number(const char *text) {
    char *end;
    const double read = strtod(text, &end);
    return end == text ? NAN : read;
}

/* 0: there are too many. */
static int add(rows *r, const char *line, int x, int y) {
    char name[64] = "";
    snprintf(name, sizeof name, "%.*s", (int)strcspn(line, ","), line);
    int i = 0;
    while (i < r->curves && strcmp(r->name[i], name) != 0) i++;
    if (i == CURVES || r->points[i] == POINTS) return 0;
    const double at = number(field(line, x)), value = number(field(line, y));
    if (!isfinite(at) || !isfinite(value)) return 1;
    if (i == r->curves) strcpy(r->name[r->curves++], name);
    r->x[i][r->points[i]] = at;
    r->y[i][r->points[i]++] = value;
    return 1;
}

int main(int argc, char **argv) {
    static rows r;
    char line[LINE];
    if (argc < 6 || argc > 7 || (argc == 7 && strcmp(argv[6], "log") != 0)) {
        fprintf(stderr, "usage: %s ROWS.csv FIGURE.svg TITLE X Y [log]\n", argv[0]);
        return 2;
    }
    FILE *file = fopen(argv[1], "r");
    if (!file || !fgets(line, sizeof line, file)) {
        fprintf(stderr, "%s: cannot be read\n", argv[1]);
        return 1;
    }
    const int x = column(line, argv[4]), y = column(line, argv[5]);
    int fits = 1;
    while (x >= 0 && y >= 0 && fits && fgets(line, sizeof line, file)) fits = add(&r, line, x, y);
    fclose(file);
    if (!fits) {
        fprintf(stderr, "%s: more than %d names, or more than %d rows of one\n", argv[1], CURVES, POINTS);
        return 2;
    }
    if (x < 0 || y < 0) {
        fprintf(stderr, "%s: no column %s\n", argv[1], argv[x < 0 ? 4 : 5]);
        return 2;
    }
    ll_curve curve[CURVES];
    for (int i = 0; i < r.curves; i++) curve[i] = (ll_curve){r.name[i], r.points[i], r.x[i], r.y[i]};
    const ll_figure figure = {.title = argv[3],
                              .x_label = argv[4],
                              .y_label = argv[5],
                              .log_x = argc == 7,
                              .n = r.curves,
                              .curves = curve};
    if (!ll_figure_write(&figure, argv[2])) return 0;
    fprintf(stderr, "%s\n", ll_error());
    return 1;
}
