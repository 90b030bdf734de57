/* Products of bfloat16. Rounding is compared with the nearest number found in double, and sums with an oracle in
 * double. Every tier must have the bits of the scalar tier, also where the machine has an instruction for bfloat16. */
#include "base/float_mode.h"
#include "products.h"

static double bf16_at(const float *pairs, size_t i) {
    uint32_t bits;
    memcpy(&bits, pairs + i / 2, sizeof bits);
    return (double)ll_bf16_to_float((uint16_t)(bits >> (i % 2 * 16)));
}

/* The nearest bfloat16, to even where two are equally near. Beyond the largest it is infinity, below FLT_MIN 0
 * with the sign of x. */
static double rounded(float x) {
    if (isnan(x) || isinf(x)) return (double)x;
    if (fabsf(x) < FLT_MIN) return copysign(0, (double)x);
    int e;
    const double fraction = frexp((double)x, &e); /* in [0.5, 1) */
    const double nearest = ldexp(nearbyint(ldexp(fraction, 8)), e - 8);
    return fabs(nearest) >= 0x1p128 ? copysign(INFINITY, nearest) : nearest;
}

static float draw(uint64_t *seed) {
    static const float special[] = {
        0,        -0.0f,     1,   FLT_MIN,     0.99f * FLT_MIN, -FLT_TRUE_MIN,    FLT_MAX, 3.3961775e38f,
        INFINITY, -INFINITY, NAN, 1.00390625f, 1.01171875f,     -0.999f * FLT_MIN};
    const int which = below(seed, 40);
    if (which < (int)(sizeof special / sizeof *special)) return special[which];
    return ldexpf(signed_one(seed), below(seed, 60) - 30);
}

/* Subnormal numbers count as 0 in the library's mode, also where a kernel asks for them. */
static void to_bf16(const ll_kernels *k, int library, size_t n, const float *x, float *y) {
    const ll_float_mode before = library ? ll_float_mode_set() : (ll_float_mode){0};
    k->to_bf16(n, x, y);
    if (library) ll_float_mode_restore(&before);
}

static void interleave_bf16(const ll_kernels *k, int library, size_t n, const float *low, const float *high, float *y) {
    const ll_float_mode before = library ? ll_float_mode_set() : (ll_float_mode){0};
    k->interleave_bf16(n, low, high, y);
    if (library) ll_float_mode_restore(&before);
}

/* Number i of the pairs is x rounded, with its sign. */
static void check_rounded(const ll_kernels *k, const char *what, size_t n, size_t i, const float *pairs, float x) {
    const double got = bf16_at(pairs, i), expected = rounded(x);
    near(k->name, what, n, i, n, got, expected, 0);
    if (!isnan(expected) && signbit(got) != signbit(expected))
        fail_msg("%s %s: %g is %g", k->name, what, (double)x, got);
}

static void rounding_once(const ll_kernels *k, int library, size_t n, uint64_t *seed) {
    guarded a = guard(n, n % 3), b = guard(n, 1), row = guard((n + 1) / 2, 2), both = guard(n, 0);
    for (size_t i = 0; i < n; i++) a.p[i] = draw(seed), b.p[i] = draw(seed);
    to_bf16(k, library, n, a.p, row.p);
    for (size_t i = 0; i < n; i++) check_rounded(k, "to_bf16", n, i, row.p, a.p[i]);
    if (n % 2) assert_true(bf16_at(row.p, n) == 0);
    for (int alone = 0; alone < 2; alone++) {
        interleave_bf16(k, library, n, a.p, alone ? NULL : b.p, both.p);
        for (size_t i = 0; i < n; i++) {
            check_rounded(k, "interleave_bf16", n, 2 * i, both.p, a.p[i]);
            check_rounded(k, "interleave_bf16", n, 2 * i + 1, both.p, alone ? 0 : b.p[i]);
        }
    }
    guard_end(a, "interleave_bf16", k->name), guard_end(b, "interleave_bf16", k->name);
    guard_end(row, "to_bf16", k->name), guard_end(both, "interleave_bf16", k->name);
}

static void test_rounding(void **state) {
    (void)state;
    uint64_t seed = 3;
    const ll_kernels *k;
    for (int t = 0; (k = tier_at(t)); t++)
        for (size_t n = 0; n < 300; n++) rounding_once(k, n % 2 != 0, n / 2, &seed);
}

/* The sum over k of products of pairs, and the sum of their absolute values, in double. */
static double exact(int K, const float *A, size_t step_a, const float *B, size_t step_b, double *terms) {
    double s = 0;
    *terms = 0;
    for (size_t i = 0; i < 2 * (size_t)K; i++) {
        const double t = bf16_at(A + i / 2 * step_a, i % 2) * bf16_at(B + i / 2 * step_b, i % 2);
        s += t, *terms += fabs(t);
    }
    return s;
}

