/* Reads whole files and unpacks them. Memory grows with the unpacked bytes and never beyond the caller's limit, so that
 * a small file that unpacks to a huge one does no harm. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/integer.h"
#include "base/memory.h"
#include "base/read_progress.h"
#include "base/unpack.h"

typedef struct {
    const char *path;
    ll_bytes out;
    size_t capacity;
    uint64_t limit;
    ll_limit_fn *next; /* or NULL */
    void *arg;
} reading;

static ll_status unreadable(const char *path) {
    return ll_fail(LL_EIO, "cannot read %s: %s", path, strerror(errno));
}

/* Space for at least one more byte. The block is one byte longer than `capacity`, because text ends with a zero. */
static ll_status reserve(reading *f, size_t hint) {
    const ll_status status = f->next && f->out.size > f->limit ? f->next(&f->limit, &f->out, f->arg) : LL_OK;
    if (status) return status;
    if (f->out.size > f->limit)
        return ll_fail(LL_EFORMAT, "%s holds more than %llu bytes unpacked, the most that is accepted here", f->path,
                       (unsigned long long)f->limit);
    if (f->out.size < f->capacity) return LL_OK;
    /* It asks for one byte beyond the limit, to learn whether the file goes on. */
    const size_t most = f->limit < SIZE_MAX / 4 ? (size_t)f->limit + 1 : SIZE_MAX / 4;
    size_t capacity = ll_max_size(2 * f->capacity, hint);
    if (capacity > most || capacity < f->capacity) capacity = most;
    uint8_t *const data = ll_alloc(capacity + 1, 1);
    if (!data) return ll_fail_in(LL_ENOMEM, f->path);
    if (f->out.size) memcpy(data, f->out.data, f->out.size);
    ll_free(f->out.data);
    f->out.data = data;
    f->capacity = capacity;
    return LL_OK;
}

static ll_status read_all(reading *f, ll_unpack *u) {
    const int64_t known = ll_unpack_size(u);
    const size_t size = known > 0 && (uint64_t)known < SIZE_MAX / 4 ? (size_t)known : 1 << 16;
    const size_t hint = ll_unpack_is_packed(u) ? 4 * size : size + 1;
    for (size_t got = 1; got;) {
        ll_status status = reserve(f, hint);
        if (!status) status = ll_unpack_read(u, &got, f->out.data + f->out.size, f->capacity - f->out.size);
        if (status) return status;
        f->out.size += got;
    }
    return LL_OK;
}

ll_status ll_file_read(ll_bytes *bytes, const char *path, uint64_t limit) {
    return ll_file_read_by(bytes, path, limit, NULL, NULL);
}

ll_status ll_file_read_by(ll_bytes *bytes, const char *path, uint64_t limit, ll_limit_fn *next, void *arg) {
    reading f = {.path = path, .limit = limit, .next = next, .arg = arg};
    ll_unpack *u = NULL;
    ll_status status = ll_unpack_open(&u, path);
    if (!status) status = read_all(&f, u);
    ll_unpack_close(u);
    if (status) {
        ll_free(f.out.data);
        return status;
    }
    f.out.data[f.out.size] = 0; /* the zero at the end replaces the byte that was read beyond the file */
    *bytes = f.out;
    return LL_OK;
}

void ll_bytes_free(ll_bytes *bytes) {
    if (!bytes) return;
    if (bytes->mapped)
        munmap(bytes->data, bytes->size + 1);
    else
        ll_free(bytes->data);
    *bytes = (ll_bytes){0};
}

static ll_status too_large(int64_t size, const char *path) {
    return ll_fail(LL_ENOMEM, "no memory to map the %lld bytes of %s", (long long)size, path);
}

/* Maps empty pages for `size` bytes and the zero after them. */
static ll_status map_empty(ll_bytes *bytes, size_t size, const char *path) {
    void *const p = mmap(NULL, size + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return too_large((int64_t)size, path);
    *bytes = (ll_bytes){p, size, 1};
    return LL_OK;
}

ll_status ll_descriptor_map(ll_bytes *bytes, int fd, size_t size, const char *name) {
    ll_bytes b = {0};
    const ll_status status = map_empty(&b, size, name);
    if (status) return status;
    /* The file is mapped over the empty pages, so that a zero follows even if the file fills its last page. */
    const int flags = MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE;
    if (size && mmap(b.data, size, PROT_READ | PROT_WRITE, flags, fd, 0) == MAP_FAILED) {
        const ll_status failed = unreadable(name);
        ll_bytes_free(&b);
        return failed;
    }
    *bytes = b;
    return LL_OK;
}

/* Opens a plain file, one that is not packed, as *fd and returns 1. Pipes must be read, and ll_file_read reports
 * errors. */
static int open_plain(int *fd, int64_t *size, const char *path) {
    struct stat info;
    uint8_t begin[6];
    if (stat(path, &info) || !S_ISREG(info.st_mode)) return 0;
    *fd = open(path, O_RDONLY | O_CLOEXEC);
    if (*fd < 0) return 0;
    const ssize_t n = fstat(*fd, &info) || !S_ISREG(info.st_mode) ? -1 : pread(*fd, begin, sizeof begin, 0);
    if (n >= 0 && !ll_packed_bytes(begin, (size_t)n)) {
        *size = info.st_size;
        return 1;
    }
    close(*fd);
    return 0;
}

int64_t ll_file_plain_size(const char *path) {
    int64_t size = 0;
    int fd;
    if (!open_plain(&fd, &size, path)) return -1;
    close(fd);
    return size;
}

ll_status ll_file_map(ll_bytes *bytes, const char *path) {
    int64_t size = 0;
    int fd;
#if defined(__EMSCRIPTEN__) /* has no pages, so that a map would be a copy, too */
    return ll_file_read(bytes, path, SIZE_MAX);
#endif
    if (!open_plain(&fd, &size, path)) return ll_file_read(bytes, path, SIZE_MAX);
    const int fits = (uint64_t)size < SIZE_MAX;
    const ll_status status = fits ? ll_descriptor_map(bytes, fd, (size_t)size, path) : too_large(size, path);
    close(fd);
    return status;
}

void ll_bytes_leave(const ll_bytes *bytes) {
    if (bytes->mapped) madvise(bytes->data, bytes->size, MADV_DONTNEED);
}

void ll_bytes_pass(const ll_bytes *bytes, size_t at, size_t *left) {
    const uint8_t *data = bytes->data;
    ll_read_progress_pass(at, bytes->size);
    if (!bytes->mapped || at - *left < LL_PAGES_MOST) return;
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE) - 1;
    const uintptr_t from = ((uintptr_t)data + *left + page) & ~page, to = ((uintptr_t)data + at) & ~page;
    madvise((void *)from, to - from, MADV_DONTNEED);
    *left = at;
}

void ll_bytes_touch(const ll_bytes *bytes, size_t size, size_t *touched) {
    if (ll_pages_due(touched, size)) ll_bytes_leave(bytes);
}
