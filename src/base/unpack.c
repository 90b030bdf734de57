/* Reads files from front to back. The first bytes tell the format, never the name. gzip, xz and zstd are unpacked
 * while reading. Memory holds one chunk of the file, and what the archive's format needs. */
#include "base/integer.h"
#include "base/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/decode.h"
#include "base/memory.h"
#include "base/read_progress.h"

enum { CHUNK = 1 << 16, STEP = 1 << 30 };

/* The first bytes of packed files. pzstd begins with a frame to skip (RFC 8878), the low half of whose first byte is
 * free. */
static const struct {
    enum ll_packing packing;
    uint8_t free; /* bits of the first byte */
    uint8_t magic[6];
    size_t size;
} packings[] = {
    {LL_GZIP, 0, {0x1f, 0x8b, 8}, 3},
    {LL_XZ, 0, {0xfd, '7', 'z', 'X', 'Z', 0}, 6},
    {LL_ZSTD, 0, {0x28, 0xb5, 0x2f, 0xfd}, 4},
    {LL_ZSTD, 0x0f, {0x5f, 0x2a, 0x4d, 0x18}, 4},
};
enum { PACKINGS = sizeof packings / sizeof *packings };

struct ll_unpack {
    char *name;
    int fd, ended;
    ll_decoder *decoder; /* NULL: the file is plain */
    int64_t size, taken; /* of the file; read from it */
    size_t at, in;       /* bytes chunk[at .. in) are not consumed yet */
    uint8_t chunk[CHUNK];
};

static ll_status take(ll_unpack *u, size_t *got, uint8_t *to, size_t most) {
    const ssize_t n = read(u->fd, to, ll_min_size(most, STEP));
    if (n < 0 && errno == EINTR) return ll_fail(LL_ESTOPPED, "a signal arrived while %s was read", u->name);
    if (n < 0) return ll_fail(LL_EIO, "cannot read %s: %s", u->name, strerror(errno));
    *got = (size_t)n;
    u->taken += n;
    return LL_OK;
}

/* Reads the next chunk if the last one is consumed. */
static ll_status refill(ll_unpack *u) {
    u->at = u->in = 0;
    return take(u, &u->in, u->chunk, CHUNK);
}

/* Do the n bytes, 1 or more, agree with a magic number as far as they go? */
static int agree(const uint8_t *data, size_t n, int i) {
    const size_t m = ll_min_size(n, packings[i].size);
    return (data[0] | packings[i].free) == packings[i].magic[0] && !memcmp(data + 1, packings[i].magic + 1, m - 1);
}

/* The packing whose magic number the n bytes begin with; PACKINGS if there is none. */
static int packing_of(const uint8_t *data, size_t n) {
    int i = 0;
    while (i < PACKINGS && !(n >= packings[i].size && agree(data, n, i))) i++;
    return i;
}

int ll_packed_bytes(const uint8_t *data, size_t n) { return packing_of(data, n) < PACKINGS; }

/* Are the n bytes so few that more may make them a magic number? */
static int may_be_packed(const uint8_t *data, size_t n) {
    for (int i = 0; i < PACKINGS; i++)
        if (n < packings[i].size && agree(data, n, i)) return 1;
    return 0;
}

/* Reads only as many bytes as tell the format, because a pipe may have no more yet. */
static ll_status detect_format(ll_unpack *u) {
    ll_status status = refill(u);
    while (!status && u->in && may_be_packed(u->chunk, u->in)) {
        size_t got = 0;
        status = take(u, &got, u->chunk + u->in, CHUNK - u->in);
        if (!got) break;
        u->in += got;
    }
    if (status) return status;
    u->ended = !u->in;
    const int i = packing_of(u->chunk, u->in);
    return i < PACKINGS ? ll_decoder_create(&u->decoder, packings[i].packing, u->name) : LL_OK;
}

/* The first neighbour of a file that is not there: the same file, packed or unpacked. NULL, with errno. */
static char *neighbour(const char *path) {
    static const char *const packed[] = {"", ".gz", ".xz", ".zst"};
    const size_t all = strlen(path);
    size_t stem = all;
    for (int i = 1; i < 4; i++) {
        const size_t n = strlen(packed[i]);
        if (all > n && !strcmp(path + all - n, packed[i])) stem = all - n;
    }
    char *other = ll_alloc(stem + 5, 1);
    if (!other) {
        errno = ENOMEM;
        return NULL;
    }
    for (int i = 0; i < 4; i++) {
        snprintf(other, stem + 5, "%.*s%s", (int)stem, path, packed[i]);
        if (!access(other, F_OK)) return other;
    }
    ll_free(other);
    errno = ENOENT;
    return NULL;
}

