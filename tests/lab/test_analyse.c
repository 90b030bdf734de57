/* Experiments: their numbers agree with another computation, are functions of the seed alone, and nothing is left
 * behind after a lack of memory or a stop by the caller. */
#include "attention/operator.h"
#include "base/memory.h"
#include "model/network.h"
#include "models.h"

static ll_table *run(const char *name, ll_analysis how) {
    ll_table *t = NULL;
    how.quick = 1;
    if (!how.seed) how.seed = 3;
    CHECK_OK(ll_analyse(&t, name, &how));
    assert_true(t->rows > 0 && t->columns > 0);
    return t;
}

static int column(const ll_table *t, const char *name) {
    for (int c = 0; c < t->columns; c++)
        if (!strcmp(t->column[c], name)) return c;
    fail_msg("%s has no column %s", t->title, name);
    return -1;
}

static double number(const ll_table *t, int row, const char *name) {
    return t->number[(size_t)row * (size_t)t->columns + (size_t)column(t, name)];
}

/* Number i of the rows under a label; -1: there is none. */
static int row_of(const ll_table *t, const char *label, int i) {
    for (int r = 0; r < t->rows; r++)
        if (!strcmp(t->label[r], label) && !i--) return r;
    return -1;
}

/* Every experiment: the same numbers again and on other threads, others under another seed; plots name columns that
 * there are. */
static void test_all(void **state) {
    (void)state;
    for (int e = 0; ll_experiment_at(e); e++) {
        const char *name = ll_experiment_at(e)->name;
        ll_set_threads(1);
        ll_table *one = run(name, (ll_analysis){.seed = 4, .repeats = 2, .length = 16});
        ll_set_threads(3);
        ll_table *two = run(name, (ll_analysis){.seed = 4, .repeats = 2, .length = 16});
        ll_table *other = run(name, (ll_analysis){.seed = 5, .repeats = 2, .length = 16});
        const size_t bytes = (size_t)one->rows * (size_t)one->columns * sizeof *one->number;
        assert_int_equal(one->rows, two->rows);
        assert_memory_equal(one->number, two->number, bytes);
        assert_memory_not_equal(one->number, other->number, bytes);
        for (int p = 0; p < one->plots; p++) {
            const ll_plot *plot = &one->plot[p];
            assert_true(plot->x < one->columns && plot->y < one->columns && plot->deviation < one->columns);
        }
        assert_true(*ll_experiment_at(e)->what && *ll_experiment_at(e)->paper && *one->verdict);
        assert_true(strlen(one->verdict) < 390); /* not cut */
        ll_table_free(one), ll_table_free(two), ll_table_free(other);
    }
    ll_table *none = NULL;
    CHECK_FAILS(ll_analyse(&none, "nothing", &(ll_analysis){0}), LL_EINVAL, "nothing");
}

/* More features, less error, of the output and of the matrix; and trigonometric features may be useless. */
static void test_features(void **state) {
    (void)state;
    ll_table *t = run("features", (ll_analysis){.repeats = 4, .spread = 0.4});
    for (int i = 0; i < t->rows; i += 2) {
        assert_true(number(t, i, "features") < number(t, i + 1, "features"));
        assert_true(number(t, i, "output_mse") > number(t, i + 1, "output_mse"));
        assert_true(number(t, i, "matrix_l2") > number(t, i + 1, "matrix_l2"));
        assert_true(number(t, i, "matrix_l2") > 0.01);
    }
    ll_table *wide = run("features", (ll_analysis){.repeats = 4, .spread = 1.5});
    assert_true(number(wide, row_of(wide, "orthogonal trigonometric", 0), "output_mse") >
                10 * number(wide, row_of(wide, "orthogonal positive", 0), "output_mse"));
    ll_table_free(t), ll_table_free(wide);
}

