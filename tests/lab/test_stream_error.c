/* The numerical error of streams does not grow. Fed in blocks of random sizes, with every position, they are as near to
 * double precision after 20,000 tokens as after 100, and give what a call gives. The measure notices a deviation if
 * there is one. */
#include <string.h>

#include "model/config/mechanism.h"
#include "base/random.h"
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

static void test_stream_error(void **state) {
    (void)state;
    uint64_t seed = 61;
    const int64_t tokens = getenv("LL_FAST") ? 2050 : 20050, expected[] = {100, 1000, 10000, 20050};
    for (int k = 0; k < KERNELS; k++)
        for (int decays = 0; decays < 2; decays++) {
            ll_attention_config c = config(kernels[k], decays, &seed);
            ll_stream_error stream_error;
            CHECK_OK(ll_attention_stream_error(&stream_error, &c, tokens, 5));
            assert_int_equal(stream_error.count, tokens > 10000 ? 4 : 3);
            for (int i = 0; i < stream_error.count; i++) {
                assert_int_equal(stream_error.tokens[i], i + 1 < stream_error.count ? expected[i] : tokens);
                if (!(stream_error.deviation[i] > 0 && stream_error.deviation[i] < 1e-6 && stream_error.tiles[i] > 0 &&
                      stream_error.tiles[i] < 1e-4))
                    fail_msg("kernel %d, decay %d: deviation %g, from tiles %g at token %lld", k, decays,
                             stream_error.deviation[i], stream_error.tiles[i], (long long)stream_error.tokens[i]);
            }
            draw_config_free(&c);
        }
}

/* One token with the same inputs, computed here: the measure compares with the definition. */
static void test_first_token(void **state) {
    (void)state;
    uint64_t seed = 62;
    ll_attention_config c = config(LL_KERNEL_ELU1, 0, &seed);
    ll_stream_error stream_error;
    CHECK_OK(ll_attention_stream_error(&stream_error, &c, 1, 9)); /* y is v */
    assert_int_equal(stream_error.count, 1);
    assert_true(stream_error.tokens[0] == 1 && stream_error.deviation[0] < 1.2e-7);
    draw_config_free(&c);
}

/* The error of e^u in float grows with u, so larger queries and keys give a larger deviation. */
static void test_it_sees(void **state) {
    (void)state;
    uint64_t seed = 63;
    ll_attention_config c = config(LL_KERNEL_FAVOR, 0, &seed);
    ll_stream_error small, large;
    c.input_scale = 0.3f;
    CHECK_OK(ll_attention_stream_error(&small, &c, 1000, 5));
    c.input_scale = 3;
    CHECK_OK(ll_attention_stream_error(&large, &c, 1000, 5));
    assert_true(large.deviation[1] > 4 * small.deviation[1]);
    draw_config_free(&c);
}

/* Pairs of the table that can stream, and kernels with decay. */
static int streaming_pairs(void) {
    int n = 0;
    for (int k = 0; ll_kernel_at(k); k++) {
        const ll_mechanism *kernel = ll_kernel_at(k);
        if (!kernel->causal || kernel->stream == LL_STREAM_NONE) continue;
        n += kernel->decay;
        for (int p = 0; ll_position_at(p); p++) {
            const char *name = ll_position_at(p)->name;
            n += !ll_pair_check(k, p, 1) && strcmp(name, "sinusoidal") && strcmp(name, "learned");
        }
    }
    return n;
}

/* Every pair that can stream, up to 2,000 tokens. Weights of either sign are not divided by their sum, which may be
 * near 0. So every deviation is rounding. */
static void test_every_pair(void **state) {
    (void)state;
    const ll_analysis how = {.seed = 3, .kernels = "all", .positions = "all", .length = getenv("LL_FAST") ? 150 : 2000};
    ll_table *t = NULL;
    int labels = 0;
    CHECK_OK(ll_analyse(&t, "drift", &how)); /* the old name */
    for (int r = 0; r < t->rows; r++) {
        const double *x = t->number + r * t->columns;
        labels += !r || strcmp(t->label[r], t->label[r - 1]);
        if (!(x[1] <= 2e-6 && x[2] <= 2e-5))
            fail_msg("%s: deviation %g, from tiles %g at token %g", t->label[r], x[1], x[2], x[0]);
        assert_true(x[1] > 0 || strstr(t->label[r], "value"));
    }
    assert_int_equal(labels, streaming_pairs());
    ll_table_free(t);
}

