/* Products and transposes of every tier of this machine, and ll_gemm, against sums in double: both strides of A, odd
 * sizes, distances between rows, guard bytes. A number depends only on its own row and column, to the last bit. */
#include "products.h"

static const int sizes[] = {0, 1, 2, 5, 6, 7, 8, 9, 15, 16, 17, 31, 33, 61, 64, 97};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

/* All combinations of sizes would take minutes. So each of the three sizes takes each of its values 8 times, or once
 * with LL_FAST, and the others are drawn. */
enum { ONCE = 3 * SIZES, ROUNDS = 8 * ONCE };
static void draw_sizes(uint64_t *seed, int round, int size[3]) {
    for (int i = 0; i < 3; i++) size[i] = sizes[below(seed, SIZES)];
    size[round % 3] = sizes[round / 3 % SIZES];
}

/* The sum over k of A(i, k) B(k, j), and of absolute terms. */
static double exact(int K, const float *A, size_t step_a, const float *B, size_t step_b, double *terms) {
    double s = 0;
    *terms = 0;
    for (int i = 0; i < K; i++) {
        const double t = (double)A[i * step_a] * B[i * step_b];
        s += t, *terms += fabs(t);
    }
    return s;
}

/* Rows to prefetch. Prefetching addresses that are not mapped does no harm. */
static ll_prefetch draw_prefetch(uint64_t *from, const float *data) {
    ll_prefetch next = {.parts = below(from, 5)};
    for (int i = 0; i < next.parts; i++) {
        next.part[i] = (ll_prefetch_part){data, (size_t)below(from, 4096), 1 + below(from, 40), 1 + below(from, 20)};
        next.lines += next.part[i].rows * next.part[i].lines;
    }
    return next;
}

/* The prefetch reached its end, or a line within a row. */
static void check_prefetch(const ll_prefetch *next) {
    assert_in_range(next->at, 0, next->parts);
    if (next->line) assert_in_range(next->left, 1, 16 * 20);
}

static void gemm_once(const ll_kernels *k, const int size[3], uint64_t seed) {
    const int M = size[0], N = size[1], K = size[2];
    uint64_t from = seed;
    const int transposed = below(&from, 2), add = below(&from, 2);
    const size_t gap = (size_t)below(&from, 5), ldb = (size_t)N + gap, ldc = (size_t)N + (size_t)below(&from, 9);
    /* A by rows, or by columns */
    const size_t row = transposed ? 1 : (size_t)K + gap, col = transposed ? (size_t)M + gap : 1;
    const size_t extent = M && K ? (size_t)(M - 1) * row + (size_t)(K - 1) * col + 1 : 0;
    guarded A = guard_random(extent, gap % 4, &from), B = guard_random(K ? (size_t)K * ldb - gap : 0, 1, &from);
    guarded C = guard_random((size_t)M * ldc, 3, &from), was = guard((size_t)M * ldc, 0);
    memcpy(was.p, C.p, was.n * sizeof(float));
    k->gemm(M, N, K, A.p, row, col, B.p, ldb, C.p, ldc, add);
    for (int i = 0; i < M; i++)
        for (size_t j = 0; j < ldc; j++) {
            const size_t at = (size_t)i * ldc + j;
            double terms, expect = was.p[at], allowed = 0;
            if (j < (size_t)N) {
                const double s = exact(K, A.p + (size_t)i * row, col, B.p + j, ldb, &terms);
                expect = s + (add ? was.p[at] : 0);
                allowed = slack(K) * terms + (add ? FLT_EPSILON * (fabs(expect) + fabs(s)) : 0);
            }
            near(k->name, "gemm", (size_t)K, at, seed, C.p[at], expect, allowed);
        }
    if (M > 2 && N > 2 && K > 0) { /* a part of C, which prefetches some lines, has the same bits */
        const int i0 = below(&from, M), j0 = below(&from, N), m = 1 + below(&from, M - i0),
                  n = 1 + below(&from, N - j0);
        guarded part = guard((size_t)m * (size_t)n, 1);
        for (int i = 0; i < m; i++)
            memcpy(part.p + i * n, was.p + (size_t)(i0 + i) * ldc + j0, (size_t)n * sizeof(float));
        ll_prefetch next = draw_prefetch(&from, A.p);
        k->gemm_prefetch(m, n, K, A.p + (size_t)i0 * row, row, col, B.p + j0, ldb, part.p, (size_t)n, add, &next);
        check_prefetch(&next);
        for (int i = 0; i < m; i++)
            if (memcmp(part.p + i * n, C.p + (size_t)(i0 + i) * ldc + j0, (size_t)n * sizeof(float)))
                fail_msg("%s gemm: %d x %d x %d, seed %llx: rows %d+%d, columns %d+%d alone give other bits", k->name,
                         M, N, K, (unsigned long long)seed, i0, m, j0, n);
        guard_end(part, "gemm", k->name);
    }
    guarded all[] = {A, B, C, was};
    for (size_t i = 0; i < 4; i++) guard_end(all[i], "gemm", k->name);
}

