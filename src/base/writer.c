/* Writes files that are either whole or absent. Bytes go to a temporary file beside the target. When all of them have
 * reached the disk, that file is renamed to the target. So a crash, a full disk or a second interrupt leaves the old
 * file as it was.
 *
 * The temporary file is "target.tmp-longline", so that the next program overwrites what a killed one left. It is locked
 * until it is renamed. If it is locked already, by another program or thread, or if the file system has no locks, the
 * temporary file gets a name that no other file has. What a killed program left under such a name stays. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/integer.h"
#include "base/memory.h"

enum { BUFFER = 1 << 16, STEP = 1 << 30, SUFFIX = 48 };

struct ll_writer {
    char *path, *temp;
    mode_t mode; /* of the file that is replaced, or 0 */
    int fd, failed;
    size_t used;
    uint8_t buffer[BUFFER];
};

static ll_status unwritable(ll_writer *w) {
    const int reason = errno;
    w->failed = 1;
    return ll_fail(LL_EIO, "cannot write %s: %s", w->path, strerror(reason));
}

/* Writes into real[PATH_MAX] where the links of a path lead, also if nothing is there yet, and returns it. NULL: the
 * path is no link, or that is too long. */
static const char *follow_links(char *real, const char *path) {
    enum { LINKS = 40 }; /* as in Linux; more are a circle */
    char to[PATH_MAX], next[2 * PATH_MAX];
    const char *end = NULL;
    for (int i = 0; i < LINKS; i++, path = end = real) {
        const ssize_t n = readlink(path, to, sizeof to - 1);
        if (n <= 0) break;
        to[n] = 0;
        const char *slash = *to == '/' ? NULL : strrchr(path, '/');
        const int size = snprintf(next, sizeof next, "%.*s%s", slash ? (int)(slash - path) + 1 : 0, path, to);
        if (size >= PATH_MAX) return NULL;
        memcpy(real, next, (size_t)size + 1);
    }
    return end;
}

/* If the target is a link, the file behind it is replaced or made. Devices and pipes cannot be replaced. */
static ll_status choose_target(ll_writer *w, const char *path) {
    struct stat info;
    char real[PATH_MAX];
    const int exists = !stat(path, &info);
    if (exists && !S_ISREG(info.st_mode))
        return ll_fail(LL_EIO, "cannot write %s: it is %s", path,
                       S_ISDIR(info.st_mode) ? "a folder; name a file" : "not a regular file, which could be replaced");
    const char *target = exists ? realpath(path, real) : follow_links(real, path);
    if (!target) target = path;
    w->mode = exists ? info.st_mode & 0777 : 0;
    w->path = ll_strdup(target);
    w->temp = ll_alloc(strlen(target) + SUFFIX, 1);
    return w->path && w->temp ? LL_OK : LL_ENOMEM;
}

int ll_file_is_named(int fd, const char *path) {
    struct stat open_file, named;
    return !fstat(fd, &open_file) && !lstat(path, &named) && open_file.st_dev == named.st_dev &&
           open_file.st_ino == named.st_ino;
}

/* The beginning of a path behind which there is room for SUFFIX bytes: its last name may not exceed NAME_MAX. It ends
 * with a whole character, because some file systems refuse names that are not UTF-8. */
static int stem(const char *path) {
    const char *slash = strrchr(path, '/');
    const size_t most = (size_t)(slash ? slash - path + 1 : 0) + NAME_MAX - SUFFIX;
    size_t n = strlen(path);
    if (n <= most) return (int)n;
    for (n = most; n > most - 3 && ((unsigned char)path[n] & 0xc0) == 0x80; n--) continue;
    return (int)n;
}

/* Is the open file one of this user that has no other name? Whoever may create files in a folder could leave one of his
 * own there, and read what is written. */
static int is_own_file(int fd) {
    struct stat info;
    return !fstat(fd, &info) && info.st_uid == geteuid() && info.st_nlink == 1;
}

/* Opens "target.tmp-longline" and locks it. -1: another writer has it, it cannot be locked, or it is not this user's
 * own file. A file that cannot be emptied is removed: nobody would write over it again. So is one that was made here in
 * vain. */
static int open_shared(const char *path) {
    enum { HOW = O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC };
    int fd = open(path, HOW | O_CREAT | O_EXCL, 0666);
    const int made = fd >= 0;
    if (!made) fd = open(path, HOW);
    if (fd < 0) return -1;
    if (!made && !is_own_file(fd)) {
        close(fd);
        return -1;
    }
    const int why = flock(fd, LOCK_EX | LOCK_NB) ? errno : 0;
    const int own = why ? made && why != EWOULDBLOCK : ll_file_is_named(fd, path);
    if (!why && own && !ftruncate(fd, 0)) return fd;
    if (own) unlink(path);
    close(fd);
    return -1;
}

/* Processes on several machines may have the same number, and a dead one may have left its file. */
static int open_own(char *path, size_t size, const char *target) {
    static atomic_int number;
    int fd;
    do {
        snprintf(path, size, "%.*s.tmp-%ld-%d", stem(target), target, (long)getpid(), atomic_fetch_add(&number, 1));
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    } while (fd < 0 && errno == EEXIST);
    return fd;
}

