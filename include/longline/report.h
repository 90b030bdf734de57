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
} ll_figure;

/* Draws curves into a .svg or .png file (by its ending). */
LL_API LL_MUST_USE ll_status ll_figure_write(const ll_figure *figure, const char *path);
/* Draws the loss curves of a run folder's metrics.csv. */
LL_API LL_MUST_USE ll_status ll_run_picture(const char *run, const char *path);

LL_C_END

#endif
