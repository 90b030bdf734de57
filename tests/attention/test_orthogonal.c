/* Random rotations in place of permutations: how they are drawn, and their powers applied to features, compared with
 * products of whole matrices. */
#include "attention/feature/feature_map.h"
#include "attention/feature/projection.h"
#include "drawn.h"

static ll_status draw_rotation(float *basis, float *theta, int n, uint64_t seed, int layer, int head) {
    const ll_status status = ll_draw_basis(basis, n, seed, layer, head);
    return status ? status : ll_draw_angles(theta, n, seed, layer, head);
}

/* Traces of powers of P = B^T R B, from its angles. */
static double trace(const float *theta, int n, int power) {
    double sum = n % 2;
    for (int t = 0; t < n / 2; t++) sum += 2 * cos(power * (double)theta[t]);
    return sum;
}

/* For uniform rotations E tr P = 0, E (tr P)^2 = 1, E (tr P)^4 = 3, E tr P^2 = 1, E (tr P^2)^2 = 3, E tr P^3 = 0
 * (Diaconis and Shahshahani 1994, for n large enough), however they are made. Planes rotated by independent angles have
 * E (tr P)^2 = n / 2 and larger values elsewhere. Means of 6000 draws are within five standard errors. */
static void test_angles_are_those_of_uniform_rotations(void **state) {
    (void)state;
    enum { DRAWS = 6000, MOST = 12 };
    static const int sizes[] = {9, 12};
    float *basis = malloc(MOST * MOST * sizeof *basis), theta[MOST / 2];
    for (int s = 0; s < 2; s++) {
        const int n = sizes[s], draws = getenv("LL_FAST") ? DRAWS / 10 : DRAWS;
        double sum[6] = {0};
        for (int i = 0; i < draws; i++) {
            CHECK_OK(draw_rotation(basis, theta, n, 3, i % 1000, i / 1000));
            const double one = trace(theta, n, 1), two = trace(theta, n, 2);
            const double moment[] = {one, one * one, one * one * one * one, two, two * two, trace(theta, n, 3)};
            for (int k = 0; k < 6; k++) sum[k] += moment[k] / draws;
            for (int t = 0; t < n / 2; t++) assert_true(theta[t] >= 0 && theta[t] <= 3.1415928f);
        }
        const double expected[] = {0, 1, 3, 1, 3, 0}, deviation[] = {1, 1.4, 9.8, 1.5, 5, 1.8};
        for (int k = 0; k < 6; k++)
            if (!(fabs(sum[k] - expected[k]) < 5 * deviation[k] / sqrt(draws)))
                fail_msg("%d dimensions, moment %d is %.4g, expected %.4g", n, k, sum[k], expected[k]);
    }
    free(basis);
}

/* The angle of a rotation in three dimensions has the density (1 - cos t) / pi. In two dimensions it is uniform. */
static void test_few_dimensions(void **state) {
    (void)state;
    enum { DRAWS = 5000 };
    float basis[9], theta[1];
    double flat = 0, mean = 0, square = 0;
    for (int i = 0; i < DRAWS; i++) {
        CHECK_OK(draw_rotation(basis, theta, 2, 4, i, 0));
        flat += (double)theta[0] / DRAWS;
        CHECK_OK(draw_rotation(basis, theta, 3, 4, i, 1));
        mean += cos((double)theta[0]) / DRAWS;
        square += cos((double)theta[0]) * cos((double)theta[0]) / DRAWS;
    }
    assert_true(fabs(flat - 3.14159265 / 2) < 5 * 0.907 / sqrt(DRAWS));
    assert_true(fabs(mean + 0.5) < 5 * 0.5 / sqrt(DRAWS));
    assert_true(fabs(square - 0.5) < 5 * 0.36 / sqrt(DRAWS));
}

static void test_basis_is_orthonormal(void **state) {
    (void)state;
    enum { N = 33 };
    float *basis = malloc(N * N * sizeof *basis), *again = malloc(N * N * sizeof *again), theta[N / 2], same[N / 2];
    CHECK_OK(draw_rotation(basis, theta, N, 5, 1, 2));
    CHECK_OK(draw_rotation(again, same, N, 5, 1, 2));
    assert_memory_equal(basis, again, N * N * sizeof *basis);
    assert_memory_equal(theta, same, sizeof theta);
    CHECK_OK(draw_rotation(again, same, N, 5, 1, 3));
    assert_true(memcmp(theta, same, sizeof theta) && memcmp(basis, again, N * N * sizeof *basis));
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            double dot = 0;
            for (int e = 0; e < N; e++) dot += (double)basis[i * N + e] * (double)basis[j * N + e];
            assert_true(fabs(dot - (i == j)) < 1e-6);
        }
    free(basis), free(again);
}

