/* Curves on the page: a drawing that is stretched to its box, and words that are not. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/integer.h"
#include "base/memory.h"
#include "base/text.h"
#include "report/html.h"

/* The size of the drawing in its own units; ticks are chosen for a box of this many pixels. */
enum { ACROSS = 2000, UP = 1000, BOX_WIDTH = 640, BOX_HEIGHT = 300, BINS = 400, TABLE_ROWS = 12, MARKED = 30 };

typedef struct {
    ll_html *h;
    const ll_figure *f;
    const int *faint;
    ll_axis x, y;
    int *index[LL_CURVES_MOST], n[LL_CURVES_MOST]; /* the points that are drawn */
} plot;

/* Four digits, or all of a whole number: "2.131", "40", "1,024", "1,234,567", "1.235M". */
static const char *number(char out[32], double v) {
    const double size = fabs(v);
    const double step = size > 0 ? pow(10, floor(log10(size)) - 3) : 1;
    const int whole = size < 1e12 && v == round(v);
    ll_number_text(out, 32, v, whole || (size >= 1000 && size < 1e6) ? 1 : step, whole ? fmin(size, 999999) : v);
    return out;
}

static const char *label_of(const ll_curve *c) {
    return c->label && *c->label ? c->label : "curve";
}

static int any_points(plot *p) {
    double x[2] = {INFINITY, -INFINITY}, y[2] = {INFINITY, -INFINITY};
    const ll_figure *f = p->f;
    for (int k = 0; k < f->n; k++)
        for (int i = 0; i < p->n[k]; i++) {
            const int at = p->index[k][i];
            x[0] = fmin(x[0], f->curves[k].x[at]), x[1] = fmax(x[1], f->curves[k].x[at]);
            y[0] = fmin(y[0], f->curves[k].y[at]), y[1] = fmax(y[1], f->curves[k].y[at]);
        }
    if (x[0] > x[1]) return 0;
    ll_axis_set(&p->x, f->log_x, x[0], x[1], BOX_WIDTH, 84, 0);
    ll_axis_set_y(&p->y, f, y[0], y[1], BOX_HEIGHT);
    p->x.to = ACROSS;
    p->y.from = UP;
    return 1;
}

static int across(const plot *p, double v) {
    return (int)lround(ll_axis_position(&p->x, v));
}
static int up(const plot *p, double v) {
    return (int)lround(ll_axis_position(&p->y, v));
}

static int is_faint(const plot *p, int k) { return p->faint && p->faint[k]; }

/* The classes of a curve's line, also in the key. */
static void line_class(const plot *p, int k) {
    ll_html_print(p->h, "<path class=\"line c%d%s", k % LL_COLOURS, is_faint(p, k) ? " faint" : "");
    if (k >= LL_COLOURS) ll_html_print(p->h, " dash%d", k / LL_COLOURS % LL_DASHES);
}

/* ---- Words ---- */

static void key(const plot *p) {
    char text[32];
    if (p->f->n < 2) return;
    ll_html_put(p->h, "<ul class=\"key\">\n");
    for (int k = 0; k < p->f->n; k++) {
        if (!p->n[k]) continue;
        const ll_curve *c = &p->f->curves[k];
        ll_html_put(p->h, "<li><svg viewBox=\"0 0 36 6\" aria-hidden=\"true\">");
        line_class(p, k);
        ll_html_put(p->h, "\" d=\"M2 3H34\"/></svg>");
        ll_html_text(p->h, label_of(c));
        ll_html_print(p->h, " <b>%s</b></li>\n", number(text, c->y[p->index[k][p->n[k] - 1]]));
    }
    ll_html_put(p->h, "</ul>\n");
}

