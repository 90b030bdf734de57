/* Data that the library generates: how many examples there are. */
#include "data/synthetic/made.h"

enum { EXAMPLES = 1000 };

ll_status ll_made_open(ll_reader *r, const ll_reader_options *c, int split) {
    if (c->data.shortest > c->data.longest)
        return ll_fail(LL_EINVAL, "data.shortest = %d is more than data.longest = %d; change one", c->data.shortest,
                       c->data.longest);
    r->rows = EXAMPLES;
    r->size = split == LL_SPLIT_TRAIN && c->data.limit > 0 ? c->data.limit : INT64_C(1) << 40;
    r->stride = 1;
    r->examples = r->endless = 1;
    return LL_OK;
}
