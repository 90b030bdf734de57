/* The numbers of figures, in CSV files. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/integer.h"
#include "base/text.h"
#include "report/html.h"

typedef struct {
    ll_writer *writer;
    ll_status status;
} file;

static void put(file *f, const char *text) {
    if (!f->status) f->status = ll_writer_put(f->writer, text, strlen(text));
}

static void number(file *f, double value) {
    char text[LL_NUMBER_TEXT] = "";
    if (isfinite(value)) ll_print_number(text, value);
    put(f, text);
}

static void count(file *f, int value) {
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    put(f, text);
}

/* A name, in quotes if necessary. */
static void name(file *f, const char *text) {
    if (!text) return;
    if (!text[strcspn(text, ",\"\r\n")]) {
        put(f, text);
        return;
    }
    put(f, "\"");
    for (const char *c = text; *c; c++) put(f, *c == '"' ? "\"\"" : (const char[]){*c, 0});
    put(f, "\"");
}

static int same_x(const ll_figure *f) {
    for (int i = 1; i < f->n; i++)
        if (f->curves[i].x != f->curves[0].x || f->curves[i].n != f->curves[0].n) return 0;
    return 1;
}

static void wide(file *out, const ll_figure *f) {
    name(out, f->x_label ? f->x_label : "x");
    for (int i = 0; i < f->n; i++) put(out, ","), name(out, f->curves[i].label);
    put(out, "\n");
    for (int r = 0; r < f->curves[0].n; r++) {
        number(out, f->curves[0].x[r]);
        for (int i = 0; i < f->n; i++) put(out, ","), number(out, f->curves[i].y[r]);
        put(out, "\n");
    }
}

static void tall(file *out, const ll_figure *f) {
    put(out, "curve,");
    name(out, f->x_label ? f->x_label : "x");
    put(out, ",");
    name(out, f->y_label ? f->y_label : "y");
    put(out, "\n");
    for (int i = 0; i < f->n; i++)
        for (int r = 0; r < f->curves[i].n; r++) {
            name(out, f->curves[i].label);
            put(out, ",");
            number(out, f->curves[i].x[r]);
            put(out, ",");
            number(out, f->curves[i].y[r]);
            put(out, "\n");
        }
}

static ll_status finish(file *f) {
    if (!f->status) return ll_writer_commit(f->writer);
    ll_writer_abandon(f->writer);
    return f->status;
}

ll_status ll_csv_figure(const char *path, const ll_figure *figure) {
    file f = {0};
    const ll_status status = ll_writer_open(&f.writer, path);
    if (status) return status;
    if (same_x(figure))
        wide(&f, figure);
    else
        tall(&f, figure);
    return finish(&f);
}

static void label(file *f, const char *const *names, int number) {
    if (names)
        name(f, names[number]);
    else
        count(f, number);
}

/* Panels may differ in width: the first row of numbers names the columns of the widest. */
ll_status ll_csv_heat_map(const char *path, const ll_heat_map *m) {
    file f = {0};
    int widest = 0;
    const ll_status status = ll_writer_open(&f.writer, path);
    if (status) return status;
    for (int i = 0; i < m->n; i++) widest = ll_max_int(m->panels[i].cols, widest);
    put(&f, "panel,row");
    for (int c = 0; c < widest; c++) put(&f, ","), label(&f, ll_heat_map_columns(m), c);
    put(&f, "\n");
    for (int i = 0; i < m->n; i++)
        for (int r = 0; r < m->panels[i].rows; r++) {
            const ll_panel *p = &m->panels[i];
            name(&f, p->label);
            put(&f, ",");
            label(&f, m->names, r);
            for (int c = 0; c < widest; c++) {
                put(&f, ",");
                if (c < p->cols) number(&f, p->value[(size_t)r * (size_t)p->cols + (size_t)c]);
            }
            put(&f, "\n");
        }
    return finish(&f);
}
