/* Products of whole matrices between guard bytes: random, computed, and compared with sums in double. */
#ifndef LL_PRODUCTS_H
#define LL_PRODUCTS_H

#include <float.h>

#include "guard.h"

/* The allowed error of sums of K products of numbers of size 1, in units of their absolute terms. */
static inline double slack(int K) {
    return 8 * FLT_EPSILON * sqrt(K);
}

typedef struct {
    int ta, tb, M, N, K, add, biased;
    uint64_t seed;
    size_t lda, ldb, ldc;
    guarded A, B, was, bias, first; /* result of the first run, once there is one */
    int ran;
} whole;

typedef void product_fn(int ta, int tb, int M, int N, int K, const float *A, size_t lda, const float *B, size_t ldb,
                        float *C, size_t ldc, int add, const float *bias, float *scratch);

/* Sizes from a list with those around blocks, and once several whole blocks of each kind. The rest follows from the
 * number of the round. */
static inline whole whole_draw(int round, uint64_t *seed) {
    static const int some[] = {0, 1, 7, 16, 63, 64, 100, 127, 128, 129, 200, 255, 256, 257, 301};
    enum { SOME = sizeof some / sizeof some[0] };
    whole w = {.ta = round & 1, .tb = round >> 1 & 1, .add = round >> 2 & 1, .biased = round >> 3 & 1};
    w.M = some[below(seed, SOME)], w.N = some[below(seed, SOME)], w.K = some[below(seed, SOME)];
    if (round == 9) w.M = 1100, w.N = 600, w.K = 129;
    if (round == 6 || round == 12) w.M = 260, w.N = 520, w.K = 2100; /* several pieces of each packed matrix */
    w.seed = next64(seed);
    uint64_t from = w.seed;
    const size_t M = (size_t)w.M, N = (size_t)w.N, K = (size_t)w.K, gap = (size_t)below(&from, 4);
    w.lda = (w.ta ? M : K) + gap, w.ldb = (w.tb ? K : N) + gap, w.ldc = N + gap;
    w.A = guard_random((w.ta ? K : M) * w.lda, 1, &from), w.B = guard_random((w.tb ? N : K) * w.ldb, 2, &from);
    w.was = guard_random(M * w.ldc, 0, &from), w.bias = guard_random(N, 3, &from), w.first = guard(M * w.ldc, 0);
    return w;
}

/* Every run gives the bits of the first, with no more scratch than announced. */
static inline void whole_run(whole *w, const char *what, product_fn *product, int threads) {
    guarded C = guard(w->was.n, 1), scratch = guard(ll_gemm_scratch(w->M, w->N, w->K), 1);
    memcpy(C.p, w->was.p, C.n * sizeof(float));
    ll_set_threads(threads);
    product(w->ta, w->tb, w->M, w->N, w->K, w->A.p, w->lda, w->B.p, w->ldb, C.p, w->ldc, w->add,
            w->biased ? w->bias.p : NULL, scratch.p);
    if (!w->ran++) memcpy(w->first.p, C.p, C.n * sizeof(float));
    if (C.n && memcmp(w->first.p, C.p, C.n * sizeof(float)))
        fail_msg("%s: %d threads of %s give other bits", what, threads, ll_cpu());
    guard_end(C, what, ll_cpu());
    guard_end(scratch, what, "scratch");
}

/* Compares with the sums over k of `as` of the numbers (for a large product only some), and frees all. */
static inline void whole_end(whole *w, const char *what, double (*as)(float)) {
    char name[40];
    snprintf(name, sizeof name, "%s %c%c", what, w->ta ? 't' : 'n', w->tb ? 't' : 'n');
    const size_t step = w->K > 1000 ? 7 : 1;
    for (size_t i = 0; i < (size_t)w->M; i += step)
        for (size_t j = 0; j < w->ldc; j++) {
            const size_t at = i * w->ldc + j;
            double terms = 0, s = 0, expect = w->was.p[at], allowed = 0;
            for (size_t l = 0; l < (size_t)w->K && j < (size_t)w->N; l++) {
                const double t = as(w->A.p[w->ta ? l * w->lda + i : i * w->lda + l]) *
                                 as(w->B.p[w->tb ? j * w->ldb + l : l * w->ldb + j]);
                s += t, terms += fabs(t);
            }
            if (j < (size_t)w->N) {
                expect = s + (w->add ? w->was.p[at] : 0) + (double)(w->biased ? w->bias.p[j] : 0);
                allowed = slack(w->K) * terms + 4 * FLT_EPSILON * (fabs(s) + 2);
            }
            near(ll_cpu(), name, (size_t)w->K, at, w->seed, w->first.p[at], expect, allowed);
        }
    guarded all[] = {w->A, w->B, w->was, w->bias, w->first};
    for (size_t i = 0; i < 5; i++) guard_end(all[i], what, ll_cpu());
}

#endif