static guarded guard_pairs(size_t n, size_t shift, uint64_t *seed) {
    guarded g = guard(n, shift);
    for (size_t i = 0; i < n; i++) {
        const float low = signed_one(seed), high = signed_one(seed);
        ll_kernel_tier("scalar")->interleave_bf16(1, &low, &high, g.p + i);
    }
    return g;
}

/* All tiers have the same bits, except for the one whose instruction rounds differently. That one is tested apart. */
static int rounds_to_odd(const ll_kernels *k) {
    return !strcmp(k->name, "neonbf16");
}

static int have(int odd) {
    const ll_kernels *k;
    for (int t = 0; (k = tier_at(t)); t++)
        if (rounds_to_odd(k) == odd) return 1;
    return 0;
}

static void gemm_bf16_once(int odd, int M, int N, int K, uint64_t seed) {
    uint64_t from = seed;
    const int transposed = below(&from, 2), add = below(&from, 2);
    const size_t gap = (size_t)below(&from, 5), ldb = (size_t)N + gap, ldc = (size_t)N + (size_t)below(&from, 9);
    const size_t row = transposed ? 1 : (size_t)K + gap, col = transposed ? (size_t)M + gap : 1;
    const size_t extent = M && K ? (size_t)(M - 1) * row + (size_t)(K - 1) * col + 1 : 0;
    guarded A = guard_pairs(extent, gap % 4, &from), B = guard_pairs(K ? (size_t)K * ldb - gap : 0, 1, &from);
    guarded was = guard_random((size_t)M * ldc, 0, &from), first = guard((size_t)M * ldc, 0);
    const ll_kernels *k, *one = NULL;
    for (int t = 0; (k = tier_at(t)); t++) {
        if (rounds_to_odd(k) != odd) continue;
        guarded C = guard((size_t)M * ldc, 3);
        memcpy(C.p, was.p, C.n * sizeof(float));
        k->gemm_bf16(M, N, K, A.p, row, col, B.p, ldb, C.p, ldc, add, NULL);
        if (!one) memcpy(first.p, C.p, C.n * sizeof(float)), one = k;
        if (C.n && memcmp(first.p, C.p, C.n * sizeof(float)))
            fail_msg("%s gemm_bf16: %d x %d x %d, seed %llx: other bits than %s", k->name, M, N, K,
                     (unsigned long long)seed, one->name);
        guard_end(C, "gemm_bf16", k->name);
    }
    for (size_t i = 0; i < (size_t)M; i++)
        for (size_t j = 0; j < ldc; j++) {
            const size_t at = i * ldc + j;
            double terms = 0, expect = was.p[at], allowed = 0;
            if (j < (size_t)N) {
                const double s = exact(K, A.p + i * row, col, B.p + j, ldb, &terms);
                expect = s + (add ? was.p[at] : 0);
                allowed = slack(2 * K) * terms + (add ? FLT_EPSILON * (fabs(expect) + fabs(s)) : 0);
            }
            near(one->name, "gemm_bf16", (size_t)K, at, seed, first.p[at], expect, allowed);
        }
    guarded all[] = {A, B, was, first};
    for (size_t i = 0; i < 4; i++) guard_end(all[i], "gemm_bf16", "all");
}

static void test_gemm_bf16(void **state) {
    (void)state;
    static const int sizes[] = {0, 1, 2, 5, 6, 7, 8, 9, 15, 16, 17, 31, 33, 61, 64, 97};
    enum { SIZES = sizeof sizes / sizeof sizes[0] };
    const int once = 3 * SIZES; /* rounds in which each of the three sizes takes each of its values once */
    uint64_t seed = 5;
    for (int round = 0; round < (getenv("LL_FAST") ? once : 4 * once); round++) {
        int size[3];
        for (int i = 0; i < 3; i++) size[i] = sizes[below(&seed, SIZES)];
        size[round % 3] = sizes[round / 3 % SIZES];
        const uint64_t own = next64(&seed);
        for (int odd = 0; odd <= have(1); odd++) gemm_bf16_once(odd, size[0], size[1], size[2], own);
    }
}

/* ll_gemm_bf16 in every tier is right, and gives the same bits on 1, 2 and 5 threads. */
static void test_whole(void **state) {
    (void)state;
    static const int threads[] = {1, 2, 5};
    uint64_t seed = 9;
    const ll_kernels *k;
    const int groups = 1 + have(1);
    for (int round = 0; round < 16 * groups; round++) {
        const int odd = round >= 16;
        whole w = whole_draw(round % 16, &seed);
        for (int i = 0; (k = tier_at(i / 3)); i++) {
            if (rounds_to_odd(k) != odd) continue;
            CHECK_OK(ll_set_cpu(k->name));
            whole_run(&w, "ll_gemm_bf16", ll_gemm_bf16, threads[i % 3]);
        }
        whole_end(&w, "ll_gemm_bf16", rounded);
    }
    CHECK_OK(ll_set_cpu(NULL));
    ll_set_threads(0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_gemm_bf16),
        cmocka_unit_test(test_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
