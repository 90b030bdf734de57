/* gzip by zlib, xz by liblzma, zstd by decode_zstd.c. */
#include "base/decode.h"

#include <limits.h>
#include <lzma.h>
#include <zlib.h>

#include "base/decode_zstd.h"
#include "base/integer.h"
#include "base/memory.h"

static const uint64_t XZ_MEMORY = 1 << 30; /* the strongest preset needs 65 MB to unpack */

struct ll_decoder {
    const char *name;
    enum ll_packing packing;
    int64_t given; /* bytes unpacked so far */
    int between;   /* gzip: a member has ended */
    z_stream gzip;
    lzma_stream xz;
    ll_zstd *zstd;
};

static ll_status no_memory(const char *name) { return ll_fail(LL_ENOMEM, "no memory to unpack %s", name); }

ll_status ll_decoder_create(ll_decoder **decoder, enum ll_packing packing, const char *name) {
    ll_decoder *d = ll_alloc(1, sizeof *d);
    if (!d) return LL_ENOMEM;
    d->name = name;
    d->packing = packing;
    d->xz = (lzma_stream)LZMA_STREAM_INIT;
    ll_status status = LL_OK;
    switch (packing) {
    case LL_GZIP:
        if (inflateInit2(&d->gzip, 15 + 16) != Z_OK) status = no_memory(name);
        break;
    case LL_XZ:
        if (lzma_stream_decoder(&d->xz, XZ_MEMORY, LZMA_CONCATENATED) != LZMA_OK) status = no_memory(name);
        break;
    case LL_ZSTD:
        status = ll_zstd_create(&d->zstd);
        if (status) status = ll_fail_in(status, name);
        break;
    }
    if (status) {
        ll_free(d);
        return status;
    }
    *decoder = d;
    return LL_OK;
}

void ll_decoder_free(ll_decoder *d) {
    if (!d) return;
    if (d->packing == LL_GZIP) inflateEnd(&d->gzip);
    if (d->packing == LL_XZ) lzma_end(&d->xz);
    ll_zstd_free(d->zstd);
    ll_free(d);
}

static ll_status truncated(const ll_decoder *d) {
    return ll_fail(LL_EFORMAT, "%s is truncated: the archive ends after %lld unpacked bytes; fetch the file again",
                   d->name, (long long)d->given);
}

static ll_status damaged(const ll_decoder *d, const char *what) {
    return ll_fail(LL_EFORMAT, "%s is damaged: %s after %lld unpacked bytes; fetch the file again", d->name, what,
                   (long long)d->given);
}

static ll_status too_wide(const ll_decoder *d, const char *command) {
    return ll_fail(LL_EFORMAT, "%s needs more than 1 GiB of memory to be unpacked; unpack it first with %s", d->name,
                   command);
}

/* Members of gzip may follow each other, and zeros may fill the last block. */
static ll_status step_gzip(ll_decoder *d, const uint8_t *from, size_t n, size_t *used, uint8_t *to, size_t most,
                           size_t *got, int *ended) {
    z_stream *z = &d->gzip;
    if (!n) {
        *ended = 1;
        return d->between ? LL_OK : truncated(d);
    }
    if (d->between && !*from) {
        *used = 1;
        return LL_OK;
    }
    if (d->between) inflateReset(z);
    const uInt in = (uInt)ll_min_size(n, UINT_MAX), out = (uInt)ll_min_size(most, UINT_MAX);
    z->next_in = (Bytef *)from;
    z->avail_in = in;
    z->next_out = to;
    z->avail_out = out;
    const int r = inflate(z, Z_NO_FLUSH);
    *used = in - z->avail_in;
    *got = out - z->avail_out;
    if (r == Z_MEM_ERROR) return no_memory(d->name);
    d->given += (int64_t)*got;
    if (r != Z_OK && r != Z_BUF_ERROR && r != Z_STREAM_END) return damaged(d, z->msg ? z->msg : "no gzip data");
    d->between = r == Z_STREAM_END;
    return LL_OK;
}

static ll_status step_xz(ll_decoder *d, const uint8_t *from, size_t n, size_t *used, uint8_t *to, size_t most,
                         size_t *got, int *ended) {
    lzma_stream *x = &d->xz;
    x->next_in = from;
    x->avail_in = n;
    x->next_out = to;
    x->avail_out = most;
    const lzma_ret r = lzma_code(x, n ? LZMA_RUN : LZMA_FINISH);
    *used = n - x->avail_in;
    *got = most - x->avail_out;
    d->given += (int64_t)*got;
    if (r == LZMA_STREAM_END) *ended = 1;
    if (r == LZMA_MEM_ERROR) return no_memory(d->name);
    if (r == LZMA_MEMLIMIT_ERROR) return too_wide(d, "xz -d");
    if (r == LZMA_BUF_ERROR) return truncated(d);
    if (r != LZMA_OK && r != LZMA_STREAM_END) return damaged(d, "no valid xz data");
    return LL_OK;
}

static ll_status step_zstd(ll_decoder *d, const uint8_t *from, size_t n, size_t *used, uint8_t *to, size_t most,
                           size_t *got, int *ended) {
    const char *what = "";
    const enum ll_zstd_found found = ll_zstd_step(d->zstd, from, n, used, to, most, got, &what);
    d->given += (int64_t)*got;
    switch (found) {
    case LL_ZSTD_NO_MEMORY: return no_memory(d->name);
    case LL_ZSTD_DAMAGED: return damaged(d, what);
    case LL_ZSTD_TOO_WIDE: return too_wide(d, "zstd -d --long=31");
    case LL_ZSTD_TRUNCATED: return truncated(d);
    case LL_ZSTD_ENDED: *ended = 1; return LL_OK;
    case LL_ZSTD_GOES_ON: break;
    }
    return LL_OK;
}

ll_status ll_decoder_step(ll_decoder *d, const uint8_t *from, size_t n, size_t *used, uint8_t *to, size_t most,
                          size_t *got, int *ended) {
    *used = *got = 0;
    if (d->packing == LL_ZSTD) return step_zstd(d, from, n, used, to, most, got, ended);
    return d->packing == LL_GZIP ? step_gzip(d, from, n, used, to, most, got, ended)
                                 : step_xz(d, from, n, used, to, most, got, ended);
}
