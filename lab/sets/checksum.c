/* SHA-256 of files, by libmd, a block at a time, because downloads may be larger than memory. */
#include <errno.h>
#include <sha2.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "longline-lab.h"

ll_status ll_data_checksum(const char *path, char digits[65], int64_t *bytes) {
    uint8_t block[1 << 14];
    SHA2_CTX context;
    size_t n;
    int64_t size = 0;
    FILE *file = fopen(path, "rbe");
    if (!file) return ll_fail(LL_EIO, "cannot open %s: %s", path, strerror(errno));
    SHA256Init(&context);
    while ((n = fread(block, 1, sizeof block, file)) > 0) {
        SHA256Update(&context, block, n);
        size += (int64_t)n;
    }
    const int failed = ferror(file);
    fclose(file);
    if (failed) return ll_fail(LL_EIO, "cannot read %s: %s", path, strerror(errno));
    SHA256End(&context, digits);
    *bytes = size;
    return LL_OK;
}
