/* Progress within a step ("computing"): it rises to 1, changes no bit, and a run that is stopped there goes on to the
 * same bits. */
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
    trainer->patience = 0;
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

/* The trainer itself goes on, too. */
static void test_the_same_trainer_goes_on(void **state) {
    (void)state;
    ll_recipe *recipe = recipe_of("train.accumulate=2");
    ll_trainer *trainer = NULL;
    run("train.accumulate=2", at("straight"), NULL, 0, LL_OK);
    CHECK_OK(ll_trainer_create(&trainer, recipe, at("again"), NULL));
    ll_recipe_free(recipe);
    trainer->patience = 0;
    CHECK_FAILS(ll_trainer_run(trainer, follow, &(follower){.stop_in = 5, .after = 1}), LL_ESTOPPED, "resume");
    CHECK_OK(ll_trainer_run(trainer, follow, &(follower){0}));
    ll_trainer_free(trainer);
    same_run("straight", "again");
}

/* Short steps say nothing. */
static int no_share(const ll_progress *p, void *arg) {
    (void)arg;
    assert_true(p->within == 0 && (!p->event || strcmp(p->event, "computing")));
    return 0;
}

static void test_patience(void **state) {
    (void)state;
    ll_recipe *recipe = recipe_of("train.steps=3");
    ll_trainer *trainer = NULL;
    CHECK_OK(ll_trainer_create(&trainer, recipe, at("short"), NULL));
    ll_recipe_free(recipe);
    assert_true(trainer->patience == 1);
    trainer->patience = 1e9; /* no test depends on time */
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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_trial_is_short), cmocka_unit_test(test_stop_within_a_step),
                                       cmocka_unit_test(test_the_same_trainer_goes_on),
                                       cmocka_unit_test(test_patience)};
    return cmocka_run_group_tests(tests, make_data, remove_data);
}
