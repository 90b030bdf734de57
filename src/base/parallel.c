/* The one parallel loop, on OpenMP. Pieces are handed out as threads come free; a piece never depends
 * on who takes it. */
#include "base/parallel.h"

#include <omp.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "base/status.h"

enum { CPUS = 8192, MOST = 1024 };

static atomic_int chosen; /* 0: physical cores */
static atomic_int cores;  /* 0: not counted yet */

/* First of the hardware threads that share the core of `cpu`; the cpu itself where nobody says. */
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

/* Cores this process may use: two hardware threads of a core share its multipliers, so the second one
 * adds nothing to products. */
static int count_cores(void) {
    static const size_t bytes = CPUS / 8;
    cpu_set_t allowed[CPUS / 8 / sizeof(cpu_set_t)], seen[CPUS / 8 / sizeof(cpu_set_t)];
    CPU_ZERO_S(bytes, allowed);
    CPU_ZERO_S(bytes, seen);
    if (sched_getaffinity(0, bytes, allowed)) {
        const long online = sysconf(_SC_NPROCESSORS_ONLN);
        return online < 1 ? 1 : online > MOST ? MOST : (int)online;
    }
    for (int cpu = 0; cpu < CPUS; cpu++)
        if (CPU_ISSET_S(cpu, bytes, allowed)) CPU_SET_S(first_sibling(cpu), bytes, seen);
    const int n = CPU_COUNT_S(bytes, seen);
    return n < 1 ? 1 : n > MOST ? MOST : n;
}

void ll_set_threads(int threads) {
    atomic_store(&chosen, threads < 0 ? 0 : threads > MOST ? MOST : threads);
}

int ll_threads(void) {
    const int threads = atomic_load(&chosen);
    if (threads) return threads;
    int n = atomic_load(&cores);
    if (!n) atomic_store(&cores, n = count_cores());
    return n;
}

void ll_parallel_for(size_t n, ll_task *task, void *arg) {
    const int most = ll_threads(), threads = n < (size_t)most ? (int)n : most;
    if (threads < 2 || omp_in_parallel()) {
        for (size_t i = 0; i < n; i++) task(arg, i, 0);
        return;
    }
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
    for (size_t i = 0; i < n; i++) task(arg, i, omp_get_thread_num());
}
