/* The picture of a figure: curves on white, their names at their ends, thin lines at round numbers. The palette is that
 * of pages on white (style.css). The drawing is made for a page of about 960 x 540 and scaled to the requested size. */
#include <math.h>
#include <string.h>

#include "report/pen.h"
#include "report/report_internal.h"

enum { MARKED = 30 /* a curve of at most so many points shows each of them */ };
static const int COLOUR[LL_COLOURS] = {0x0072b2, 0xd55e00, 0x00845f, 0xaa4499, 0xb87a00, 0x2f94d2, 0x4a4a4a};
/* The same for text, which needs a contrast of 4.5 to 1: where a colour has less, it is mixed with INK. */
static const int TEXT[LL_COLOURS] = {0x0072b2, 0xc15804, 0x00845f, 0xaa4499, 0xa06c06, 0x2c7cae, 0x4a4a4a};
/* Lengths of dashes and of what is between them: one for each use of the palette. */
static const double DASH[LL_DASHES][4] = {{0}, {7, 5}, {1, 5}, {10, 5, 1, 5}, {16, 5}};
static const int DASH_PARTS[LL_DASHES] = {0, 2, 2, 4, 2};
static const double LINE = 17;

typedef struct {
    const ll_figure *figure;
    const int *faint;
    cairo_t *cr;
    double width, height;            /* of the page, before scaling */
    double left, right, top, bottom; /* of the plot */
    ll_axis x, y;
    char x_title[LL_AXIS_TITLE], y_title[LL_AXIS_TITLE];
    int labels;
    double line; /* height of a line of labels */
    ll_label label[LL_CURVES_MOST];
    ll_cover cover; /* by curves */
} page;

/* ---- What can be drawn ---- */

/* Half the height of a curve's band at point i; 0: no band. */
static double deviation(const page *p, int curve, int i) {
    const double *half = p->figure->deviation ? p->figure->deviation[curve] : NULL;
    return half && half[i] > 0 ? half[i] : 0;
}

/* Index of the last point of a curve that can be drawn, or -1. */
static int last_point(const page *p, const ll_curve *c) {
    int i = c->n - 1;
    while (i >= 0 && !ll_axis_takes_point(p->figure, c, i)) i--;
    return i;
}

static int find_ranges(const page *p, double x[2], double y[2]) {
    x[0] = y[0] = INFINITY;
    x[1] = y[1] = -INFINITY;
    for (int k = 0; k < p->figure->n; k++) {
        const ll_curve *c = &p->figure->curves[k];
        for (int i = 0; i < c->n; i++) {
            if (!ll_axis_takes_point(p->figure, c, i)) continue;
            x[0] = fmin(x[0], c->x[i]);
            x[1] = fmax(x[1], c->x[i]);
            y[0] = fmin(y[0], c->y[i]);
            y[1] = fmax(y[1], c->y[i]);
            const double half = deviation(p, k, i);
            const double low = p->figure->log_y ? c->y[i] / (1 + half / c->y[i]) : c->y[i] - half;
            if (ll_axis_takes(p->figure->log_y, low)) y[0] = fmin(y[0], low);
            if (ll_axis_takes(p->figure->log_y, c->y[i] + half)) y[1] = fmax(y[1], c->y[i] + half);
        }
    }
    return x[0] <= x[1];
}

/* ---- Layout ---- */

static double widest(cairo_t *cr, const ll_axis *axis) {
    double most = 0;
    for (int i = 0; i < axis->n; i++) {
        cairo_text_extents_t e;
        cairo_text_extents(cr, axis->tick[i].text, &e);
        most = fmax(most, e.x_advance);
    }
    return most;
}

static int drawable_points(const page *p, const ll_curve *c) {
    int n = 0;
    for (int i = 0; i < c->n; i++) n += ll_axis_takes_point(p->figure, c, i);
    return n;
}

/* The font of labels, which is smaller if there are more than fit. */
static void label_font(const page *p) { font(p->cr, TEXT_SIZE * p->line / LINE, 1); }

static void set_label_size(page *p) {
    int n = 0;
    for (int k = 0; k < p->figure->n; k++)
        n += p->figure->curves[k].label && *p->figure->curves[k].label && last_point(p, &p->figure->curves[k]) >= 0;
    p->line = n > 1 ? fmin(LINE, (p->bottom - 4 - p->top) / (n - 1)) : LINE;
    label_font(p);
}

