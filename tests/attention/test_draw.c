/* Random projections: each kind of draw has its promised properties, and features made of it estimate their kernel.
 * Also long permutations. All seeds are fixed, so a test passes always or never. */
#include "attention/feature/projection.h"
#include "attention/feature/maps.h"
#include "attention/table.h"
#include "recipe/recipe.h"
#include "models.h"
#include "oracle/oracle.h"
#include "test.h"

static const char *kind_names[] = {"orthogonal", "iid", "hadamard", "givens"};

static double inner(int n, const float *x, const float *y) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (double)x[i] * (double)y[i];
    return sum;
}

static void test_blocks_and_lengths(void **state) {
    (void)state;
    static const int sizes[] = {1, 2, 8, 16, 5, 12}; /* the last two are no powers of two */
    for (int kind = LL_DRAW_ORTHOGONAL; kind <= LL_DRAW_GIVENS; kind++)
        for (int s = 0; s < (kind == LL_DRAW_HADAMARD ? 4 : 6); s++) {
            enum { M = 35 };
            const int D = sizes[s];
            float W[M * 16], again[M * 16], other[M * 16];
            const ll_draw_kind k = (ll_draw_kind)kind;
            CHECK_OK(ll_draw_projection(W, M, D, k, LL_NORMS_SQRT_D, 5, 1, 2));
            for (int a = 0; a < M; a++)
                for (int b = 0; b <= a; b++) {
                    const double dot = inner(D, W + a * D, W + b * D);
                    if (a == b) assert_true(fabs(dot / D - 1) < 1e-5);
                    if (a != b && a / D == b / D && k != LL_DRAW_IID) assert_true(fabs(dot) < 1e-5 * D);
                }
            CHECK_OK(ll_draw_projection(again, M, D, k, LL_NORMS_SQRT_D, 5, 1, 2));
            assert_memory_equal(W, again, sizeof(float) * M * (size_t)D);
            for (int change = 0; change < 3 && D > 1; change++) {
                CHECK_OK(ll_draw_projection(other, M, D, k, LL_NORMS_SQRT_D, 5 + (change == 0), 1 + (change == 1),
                                            2 + (change == 2)));
                assert_memory_not_equal(W, other, sizeof(float) * M * (size_t)D);
            }
        }
    float W[36];
    CHECK_FAILS(ll_draw_projection(W, 6, 6, LL_DRAW_HADAMARD, LL_NORMS_CHI, 1, 0, 0), LL_EINVAL, "power of two");
}

enum { D = 16, M = 16, DRAWS = 4000, PAIRS = 4 };

/* Vectors of length 0.6, for which the estimate varies little: along an axis, along the diagonal, and two in random
 * directions. */
static void draw_pair(int pair, double *x, double *y) {
    uint64_t seed = 77;
    double norms[2] = {0, 0};
    for (int e = 0; e < D; e++) {
        x[e] = pair == 0 ? e == 3 : pair == 1 ? 1 : draw_normal(&seed) + pair;
        y[e] = pair == 2 ? draw_normal(&seed) : x[e];
        norms[0] += x[e] * x[e];
        norms[1] += y[e] * y[e];
    }
    for (int e = 0; e < D; e++) x[e] *= 0.6 / sqrt(norms[0]), y[e] *= 0.6 / sqrt(norms[1]);
}

/* One estimate of exp(<x, y>), or gaussian exp(-|x - y|^2 / 2), from the rows of W. */
static double estimate(const float *W, int rows, ll_feature_kind features, const double *x, const double *y) {
    double sum = 0, n = 0, squares = 0;
    for (int e = 0; e < D; e++) squares += (x[e] * x[e] + y[e] * y[e]) / 2;
    for (int a = 0; a < rows; a++) {
        double plus = 0, minus = 0;
        for (int e = 0; e < D; e++) {
            plus += (double)W[a * D + e] * (x[e] + y[e]);
            minus += (double)W[a * D + e] * (x[e] - y[e]);
        }
        if (features == LL_FEATURES_POSITIVE) sum += exp(plus - squares), n++;
        if (features == LL_FEATURES_HYPERBOLIC) sum += (exp(plus - squares) + exp(-plus - squares)) / 2, n++;
        if (features == LL_FEATURES_TRIGONOMETRIC) sum += exp(squares) * cos(minus), n++;
        if (features == LL_FEATURES_GAUSSIAN) sum += cos(minus), n++;
    }
    return sum / n;
}

