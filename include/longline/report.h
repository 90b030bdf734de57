/* Pictures. */
#ifndef LL_REPORT_API_H
#define LL_REPORT_API_H

#include "longline/base.h"

LL_C_BEGIN

/* ---- Pictures ---------------------------------------------------------------------------------- */

typedef struct {
    const char *label;
    int n;
    const double *x, *y;
} ll_curve;

typedef struct {
    const char *title, *x_label, *y_label;
    int log_x, log_y;
    int width, height; /* pixels; 0 = 960 x 540 */
    int n;
    const ll_curve *curves;
    const char *mark; /* NULL, or the name of a vertical line at x = mark_at */
    double mark_at;
} ll_figure;

/* Draws curves into a .svg or .png file (by its ending). */
LL_API LL_MUST_USE ll_status ll_figure_write(const ll_figure *figure, const char *path);

/* Matrices as pictures: panels side by side, a rectangle a number, white at 0; negative ones have their own colour. */
typedef enum { LL_SHADES_ALL, LL_SHADES_PANEL, LL_SHADES_ROW } ll_shades;
typedef struct {
    const char *title, *x_label, *y_label;
    int panels, rows, cols;
    const double *values;     /* (panels, rows, cols), the first row on top; what is no number is left blank */
    const char *const *names; /* (panels), or NULL */
    ll_shades shades;         /* what has the full colour: the largest number of all, of its panel, or of its row */
    int width;                /* pixels; 0 = 960 */
} ll_heatmap;

/* Draws them into a .svg or .png file (by its ending). */
LL_API LL_MUST_USE ll_status ll_heatmap_write(const ll_heatmap *map, const char *path);

/* ---- Reports ----------------------------------------------------------------------------------- */

/* Writes the report of a run folder: one HTML file that needs nothing else, with the curves, what the best model came
 * to, and what it does: text it writes, loss against position, what attention looks at, or images taken for others.
 * path NULL: report.html in the folder. Every figure goes into a folder beside the page, too, as .svg and .csv:
 * "figures", or NAME-figures for another page than report.html. Takes seconds; what its data would be needed for is
 * left out, and said, where they are not there. */
LL_API LL_MUST_USE ll_status ll_run_report(const char *run, const char *path);
/* Writes a page of n runs (1 to 32) beside each other: curves, results, and where their recipes differ. */
LL_API LL_MUST_USE ll_status ll_runs_report(const char *const *runs, int n, const char *path);

/* Draws the loss curves of a run folder's metrics.csv. */
LL_API LL_MUST_USE ll_status ll_run_picture(const char *run, const char *path);

LL_C_END

#endif
