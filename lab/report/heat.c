/* Matrices as colours: panels in a grid, each an image with its label; below, the scale of colours. Blues and oranges
 * go from paper to dark in steps of equal lightness, so that prints, and readers who do not see red or green, show the
 * same order. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/integer.h"
#include "base/text.h"
#include "report/pen.h"
#include "report/report_internal.h"

enum { WIDTH = 960, SIDE = 24, GAP = 14, LABEL = 20, BAR = 160, STEPS = 5, PANELS_MOST = 1024 };
enum { MOST_ACROSS = 28 }; /* panels side by side that have 20 pixels each */
/* Least pixels of a panel's image: programs that show SVG may blur smaller ones. */
enum { FINE = 512 };
static const int BLUE[STEPS] = {0xffffff, 0xb3cde9, 0x6aa5d6, 0x2171b5, 0x08306b};
static const int ORANGE[STEPS] = {0xffffff, 0xfdc99b, 0xf5924a, 0xd94801, 0x7f2704};

/* ---- Colours ---- */

static int mix(int a, int b, double t) {
    int rgb = 0;
    for (int shift = 0; shift < 24; shift += 8) {
        const int x = a >> shift & 255, y = b >> shift & 255;
        rgb |= (int)lround(x + t * (y - x)) << shift;
    }
    return rgb;
}

/* t in -1..1 */
static int shade(double t) {
    const int *scale = t < 0 ? ORANGE : BLUE;
    const double at = fmin(fabs(t), 1) * (STEPS - 1);
    const int i = at >= STEPS - 1 ? STEPS - 2 : (int)at;
    return mix(scale[i], scale[i + 1], at - i);
}

static void widen(ll_shade_range *r, const float *value, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const double v = (double)value[i];
        if (!isfinite(v)) continue;
        r->low = fmin(r->low, v), r->high = fmax(r->high, v);
        r->strongest = fmax(r->strongest, fabs(v));
    }
}

static size_t size_of(const ll_panel *p) { return (size_t)p->rows * (size_t)p->cols; }

ll_shade_range ll_shade_range_of(const ll_heat_map *m, int panel, int row) {
    const ll_panel *p = &m->panels[panel];
    ll_shade_range r = {m->shades == LL_SHADES_RANGE, INFINITY, -INFINITY, 0};
    if (m->shades == LL_SHADES_ROW)
        widen(&r, p->value + (size_t)row * (size_t)p->cols, (size_t)p->cols);
    else if (m->shades == LL_SHADES_ALL)
        for (int k = 0; k < m->n; k++) widen(&r, m->panels[k].value, size_of(&m->panels[k]));
    else
        widen(&r, p->value, size_of(p));
    return r;
}

double ll_shade_of(const ll_shade_range *r, double v) {
    if (!isfinite(v)) return 0;
    if (r->full_range) return r->high > r->low ? (v - r->low) / (r->high - r->low) : 1;
    return r->strongest > 0 ? copysign(sqrt(fabs(v) / r->strongest), v) : 0;
}

const char *const *ll_heat_map_columns(const ll_heat_map *m) { return m->columns ? m->columns : m->names; }

int ll_heat_map_short_names(const ll_heat_map *m) {
    for (int i = 0; i < m->panels->cols; i++)
        if (strlen(ll_heat_map_columns(m)[i]) > 2) return 0;
    return 1;
}

int ll_shades_signed(const ll_heat_map *m) {
    for (int k = 0; k < m->n && m->shades != LL_SHADES_RANGE; k++)
        for (size_t i = 0; i < size_of(&m->panels[k]); i++)
            if (m->panels[k].value[i] < 0) return 1;
    return 0;
}

/* ---- Layout ---- */

typedef struct {
    int across, down;
    double cell, tall;  /* size of a cell, for a page of WIDTH */
    double top, height; /* y of the grid, height of the page */
} grid;

/* The height of a panel for its width. Cells are square, unless the panel would be too flat; with numbers they are
 * wider than high. */
static double shape_of(const ll_heat_map *m, const ll_panel *p) {
    return fmin(fmax((m->numbers ? 0.4 : 1) * p->rows / p->cols, 0.2), 5);
}

/* About the pixels that the longest name takes: there is nothing to measure text with yet. */
static double names_of(const ll_heat_map *m, const ll_panel *p) {
    size_t longest = 0;
    for (int i = 0; i < p->rows; i++) longest = ll_max_size(longest, strlen(m->names[i]));
    for (int i = 0; i < p->cols; i++) longest = ll_max_size(longest, strlen(ll_heat_map_columns(m)[i]));
    return 0.62 * SMALL_SIZE * (double)longest + 6;
}

