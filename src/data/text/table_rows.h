/* Rows of a TSV or CSV file, which stay in their file: one pass goes over all of them and leaves marks, and any row is
 * read from there. */
#ifndef LL_TABLE_ROWS_H
#define LL_TABLE_ROWS_H

#include "base/spill.h"
#include "data/marks.h"
#include "data/text/cells.h"

typedef struct {
    ll_bytes file; /* large files are mapped (ll_file_take) */
    ll_marks marks;
    ll_cells cells; /* behind the row that was read last ... */
    int64_t next;   /* ... and the number of the next one */
    size_t passed, touched; /* for ll_bytes_pass, ll_bytes_touch */
    ll_slice *field;
    int fields; /* the first ones of a row, which are read */
} ll_table_rows;

/* Opens a file for the pass. comma, rest: see ll_cells. */
LL_MUST_USE ll_status ll_table_rows_open(ll_table_rows *t, const char *path, int fields, int comma, int rest);
void ll_table_rows_close(ll_table_rows *t);
/* The pass: reads the next row into t->field and returns 1. Returns 0 at the end, from where on ll_table_row_read is
 * allowed, and if *status is a failure, which may be one of this call. */
int ll_table_rows_next(ll_table_rows *t, ll_status *status);
/* Before the pass: the first row, if there is one, does not count. */
LL_MUST_USE ll_status ll_table_rows_skip(ll_table_rows *t);
/* Reads a row into t->field; NULL if the file lacks it, which can be if it was changed after the pass. */
const ll_slice *ll_table_row_read(ll_table_rows *t, int64_t number);

#endif
