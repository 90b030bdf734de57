/* Streams do not drift: after 20,000 tokens they are as near to double precision as after 100. And the measure sees a
 * deviation where there is one. */
#include "drawn.h"

static const ll_kernel kernels[] = {LL_KERNEL_RELU, LL_KERNEL_ELU1,    LL_KERNEL_FAVOR, LL_KERNEL_EXP,
                                    LL_KERNEL_ABS,  LL_KERNEL_SIGMOID, LL_KERNEL_SQUARE};
enum { KERNELS = sizeof kernels / sizeof *kernels };

static ll_attention_config config(ll_kernel kernel, int decays, uint64_t *seed) {
    ll_attention_config c = ll_attention_default();
    c.kernel = kernel, c.H = 2, c.D = 8, c.E = 5, c.M = kernel == LL_KERNEL_FAVOR ? 16 : 0;
    c.input_scale = kernel == LL_KERNEL_FAVOR ? 0.6f : 1;
    c.feature_eps = kernel == LL_KERNEL_FAVOR ? 0 : 1e-3f;
    draw_parts(&c, decays, seed);
    return c;
}

static void test_drift(void **state) {
    (void)state;
    uint64_t seed = 61;
    const int64_t tokens = getenv("LL_FAST") ? 2050 : 20050, expected[] = {100, 1000, 10000, 20050};
    for (int k = 0; k < KERNELS; k++)
        for (int decays = 0; decays < 2; decays++) {
            ll_attention_config c = config(kernels[k], decays, &seed);
            ll_drift drift;
            CHECK_OK(ll_attention_drift(&drift, &c, tokens, 5));
            assert_int_equal(drift.count, tokens > 10000 ? 4 : 3);
            for (int i = 0; i < drift.count; i++) {
                assert_int_equal(drift.tokens[i], i + 1 < drift.count ? expected[i] : tokens);
                if (!(drift.deviation[i] > 0 && drift.deviation[i] < 1e-6))
                    fail_msg("kernel %d, decay %d: deviation %g at token %lld", k, decays, drift.deviation[i],
                             (long long)drift.tokens[i]);
            }
            draw_config_free(&c);
        }
}

/* The same inputs by hand, one token: what drift compares with is the definition. */
static void test_first_token(void **state) {
    (void)state;
    uint64_t seed = 62;
    ll_attention_config c = config(LL_KERNEL_ELU1, 0, &seed);
    ll_drift drift;
    CHECK_OK(ll_attention_drift(&drift, &c, 1, 9)); /* y is v */
    assert_int_equal(drift.count, 1);
    assert_true(drift.tokens[0] == 1 && drift.deviation[0] < 1.2e-7);
    draw_config_free(&c);
}

/* The error of e^u in float grows with u: larger queries and keys, a larger deviation. */
static void test_it_sees(void **state) {
    (void)state;
    uint64_t seed = 63;
    ll_attention_config c = config(LL_KERNEL_FAVOR, 0, &seed);
    ll_drift small, large;
    c.input_scale = 0.3f;
    CHECK_OK(ll_attention_drift(&small, &c, 1000, 5));
    c.input_scale = 3;
    CHECK_OK(ll_attention_drift(&large, &c, 1000, 5));
    assert_true(large.deviation[1] > 4 * small.deviation[1]);
    draw_config_free(&c);
}

static void test_refusals(void **state) {
    (void)state;
    uint64_t seed = 64;
    ll_drift drift = {.count = 7};
    ll_attention_config c = config(LL_KERNEL_FAVOR, 0, &seed);
    CHECK_FAILS(ll_attention_drift(&drift, &c, 0, 1), LL_EINVAL, "at least 1");
    c.feature_eps = 1e-3f;
    CHECK_FAILS(ll_attention_drift(&drift, &c, 100, 1), LL_EINVAL, "eps");
    c.feature_eps = 0, c.features = LL_FEATURES_GAUSSIAN;
    CHECK_FAILS(ll_attention_drift(&drift, &c, 100, 1), LL_EINVAL, "hyperbolic");
    c.features = LL_FEATURES_POSITIVE, c.causal = 0;
    CHECK_FAILS(ll_attention_drift(&drift, &c, 100, 1), LL_EINVAL, "causal");
    c.causal = 1, c.kernel = LL_KERNEL_COS;
    CHECK_FAILS(ll_attention_drift(&drift, &c, 100, 1), LL_EINVAL, "positive features");
    c.kernel = LL_KERNEL_SOFTMAX;
    CHECK_FAILS(ll_attention_drift(&drift, &c, 100, 1), LL_EINVAL, "linear kernels");
    assert_int_equal(drift.count, 7);
    draw_config_free(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_drift), cmocka_unit_test(test_first_token),
                                       cmocka_unit_test(test_it_sees), cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