/* The plot ends where every name still fits beside the end of its curve. */
static void set_right_margin(page *p) {
    p->right = p->width - 26;
    for (int k = 0; k < p->figure->n; k++) {
        const ll_curve *c = &p->figure->curves[k];
        const int last = last_point(p, c);
        ll_label *l = &p->label[p->labels];
        if (last < 0 || !c->label || !*c->label) continue;
        *l = (ll_label){.curve = k, .x = c->x[last], .y = c->y[last]};
        l->width = ll_label_fit(p->cr, l->text, sizeof l->text, c->label, 0.3 * p->width);
        const double position = ll_axis_position(&p->x, l->x); /* until now the axis covers 0..1 */
        const double space = p->width - 16 - LL_LABEL_GAP - l->width - p->left;
        if (position > 1e-6) p->right = fmin(p->right, p->left + space / position);
        p->labels++;
    }
}

/* The figure's vertical line and its name. */
typedef struct {
    double x, from, width;
    char text[128];
} mark_line;

/* 0: there is none. */
static int find_mark(const page *p, mark_line *m) {
    const ll_figure *f = p->figure;
    if (!f->mark || !ll_axis_takes(f->log_x, f->mark_at) || f->mark_at < p->x.lo || f->mark_at > p->x.hi) return 0;
    font(p->cr, TEXT_SIZE, 0);
    m->x = ll_axis_position(&p->x, f->mark_at);
    const double left = m->x - 6 - p->left, right = p->right - 6 - m->x, most = fmin(0.4 * p->width, fmax(left, right));
    m->width = ll_label_fit(p->cr, m->text, sizeof m->text, f->mark, most);
    m->from = m->width > right ? m->x - 6 - m->width : m->x + 6;
    return 1;
}

static void cover_dot(page *p, double x, double y) {
    const double radius = 3.6;
    ll_cover_line(&p->cover, x - radius, y, x + radius, y);
    ll_cover_line(&p->cover, x, y - radius, x, y + radius);
}

static void cover_curve(page *p, const ll_curve *c) {
    double x = NAN, y = NAN;
    const int dots = drawable_points(p, c) <= MARKED;
    for (int i = 0; i < c->n; i++) {
        if (!ll_axis_takes_point(p->figure, c, i)) continue;
        const double next_x = ll_axis_position(&p->x, c->x[i]), next_y = ll_axis_position(&p->y, c->y[i]);
        if (!isnan(x)) ll_cover_line(&p->cover, x, y, next_x, next_y);
        if (dots) cover_dot(p, next_x, next_y);
        x = next_x, y = next_y;
    }
}

static void place_labels(page *p) {
    mark_line m;
    for (int i = 0; i < p->labels; i++) {
        ll_label *l = &p->label[i];
        l->end_x = ll_axis_position(&p->x, l->x);
        l->end_y = ll_axis_position(&p->y, l->y);
        l->x = l->end_x + LL_LABEL_GAP;
        l->y = l->end_y;
    }
    ll_labels_spread(p->label, p->labels, p->line, p->top, p->bottom - 4);
    p->cover.width = p->width, p->cover.height = p->height;
    p->cover.left = p->left + 4, p->cover.right = p->width - 12;
    p->cover.top = p->top, p->cover.bottom = p->bottom - 8;
    for (int k = 0; k < p->figure->n; k++) cover_curve(p, &p->figure->curves[k]);
    if (find_mark(p, &m)) {
        ll_cover_line(&p->cover, m.x, p->top, m.x, p->bottom);
        for (int i = 0; i < 3; i++) ll_cover_line(&p->cover, m.from, p->top + 4 * i, m.from + m.width, p->top + 4 * i);
    }
    ll_labels_clear(p->label, p->labels, &p->cover, p->line);
}

static int arrange(page *p) {
    const ll_figure *f = p->figure;
    double x[2], y[2];
    if (!find_ranges(p, x, y)) return 0;
    ll_axis_title(p->x_title, f->x_label, f->log_x);
    ll_axis_title(p->y_title, f->y_label, f->log_y);
    p->top = 24 + (f->title && *f->title ? 30 : 0) + (p->y_title[0] ? 24 : 0);
    p->bottom = p->height - (p->x_title[0] ? 58 : 36);
    font(p->cr, TEXT_SIZE, 0);
    ll_axis_set_y(&p->y, f, y[0], y[1], p->bottom - p->top);
    p->y.from = p->bottom;
    p->y.to = p->top;
    p->left = 24 + widest(p->cr, &p->y) + 10;
    ll_axis_set(&p->x, f->log_x, x[0], x[1], p->width - 26 - p->left, 84, 0);
    p->x.to = 1;
    set_label_size(p);
    set_right_margin(p);
    ll_axis_set(&p->x, f->log_x, x[0], x[1], p->right - p->left, 84, 0);
    p->x.from = p->left;
    p->x.to = p->right;
    place_labels(p);
    return 1;
}