/* The error in single precision is rounding; the error of the estimate does not follow the length. */
static void test_lengths(void **state) {
    (void)state;
    ll_table *t = run("lengths", (ll_analysis){.repeats = 4, .spread = 0.4, .length = 1024});
    assert_int_equal(t->rows, 6 * 4);
    for (int i = 0; i < t->rows; i++) {
        const double rounding = number(t, i, "rounding_l2"), error = number(t, i, "output_l2");
        assert_true(number(t, i, "length") == 1024 >> 2 * (3 - i % 4));
        assert_true(rounding > 1e-9 && rounding < 1e-5);
        assert_true(error > 0.01 && error < 1);
    }
    const int first = row_of(t, "orthogonal positive", 0);
    assert_true(number(t, first + 3, "output_l2") < 2 * number(t, first, "output_l2"));
    const char *words = strstr(t->verdict, "Rounding is at most ");
    assert_non_null(words);
    const double gap = fabs(number(t, first + 3, "output_l2") - number(t, first, "output_l2"));
    const int agrees = gap <= fmax(number(t, first, "deviation"), number(t, first + 3, "deviation"));
    assert_non_null(strstr(t->verdict, agrees ? "the same within a deviation" : "deviations of the draws apart"));
    const double bound = ll_scan_number(words + 20, NULL);
    double worst = 0;
    for (int i = 0; i < t->rows; i++) worst = fmax(worst, number(t, i, "rounding_l2") / number(t, i, "output_l2"));
    assert_true(bound > worst * (1 - 1e-12) && bound < 2.1 * worst); /* one digit, rounded up */
    ll_table_free(t);
    t = run("lengths", (ll_analysis){.repeats = 1, .spread = 30, .length = 16}); /* e^1800 is no double */
    assert_false(isfinite(number(t, 0, "rounding_l2")));
    assert_non_null(strstr(t->verdict, "Rounding is not known"));
    assert_non_null(strstr(t->verdict, "not tested"));
    assert_int_equal(t->rows, 6 * 3); /* 2, 4 and 16 tokens: no length twice */
    ll_table_free(t);
}

/* A few draws have no interval in which a formula could be: their mean is not nearly normal. */
static void test_moments_of_few_draws(void **state) {
    (void)state;
    for (int draws = 1; draws <= 30; draws += draws == 1 ? 28 : 1) {
        ll_table *t = run("moments", (ll_analysis){.repeats = draws});
        const int row = row_of(t, "positive", 4);
        assert_int_equal(isnan(number(t, row, "interval")), draws < 30);
        assert_int_equal(strstr(t->verdict, "needs 30 draws") != NULL, draws < 30);
        assert_int_equal(strstr(t->verdict, " of 40 measured") != NULL, draws == 30);
        ll_table_free(t);
    }
}

/* The formulas, which another experiment (a few draws of them) bears out; and those of Lemma 2 by hand where x is
 * orthogonal to y: Z = |d|^2 = 1/2, s = 1. */
static void test_moments(void **state) {
    (void)state;
    ll_table *t = run("moments", (ll_analysis){.repeats = 10000});
    int inside = 0, all = 0;
    for (int r = 0; r < t->rows; r++) {
        if (isnan(number(t, r, "ratio"))) continue;
        const double gap = fabs(number(t, r, "measured") - number(t, r, "formula"));
        if (gap > 3.5 * number(t, r, "interval") / 1.96) fail_msg("%s, row %d: off by %g", t->label[r], r, gap);
        inside += gap <= number(t, r, "interval");
        all++;
    }
    assert_true(all == 5 * 8 && inside > 0.8 * all);
    const double e = exp(0.5);
    assert_true(fabs(number(t, row_of(t, "trigonometric", 4), "formula") - e * pow(1 - 1 / e, 2) / 32) < 1e-12);
    assert_true(fabs(number(t, row_of(t, "positive", 4), "formula") - (e - 1) / 16) < 1e-12);
    assert_true(fabs(number(t, row_of(t, "hyperbolic", 4), "formula") - (1 - 1 / e) / 2 * (e - 1) / 16) < 1e-12);
    for (int i = 0; i < 9; i++) {
        const int r = row_of(t, "orthogonal positive", i), plain = row_of(t, "positive", i);
        assert_true(number(t, r, "formula") <= number(t, r, "theorem_2_bound") + 1e-12);
        assert_true(number(t, r, "theorem_2_bound") <= number(t, plain, "formula") + 1e-12);
    }
    ll_table_free(t);
}