enum { KERNELS = 7 };

/* Weights of both signs can give divisors near 0. So den_eps is so large that it decides the divisor, or there is
 * none. */
static ll_attention_config configure(int kernel, int causal, uint64_t *seed) {
    static const ll_kernel kernels[KERNELS] = {LL_KERNEL_RELU,  LL_KERNEL_ELU1, LL_KERNEL_FAVOR, LL_KERNEL_FAVOR,
                                               LL_KERNEL_FAVOR, LL_KERNEL_TANH, LL_KERNEL_EXP};
    ll_attention_config c = {.position = LL_POSITION_ORTHOGONAL, .causal = causal, .kernel = kernels[kernel]};
    c.H = 2, c.D = draw_int(seed, 2, kernel == 6 ? 3 : 7), c.E = 4, c.input_scale = 0.6f;
    if (kernel >= 2 && kernel < 5) c.M = draw_int(seed, 2, 9);
    if (kernel == 3) c.features = LL_FEATURES_HYPERBOLIC;
    if (kernel == 4) c.features = LL_FEATURES_TRIGONOMETRIC, c.input_scale = 0.3f;
    if (kernel == 0) c.feature_eps = 0.1f;
    if (kernel == 3 && draw_int(seed, 0, 1)) c.feature_eps = 0.1f;
    c.query_max = c.key_max = LL_MAX_NONE;
    c.den = draw_int(seed, 0, 1) ? LL_DEN_NONE : LL_DEN_EPS_L;
    c.den_eps = 300;
    c.projection = c.M ? drawn_normals(c.M * c.D, 1, seed) : NULL;
    const int m = ll_feature_count(&c);
    float *basis = drawn_normals(c.H * m * m, 1, seed), *theta = drawn_normals(c.H * (m / 2), 1, seed);
    for (int h = 0; h < c.H; h++)
        CHECK_OK(draw_rotation(basis + h * m * m, theta + h * (m / 2), m, 6, draw_int(seed, 0, 99), h));
    c.encoding.basis = basis, c.encoding.theta = theta;
    if (causal && draw_int(seed, 0, 1)) {
        float *decay = drawn_normals(c.H, 1, seed);
        for (int h = 0; h < c.H; h++) decay[h] = (float)(0.5 + 0.5 * draw_uniform(seed));
        c.decay = decay;
    }
    return c;
}

static void finish(drawn *d) {
    free((void *)d->config.encoding.basis);
    free((void *)d->config.encoding.theta);
    drawn_free(d);
}

static void check_differences(drawn *d, const char *what, int n, double *x, const float *got, int most) {
    double worst = 0, scale = 0.05;
    for (int i = 0; i < n; i += 1 + n / most) {
        const double expected = oracle_difference(&d->o, x + i), error = abs_error((double)got[i], expected);
        scale = fmax(scale, fabs(expected));
        worst = fmax(worst, error);
    }
    if (!(worst <= 2e-4 * scale)) fail_msg("%s is wrong by %.3g of %.3g: %s", what, worst, scale, drawn_name(d));
}

static void test_gradients(void **state) {
    (void)state;
    uint64_t seed = 81;
    for (int n = 0; n < rounds(10) * KERNELS; n++)
        for (int causal = 0; causal < 2; causal++) {
            const int T = draw_int(&seed, 1, 14), S = causal ? T : draw_int(&seed, 1, 14);
            ll_attention_config c = configure(n % KERNELS, causal, &seed);
            drawn *d = drawn_create(c, 2, T, S, 0.8, draw_int(&seed, 0, 7), &seed);
            drawn_solve(d, 0);
            drawn_run(d, draw_int(&seed, 1, 9), 1);
            drawn_check(d, "orthogonal", 0, 3e-5, 0);
            check_differences(d, "dq", 2 * c.H * T * c.D, d->o.q, drawn_packed(d, &d->call.dq, T, c.D), 8);
            check_differences(d, "dk", 2 * c.H * S * c.D, d->o.k, drawn_packed(d, &d->call.dk, S, c.D), 8);
            check_differences(d, "dv", 2 * c.H * S * c.E, d->o.v, drawn_packed(d, &d->call.dv, S, c.E), 4);
            if (c.decay) check_differences(d, "dr", c.H, d->o.r, d->call.ddecay, 4);
            finish(d);
        }
}

