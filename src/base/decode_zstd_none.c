/* A build without libzstd. */
#include "base/decode_zstd.h"

ll_status ll_zstd_create(ll_zstd **zstd) {
    (void)zstd;
    return ll_fail(LL_EINVAL, "this build of longline does not unpack zstd; unpack it first with zstd -d, or build "
                              "longline again where libzstd-dev is installed");
}

void ll_zstd_free(ll_zstd *zstd) { (void)zstd; }

enum ll_zstd_found ll_zstd_step(ll_zstd *zstd, const uint8_t *from, size_t n, size_t *used, uint8_t *to, size_t most,
                                size_t *got, const char **what) {
    (void)zstd, (void)from, (void)n, (void)used, (void)to, (void)most, (void)got;
    *what = "";
    return LL_ZSTD_DAMAGED;
}
