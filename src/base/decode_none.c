/* A build without zlib and liblzma (make PACKED=) reads plain files alone. */
#include "base/decode.h"

ll_status ll_decoder_create(ll_decoder **decoder, enum ll_packing packing, const char *name) {
    static const char *const programs[] = {[LL_GZIP] = "gzip", [LL_XZ] = "xz", [LL_ZSTD] = "zstd"};
    (void)decoder;
    return ll_fail(LL_EINVAL, "%s is packed, and this build of longline unpacks nothing; unpack it first: %s -d", name,
                   programs[packing]);
}

void ll_decoder_free(ll_decoder *decoder) { (void)decoder; }

ll_status ll_decoder_step(ll_decoder *decoder, const uint8_t *from, size_t n, size_t *used, uint8_t *to, size_t most,
                          size_t *got, int *ended) {
    (void)from, (void)n, (void)used, (void)to, (void)most, (void)got, (void)ended;
    return ll_decoder_create(&decoder, LL_GZIP, "it");
}