/* A description of the figure for screen readers. */
static void describe(const plot *p) {
    char a[4][32], title[LL_AXIS_TITLE];
    ll_html_put(p->h, "Chart of ");
    ll_axis_title(title, p->f->y_label ? p->f->y_label : "y", p->f->log_y);
    ll_html_text(p->h, title);
    ll_html_put(p->h, " against ");
    ll_axis_title(title, p->f->x_label ? p->f->x_label : "x", p->f->log_x);
    ll_html_text(p->h, title);
    ll_html_put(p->h, ".");
    for (int k = 0; k < p->f->n; k++) {
        if (!p->n[k]) continue;
        const ll_curve *c = &p->f->curves[k];
        const int first = p->index[k][0], last = p->index[k][p->n[k] - 1];
        ll_html_put(p->h, " ");
        ll_html_text(p->h, label_of(c));
        ll_html_print(p->h, ": from %s at %s to %s at %s.", number(a[0], c->y[first]), number(a[1], c->x[first]),
                      number(a[2], c->y[last]), number(a[3], c->x[last]));
    }
}

static void ticks(const plot *p) {
    int numbered = 0;
    for (int i = 0; i < p->x.n; i++) numbered += p->x.tick[i].text[0] != 0;
    ll_html_put(p->h, "<div class=\"y\" aria-hidden=\"true\">");
    for (int i = 0; i < p->y.n; i++)
        if (p->y.tick[i].text[0])
            ll_html_print(p->h, "<span style=\"top:%.1f%%\">%s</span>", up(p, p->y.tick[i].at) * 100.0 / UP,
                          p->y.tick[i].text);
    ll_html_print(p->h, "</div>\n<div class=\"x%s\" aria-hidden=\"true\">", numbered > 5 ? " many" : "");
    for (int i = 0; i < p->x.n; i++)
        if (p->x.tick[i].text[0])
            ll_html_print(p->h, "<span style=\"left:%.1f%%\">%s</span>", across(p, p->x.tick[i].at) * 100.0 / ACROSS,
                          p->x.tick[i].text);
    ll_html_put(p->h, "</div>\n");
}

/* ---- The drawing ---- */

static void grid(const plot *p) {
    ll_html_put(p->h, "<path class=\"grid\" d=\"");
    for (int i = 0; i < p->y.n; i++)
        if (p->y.tick[i].text[0]) ll_html_print(p->h, "M0 %dH%d", up(p, p->y.tick[i].at), ACROSS);
    ll_html_put(p->h, "\"/>\n<path class=\"tick\" d=\"");
    for (int i = 0; i < p->x.n; i++)
        ll_html_print(p->h, "M%d %dv%d", across(p, p->x.tick[i].at), UP, p->x.tick[i].text[0] ? -20 : -10);
    ll_html_put(p->h, "\"/>\n");
}

static void curve(const plot *p, int k) {
    const ll_curve *c = &p->f->curves[k];
    if (!p->n[k]) return;
    line_class(p, k);
    ll_html_put(p->h, "\" d=\"");
    for (int i = 0; i < p->n[k]; i++) {
        const int at = p->index[k][i];
        ll_html_print(p->h, "%s%d %d", i ? " " : "M", across(p, c->x[at]), up(p, c->y[at]));
    }
    ll_html_put(p->h, "\"/>\n");
    if (p->n[k] > MARKED || (is_faint(p, k) && p->n[k] > 1)) return;      /* one point is no line */
    ll_html_print(p->h, "<path class=\"dots c%d\" d=\"", k % LL_COLOURS); /* lines of no length with round ends */
    for (int i = 0; i < p->n[k]; i++)
        ll_html_print(p->h, "M%d %dh0", across(p, c->x[p->index[k][i]]), up(p, c->y[p->index[k][i]]));
    ll_html_put(p->h, "\"/>\n");
}

static void mark(const plot *p) {
    const ll_figure *f = p->f;
    if (!f->mark || !ll_axis_takes(f->log_x, f->mark_at) || f->mark_at < p->x.lo || f->mark_at > p->x.hi) return;
    const int at = across(p, f->mark_at);
    ll_html_print(p->h, "<div class=\"mark%s\" style=\"left:%.1f%%\"><span>", at > ACROSS / 2 ? " before" : "",
                  at * 100.0 / ACROSS);
    ll_html_text(p->h, f->mark);
    ll_html_put(p->h, "</span></div>\n");
}