static void test_layers(void **state) {
    (void)state;
    ll_table *t = run("layers", (ll_analysis){.repeats = 2});
    assert_int_equal(t->rows, 36);
    for (int i = 0; i < 3; i++) {
        assert_true(number(t, 12 * i, "error") > 1e-4);
        assert_true(number(t, 12 * i + 11, "error") > number(t, 12 * i, "error"));
        if (i) assert_true(number(t, 12 * i + 11, "error") < number(t, 12 * i - 1, "error"));
    }
    ll_table_free(t);
}

/* How often a permutation must be applied until it is the identity, by trying. */
static int64_t order(const int32_t *p, int n) {
    int32_t at[64];
    int64_t times = 0;
    for (int a = 0; a < n; a++) at[a] = a;
    for (int away = 1; away; times++) {
        away = 0;
        for (int a = 0; a < n; a++) at[a] = p[at[a]], away |= at[a] != a;
    }
    return times;
}

static void test_periods(void **state) {
    (void)state;
    ll_model *m = tiny_model("attention.kernel=relu position.type=permute attention.query-multiple=2"), *none;
    none = tiny_model("attention.kernel=relu");
    ll_table *t = run("periods", (ll_analysis){.model = m});
    for (int l = 0; l < 2; l++)
        for (int h = 0; h < 2; h++) {
            const int row = 2 * l + h;
            assert_true(number(t, row, "head_median") == (double)order(m->attention[l]->c.permutation + 16 * h, 16));
            const double all = number(t, row, "all_heads_median");
            if (h) assert_true(fmod(all, number(t, row, "head_median")) == 0);
            if (h) assert_true(fmod(all, number(t, row - 1, "head_median")) == 0);
        }
    ll_table *refused = NULL;
    CHECK_FAILS(ll_analyse(&refused, "periods", &(ll_analysis){.model = none}), LL_EINVAL, "no permutations");
    assert_null(refused);
    ll_table_free(t);
    ll_model_free(m), ll_model_free(none);
}

/* What positions do by themselves, where it has a formula. */
static void test_positions(void **state) {
    (void)state;
    ll_table *t = run("positions", (ll_analysis){.repeats = 32, .length = 24});
    for (int d = 0; d <= 12; d++) {
        double rope = 0, decay = 0;
        for (int i = 0; i < 16; i++) rope += cos(d * pow(10000, -i / 16.0)) / 16;
        for (int h = 0; h < 8; h++) decay += pow(1 / (1 + exp(-2 - 3 * h / 8.0)), d) / 8;
        assert_true(fabs(number(t, row_of(t, "none", d), "weight") - 1) < 1e-5);
        assert_true(fabs(number(t, row_of(t, "rope", d), "weight") - rope) < 0.04);
        assert_true(fabs(number(t, row_of(t, "decay", d), "weight") - decay) < 1e-5);
    }
    static const char *const invariant[] = {"none",        "sinusoidal",  "permute",    "rope",
                                            "rope-linear", "relative-s1", "orthogonal", "decay"};
    for (int i = 0; i < 8; i++) assert_true(number(t, row_of(t, invariant[i], 0), "invariance") < 1e-5);
    assert_true(number(t, row_of(t, "sine-spe", 0), "invariance") > 1e-3); /* realizations are noise */
    assert_true(number(t, row_of(t, "learned", 0), "invariance") > 0.01);
    assert_true(number(t, row_of(t, "decay", 0), "monotonicity") > 0.999);
    assert_true(number(t, row_of(t, "none", 0), "monotonicity") == 0);
    ll_table_free(t);
    t = NULL; /* before memory is allocated for them */
    CHECK_FAILS(ll_analyse(&t, "positions", &(ll_analysis){.length = 4000000}), LL_EINVAL, "1 to 4096");
}

