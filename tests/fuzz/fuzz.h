/* What the fuzz targets share. */
#ifndef LL_FUZZ_H
#define LL_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void check(int holds) {
    if (!holds) abort();
}

/* Does a packed file begin so? A fuzzer (which compiles with this name) leaves them to a target of their own, since it
 * would spend its time unpacking. */
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
enum { LEAVES_PACKED = 1 };
#else
enum { LEAVES_PACKED = 0 };
#endif
static inline int is_packed(const uint8_t *data, size_t size) {
    static const struct {
        const char *bytes;
        size_t size;
    } magic[] = {{"\x1f\x8b", 2}, {"\xfd" "7zXZ", 5}, {"\x28\xb5\x2f\xfd", 4}};
    for (int i = 0; i < 3 && LEAVES_PACKED; i++)
        if (size >= magic[i].size && !memcmp(data, magic[i].bytes, magic[i].size)) return 1;
    return 0;
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