/* ---- Drawing ---- */

static void line(cairo_t *cr, double x0, double y0, double x1, double y1, double width, int rgb) {
    colour(cr, rgb, 1);
    cairo_set_line_width(cr, width);
    cairo_move_to(cr, x0, y0);
    cairo_line_to(cr, x1, y1);
    cairo_stroke(cr);
}

static void draw_axes(const page *p) {
    cairo_t *cr = p->cr;
    font(cr, TEXT_SIZE, 0);
    for (int i = 0; i < p->y.n; i++) {
        const ll_tick *t = &p->y.tick[i];
        const double y = ll_axis_position(&p->y, t->at);
        if (!t->text[0]) continue;
        line(cr, p->left, y, p->right, y, 1, GRID);
        colour(cr, QUIET, 1);
        write_text(cr, p->left - 10, y + 4.5, 1, t->text);
    }
    line(cr, p->left, p->bottom, p->right, p->bottom, 1, AXIS);
    for (int i = 0; i < p->x.n; i++) {
        const ll_tick *t = &p->x.tick[i];
        const double x = ll_axis_position(&p->x, t->at);
        line(cr, x, p->bottom, x, p->bottom + (t->text[0] ? 6 : 3), 1, AXIS);
        colour(cr, QUIET, 1);
        write_text(cr, x, p->bottom + 21, 0.5, t->text);
    }
}

/* A vertical line with a name, if the figure has one. */
static void draw_mark(const page *p) {
    const double dash[2] = {4, 4};
    mark_line m;
    if (!find_mark(p, &m)) return;
    cairo_set_dash(p->cr, dash, 2, 0);
    line(p->cr, m.x, p->top, m.x, p->bottom, 1, AXIS);
    cairo_set_dash(p->cr, dash, 0, 0);
    colour(p->cr, QUIET, 1);
    write_text(p->cr, m.from, p->top + 10, 0, m.text);
}

static void draw_words(const page *p) {
    const ll_figure *f = p->figure;
    const double most = p->width - 48;
    char text[512];
    double y = 38;
    colour(p->cr, INK, 1);
    if (f->title && *f->title) {
        font(p->cr, TITLE_SIZE, 1);
        ll_label_fit(p->cr, text, sizeof text, f->title, most);
        write_text(p->cr, 24, y, 0, text);
        y += 25;
    }
    font(p->cr, TEXT_SIZE, 0);
    colour(p->cr, QUIET, 1);
    if (p->y_title[0]) {
        ll_label_fit(p->cr, text, sizeof text, p->y_title, most);
        write_text(p->cr, 24, y, 0, text);
    }
    if (p->x_title[0]) {
        const double middle = (p->left + p->right) / 2, side = fmin(middle - 24, p->width - 24 - middle);
        ll_label_fit(p->cr, text, sizeof text, p->x_title, 2 * side);
        write_text(p->cr, middle, p->height - 16, 0.5, text);
    }
}

/* Within half a unit of the page only the lowest and the highest point are drawn, so that a curve of a million points
 * is a small file. */
static void trace(const page *p, const ll_curve *c) {
    double column = NAN, low = 0, high = 0;
    for (int i = 0; i < c->n; i++) {
        if (!ll_axis_takes_point(p->figure, c, i)) continue;
        const double x = ll_axis_position(&p->x, c->x[i]), y = ll_axis_position(&p->y, c->y[i]);
        const double at = c->n > 2000 ? floor(2 * x) : NAN;
        if (at == column && y >= low && y <= high) continue;
        cairo_line_to(p->cr, x, y);
        low = at == column ? fmin(low, y) : y;
        high = at == column ? fmax(high, y) : y;
        column = at;
    }
}

