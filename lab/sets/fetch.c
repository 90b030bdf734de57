/* Downloads a file to "path.part". An interrupted download continues. The file gets its name when it is complete and
 * its checksum is right. The version of the file, as the server tells it, is stored in "path.part.version", so that
 * parts of different versions are never joined. */
#include "sets/fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"

/* Two programs would mix their bytes in one part. *lock is closed after the file has its name. A file system without
 * locks has none. */
static ll_status lock_part(int *lock, const char *part, const char *path) {
    *lock = open(part, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (*lock < 0) return ll_partial_unwritable(part);
    if ((!flock(*lock, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK) && ll_file_is_named(*lock, part)) return LL_OK;
    return ll_fail(LL_EIO, "another program fetches %s; wait until it has ended", path);
}

/* If neither a version nor a checksum can tell whether the rest belongs to the same file, the download starts again. */
static ll_status fetch_part(const char *path, const char *note, const char *url, int checked, ll_done_fn *progress,
                            void *arg) {
    ll_partial part = {.file = fopen(path, "abe"), .url = url, .note = note};
    if (!part.file) return ll_partial_unwritable(path);
    fseeko(part.file, 0, SEEK_END);
    part.bytes = ftello(part.file);
    ll_partial_note_read(&part);
    ll_status status = part.bytes && !*part.version && !checked ? ll_partial_begin(&part, "") : LL_OK;
    if (!status) status = ll_fetch_into(&part, progress, arg);
    if (!status && (fflush(part.file) || fsync(fileno(part.file)))) status = ll_partial_unwritable(path);
    const off_t left = ftello(part.file);
    if (fclose(part.file) && !status) status = ll_partial_unwritable(path);
    if (status && !left) unlink(path);
    return status;
}

static ll_status check(const char *part, const char *url, const char *sha256) {
    char digits[65];
    int64_t bytes = 0;
    ll_status status = ll_data_checksum(part, digits, &bytes);
    if (status || !sha256 || !strcasecmp(digits, sha256)) return status;
    status = ll_fail(LL_EFORMAT, "%s has the checksum %s, expected %s; it is damaged, or has changed there", url,
                     digits, sha256);
    unlink(part);
    return status;
}

ll_status ll_data_fetch(const char *url, const char *path, const char *sha256, ll_done_fn *progress, void *arg) {
    const size_t n = strlen(path);
    int lock = -1;
    char *part = ll_alloc(n + 6, 1), *note = ll_alloc(n + 14, 1);
    ll_status status = part && note ? ll_folder_create_for(path) : LL_ENOMEM;
    if (part && note) {
        snprintf(part, n + 6, "%s.part", path);
        snprintf(note, n + 14, "%s.version", part);
    }
    if (!status) status = lock_part(&lock, part, path);
    if (!status) status = fetch_part(part, note, url, sha256 != NULL, progress, arg);
    if (!status) {
        status = check(part, url, sha256);
        unlink(note);
    }
    if (!status && rename(part, path)) status = ll_partial_unwritable(path);
    if (lock >= 0) close(lock);
    ll_free(part);
    ll_free(note);
    return status;
}
