/* The yardsticks: what this machine can do at all, so that everything else is a ratio within one run. Beside the
 * library's own matrix product, that of a BLAS that happens to be installed. */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"

enum { SIDE = 2048 };

typedef void fortran_sgemm(const char *, const char *, const int *, const int *, const int *, const float *,
                           const float *, const int *, const float *, const int *, const float *, float *, const int *);

typedef struct {
    const char *file, *threads; /* the library, and its function that sets the number of threads */
} blas;

static const blas BLAS[] = {{"libopenblas.so.0", "openblas_set_num_threads"},
                            {"libblis.so.4", "bli_thread_set_num_threads"},
                            {"libblas.so.3", NULL}};

static double time_blas(fortran_sgemm *sgemm, float *block, double seconds) {
    const int n = SIDE;
    const size_t count = (size_t)n * n;
    const float one = 1, zero = 0;
    double best = 0;
    for (const double end = ll_now() + seconds; best == 0 || ll_now() < end;) {
        const double start = ll_now();
        sgemm("N", "N", &n, &n, &n, &one, block, &n, block + count, &n, &zero, block + 2 * count, &n);
        best = fmax(best, 2.0 * (double)count * n / (ll_now() - start));
    }
    return best;
}

static void add(ll_bench *b, const char *name, int threads, double rate) {
    ll_bench_row row = {.repeats = 1, .flops = 2.0 * SIDE * SIDE * SIDE, .tokens = SIDE};
    if (!(rate > 0)) return;
    snprintf(row.name, sizeof row.name, "yardstick/sgemm-2048/%s/%d", name, threads);
    row.seconds = row.flops / rate;
    if (ll_bench_wanted(b, row.name, 1)) ll_bench_add(b, &row);
}

static void measure_blas(ll_bench *b, double seconds) {
    void *library = NULL;
    const blas *found = NULL;
    for (size_t i = 0; i < sizeof BLAS / sizeof *BLAS && !library; i++)
        if ((library = dlopen(BLAS[i].file, RTLD_NOW | RTLD_LOCAL))) found = &BLAS[i];
    fortran_sgemm *sgemm = library ? (fortran_sgemm *)(uintptr_t)dlsym(library, "sgemm_") : NULL;
    float *block = sgemm ? malloc(3 * sizeof *block * SIDE * SIDE) : NULL;
    if (block) {
        void (*set)(int) = found->threads ? (void (*)(int))(uintptr_t)dlsym(library, found->threads) : NULL;
        for (size_t i = 0; i < (size_t)2 * SIDE * SIDE; i++) block[i] = (float)(i % 17) - 8;
        for (int threads = 1; threads <= ll_threads(); threads += ll_threads() > 1 ? ll_threads() - 1 : 1) {
            if (set) set(threads);
            if (set || threads == ll_threads()) add(b, found->file, threads, time_blas(sgemm, block, seconds));
        }
    }
    free(block); /* the library stays: its threads may still run */
}

ll_status ll_bench_yardstick(ll_bench *b) {
    const double seconds = fmin(0.6, b->seconds / 10);
    const int all = ll_threads();
    for (int threads = 1; threads <= all; threads += all > 1 ? all - 1 : 1)
        add(b, "longline", threads, 1e9 * ll_measure_product(SIDE, threads, seconds));
    measure_blas(b, seconds);
    b->copy = 1e9 * ll_measure_copy(all, seconds);
    return LL_OK;
}