static void draw_points(const page *p, const ll_curve *c, int rgb) {
    const int n = drawable_points(p, c), last = last_point(p, c);
    for (int i = 0; i < c->n; i++) {
        if (!ll_axis_takes_point(p->figure, c, i) || (n > MARKED && i != last)) continue;
        cairo_new_sub_path(p->cr);
        cairo_arc(p->cr, ll_axis_position(&p->x, c->x[i]), ll_axis_position(&p->y, c->y[i]), 3.6, 0, 2 * M_PI);
    }
    colour(p->cr, rgb, 1);
    cairo_fill_preserve(p->cr);
    colour(p->cr, PAPER, 1);
    cairo_set_line_width(p->cr, 1.2);
    cairo_stroke(p->cr);
}

/* The y of a band's edge. On a logarithmic axis it reaches as far down as up, because y - deviation may be negative. */
static void edge(const page *p, int curve, int i, double sign) {
    const ll_curve *c = &p->figure->curves[curve];
    const double half = deviation(p, curve, i), y = c->y[i];
    if (!ll_axis_takes_point(p->figure, c, i)) return;
    const double at = ll_axis_position(&p->y, p->figure->log_y ? y * pow(1 + half / y, sign) : y + sign * half);
    cairo_line_to(p->cr, ll_axis_position(&p->x, c->x[i]), fmin(fmax(at, p->top), p->bottom));
}

static void draw_bands(const page *p) {
    for (int k = p->figure->n - 1; k >= 0 && p->figure->deviation; k--) {
        const int n = p->figure->curves[k].n;
        if (!p->figure->deviation[k]) continue;
        cairo_new_path(p->cr);
        for (int i = 0; i < n; i++) edge(p, k, i, 1);
        for (int i = n - 1; i >= 0; i--) edge(p, k, i, -1);
        colour(p->cr, COLOUR[k % LL_COLOURS], 0.16);
        cairo_fill(p->cr);
    }
}

static void draw_curves(const page *p) {
    cairo_set_line_join(p->cr, CAIRO_LINE_JOIN_ROUND);
    cairo_set_line_cap(p->cr, CAIRO_LINE_CAP_ROUND);
    for (int k = p->figure->n - 1; k >= 0; k--) { /* the first curve is on top */
        const int pale = p->faint && p->faint[k], rgb = COLOUR[k % LL_COLOURS], dash = k / LL_COLOURS % LL_DASHES;
        cairo_set_dash(p->cr, DASH[dash], DASH_PARTS[dash], 0);
        colour(p->cr, rgb, pale ? 0.5 : 1);
        cairo_set_line_width(p->cr, pale ? 1.1 : 2.4);
        cairo_new_path(p->cr); /* text leaves a current point */
        trace(p, &p->figure->curves[k]);
        cairo_stroke(p->cr);
        cairo_set_dash(p->cr, NULL, 0, 0);
        if (!pale || drawable_points(p, &p->figure->curves[k]) == 1) /* one point is no line */
            draw_points(p, &p->figure->curves[k], rgb);
    }
}

static void draw_labels(const page *p) {
    label_font(p);
    for (int i = 0; i < p->labels; i++) { /* on a rim of paper, in case another curve passes below */
        const ll_label *l = &p->label[i];
        const double baseline = l->y + 4.5 * p->line / LINE;
        cairo_move_to(p->cr, l->x, baseline);
        cairo_text_path(p->cr, l->text);
        colour(p->cr, PAPER, 0.9);
        cairo_set_line_width(p->cr, 4 * p->line / LINE);
        cairo_stroke(p->cr);
        colour(p->cr, TEXT[l->curve % LL_COLOURS], 1);
        cairo_move_to(p->cr, l->x, baseline);
        cairo_show_text(p->cr, l->text);
    }
}

int ll_page_draw(cairo_surface_t *surface, const ll_figure *f, const int *faint, int width, int height) {
    cairo_t *cr = cairo_create(surface);
    const double scale = fmin(fmax(fmin(width / 960.0, height / 540.0), 0.5), 20);
    page p = {.figure = f, .faint = faint, .cr = cr, .width = width / scale, .height = height / scale};
    plain_text(cr);
    cairo_scale(cr, scale, scale);
    colour(cr, PAPER, 1);
    cairo_paint(cr);
    const int any = arrange(&p);
    if (any) {
        draw_axes(&p);
        draw_bands(&p);
        draw_mark(&p);
        draw_curves(&p);
        draw_labels(&p);
        draw_words(&p);
    }
    const int failed = cairo_status(cr) != CAIRO_STATUS_SUCCESS;
    cairo_destroy(cr);
    return failed ? -1 : any;
}
