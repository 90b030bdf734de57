/* Any bytes as a file that may be packed; and bytes packed by us, with one of them changed. What comes out does
 * not depend on how much is asked for at a time; what we packed and did not change comes out as it went in.
 *
 * The first byte says what is done: 0 to 15: the rest is the file; else the rest is packed, odd numbers with
 * gzip and even ones with xz, or from 128 on with zstd, where the build has it. Where the second byte is no zero,
 * the byte at that share of the archive is inverted. */
#include <lzma.h>
#include <string.h>
#include <zlib.h>
#ifdef WITH_ZSTD
#include <zstd.h>
#endif

#include "base/file.h"
#include "base/unpack.h"
#include "fuzz/read_all.h"

enum { ROOM = 1 << 20 };
static uint8_t packed[ROOM + 4096], whole[ROOM], again[ROOM];

static size_t gzip(const uint8_t *data, size_t size) {
    z_stream z = {.next_in = (uint8_t *)data, .avail_in = (unsigned)size, .next_out = packed};
    z.avail_out = sizeof packed;
    check(deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
    check(deflate(&z, Z_FINISH) == Z_STREAM_END);
    check(deflateEnd(&z) == Z_OK);
    return z.total_out;
}

static size_t xz(const uint8_t *data, size_t size) {
    size_t n = 0;
    check(lzma_easy_buffer_encode(0, LZMA_CHECK_CRC32, NULL, data, size, packed, &n, sizeof packed) == LZMA_OK);
    return n;
}

static size_t pack(int how, const uint8_t *data, size_t size) {
#ifdef WITH_ZSTD
    if (how >= 128 && how % 2 == 0) {
        const size_t n = ZSTD_compress(packed, sizeof packed, data, size, 1);
        check(!ZSTD_isError(n));
        return n;
    }
#endif
    return how & 1 ? gzip(data, size) : xz(data, size);
}

/* As much as fits; -1 where it is refused. */
static long read_by(const char *path, uint8_t *to, size_t piece) {
    ll_unpack *u = NULL;
    size_t n = 0, got = 1;
    ll_status status = ll_unpack_open(&u, path);
    while (!status && got && n < ROOM) {
        status = ll_unpack_read(u, &got, to + n, piece < ROOM - n ? piece : ROOM - n);
        if (!status) n += got;
    }
    if (status) check(strlen(ll_error()) > 10);
    if (u) check(*ll_unpack_name(u) && ll_unpack_taken(u) <= ll_unpack_size(u));
    if (!status && !ll_unpack_is_packed(u) && n < ROOM) check((int64_t)n == ll_unpack_size(u));
    ll_unpack_close(u);
    return status ? -1 : (long)n;
}

/* A name with another ending, of which only the neighbour exists, gives the same; one without one is refused. */
static void by_neighbour(const uint8_t *data, size_t size, long expected) {
    ll_unpack *u = NULL;
    char path[128];
    snprintf(path, sizeof path, "%s", file_of("file.xz", data, size));
    strcpy(strrchr(path, '.'), ".gz");
    check(read_by(path, again, 1 << 16) == expected);
    check(!unlink(file_of("file.xz", data, size)));
    check(ll_unpack_open(&u, path) && !u && strlen(ll_error()) > 10);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2 || size > ROOM / 2) return 0;
    const int how = data[0], flip = data[1];
    const uint8_t *given = data + 2;
    size_t n = size - 2;
    if (how < 16) {
        if (n) memcpy(packed, given, n);
    } else {
        n = pack(how, given, n);
        if (flip) packed[n * (size_t)flip / 256] ^= 0xff;
    }
    const char *path = in_memory(packed, n);
    const long a = read_by(path, whole, 1 << 16), b = read_by(path, again, 7);
    check(a == b && (a < 0 || !memcmp(whole, again, (size_t)a)));
    if (how >= 16 && !flip) check(a == (long)size - 2 && !memcmp(whole, given, (size_t)a));
    by_neighbour(packed, n, a);
    ll_bytes bytes = {0};
    if (!ll_file_read(&bytes, path, 1000)) check(bytes.size <= 1000);
    ll_bytes_free(&bytes);
    return 0;
}
