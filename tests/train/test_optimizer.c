/* Adam and AdamW against the definition in double, the norm of a gradient, and clipping. */
#include "models.h"
#include "train/train_internal.h"

/* Three tensors with gaps between them. The last two are longer than one task of the parallel loop. */
enum { TENSORS = 3, ATTENTION = 0, SIZE = 73500, BIG = 33333 };
static const ll_param table[TENSORS] = {
    {.name = "blocks.0.attention.a", .offset = 0, .rows = 7, .cols = 3, .role = LL_ROLE_WEIGHT},
    {.name = "b", .offset = 64, .rows = BIG, .cols = 1, .role = LL_ROLE_BIAS},
    {.name = "c", .offset = 33408, .rows = 400, .cols = 100, .role = LL_ROLE_WEIGHT},
};

static float start[SIZE], params[SIZE], grad[SIZE];
static double p[SIZE], m[SIZE], v[SIZE];

static ll_config config(int optimizer, double weight_decay) {
    ll_config c = {0};
    c.train.optimizer = optimizer;
    c.train.schedule = LL_LR_COSINE;
    c.train.steps = 60;
    c.train.warmup = 5;
    c.train.learning_rate = 1e-2;
    c.train.final_rate = 1e-3;
    c.train.beta1 = 0.9;
    c.train.beta2 = 0.98;
    c.train.eps = 1e-8;
    c.train.weight_decay = weight_decay;
    return c;
}

/* Numbers that vary, but are the same on every machine. */
static double wave(int i, int step) {
    return sin(1.0 + 0.37 * i + 1.3 * step) * (1 + i % 5);
}

/* One update of all parameters of the table, by the definition. The first `alone` updates are of attention alone. */
static void reference(const ll_config *c, int step, int alone) {
    const double rate = ll_schedule_rate(c, step);
    for (int t = 0; t < TENSORS; t++) {
        const int s = t == ATTENTION ? step : step - alone;
        for (size_t j = 0; s > 0 && j < (size_t)table[t].rows * (size_t)table[t].cols; j++) {
            const size_t i = table[t].offset + j;
            double g = (double)(float)wave((int)i, step);
            if (c->train.optimizer == LL_OPT_ADAM && ll_param_decays(&table[t])) g += c->train.weight_decay * p[i];
            m[i] = c->train.beta1 * m[i] + (1 - c->train.beta1) * g;
            v[i] = c->train.beta2 * v[i] + (1 - c->train.beta2) * g * g;
            const double mhat = m[i] / (1 - pow(c->train.beta1, s)), vhat = v[i] / (1 - pow(c->train.beta2, s));
            double next = p[i] - rate * mhat / (sqrt(vhat) + c->train.eps);
            if (c->train.optimizer == LL_OPT_ADAMW && ll_param_decays(&table[t]))
                next -= rate * c->train.weight_decay * p[i];
            p[i] = next;
        }
    }
}

static void fifty_steps(int optimizer, double weight_decay, int alone) {
    const ll_config c = config(optimizer, weight_decay);
    ll_optimizer *o = NULL;
    CHECK_OK(ll_optimizer_create(&o, table, TENSORS, SIZE));
    o->attention_alone = alone;
    for (int i = 0; i < SIZE; i++) {
        start[i] = params[i] = (float)wave(i, -3);
        p[i] = (double)params[i];
        m[i] = v[i] = 0;
    }
    for (int step = 1; step <= 50; step++) {
        for (int i = 0; i < SIZE; i++) grad[i] = (float)wave(i, step) * 4;
        ll_optimizer_update(o, &c, params, grad, 0.25, step);
        reference(&c, step, alone);
    }
    check_close("parameters", SIZE, params, p, 2e-6);
    ll_optimizer_free(o);
    /* gaps between tensors stay unchanged */
    for (size_t i = 21; i < 64; i++) assert_true(params[i] == start[i]);
}

static void test_adam(void **state) {
    (void)state;
    fifty_steps(LL_OPT_ADAM, 0, 0);
}

static void test_adam_decay_is_in_the_gradient(void **state) {
    (void)state;
    fifty_steps(LL_OPT_ADAM, 0.3, 0);
}

