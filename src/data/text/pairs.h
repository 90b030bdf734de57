/* Lines of source TAB target, as bytes in memory; `name` is how errors call them. */
#ifndef LL_PAIRS_H
#define LL_PAIRS_H

#include "base/status.h"

typedef struct ll_pair {
    size_t at;               /* beginning of the source; the target follows after one TAB */
    uint32_t source, target; /* bytes of each */
} ll_pair;

/* The pairs of a text, in new memory. most: the most bytes of a source or target. LL_EFORMAT names the line. */
LL_MUST_USE ll_status ll_pairs_parse(ll_pair **pairs, int64_t *count, const uint8_t *data, size_t size,
                                     const char *name, int most);

#endif
