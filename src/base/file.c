/* Reading whole files. What a file is shows in its first bytes, never in its name: gzip and xz are
 * unpacked on the way, into memory that grows with what comes out and never beyond the caller's limit,
 * so a small file that unpacks to a huge one does no harm. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <lzma.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/memory.h"

enum { CHUNK = 1 << 16, STEP = 1 << 30 };
enum packing { PLAIN, GZIP, XZ };

static const uint8_t GZIP_MAGIC[] = {0x1f, 0x8b, 8}, XZ_MAGIC[] = {0xfd, '7', 'z', 'X', 'Z', 0};
static const uint64_t XZ_MEMORY = 1 << 30; /* its strongest preset unpacks in 65 MB */

typedef struct {
    const char *path;
    int fd;
    size_t size; /* bytes of the chunk in use; 0 at the end of the file */
    uint8_t chunk[CHUNK];
    ll_bytes out;
    size_t capacity, limit;
} reading;

static enum packing packing_of(const uint8_t *data, size_t size) {
    if (size >= sizeof GZIP_MAGIC && !memcmp(data, GZIP_MAGIC, sizeof GZIP_MAGIC)) return GZIP;
    if (size >= sizeof XZ_MAGIC && !memcmp(data, XZ_MAGIC, sizeof XZ_MAGIC)) return XZ;
    return PLAIN;
}

static ll_status unreadable(const char *path) {
    return ll_fail(LL_EIO, "cannot read %s: %s", path, strerror(errno));
}

/* As many bytes as there are, up to `most`. */
static ll_status take(size_t *got, const reading *f, uint8_t *to, size_t most) {
    *got = 0;
    while (*got < most) {
        const ssize_t n = read(f->fd, to + *got, most - *got < STEP ? most - *got : STEP);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return unreadable(f->path);
        if (!n) break;
        *got += (size_t)n;
    }
    return LL_OK;
}

/* Room for at least one more byte. The block is one longer than `capacity`: text ends with a zero. */
static ll_status make_room(reading *f, size_t hint) {
    if (f->out.size > f->limit)
        return ll_fail(LL_EFORMAT, "%s holds more than %zu bytes unpacked, the most that is accepted here", f->path,
                       f->limit);
    if (f->out.size < f->capacity) return LL_OK;
    /* One byte beyond the limit is asked for, to learn whether the file goes on. */
    const size_t most = f->limit < SIZE_MAX / 4 ? f->limit + 1 : SIZE_MAX / 4;
    size_t capacity = f->capacity ? 2 * f->capacity : hint;
    if (capacity > most || capacity < f->capacity) capacity = most;
    uint8_t *const data = ll_alloc(capacity + 1, 1);
    if (!data) return ll_fail_in(LL_ENOMEM, f->path);
    if (f->out.size) memcpy(data, f->out.data, f->out.size);
    ll_free(f->out.data);
    f->out.data = data;
    f->capacity = capacity;
    return LL_OK;
}

static ll_status read_plain(reading *f, size_t hint) {
    ll_status status = make_room(f, hint);
    if (status) return status;
    size_t got = f->size < f->capacity ? f->size : f->capacity;
    memcpy(f->out.data, f->chunk, got);
    f->out.size = got;
    if (got < f->size) return make_room(f, 0); /* beyond the limit: says so */
    for (;;) {
        status = make_room(f, hint);
        if (status) return status;
        const size_t room = f->capacity - f->out.size;
        status = take(&got, f, f->out.data + f->out.size, room);
        if (status) return status;
        f->out.size += got;
        if (got < room) return LL_OK;
    }
}

static ll_status truncated(const reading *f) {
    return ll_fail(LL_EFORMAT, "%s is truncated: the archive ends after %zu unpacked bytes; fetch the file again",
                   f->path, f->out.size);
}

static ll_status damaged(const reading *f, const char *what) {
    return ll_fail(LL_EFORMAT, "%s is damaged: %s after %zu unpacked bytes; fetch the file again", f->path, what,
                   f->out.size);
}

/* Members of gzip may follow each other, and zeros may fill a tape's last block. */
static ll_status inflate_all(reading *f, z_stream *z, size_t hint) {
    int between = 0;
    z->next_in = f->chunk;
    z->avail_in = (uInt)f->size;
    for (;;) {
        if (!z->avail_in) {
            const ll_status status = take(&f->size, f, f->chunk, CHUNK);
            if (status) return status;
            if (!f->size) return between ? LL_OK : truncated(f);
            z->next_in = f->chunk;
            z->avail_in = (uInt)f->size;
        }
        if (between && !*z->next_in) {
            z->next_in++;
            z->avail_in--;
            continue;
        }
        if (between) inflateReset(z);
        const ll_status status = make_room(f, hint);
        if (status) return status;
        const size_t room = f->capacity - f->out.size;
        z->next_out = f->out.data + f->out.size;
        z->avail_out = (uInt)(room < STEP ? room : STEP);
        const int r = inflate(z, Z_NO_FLUSH);
        f->out.size = (size_t)(z->next_out - f->out.data);
        if (r == Z_MEM_ERROR) return ll_fail(LL_ENOMEM, "no memory to unpack %s", f->path);
        if (r != Z_OK && r != Z_BUF_ERROR && r != Z_STREAM_END) return damaged(f, z->msg ? z->msg : "no gzip data");
        between = r == Z_STREAM_END;
    }
}

static ll_status read_gzip(reading *f, size_t hint) {
    z_stream z = {0};
    if (inflateInit2(&z, 15 + 16) != Z_OK) return ll_fail(LL_ENOMEM, "no memory to unpack %s", f->path);
    const ll_status status = inflate_all(f, &z, hint);
    inflateEnd(&z);
    return status;
}

