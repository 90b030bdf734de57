/* Packs bytes as gzip, xz and, where the build has it, zstd. */
#ifndef LL_PACKERS_H
#define LL_PACKERS_H

#include "test.h"

#include <lzma.h>
#include <zlib.h>
#ifdef WITH_ZSTD
#include <zstd.h>
#endif

static inline size_t pack_gzip(uint8_t *out, size_t most, const uint8_t *data, size_t size) {
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (uint8_t *)data;
    z.avail_in = (uInt)size;
    z.next_out = out;
    z.avail_out = (uInt)most;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    deflateEnd(&z);
    return z.total_out;
}

static inline size_t pack_xz(uint8_t *out, size_t most, const uint8_t *data, size_t size) {
    size_t n = 0;
    assert_int_equal(lzma_easy_buffer_encode(1, LZMA_CHECK_CRC32, NULL, data, size, out, &n, most), LZMA_OK);
    return n;
}

#ifdef WITH_ZSTD
/* With a checksum, as the program zstd does. */
static inline size_t pack_zstd(uint8_t *out, size_t most, const uint8_t *data, size_t size) {
    ZSTD_CCtx *context = ZSTD_createCCtx();
    assert_non_null(context);
    assert_false(ZSTD_isError(ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1)));
    const size_t n = ZSTD_compress2(context, out, most, data, size);
    assert_false(ZSTD_isError(n));
    ZSTD_freeCCtx(context);
    return n;
}
#endif

#endif