char *ll_unpack_find(const char *path) {
    if (access(path, F_OK) && errno == ENOENT) return neighbour(path);
    char *own = ll_strdup(path);
    if (!own) errno = ENOMEM;
    return own;
}

/* Opens the file of this name, or the neighbour of one that is not there; u->name becomes its name. */
static int open_either(ll_unpack *u, const char *path) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    char *other = fd < 0 && errno == ENOENT ? neighbour(path) : NULL;
    if (!other) return fd;
    ll_free(u->name);
    u->name = other;
    return open(other, O_RDONLY | O_CLOEXEC);
}

/* A disk that fails is no fault of the input. A link that leads nowhere is. */
static ll_status not_opened(const ll_unpack *u, int error) {
    struct stat link;
    if (error == ENOENT && !lstat(u->name, &link) && S_ISLNK(link.st_mode))
        return ll_fail(LL_EINVAL, "cannot open %s: it is a link that leads nowhere", u->name);
    return ll_fail(LL_EIO, "cannot open %s: %s", u->name, strerror(error));
}

static ll_status open_file(ll_unpack *u, const char *path) {
    struct stat info;
    u->fd = path ? open_either(u, path) : STDIN_FILENO;
    if (u->fd < 0 && errno == EINTR) return ll_fail(LL_ESTOPPED, "a signal arrived while %s was opened", u->name);
    if (u->fd < 0 && errno == ENOMEM) return ll_fail(LL_ENOMEM, "no memory to open %s", u->name);
    if (u->fd < 0) return not_opened(u, errno);
    if (fstat(u->fd, &info)) return ll_fail(LL_EIO, "cannot read %s: %s", u->name, strerror(errno));
    if (S_ISDIR(info.st_mode)) return ll_fail(LL_EIO, "%s is a folder; name a file", u->name);
    u->size = S_ISREG(info.st_mode) ? (int64_t)info.st_size : -1;
    return detect_format(u);
}

ll_status ll_unpack_open(ll_unpack **out, const char *path) {
    ll_unpack *u = ll_alloc(1, sizeof *u);
    if (!u) return LL_ENOMEM;
    u->fd = -1;
    u->name = ll_strdup(path ? path : "standard input");
    const ll_status status = u->name ? open_file(u, path) : LL_ENOMEM;
    if (status) {
        ll_unpack_close(u);
        return status;
    }
    *out = u;
    return LL_OK;
}

void ll_unpack_close(ll_unpack *u) {
    if (!u) return;
    ll_decoder_free(u->decoder);
    if (u->fd > STDIN_FILENO) close(u->fd);
    ll_free(u->name);
    ll_free(u);
}

/* ---- Bytes ---- */

static ll_status read_plain(ll_unpack *u, size_t *got, uint8_t *to, size_t most) {
    if (u->at == u->in) {
        const ll_status status = take(u, got, to, most);
        u->ended = !*got; /* a terminal would ask for input again */
        return status;
    }
    *got = ll_min_size(u->in - u->at, most);
    memcpy(to, u->chunk + u->at, *got);
    u->at += *got;
    return LL_OK;
}

static ll_status read_packed(ll_unpack *u, size_t *got, uint8_t *to, size_t most) {
    while (!*got && !u->ended) {
        ll_status status = LL_OK;
        size_t used = 0;
        if (u->at == u->in && (status = refill(u))) return status;
        status = ll_decoder_step(u->decoder, u->chunk + u->at, u->in - u->at, &used, to, most, got, &u->ended);
        if (status) return status;
        u->at += used;
    }
    return LL_OK;
}

ll_status ll_unpack_read(ll_unpack *u, size_t *got, void *to, size_t most) {
    *got = 0;
    if (u->ended || !most) return LL_OK;
    const ll_status status = u->decoder ? read_packed(u, got, to, most) : read_plain(u, got, to, most);
    if (u->size >= 0) ll_read_progress(u->name, u->taken, u->size);
    return status;
}

const char *ll_unpack_name(const ll_unpack *u) {
    return u->name;
}

int ll_unpack_is_packed(const ll_unpack *u) {
    return u->decoder != NULL;
}

int64_t ll_unpack_size(const ll_unpack *u) {
    return u->size;
}

int64_t ll_unpack_taken(const ll_unpack *u) {
    return u->taken;
}
