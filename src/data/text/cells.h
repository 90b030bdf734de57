/* Rows of TSV and CSV. Fields are pieces of the file's own bytes, which are not changed. */
#ifndef LL_CELLS_H
#define LL_CELLS_H

#include "base/file.h"

typedef struct {
    uint8_t *at;
    size_t size;
    int quoted; /* two quotes stand for one */
} ll_slice;

typedef struct {
    const char *name;  /* how errors call the file */
    uint8_t *at, *end; /* the bytes that are not read yet */
    int64_t line;      /* the first line of the current row, from 1 */
    int64_t last;      /* its last line */
    int comma;         /* CSV (RFC 4180: quoted fields may contain anything); else tabs and no quotes */
    int rest;          /* TSV: the last requested field is the rest of the line, with its tabs */
    int columns;       /* of the first row; 0: it has not been read */
} ll_cells;

ll_cells ll_cells_of(ll_bytes *bytes, const char *name, int comma, int rest);
/* Reads the first `fields` fields of the next row that is not empty. *found is 0 at the end. LL_EFORMAT
 * names the line of a row with fewer fields, or with more columns than the first row has. */
LL_MUST_USE ll_status ll_cells_next(ll_cells *t, ll_slice *field, int fields, int *found);
/* The byte of a field at *i, which moves on; two quotes are one byte. */
static inline uint8_t ll_slice_byte(const ll_slice *s, size_t *i) {
    const uint8_t byte = s->at[*i];
    *i += 1 + (s->quoted && byte == '"');
    return byte;
}
/* The first bytes of a field, at most `most`, with single quotes. Returns how many there are. */
size_t ll_slice_copy(uint8_t *to, size_t most, const ll_slice *s);
int ll_slice_is(const ll_slice *s, const char *text);

#endif
