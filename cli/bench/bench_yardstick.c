/* The limits of this machine, so that all other results are ratios within one run. The library's own matrix product is
 * compared with that of an installed BLAS. */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/bench.h"

enum { SIDE = 2048 };

typedef void fortran_sgemm(const char *, const char *, const int *, const int *, const int *, const float *,
                           const float *, const int *, const float *, const int *, const float *, float *, const int *);

static const struct {
    const char *file, *threads; /* the library, and its function that sets the number of threads */
} BLAS[] = {{"libopenblas.so.0", "openblas_set_num_threads"},
            {"libblis.so.4", "bli_thread_set_num_threads"},
            {"libblas.so.3", NULL}};

typedef struct {
    const char *file;
    fortran_sgemm *multiply;
    void (*set)(int); /* NULL: its number of threads cannot be set */
    float *block;     /* three matrices */
} blas;

static double seconds_of(const blas *other, int threads) {
    const int n = SIDE;
    const size_t count = (size_t)n * n;
    const float one = 1, zero = 0;
    if (other->set) other->set(threads);
    const double start = ll_now();
    other->multiply("N", "N", &n, &n, &n, &one, other->block, &n, other->block + count, &n, &zero,
                    other->block + 2 * count, &n);
    return ll_now() - start;
}

static ll_status run(ll_bench_case *c, double *seconds) {
    const blas *other = c->shared;
    const double rate = other ? 0 : 1e9 * ll_measure_product(SIDE, c->B, 0);
    if (!other && !(rate > 0)) return LL_ENOMEM;
    *seconds = other ? seconds_of(other, c->B) : c->row.flops / rate;
    return LL_OK;
}

/* On one thread, and on all. */
static int list_cases(const ll_bench *b, ll_bench_case *cases, blas *other) {
    const int all = ll_threads();
    int n = 0;
    for (int threads = 1; threads <= all; threads += all > 1 ? all - 1 : 1) {
        ll_bench_case c = {.run = run, .B = threads, .shared = other};
        c.row.flops = 2.0 * SIDE * SIDE * SIDE;
        c.row.tokens = SIDE;
        snprintf(c.row.name, sizeof c.row.name, "yardstick/sgemm-2048/%s/%d", other ? other->file : "longline",
                 threads);
        if (other && !other->set && threads != all) continue;
        if (ll_bench_wanted(b, c.row.name, 1)) cases[n++] = c;
    }
    return n;
}

/* The library stays open: its threads may still run at the end. */
static int open_blas(blas *other) {
    void *library = NULL;
    size_t i = 0;
    while (i < sizeof BLAS / sizeof *BLAS && !(library = dlopen(BLAS[i].file, RTLD_NOW | RTLD_LOCAL))) i++;
    if (!library) return 0;
    other->file = BLAS[i].file;
    other->multiply = (fortran_sgemm *)(uintptr_t)dlsym(library, "sgemm_");
    if (BLAS[i].threads) other->set = (void (*)(int))(uintptr_t)dlsym(library, BLAS[i].threads);
    other->block = other->multiply ? ll_bench_floats((size_t)3 * SIDE * SIDE) : NULL;
    for (size_t k = 0; other->block && k < (size_t)3 * SIDE * SIDE; k++) other->block[k] = (float)(k % 17) - 8;
    return other->block != NULL;
}

ll_status ll_bench_yardstick(ll_bench *b) {
    const double seconds = b->seconds;
    const int from = b->rows;
    ll_bench_case cases[4];
    blas other = {0};
    int n = list_cases(b, cases, NULL);
    if (open_blas(&other)) n += list_cases(b, cases + n, &other);
    b->seconds = fmin(4, seconds); /* a few products suffice */
    const ll_status status = n ? ll_bench_run(b, "yardsticks", cases, n) : LL_OK;
    b->seconds = seconds;
    for (int i = from; i < b->rows; i++) b->row[i].bytes = 0; /* the bytes of the matrices */
    free(other.block);
    if (!status) b->copy = 1e9 * ll_measure_copy(ll_threads(), fmin(0.6, seconds / 10));
    if (!status) b->read = 1e9 * ll_measure_read(ll_threads(), fmin(0.6, seconds / 10));
    return status;
}
