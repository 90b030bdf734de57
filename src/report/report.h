/* Inside the pictures.
 *
 *   axis.c    a range of numbers, its ticks and how they are written
 *   labels.c  names at the ends of curves
 *   page.c    the picture
 *   figure.c  its file
 *   heat.c    matrices as colours
 *   run.c     the curves of a run folder
 *
 * A picture has no box around it and no legend beside it: each curve carries its name where it ends, in its
 * own colour, and thin lines at round numbers are all that stands behind it. */
#ifndef LL_REPORT_H
#define LL_REPORT_H

#include <cairo/cairo.h>

#include "base/status.h"

enum { LL_TICKS_MOST = 96, LL_CURVES_MOST = 32 };

/* ---- Axes ---- */

typedef struct {
    double at;
    char text[24]; /* "" is a small tick without a number */
} ll_tick;

typedef struct {
    int log;
    double lo, hi;   /* numbers at its ends, lo < hi */
    double from, to; /* where these are drawn */
    int n;
    ll_tick tick[LL_TICKS_MOST];
} ll_axis;

/* Can this number be drawn on such an axis? NaN, infinities and absurd sizes cannot. */
int ll_axis_takes(int log, double v);
/* An axis for numbers lo..hi that is `length` long, with numbers at least `gap` apart. open: leave some
 * room above and begin at a round number; otherwise it spans lo..hi. A linear axis that would begin close to
 * zero begins at zero. */
void ll_axis_set(ll_axis *axis, int log, double lo, double hi, double length, double gap, int open);
double ll_axis_place(const ll_axis *axis, double v);

/* A number for people: "65,536", "1.5M", "0.002"; as many decimals as `step` has. */
void ll_number_text(char *out, size_t size, double v, double step, double largest);

/* ---- Labels ---- */

typedef struct {
    char text[128];     /* UTF-8, shortened to fit */
    double x, y, width; /* where the curve ends; then, where the text is written */
    int curve;
} ll_label;

/* Copies text without what is not UTF-8, shortened to `most` wide in the current font; returns its width. */
double ll_label_fit(cairo_t *cr, char *out, size_t size, const char *text, double most);
/* Moves labels that would overlap apart, within top..bottom. */
void ll_labels_spread(ll_label *labels, int n, double line, double top, double bottom);

/* ---- Figures ---- */

/* Draws onto a surface of width x height units. 0: there is no point that can be drawn; -1: cairo failed. */
int ll_page_draw(cairo_surface_t *surface, const ll_figure *figure, const int *faint, int width, int height);

/* A picture of this size into a .svg or .png file, replaced when it is whole. paint: as ll_page_draw. */
typedef int ll_painter(cairo_surface_t *surface, const void *what, int width, int height);
LL_MUST_USE ll_status ll_picture_write(const char *path, int width, int height, ll_painter *paint, const void *what);

/* ll_figure_write with more: faint (n) or NULL tells which curves are drawn thin and pale. */
LL_MUST_USE ll_status ll_figure_draw(const ll_figure *figure, const int *faint, const char *path);

#endif