static void test_adamw(void **state) {
    (void)state;
    fifty_steps(LL_OPT_ADAMW, 0.3, 0);
}

/* A tensor counts its own updates, from where the moments began at 0. */
static void test_attention_alone_before(void **state) {
    (void)state;
    fifty_steps(LL_OPT_ADAM, 0.3, 30);
    fifty_steps(LL_OPT_ADAMW, 0.3, 30);
}

static void test_norm(void **state) {
    (void)state;
    ll_optimizer *o = NULL;
    CHECK_OK(ll_optimizer_create(&o, table, TENSORS, SIZE));
    double sum = 0;
    for (int i = 0; i < SIZE; i++) grad[i] = 1e30f; /* gaps do not count */
    for (int t = 0; t < TENSORS; t++)
        for (size_t j = 0; j < (size_t)table[t].rows * (size_t)table[t].cols; j++) {
            const size_t i = table[t].offset + j;
            grad[i] = (float)wave((int)i, 1);
            sum += (double)grad[i] * (double)grad[i];
        }
    const double norm = ll_optimizer_norm(o, grad);
    assert_true(fabs(norm - sqrt(sum)) <= 1e-12 * sqrt(sum));
    grad[64 + 20000] = INFINITY;
    assert_false(isfinite(ll_optimizer_norm(o, grad)));
    grad[64 + 20000] = NAN;
    assert_true(isnan(ll_optimizer_norm(o, grad)));
    ll_optimizer_free(o);
}

static void test_clip(void **state) {
    (void)state;
    assert_true(ll_clip_scale(5, 0) == 1);
    assert_true(ll_clip_scale(5, 10) == 1);
    assert_true(ll_clip_scale(5, 5) == 1);
    assert_true(fabs(ll_clip_scale(5, 2) * 5 - 2) < 1e-15);
    assert_true(ll_clip_scale(0, 2) == 1);
}

static void test_threads_change_nothing(void **state) {
    (void)state;
    const ll_config c = config(LL_OPT_ADAMW, 0.1);
    const int threads[2] = {1, 3};
    double norm[2];
    for (int k = 0; k < 2; k++) {
        ll_optimizer *o = NULL;
        ll_set_threads(threads[k]);
        CHECK_OK(ll_optimizer_create(&o, table, TENSORS, SIZE));
        for (int i = 0; i < SIZE; i++) params[i] = grad[i] = (float)wave(i, 2);
        norm[k] = ll_optimizer_norm(o, grad);
        ll_optimizer_update(o, &c, params, grad, 1, 3);
        if (k == 0) memcpy(start, params, sizeof start);
        ll_optimizer_free(o);
    }
    ll_set_threads(0);
    assert_true(norm[0] == norm[1]);
    assert_memory_equal(start, params, sizeof start);
}

/* Weight matrices decay, also those of one column or one row, and the embedding of tokens. Nothing else does. */
static void test_what_decays(void **state) {
    (void)state;
    static const char *const keys[] = {
        "model.heads=1 attention.kernel=gla model.bias=all model.width=1 model.ff=1",
        "model.task=classify model.classes=2 attention.kernel=linformer attention.projected-length=1 model.width=2",
        ("model.task=classify attention.kernel=favor position.type=sine-spe model.token-types=2 "
         "model.type-separator=1"),
        "position.type=learned model.bias=feed model.norm-kind=rms model.tied-embedding=off",
        "model.task=seq2seq model.heads=1 model.width=1"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        ll_model *model = tiny_model(keys[i]);
        for (int t = 0; t < model->count; t++) {
            const char *name = model->param[t].name, *weight = strstr(name, ".weight");
            const int matrix = (weight && !weight[7]) || strstr(name, "linformer");
            if (ll_param_decays(&model->param[t]) != matrix)
                fail_msg("%s: %s %s", keys[i], name, matrix ? "does not decay" : "decays");
        }
        ll_model_free(model);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adam),        cmocka_unit_test(test_adam_decay_is_in_the_gradient),
        cmocka_unit_test(test_adamw),       cmocka_unit_test(test_norm),
        cmocka_unit_test(test_clip),        cmocka_unit_test(test_threads_change_nothing),
        cmocka_unit_test(test_what_decays), cmocka_unit_test(test_attention_alone_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
