/* The number of threads that are worth having. It is the number of cores that this process may use. A control group may
 * limit processor time to less, as containers do; then it is that limit. */
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cpus.h"
#include "base/integer.h"
#include "base/parallel.h"

enum { CPUS = 8192, PATH = 4096 };

#if defined(__linux__)
/* The first of the hardware threads that share the core of `cpu`; `cpu` itself if the system does not tell. */
static int first_sibling(int cpu) {
    char path[96];
    int first = cpu;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    FILE *file = fopen(path, "re");
    if (!file) return cpu;
    if (fscanf(file, "%d", &first) != 1 || first < 0 || first >= CPUS) first = cpu;
    fclose(file);
    return first;
}

/* Two hardware threads of a core share its multipliers, so the second one adds nothing to products. */
static int count_cores(void) {
    static const size_t bytes = CPUS / 8;
    cpu_set_t allowed[CPUS / 8 / sizeof(cpu_set_t)], seen[CPUS / 8 / sizeof(cpu_set_t)];
    CPU_ZERO_S(bytes, allowed);
    CPU_ZERO_S(bytes, seen);
    if (sched_getaffinity(0, bytes, allowed)) return (int)sysconf(_SC_NPROCESSORS_ONLN);
    for (int cpu = 0; cpu < CPUS; cpu++)
        if (CPU_ISSET_S(cpu, bytes, allowed)) CPU_SET_S(first_sibling(cpu), bytes, seen);
    return CPU_COUNT_S(bytes, seen);
}
#else
static int count_cores(void) { return (int)sysconf(_SC_NPROCESSORS_ONLN); }
#endif

/* ---- Control groups ---- */

/* Reads up to two whole numbers from the file root/group/name and returns how many it has read. */
static int read_numbers(const char *root, const char *group, const char *name, long long number[2]) {
    char path[PATH];
    if ((size_t)snprintf(path, sizeof path, "%s/%s/%s", root, group, name) >= sizeof path) return 0;
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    const int n = fscanf(file, "%lld %lld", &number[0], &number[1]);
    fclose(file);
    return ll_max_int(n, 0);
}

/* `quota` of each `period` microseconds as a number of processors, rounded up; 0: no limit. */
static int processors(long long quota, long long period) {
    if (quota <= 0 || period <= 0) return 0;
    const long long n = (quota - 1) / period + 1;
    return n > CPUS ? 0 : (int)n;
}

/* The limit of one group. Version 2 writes "max" for none, version 1 writes -1. */
static int limit_of(const char *root, const char *group) {
    long long two[2], quota[2], period[2];
    if (read_numbers(root, group, "cpu.max", two) == 2) return processors(two[0], two[1]);
    const int one = read_numbers(root, group, "cpu.cfs_quota_us", quota) > 0 &&
                    read_numbers(root, group, "cpu.cfs_period_us", period) > 0;
    return one ? processors(quota[0], period[0]) : 0;
}

static int lower(int a, int b) { return !a || (b && b < a) ? b : a; }

/* The lowest limit of a group and of the groups above it. In a container the group of a process may be mounted as the
 * root, not under the name that the process knows. */
static int limit_upwards(const char *root, char *group) {
    for (int limit = 0;;) {
        char *last = strrchr(group, '/');
        limit = lower(limit, limit_of(root, group));
        if (!last) return limit;
        *last = 0;
    }
}

/* A line is "number:controllers:group". In version 2 the list of controllers is empty. Version 1 mounts each list of
 * controllers as a folder of that name. Version 2 is mounted at the root, or at "unified" beside version 1. */
static int limit_of_line(char *line, const char *root) {
    char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
    char all[PATH], folder[PATH], path[PATH];
    int limit = 0;
    if (!group) return 0;
    *controllers++ = 0, *group++ = 0;
    group[strcspn(group, "\n")] = 0;
    snprintf(all, sizeof all, ",%s,", controllers);
    if (*controllers && !strstr(all, ",cpu,")) return 0;
    const char *const names[] = {*controllers ? controllers : ".", *controllers ? "cpu" : "unified"};
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s", group);
        if ((size_t)snprintf(folder, sizeof folder, "%s/%s", root, names[i]) < sizeof folder)
            limit = lower(limit, limit_upwards(folder, path));
    }
    return limit;
}

int ll_cpu_limit(const char *groups, const char *root) {
    char line[PATH];
    int limit = 0;
    FILE *file = fopen(groups, "re");
    while (file && fgets(line, sizeof line, file)) limit = lower(limit, limit_of_line(line, root));
    if (file) fclose(file);
    return limit;
}

int ll_count_cpus_in(const char *groups, const char *root) {
    const int cores = count_cores(), limit = ll_cpu_limit(groups, root);
    const int n = limit && limit < cores ? limit : cores;
    return ll_max_int(n, 1);
}

int ll_count_cpus(void) { return ll_count_cpus_in("/proc/self/cgroup", "/sys/fs/cgroup"); }
