/* Rows of TSV and CSV, taken apart in place. */
#ifndef LL_CELLS_H
#define LL_CELLS_H

#include "base/file.h"

typedef struct {
    uint8_t *at;
    size_t size;
} ll_slice;

typedef struct {
    const char *name;  /* what errors call the file */
    uint8_t *at, *end; /* what is left of it */
    int64_t line;      /* of the row that came last, from 1 */
    int comma;         /* CSV (RFC 4180: fields may be quoted, and then hold anything), else tabs and no quotes */
    int rest;          /* TSV: the last field that is asked for is all that is left of the line, tabs included */
} ll_cells;

ll_cells ll_cells_of(ll_bytes *bytes, const char *name, int comma, int rest);
/* The first `fields` fields of the next row that is not empty; the bytes they lie in are unquoted and no longer to be
 * read again. *found is 0 at the end. LL_EFORMAT with the line for rows that are shorter. */
LL_MUST_USE ll_status ll_cells_next(ll_cells *t, ll_slice *field, int fields, int *found);
int ll_slice_is(const ll_slice *s, const char *text);

#endif
