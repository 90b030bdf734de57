/* What readers of texts with classes share: slices of a file's bytes, each byte a token. */
#ifndef LL_EXAMPLES_H
#define LL_EXAMPLES_H

#include "data/reader.h"
#include "data/text/cells.h"

/* r->own of these formats. */
typedef struct {
    ll_slice *text;        /* texts of the whole file, of which ... */
    int64_t first;         /* ... this is the first of the split, */
    int64_t mixed;         /* and this their number, where the split is drawn from them; else 0 */
    const uint8_t *labels; /* of the whole file */
} ll_examples;

/* Upper bound of the rows of a file. */
size_t ll_count_lines(const ll_bytes *bytes);
/* The text of r->own has r->size slices (match: twice as many) and r->file[1] as many labels as examples: checks
 * labels, cuts the split. */
LL_MUST_USE ll_status ll_examples_use(ll_reader *r, const ll_reader_options *c, int split, const char *name);
/* The example of the file that has this index in the split. */
int64_t ll_example_at(const ll_reader *r, int64_t index);
void ll_examples_close(const ll_reader *r);
void ll_examples_fill(const ll_reader *r, ll_batch *batch, int row, int64_t index);

#endif
