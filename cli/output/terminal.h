/* The moving line of programs that take long. */
#ifndef LL_TERMINAL_H
#define LL_TERMINAL_H

typedef struct {
    int moves; /* stderr is a terminal that can go back in its line; else lines follow each other */
    int width; /* width of the present text, to erase it */
} ll_line;

/* The parts of a line's text, from left to right. In a terminal that is too narrow for all of them, whole fields are
 * left out: those with the highest rank first. A field begins with what separates it from the one before it. */
enum { LL_FIELDS = 10 };
typedef struct {
    int n;
    struct {
        int rank;
        char text[400];
    } field[LL_FIELDS];
} ll_fields;
/* Adds a field at the end. */
void ll_field_add(ll_fields *fields, int rank, const char *format, ...) __attribute__((format(printf, 3, 4)));

ll_line ll_line_start(void);
/* Replaces the line by these fields. Without a terminal, they are printed as a line of their own. */
void ll_line_show(ll_line *line, const ll_fields *fields);
void ll_line_end(ll_line *line); /* ends the line; later output comes below it */
void ll_line_break(void);        /* the same for any line that is shown: before a message */

#endif