ll_status ll_writer_open(ll_writer **writer, const char *path) {
    ll_writer *w = ll_alloc(1, sizeof *w);
    if (!w) return LL_ENOMEM;
    w->fd = -1;
    ll_status status = choose_target(w, path);
    if (!status) {
        const size_t size = strlen(w->path) + SUFFIX;
        snprintf(w->temp, size, "%.*s.tmp-longline", stem(w->path), w->path);
        w->fd = open_shared(w->temp);
        if (w->fd < 0) w->fd = open_own(w->temp, size, w->path);
        if (w->fd < 0) w->temp[0] = 0, status = unwritable(w);
        else if (w->mode)
            fchmod(w->fd, w->mode | S_IWUSR); /* what was private stays so; some file systems have no modes */
    }
    if (status) {
        ll_writer_abandon(w);
        return status;
    }
    *writer = w;
    return LL_OK;
}

ll_status ll_writer_output(ll_writer **writer) {
    ll_writer *w = ll_alloc(1, sizeof *w);
    if (!w) return LL_ENOMEM;
    w->fd = STDOUT_FILENO;
    w->path = ll_strdup("standard output");
    if (!w->path) {
        ll_writer_abandon(w);
        return LL_ENOMEM;
    }
    *writer = w;
    return LL_OK;
}

int ll_writer_descriptor(const ll_writer *w) { return w->fd; }

static ll_status send(ll_writer *w, const uint8_t *data, size_t size) {
    while (size) {
        const ssize_t n = write(w->fd, data, ll_min_size(size, STEP));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return unwritable(w);
        data += n;
        size -= (size_t)n;
    }
    return LL_OK;
}

static ll_status flush(ll_writer *w) {
    const size_t used = w->used;
    w->used = 0;
    return send(w, w->buffer, used);
}

ll_status ll_writer_put(ll_writer *w, const void *data, size_t size) {
    if (!size) return LL_OK;
    if (size > BUFFER - w->used) {
        const ll_status status = flush(w);
        if (status) return status;
    }
    if (size >= BUFFER) return send(w, data, size);
    memcpy(w->buffer + w->used, data, size);
    w->used += size;
    return LL_OK;
}

ll_status ll_writer_patch(ll_writer *w, const void *data, size_t size) {
    const ll_status status = flush(w);
    if (status) return status;
    const ssize_t n = pwrite(w->fd, data, size, 0);
    if (n >= 0 && (size_t)n < size) errno = ENOSPC;
    return n < 0 || (size_t)n < size ? unwritable(w) : LL_OK;
}

/* The new name is on the disk only when its folder is. File systems that cannot sync a folder return other errors than
 * these. */
static int folder_lost(const char *path) {
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    const size_t n = slash ? (size_t)(slash - path) + 1 : 0;
    if (n >= sizeof folder) return 0;
    memcpy(folder, path, n);
    folder[n] = 0;
    const int fd = open(n ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return 0;
    const int lost = fsync(fd) && (errno == EIO || errno == ENOSPC || errno == EDQUOT);
    const int reason = errno;
    close(fd);
    errno = reason;
    return lost;
}

static ll_status finish(ll_writer *w) {
    if (w->failed) return ll_fail(LL_EIO, "cannot write %s: an earlier write to it failed", w->path);
    const ll_status status = flush(w);
    if (status || !w->temp) return status;
    if (w->mode && !(w->mode & S_IWUSR)) fchmod(w->fd, w->mode); /* one that is left unfinished is to be writable */
    if (fsync(w->fd)) return unwritable(w);
    if (rename(w->temp, w->path)) return unwritable(w);
    w->temp[0] = 0; /* nothing is left to remove: the file has the target's name */
    return folder_lost(w->path) ? unwritable(w) : LL_OK;
}

ll_status ll_writer_commit(ll_writer *w) {
    const ll_status status = finish(w);
    ll_writer_abandon(w);
    return status;
}

void ll_writer_abandon(ll_writer *w) {
    if (!w) return;
    if (w->temp && w->temp[0]) unlink(w->temp);
    if (w->fd >= 0 && w->fd != STDOUT_FILENO) close(w->fd); /* this also releases the lock */
    ll_free(w->path);
    ll_free(w->temp);
    ll_free(w);
}

ll_status ll_file_write(const char *path, const void *data, size_t size) {
    ll_writer *w = NULL;
    ll_status status = ll_writer_open(&w, path);
    if (status) return status;
    status = ll_writer_put(w, data, size);
    if (!status) return ll_writer_commit(w);
    ll_writer_abandon(w);
    return status;
}

ll_status ll_file_copy(const char *to, const char *from) {
    ll_bytes bytes = {0};
    ll_status status = ll_file_map(&bytes, from);
    if (!status) status = ll_file_write(to, bytes.data, bytes.size);
    ll_bytes_free(&bytes);
    return status;
}
