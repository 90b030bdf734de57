/* Unpacks archives, tar (packed or not) and zip, by libarchive, to the files that recipes name. */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "sets/fetch.h"

enum { PIECE = 1 << 16 /* bytes that are read at once */ };

typedef struct {
    struct archive *in;
    const char *archive, *folder;
    int strip;
    int64_t size; /* position in the archive */
    ll_done_fn *progress;
    void *arg;
    uint8_t piece[PIECE];
} unpacking;

static ll_status no_memory(const unpacking *u) { return ll_fail(LL_ENOMEM, "no memory to unpack %s", u->archive); }

static ll_status damaged(const unpacking *u) {
    const char *why = archive_error_string(u->in);
    if (archive_errno(u->in) == ENOMEM) return no_memory(u);
    return ll_fail(LL_EFORMAT, "cannot unpack %s: %s; fetch it again", u->archive, why ? why : "it is damaged");
}

static ll_status go_on(const unpacking *u) {
    if (!u->progress || !u->progress(archive_filter_bytes(u->in, -1), u->size, u->arg)) return LL_OK;
    return ll_fail(LL_ESTOPPED, "%s was unpacked only in part, as asked", u->archive);
}

/* The name of a member without its first folders; NULL: nothing is left. */
static const char *shorter(const char *name, int strip) {
    while (!strncmp(name, "./", 2)) name += 2;
    for (; strip > 0; strip--) {
        const char *slash = strchr(name, '/');
        if (!slash) return NULL;
        name = slash + 1;
    }
    return *name ? name : NULL;
}

/* Would it lie outside of the folder? */
static int leads_out(const char *name) {
    if (*name == '/') return 1;
    for (const char *at = name; at; at = strchr(at, '/') ? strchr(at, '/') + 1 : NULL)
        if (!strncmp(at, "..", 2) && (!at[2] || at[2] == '/')) return 1;
    return 0;
}

static ll_status write_all(int fd, const uint8_t *data, size_t size, const char *path) {
    while (size) {
        const ssize_t n = write(fd, data, size);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return ll_partial_unwritable(path);
        data += n;
        size -= (size_t)n;
    }
    return LL_OK;
}

static ll_status copy_member(unpacking *u, int fd, const char *path) {
    for (;;) {
        const la_ssize_t n = archive_read_data(u->in, u->piece, PIECE);
        if (n < 0) return damaged(u);
        if (!n) return LL_OK;
        ll_status status = write_all(fd, u->piece, (size_t)n, path);
        if (!status) status = go_on(u);
        if (status) return status;
    }
}

/* A file is first written under another name, so that it is complete or absent. It is not forced to disk, because an
 * archive may have tens of thousands of files, and can be unpacked again. */
static ll_status write_member(unpacking *u, const char *path) {
    const size_t n = strlen(path) + 6;
    char *part = ll_alloc(n, 1);
    if (!part) return LL_ENOMEM;
    snprintf(part, n, "%s.part", path);
    const int fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    ll_status status = fd < 0 ? ll_partial_unwritable(part) : copy_member(u, fd, part);
    if (fd >= 0 && close(fd) && !status) status = ll_partial_unwritable(part);
    if (!status && rename(part, path)) status = ll_partial_unwritable(path);
    if (status && fd >= 0) unlink(part);
    ll_free(part);
    return status;
}

static int is_there(const char *path, struct archive_entry *entry) {
    struct stat info;
    return archive_entry_size_is_set(entry) && !stat(path, &info) && S_ISREG(info.st_mode) &&
           info.st_size == archive_entry_size(entry);
}

static ll_status unpack_member(unpacking *u, struct archive_entry *entry) {
    const char *whole = archive_entry_pathname(entry);
    if (!whole) return ll_fail(LL_EFORMAT, "cannot unpack %s: a name in it cannot be read", u->archive);
    const char *name = shorter(whole, u->strip);
    if (!name || archive_entry_filetype(entry) == AE_IFDIR) return LL_OK;
    if (archive_entry_hardlink(entry) || archive_entry_filetype(entry) != AE_IFREG)
        return ll_fail(LL_EFORMAT, "cannot unpack %s: %s is a link or a device; only files and folders are unpacked",
                       u->archive, whole);
    if (leads_out(name))
        return ll_fail(LL_EFORMAT, "cannot unpack %s: %s would lie outside of %s", u->archive, whole, u->folder);
    char *path = ll_path_join(u->folder, name);
    if (!path) return LL_ENOMEM;
    ll_status status = LL_OK;
    if (!is_there(path, entry)) {
        status = ll_folder_create_for(path);
        if (!status) status = write_member(u, path);
    }
    ll_free(path);
    return status;
}

/* What archives of published data are packed by. archive_read_support_filter_all does not tell when memory is short. */
static ll_status support(unpacking *u) {
    static int (*const supports[])(struct archive *) = {
        archive_read_support_filter_gzip, archive_read_support_filter_bzip2, archive_read_support_filter_xz,
        archive_read_support_filter_zstd, archive_read_support_format_tar,   archive_read_support_format_zip,
    };
    for (size_t i = 0; i < sizeof supports / sizeof *supports; i++)
        if (supports[i](u->in) < ARCHIVE_WARN) return no_memory(u);
    return LL_OK;
}

static ll_status unpack_all(unpacking *u) {
    struct archive_entry *entry;
    struct stat info;
    u->size = stat(u->archive, &info) ? 0 : (int64_t)info.st_size;
    if (archive_read_open_filename(u->in, u->archive, PIECE) != ARCHIVE_OK) return damaged(u);
    for (;;) {
        const int r = archive_read_next_header(u->in, &entry);
        if (r == ARCHIVE_EOF) return LL_OK;
        if (r < ARCHIVE_WARN) return damaged(u);
        ll_status status = unpack_member(u, entry);
        if (!status) status = go_on(u);
        if (status) return status;
    }
}

ll_status ll_data_unpack(const char *archive, const char *folder, int strip, ll_done_fn *progress, void *arg) {
    unpacking *u = ll_alloc(1, sizeof *u);
    if (!u) return LL_ENOMEM;
    *u = (unpacking){.in = archive_read_new(), .archive = archive, .folder = folder, .strip = strip, .arg = arg};
    u->progress = progress;
    ll_status status = u->in ? support(u) : no_memory(u);
    if (!status) status = unpack_all(u);
    archive_read_free(u->in);
    ll_free(u);
    return status;
}
