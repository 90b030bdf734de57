/* What readers of texts with classes share: slices of a file's bytes, where each byte is a token. */
#ifndef LL_EXAMPLES_H
#define LL_EXAMPLES_H

#include "data/format.h"
#include "data/text/table_rows.h"

/* r->own of these formats, or its beginning. */
typedef struct {
    ll_slice *text;        /* slices of the whole file, and ... */
    const uint8_t *labels; /* ... one for each example of the whole file, or ... */
    int (*read)(const ll_reader *r, int64_t number, ll_slice *text); /* ... finds the text and returns the label; -1:
                                                                        it is there no more */
    ll_table_rows rows;    /* the rows that `read` reads */
    size_t touched;        /* for ll_bytes_touch */
    int most;              /* the largest label, and ... */
    int64_t most_line;     /* ... the line of the first one; 0: unknown */
    int64_t first;         /* number of the first text of the split */
    int64_t mixed;         /* number of texts from which the split is drawn at random; 0: it is not drawn */
} ll_examples;

/* Counts a text that the pass over rows has come to; slices are counted by ll_examples_use. */
void ll_examples_see(ll_reader *r, const ll_slice *text);
/* Sets up r after r->own has r->size examples and their largest label: slices with labels, or read
 * (which match needs). Checks the labels and selects the split. */
LL_MUST_USE ll_status ll_examples_use(ll_reader *r, const ll_reader_options *c, int split, const char *name);
void ll_examples_close(const ll_reader *r);
void ll_examples_fill(const ll_reader *r, ll_batch *batch, int row, int64_t index);

#endif
