/* Progress within a step ("computing"): it rises to 1, changes no bit, and a run that is stopped there goes on to the
 * same bits. Progress within an evaluation. The time that is left. */
#include "runs.h"

typedef struct {
    int64_t stop_in; /* the step to stop within; 0: none */
    int after;       /* reports of it before that */
    int reports, steps;
    double last; /* share of the present step */
} follower;

static int follow(const ll_progress *p, void *arg) {
    follower *f = arg;
    const int computing = p->event && !strcmp(p->event, "computing");
    if (p->event && !strcmp(p->event, "evaluating")) return 0;
    if (!p->event) {
        assert_true(f->last == 1); /* the step that is over was reported to its end */
        f->last = 0, f->steps++;
    }
    assert_true(computing == (p->within > 0));
    if (!computing) return 0;
    assert_true(p->within > f->last && p->within <= 1);
    f->last = p->within, f->reports++;
    return p->step + 1 == f->stop_in && f->after-- == 0;
}

/* Each pass of the layers reports as soon as it can. */
static follower run_watched(const char *more, const char *out, const char *resume, follower f, ll_status expected) {
    ll_recipe *recipe = recipe_of(more);
    ll_trainer *trainer = NULL;
    CHECK_OK(ll_trainer_create(&trainer, recipe, out, resume));
    trainer->report_interval = 0;
    const ll_status got = ll_trainer_run(trainer, follow, &f);
    if (got != expected) fail_msg("{%s}: status %d, expected %d: %s", more, got, expected, got ? ll_error() : "");
    ll_trainer_free(trainer);
    ll_recipe_free(recipe);
    return f;
}

static const char *const variants[] = {
    "",
    "train.accumulate=3 model.layers=2",
    "model.layers=3 train.recompute=on attention.kernel=relu position.decay=fixed",
    "attention.kernel=relu position.decay=fixed train.chunk=512 train.length=2500 train.batch=2 train.steps=9",
    "train.carry-state=on attention.kernel=relu position.decay=fixed model.dropout=0",
    "model.norm=post train.batch=1 attention.kernel=softmax position.type=rope",
};

static void test_stop_within_a_step(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        char whole[32], parts[32];
        snprintf(whole, sizeof whole, "whole%zu", i);
        snprintf(parts, sizeof parts, "parts%zu", i);
        run(variants[i], at(whole), NULL, 0, LL_OK);
        run_watched(variants[i], at(parts), NULL, (follower){.stop_in = 4}, LL_ESTOPPED);
        assert_non_null(strstr(ll_error(), "after step 3 of"));
        run_watched(variants[i], at(parts), at(parts), (follower){.stop_in = 8, .after = 1}, LL_ESTOPPED);
        const follower f = run_watched(variants[i], at(parts), at(parts), (follower){0}, LL_OK);
        assert_true(f.reports >= 2 * f.steps); /* a layer, and its gradient */
        same_run(whole, parts);
    }
}

/* Layers that are matched with a teacher's go back one by one. */
static void test_matched_layers(void **state) {
    (void)state;
    char keys[300];
    run("attention.kernel=softmax position.type=rope train.steps=1", at("teacher"), NULL, 0, LL_OK);
    for (int length = 24; length < 1000; length += 600) { /* and with several reports within a layer */
        const char *name = length > 24 ? "long" : "matched";
        snprintf(keys, sizeof keys,
                 "attention.kernel=elu1 position.type=rope train.distil=attention train.teacher=%s train.batch=2 "
                 "train.steps=4 train.length=%d",
                 at("teacher"), length);
        const follower f = run_watched(keys, at(name), NULL, (follower){0}, LL_OK);
        assert_int_equal(f.steps, 4);
        assert_true(f.reports >= (length > 24 ? 12 : 4));
    }
}

/* A step reads several windows, and some of them have passed their states on when it is stopped. The step then begins
 * again with the states that it began with. */
static void test_stop_between_the_windows_of_a_step(void **state) {
    (void)state;
    static const char *const documents[] = {"", "model.separator=32"};
    for (int i = 0; i < 2; i++) {
        char keys[200], whole[32], parts[32];
        snprintf(keys, sizeof keys,
                 "train.carry-state=on train.accumulate=4 attention.kernel=relu position.decay=fixed model.dropout=0 "
                 "train.steps=6 train.eval-every=0 %s",
                 documents[i]);
        snprintf(whole, sizeof whole, "windows%d", i);
        snprintf(parts, sizeof parts, "window%d", i);
        run(keys, at(whole), NULL, 0, LL_OK);
        for (int step = 2; step <= 5; step++) /* in each of its windows */
            run_watched(keys, at(parts), step > 2 ? at(parts) : NULL,
                        (follower){.stop_in = step, .after = 2 * step - 3}, LL_ESTOPPED);
        run_watched(keys, at(parts), at(parts), (follower){0}, LL_OK);
        same_run(whole, parts);
    }
}