/* Powers of a permutation: the share of features that are in their place again, up to the noise of the contents. */
static void test_position_kernel(void **state) {
    (void)state;
    enum { T = 10, N = 16 };
    ll_model *m = tiny_model("attention.kernel=relu position.type=permute attention.query-multiple=2");
    float P[2 * T * T];
    CHECK_OK(ll_position_kernel(m, 1, T, 2000, 1, P));
    for (int h = 0; h < 2; h++) {
        const int32_t *p = m->attention[1]->c.permutation + N * h;
        for (int i = 0; i < T; i++)
            for (int j = 0; j < T; j++) {
                int same = 0;
                for (int a = 0; a < N; a++) {
                    int at = a;
                    for (int s = 0; s < abs(i - j); s++) at = p[at];
                    same += at == a;
                }
                assert_true(fabs((double)P[(h * T + i) * T + j] - same / 16.0) < 0.06);
            }
    }
    CHECK_FAILS(ll_position_kernel(m, 2, T, 1, 1, P), LL_EINVAL, "layer 2");
    CHECK_FAILS(ll_position_kernel(m, 0, 0, 1, 1, P), LL_EINVAL, "tokens");
    ll_model_free(m);
}

/* Learned vectors are measured from the row of the table that the first token gets. */
static void test_learned_rows(void **state) {
    (void)state;
    enum { T = 5, C = 16, OFFSET = 3 };
    ll_model *m = tiny_model("attention.kernel=relu position.type=learned position.max-length=9 position.offset=3"
                             " model.task=classify model.pool=first position.cls-token=on");
    const float *e = ll_param_at(m, m->at.embedding),
                *p = ll_param_at(m, ll_top_stack(m)->at.position) + (size_t)(OFFSET + 1) * C;
    double expected[T * T], diagonal = 0, content = 0;
    float P[2 * T * T];
    for (int i = 0; i < C * 11; i++) content += (double)e[i] * (double)e[i] / 11;
    for (int i = 0; i < T * T; i++) {
        expected[i] = content;
        for (int c = 0; c < C; c++) expected[i] += (double)p[i / T * C + c] * (double)p[i % T * C + c];
        if (i / T == i % T) diagonal += expected[i] / T;
    }
    for (int i = 0; i < T * T; i++) expected[i] /= diagonal;
    CHECK_OK(ll_position_kernel(m, 0, T, 1, 1, P));
    check_close("learned", T * T, P, expected, 1e-5);
    ll_model_free(m);
}

/* Weights that fall with every step are monotonic, however small they become. */
static void test_small_weights(void **state) {
    (void)state;
    ll_model *m = tiny_model("attention.kernel=relu position.decay=fixed");
    ll_table *t = run("positions", (ll_analysis){.model = m, .length = 1000, .repeats = 1});
    assert_true(fabs(number(t, 0, "monotonicity") - 1) < 1e-9);
    ll_table_free(t);
    ll_model_free(m);
}

/* Models of which positions alone give no weight. */
static void test_no_weight_alone(void **state) {
    (void)state;
    static const char *const models[][2] = {
        {"model.task=classify model.patch=2 model.channels=1 model.vocab=256 train.length=64 position.width=8 "
         "position.height=8 position.type=sinusoidal",
         "model.patch"},
        {"attention.kernel=softmax position.type=t5", "position.type = t5"},
        {"attention.kernel=softmax position.type=shaw", "position.type = shaw"},
        {"attention.kernel=relu position.type=relative-s2", "position.type = relative-s2"},
    };
    for (int i = 0; i < 4; i++) {
        ll_model *m = tiny_model(models[i][0]);
        float P[2 * 16];
        CHECK_FAILS(ll_position_kernel(m, 0, 4, 1, 1, P), LL_EINVAL, models[i][1]);
        ll_model_free(m);
    }
    ll_model *patches = tiny_model("model.task=classify model.patch=2 model.channels=1 model.vocab=256 train.length=64 "
                                   "position.width=8 position.height=8");
    float P[2 * 16];
    CHECK_OK(ll_position_kernel(patches, 0, 4, 1, 1, P)); /* without positions */
    ll_model_free(patches);
    ll_table *t = run("positions", (ll_analysis){.length = 4});
    for (int r = 0; r < t->rows; r++) assert_string_not_equal(t->label[r], "relative-s2");
    ll_table_free(t);
}

