/* Matrices as pictures. A panel is an image with a pixel a number, enlarged without smoothing; white is zero, so that
 * pictures with and without negative numbers read alike, and two colours that everybody can tell apart are the signs.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/report.h"

enum { INK = 0x1f2328, QUIET = 0x656d76, RIM = 0xd0d7de, POSITIVE = 0x0072b2, NEGATIVE = 0xd55e00 };
enum { WIDTH = 960, EDGE = 24, GAP = 18, PANEL_MOST = 420, SIDE_MOST = 4096, PANELS_MOST = 256 };
static const double TITLE_SIZE = 18, TEXT_SIZE = 13;

double ll_heatmap_full(const ll_heatmap *m, int panel, int row) {
    const size_t line = (size_t)m->cols, matrix = line * (size_t)m->rows;
    const size_t n = m->shades == LL_SHADES_ROW ? line : m->shades == LL_SHADES_PANEL ? matrix : matrix * m->panels;
    const double *first = m->values + (m->shades == LL_SHADES_ALL ? 0 : (size_t)panel * matrix);
    double most = 0;
    if (m->shades == LL_SHADES_ROW) first += (size_t)row * line;
    for (size_t i = 0; i < n; i++)
        if (isfinite(first[i])) most = fmax(most, fabs(first[i]));
    return most > 0 ? most : 1;
}

/* Where the panels go, on a page WIDTH wide. */
typedef struct {
    int columns, lines;
    double top, width, height, line; /* of a panel; from a panel to the one below */
    double page;                     /* height of it all */
} layout;

static int has(const char *text) {
    return text && *text;
}

static layout lay_out(const ll_heatmap *m) {
    layout l = {.columns = (int)ceil(sqrt(1.6 * m->panels))};
    if (l.columns > 8) l.columns = 8;
    l.lines = (m->panels + l.columns - 1) / l.columns;
    l.columns = (m->panels + l.lines - 1) / l.lines; /* lines as full as can be */
    const double room = (WIDTH - 2.0 * EDGE - GAP * (l.columns - 1)) / l.columns;
    const double shape = fmin(fmax((double)m->rows / m->cols, 0.2), 3);
    l.width = shape > 1 ? fmin(room, PANEL_MOST / shape) : fmin(room, fmax(PANEL_MOST, WIDTH * 0.7 * (1 - shape)));
    l.height = l.width * shape;
    l.line = l.height + (m->names ? 26 : 0) + GAP;
    l.top = EDGE + (has(m->title) ? 34 : 0) + (has(m->y_label) ? 24 : 0);
    l.page = l.top + l.lines * l.line + (has(m->x_label) ? 28 : 0) + 6;
    return l;
}

static void set_colour(cairo_t *cr, int rgb) {
    cairo_set_source_rgb(cr, (rgb >> 16) / 255.0, (rgb >> 8 & 255) / 255.0, (rgb & 255) / 255.0);
}