/* The height of a panel over the width of its cell. Names take the same room to the left and below. */
static double tall_of(const ll_heat_map *m, const ll_panel *p, double cell) {
    const double shape = shape_of(m, p);
    if (!m->names) return fmin(shape, 1);
    if (!m->numbers) return 1;
    const double left = fmin(names_of(m, p) / cell, 0.25);
    return fmin(shape * (1 - left) + left, 1);
}

static grid lay_out(const ll_heat_map *m) {
    grid g = {.across = m->across > 0 ? m->across : (int)ceil(sqrt(m->n * 1.6))};
    if (g.across > m->n) g.across = m->n;
    if (g.across > MOST_ACROSS) g.across = MOST_ACROSS;
    if (m->n == 1 && !m->across) g.across = 1;
    g.down = ll_ceil_div(m->n, g.across);
    const double space = WIDTH - 2 * SIDE - (g.across - 1) * GAP;
    double shape = 0;
    for (int i = 0; i < m->n; i++) shape = fmax(shape, tall_of(m, &m->panels[i], space / g.across));
    g.cell = m->numbers ? space / g.across : fmin(space / g.across, 520 + 300 * (1 - shape));
    g.tall = g.cell * shape;
    g.top = 24 + (m->title && *m->title ? 28 : 0) + (m->y_label && *m->y_label ? 20 : 0);
    g.height = g.top + g.down * (g.tall + LABEL + GAP) + (m->x_label && *m->x_label ? 22 : 0) + 50;
    return g;
}

/* ---- Drawing ---- */

/* A number that is missing has a colour of its own where the least value has that of paper. */
static int colour_of(const ll_shade_range *r, double v) {
    enum { MISSING = 0xdddddd };
    return r->full_range && !isfinite(v) ? MISSING : shade(ll_shade_of(r, v));
}

/* The part of a square that a panel fills. */
static void extent_of(const ll_heat_map *m, const ll_panel *p, double side, double *width, double *height) {
    const double shape = shape_of(m, p);
    *width = shape > 1 ? side / shape : side;
    *height = *width * shape;
}

/* Numbers in cells, light on dark ones. */
static void draw_numbers(cairo_t *cr, const ll_heat_map *m, int panel, double x, double y, double side) {
    const ll_panel *p = &m->panels[panel];
    double width, height;
    extent_of(m, p, side, &width, &height);
    width /= p->cols, height /= p->rows;
    font(cr, SMALL_SIZE, 0);
    for (int i = 0; i < p->rows && width >= 3 * SMALL_SIZE && height >= 1.5 * SMALL_SIZE; i++) {
        const ll_shade_range r = ll_shade_range_of(m, panel, i);
        for (int k = 0; k < p->cols; k++) {
            const double v = (double)p->value[(size_t)i * (size_t)p->cols + (size_t)k];
            char text[32];
            if (!isfinite(v)) continue;
            ll_format_text(text, sizeof text, "%.*f", fabs(v) < 9.995 ? 2 : fabs(v) < 99.95 ? 1 : 0, v);
            colour(cr, fabs(ll_shade_of(&r, v)) > 0.6 ? PAPER : INK, 1);
            write_text(cr, x + (k + 0.5) * width, y + (i + 0.5) * height + 0.36 * SMALL_SIZE, 0.5, text);
        }
    }
}

