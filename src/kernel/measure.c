/* The machine's own limit, measured with the tier in use. */
#include "base/parallel.h"
#include "base/status.h"
#include "kernel/kernel.h"

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
    const int before = ll_threads(), n = threads < 1 ? 1 : threads > 64 ? 64 : threads;
    ll_set_threads(n);
    double best = 0;
    for (const double end = ll_now() + seconds; ll_now() < end;) {
        const double start = ll_now();
        ll_parallel_for((size_t)n, run, &l);
        const double took = ll_now() - start;
        const double rate = 2.0 * 12 * l.k->width * (double)l.n * n / (took > 0 ? took : 1e-9) * 1e-9;
        if (rate > best) best = rate;
        if (took < 0.02) l.n *= 2;
    }
    ll_set_threads(before);
    return best;
}
