/* Training with products of bfloat16 (train.precision = bf16). Gradients are near those of float products, but not
 * equal. The loss of a run differs by no more than rounding explains. Evaluation does not change. Bits do not depend on
 * the number of threads or on stops. test_bf16.c compares the tiers. */
#include "model/network.h"
#include "runs.h"

static const char *const models[] = {
    "train.precision=bf16 model.dropout=0",
    "train.precision=bf16 model.dropout=0 model.tied-embedding=off model.norm=post attention.kernel=softmax "
    "position.type=none",
};

/* The gradient of one batch of the same model. For each tensor, the distance to another gradient, relative to its
 * size. */
static float *gradient(const char *keys, int half, ll_gradient *g, ll_engine **engine, ll_model **model) {
    ll_recipe *recipe = recipe_of(keys);
    ll_reader *reader = NULL;
    if (!half) set(recipe, "train.precision=fp32");
    CHECK_OK(ll_reader_open_as(&reader, &recipe->c, "train", NULL));
    CHECK_OK(ll_fit_fill(recipe, reader));
    CHECK_OK(ll_model_create(model, recipe));
    CHECK_OK(ll_engine_create(engine, *model));
    CHECK_OK(ll_engine_gradient(*engine, reader, 1, g));
    ll_reader_free(reader);
    ll_recipe_free(recipe);
    return (*engine)->grad;
}

static void test_gradients(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        ll_gradient whole, half;
        ll_engine *e[2];
        ll_model *m[2];
        const float *x = gradient(models[i], 0, &whole, &e[0], &m[0]), *y = gradient(models[i], 1, &half, &e[1], &m[1]);
        assert_true(half.loss != whole.loss && fabs(half.loss - whole.loss) < 1e-3 * whole.loss);
        for (int t = 0; t < m[0]->count; t++) {
            const ll_param *p = &m[0]->param[t];
            double distance = 0, size = 0;
            for (size_t a = p->offset; a < p->offset + (size_t)p->rows * (size_t)p->cols; a++) {
                distance += ((double)x[a] - (double)y[a]) * ((double)x[a] - (double)y[a]);
                size += (double)x[a] * (double)x[a];
            }
            /* Rounding changes each number by at most 2^-8, and errors of a few products add up on the way back. */
            if (!(distance > 0) || sqrt(distance) > 0.03 * sqrt(size))
                fail_msg("%s: %s: distance %g of %g", models[i], p->name, sqrt(distance), sqrt(size));
        }
        for (int k = 0; k < 2; k++) ll_engine_free(e[k]), ll_model_free(m[k]);
    }
}

static void test_same_loss(void **state) {
    (void)state;
    static const char keys[] = "model.dropout=0 train.steps=120 attention.redraw=0 train.learning-rate=0.005";
    char more[200];
    const observer whole = run(keys, at("fp32"), NULL, 0, LL_OK);
    snprintf(more, sizeof more, "%s train.precision=bf16", keys);
    const observer half = run(more, at("bf16"), NULL, 0, LL_OK);
    assert_true(whole.last.valid_loss < 0.6 * log(256)); /* the model learned */
    if (fabs(half.last.valid_loss - whole.last.valid_loss) > 0.02 * whole.last.valid_loss)
        fail_msg("loss %g with bf16, %g without", half.last.valid_loss, whole.last.valid_loss);
}

/* Only training steps round: the same parameters have the same loss. */
static void test_evaluation_is_float(void **state) {
    (void)state;
    ll_model *model = NULL;
    float a[6 * 256], b[6 * 256];
    const int tokens[] = {'l', 'i', 'n', 'e', ' ', '7'};
    CHECK_OK(ll_model_load(&model, in("bf16", "best.safetensors")));
    assert_string_equal(ll_recipe_get(ll_model_recipe(model), "train.precision"), "bf16");
    CHECK_OK(ll_model_logp(model, a, tokens, NULL, 1, 6));
    CHECK_OK(ll_model_set(model, "train.precision=fp32"));
    CHECK_OK(ll_model_logp(model, b, tokens, NULL, 1, 6));
    assert_memory_equal(a, b, sizeof a);
    ll_model_free(model);
}

/* The attention of a training step rounds, too: it needs the scratch of calls that do, and that of float is too
 * small. */
static void test_attention_rounds(void **state) {
    (void)state;
    ll_engine *e[2];
    ll_model *m[2];
    ll_gradient g;
    ll_set_threads(1);
    for (int half = 0; half < 2; half++) (void)gradient(models[1], half, &g, &e[half], &m[half]);
    ll_workspace *whole = e[0]->worker->ws, *rounded = e[1]->worker->ws;
    assert_true(whole->scratch_floats < rounded->scratch_floats);
    rounded->scratch_floats = whole->scratch_floats;
    ll_recipe *recipe = recipe_of(models[1]);
    ll_reader *reader = NULL;
    CHECK_OK(ll_reader_open_as(&reader, &recipe->c, "train", NULL));
    CHECK_FAILS(ll_engine_gradient(e[1], reader, 2, &g), LL_EINVAL, "floats of scratch");
    ll_reader_free(reader);
    ll_recipe_free(recipe);
    for (int k = 0; k < 2; k++) ll_engine_free(e[k]), ll_model_free(m[k]);
    ll_set_threads(0);
}

/* The memory for packed operands fits the largest product of each task. */
static void test_packed_memory(void **state) {
    (void)state;
    static const char *const tasks[] = {
        "model.task=lm model.vocab=3000 model.width=16",
        "model.task=lm model.vocab=40 model.width=16 model.ff=2000 train.length=600",
        "model.task=mlm model.vocab=700 model.width=64 model.tied-embedding=off attention.query-multiple=16",
        "model.task=classify model.vocab=9 model.classes=900 model.width=128 train.batch=7",
        "model.task=match model.vocab=9 model.classes=3 model.width=200 model.ff=800 train.batch=6",
        "model.task=seq2seq model.vocab=30 model.encoder-layers=1 position.type=none attention.query-multiple=8",
    };
    for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++) {
        double seconds = -1;
        ll_recipe *recipe = recipe_of(tasks[i]);
        set(recipe, "train.precision=bf16");
        CHECK_OK(ll_train_step_time(recipe, 1, &seconds));
        assert_true(seconds >= 0);
        ll_recipe_free(recipe);
    }
}

static void test_threads_change_no_bit(void **state) {
    (void)state;
    static const char keys[] = "train.steps=4 train.precision=bf16";
    ll_set_threads(1);
    run(keys, at("threads1"), NULL, 0, LL_OK);
    ll_set_threads(2);
    run(keys, at("threads2"), NULL, 0, LL_OK);
    ll_set_threads(0);
    same_run("threads1", "threads2");
}

static void test_resume(void **state) {
    (void)state;
    static const char keys[] = "train.precision=bf16";
    run(keys, at("straight"), NULL, 0, LL_OK);
    run(keys, at("stopped"), NULL, 7, LL_ESTOPPED);
    run(keys, at("stopped"), at("stopped"), 0, LL_OK);
    same_run("straight", "stopped");
    CHECK_FAILS(refused("train.precision=fp32", at("stopped"), at("stopped")), LL_EINVAL, "train.precision");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_same_loss),
        cmocka_unit_test(test_evaluation_is_float),
        cmocka_unit_test(test_attention_rounds),
        cmocka_unit_test(test_packed_memory),
        cmocka_unit_test(test_threads_change_no_bit),
        cmocka_unit_test(test_resume),
    };
    return cmocka_run_group_tests(tests, make_data, remove_data);
}
