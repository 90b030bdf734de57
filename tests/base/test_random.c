/* Random numbers: the generator against its definition and published values, draws against their distributions. All
 * seeds are fixed, so a test passes always or never. */
#include "test.h"

#include "base/random.h"

/* The definition: ten rounds of two multiplications. */
static void philox(uint32_t c[4], uint32_t k0, uint32_t k1) {
    for (int round = 0; round < 10; round++) {
        const uint64_t a = (uint64_t)0xd2511f53u * c[0], b = (uint64_t)0xcd9e8d57u * c[2];
        const uint32_t next[4] = {(uint32_t)(b >> 32) ^ c[1] ^ k0, (uint32_t)b, (uint32_t)(a >> 32) ^ c[3] ^ k1,
                                  (uint32_t)a};
        memcpy(c, next, sizeof next);
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
}

/* Values published by the authors of the generator. */
static void test_known_answers(void **state) {
    (void)state;
    static const struct {
        uint64_t seed, stream, index;
        uint32_t out[4];
    } known[] = {
        {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {UINT64_MAX, UINT64_MAX, UINT64_MAX, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88, {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (int i = 0; i < 3; i++) {
        uint32_t out[4];
        ll_random4(out, known[i].seed, known[i].stream, known[i].index);
        assert_memory_equal(out, known[i].out, sizeof out);
    }
}

static void test_philox_is_as_defined(void **state) {
    (void)state;
    uint64_t x = 1;
    for (int i = 0; i < 1000; i++) {
        uint64_t v[3];
        for (int j = 0; j < 3; j++) v[j] = x = x * 6364136223846793005u + 1442695040888963407u;
        uint32_t c[4] = {(uint32_t)v[2], (uint32_t)(v[2] >> 32), (uint32_t)v[1], (uint32_t)(v[1] >> 32)}, out[4];
        philox(c, (uint32_t)v[0], (uint32_t)(v[0] >> 32));
        ll_random4(out, v[0], v[1], v[2]);
        assert_memory_equal(out, c, sizeof out);
    }
}

static void test_streams_differ(void **state) {
    (void)state;
    assert_int_equal(ll_stream_id(LL_RANDOM_INIT, 0, 0), UINT64_C(1) << 56);
    assert_int_equal(ll_stream_id(LL_RANDOM_TEST, 0xffffff, 0xffffffff),
                     (uint64_t)LL_RANDOM_TEST << 56 | 0xffffffffffffff);
    assert_true(ll_stream_id(LL_RANDOM_INIT, 1, 0) != ll_stream_id(LL_RANDOM_INIT, 0, 1));
}

/* Each draw has a number. It does not depend on where a run of draws begins and ends. */
static void test_draws_have_numbers(void **state) {
    (void)state;
    float all[64], part[64];
    ll_uniform_fill(all, 64, 7, 9, 0);
    for (uint64_t i = 0; i < 64; i++) assert_true(ll_uniform(7, 9, i) == all[i]);
    for (size_t first = 0; first < 9; first++)
        for (size_t n = 0; n < 20; n++) {
            ll_uniform_fill(part, n, 7, 9, first);
            assert_memory_equal(part, all + first, n * sizeof *part);
        }
    ll_normal_fill(all, 64, 7, 9, 0);
    for (size_t first = 0; first < 9; first++)
        for (size_t n = 0; n < 20; n++) {
            ll_normal_fill(part, n, 7, 9, first);
            assert_memory_equal(part, all + first, n * sizeof *part);
        }
}

static int ascending(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* The Kolmogorov-Smirnov distance. One seed in a thousand exceeds 1.95/sqrt(n). */
static void expect_distribution(float *x, size_t n, double (*cdf)(double)) {
    qsort(x, n, sizeof *x, ascending);
    double worst = 0;
    for (size_t i = 0; i < n; i++) {
        const double p = cdf((double)x[i]), above = (double)(i + 1) / (double)n - p, below = p - (double)i / (double)n;
        worst = fmax(worst, fmax(above, below));
    }
    if (worst > 1.95 / sqrt((double)n)) fail_msg("distance %g from the distribution", worst);
}

static double normal_cdf(double x) {
    return 0.5 * erfc(-x / sqrt(2));
}
static double uniform_cdf(double x) {
    return x;
}

static void test_distributions(void **state) {
    (void)state;
    enum { N = 200000 };
    float *x = malloc(N * sizeof *x);
    double neighbours = 0;
    ll_normal_fill(x, N, 1, 2, 3);
    for (int i = 0; i + 1 < N; i++) neighbours += (double)x[i] * (double)x[i + 1];
    assert_true(fabs(neighbours) < 4 * sqrt(N)); /* not correlated */
    expect_distribution(x, N, normal_cdf);
    assert_true((double)x[0] < -4 && (double)x[N - 1] > 4); /* the tails exist */
    ll_uniform_fill(x, N, 1, 2, 3);
    for (int i = 0; i < N; i++) assert_true(x[i] >= 0 && x[i] < 1);
    expect_distribution(x, N, uniform_cdf);
    free(x);
}

static void test_below(void **state) {
    (void)state;
    int count[10] = {0};
    double chi = 0;
    for (uint64_t i = 0; i < 100000; i++) count[ll_below(10, 3, 4, i)]++;
    for (int i = 0; i < 10; i++) chi += pow(count[i] - 10000.0, 2) / 10000;
    assert_true(chi < 27.9); /* 9 degrees of freedom; one seed in a thousand exceeds it */
    int high = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        assert_int_equal(ll_below(1, 3, 4, i), 0);
        const uint32_t v = ll_below(UINT32_MAX, 3, 4, i);
        assert_true(v < UINT32_MAX);
        high += v >> 31;
    }
    assert_in_range(high, 440, 560);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_answers),  cmocka_unit_test(test_philox_is_as_defined),
        cmocka_unit_test(test_streams_differ), cmocka_unit_test(test_draws_have_numbers),
        cmocka_unit_test(test_distributions),  cmocka_unit_test(test_below),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
