/* What the library is and what this process uses. */
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
    if (!file) return ll_memory_peak();
    if (fscanf(file, "%zu %zu", &total, &resident) != 2) resident = 0;
    fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

/* The kernel's own mark for this program. getrusage would also count what the process held before it
 * became this program, so it is the second choice. */
size_t ll_memory_peak(void) {
    char line[256];
    size_t kib = 0;
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "VmHWM: %zu kB", &kib) == 1) break;
    if (file) fclose(file);
    if (kib) return kib * 1024;
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) ? 0 : (size_t)usage.ru_maxrss * 1024;
}