/* Features are normalised by the sum of weights, and their scale cancels, as in models. */
static void test_normalised(void **state) {
    (void)state;
    uint64_t seed = 82;
    int ran = 0;
    for (int n = 0; n < rounds(40); n++) {
        ll_attention_config c = configure(n % KERNELS, n % 2, &seed);
        c.den = LL_DEN_SUM, c.query_max = LL_MAX_TOKEN, c.key_max = LL_MAX_PREFIX;
        if (c.kernel == LL_KERNEL_FAVOR) c.feature_eps = 0;
        /* Of few e^u all may be small, so that the unit of a row is less than 1. */
        drawn *d = drawn_create(c, 1, 5, 5, c.kernel == LL_KERNEL_EXP ? 3 : 0.3, 0, &seed);
        drawn_solve(d, 0);
        double most = 0;
        for (int i = 0; i < c.H * 5 * c.E; i++) most = fmax(most, fabs(d->y[i]));
        if (most < 10) { /* no divisor near 0 */
            drawn_run(d, 2, 1);
            drawn_check(d, "orthogonal", 0, 1e-4, 0);
            check_differences(d, "dk", c.H * 5 * c.D, d->o.k, drawn_packed(d, &d->call.dk, 5, c.D), 8);
            ran++;
        }
        finish(d);
    }
    assert_true(ran >= rounds(10));
}

/* A stream gives the definition. Any number of threads gives the same bits. */
static void test_streams_and_threads(void **state) {
    (void)state;
    uint64_t seed = 83;
    for (int n = 0; n < rounds(4) * KERNELS; n++) {
        const int T = draw_int(&seed, 1, 90);
        drawn *d = drawn_create(configure(n % KERNELS, 1, &seed), 2, T, T, 0.8, 0, &seed);
        const ll_attention_call *c = &d->call;
        const size_t floats = (size_t)(2 * d->config.H * T * d->config.D);
        drawn_solve(d, 0);
        drawn_stream(d, "orthogonal stream", 0, 3e-5, &seed);
        ll_set_threads(1);
        drawn_run(d, 0, 1);
        float *one = malloc(floats * sizeof *one);
        memcpy(one, drawn_packed(d, &c->dk, T, d->config.D), floats * sizeof *one);
        ll_set_threads(3);
        drawn_run(d, 0, 1);
        assert_memory_equal(one, drawn_packed(d, &c->dk, T, d->config.D), floats * sizeof *one);
        ll_set_threads(0);
        free(one);
        finish(d);
    }
}

static void test_what_cannot_be(void **state) {
    (void)state;
    const float some[64] = {0};
    const int32_t pair[2] = {1, 0};
    const ll_attention_config relu = {.position = LL_POSITION_ORTHOGONAL,
                                      .kernel = LL_KERNEL_RELU,
                                      .H = 1,
                                      .D = 2,
                                      .E = 2,
                                      .input_scale = 1,
                                      .encoding = {.basis = some, .theta = some}};
    ll_attention_config c;
    ll_attention *op;
    REFUSED(relu, c.kernel = LL_KERNEL_SOFTMAX, "another position");
    REFUSED(relu, c.D = 1, "2 to 2048");
    REFUSED(relu, c.D = 4096, "2 to 2048");
    REFUSED(relu, c.encoding.basis = NULL, "basis");
    REFUSED(relu, c.encoding.theta = NULL, "angles");
    REFUSED(relu, c.permutation = pair, "permut");
    REFUSED(relu, c.den = LL_DEN_EPS_PHI, "divisor");
    REFUSED(
        relu, (c.kernel = LL_KERNEL_FAVOR, c.M = 2, c.projection = some, c.causal = 1, c.feature_eps = 0.1f), "eps 0");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_angles_are_those_of_uniform_rotations),
        cmocka_unit_test(test_few_dimensions),
        cmocka_unit_test(test_basis_is_orthonormal),
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_normalised),
        cmocka_unit_test(test_streams_and_threads),
        cmocka_unit_test(test_what_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
