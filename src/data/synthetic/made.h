/* Sequences that are generated: example number i of a split is a function of (train.seed, split, i). */
#ifndef LL_MADE_H
#define LL_MADE_H

#include "data/format.h"

/* Sets how many examples a split has: no end of them for training, or data.limit; 1000 in valid and in test. LL_EINVAL
 * if data.shortest is more than data.longest. */
LL_MUST_USE ll_status ll_made_open(ll_reader *r, const ll_reader_options *c, int split);

#endif
