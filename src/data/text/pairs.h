/* Lines of source TAB target, as bytes in memory; `name` is how errors call them. */
#ifndef LL_PAIRS_H
#define LL_PAIRS_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct ll_pair {
    size_t at;               /* beginning of the source; the target follows after one TAB */
    uint32_t source, target; /* bytes of each */
} ll_pair;

/* The pair of the line that begins at *at, which moves behind the line end. most: the most bytes of a source or target.
 * LL_EFORMAT names the line. */
LL_MUST_USE ll_status ll_pair_parse(ll_pair *pair, const uint8_t *data, size_t size, size_t *at, const char *name,
                                    int64_t line, int most);

#endif
