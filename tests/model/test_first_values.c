/* First values of parameters: their means and deviations, and the numbers of the generator that they are made of. */
#include "model/network.h"
#include "models.h"

/* New parameters have the deviation asked for; gains are 1, biases 0. They do not depend on what else the model has. */
static void test_init(void **state) {
    (void)state;
    ll_recipe *recipe = tiny_recipe("model.width=64 model.init-std=0.05");
    ll_model *a = NULL, *b = NULL;
    CHECK_OK(ll_model_create(&a, recipe));
    CHECK_OK(ll_recipe_set(recipe, "position.type=learned"));
    CHECK_OK(ll_model_create(&b, recipe));
    ll_recipe_free(recipe);
    size_t total = 0;
    for (int i = 0; i < a->count; i++) {
        const ll_tensor t = ll_model_tensor(a, i);
        const size_t n = (size_t)t.rows * (size_t)t.cols;
        double mean = 0, square = 0;
        for (size_t j = 0; j < n; j++)
            mean += t.data[j] / (double)n, square += (double)t.data[j] * t.data[j] / (double)n;
        const int residual = strstr(t.name, "output") || strstr(t.name, "out.weight");
        if (strstr(t.name, ".gain")) assert_true(mean == 1 && square == 1);
        if (strstr(t.name, ".bias")) assert_true(square == 0);
        if (t.cols > 1) assert_true(fabs(sqrt(square) / (residual ? 0.025 : 0.05) - 1) < 0.1);
        for (int k = 0; k < b->count; k++)
            if (!strcmp(b->param[k].name, t.name)) assert_memory_equal(ll_model_tensor(b, k).data, t.data, n * 4);
        total += n;
    }
    assert_int_equal(total, ll_model_size(a).parameters);
    assert_null(ll_model_tensor(a, a->count).name);
    assert_int_equal(b->count, a->count + 1);
    ll_model_free(a);
    ll_model_free(b);
}

/* ---- Parameters of positions and kernels ---- */

static ll_model *fresh_model(const char *keys) {
    char text[300];
    snprintf(text, sizeof text, "model.layers=1 model.width=64 model.heads=8 model.init-std=0.05 %s", keys);
    ll_recipe *recipe = tiny_recipe(text);
    ll_model *model = NULL;
    CHECK_OK(ll_model_create(&model, recipe));
    ll_recipe_free(recipe);
    return model;
}

static const ll_param *named(const ll_model *m, const char *ending) {
    for (int i = 0; i < m->count; i++) {
        const size_t n = strlen(m->param[i].name), e = strlen(ending);
        if (n > e && !strcmp(m->param[i].name + n - e, ending)) return &m->param[i];
    }
    fail_msg("no parameter ends in %s", ending);
    return NULL;
}

/* The number behind the last one stays as it is. */
static void check_ends(const ll_model *m) {
    const ll_attention_config c = ll_config_attention(m->c);
    const ll_operator_parameters list = ll_operator_params_list(m);
    const ll_parameter_draw draw = {1, 2, 0.05};
    for (int i = 0; i < list.n; i++) {
        const size_t n = ll_parameter_size(&list.p[i]);
        float *x = malloc((n + 1) * sizeof *x);
        assert_non_null(x);
        x[n] = 7;
        if (list.p[i].init) list.p[i].init(&c, &list.p[i], &draw, x);
        assert_true(x[n] == 7);
        free(x);
    }
}

static void test_deviations(void **state) {
    (void)state;
    static const struct {
        const char *keys, *name;
        double mean, deviation;
    } cases[] = {
        {"attention.kernel=favor position.type=sine-spe", "freqs", -4, 1},
        {"attention.kernel=favor position.type=sine-spe", "offsets", 0, 1},
        /* uniform numbers over the root of half the taps */
        {"attention.kernel=favor position.type=conv-spe position.taps=32", "filter_q", 0.125, 0.25 / 3.4641},
        {"attention.kernel=favor position.type=conv-spe position.taps=32", "filter_k", 0.125, 0.25 / 3.4641},
        {"attention.kernel=favor position.type=relative-s1 position.scales=32", "alpha", 0, 1},
        {"attention.kernel=favor position.type=relative-s1 position.scales=32", "beta", 0, 1},
        {"attention.kernel=favor position.type=relative-s2 position.clip=64", "rpe", 0, 0},
        {"attention.kernel=elu1 position.type=relative-s2 position.clip=64", "rpe", 0, 0},
        {"attention.kernel=relu position.type=relative-s2 position.clip=64", "rpe", 0, 0.05},
        {"attention.kernel=softmax position.type=t5", "bias", 0, 0},
        {"attention.kernel=softmax position.type=shaw position.clip=64", "distance_k", 0, 0.05},
        {"attention.kernel=softmax position.type=shaw position.clip=64", "distance_v", 0, 0.05},
        {"attention.kernel=linformer model.task=classify attention.max-length=100 attention.projected-length=16",
         "linformer_k", 0, 0.1},
        {"attention.kernel=linformer model.task=classify attention.max-length=100 attention.projected-length=16",
         "linformer_v", 0, 0.1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ll_model *m = fresh_model(cases[i].keys);
        check_ends(m);
        const ll_param *p = named(m, cases[i].name);
        const int n = p->rows * p->cols;
        double mean = 0, square = 0;
        for (int j = 0; j < n; j++) mean += p->value[j] / (double)n;
        for (int j = 0; j < n; j++) square += (p->value[j] - mean) * (p->value[j] - mean) / n;
        /* four deviations of the mean and of the deviation of n numbers */
        const double room = 4 * cases[i].deviation / sqrt(n);
        if (fabs(mean - cases[i].mean) > room || fabs(sqrt(square) - cases[i].deviation) > room)
            fail_msg("%s of {%s}: mean %g, deviation %g of %d numbers", cases[i].name, cases[i].keys, mean,
                     sqrt(square), n);
        ll_model_free(m);
    }
}

/* Twice a normal number over the root of the norm of the K of its feature. */
static void test_gains(void **state) {
    (void)state;
    enum { K = 5, ROWS = 64, N = ROWS * K };
    ll_model *m = fresh_model("attention.kernel=favor position.type=sine-spe position.sines=5");
    const ll_param *p = named(m, "gains");
    float drawn[N];
    ll_normal_fill(drawn, N, 7, ll_param_stream(p->name), 0);
    assert_int_equal(p->rows * p->cols, N);
    for (int i = 0; i < N; i++) {
        double square = 0;
        for (int k = 0; k < K; k++) square += pow(drawn[i / K * K + k], 2);
        const double value = 2 * drawn[i] / sqrt(sqrt(square));
        assert_true(fabs(p->value[i] - value) <= 1e-6 * fabs(value));
    }
    ll_model_free(m);
}

/* Periods from 1 to 64, each longer than the one before by the same factor. */
static void test_periods(void **state) {
    (void)state;
    ll_model *m = fresh_model("attention.kernel=favor position.type=relative-s1 position.scales=6");
    const ll_param *p = named(m, "inv_freq");
    assert_int_equal(p->rows * p->cols, 6);
    for (int i = 0; i < 6; i++) assert_float_equal(p->value[i], exp2(-i), 1e-7);
    ll_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_init), cmocka_unit_test(test_deviations),
                                       cmocka_unit_test(test_gains), cmocka_unit_test(test_periods)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