/* Other features of favor. */
static void test_features(void **state) {
    (void)state;
    for (int kind = LL_FEATURES_POSITIVE; kind <= LL_FEATURES_GAUSSIAN; kind++) {
        uint64_t seed = 65;
        ll_attention_config c = config(LL_KERNEL_FAVOR, 0, &seed);
        ll_stream_error stream_error;
        c.features = (ll_feature_kind)kind, c.M = 8, c.input_scale = 0.2f;
        CHECK_OK(ll_attention_stream_error(&stream_error, &c, 3000, 5));
        for (int i = 0; i < stream_error.count; i++)
            assert_true(stream_error.deviation[i] < 2e-6 && stream_error.tiles[i] < 2e-5);
        draw_config_free(&c);
    }
}

/* rope with another base, on a part of the channels, with given angles, with the first two together, and scaled. */
static void test_angles(void **state) {
    (void)state;
    static const float theta[] = {0.5f, 0.3f, 0.2f, 0.1f};
    for (int form = 0; form < 6; form++) {
        ll_attention_config c = ll_attention_default();
        ll_stream_error stream_error;
        c.kernel = LL_KERNEL_ELU1, c.position = LL_POSITION_ROPE, c.D = 8, c.E = 5;
        if (form == 0 || form == 3) c.encoding.base = 500;
        if (form == 1 || form == 3) c.encoding.rotary = 4;
        if (form == 2) c.encoding.theta = theta;
        if (form >= 4) c.encoding.scaling = (ll_rope_scaling){4, form == 4 ? 0 : 100, 1, 4};
        CHECK_OK(ll_attention_stream_error(&stream_error, &c, 1000, 5));
        for (int i = 0; i < stream_error.count; i++)
            assert_true(stream_error.deviation[i] < 2e-6 && stream_error.tiles[i] < 2e-5);
    }
}

/* Long sequences in calls. Most features are the eps, small beside large sums. Adding token by token in float would
 * lose a part of each, always in the same direction: 5e-4 of the output after 100,000 tokens. */
static void test_small_features(void **state) {
    (void)state;
    uint64_t seed = 66;
    ll_attention_config c = config(LL_KERNEL_RELU, 0, &seed);
    ll_stream_error stream_error;
    c.H = 1;
    CHECK_OK(ll_attention_stream_error(&stream_error, &c, getenv("LL_FAST") ? 12000 : 100000, 5));
    for (int i = 0; i < stream_error.count; i++) assert_true(stream_error.tiles[i] < 5e-5);
    draw_config_free(&c);
}

/* The bits are the same there on any number of threads, which share one head. */
static void test_threads(void **state) {
    (void)state;
    enum { T = 10500, E = 70 };
    ll_attention_config c = ll_attention_default();
    c.kernel = LL_KERNEL_ELU1, c.D = 8, c.E = E, c.input_scale = 1;
    ll_attention *op;
    float *x = calloc(T * (8 + 3 * E), sizeof *x), *y[2] = {x + T * (8 + E), x + T * (8 + 2 * E)};
    ll_normal_fill(x, T * (8 + E), 5, 1, 0);
    CHECK_OK(ll_attention_create(&op, &c));
    for (int i = 0; i < 2; i++) {
        const ll_attention_call call = {.B = 1,
                                        .T = T,
                                        .S = T,
                                        .q = {x, 0, 0, 8},
                                        .k = {x, 0, 0, 8},
                                        .v = {x + T * 8, 0, 0, E},
                                        .y = {y[i], 0, 0, E}};
        ll_set_threads(i ? 3 : 1);
        CHECK_OK(ll_attention_forward(op, &call));
    }
    ll_set_threads(0);
    assert_memory_equal(y[0], y[1], T * E * sizeof *x);
    assert_true(fabsf(y[0][T * E - 1]) > 0);
    ll_attention_free(op);
    free(x);
}

