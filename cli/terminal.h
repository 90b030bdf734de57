/* The terminal as programs that take long use it: a line that moves, and the signals that end them. */
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

/* Ctrl-C, SIGTERM and SIGHUP make ll_caught() true; the second time they end the program. What the parent ignores
 * (nohup, a shell's background jobs) stays ignored. */
void ll_catch_signals(void);
int ll_caught(void);

#endif
