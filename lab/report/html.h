/* One HTML page in one file that needs nothing else: no script, no font, no address. Parts are written one after the
 * other. The first error is kept and returned when the page is finished, so that callers need not check every part.
 *
 * Curves are drawn into a box of any width. Lines keep their thickness. Words are HTML text beside the drawing, so that
 * they have the size of all other text, also on a phone. Colours come from the style: the page follows the reader's
 * choice of light or dark. Every figure is also written beside the page, as a picture (.svg) and as numbers (.csv). */
#ifndef LL_HTML_H
#define LL_HTML_H

#include "base/file.h"
#include "report/report_internal.h"

typedef struct {
    ll_writer *writer; /* NULL after a failure */
    ll_status status;
    char *figures;   /* folder of the figures' files */
    char shown[300]; /* the same, relative to the page */
    int open;        /* is a section open? */
    char **made;     /* files of figures that were not there before; removed if the page is not finished */
    int made_count, made_most, made_folder; /* made_folder: was their folder not there? */
} ll_html;

/* Also creates the folder for figures: DIR/figures for DIR/report.html, else DIR/NAME-figures. */
LL_MUST_USE ll_status ll_html_open(ll_html *h, const char *path, const char *title);
/* Replaces the page with the new one. If anything failed, the old file stays, and new files of figures are removed, so
 * that a full disk has their space again. */
LL_MUST_USE ll_status ll_html_finish(ll_html *h);
/* Keeps the first failure; later parts are not written. */
void ll_html_fail(ll_html *h, ll_status status);

/* ---- Text ---- */

void ll_html_put(ll_html *h, const char *html);
/* printf of finished HTML: numbers, and names from the program. */
void ll_html_print(ll_html *h, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Escapes any bytes as text. What is not UTF-8, or a control character, becomes U+FFFD; CR LF is a line end. */
void ll_html_bytes(ll_html *h, const void *bytes, size_t size);
void ll_html_text(ll_html *h, const char *text);

void ll_html_section(ll_html *h, const char *id, const char *title);
void ll_html_paragraph(ll_html *h, const char *text);
void ll_html_note(ll_html *h, const char *text); /* smaller */

/* A text whose beginning has another colour; line ends are kept. */
void ll_html_sample(ll_html *h, const char *label, const void *prompt, size_t prompt_size, const void *text,
                    size_t size);

/* ---- Tables ---- */

typedef struct {
    const char *label; /* description of the table, for screen readers */
    int cols;
    const char *const *head; /* (cols), or NULL */
    int numbers;             /* columns from the second on contain numbers */
} ll_html_table;
void ll_html_table_begin(ll_html *h, const ll_html_table *table);
/* A row, whose first cell is its head; marked rows are emphasised. */
void ll_html_row(ll_html *h, int cols, const char *const *cells, int marked);
void ll_html_table_end(ll_html *h);

/* ---- Figures ---- */

typedef struct {
    const char *name;    /* name of its files: "loss" */
    const char *caption; /* the caption, one or two sentences */
} ll_html_about;

/* Curves; faint as in ll_figure_draw. Writes NAME.svg and NAME.csv. A figure without a point is left out. */
void ll_html_plot(ll_html *h, const ll_html_about *about, const ll_figure *figure, const int *faint);
/* The plots between these two calls stand side by side if there is space. */
void ll_html_grid_begin(ll_html *h);
void ll_html_grid_end(ll_html *h);

/* Matrices; each group of panels is a tab, and all groups have one size. Writes NAME.svg, or NAME-N.svg for the number
 * N of each tab, and the same as .csv. summary (groups panels, cols): cells of a table about the panels, or NULL. */
typedef struct {
    const char *tab; /* what a tab shows: "Layer" */
    int groups;
    const int *number; /* (groups) of the tabs, from 1; NULL: there is one group */
    int of;            /* how many there are, with those that are left out */
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

/* Names the files of a figure; before the table of its data inside <details>. */
void ll_html_files(ll_html *h, const char *name);
/* "FIGURES/NAME.ENDING" in new memory, or NULL after ll_html_fail. */
char *ll_html_path(ll_html *h, const char *name, const char *ending);
/* An <img> of indexed pixels (rows, cols): grey, or the shades of a heat map. Index 0 is -full and 255 is full
 * (signed), or 0 is zero. LL_PNG_BLANK shows nothing in signed ones. */
enum { LL_PNG_GREY, LL_PNG_SHADES, LL_PNG_SIGNED, LL_PNG_BLANK = 255 };
void ll_html_png(ll_html *h, int kind, int rows, int cols, const unsigned char *index, const char *alt);
/* PNG in new memory; indices as above. */
LL_MUST_USE ll_status ll_png(unsigned char **png, size_t *size, int kind, int rows, int cols,
                             const unsigned char *index);

/* Columns x, then one for each curve, if all curves have the same x; else rows of curve, x, y. */
LL_MUST_USE ll_status ll_csv_figure(const char *path, const ll_figure *figure);
/* Rows of panel, row, and the numbers of a matrix. */
LL_MUST_USE ll_status ll_csv_heat_map(const char *path, const ll_heat_map *map);

/* Indices, ascending, of at most 4 points of a curve in each of `bins` equal parts of the x-axis: first, least,
 * largest, last. All of them if there are few. Returns how many. index NULL: an upper bound. */
int ll_thin(const ll_figure *figure, const ll_curve *curve, int bins, int *index);

#endif