/* Each row is gemm's times its factor, to the last bit, and gemm's own without factors. */
static void gemm_scaled_once(const ll_kernels *k, const int size[3], uint64_t seed) {
    const int M = size[0], N = size[1], K = size[2];
    uint64_t from = seed;
    const size_t ldc = (size_t)N + (size_t)below(&from, 9), rows = (size_t)M;
    guarded A = guard_random(rows * (size_t)K, 0, &from), B = guard_random((size_t)K * (size_t)N, 1, &from);
    guarded factor = guard_random(rows, 2, &from), plain = guard(rows * ldc, 3);
    k->gemm(M, N, K, A.p, (size_t)K, 1, B.p, (size_t)N, plain.p, ldc, 0);
    for (int scaled = 0; scaled < 2; scaled++) {
        guarded C = guard_random(rows * ldc, 3, &from), was = guard(rows * ldc, 0);
        memcpy(was.p, C.p, was.n * sizeof(float));
        ll_prefetch next = draw_prefetch(&from, A.p);
        k->gemm_scaled(M, N, K, A.p, (size_t)K, 1, B.p, (size_t)N, scaled ? factor.p : NULL, C.p, ldc, &next);
        check_prefetch(&next);
        for (size_t i = 0; i < rows; i++)
            for (size_t j = 0; j < ldc; j++) {
                const size_t at = i * ldc + j;
                const float expect = j >= (size_t)N ? was.p[at] : plain.p[at] * (scaled ? factor.p[i] : 1);
                near(k->name, "gemm_scaled", (size_t)K, at, seed, C.p[at], expect, 0);
            }
        guard_end(C, "gemm_scaled", k->name), guard_end(was, "gemm_scaled", k->name);
    }
    guarded all[] = {A, B, factor, plain};
    for (size_t i = 0; i < 4; i++) guard_end(all[i], "gemm_scaled", k->name);
}

static void gemv_once(const ll_kernels *k, const int size[3], uint64_t seed) {
    const int N = size[0], K = size[1], add = size[2] & 1;
    uint64_t from = seed;
    const size_t gap = (size_t)below(&from, 4), ldb = (size_t)N + gap, lda = (size_t)K + gap;
    guarded x = guard_random((size_t)K, gap, &from), B = guard_random(K ? (size_t)K * ldb - gap : 0, 1, &from);
    guarded A = guard_random(N ? (size_t)N * lda - gap : 0, 2, &from), y = guard_random((size_t)N, gap, &from);
    guarded r = guard_random((size_t)N, 1, &from), y0 = guard((size_t)N, 0), r0 = guard((size_t)N, 0);
    memcpy(y0.p, y.p, (size_t)N * sizeof(float));
    memcpy(r0.p, r.p, (size_t)N * sizeof(float));
    k->gemv(N, K, x.p, B.p, ldb, y.p, add);
    k->gemv_rows(N, K, A.p, lda, x.p, r.p, add);
    for (size_t j = 0; j < (size_t)N; j++) {
        double terms, s = exact(K, x.p, 1, B.p + j, ldb, &terms), before = add ? y0.p[j] : 0;
        near(k->name, "gemv", (size_t)K, j, seed, y.p[j], before + s, slack(K) * (terms + fabs(before)));
        s = exact(K, A.p + j * lda, 1, x.p, 1, &terms), before = add ? r0.p[j] : 0;
        near(k->name, "gemv_rows", (size_t)K, j, seed, r.p[j], before + s,
             slack(K) * terms + FLT_EPSILON * fabs(before + s));
    }
    if (!add) { /* the bits of a product with one row */
        k->gemm(1, N, K, x.p, (size_t)K, 1, B.p, ldb, y0.p, (size_t)N, 0);
        assert_memory_equal(y.p, y0.p, (size_t)N * sizeof(float));
    }
    guarded all[] = {x, B, A, y, r, y0, r0};
    for (size_t i = 0; i < 7; i++) guard_end(all[i], "gemv", k->name);
}

