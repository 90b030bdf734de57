/* Marks: places in a file from which any part of it is found. A format makes them in one pass over the file, one every
 * few kilobytes and at most LL_MARKS_MOST in all, so that their memory does not grow with the file. What lies between
 * two marks is read again when it is needed. */
#ifndef LL_MARKS_H
#define LL_MARKS_H

#include <stdint.h>

#include "base/status.h"

enum { LL_MARKS_MOST = 1 << 18, LL_MARKS_SPACING = 1 << 12 };

/* The number of tokens, texts and rows before a byte. */
typedef struct {
    int64_t byte, token, text, row;
} ll_mark;

typedef struct {
    ll_mark *mark;
    int64_t count, spacing; /* fewest bytes from a mark to the next one */
} ll_marks;

typedef enum { LL_BY_TOKEN, LL_BY_TEXT, LL_BY_ROW } ll_mark_field;
static inline int64_t ll_mark_number(const ll_mark *m, ll_mark_field by) {
    return by == LL_BY_TOKEN ? m->token : by == LL_BY_TEXT ? m->text : m->row;
}

/* Memory for marks at least `spacing` bytes apart (0: as many as there may be), and for one at the end. */
LL_MUST_USE ll_status ll_marks_create(ll_marks *m, int64_t bytes, int64_t spacing);
void ll_marks_free(ll_marks *m);
/* Adds a mark if it is the first one, or far enough behind the last one. */
void ll_marks_pass(ll_marks *m, const ll_mark *here);
void ll_marks_end(ll_marks *m, const ll_mark *here);
/* The last mark whose number is at most `number`; the first one if there is none. */
const ll_mark *ll_marks_find(const ll_marks *m, ll_mark_field by, int64_t number);

#endif
