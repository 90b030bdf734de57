/* Measures the limits of the machine with the tier in use (peak rate, matrix products, memory), and the most memory
 * that the program had. */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/memory.h"
#include "base/parallel.h"
#include "base/status.h"
#include "kernel/kernel.h"
#include "longline-lab.h"

typedef struct {
    const ll_kernels *k;
    size_t n;
    float sink[64];
} load;

static void run(void *arg, size_t i, int worker) {
    load *l = arg;
    (void)worker;
    l->sink[i] = l->k->peak(l->n);
}

double ll_measure_peak(int threads, double seconds) {
    load l = {ll_kernel_table(), 1000, {0}};
    const int n = threads < 1 ? 1 : threads > 64 ? 64 : threads;
    double best = 0;
    for (const double end = ll_now() + seconds; ll_now() < end;) {
        const double start = ll_now();
        ll_parallel_among(n, (size_t)n, run, &l);
        const double took = ll_now() - start;
        const double rate = 2.0 * 12 * l.k->width * (double)l.n * n / (took > 0 ? took : 1e-9) * 1e-9;
        if (rate > best) best = rate;
        if (took < 0.02) l.n *= 2;
    }
    return best;
}

double ll_measure_product(int n, int threads, double seconds) {
    const size_t count = (size_t)n * (size_t)n;
    float *block = n > 0 ? ll_alloc(3 * count + ll_gemm_scratch(n, n, n), sizeof *block) : NULL;
    if (!block) return 0;
    for (size_t i = 0; i < 3 * count; i++) block[i] = (float)(i % 17) - 8; /* also touches the pages of the result */
    const int before = ll_threads();
    ll_set_threads(threads);
    double best = 0;
    for (const double end = ll_now() + seconds; best == 0 || ll_now() < end;) {
        const double start = ll_now();
        ll_gemm(0, 0, n, n, n, block, (size_t)n, block + count, (size_t)n, block + 2 * count, (size_t)n, 0, NULL,
                block + 3 * count);
        const double rate = 2e-9 * (double)count * n / (ll_now() - start + 1e-9);
        if (rate > best) best = rate;
    }
    ll_set_threads(before);
    ll_free(block);
    return best;
}

enum { SIDE = 1 << 25, PIECES = 256 }; /* floats read or written; number of tasks */

typedef struct {
    const ll_kernels *k;
    float *from, *to, sum[PIECES];
} traffic;

static void copy_piece(void *arg, size_t i, int worker) {
    traffic *t = arg;
    const size_t n = SIDE / PIECES;
    (void)worker;
    memcpy(t->to + i * n, t->from + i * n, n * sizeof(float));
}

static void read_piece(void *arg, size_t i, int worker) {
    traffic *t = arg;
    const size_t n = SIDE / PIECES;
    (void)worker;
    t->sum[i] = t->k->sum(n, t->from + i * n);
}

static double measure_memory(ll_task *task, double bytes, int threads, double seconds) {
    float *block = ll_alloc(2 * (size_t)SIDE, sizeof *block);
    if (!block) return 0;
    traffic t = {.k = ll_kernel_table(), .from = block, .to = block + SIDE};
    memset(block, 1, 2 * (size_t)SIDE * sizeof *block);
    double best = 0;
    for (const double end = ll_now() + seconds; best == 0 || ll_now() < end;) {
        const double start = ll_now();
        ll_parallel_among(threads < 1 ? ll_threads() : threads, PIECES, task, &t);
        const double rate = 1e-9 * bytes / (ll_now() - start + 1e-9);
        if (rate > best) best = rate;
    }
    ll_free(block);
    return best;
}

double ll_measure_copy(int threads, double seconds) {
    return measure_memory(copy_piece, 2.0 * SIDE * sizeof(float), threads, seconds);
}

double ll_measure_read(int threads, double seconds) {
    return measure_memory(read_piece, 1.0 * SIDE * sizeof(float), threads, seconds);
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
