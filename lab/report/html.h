/* One HTML page in one file that needs nothing else: no script, no font, no address. Parts are written one after the
 * other; the first error is kept and returned when the page is finished, so that callers need not ask at every part.
 *
 *   html.c       the page, its sections, text and tables   style.css    what it looks like
 *   html_plot.c  curves                                    html_map.c    matrices and images
 *   png.c        small images inside the page              csv.c         the data of figures, in files
 *   run_page.c   what every page of a run has              facts.c      its numbers
 *   compare_page.c  runs side by side                      thin.c       long curves with few points
 *
 * Curves are drawn into a box that any width stretches; lines keep their thickness, and words are text beside it, not
 * part of the drawing, so that they have the size of all other text on a phone, too. Colours come from the style: the
 * page follows the reader's choice of light or dark. Every figure is also left beside the page, as a picture (.svg) and
 * as numbers (.csv). */
#ifndef LL_HTML_H
#define LL_HTML_H

#include "base/file.h"
#include "report/report_internal.h"

typedef struct {
    ll_writer *writer; /* NULL after a failure */
    ll_status status;
    char *figures;   /* folder of the figures' files */
    char shown[300]; /* the same from where the page is */
    int open;        /* is a section open? */
} ll_html;

/* Makes the page's folder for figures, too: DIR/figures for DIR/report.html, else DIR/NAME-figures. */
LL_MUST_USE ll_status ll_html_open(ll_html *h, const char *path, const char *title);
/* The page takes its place, or, where anything failed, the file that was there stays. */
LL_MUST_USE ll_status ll_html_finish(ll_html *h);
/* Leaves nothing of the page. */
void ll_html_abandon(ll_html *h);
/* Keeps the first failure; later parts are not written. */
void ll_html_fail(ll_html *h, ll_status status);

/* ---- Text ---- */

void ll_html_put(ll_html *h, const char *html);
/* printf of what is HTML already: numbers, and names of ours. */
void ll_html_print(ll_html *h, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Any bytes as text: what is not UTF-8, or a control character, becomes U+FFFD; CR LF is a line end. */
void ll_html_bytes(ll_html *h, const void *bytes, size_t size);
void ll_html_text(ll_html *h, const char *text);

void ll_html_section(ll_html *h, const char *id, const char *title);
void ll_html_paragraph(ll_html *h, const char *text);
void ll_html_note(ll_html *h, const char *text); /* smaller */

/* A text with its beginning in another colour; line ends are kept. */
void ll_html_sample(ll_html *h, const char *label, const void *prompt, size_t prompt_size, const void *text,
                    size_t size);

/* ---- Tables ---- */

typedef struct {
    const char *label; /* of the table, for those who hear it */
    int cols;
    const char *const *head; /* (cols), or NULL */
    int numbers;             /* columns from the second on hold numbers */
} ll_html_table;
void ll_html_table_begin(ll_html *h, const ll_html_table *table);
/* A row, the first cell being its head; marked rows stand out. */
void ll_html_row(ll_html *h, int cols, const char *const *cells, int marked);
void ll_html_table_end(ll_html *h);

/* ---- Figures ---- */

typedef struct {
    const char *name;    /* of its files: "loss" */
    const char *caption; /* what is shown, in a sentence or two */
} ll_html_about;

/* Curves. faint as for ll_figure_draw. Writes NAME.svg and NAME.csv. A figure without a point is left out. */
void ll_html_plot(ll_html *h, const ll_html_about *about, const ll_figure *figure, const int *faint);
/* Several plots between these stand side by side where there is room. */
void ll_html_grid_begin(ll_html *h);
void ll_html_grid_end(ll_html *h);

/* Matrices, one group of panels a tab; all groups are of one size. Writes NAME.svg or NAME-1.svg, NAME-2.svg .. and
 * the same as .csv. summary (groups panels, cols) are cells of a table about the panels, or NULL. */
typedef struct {
    const char *tab; /* what a tab is: "Layer"; tabs are numbered from 1 */
    int groups;
    const ll_heat_map *group; /* (groups) */
    const char *const *head;  /* (cols) of the summary, the first being the panel's name */
    int cols;
    const char *const *summary; /* (groups, panels, cols) */
} ll_html_maps;
void ll_html_maps_write(ll_html *h, const ll_html_about *about, const ll_html_maps *maps);

/* Grey images of the same size, each with a line of text. */
typedef struct {
    int n, width, height;
    const unsigned char *pixels; /* (n, height, width) */
    const char *const *captions; /* (n) */
} ll_html_images;
void ll_html_images_write(ll_html *h, const ll_html_images *images);

/* ---- Parts of these ---- */

extern const char ll_html_style[];

/* Says where a figure's files are; before the table of its data inside <details>. */
void ll_html_files(ll_html *h, const char *name);
/* "FIGURES/NAME.ENDING" in new memory, or NULL after ll_html_fail. */
char *ll_html_path(ll_html *h, const char *name, const char *ending);
/* An <img> of indexed pixels (rows, cols): grey, or the shades of a heat map, 0 being -full and 255 full (signed),
 * or 0 being zero; index LL_PNG_BLANK is nothing in signed ones. */
enum { LL_PNG_GREY, LL_PNG_SHADES, LL_PNG_SIGNED, LL_PNG_BLANK = 255 };
void ll_html_png(ll_html *h, int kind, int rows, int cols, const unsigned char *index, const char *alt);
/* PNG in new memory; indices as above. */
LL_MUST_USE ll_status ll_png(unsigned char **png, size_t *size, int kind, int rows, int cols,
                             const unsigned char *index);

/* Columns x, then one a curve, where all curves have the same x; else rows of curve, x, y. */
LL_MUST_USE ll_status ll_csv_figure(const char *path, const ll_figure *figure);
/* Rows of panel, row, and the numbers of a matrix. */
LL_MUST_USE ll_status ll_csv_heat_map(const char *path, const ll_heat_map *map);

/* Indices of at most 4 points of a curve in each of `bins` equal parts of lo..hi (as drawn: first, least, largest,
 * last), ascending; all of them where they are few. Returns how many; NULL: as many as there would be. */
int ll_thin(const ll_figure *figure, const ll_curve *curve, int bins, int *index);

#endif
