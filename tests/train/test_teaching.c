/* Runs that learn from a teacher: what each stage changes, the same bits after resuming, and what is refused. */
#include "models.h"
#include "runs.h"

#include "base/memory.h"
#include "longline-dist.h"

/* Exact attention, the teacher of all other runs. */
static int make_exact(void **state) {
    if (make_data(state)) return -1;
    run("attention.kernel=softmax position.type=rope train.learning-rate=0.02 train.steps=40", at("exact"), NULL, 0,
        LL_OK);
    return 0;
}

static const char *lesson(const char *more) {
    static char keys[700];
    snprintf(keys, sizeof keys, "train.from=%s position.type=rope %s", at("exact"), more);
    return keys;
}

static ll_model *model_of(const char *run, const char *name) {
    ll_model *model = NULL;
    CHECK_OK(ll_model_load(&model, in(run, name)));
    return model;
}

/* In this stage weight decay, too, changes only the parameters of attention. */
static void test_attention_alone_changes(void **state) {
    (void)state;
    run(lesson("train.distil=attention train.weight-decay=1"), at("alone"), NULL, 0, LL_OK);
    ll_model *before = model_of("exact", "best.safetensors"), *after = model_of("alone", "last.safetensors");
    int changed = 0;
    for (int i = 0; i < after->count; i++) {
        const ll_param *p = &after->param[i], *q = &before->param[i];
        assert_string_equal(p->name, q->name);
        const int same = !memcmp(p->value, q->value, (size_t)p->rows * (size_t)p->cols * sizeof(float));
        if (ll_distil_is_attention(p->name) == same) fail_msg("%s is %s", p->name, same ? "as it was" : "changed");
        changed += !same;
    }
    assert_true(changed >= 4);
    ll_model_free(before);
    ll_model_free(after);
}

/* The first update of all other tensors comes after that stage. Adam moves a parameter by its rate, no further. */
static void test_the_first_update_of_the_rest(void **state) {
    (void)state;
    static const char keys[] = "train.distil=both train.distil-switch=%d train.steps=%d train.schedule=constant "
                               "train.warmup=0 train.weight-decay=0 train.learning-rate=0.001 train.beta2=0.999";
    char more[300];
    for (int i = 0; i < 2; i++) {
        snprintf(more, sizeof more, keys, 30, 30 + i);
        run(lesson(more), at(i ? "changed" : "changes"), NULL, 0, LL_OK);
    }
    ll_model *before = model_of("changes", "last.safetensors"), *after = model_of("changed", "last.safetensors");
    double most = 0;
    for (int i = 0; i < after->count; i++)
        for (int j = 0; j < after->param[i].rows * after->param[i].cols; j++)
            if (!ll_distil_is_attention(after->param[i].name))
                most = fmax(most, fabs((double)after->param[i].value[j] - (double)before->param[i].value[j]));
    if (!(most > 0.0009 && most < 0.00101)) fail_msg("%g", most);
    ll_model_free(before);
    ll_model_free(after);
}

typedef struct {
    double first, last;
    const char *matching[40];
    int64_t stop_at;
} course;

static int follow(const ll_progress *p, void *arg) {
    course *c = arg;
    if (p->event) return 0;
    if (p->step == 1) c->first = p->loss;
    c->last = p->loss;
    c->matching[p->step] = p->matching;
    return p->step == c->stop_at;
}

static course taught(const char *more, const char *out) {
    course c = {0};
    ll_recipe *recipe = recipe_of(lesson(more));
    ll_trainer *trainer = NULL;
    CHECK_OK(ll_trainer_create(&trainer, recipe, at(out), NULL));
    CHECK_OK(ll_trainer_run(trainer, follow, &c));
    ll_trainer_free(trainer);
    ll_recipe_free(recipe);
    return c;
}

/* The difference to the teacher's attention falls. Logits come near the teacher's, which the loss on data does not
 * require. */
static void test_it_learns(void **state) {
    (void)state;
    const course attention = taught("train.distil=attention attention.kernel=elu1 train.steps=39", "near"),
                 logits = taught("train.distil=logits train.distil-weight=1 attention.kernel=elu1 model.dropout=0 "
                                 "train.steps=39",
                                 "logits");
    if (!(attention.last < 0.6 * attention.first)) fail_msg("%g, then %g", attention.first, attention.last);
    if (!(logits.last < 0.7 * logits.first)) fail_msg("%g, then %g", logits.first, logits.last);
    assert_string_equal(attention.matching[39], "attention");
    assert_string_equal(logits.matching[39], "logits");
}

