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
    const double *const *deviation; /* NULL, or for each curve NULL or half the height of a band around its points */
} ll_figure;

/* Draws curves into a .svg or .png file (by its ending). */
LL_API LL_MUST_USE ll_status ll_figure_write(const ll_figure *figure, const char *path);
/* A matrix as colours: one panel, or many in a grid. Colours go with the root of a value's size, so that small weights
 * are seen; positive ones are blue, negative ones orange, and the strongest is the largest of its panel. */
typedef struct {
    const char *label;
    int rows, cols;
    const float *value; /* (rows, cols), the first row on top */
} ll_panel;

typedef struct {
    const char *title, *x_label, *y_label;
    int width, height; /* pixels; 0 = 960 wide, as high as the panels need */
    int across;        /* panels side by side; 0 = what fits well */
    int stretch;       /* colours run evenly from the least value of a panel to its largest */
    int n;
    const ll_panel *panels;
} ll_heat_map;

/* Draws a heat map into a .svg or .png file (by its ending). */
LL_API LL_MUST_USE ll_status ll_heat_map_write(const ll_heat_map *map, const char *path);

/* Draws the loss curves of a run folder's metrics.csv. */
LL_API LL_MUST_USE ll_status ll_run_picture(const char *run, const char *path);

LL_C_END

#endif