/* The trainer itself goes on, too. */
static void test_the_same_trainer_goes_on(void **state) {
    (void)state;
    ll_recipe *recipe = recipe_of("train.accumulate=2");
    ll_trainer *trainer = NULL;
    run("train.accumulate=2", at("straight"), NULL, 0, LL_OK);
    CHECK_OK(ll_trainer_create(&trainer, recipe, at("again"), NULL));
    ll_recipe_free(recipe);
    trainer->report_interval = 0;
    CHECK_FAILS(ll_trainer_run(trainer, follow, &(follower){.stop_in = 5, .after = 1}), LL_ESTOPPED, "resume");
    CHECK_OK(ll_trainer_run(trainer, follow, &(follower){0}));
    ll_trainer_free(trainer);
    same_run("straight", "again");
}

/* ll_model_set is for evaluation: it changes neither the rest of the run nor what the run can be resumed with. */
static void test_what_is_set_between_is_not_of_the_run(void **state) {
    (void)state;
    static const char *const keys[] = {"train.length=48", "train.batch=2", "train.seed=9", "train.steps=99"};
    ll_recipe *recipe = recipe_of("");
    ll_trainer *trainer = NULL;
    run("", at("unset"), NULL, 0, LL_OK);
    CHECK_OK(ll_trainer_create(&trainer, recipe, at("set"), NULL));
    ll_recipe_free(recipe);
    trainer->report_interval = 0;
    const char *kept = ll_recipe_get(ll_model_recipe(ll_trainer_model(trainer)), "data.train");
    for (int step = 3; step < 6; step += 2) {
        CHECK_FAILS(ll_trainer_run(trainer, follow, &(follower){.stop_in = step}), LL_ESTOPPED, "resume");
        for (int i = 0; i < 4; i++) CHECK_OK(ll_model_set(ll_trainer_model(trainer), keys[i]));
    }
    assert_ptr_equal(kept, ll_recipe_get(ll_model_recipe(ll_trainer_model(trainer)), "data.train"));
    ll_trainer_free(trainer);
    run("", at("set"), at("set"), 0, LL_OK);
    same_run("unset", "set");
}

typedef struct {
    ll_model *model;
    int refused, stop;
} quantizer;

static int quantize_meanwhile(const ll_progress *p, void *arg) {
    quantizer *q = arg;
    CHECK_FAILS(ll_model_quantize(q->model, LL_INT8), LL_EINVAL, "a run is training the model");
    CHECK_FAILS(ll_model_set(q->model, "train.length=48"), LL_EINVAL, "a run is training the model");
    q->refused++;
    return q->stop && p->step == 5;
}

/* A run needs the floats: it refuses to lose them, and to begin without them. Nor may its recipe change meanwhile. */
static void test_a_model_that_is_trained_is_not_quantized(void **state) {
    (void)state;
    ll_recipe *recipe = recipe_of("train.steps=9");
    ll_trainer *trainer = NULL;
    CHECK_OK(ll_trainer_create(&trainer, recipe, at("floats"), NULL));
    ll_recipe_free(recipe);
    trainer->report_interval = 0;
    quantizer q = {.model = ll_trainer_model(trainer), .stop = 1};
    CHECK_FAILS(ll_trainer_run(trainer, quantize_meanwhile, &q), LL_ESTOPPED, "after step 5");
    assert_true(q.refused > 5);
    CHECK_OK(ll_model_quantize(q.model, LL_INT8));
    for (int i = 0; i < 2; i++)
        CHECK_FAILS(ll_trainer_run(trainer, quantize_meanwhile, &q), LL_EINVAL, "int8 and cannot be trained");
    ll_trainer_free(trainer);
    run("train.steps=9", at("floats"), at("floats"), 0, LL_OK); /* the folder has them */
}

/* Short steps say nothing. */
static int no_share(const ll_progress *p, void *arg) {
    (void)arg;
    if (p->event && !strcmp(p->event, "evaluating")) return 0;
    assert_true(p->within == 0 && (!p->event || strcmp(p->event, "computing")));
    return 0;
}

static void test_patience(void **state) {
    (void)state;
    ll_recipe *recipe = recipe_of("train.steps=3");
    ll_trainer *trainer = NULL;
    CHECK_OK(ll_trainer_create(&trainer, recipe, at("short"), NULL));
    ll_recipe_free(recipe);
    assert_true(trainer->report_interval == 1);
    trainer->report_interval = 1e9; /* no test depends on time */
    CHECK_OK(ll_trainer_run(trainer, no_share, NULL));
    ll_trainer_free(trainer);
}