static int draw_matrix(cairo_t *cr, const ll_heat_map *m, int panel, double x, double y, double side) {
    const ll_panel *p = &m->panels[panel];
    const int longest = ll_max_int(p->rows, p->cols);
    const int k = longest < FINE ? FINE / longest : 1, rows = k * p->rows, cols = k * p->cols;
    ll_shade_range r = ll_shade_range_of(m, panel, 0);
    cairo_surface_t *image = cairo_image_surface_create(CAIRO_FORMAT_RGB24, cols, rows);
    if (cairo_surface_status(image)) {
        cairo_surface_destroy(image);
        return -1;
    }
    unsigned char *data = cairo_image_surface_get_data(image);
    for (int i = 0; i < rows; i++) {
        if (m->shades == LL_SHADES_ROW && i % k == 0) r = ll_shade_range_of(m, panel, i / k);
        for (int c = 0; c < cols; c++) {
            const double v = (double)p->value[(size_t)(i / k) * (size_t)p->cols + (size_t)(c / k)];
            const uint32_t rgb = (uint32_t)colour_of(&r, v);
            memcpy(data + (size_t)i * (size_t)cairo_image_surface_get_stride(image) + 4 * (size_t)c, &rgb, sizeof rgb);
        }
    }
    cairo_surface_mark_dirty(image);
    double width, height;
    extent_of(m, p, side, &width, &height);
    cairo_save(cr);
    cairo_translate(cr, x, y);
    cairo_scale(cr, width / cols, height / rows);
    cairo_set_source_surface(cr, image, 0, 0);
    cairo_pattern_set_filter(cairo_get_source(cr), CAIRO_FILTER_NEAREST);
    cairo_paint(cr);
    cairo_restore(cr);
    cairo_surface_destroy(image);
    colour(cr, AXIS, 1);
    cairo_set_line_width(cr, 0.8);
    cairo_rectangle(cr, x, y, width, height);
    cairo_stroke(cr);
    if (m->numbers) draw_numbers(cr, m, panel, x, y, side);
    return 0;
}

static double widest_name(cairo_t *cr, const char *const *names, int n, double most) {
    char text[64];
    double widest = SMALL_SIZE - 2;
    for (int i = 0; i < n; i++) widest = fmax(widest, ll_label_fit(cr, text, sizeof text, names[i], most));
    return widest + 6;
}

/* Every n-th name is shown, so that they do not overlap. */
static int every(double step) { return (int)ceil(SMALL_SIZE / step); }

static void draw_row_names(cairo_t *cr, const ll_heat_map *m, int n, double x, double y, double step, double most) {
    char text[64];
    for (int i = 0; i < n; i += every(step)) {
        ll_label_fit(cr, text, sizeof text, m->names[i], most);
        write_text(cr, x - 6, y + (i + 0.5) * step + 0.36 * SMALL_SIZE, 1, text);
    }
}

/* Long names are vertical. */
static void draw_column_names(cairo_t *cr, const ll_heat_map *m, int n, double x, double y, double step, double most) {
    char text[64];
    const int across = ll_heat_map_short_names(m);
    for (int i = 0; i < n; i += every(step)) {
        const double at = x + (i + 0.5) * step;
        ll_label_fit(cr, text, sizeof text, ll_heat_map_columns(m)[i], most);
        cairo_save(cr);
        cairo_translate(cr, across ? at : at + 0.36 * SMALL_SIZE, across ? y + SMALL_SIZE : y + 6);
        if (!across) cairo_rotate(cr, -M_PI / 2);
        write_text(cr, 0, 0, across ? 0.5 : 1, text);
        cairo_restore(cr);
    }
}

/* Names of rows, to the right of which a matrix fits into the remaining width, and names of columns below it. */
static double draw_names(cairo_t *cr, const ll_heat_map *m, const ll_panel *p, double x, double y, double side) {
    const double most = 0.25 * side;
    font(cr, SMALL_SIZE, 0);
    colour(cr, QUIET, 1);
    const double left =
        fmax(widest_name(cr, m->names, p->rows, most), widest_name(cr, ll_heat_map_columns(m), p->cols, most));
    double width, height;
    extent_of(m, p, side - left, &width, &height);
    draw_row_names(cr, m, p->rows, x + left, y, height / p->rows, most);
    draw_column_names(cr, m, p->cols, x + left, y + height, width / p->cols, most);
    return left;
}