typedef struct {
    double bias, error, noise; /* mean - truth; root of its mean square; standard error of the mean */
} quality;

static quality judge(ll_draw_kind kind, ll_feature_kind features, int rows, int pair) {
    double x[D], y[D], product = 0, distance = 0, sum = 0, square = 0;
    float W[M * D];
    draw_pair(pair, x, y);
    for (int e = 0; e < D; e++) product += x[e] * y[e], distance += (x[e] - y[e]) * (x[e] - y[e]);
    const double truth = features == LL_FEATURES_GAUSSIAN ? exp(-distance / 2) : exp(product);
    for (int i = 0; i < DRAWS; i++) {
        CHECK_OK(ll_draw_projection(W, rows, D, kind, LL_NORMS_CHI, 9, pair, i));
        const double off = estimate(W, rows, features, x, y) / truth - 1;
        sum += off;
        square += off * off;
    }
    const double mean = sum / DRAWS;
    return (quality){mean, sqrt(square / DRAWS), sqrt((square / DRAWS - mean * mean) / DRAWS)};
}

/* The mean over draws is the kernel, in any direction. A draw that is only nearly a uniform rotation may be off by 2
 * % for vectors of this length. */
static void test_unbiased(void **state) {
    (void)state;
    for (int kind = LL_DRAW_ORTHOGONAL; kind <= LL_DRAW_GIVENS; kind++)
        for (int features = LL_FEATURES_POSITIVE; features <= LL_FEATURES_GAUSSIAN; features++)
            for (int pair = 0; pair < PAIRS; pair++) {
                const quality q = judge((ll_draw_kind)kind, (ll_feature_kind)features, M, pair);
                const double near = kind >= LL_DRAW_HADAMARD ? 0.02 : 0;
                if (!(fabs(q.bias) <= 4 * q.noise + near + 1e-9))
                    fail_msg("%s rows, features %d, pair %d: off by %.4f, noise %.4f", kind_names[kind], features, pair,
                             q.bias, q.noise);
            }
}

/* The mean estimate over the truth along an axis, the mean over all axes, where |q + k| = 2. */
static double along_axes(ll_draw_kind kind, int size, int draws) {
    double sum = 0;
    float W[M * D];
    for (int i = 0; i < draws; i++) {
        CHECK_OK(ll_draw_projection(W, size, size, kind, LL_NORMS_CHI, 1234, 0, i));
        for (int a = 0; a < size * size; a++) sum += exp(2 * (double)W[a] - 2);
    }
    return sum / draws / size / size;
}

/* How far the fast draws are off along an axis, as section 2 of docs/math.md states it. */
static void test_bias_of_fast_draws(void **state) {
    (void)state;
    assert_float_equal(along_axes(LL_DRAW_ORTHOGONAL, 16, 10000), 1, 0.01);
    assert_float_equal(along_axes(LL_DRAW_HADAMARD, 2, 100000), 0.68, 0.01);
    assert_float_equal(along_axes(LL_DRAW_HADAMARD, 16, 10000), 0.99, 0.015);
    assert_float_equal(along_axes(LL_DRAW_GIVENS, 8, 50000), 0.96, 0.01);
    assert_float_equal(along_axes(LL_DRAW_GIVENS, 16, 10000), 0.93, 0.01);
}

/* Orthogonal rows have a smaller error than independent ones (Theorem 2 of the Performer paper). Hyperbolic features
 * have a smaller one than as many positive ones (Lemma 2). The fast draws have as small an error as the exact one. */
