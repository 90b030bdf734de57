/* Standard output that goes to a file, which is complete or unchanged. It may be larger than memory. The steps are
 * those of src/base/writer.c, whose functions are not public. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

enum { SUFFIX = 48 };

static char target[PATH_MAX], temporary[PATH_MAX + SUFFIX];
static int stem;    /* of the target, behind which its folder takes SUFFIX bytes: a name may not exceed NAME_MAX */
static mode_t mode; /* of the file that is replaced, or 0 */
static int before = -1; /* what standard output was */

static int unwritable(const char *path) {
    return ll_fail_message("cannot write %s: %s", path, strerror(errno));
}

/* If the target is a link, the file behind it is replaced. Devices and pipes cannot be replaced. */
static int choose_target(const char *path) {
    struct stat info;
    const int exists = !stat(path, &info);
    if (exists && !S_ISREG(info.st_mode))
        return ll_fail_message("cannot write %s: it is not a regular file, which could be replaced", path);
    if (!exists || !realpath(path, target)) snprintf(target, sizeof target, "%s", path);
    mode = exists ? (info.st_mode & 0777) | S_IWUSR : 0;
    const char *slash = strrchr(target, '/');
    const size_t n = strlen(target), most = (size_t)(slash ? slash - target + 1 : 0) + NAME_MAX - SUFFIX;
    stem = (int)(n < most ? n : most);
    snprintf(temporary, sizeof temporary, "%.*s.tmp-longline", stem, target);
    return -1;
}

/* Has the open file still the temporary name? Who held its lock may have made it the target meanwhile. */
static int is_temporary(int file) {
    struct stat open_file, named;
    return !fstat(file, &open_file) && !lstat(temporary, &named) && open_file.st_dev == named.st_dev &&
           open_file.st_ino == named.st_ino;
}

/* In a file system without locks another program may have the temporary file open. This one gets a name that no other
 * file has. */
static int open_own(void) {
    int file, number = 0;
    do {
        snprintf(temporary, sizeof temporary, "%.*s.tmp-%ld-%d", stem, target, (long)getpid(), number++);
        file = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    } while (file < 0 && errno == EEXIST);
    return file;
}

/* Opens the temporary file and locks it; -1 if it cannot be opened, -2 if another program has it. */
static int open_temporary(void) {
    enum { HOW = O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC };
    int file = open(temporary, HOW | O_CREAT | O_EXCL, 0666);
    const int made = file >= 0;
    if (!made) file = open(temporary, HOW | O_CREAT, 0666);
    if (file < 0) return -1;
    const int why = flock(file, LOCK_EX | LOCK_NB) ? errno : 0;
    if (!why && is_temporary(file)) return file;
    const int lockless = why && why != EWOULDBLOCK;
    if (lockless && made) unlink(temporary);
    close(file);
    return lockless ? open_own() : -2;
}

int ll_stdout_begin(const char *path) {
    int code = choose_target(path);
    if (code >= 0) return code;
    const int file = open_temporary();
    if (file == -1) return unwritable(temporary);
    if (file == -2) return ll_fail_message("another program is writing %s", target);
    fflush(stdout);
    if (ftruncate(file, 0) || (before = dup(STDOUT_FILENO)) < 0 || dup2(file, STDOUT_FILENO) < 0)
        code = unwritable(temporary);
    else if (mode)
        fchmod(file, mode); /* what was private stays so; some file systems have no modes */
    close(file);
    return code;
}

/* The new name is on the disk only when its folder is. File systems that cannot sync a folder return other errors than
 * these. */
static int folder_lost(const char *path) {
    const char *slash = strrchr(path, '/');
    char folder[PATH_MAX] = ".";
    if (slash) snprintf(folder, sizeof folder, "%.*s", (int)(slash - path) + 1, path);
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return 0;
    const int lost = fsync(fd) && (errno == EIO || errno == ENOSPC || errno == EDQUOT), reason = errno;
    close(fd);
    errno = reason;
    return lost;
}

int ll_stdout_end(int code) {
    if (before < 0) return code;
    int bad = fflush(stdout) || ferror(stdout) || fsync(STDOUT_FILENO);
    if (!bad && !code) bad = rename(temporary, target) || folder_lost(target);
    if (bad) code = unwritable(target);
    if (code) unlink(temporary);
    clearerr(stdout);
    dup2(before, STDOUT_FILENO);
    close(before);
    before = -1;
    return code;
}