static ll_status decode_all(reading *f, lzma_stream *x, size_t hint) {
    x->next_in = f->chunk;
    x->avail_in = f->size;
    for (;;) {
        if (!x->avail_in && f->size) {
            const ll_status status = take(&f->size, f, f->chunk, CHUNK);
            if (status) return status;
            x->next_in = f->chunk;
            x->avail_in = f->size;
        }
        const ll_status status = make_room(f, hint);
        if (status) return status;
        x->next_out = f->out.data + f->out.size;
        x->avail_out = f->capacity - f->out.size;
        const lzma_ret r = lzma_code(x, f->size ? LZMA_RUN : LZMA_FINISH);
        f->out.size = (size_t)(x->next_out - f->out.data);
        if (r == LZMA_STREAM_END) return LL_OK;
        if (r == LZMA_MEM_ERROR) return ll_fail(LL_ENOMEM, "no memory to unpack %s", f->path);
        if (r == LZMA_MEMLIMIT_ERROR) return damaged(f, "it asks for more than 1 GiB to be unpacked");
        if (r == LZMA_BUF_ERROR) return truncated(f);
        if (r != LZMA_OK) return damaged(f, "no valid xz data");
    }
}

static ll_status read_xz(reading *f, size_t hint) {
    lzma_stream x = LZMA_STREAM_INIT;
    if (lzma_stream_decoder(&x, XZ_MEMORY, LZMA_CONCATENATED) != LZMA_OK)
        return ll_fail(LL_ENOMEM, "no memory to unpack %s", f->path);
    const ll_status status = decode_all(f, &x, hint);
    lzma_end(&x);
    return status;
}

static ll_status open_file(int *fd, struct stat *info, const char *path) {
    *fd = open(path, O_RDONLY | O_CLOEXEC);
    if (*fd < 0) return ll_fail(LL_EIO, "cannot open %s: %s", path, strerror(errno));
    ll_status status = LL_OK;
    if (fstat(*fd, info))
        status = unreadable(path);
    else if (S_ISDIR(info->st_mode))
        status = ll_fail(LL_EIO, "%s is a folder; name a file", path);
    if (status) close(*fd);
    return status;
}

static ll_status read_all(reading *f, const struct stat *info) {
    ll_status status = take(&f->size, f, f->chunk, CHUNK);
    if (status) return status;
    const size_t size = S_ISREG(info->st_mode) && info->st_size > 0 ? (size_t)info->st_size : CHUNK;
    switch (packing_of(f->chunk, f->size)) {
    case GZIP: status = read_gzip(f, 4 * size); break;
    case XZ: status = read_xz(f, 4 * size); break;
    case PLAIN: status = read_plain(f, size + 1); break;
    }
    return !status && f->out.size > f->limit ? make_room(f, 0) : status;
}

ll_status ll_file_read(ll_bytes *bytes, const char *path, size_t limit) {
    struct stat info;
    reading *f = ll_alloc(1, sizeof *f);
    if (!f) return LL_ENOMEM;
    f->path = path;
    f->limit = limit;
    ll_status status = open_file(&f->fd, &info, path);
    if (!status) {
        status = read_all(f, &info);
        close(f->fd);
    }
    if (!status) {
        f->out.data[f->out.size] = 0; /* where the end was looked for */
        *bytes = f->out;
    } else
        ll_free(f->out.data);
    ll_free(f);
    return status;
}

void ll_bytes_free(ll_bytes *bytes) {
    if (!bytes) return;
    ll_free(bytes->data);
    *bytes = (ll_bytes){0};
}

/* Empty pages of `size` bytes and the zero that follows. */
static ll_status map_empty(ll_bytes *bytes, size_t size, const char *path) {
    void *const p = mmap(NULL, size + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return ll_fail(LL_ENOMEM, "no memory to map the %zu bytes of %s", size, path);
    *bytes = (ll_bytes){p, size};
    return LL_OK;
}

static ll_status map_plain(ll_bytes *bytes, int fd, size_t size, const char *path) {
    ll_bytes b = {0};
    const ll_status status = map_empty(&b, size, path);
    if (status) return status;
    /* Over the empty pages, so that a zero follows also where the file ends with a page. */
    if (size && mmap(b.data, size, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) == MAP_FAILED) {
        const ll_status failed = unreadable(path);
        ll_bytes_unmap(&b);
        return failed;
    }
    *bytes = b;
    return LL_OK;
}

static ll_status map_unpacked(ll_bytes *bytes, const char *path) {
    ll_bytes unpacked = {0};
    ll_status status = ll_file_read(&unpacked, path, SIZE_MAX);
    if (!status) status = map_empty(bytes, unpacked.size, path);
    if (!status) memcpy(bytes->data, unpacked.data, unpacked.size);
    ll_bytes_free(&unpacked);
    return status;
}

ll_status ll_file_map(ll_bytes *bytes, const char *path) {
    struct stat info;
    uint8_t magic[sizeof XZ_MAGIC];
    int fd;
    ll_status status = open_file(&fd, &info, path);
    if (status) return status;
    const ssize_t n = pread(fd, magic, sizeof magic, 0); /* fails on pipes, which are read */
    if (S_ISREG(info.st_mode) && n >= 0 && packing_of(magic, (size_t)n) == PLAIN)
        status = map_plain(bytes, fd, (size_t)info.st_size, path);
    else
        status = map_unpacked(bytes, path);
    close(fd);
    return status;
}

void ll_bytes_unmap(ll_bytes *bytes) {
    if (!bytes || !bytes->data) return;
    munmap(bytes->data, bytes->size + 1);
    *bytes = (ll_bytes){0};
}