static void test_errors(void **state) {
    (void)state;
    const double orthogonal = judge(LL_DRAW_ORTHOGONAL, LL_FEATURES_POSITIVE, M, 1).error;
    const double hyperbolic = judge(LL_DRAW_ORTHOGONAL, LL_FEATURES_HYPERBOLIC, M / 2, 1).error;
    assert_true(orthogonal < 0.95 * judge(LL_DRAW_IID, LL_FEATURES_POSITIVE, M, 1).error);
    assert_true(hyperbolic < orthogonal);
    for (int kind = LL_DRAW_HADAMARD; kind <= LL_DRAW_GIVENS; kind++)
        assert_true(fabs(judge((ll_draw_kind)kind, LL_FEATURES_POSITIVE, M, 1).error / orthogonal - 1) < 0.1);
}

/* The key's choices are the names of all maps, and then those of the other kernels. */
static void test_names_of_maps(void **state) {
    (void)state;
    char names[200] = "softmax|favor";
    for (int kernel = LL_KERNEL_RELU; ll_map_of((ll_kernel)kernel); kernel++) {
        strcat(names, "|");
        strcat(names, ll_kernel_row(kernel)->about.name);
    }
    for (int kernel = LL_KERNEL_GLA + 1; ll_operator_of_kernel((ll_kernel)kernel); kernel++) {
        strcat(names, "|");
        strcat(names, ll_operator_of_kernel((ll_kernel)kernel)->name);
    }
    const ll_recipe_key *key = NULL;
    for (int i = 0; (key = ll_recipe_key_at(i)) && strcmp(key->name, "attention.kernel");) i++;
    assert_non_null(key);
    assert_memory_equal(key->choices, names, strlen(names)); /* kernels that are no maps follow */
    assert_null(ll_map_of(LL_KERNEL_SOFTMAX));
    assert_null(ll_map_of(LL_KERNEL_FAVOR));
}

/* One cycle of more than half of the features, then fixed points. */
static void test_long_permutation(void **state) {
    (void)state;
    static const int sizes[] = {1, 2, 3, 15, 16, 64, 255, 256, 1000};
    for (int i = 0; i < 9; i++)
        for (int which = 0; which < 100; which++) {
            int32_t p[1000];
            ll_permutation_long(p, sizes[i], which);
            int length = 1;
            while (length < sizes[i] && p[length - 1] == length) length++;
            assert_int_equal(p[length - 1], 0);
            for (int a = length; a < sizes[i]; a++) assert_int_equal(p[a], a);
            assert_true(2 * length > sizes[i]);
            if (which == 0) assert_int_equal(length, sizes[i]);
        }
}

/* Among any eight consecutive heads, at least one has a length in each quarter of 129 to 256. */
static void test_spread_of_lengths(void **state) {
    (void)state;
    for (int first = 0; first < 40; first++) {
        unsigned quarters = 0;
        for (int which = first; which < first + 8; which++) {
            int32_t p[256];
            int length = 1;
            ll_permutation_long(p, 256, which);
            while (p[length - 1] == length) length++;
            quarters |= 1u << (length - 129) / 32;
        }
        assert_int_equal(quarters, 15);
    }
}

/* A model has the cycles that its recipe names. */
static void test_cycles_of_models(void **state) {
    (void)state;
    ll_model *model = tiny_model("attention.kernel=relu attention.query-multiple=8 position.type=permute "
                                 "position.cycles=long");
    for (int l = 0; l < 2; l++)
        for (int h = 0; h < 2; h++) {
            int32_t p[64];
            ll_permutation_long(p, 64, 2 * l + h);
            assert_memory_equal(model->attention[l]->c.permutation + 64 * h, p, sizeof p);
        }
    ll_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_and_lengths), cmocka_unit_test(test_unbiased),
        cmocka_unit_test(test_bias_of_fast_draws), cmocka_unit_test(test_errors),
        cmocka_unit_test(test_names_of_maps),      cmocka_unit_test(test_long_permutation),
        cmocka_unit_test(test_spread_of_lengths),  cmocka_unit_test(test_cycles_of_models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
