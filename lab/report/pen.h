/* Drawing functions of all pictures. */
#ifndef LL_PEN_H
#define LL_PEN_H

#include <cairo/cairo.h>

enum { INK = 0x1f2328, QUIET = 0x656d76, AXIS = 0x8c959f, GRID = 0xe4e7ea, PAPER = 0xffffff };
enum { TITLE_SIZE = 18, TEXT_SIZE = 13, SMALL_SIZE = 11 };

static inline void colour(cairo_t *cr, int rgb, double alpha) {
    cairo_set_source_rgba(cr, (rgb >> 16) / 255.0, (rgb >> 8 & 255) / 255.0, (rgb & 255) / 255.0, alpha);
}

static inline void font(cairo_t *cr, double size, int bold) {
    cairo_select_font_face(cr, "sans-serif", CAIRO_FONT_SLANT_NORMAL,
                           bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(cr, size);
}

/* Font rendering without subpixel colours and without hinting. */
static inline void plain_text(cairo_t *cr) {
    cairo_font_options_t *options = cairo_font_options_create();
    cairo_font_options_set_antialias(options, CAIRO_ANTIALIAS_GRAY);
    cairo_font_options_set_hint_style(options, CAIRO_HINT_STYLE_NONE);
    cairo_font_options_set_hint_metrics(options, CAIRO_HINT_METRICS_OFF);
    cairo_set_font_options(cr, options);
    cairo_font_options_destroy(options);
}

/* Text with its baseline at (x, y); align 0 left, 0.5 middle, 1 right. */
static inline void write_text(cairo_t *cr, double x, double y, double align, const char *text) {
    cairo_text_extents_t e;
    cairo_text_extents(cr, text, &e);
    cairo_move_to(cr, x - align * e.x_advance, y);
    cairo_show_text(cr, text);
}

#endif
