/* A file from the network: into "path.part", gone on with where it was left, named when it is whole and right. */
#include "sets/fetch.h"

#include <errno.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"

static ll_status unwritable(const char *path) {
    return ll_fail(LL_EIO, "cannot write %s: %s", path, strerror(errno));
}

static ll_status fetch_part(const char *part, const char *url, ll_done_fn *progress, void *arg) {
    FILE *file = fopen(part, "abe");
    if (!file) return unwritable(part);
    fseeko(file, 0, SEEK_END);
    ll_status status = ll_fetch_into(file, url, ftello(file), progress, arg);
    if (!status && (fflush(file) || fsync(fileno(file)))) status = unwritable(part);
    if (fclose(file) && !status) status = unwritable(part);
    return status;
}

static ll_status check(const char *part, const char *url, const char *sha256) {
    char digits[65];
    int64_t bytes = 0;
    ll_status status = ll_data_checksum(part, digits, &bytes);
    if (status || !sha256 || !strcasecmp(digits, sha256)) return status;
    status = ll_fail(LL_EFORMAT, "%s has the checksum %s, expected %s; it is damaged, or no longer what it was", url,
                     digits, sha256);
    unlink(part);
    return status;
}

ll_status ll_data_fetch(const char *url, const char *path, const char *sha256, ll_done_fn *progress, void *arg) {
    const size_t n = strlen(path);
    char *part = ll_alloc(n + 6, 1);
    if (!part) return LL_ENOMEM;
    memcpy(part, path, n);
    memcpy(part + n, ".part", 6);
    ll_status status = ll_folder_create_for(path);
    if (!status) status = fetch_part(part, url, progress, arg);
    if (!status) status = check(part, url, sha256);
    if (!status && rename(part, path)) status = unwritable(path);
    ll_free(part);
    return status;
}