static void test_stages(void **state) {
    (void)state;
    const course c = taught("train.distil=both train.distil-switch=4 train.distil-until=9 train.steps=12", "stages"),
                 half = taught("train.distil=both train.steps=12", "halves");
    for (int step = 1; step <= 12; step++) {
        const char *expected = step <= 4 ? "attention" : step <= 9 ? "logits" : NULL;
        if (expected)
            assert_string_equal(c.matching[step], expected);
        else
            assert_null(c.matching[step]);
        assert_string_equal(half.matching[step], step <= 6 ? "attention" : "logits");
    }
    /* Each stage ends with a row, so that no row has the mean of two. */
    ll_bytes ends = slurp(in("stages", "metrics.csv"));
    assert_non_null(strstr((char *)ends.data, "\n4,"));
    assert_non_null(strstr((char *)ends.data, "\n9,"));
    ll_bytes_free(&ends);
    /* Metrics leave out bits per byte for a loss that is no code length. */
    ll_bytes rows = slurp(in("stages", "metrics.csv"));
    for (int i = 0; i < 3; i++) {
        const char *row = strstr((char *)rows.data, (const char *const[]){"\n4,", "\n9,", "\n12,"}[i]);
        for (int comma = 0; comma < 4 && row; comma++) row = strchr(row + 1, ',');
        assert_non_null(row);
        assert_int_equal(row[1] == ',', i < 2);
    }
    ll_bytes_free(&rows);
}

/* Half of the steps that the run began with, however long it becomes: its attention was matched by then. Losses of two
 * stages have no mean. */
static void test_a_longer_run_keeps_its_stages(void **state) {
    (void)state;
    course c = {0};
    ll_trainer *trainer = NULL;
    ll_recipe *recipe = recipe_of(lesson("train.distil=both train.steps=39"));
    CHECK_OK(ll_trainer_create(&trainer, recipe, NULL, at("halves")));
    CHECK_OK(ll_trainer_run(trainer, follow, &c));
    for (int step = 13; step <= 39; step++) assert_string_equal(c.matching[step], "logits");
    ll_trainer_free(trainer);
    ll_recipe_free(recipe);
    recipe = recipe_of(lesson("train.distil=both train.distil-switch=4"));
    CHECK_OK(ll_trainer_create(&trainer, recipe, at("fifth"), NULL));
    c.stop_at = 5;
    CHECK_FAILS(ll_trainer_run(trainer, follow, &c), LL_ESTOPPED, "resume");
    const ll_run_state *s = &trainer->state;
    assert_true(c.last == s->loss[5] / s->count[5]);
    assert_int_equal(s->row, 4);
    ll_trainer_free(trainer);
    ll_recipe_free(recipe);
}

static const char BOTH[] = "train.distil=both train.distil-switch=8 train.distil-until=15 train.accumulate=2";

/* Stopped while attention is matched, where the stage changes, while logits are matched, and after the teacher. */
static void test_resumes_to_the_same_bits(void **state) {
    (void)state;
    static const int64_t stops[] = {3, 8, 11, 15, 18};
    run(lesson(BOTH), at("straight"), NULL, 0, LL_OK);
    for (int i = 0; i < 5; i++) {
        char name[32];
        snprintf(name, sizeof name, "stopped%d", i);
        ll_set_threads(1 + i % 3);
        run(lesson(BOTH), at(name), NULL, stops[i], LL_ESTOPPED);
        ll_set_threads(3 - i % 3);
        run(lesson(BOTH), at(name), at(name), 0, LL_OK);
        same_run("straight", name);
    }
    ll_set_threads(0);
}

/* Sums over shards have one order, whichever rank computes them. */
static void test_shards(void **state) {
    (void)state;
    char keys[300];
    snprintf(keys, sizeof keys, "%s dist.shards=4", BOTH);
    run(lesson(keys), at("shards"), NULL, 0, LL_OK);
    ll_model *a = model_of("straight", "last.safetensors"), *b = model_of("shards", "last.safetensors");
    double most = 0;
    for (int i = 0; i < a->count; i++)
        for (int j = 0; j < a->param[i].rows * a->param[i].cols; j++)
            most = fmax(most, abs_error((double)a->param[i].value[j], (double)b->param[i].value[j]));
    if (!(most < 2e-3)) fail_msg("%g", most);
    ll_model_free(a);
    ll_model_free(b);
}

/* Recomputed blocks learn the same bits. */
static void test_recomputed(void **state) {
    (void)state;
    char keys[300];
    snprintf(keys, sizeof keys, "%s train.recompute=on", BOTH);
    run(lesson(keys), at("recomputed"), NULL, 0, LL_OK);
    ll_model *a = model_of("straight", "last.safetensors"), *b = model_of("recomputed", "last.safetensors");
    for (int i = 0; i < a->count; i++)
        assert_memory_equal(a->param[i].value, b->param[i].value,
                            (size_t)a->param[i].rows * (size_t)a->param[i].cols * sizeof(float));
    ll_model_free(a);
    ll_model_free(b);
}

