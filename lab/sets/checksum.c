/* SHA-256 of files, by libmd, a block at a time, because downloads may be larger than memory. */
#include <errno.h>
#include <sha2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/read_progress.h"
#include "longline-lab.h"

ll_status ll_data_checksum(const char *path, char digits[65], int64_t *bytes) {
    uint8_t block[1 << 14];
    struct stat info;
    SHA2_CTX context;
    size_t n;
    int64_t size = 0;
    FILE *file = fopen(path, "rbe");
    if (!file) return ll_fail(LL_EIO, "cannot open %s: %s", path, strerror(errno));
    const int is_file = !fstat(fileno(file), &info) && S_ISREG(info.st_mode);
    SHA256Init(&context);
    while ((n = fread(block, 1, sizeof block, file)) > 0) {
        SHA256Update(&context, block, n);
        size += (int64_t)n;
        if (is_file) ll_read_progress(path, size, (int64_t)info.st_size);
    }
    const int failed = ferror(file);
    fclose(file);
    if (failed) return ll_fail(LL_EIO, "cannot read %s: %s", path, strerror(errno));
    SHA256End(&context, digits);
    *bytes = size;
    return LL_OK;
}