/* The scale: a strip of all colours, and the meaning of its ends: numbers where one panel has a range. */
static void draw_scale(cairo_t *cr, const ll_heat_map *m, double y) {
    static const char *const right[] = {
        [LL_SHADES_PANEL] = "largest of its panel; colours go with the square root",
        [LL_SHADES_ROW] = "largest of its row; colours go with the square root",
        [LL_SHADES_ALL] = "largest; colours go with the square root",
        [LL_SHADES_RANGE] = "largest of its panel",
    };
    const int from = ll_shades_signed(m) ? -1 : 0;
    const char *left = m->shades == LL_SHADES_RANGE ? "least" : from ? "-largest" : "0", *most = right[m->shades];
    const ll_shade_range range = ll_shade_range_of(m, 0, 0);
    char low[32], high[32];
    if (m->n == 1 && m->shades == LL_SHADES_RANGE && isfinite(range.low)) {
        ll_format_text(low, sizeof low, "%.4g", range.low), ll_format_text(high, sizeof high, "%.4g", range.high);
        left = low, most = high;
    }
    double x = SIDE;
    font(cr, TEXT_SIZE, 0);
    colour(cr, QUIET, 1);
    cairo_text_extents_t e;
    cairo_text_extents(cr, left, &e);
    write_text(cr, x, y + 11, 0, left);
    x += e.x_advance + 8;
    for (int i = 0; i < BAR; i++) {
        colour(cr, shade(from + (1.0 - from) * i / (BAR - 1)), 1);
        cairo_rectangle(cr, x + i, y, 1.5, 13);
        cairo_fill(cr);
    }
    colour(cr, AXIS, 1);
    cairo_set_line_width(cr, 0.8);
    cairo_rectangle(cr, x, y, BAR, 13);
    cairo_stroke(cr);
    colour(cr, QUIET, 1);
    write_text(cr, x + BAR + 8, y + 11, 0, most);
}

static void draw_words(cairo_t *cr, const ll_heat_map *m, const grid *g) {
    char text[512];
    double y = 38;
    if (m->title && *m->title) {
        font(cr, TITLE_SIZE, 1);
        colour(cr, INK, 1);
        ll_label_fit(cr, text, sizeof text, m->title, WIDTH - 2 * SIDE);
        write_text(cr, SIDE, y, 0, text);
        y += 24;
    }
    font(cr, TEXT_SIZE, 0);
    colour(cr, QUIET, 1);
    if (m->y_label && *m->y_label) {
        ll_label_fit(cr, text, sizeof text, m->y_label, WIDTH - 2 * SIDE);
        write_text(cr, SIDE, y, 0, text);
    }
    if (m->x_label && *m->x_label) {
        ll_label_fit(cr, text, sizeof text, m->x_label, WIDTH - 2 * SIDE);
        write_text(cr, SIDE, g->top + g->down * (g->tall + LABEL + GAP) + 10, 0, text);
    }
}

static int paint(cairo_surface_t *surface, const void *what, int width, int height) {
    const ll_heat_map *m = what;
    const grid g = lay_out(m);
    cairo_t *cr = cairo_create(surface);
    const double scale = fmin((double)width / WIDTH, height / g.height);
    int failed = 0;
    plain_text(cr);
    cairo_scale(cr, scale, scale);
    colour(cr, PAPER, 1);
    cairo_paint(cr);
    draw_words(cr, m, &g);
    for (int i = 0; i < m->n && !failed; i++) {
        const double x = SIDE + i % g.across * (g.cell + GAP), y = g.top + i / g.across * (g.tall + LABEL + GAP);
        char text[256];
        font(cr, TEXT_SIZE, 0);
        colour(cr, INK, 1);
        ll_label_fit(cr, text, sizeof text, m->panels[i].label ? m->panels[i].label : "", g.cell);
        write_text(cr, x, y + 14, 0, text);
        const double left = m->names ? draw_names(cr, m, &m->panels[i], x, y + LABEL, g.cell) : 0;
        failed = draw_matrix(cr, m, i, x + left, y + LABEL, g.cell - left);
    }
    draw_scale(cr, m, g.height - 34);
    failed |= cairo_status(cr) != CAIRO_STATUS_SUCCESS;
    cairo_destroy(cr);
    return failed ? -1 : 1;
}

ll_status ll_heat_map_write(const ll_heat_map *m, const char *path) {
    if (m->n < 1 || m->n > PANELS_MOST)
        return ll_fail(LL_EINVAL, "%s: a heat map has 1 to %d panels, not %d", path, (int)PANELS_MOST, m->n);
    for (int i = 0; i < m->n; i++)
        if (!m->panels[i].value || m->panels[i].rows < 1 || m->panels[i].cols < 1 ||
            m->panels[i].rows > LL_HEAT_MAP_LONGEST || m->panels[i].cols > LL_HEAT_MAP_LONGEST)
            return ll_fail(LL_EINVAL, "%s: panel %d is %d x %d; both must be 1 to %d", path, i, m->panels[i].rows,
                           m->panels[i].cols, LL_HEAT_MAP_LONGEST);
    const int width = m->width ? m->width : WIDTH;
    const int height = m->height ? m->height : (int)ceil(lay_out(m).height * width / WIDTH);
    return ll_picture_write(path, m->title, width, height, paint, m);
}