/* Before a checkpoint a model is tried on the beginning of a batch alone, so that who stops a run does not wait. */
static void a_trial_is_short(void **state) {
    (void)state;
    for (int length = 100; length < 30000; length *= 200) {
        char more[100];
        ll_tally tally = {0};
        ll_trainer *trainer = NULL;
        snprintf(more, sizeof more, "train.length=%d train.batch=1 data.format=demo", length);
        ll_recipe *recipe = recipe_of(more);
        CHECK_OK(ll_trainer_create(&trainer, recipe, at(length > 100 ? "tried" : "tried-too"), NULL));
        CHECK_OK(ll_engine_try(trainer->engine, trainer->train, 0, &tally));
        assert_int_equal(tally.count, length < 8192 ? length : 8192);
        ll_trainer_free(trainer);
        ll_recipe_free(recipe);
    }
}

/* ---- Evaluations ---- */

typedef struct {
    double within; /* of the present evaluation */
    int whole;     /* evaluations whose share rose to 1 */
} evaluations;

static int follow_evaluation(const ll_progress *p, void *arg) {
    evaluations *e = arg;
    if (!p->event || strcmp(p->event, "evaluating")) {
        assert_true(p->within == 0);
        if (p->event && !strcmp(p->event, "eval")) e->whole += e->within == 1, e->within = 0;
        return 0;
    }
    assert_true(fabs(p->within - e->within - 0.25) < 1e-12); /* a batch of four */
    e->within = p->within;
    if (p->step == p->steps) assert_true(p->within < 1 ? p->eta > 0 : p->eta == 0);
    return 0;
}

static void test_the_share_of_an_evaluation(void **state) {
    (void)state;
    ll_recipe *recipe = recipe_of("train.eval-batches=4");
    ll_trainer *trainer = NULL;
    evaluations e = {0};
    CHECK_OK(ll_trainer_create(&trainer, recipe, at("evaluated"), NULL));
    ll_recipe_free(recipe);
    trainer->report_interval = 1e9;
    CHECK_OK(ll_trainer_run(trainer, follow_evaluation, &e));
    ll_trainer_free(trainer);
    assert_int_equal(e.whole, 3);
}

/* ---- The time that is left ---- */

static void test_evaluations_that_are_left(void **state) {
    (void)state;
    for (int64_t steps = 0; steps < 12; steps++)
        for (int64_t every = 0; every < 14; every++)
            for (int64_t step = 0; step <= steps; step++) {
                int64_t count = 0;
                for (int64_t i = step + 1; i <= steps; i++) count += i == steps || (every && i % every == 0);
                assert_int_equal(ll_evaluations_after(step, steps, every), count);
            }
}

static void test_time_of_evaluations(void **state) {
    (void)state;
    ll_pace p = {.steps = 10, .steps_left = 30, .step_seconds = 20, .evaluations_left = 2, .batches = 6};
    assert_true(fabs(ll_time_left(&p) - (30 * 2 + 2 * 6 * 2 / 3.0)) < 1e-9); /* none was timed yet */
    p.evaluations = 1.5, p.evaluation_seconds = 45, p.evaluations_left = 1.5;
    assert_true(fabs(ll_time_left(&p) - (30 * 2 + 1.5 * 30)) < 1e-9);
    p.steps = 0;
    assert_true(isnan(ll_time_left(&p)));
    p.steps_left = 0; /* the last evaluation of a run that was resumed there */
    assert_true(fabs(ll_time_left(&p) - 1.5 * 30) < 1e-9);
    p.evaluations_left = 0;
    assert_true(ll_time_left(&p) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_share_of_an_evaluation),
                                       cmocka_unit_test(test_evaluations_that_are_left),
                                       cmocka_unit_test(test_time_of_evaluations),
                                       cmocka_unit_test(a_trial_is_short),
                                       cmocka_unit_test(test_stop_within_a_step),
                                       cmocka_unit_test(test_the_same_trainer_goes_on),
                                       cmocka_unit_test(test_stop_between_the_windows_of_a_step),
                                       cmocka_unit_test(test_matched_layers),
                                       cmocka_unit_test(test_what_is_set_between_is_not_of_the_run),
                                       cmocka_unit_test(test_a_model_that_is_trained_is_not_quantized),
                                       cmocka_unit_test(test_patience)};
    return cmocka_run_group_tests(tests, make_data, remove_data);
}
