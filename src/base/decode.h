/* Unpacks gzip, xz and zstd, some bytes at a time. decode.c does it with zlib and liblzma, and decode_zstd.c with
 * libzstd; decode_none.c stands in its place in builds without them, and refuses. */
#ifndef LL_DECODE_H
#define LL_DECODE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct ll_decoder ll_decoder;
enum ll_packing { LL_GZIP, LL_XZ, LL_ZSTD };

/* `name` is how messages call the file. It is not copied, and must outlive the decoder. */
LL_MUST_USE ll_status ll_decoder_create(ll_decoder **decoder, enum ll_packing packing, const char *name);
void ll_decoder_free(ll_decoder *decoder); /* NULL is fine */
/* Unpacks from the next n bytes of the file at most `most` bytes. n = 0: the file has ended. *used and *got are the
 * bytes taken and given; both may be 0. *ended = 1 after the last byte. LL_EFORMAT: a truncated or damaged archive. */
LL_MUST_USE ll_status ll_decoder_step(ll_decoder *decoder, const uint8_t *from, size_t n, size_t *used, uint8_t *to,
                                      size_t most, size_t *got, int *ended);

#endif
