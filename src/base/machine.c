/* Facts about the library and this process: version, kernels, threads, memory. */
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "longline.h"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

const char *ll_version(void) {
    return TEXT(LL_VERSION_MAJOR) "." TEXT(LL_VERSION_MINOR) "." TEXT(LL_VERSION_PATCH);
}

double ll_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

size_t ll_memory_now(void) {
    size_t total = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file) return 0;
    if (fscanf(file, "%zu %zu", &total, &resident) != 2) resident = 0;
    fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}