static void write_text(cairo_t *cr, double x, double y, double most, double size, int bold, int rgb, const char *text) {
    char fitted[512];
    cairo_select_font_face(cr, "sans-serif", CAIRO_FONT_SLANT_NORMAL,
                           bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(cr, size);
    ll_label_fit(cr, fitted, sizeof fitted, text, most);
    set_colour(cr, rgb);
    cairo_move_to(cr, x, y);
    cairo_show_text(cr, fitted);
}

/* White towards the colour of the sign, by the share of the full one. */
static uint32_t pixel(double value, double full) {
    if (!isfinite(value)) return 0xffffff;
    const double t = fmin(fabs(value) / full, 1);
    const int rgb = value < 0 ? NEGATIVE : POSITIVE;
    uint32_t out = 0;
    for (int shift = 16; shift >= 0; shift -= 8)
        out |= (uint32_t)lround(255 + t * ((rgb >> shift & 255) - 255)) << shift;
    return out;
}

/* Pixels of the image for a number: viewers of SVG smooth images, which must not reach far into a number. */
static int enlargement(const ll_heatmap *m) {
    const int longest = m->rows > m->cols ? m->rows : m->cols;
    return longest > 256 ? 1 : 512 / longest < 16 ? 512 / longest : 16;
}

static void fill_image(cairo_surface_t *image, const ll_heatmap *m, int panel, int by) {
    unsigned char *data = cairo_image_surface_get_data(image);
    const double *value = m->values + (size_t)panel * (size_t)m->rows * (size_t)m->cols;
    double full = 1;
    if (!data) return;
    for (int y = 0; y < m->rows * by; y++) {
        const int r = y / by;
        if (y == 0 || (m->shades == LL_SHADES_ROW && y % by == 0)) full = ll_heatmap_full(m, panel, r);
        unsigned char *line = data + (size_t)y * (size_t)cairo_image_surface_get_stride(image);
        for (int x = 0; x < m->cols * by; x++) {
            const uint32_t p = pixel(value[(size_t)r * (size_t)m->cols + (size_t)(x / by)], full);
            memcpy(line + 4 * (size_t)x, &p, sizeof p);
        }
    }
    cairo_surface_mark_dirty(image);
}

static void draw_panel(cairo_t *cr, const ll_heatmap *m, int panel, double x, double y, const layout *l) {
    const int by = enlargement(m);
    cairo_surface_t *image = cairo_image_surface_create(CAIRO_FORMAT_RGB24, m->cols * by, m->rows * by);
    fill_image(image, m, panel, by);
    cairo_save(cr);
    cairo_translate(cr, x, y);
    cairo_scale(cr, l->width / m->cols / by, l->height / m->rows / by);
    cairo_set_source_surface(cr, image, 0, 0);
    cairo_pattern_set_filter(cairo_get_source(cr), CAIRO_FILTER_NEAREST);
    cairo_rectangle(cr, 0, 0, m->cols * by, m->rows * by);
    cairo_fill(cr);
    cairo_restore(cr);
    cairo_surface_destroy(image);
    set_colour(cr, RIM);
    cairo_set_line_width(cr, 1);
    cairo_rectangle(cr, x, y, l->width, l->height);
    cairo_stroke(cr);
}

static int draw(cairo_surface_t *surface, const void *what, int width, int height) {
    const ll_heatmap *m = what;
    const layout l = lay_out(m);
    const double most = WIDTH - 2.0 * EDGE;
    double y = EDGE + 14;
    cairo_t *cr = cairo_create(surface);
    (void)height;
    cairo_scale(cr, (double)width / WIDTH, (double)width / WIDTH);
    cairo_set_source_rgb(cr, 1, 1, 1);
    cairo_paint(cr);
    if (has(m->title)) write_text(cr, EDGE, y, most, TITLE_SIZE, 1, INK, m->title), y += 25;
    if (has(m->y_label)) write_text(cr, EDGE, y, most, TEXT_SIZE, 0, QUIET, m->y_label);
    for (int i = 0; i < m->panels; i++) {
        const double x = EDGE + i % l.columns * (l.width + GAP), top = l.top + i / l.columns * l.line;
        draw_panel(cr, m, i, x, top, &l);
        if (m->names) write_text(cr, x, top + l.height + 18, l.width, TEXT_SIZE, 0, INK, m->names[i]);
    }
    if (has(m->x_label)) write_text(cr, EDGE, l.page - 16, most, TEXT_SIZE, 0, QUIET, m->x_label);
    const int failed = cairo_status(cr) != CAIRO_STATUS_SUCCESS;
    cairo_destroy(cr);
    return failed ? -1 : 1;
}

ll_status ll_heatmap_write(const ll_heatmap *m, const char *path) {
    if (m->panels < 1 || m->panels > PANELS_MOST || m->rows < 1 || m->rows > SIDE_MOST || m->cols < 1 ||
        m->cols > SIDE_MOST || !m->values)
        return ll_fail(LL_EINVAL, "%s: a heat map has 1 to %d panels of 1 to %d rows and columns, not %d of %d x %d",
                       path, PANELS_MOST, SIDE_MOST, m->panels, m->rows, m->cols);
    const layout l = lay_out(m);
    const double width = m->width ? m->width : WIDTH, height = ceil(l.page * width / WIDTH);
    return ll_picture_write(path, (int)width, height < 1e6 ? (int)height : 1000000, draw, m);
}
