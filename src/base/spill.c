/* Bytes that are larger than memory (spill.h). */
#include "base/spill.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/unpack.h"

enum {
    FIRST = 1 << 16,
#if defined(__EMSCRIPTEN__)
    HAS_FILES = 0 /* in a browser, files are in memory, too */
#else
    HAS_FILES = 1
#endif
};

static size_t large = LL_LARGE_FILE;

void ll_large_file_is(size_t size) { large = size ? size : LL_LARGE_FILE; }

int ll_file_is_large(const char *path) { return HAS_FILES && ll_file_plain_size(path) >= (int64_t)large; }

/* ---- The temporary file ---- */

static const char *folder(void) {
    const char *named = getenv("TMPDIR");
    if (named && *named) return named;
    return access("/var/tmp", W_OK) ? "/tmp" : "/var/tmp";
}

static ll_status unwritable(const ll_spill *s) {
    const int why = errno; /* folder() may change it */
    return ll_fail(LL_EIO,
                   "%s is large, and its temporary file in %s cannot be written: %s; set TMPDIR to a folder with "
                   "enough space",
                   s->name, folder(), strerror(why));
}

/* Not all file systems have files without a name. There the name is removed at once. */
static ll_status create_file(ll_spill *s) {
    ll_status status = LL_OK;
    int fd = -1;
#ifdef O_TMPFILE
    fd = open(folder(), O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600);
#endif
    if (fd < 0) {
        char *path = ll_path_join(folder(), "longline-XXXXXX");
        if (!path) return LL_ENOMEM;
        if ((fd = mkostemp(path, O_CLOEXEC)) < 0) status = unwritable(s);
        if (fd >= 0) unlink(path);
        ll_free(path);
    }
    if (!status && !(s->file = fdopen(fd, "w+b"))) {
        status = unwritable(s);
        close(fd);
    }
    return status;
}

/* Moves what is in memory into a file. */
static ll_status open_file(ll_spill *s) {
    const ll_status status = create_file(s);
    if (status) return status;
    if (s->bytes.size && fwrite(s->bytes.data, 1, s->bytes.size, s->file) != s->bytes.size) return unwritable(s);
    ll_free(s->bytes.data);
    s->bytes.data = NULL;
    return LL_OK;
}

/* ---- Adding ---- */

static ll_status grow(ll_spill *s, size_t size) {
    size_t capacity = s->capacity ? 2 * s->capacity : FIRST;
    while (capacity < s->bytes.size + size) capacity *= 2;
    uint8_t *data = ll_alloc(capacity + 1, 1);
    if (!data) return ll_fail_in(LL_ENOMEM, s->name);
    if (s->bytes.size) memcpy(data, s->bytes.data, s->bytes.size);
    ll_free(s->bytes.data);
    s->bytes.data = data;
    s->capacity = capacity;
    return LL_OK;
}

ll_status ll_spill_add(ll_spill *s, const void *data, size_t size) {
    ll_status status = LL_OK;
    if (!size) return LL_OK;
    if (size > SIZE_MAX / 4 - s->bytes.size) return ll_fail(LL_ENOMEM, "%s is too large", s->name);
    if (HAS_FILES && !s->file && s->bytes.size + size > large) status = open_file(s);
    if (!status && !s->file && s->bytes.size + size > s->capacity) status = grow(s, size);
    if (status) return status;
    if (!s->file)
        memcpy(s->bytes.data + s->bytes.size, data, size);
    else if (fwrite(data, 1, size, s->file) != size)
        return unwritable(s);
    s->bytes.size += size;
    return LL_OK;
}

ll_status ll_spill_add_file(ll_spill *s, const char *path) {
    uint8_t block[1 << 16];
    ll_unpack *u = NULL;
    ll_status status = ll_unpack_open(&u, path);
    for (size_t got = 1; !status && got;) {
        status = ll_unpack_read(u, &got, block, sizeof block);
        if (!status) status = ll_spill_add(s, block, got);
    }
    ll_unpack_close(u);
    return status;
}

/* fsync: some file systems report only then that there is no space. */
ll_status ll_spill_end(ll_spill *s, ll_bytes *bytes) {
    ll_status status = LL_OK;
    if (s->file) {
        const int fd = fileno(s->file);
        if (fflush(s->file) || (fsync(fd) && errno != EINVAL))
            status = unwritable(s);
        else
            status = ll_descriptor_map(bytes, fd, s->bytes.size, s->name);
    } else if (s->bytes.data || !(status = grow(s, 1))) {
        s->bytes.data[s->bytes.size] = 0;
        *bytes = s->bytes;
        s->bytes.data = NULL;
    }
    ll_spill_free(s);
    return status;
}

void ll_spill_free(ll_spill *s) {
    if (s->file) fclose(s->file);
    ll_free(s->bytes.data);
    *s = (ll_spill){.name = s->name};
}

/* ---- Files ---- */

ll_status ll_file_take(ll_bytes *bytes, const char *path) {
    ll_spill s = {.name = path};
    if (ll_file_is_large(path)) return ll_file_map(bytes, path);
    if (ll_file_plain_size(path) >= 0) return ll_file_read(bytes, path, SIZE_MAX / 4);
    ll_status status = ll_spill_add_file(&s, path);
    if (!status) status = ll_spill_end(&s, bytes);
    ll_spill_free(&s);
    return status;
}
