/* Runs that start with another model's weights: what is copied, what is new, and what is refused. */
#include "models.h"
#include "runs.h"

#include "attention/operator.h"
#include "base/memory.h"

static ll_model *made_from(const char *keys, const ll_model *from, char **summary) {
    ll_recipe *recipe = tiny_recipe(keys);
    ll_model *model = NULL;
    CHECK_OK(ll_model_create_from(&model, recipe, from, summary));
    ll_recipe_free(recipe);
    return model;
}

static const ll_param *named(const ll_model *m, const char *name) {
    for (int i = 0; i < m->count; i++)
        if (!strcmp(m->param[i].name, name)) return &m->param[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

static void check_same(const ll_model *a, const ll_model *b, const char *name, int rows, int same) {
    const ll_param *p = named(a, name), *q = named(b, name);
    const int equal = !memcmp(p->value, q->value, (size_t)rows * (size_t)p->cols * sizeof(float));
    if (equal != same) fail_msg("%s is %s", name, same ? "not taken" : "taken");
}

/* All tensors of a model of the same kind, and its random draws, for any new seed; decays are the recipe's. */
static void test_a_model_of_the_same_kind(void **state) {
    (void)state;
    static const char *const kinds[] = {
        "attention.kernel=relu position.type=permute position.decay=fixed",
        "attention.kernel=favor position.type=permute",
        "attention.kernel=favor position.type=rope",
        "attention.kernel=elu1 position.type=orthogonal",
        "model.task=classify attention.kernel=relu position.type=permute2d position.width=2 position.height=2",
        "model.task=seq2seq attention.kernel=favor position.type=permute position.cross=start",
        "position.type=learned position.max-length=9",
        "attention.kernel=reformer attention.buckets=4 attention.chunk=2 attention.rounds=2",
    };
    const int tokens[4] = {3, 1, 4, 1};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char keys[300], *summary = NULL;
        snprintf(keys, sizeof keys, "%s train.seed=8", kinds[i]);
        ll_model *from = tiny_model(kinds[i]), *other = tiny_model(keys), *m = made_from(keys, from, &summary);
        snprintf(keys, sizeof keys, "%d of %d tensors", m->count, m->count);
        assert_string_equal(summary, keys);
        assert_memory_equal(m->data, from->data, m->size * sizeof(float));
        for (int op = 0; op < m->operators; op++) {
            const ll_attention_config *a = &m->attention[op]->c, *b = &from->attention[op]->c,
                                      *c = &other->attention[op]->c;
            const size_t W = (size_t)a->M * (size_t)ll_attention_width(a) * sizeof(float);
            if (a->M) assert_memory_equal(a->projection, b->projection, W);
            if (a->M) assert_memory_not_equal(c->projection, b->projection, W);
            if (a->approximate.rotations)
                assert_memory_equal(a->approximate.rotations, b->approximate.rotations, 4 * sizeof(float));
            if (a->permutation) assert_memory_equal(a->permutation, b->permutation, 6 * sizeof(int32_t));
            if (a->encoding.theta) assert_memory_equal(a->encoding.theta, b->encoding.theta, 4 * sizeof(float));
        }
        if (m->c->model.task == LL_TASK_LM) {
            float x[4 * 11], y[4 * 11];
            const int length = 4;
            CHECK_OK(ll_model_logp(m, x, tokens, &length, 1, 4));
            CHECK_OK(ll_model_logp(from, y, tokens, &length, 1, 4));
            assert_memory_equal(x, y, sizeof x);
        }
        ll_model_free(m);
        ll_model_free(other);
        ll_model_free(from);
        ll_free(summary);
    }
}

static void test_cycles_are_the_recipes(void **state) {
    (void)state;
    static const char random[] = "attention.kernel=favor position.type=permute position.cycles=random";
    char *summary = NULL;
    ll_model *from = tiny_model("attention.kernel=favor position.type=permute train.seed=8"),
             *fresh = tiny_model(random), *m = made_from(random, from, &summary);
    const ll_attention_config *a = &m->attention[0]->c, *b = &from->attention[0]->c, *c = &fresh->attention[0]->c;
    assert_memory_not_equal(b->permutation, c->permutation, 2 * 12 * sizeof(int32_t));
    assert_memory_equal(a->permutation, c->permutation, 2 * 12 * sizeof(int32_t));
    assert_memory_equal(a->projection, b->projection, 12 * 8 * sizeof(float)); /* what was learned with */
    ll_free(summary);
    ll_model_free(m), ll_model_free(fresh), ll_model_free(from);
}

/* The head of a classifier is taken where its classes may be the same ones. */
static void test_classes_keep_their_meaning(void **state) {
    (void)state;
    static const char *const cases[][3] = {
        {"neg,pos,so", "neg,pos,so", ""},
        {"", "neg,pos,so", ""},
        {"neg,pos,so", "neg,so,pos",
         "; new are head.weight, head.bias; not used: head.weight, head.bias; "
         "its classes are others: neg,pos,so"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static const char task[] = "model.task=classify train.length=4 data.classes=";
        char keys[200], *summary = NULL;
        snprintf(keys, sizeof keys, "%s%s", task, cases[i][0]);
        ll_model *from = tiny_model(keys);
        snprintf(keys, sizeof keys, "%s%s train.seed=8", task, cases[i][1]);
        ll_model *m = made_from(keys, from, &summary);
        const int same = !*cases[i][2];
        check_same(m, from, "head.weight", named(m, "head.weight")->rows, same);
        check_same(m, from, "embedding.weight", 11, 1);
        snprintf(keys, sizeof keys, "%d of %d tensors%s", m->count - 2 * !same, m->count, cases[i][2]);
        assert_string_equal(summary, keys);
        ll_free(summary);
        ll_model_free(m), ll_model_free(from);
    }
}

static void test_decays_are_the_recipes(void **state) {
    (void)state;
    char *summary = NULL;
    ll_model *from = tiny_model("attention.kernel=relu position.decay=fixed"),
             *m = made_from("attention.kernel=relu position.decay=fixed position.decay-first=1", from, &summary);
    assert_true(m->attention[0]->c.decay[0] < from->attention[0]->c.decay[0]);
    ll_model_free(m);
    ll_model_free(from);
    ll_free(summary);
}

/* Learned positions keep their numbers, where the table begins with rows of no position or with that of a CLS token. */
static void test_positions_keep_their_numbers(void **state) {
    (void)state;
    static const char task[] =
        "model.task=classify model.pool=first train.length=1 position.type=learned position.max-length=";
    static const struct {
        const char *from, *to;
        int first_from, first_to, rows; /* rows that are taken */
    } cases[] = {
        {"9 position.offset=2", "9", 2, 0, 7},
        {"9", "12 position.offset=2", 0, 2, 9},
        {"9", "9 position.cls-token=on", 0, 1, 8},
        {"9 position.cls-token=on", "9 position.cls-token=on position.offset=1", 0, 1, 8},
        {"9 position.cls-token=on position.offset=3", "9 position.offset=4", 4, 4, 5},
        {"9 position.offset=8", "9", 8, 0, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char keys[200], *summary = NULL;
        snprintf(keys, sizeof keys, "%s%s", task, cases[i].from);
        ll_model *from = tiny_model(keys);
        snprintf(keys, sizeof keys, "%s%s train.seed=8", task, cases[i].to);
        ll_model *m = made_from(keys, from, &summary), *fresh = NULL;
        ll_recipe *recipe = tiny_recipe(keys);
        CHECK_OK(ll_model_create(&fresh, recipe));
        const ll_param *p = named(m, "embedding.position"), *q = named(from, "embedding.position"),
                       *drawn = named(fresh, "embedding.position");
        for (int r = 0; r < p->rows; r++) {
            const int at = r - cases[i].first_to, taken = at >= 0 && at < cases[i].rows;
            const float *of = taken ? q->value + (cases[i].first_from + at) * q->cols : drawn->value + r * p->cols;
            if (memcmp(p->value + r * p->cols, of, (size_t)p->cols * sizeof(float)))
                fail_msg("case %zu: row %d is %s", i, r, taken ? "not taken" : "taken");
        }
        ll_recipe_free(recipe);
        ll_model_free(fresh), ll_model_free(m), ll_model_free(from);
        ll_free(summary);
    }
}

/* A classifier from a masked language model, which has one more token, fewer blocks, and another kernel. */
static void test_another_task(void **state) {
    (void)state;
    char *summary = NULL;
    static const char keys[] = "model.task=classify model.layers=1 attention.kernel=favor train.seed=8";
    ll_model *from = tiny_model("model.vocab=12"), *fresh = tiny_model(keys), *m = made_from(keys, from, &summary);
    char expected[300];
    snprintf(expected, sizeof expected,
             "%d of %d tensors; new are head.weight, head.bias; not used: blocks.1.attention.norm.gain, ", m->count - 2,
             m->count);
    assert_memory_equal(summary, expected, strlen(expected));
    assert_non_null(strstr(summary, " and 6 more"));
    check_same(m, from, "embedding.weight", 11, 1);
    check_same(m, from, "blocks.0.attention.query.weight", 16, 1);
    check_same(m, from, "blocks.0.feed.norm.gain", 16, 1);
    check_same(m, from, "norm.bias", 16, 1);
    check_same(m, fresh, "head.weight", 16, 1);
    assert_memory_equal(m->attention[0]->c.projection, fresh->attention[0]->c.projection, 12 * 8 * sizeof(float));
    ll_free(summary);
    summary = NULL;
    ll_model *deep = made_from("model.layers=3 model.ff=20", from, &summary); /* rows of another hidden size are new */
    assert_non_null(
        strstr(summary, "; new are blocks.0.feed.in.weight, blocks.0.feed.in.bias, blocks.0.feed.out.weight, "));
    assert_non_null(strstr(summary, " more"));
    check_same(deep, from, "blocks.1.attention.value.weight", 16, 1);
    ll_model_free(deep);
    ll_model_free(m);
    ll_model_free(fresh);
    ll_model_free(from);
    ll_free(summary);
}

static void test_other_widths_are_refused(void **state) {
    (void)state;
    static const char *const keys[] = {"model.width=8", "model.heads=4"};
    for (int i = 0; i < 2; i++) {
        ll_model *from = tiny_model(""), *m = NULL;
        ll_recipe *recipe = tiny_recipe(keys[i]);
        char *summary = NULL;
        CHECK_FAILS(ll_model_create_from(&m, recipe, from, &summary), LL_EINVAL,
                    "set model.width=16 and model.heads=2");
        assert_true(!m && !summary);
        ll_recipe_free(recipe);
        ll_model_free(from);
    }
}

/* ---- Runs ---- */

static int make_first(void **state) {
    if (make_data(state)) return -1;
    run("train.learning-rate=0.03", at("first"), NULL, 0, LL_OK);
    return 0;
}

static double begins_with(const char *from, const char *expected, const char *out) {
    char keys[300];
    snprintf(keys, sizeof keys, "train.seed=2 train.steps=1 train.learning-rate=1e-9 model.dropout=0 train.from=%s",
             from);
    ll_recipe *recipe = recipe_of(keys);
    ll_trainer *trainer = NULL;
    observer o = {0};
    CHECK_OK(ll_trainer_create(&trainer, recipe, at(out), NULL));
    if (!strstr(ll_trainer_origin(trainer), expected)) fail_msg("%s", ll_trainer_origin(trainer));
    CHECK_OK(ll_trainer_run(trainer, observe, &o));
    ll_trainer_free(trainer);
    ll_recipe_free(recipe);
    return o.last.valid_loss;
}

/* A run that hardly learns is as good as the model it starts with: a file, or the best of a folder. */
static void test_a_run_from_a_model(void **state) {
    (void)state;
    ll_model *model = NULL;
    ll_evaluation e = {.struct_size = sizeof e};
    CHECK_OK(ll_model_load(&model, in("first", "best.safetensors")));
    CHECK_OK(ll_evaluate(model, "valid", 2, &e));
    ll_model_free(model);
    const double file = begins_with(in("first", "best.safetensors"), "best.safetensors: 15 of 15 tensors", "file");
    const double folder = begins_with(at("first"), "/first: 15 of 15 tensors", "folder");
    if (!(fabs(file - e.loss) < 1e-4 && fabs(folder - e.loss) < 1e-4))
        fail_msg("%g and %g, the model has %g", file, folder, e.loss);
}

/* When it is resumed it does not need the other model, and ends with the same bits; another model is refused. */
static void test_such_a_run_resumes(void **state) {
    (void)state;
    char keys[300];
    copy_folder(at("first"), at("origin"));
    snprintf(keys, sizeof keys, "train.from=%s", at("origin"));
    run(keys, at("whole"), NULL, 0, LL_OK);
    run(keys, at("halved"), NULL, 9, LL_ESTOPPED);
    assert_int_equal(remove(in("origin", "best.safetensors")), 0);
    run(keys, at("halved"), at("halved"), 0, LL_OK);
    same_file(in("whole", "last.safetensors"), in("halved", "last.safetensors"));
    assert_int_equal(refused("train.from=elsewhere", at("halved"), at("halved")), LL_EINVAL);
    assert_non_null(strstr(ll_error(), "train.from"));
}

static void test_what_is_no_model_is_refused(void **state) {
    (void)state;
    char keys[300];
    snprintf(keys, sizeof keys, "train.from=%s", at("nowhere"));
    assert_int_equal(refused(keys, at("none"), NULL), LL_EIO);
    snprintf(keys, sizeof keys, "train.from=%s", root);
    assert_int_equal(refused(keys, at("none"), NULL), LL_EINVAL);
    assert_non_null(strstr(ll_error(), "without a model"));
    snprintf(keys, sizeof keys, "train.from=%s", at("train.txt"));
    assert_int_equal(refused(keys, at("none"), NULL), LL_EFORMAT);
    snprintf(keys, sizeof keys, "model.width=32 train.from=%s", at("first"));
    assert_int_equal(refused(keys, at("none"), NULL), LL_EINVAL);
    assert_non_null(strstr(ll_error(), "/first: its width and heads"));
    assert_int_equal(access(at("none"), F_OK), -1);
}

/* Words keep their meaning; a model of words is not one of bytes. */
static void test_words_stay_the_same(void **state) {
    (void)state;
    char keys[300];
    run("data.format=words model.vocab=0", at("words"), NULL, 0, LL_OK);
    CHECK_OK(ll_file_write(at("news.txt"), "is short line\nline is odd\n", 26));
    snprintf(keys, sizeof keys,
             "data.format=words model.vocab=0 train.length=2 data.train=%s data.valid=%s train.from=%s", at("news.txt"),
             at("news.txt"), at("words"));
    run(keys, at("more-words"), NULL, 0, LL_OK);
    ll_model *a = NULL, *b = NULL;
    CHECK_OK(ll_model_load(&a, in("words", "best.safetensors")));
    CHECK_OK(ll_model_load(&b, in("more-words", "best.safetensors")));
    assert_true(a->vocabulary.size > 0 && a->vocabulary.size == b->vocabulary.size);
    assert_memory_equal(a->vocabulary.data, b->vocabulary.data, a->vocabulary.size);
    assert_int_equal(a->c->model.vocab, b->c->model.vocab);
    ll_model_free(a);
    ll_model_free(b);
    snprintf(keys, sizeof keys, "train.from=%s", at("words"));
    assert_int_equal(refused(keys, at("none"), NULL), LL_EINVAL);
    assert_non_null(strstr(ll_error(), "other words"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_model_of_the_same_kind),     cmocka_unit_test(test_cycles_are_the_recipes),
        cmocka_unit_test(test_decays_are_the_recipes),       cmocka_unit_test(test_classes_keep_their_meaning),
        cmocka_unit_test(test_positions_keep_their_numbers), cmocka_unit_test(test_another_task),
        cmocka_unit_test(test_other_widths_are_refused),     cmocka_unit_test(test_a_run_from_a_model),
        cmocka_unit_test(test_such_a_run_resumes),           cmocka_unit_test(test_what_is_no_model_is_refused),
        cmocka_unit_test(test_words_stay_the_same),
    };
    return cmocka_run_group_tests(tests, make_first, remove_data);
}
