/* The terminal as programs that take long use it: a line that moves. */
#ifndef LL_TERMINAL_H
#define LL_TERMINAL_H

typedef struct {
    int moves; /* stderr is a terminal that can go back in its line; else lines follow each other */
    int width; /* of the line that is there, to wipe it */
} ll_line;

ll_line ll_line_start(void);
/* Writes text, which may be cut, over the line before. */
void ll_line_show(ll_line *line, char *text);
void ll_line_end(ll_line *line); /* the line stays; what is written next comes below it */
void ll_line_break(void);        /* the same of any line that is shown: before a message */

#endif