/* Powers of a rotation of random features: the mean cosine of its angles, times the distance. */
static void test_kernel_of_rotations(void **state) {
    (void)state;
    enum { T = 6, N = 12 };
    ll_model *m = tiny_model("attention.kernel=favor position.type=orthogonal attention.normalise=off");
    float P[2 * T * T];
    CHECK_OK(ll_position_kernel(m, 1, T, 2000, 1, P));
    for (int h = 0; h < 2; h++)
        for (int i = 0; i < T; i++)
            for (int j = 0; j < T; j++) {
                double mean = 0;
                for (int t = 0; t < N / 2; t++)
                    mean += cos((i - j) * (double)m->attention[1]->c.encoding.theta[h * (N / 2) + t]) / (N / 2);
                assert_true(fabs((double)P[(h * T + i) * T + j] - mean) < 0.06);
            }
    ll_model_free(m);
}

static int stop(double share, void *arg) {
    ++*(int *)arg;
    return share > 0.3;
}

static void test_ends(void **state) {
    (void)state;
    for (int e = 0; ll_experiment_at(e); e++) {
        int calls = 0;
        ll_table *t = NULL;
        ll_analysis how = {.seed = 1, .quick = 1, .repeats = 1000, .length = 8, .progress = stop, .arg = &calls};
        if (!strcmp(ll_experiment_at(e)->name, "moments")) how.repeats = 5000;
        CHECK_FAILS(ll_analyse(&t, ll_experiment_at(e)->name, &how), LL_ESTOPPED, "stopped");
        assert_null(t);
        assert_true(calls > 0);
        how.progress = NULL;
        how.repeats = strcmp(ll_experiment_at(e)->name, "moments") ? 1 : 10;
        for (long n = 1; n < 400; n += n < 12 ? 1 : 61) { /* refused memory, early and late */
            ll_memory_fail_at(n);
            const ll_status status = ll_analyse(&t, ll_experiment_at(e)->name, &how);
            ll_memory_fail_at(0);
            if (!status) ll_table_free(t);
            if (!status) break;
            assert_int_equal(status, LL_ENOMEM);
            t = NULL;
        }
    }
}

static int stop_within(double share, void *arg) {
    *(double *)arg = share;
    return 1;
}

/* More steps than an int holds. */
static void progress_of_many_repeats(void **state) {
    (void)state;
    ll_table *t = NULL;
    double share = -1;
    const ll_analysis how = {.seed = 1, .repeats = 100000000, .length = 8, .progress = stop_within, .arg = &share};
    CHECK_FAILS(ll_analyse(&t, "features", &how), LL_ESTOPPED, "stopped");
    assert_true(share > 0 && share < 1e-6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all),
        cmocka_unit_test(test_features),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_moments_of_few_draws),
        cmocka_unit_test(test_moments),
        cmocka_unit_test(test_layers),
        cmocka_unit_test(test_periods),
        cmocka_unit_test(test_positions),
        cmocka_unit_test(test_position_kernel),
        cmocka_unit_test(test_learned_rows),
        cmocka_unit_test(test_small_weights),
        cmocka_unit_test(test_no_weight_alone),
        cmocka_unit_test(test_kernel_of_rotations),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(progress_of_many_repeats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
