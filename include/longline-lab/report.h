/* Pictures and reports. */
#ifndef LL_REPORT_API_H
#define LL_REPORT_API_H

#include "longline/base.h"
#include "longline/train.h"

LL_C_BEGIN

/* ---- Pictures ---- */

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
    const char *mark;               /* NULL, or the name of a vertical line at x = mark_at */
    double mark_at;
    double y_most; /* the largest y that there can be, as 100 per cent: the axis ends there; 0: there is none */
} ll_figure;

/* Draws curves into a .svg or .png file (by its ending). */
LL_API LL_MUST_USE ll_status ll_figure_write(const ll_figure *figure, const char *path);

/* For a program whose pictures are all longline's: the first one replaces fontconfig's current configuration by the
 * default one. Lack of memory is then always an error; without this call fontconfig may wait for ever where memory ends
 * at one moment. Fonts that the program itself has given to fontconfig are lost. */
LL_API void ll_figure_own_fonts(void);
/* Matrices as colours: one panel, or many in a grid. The shade follows the square root of a value's size, so that small
 * weights are visible. Positive values are blue, negative ones orange. NaN is blank, or gray with LL_SHADES_RANGE. */
typedef struct {
    const char *label;
    int rows, cols;
    const float *value; /* (rows, cols), the first row on top */
} ll_panel;

/* Which value has the strongest colour: the largest of a panel, of each of its rows, or of all panels. RANGE: colours
 * run evenly from the least value of a panel to its largest. */
typedef enum { LL_SHADES_PANEL, LL_SHADES_ROW, LL_SHADES_ALL, LL_SHADES_RANGE } ll_shades;

typedef struct {
    const char *title, *x_label, *y_label;
    int width, height; /* pixels; 0 = 960 wide, and as high as the panels need */
    int across;        /* panels side by side, at most 28; 0 = chosen to fit */
    ll_shades shades;
    int n;
    const ll_panel *panels;
    const char *const *names;   /* names of rows, the same for all panels; or NULL */
    const char *const *columns; /* names of columns; NULL: those of rows, which are as many */
    int numbers;                /* 1: cells that are large enough have their numbers, three digits each */
} ll_heat_map;

enum { LL_HEAT_MAP_LONGEST = 16384 }; /* rows and columns of a panel */
/* Draws a heat map into a .svg or .png file (by its ending). */
LL_API LL_MUST_USE ll_status ll_heat_map_write(const ll_heat_map *map, const char *path);

/* ---- Reports ---- */

/* Writes the report of a run folder: one HTML file that needs no other, with the curves, the results of the best model,
 * and examples of what it does: generated text, loss against position, attention maps, or misclassified images. path
 * NULL: report.html in the folder. Every figure is also written as .svg and .csv into a folder beside the page:
 * "figures", or NAME-figures for a page that is not report.html. Takes seconds. Parts whose data are missing are left
 * out; the page says so, and *lacks (NULL: not wanted) gets why, for ll_text_free, or NULL. Without a path LL_EINVAL
 * says why, and a page that is there stays. progress: called meanwhile, or NULL; LL_ESTOPPED if it asks to stop. */
LL_API LL_MUST_USE ll_status ll_run_report(const char *run, const char *path, char **lacks, ll_done_fn *progress,
                                           void *arg);
/* The report of a run during training, for ll_trainer_on_report(trainer, ll_trainer_report, NULL). Until the end it
 * uses only the run's files; whole = 1 writes what ll_run_report writes. arg is not used. */
LL_API LL_MUST_USE ll_status ll_trainer_report(const ll_trainer *trainer, int whole, void *arg);
/* Writes a page with n runs (1 to 32) side by side: curves, results, and differences between their recipes. */
LL_API LL_MUST_USE ll_status ll_runs_report(const char *const *runs, int n, const char *path);

/* What the report of a run has of its metrics.csv: seconds up to the last row, and the median speed of training in
 * tokens a second. */
LL_API LL_MUST_USE ll_status ll_run_speed(const char *run, double *seconds, double *tokens_per_second);
/* Draws the loss curves of a run folder's metrics.csv. */
LL_API LL_MUST_USE ll_status ll_run_picture(const char *run, const char *path);

LL_C_END

#endif
