/* Unpacks zstd, for decode.c. decode_zstd_none.c stands in its place in builds without libzstd, and refuses. */
#ifndef LL_DECODE_ZSTD_H
#define LL_DECODE_ZSTD_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct ll_zstd ll_zstd;
/* LL_EINVAL: this build cannot. */
LL_MUST_USE ll_status ll_zstd_create(ll_zstd **zstd);
void ll_zstd_free(ll_zstd *zstd); /* NULL is fine */

enum ll_zstd_found {
    LL_ZSTD_GOES_ON,
    LL_ZSTD_ENDED,
    LL_ZSTD_TRUNCATED,
    LL_ZSTD_DAMAGED,
    LL_ZSTD_TOO_WIDE, /* it needs more than 1 GiB */
    LL_ZSTD_NO_MEMORY
};
/* As ll_decoder_step. *what: the reason of LL_ZSTD_DAMAGED. */
enum ll_zstd_found ll_zstd_step(ll_zstd *zstd, const uint8_t *from, size_t n, size_t *used, uint8_t *to, size_t most,
                                size_t *got, const char **what);

#endif
