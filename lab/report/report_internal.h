/* Inside the pictures. A picture has no frame and no legend. Each curve has its name at its end, in its own colour.
 * Behind the curves are only thin lines at round numbers. */
#ifndef LL_REPORT_H
#define LL_REPORT_H

#include <cairo/cairo.h>

#include "base/status.h"
#include "longline-lab.h"

enum { LL_TICKS_MOST = 96, LL_CURVES_MOST = 32 };

/* ---- Axes ---- */

typedef struct {
    double at;
    char text[24]; /* "" is a small tick without a number */
} ll_tick;

typedef struct {
    int log;
    double lo, hi;   /* numbers at its ends, lo < hi */
    double from, to; /* coordinates of these ends */
    int n;
    ll_tick tick[LL_TICKS_MOST];
} ll_axis;

/* Can this number be drawn on such an axis? NaN, infinities and extreme sizes cannot. */
int ll_axis_takes(int log, double v);
/* Can point i of a curve be drawn? */
int ll_axis_takes_point(const ll_figure *f, const ll_curve *c, int i);
/* An axis for numbers lo..hi that is `length` long, with numbers at least `gap` apart. open: leaves a margin above and
 * begins at a round number; otherwise it spans exactly lo..hi. A linear axis that would begin close to zero begins at
 * zero. */
void ll_axis_set(ll_axis *axis, int log, double lo, double hi, double length, double gap, int open);
/* The same for the y axis of a figure. */
void ll_axis_set_y(ll_axis *y, const ll_figure *f, double lo, double hi, double length);
double ll_axis_position(const ll_axis *axis, double v);
/* The label of an axis, which says so if the axis is logarithmic. */
enum { LL_AXIS_TITLE = 600 };
void ll_axis_title(char out[LL_AXIS_TITLE], const char *label, int log);

/* A number as people write it: "65,536", "1.5M", "0.002"; as many decimals as `step` has. */
void ll_number_text(char *out, size_t size, double v, double step, double largest);

/* ---- Labels ---- */

enum { LL_LABEL_GAP = 10 /* between a curve's end and its label */ };

typedef struct {
    char text[128];      /* UTF-8, shortened to fit */
    double x, y, width;  /* of the text */
    double end_x, end_y; /* of the curve's end */
    int curve;
} ll_label;

/* Copies text without what is not UTF-8, shortened in the middle to a width of `most` in the current font; returns
 * its width. */
double ll_label_fit(cairo_t *cr, char *out, size_t size, const char *text, double most);
/* Sorts labels by y and moves them apart, within top..bottom, where n lines are to fit. */
void ll_labels_spread(ll_label *labels, int n, double line, double top, double bottom);

/* The parts of a page that are drawn on, in cells. */
enum { LL_COVER_COLUMNS = 240, LL_COVER_ROWS = 135 };
typedef struct {
    double width, height;
    double left, right, top, bottom; /* labels stay within */
    unsigned char covered[LL_COVER_ROWS][LL_COVER_COLUMNS];
} ll_cover;
void ll_cover_line(ll_cover *cover, double x0, double y0, double x1, double y1);
/* Moves labels that cover a curve to a place near the curve's end where they do not, if there is one. */
void ll_labels_clear(ll_label *labels, int n, const ll_cover *cover, double line);

/* The size of the UTF-8 character at s; 0 if there is none that XML may have. */
int ll_xml_character(const unsigned char *s, size_t left);

/* ---- Figures ---- */

/* Curve number k has colour k % LL_COLOURS, and dash number k / LL_COLOURS: 0 is solid. So each curve has its own look.
 */
enum { LL_COLOURS = 7, LL_DASHES = 5 };

/* Draws onto a surface of width x height units. 0: no point can be drawn; -1: cairo failed. */
int ll_page_draw(cairo_surface_t *surface, const ll_figure *figure, const int *faint, int width, int height);

/* A picture of this size in a .svg or .png file, which is replaced when complete. paint: as ll_page_draw. title: that
 * of the SVG document, or NULL. */