static void drawing(const plot *p) {
    char title[LL_AXIS_TITLE];
    int longest = 1;
    for (int i = 0; i < p->y.n; i++) {
        const int n = ll_text_columns(p->y.tick[i].text);
        if (n > longest) longest = n;
    }
    ll_axis_title(title, p->f->y_label, p->f->log_y);
    if (title[0]) {
        ll_html_put(p->h, "<p class=\"axis\" aria-hidden=\"true\">");
        ll_html_text(p->h, title);
        ll_html_put(p->h, "</p>\n");
    }
    ll_html_print(p->h, "<div class=\"plot\" style=\"--left:%.1fch\" role=\"img\" aria-label=\"",
                  1.5 + (double)longest);
    describe(p);
    ll_html_print(p->h, "\">\n<svg viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\n", ACROSS,
                  UP);
    grid(p);
    for (int k = p->f->n - 1; k >= 0; k--) curve(p, k); /* the first curve is on top */
    ll_html_put(p->h, "</svg>\n");
    ticks(p);
    mark(p);
    ll_html_put(p->h, "</div>\n");
    ll_axis_title(title, p->f->x_label, p->f->log_x);
    if (title[0]) {
        ll_html_put(p->h, "<p class=\"axis below\" aria-hidden=\"true\">");
        ll_html_text(p->h, title);
        ll_html_put(p->h, "</p>\n");
    }
}

/* ---- The data ---- */

/* Some points of a curve, evenly chosen from the drawn ones. */
static void table(const plot *p, int k) {
    const ll_curve *c = &p->f->curves[k];
    char x[32], y[32];
    const char *const head[2] = {p->f->x_label ? p->f->x_label : "x", label_of(c)};
    const ll_html_table t = {.label = label_of(c), .cols = 2, .head = head, .numbers = 1};
    const int rows = ll_min_int(p->n[k], TABLE_ROWS);
    if (!rows) return;
    ll_html_table_begin(p->h, &t);
    for (int i = 0; i < rows; i++) {
        const int at = p->index[k][rows > 1 ? (int)((int64_t)i * (p->n[k] - 1) / (rows - 1)) : 0];
        const char *const cells[2] = {number(x, c->x[at]), number(y, c->y[at])};
        ll_html_row(p->h, 2, cells, 0);
    }
    ll_html_table_end(p->h);
}

static void write_files(ll_html *h, const char *name, const ll_figure *f, const int *faint) {
    char *svg = ll_html_path(h, name, "svg"), *csv = ll_html_path(h, name, "csv");
    if (svg && csv) {
        ll_html_fail(h, ll_figure_draw(f, faint, svg));
        if (!h->status) ll_html_fail(h, ll_csv_figure(csv, f));
    }
    ll_free(svg);
    ll_free(csv);
}

static void show(plot *p, const ll_html_about *about) {
    ll_html_print(p->h, "<figure class=\"chart\" id=\"%s\" data-figure=\"plot\">\n<figcaption>", about->name);
    ll_html_text(p->h, about->caption);
    ll_html_put(p->h, "</figcaption>\n");
    key(p);
    drawing(p);
    ll_html_put(p->h, "<details>\n<summary>Data</summary>\n");
    ll_html_files(p->h, about->name);
    ll_html_put(p->h, "<div class=\"tables\">\n");
    for (int k = 0; k < p->f->n; k++) table(p, k);
    ll_html_put(p->h, "</div>\n</details>\n</figure>\n");
}

void ll_html_plot(ll_html *h, const ll_html_about *about, const ll_figure *f, const int *faint) {
    plot p = {.h = h, .f = f, .faint = faint};
    for (int k = 0; k < f->n && !h->status; k++) {
        p.n[k] = ll_thin(f, &f->curves[k], BINS, NULL);
        p.index[k] = ll_alloc((size_t)p.n[k], sizeof **p.index);
        if (p.index[k])
            ll_thin(f, &f->curves[k], BINS, p.index[k]);
        else
            ll_html_fail(h, LL_ENOMEM);
    }
    if (!h->status && any_points(&p)) {
        write_files(h, about->name, f, faint);
        show(&p, about);
    }
    for (int k = 0; k < f->n; k++) ll_free(p.index[k]);
}

void ll_html_grid_begin(ll_html *h) {
    ll_html_put(h, "<div class=\"side\">\n");
}

void ll_html_grid_end(ll_html *h) {
    ll_html_put(h, "</div>\n");
}