/* The same without causality: a query whose features are the eps sums the weights of all keys. */
static void test_small_features_of_many_keys(void **state) {
    (void)state;
    enum { S = 300000 };
    ll_attention_config c = ll_attention_default();
    c.kernel = LL_KERNEL_RELU, c.causal = 0, c.D = 2, c.E = 1, c.input_scale = 1, c.feature_eps = 1e-3f;
    float *x = calloc(3 * S, sizeof *x), q[2] = {1, -1}, y;
    double num = 0, den = 0;
    for (int j = 0; j < S; j++) { /* every other key has the weight of its eps only */
        x[2 * j] = j % 2 ? 1 : -1, x[2 * j + 1] = 0, x[2 * S + j] = j % 2 ? 0.25f : 1;
        const double phi[2] = {(j % 2 ? 1 : 0) + (double)c.feature_eps, (double)c.feature_eps};
        const double weight = (1 + (double)c.feature_eps) * phi[0] + (double)c.feature_eps * phi[1];
        num += weight * (double)x[2 * S + j], den += weight;
    }
    ll_attention *op;
    CHECK_OK(ll_attention_create(&op, &c));
    const ll_attention_call call = {.B = 1,
                                    .T = 1,
                                    .S = S,
                                    .q = {q, 2, 2, 2},
                                    .k = {x, 2 * S, 2 * S, 2},
                                    .v = {x + 2 * S, S, S, 1},
                                    .y = {&y, 1, 1, 1}};
    CHECK_OK(ll_attention_forward(op, &call));
    const double expected = num / den;
    check_close("many keys", 1, &y, &expected, 2e-5);
    ll_attention_free(op);
    free(x);
}

/* Answers that are not numbers are reported as such, also where later ones are numbers. */
static void test_it_sees_nan(void **state) {
    (void)state;
    const ll_attention_config c = {
        .kernel = LL_KERNEL_EXP, .H = 2, .D = 4, .E = 4, .causal = 1, .input_scale = 180}; /* e^700 in double */
    ll_stream_error e;
    CHECK_OK(ll_attention_stream_error(&e, &c, 300, 1));
    assert_int_equal(e.count, 2);
    for (int i = 0; i < 2; i++) assert_true(isnan(e.deviation[i]));
}

static int stop(double share, void *arg) {
    *(double *)arg = share;
    return share > 0.5;
}

static void test_it_stops(void **state) {
    (void)state;
    double share = 0;
    const ll_analysis how = {
        .seed = 3, .kernels = "relu,elu1", .positions = "none", .length = 3000, .progress = stop, .arg = &share};
    ll_table *t = NULL;
    CHECK_FAILS(ll_analyse(&t, "stream-error", &how), LL_ESTOPPED, "stopped");
    assert_true(share > 0.5 && share < 0.7);
    assert_null(t);
}

static void test_refusals(void **state) {
    (void)state;
    uint64_t seed = 64;
    ll_stream_error stream_error = {.count = 7};
    ll_table *t = NULL;
    ll_attention_config c = config(LL_KERNEL_FAVOR, 0, &seed);
    CHECK_FAILS(ll_attention_stream_error(&stream_error, &c, 0, 1), LL_EINVAL, "must be 1 to");
    CHECK_FAILS(ll_attention_stream_error(&stream_error, &c, LL_STREAM_ERROR_LONGEST + 1, 1), LL_EINVAL,
                "must be 1 to");
    c.feature_eps = 1e-3f;
    CHECK_FAILS(ll_attention_stream_error(&stream_error, &c, 100, 1), LL_EINVAL, "eps");
    c.feature_eps = 0, c.den = LL_DEN_EPS;
    CHECK_FAILS(ll_attention_stream_error(&stream_error, &c, 100, 1), LL_EINVAL, "divided by the sum");
    c.kernel = LL_KERNEL_RELU;
    CHECK_FAILS(ll_attention_stream_error(&stream_error, &c, 100, 1), LL_EINVAL, "divisors");
    c.den = LL_DEN_SUM, c.causal = 0;
    CHECK_FAILS(ll_attention_stream_error(&stream_error, &c, 100, 1), LL_EINVAL, "causal");
    assert_int_equal(stream_error.count, 7);
    draw_config_free(&c);
    ll_analysis how = {.seed = 3, .kernels = "relu,elu"};
    CHECK_FAILS(ll_analyse(&t, "stream-error", &how), LL_EINVAL, "no attention.kernel \"elu\"");
    how.kernels = "relu", how.positions = "rop";
    CHECK_FAILS(ll_analyse(&t, "stream-error", &how), LL_EINVAL, "no position.type \"rop\"");
    how.positions = "t5";
    CHECK_FAILS(ll_analyse(&t, "stream-error", &how), LL_EINVAL, "none of these kernels");
    assert_null(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_stream_error),
                                       cmocka_unit_test(test_first_token),
                                       cmocka_unit_test(test_it_sees),
                                       cmocka_unit_test(test_every_pair),
                                       cmocka_unit_test(test_features),
                                       cmocka_unit_test(test_it_sees_nan),
                                       cmocka_unit_test(test_it_stops),
                                       cmocka_unit_test(test_angles),
                                       cmocka_unit_test(test_small_features),
                                       cmocka_unit_test(test_threads),
                                       cmocka_unit_test(test_small_features_of_many_keys),
                                       cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