typedef int ll_painter(cairo_surface_t *surface, const void *what, int width, int height);
LL_MUST_USE ll_status ll_picture_write(const char *path, const char *title, int width, int height, ll_painter *paint,
                                       const void *what);

/* As ll_figure_write; faint (n) or NULL says which curves are thin and pale. */
LL_MUST_USE ll_status ll_figure_draw(const ll_figure *figure, const int *faint, const char *path);

/* ---- Heat maps ---- */

/* To what the colours in a row of a panel are relative. */
typedef struct {
    int full_range;
    double low, high, strongest;
} ll_shade_range;

ll_shade_range ll_shade_range_of(const ll_heat_map *map, int panel, int row);
/* A value on the scale of colours, -1..1; 0 for NaN. */
double ll_shade_of(const ll_shade_range *range, double v);
/* Are there colours for negative values? */
int ll_shades_signed(const ll_heat_map *map);
/* The names of columns. */
const char *const *ll_heat_map_columns(const ll_heat_map *map);
/* Are they so short that they can be horizontal? */
int ll_heat_map_short_names(const ll_heat_map *map);

/* ---- Columns ---- */

enum { LL_COLUMNS_MOST = 16 };

typedef struct {
    int n;                           /* rows */
    const char *key;                 /* name of the first column, which has no empty fields */
    double *column[LL_COLUMNS_MOST]; /* (n), NaN for an empty field; NULL: no such column */
} ll_columns;

/* Reads the columns of these names; the first `needed` must exist. */
LL_MUST_USE ll_status ll_columns_read(ll_columns *t, const char *path, const char *const *names, int columns,
                                      int needed);
void ll_columns_free(ll_columns *t);
/* The row of a column's last and of its least number, or -1; its median, NaN if there is none. */
int ll_columns_last(const ll_columns *t, int column);
int ll_columns_least(const ll_columns *t, int column);
double ll_columns_median(const ll_columns *t, int column);

/* ---- Runs ---- */

enum {
    LL_RUN_STEP,
    LL_RUN_BITS,
    LL_RUN_VALID, /* the columns before are required */
    LL_RUN_ACCURACY,
    LL_RUN_SECONDS,
    LL_RUN_TOKENS,
    LL_RUN_RATE,
    LL_RUN_NORM,
    LL_RUN_SPEED,
    LL_RUN_MEMORY,
    LL_RUN_MISSED, /* while a teacher is matched (train.distil): of its attention, the % that is missed */
    LL_RUN_DISTIL, /* of its logits, the loss in nats; there are no LL_RUN_BITS in both cases */
    LL_RUN_COLUMNS
};

typedef struct {
    const char *folder; /* borrowed */
    char name[256];
    const char *unit;   /* unit of the losses: bits per "byte", "token", "example" */
    ll_recipe *recipe;  /* NULL: the folder has none */
    ll_columns metrics; /* columns LL_RUN_... */
} ll_run;

/* A loss in bits: with so many decimals below 100, one below 10,000, none above. "–" if it is not finite. */
enum { LL_BITS_TEXT = 32 };
void ll_bits_text(char out[LL_BITS_TEXT], double bits, int decimals);

/* The figure of a run's loss, without a title: of LL_RUN_BITS and held-out data, or of LL_RUN_MISSED or LL_RUN_DISTIL.
 * What its pointers lead to is in `parts`, and which curves are faint: with held-out data, that of training. */
typedef struct {
    ll_curve curve[2];
    char y_label[64];
    const int *faint; /* as in ll_figure_draw; NULL: there is no held-out data */
} ll_run_loss_parts;
ll_figure ll_run_loss(const ll_run *run, int column, ll_run_loss_parts *parts);

/* LL_EFORMAT also if there is no loss yet. */
LL_MUST_USE ll_status ll_run_open(ll_run *run, const char *folder);
void ll_run_close(ll_run *run);

#endif
