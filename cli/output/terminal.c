/* A moving line. */
#include "output/terminal.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "longline-dist.h"
#include "output/show.h"

/* Is it a terminal that can move back in its line, and does its user want that? */
ll_line ll_line_start(void) {
    const char *term = getenv("TERM"), *plain = getenv("NO_COLOR");
    return (ll_line){.moves = isatty(STDERR_FILENO) && term && strcmp(term, "dumb") && !(plain && *plain)};
}

static ll_line *shown; /* the text that the line shows */

void ll_field_add(ll_fields *f, int rank, const char *format, ...) {
    if (f->n == LL_FIELDS) return;
    char *text = f->field[f->n].text;
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof f->field->text, format, list);
    va_end(list);
    ll_replace_controls(text, strlen(text), '?');
    f->field[f->n++].rank = rank;
}

/* Joins the fields of at most this rank. A field that has become the first one loses its separator. Returns the size.
 */
static int join(char *text, const ll_fields *f, int most) {
    int size = 0;
    for (int i = 0; i < f->n; i++) {
        const char *part = f->field[i].text;
        if (f->field[i].rank > most) continue;
        if (!size) part += strspn(part, " ,");
        size += (int)(stpcpy(text + size, part) - (text + size));
    }
    text[size] = 0;
    return size;
}

/* The columns that a text may have; one cannot go back on a line that wraps. Where a terminal does not say how wide it
 * is, the environment does. */
static int columns(void) {
    struct winsize window;
    const char *said = getenv("COLUMNS");
    int wide = ioctl(STDERR_FILENO, TIOCGWINSZ, &window) ? 0 : window.ws_col;
    if (wide < 2 && said) wide = (int)strtol(said, NULL, 10);
    return wide > 1 ? wide - 1 : INT_MAX;
}

void ll_line_show(ll_line *line, const ll_fields *fields) {
    char text[LL_FIELDS * sizeof fields->field->text];
    if (!ll_dist_ranks().reports) return;
    int rank = LL_FIELDS, width = join(text, fields, rank);
    if (!line->moves) {
        fprintf(stderr, "%s\n", text);
        return;
    }
    for (const int most = columns(); width > most;) width = join(text, fields, --rank);
    if (shown != line) ll_line_break();
    fprintf(stderr, "\r%s%*s", text, line->width > width ? line->width - width : 0, "");
    fflush(stderr);
    line->width = width;
    shown = line;
}

void ll_line_end(ll_line *line) {
    if (line->width) fputc('\n', stderr);
    line->width = 0;
    if (shown == line) shown = NULL;
}

void ll_line_break(void) {
    if (shown) ll_line_end(shown);
}