static void transpose_once(const ll_kernels *k, const int size[3], uint64_t seed) {
    const int rows = size[0], cols = size[1];
    uint64_t from = seed;
    const size_t ldi = (size_t)cols + (size_t)below(&from, 4), ldo = (size_t)rows + (size_t)below(&from, 4);
    guarded in = guard_random((size_t)rows * ldi, 1, &from), out = guard_random((size_t)cols * ldo, 3, &from);
    guarded was = guard((size_t)cols * ldo, 0);
    memcpy(was.p, out.p, was.n * sizeof(float));
    k->transpose(rows, cols, in.p, ldi, out.p, ldo);
    for (size_t j = 0; j < (size_t)cols; j++)
        for (size_t i = 0; i < ldo; i++)
            near(k->name, "transpose", (size_t)rows, j * ldo + i, seed, out.p[j * ldo + i],
                 i < (size_t)rows ? in.p[i * ldi + j] : was.p[j * ldo + i], 0);
    guard_end(in, "transpose", k->name);
    guard_end(out, "transpose", k->name);
    guard_end(was, "transpose", k->name);
}

static void rounds(void (*once)(const ll_kernels *k, const int size[3], uint64_t seed)) {
    const int count = getenv("LL_FAST") ? ONCE : ROUNDS;
    uint64_t seed = 5;
    const ll_kernels *k;
    for (int t = 0; (k = tier_at(t)); t++)
        for (int round = 0; round < count; round++) {
            int size[3];
            draw_sizes(&seed, round, size);
            once(k, size, next64(&seed));
        }
}

/* A product with enough steps prefetches every line. */
static void test_prefetch(void **state) {
    (void)state;
    enum { SIDE = 96 };
    static float A[SIDE * SIDE], C[SIDE * SIDE];
    const ll_kernels *k;
    for (int t = 0; (k = tier_at(t)); t++) {
        ll_prefetch next = {.part = {{A, SIDE, 30, 6}, {A, 7, 1, 1}, {C, 2 * SIDE, 11, 3}}, .parts = 3, .lines = 214};
        k->gemm_prefetch(SIDE, SIDE, SIDE, A, SIDE, 1, A, SIDE, C, SIDE, 0, &next);
        if (k->width == 1) continue; /* the scalar tier does not prefetch */
        assert_int_equal(next.at, 3);
        assert_null(next.line);
    }
}

static void test_gemm(void **state) {
    (void)state;
    rounds(gemm_once);
}
static void test_gemm_scaled(void **state) {
    (void)state;
    rounds(gemm_scaled_once);
}
static void test_gemv(void **state) {
    (void)state;
    rounds(gemv_once);
}
static void test_transpose(void **state) {
    (void)state;
    rounds(transpose_once);
}

static double itself(float x) {
    return (double)x;
}

/* ll_gemm is right, with the same bits on 1, 2 (not with LL_FAST) and 5 threads. The first 16 rounds have every
 * combination of flags. */
static void test_whole(void **state) {
    (void)state;
    static const int threads[] = {1, 2, 5};
    const int fast = !!getenv("LL_FAST"), count = fast ? 16 : 32;
    uint64_t seed = 9;
    const ll_kernels *k;
    for (int t = 0; (k = tier_at(t)); t++) {
        CHECK_OK(ll_set_cpu(k->name));
        for (int round = 0; round < count; round++) {
            whole w = whole_draw(round, &seed);
            for (int i = 0; i < 3; i += 1 + fast) whole_run(&w, "ll_gemm", ll_gemm, threads[i]);
            whole_end(&w, "ll_gemm", itself);
        }
    }
    CHECK_OK(ll_set_cpu(NULL));
    ll_set_threads(0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gemm),
        cmocka_unit_test(test_gemm_scaled),
        cmocka_unit_test(test_prefetch),
        cmocka_unit_test(test_gemv),
        cmocka_unit_test(test_transpose),
        cmocka_unit_test(test_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
