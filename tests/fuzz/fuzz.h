/* What the fuzz targets share. */
#ifndef LL_FUZZ_H
#define LL_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void check(int holds) {
    if (!holds) abort();
}

/* Where folders of a moment are made: in memory, so that results need not wait for a disk. */
static inline const char *scratch(void) { return access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm"; }

/* A file that is only memory, by the name it has in /proc; it holds until the next. */
static inline const char *in_memory(const uint8_t *data, size_t size) {
    static int fd = -1;
    static char path[64];
    if (fd < 0) fd = memfd_create("fuzz", MFD_CLOEXEC);
    check(fd >= 0 && !ftruncate(fd, 0) && pwrite(fd, data, size, 0) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return path;
}

#endif