static void expect(const char *keys, const char *resume, ll_status status, const char *words) {
    const ll_status got = refused(keys, resume ? resume : at("none"), resume);
    if (got != status || !strstr(ll_error(), words)) fail_msg("%d: %s", got, ll_error());
}

/* The teacher's file may move, but must stay the same: the checkpoint has a digest of it. */
static void test_the_teacher_stays_the_same(void **state) {
    (void)state;
    char keys[600];
    copy_folder(at("exact"), at("leaves"));
    snprintf(keys, sizeof keys, "train.teacher=%s %s", at("leaves"), BOTH);
    run(lesson(keys), at("moved"), NULL, 5, LL_ESTOPPED);
    assert_int_equal(rename(at("leaves"), at("left")), 0);
    expect(lesson(keys), at("moved"), LL_EIO, "set train.teacher to where it is now");
    snprintf(keys, sizeof keys, "train.teacher=%s %s", at("alone"), BOTH);
    expect(lesson(keys), at("moved"), LL_EINVAL, "taught by another model");
    snprintf(keys, sizeof keys, "train.teacher=%s %s", at("left"), BOTH);
    run(lesson(keys), at("moved"), at("moved"), 0, LL_OK);
    ll_model *a = model_of("straight", "last.safetensors"), *b = model_of("moved", "last.safetensors");
    assert_memory_equal(a->param[0].value, b->param[0].value, 256 * 16 * sizeof(float));
    ll_model_free(a);
    ll_model_free(b);
}

static void test_refused(void **state) {
    (void)state;
    expect("train.distil=logits", NULL, LL_EINVAL, "set train.teacher, or train.from");
    expect(lesson("train.distil=logits train.teacher=nowhere"), NULL, LL_EIO, "nowhere");
    expect(lesson("train.distil=logits train.teacher=x"), NULL, LL_EIO, "cannot open x:");
    expect(lesson("train.distil=both train.carry-state=on"), NULL, LL_EINVAL, "train.carry-state=off");
    expect(lesson("train.distil=both dist.sequence=2"), NULL, LL_EINVAL, "dist.sequence");
    expect(lesson("train.distil=attention model.layers=2"), NULL, LL_EINVAL, "set model.layers=1");
    expect(lesson("train.distil=logits train.distil-switch=3"), NULL, LL_EINVAL, "train.distil = both");
    expect(lesson("train.distil=logits data.format=words model.vocab=0"), NULL, LL_EINVAL, "other words");
    assert_int_equal(access(at("none"), F_OK), -1);
}

/* The memory of a run counts its teacher. Without its file the run cannot begin, and nothing is counted. */
static void test_memory_is_announced(void **state) {
    (void)state;
    ll_recipe *recipe = recipe_of(lesson("model.vocab=256"));
    ll_rank_memory m[3];
    CHECK_OK(ll_dist_memory(recipe, 0, &m[0]));
    CHECK_OK(ll_recipe_set(recipe, "train.distil=logits"));
    CHECK_OK(ll_dist_memory(recipe, 0, &m[1]));
    CHECK_OK(ll_recipe_set(recipe, "train.distil=both"));
    CHECK_OK(ll_dist_memory(recipe, 0, &m[2]));
    assert_true(m[0].teacher == 0);
    assert_true(m[1].teacher > m[1].parameters * sizeof(float));
    assert_true(m[2].teacher == m[1].teacher + 4 * 24 * (2 * 16 * sizeof(float) + sizeof(double)));
    for (int i = 0; i < 3; i++) assert_true(m[i].total - m[i].teacher == m[0].total);
    CHECK_OK(ll_recipe_set(recipe, "train.teacher=/nowhere"));
    CHECK_FAILS(ll_dist_memory(recipe, 0, &m[0]), LL_EIO, "train.teacher");
    ll_recipe_free(recipe);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attention_alone_changes),
        cmocka_unit_test(test_the_first_update_of_the_rest),
        cmocka_unit_test(test_it_learns),
        cmocka_unit_test(test_stages),
        cmocka_unit_test(test_a_longer_run_keeps_its_stages),
        cmocka_unit_test(test_resumes_to_the_same_bits),
        cmocka_unit_test(test_shards),
        cmocka_unit_test(test_recomputed),
        cmocka_unit_test(test_the_teacher_stays_the_same),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_memory_is_announced),
    };
    return cmocka_run_group_tests(tests, make_exact, remove_data);
}
