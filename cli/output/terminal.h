/* The moving line of programs that take long. */
#ifndef LL_TERMINAL_H
#define LL_TERMINAL_H

typedef struct {
    int moves; /* stderr is a terminal that can go back in its line; else lines follow each other */
    int width; /* width of the present text, to erase it */
} ll_line;

ll_line ll_line_start(void);
/* Replaces the line by text, which may be cut. */
void ll_line_show(ll_line *line, char *text);
void ll_line_end(ll_line *line); /* ends the line; later output comes below it */
void ll_line_break(void);        /* the same for any line that is shown: before a message */

#endif
