/* zstd by libzstd. */
#include "base/decode_zstd.h"

#include <zstd.h>
#include <zstd_errors.h>

#include "base/memory.h"

enum { WINDOW_LOG_MOST = 30 }; /* zstd --long=30 needs 1 GiB to unpack, the usual levels at most 8 MiB */

struct ll_zstd {
    ZSTD_DCtx *context;
    int inside; /* has a frame begun that has not ended? */
};

ll_status ll_zstd_create(ll_zstd **zstd) {
    ll_zstd *z = ll_alloc(1, sizeof *z);
    if (!z) return LL_ENOMEM;
    z->context = ZSTD_createDCtx();
    if (!z->context) {
        ll_free(z);
        return ll_fail(LL_ENOMEM, "no memory to unpack zstd");
    }
    ZSTD_DCtx_setParameter(z->context, ZSTD_d_windowLogMax, WINDOW_LOG_MOST);
    *zstd = z;
    return LL_OK;
}

void ll_zstd_free(ll_zstd *z) {
    if (!z) return;
    ZSTD_freeDCtx(z->context);
    ll_free(z);
}

/* Frames may follow each other. What has been taken may come out later, also after the last byte. The first byte of a
 * frame is given alone, because libzstd decodes a frame that it gets as a whole by another way, which refuses damage
 * that this one accepts. So it does not matter how much is asked for at a time. */
enum ll_zstd_found ll_zstd_step(ll_zstd *z, const uint8_t *from, size_t n, size_t *used, uint8_t *to, size_t most,
                                size_t *got, const char **what) {
    ZSTD_inBuffer in = {from, n && !z->inside ? 1 : n, 0};
    ZSTD_outBuffer out = {to, most, 0};
    if (!n && !z->inside) return LL_ZSTD_ENDED;
    const size_t left = ZSTD_decompressStream(z->context, &out, &in);
    *used = in.pos;
    *got = out.pos;
    if (ZSTD_isError(left)) {
        *what = ZSTD_getErrorName(left);
        switch (ZSTD_getErrorCode(left)) {
        case ZSTD_error_memory_allocation: return LL_ZSTD_NO_MEMORY;
        case ZSTD_error_frameParameter_windowTooLarge: return LL_ZSTD_TOO_WIDE;
        default: return LL_ZSTD_DAMAGED;
        }
    }
    if (!n && !out.pos) return LL_ZSTD_TRUNCATED;
    z->inside = left != 0;
    return LL_ZSTD_GOES_ON;
}
