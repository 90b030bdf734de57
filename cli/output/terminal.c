/* A moving line. */
#include "output/terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "longline-dist.h"

/* Is it a terminal that can move back in its line, and does its user want that? */
ll_line ll_line_start(void) {
    const char *term = getenv("TERM"), *plain = getenv("NO_COLOR");
    return (ll_line){.moves = isatty(STDERR_FILENO) && term && strcmp(term, "dumb") && !(plain && *plain)};
}

static ll_line *shown; /* the text that the line shows */

/* Cut to the terminal's width, because one cannot go back on a line that wraps. */
void ll_line_show(ll_line *line, char *text) {
    struct winsize window;
    if (!ll_dist_ranks().reports) return;
    if (!line->moves) {
        fprintf(stderr, "%s\n", text);
        return;
    }
    if (!ioctl(STDERR_FILENO, TIOCGWINSZ, &window) && window.ws_col > 1 && strlen(text) >= window.ws_col)
        text[window.ws_col - 1] = 0;
    const int width = (int)strlen(text);
    fprintf(stderr, "\r%s%*s", text, line->width > width ? line->width - width : 0, "");
    fflush(stderr);
    line->width = width;
    shown = line;
}

void ll_line_end(ll_line *line) {
    if (line->width) fputc('\n', stderr);
    line->width = 0;
    shown = NULL;
}

void ll_line_break(void) {
    if (shown) ll_line_end(shown);
}
