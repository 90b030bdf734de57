/* train.on-divergence = rewind: a run that diverges returns to its last checkpoint with half the learning rate, also if
 * it is killed at any time. */
#include "runs.h"

/* Calls of the callback. A kill could come at each of them; at one the folder is copied. */
typedef struct {
    int calls, rewinds, copy_at;
    char why[300]; /* what the last rewind says */
} wild;

static int watch_wild(const ll_progress *p, void *arg) {
    wild *w = arg;
    if (p->event && !strcmp(p->event, "rewind")) {
        w->rewinds++;
        assert_non_null(strstr(ll_error(), "of at most 3 times"));
        const size_t n = strcspn(ll_error(), ",");
        assert_true(n < sizeof w->why);
        assert_int_not_equal(strncmp(w->why, ll_error(), n), 0); /* no loss is judged twice */
        snprintf(w->why, sizeof w->why, "%.*s", (int)n, ll_error());
    }
    if (++w->calls == w->copy_at) copy_folder(at("wild"), at("wild-killed"));
    return 0;
}

static const char WILD[] = "train.clip=0 train.warmup=0 train.schedule=constant train.checkpoint-every=4";

static wild run_wild(const char *more, const char *out, const char *resume, int copy_at, ll_status expected) {
    wild w = {.copy_at = copy_at};
    char keys[300];
    snprintf(keys, sizeof keys, "%s %s", WILD, more);
    ll_recipe *recipe = recipe_of(keys);
    ll_trainer *trainer = NULL;
    CHECK_OK(ll_trainer_create(&trainer, recipe, out, resume));
    const ll_status status = ll_trainer_run(trainer, watch_wild, &w);
    if (status != expected) fail_msg("status %d, expected %d: %s", status, expected, ll_error());
    ll_trainer_free(trainer);
    ll_recipe_free(recipe);
    return w;
}

static void remove_wild(const char *folders) {
    char command[128];
    snprintf(command, sizeof command, "cd '%s' && rm -rf %s", root, folders);
    assert_int_equal(system(command), 0);
}

/* A killed run ends with the same bits. */
static void goes_back(const char *keys, int rewinds) {
    remove_wild("wild wild-whole");
    const wild whole = run_wild(keys, at("wild"), NULL, 0, LL_OK);
    assert_int_equal(whole.rewinds, rewinds);
    copy_folder(at("wild"), at("wild-whole"));
    for (int at_call = 3; at_call < whole.calls; at_call += 4) {
        remove_wild("wild wild-killed");
        const wild again = run_wild(keys, at("wild"), NULL, at_call, LL_OK);
        assert_int_equal(again.calls, whole.calls);
        const wild rest = run_wild(keys, at("wild-killed"), at("wild-killed"), 0, LL_OK);
        assert_true(rest.rewinds <= 3);
        same_run("wild-whole", "wild-killed");
    }
}

/* With a rate of 6 the loss explodes, with an eighth of it not. */
static void test_a_run_that_diverges_goes_back(void **state) {
    (void)state;
    goes_back("train.on-divergence=rewind train.learning-rate=6", 3);
    ll_bytes rows = slurp(in("wild-whole", "metrics.csv"));
    assert_non_null(strstr((char *)rows.data, ",0.75,")); /* the rate of every row after the third time */
    ll_bytes_free(&rows);
}

/* A checkpoint after every step, so also when the loss is far above chance already. The run goes back to one before. */
static const char SPOILED[] = "train.on-divergence=rewind train.learning-rate=1 train.checkpoint-every=1 train.steps=9";

static void test_a_spoiled_checkpoint_is_none_to_go_back_to(void **state) {
    (void)state;
    goes_back(SPOILED, 2);
}

/* Somebody empties metrics.csv while the run goes on: there are no rows to cut then. */
static int empty_metrics(const ll_progress *p, void *arg) {
    *(int *)arg += p->event && !strcmp(p->event, "rewind");
    assert_int_equal(truncate(in("emptied", "metrics.csv"), 0), 0);
    return 0;
}

static void test_metrics_that_somebody_empties(void **state) {
    (void)state;
    int rewinds = 0;
    char keys[300];
    snprintf(keys, sizeof keys, "%s train.on-divergence=rewind train.learning-rate=6", WILD);
    ll_recipe *recipe = recipe_of(keys);
    ll_trainer *trainer = NULL;
    CHECK_OK(ll_trainer_create(&trainer, recipe, at("emptied"), NULL));
    CHECK_OK(ll_trainer_run(trainer, empty_metrics, &rewinds));
    assert_int_equal(rewinds, 3);
    ll_trainer_free(trainer);
    ll_recipe_free(recipe);
}

static int stop_at(const ll_progress *p, void *arg) { return !p->event && p->step == *(const int64_t *)arg; }

/* A run that is stopped, not killed, saves where it is. It still goes back to the checkpoint before that. */
static void goes_back_as_far(const char *keys, int64_t until) {
    char whole[300];
    snprintf(whole, sizeof whole, "%s %s", WILD, keys);
    remove_wild("unstopped stopped* moved*");
    run_wild(keys, at("unstopped"), NULL, 0, LL_OK);
    for (int64_t stop = 1; stop <= until; stop++) {
        char name[32], moved[32];
        ll_recipe *recipe = recipe_of(whole);
        ll_trainer *trainer = NULL;
        snprintf(name, sizeof name, "stopped%d", (int)stop), snprintf(moved, sizeof moved, "moved%d", (int)stop);
        CHECK_OK(ll_trainer_create(&trainer, recipe, at(name), NULL));
        assert_int_equal(ll_trainer_run(trainer, stop_at, &stop), LL_ESTOPPED);
        ll_trainer_free(trainer);
        ll_recipe_free(recipe);
        run_wild(keys, at(moved), at(name), 0, LL_OK);
        run_wild(keys, at(name), at(name), 0, LL_OK);
        same_run("unstopped", name);
        same_run("unstopped", moved);
        assert_int_not_equal(access(in(name, "back.safetensors"), F_OK), 0);
    }
}

static void test_a_run_that_was_stopped_goes_back_as_far(void **state) {
    (void)state;
    goes_back_as_far("train.on-divergence=rewind train.learning-rate=6", 9);
    goes_back_as_far(SPOILED, 5);
}

static void test_a_run_goes_back_three_times_at_most(void **state) {
    (void)state;
    static const char absurd[] = "train.on-divergence=rewind train.learning-rate=100 train.weight-decay=10 "
                                 "train.eval-every=0 train.steps=100";
    const wild w = run_wild(absurd, at("wilder"), NULL, 0, LL_EDIVERGED);
    assert_int_equal(w.rewinds, 3);
    assert_non_null(strstr(ll_error(), "went back 3 times already"));
    assert_non_null(strstr(ll_error(), "still holds step"));
    assert_int_equal(run_wild("train.learning-rate=9", at("stopping"), NULL, 0, LL_OK).rewinds, 0);
}

/* A loss that is far above chance at the end, after the last time, is an error, also if it is finite. */
static void test_a_finite_loss_is_an_error_too(void **state) {
    (void)state;
    const wild w = run_wild("train.on-divergence=rewind train.learning-rate=100", at("finite"), NULL, 0, LL_EDIVERGED);
    assert_int_equal(w.rewinds, 3);
    assert_non_null(strstr(ll_error(), "would be chance"));
    assert_non_null(strstr(ll_error(), "went back 3 times already"));
}

/* Who gives another rate means that one. The run may go back again. */
static void test_another_rate_counts_as_it_is(void **state) {
    (void)state;
    run_wild("train.on-divergence=rewind train.learning-rate=6", at("slower"), NULL, 0, LL_OK);
    run_wild("train.on-divergence=rewind train.learning-rate=0.25 train.steps=30", at("slower"), at("slower"), 0,
             LL_OK);
    ll_bytes rows = slurp(in("slower", "metrics.csv"));
    const char *last = strstr((char *)rows.data, "\n30,");
    assert_true(last && strstr(last, ",0.25,"));
    ll_bytes_free(&rows);
    const wild w = run_wild("train.on-divergence=rewind train.learning-rate=100 train.weight-decay=10 train.steps=60 "
                            "train.eval-every=0",
                            at("slower"), at("slower"), 0, LL_EDIVERGED);
    assert_int_equal(w.rewinds, 3);
}

/* A run whose checkpoint was removed can still be stopped. */
static int remove_checkpoint(const ll_progress *p, void *arg) {
    (void)arg;
    if (!p->event && p->step == 5) assert_int_equal(unlink(in("removed", "last.safetensors")), 0);
    return !p->event && p->step == 6;
}

static void test_a_checkpoint_that_was_removed(void **state) {
    (void)state;
    ll_recipe *recipe = recipe_of("train.on-divergence=rewind train.checkpoint-every=4");
    ll_trainer *trainer = NULL;
    CHECK_OK(ll_trainer_create(&trainer, recipe, at("removed"), NULL));
    CHECK_FAILS(ll_trainer_run(trainer, remove_checkpoint, NULL), LL_ESTOPPED, "step 6");
    ll_trainer_free(trainer);
    ll_recipe_free(recipe);
    run("train.on-divergence=rewind train.checkpoint-every=4", at("removed"), at("removed"), 0, LL_OK);
}

/* A run that is spoiled once, after a step or at an event of it, so that its next loss is not a number. */
typedef struct {
    ll_trainer *trainer;
    int64_t spoil_at;
    const char *event;
    int stops; /* at the rewind */
    int rewinds, warnings;
} spoiler;

static int spoil(const ll_progress *p, void *arg) {
    spoiler *s = arg;
    const char *event = p->event ? p->event : "";
    s->rewinds += !strcmp(event, "rewind");
    s->warnings += !strcmp(event, "no learning");
    if (p->step == s->spoil_at && !strcmp(event, s->event)) {
        s->trainer->model->data[0] = NAN;
        s->spoil_at = 0;
    }
    return s->stops && !strcmp(event, "rewind");
}

static void spoil_run(spoiler *s, const char *more, const char *out, const char *resume, ll_status expected) {
    char keys[200];
    snprintf(keys, sizeof keys, "train.on-divergence=rewind train.checkpoint-every=4 %s", more);
    ll_recipe *recipe = recipe_of(keys);
    CHECK_OK(ll_trainer_create(&s->trainer, recipe, out, resume));
    const ll_status status = ll_trainer_run(s->trainer, spoil, s);
    if (status != expected) fail_msg("status %d, expected %d: %s", status, expected, ll_error());
    ll_recipe_free(recipe);
}

/* The best model is of step 6. The run goes back to step 4, whose checkpoint knows that of step 3. */
static void test_the_best_model_stays_the_best(void **state) {
    (void)state;
    spoiler s = {.spoil_at = 6, .event = "eval", .stops = 1};
    ll_model *best = NULL;
    ll_evaluation e = {.struct_size = sizeof e};
    spoil_run(&s, "train.eval-every=3", at("best"), NULL, LL_ESTOPPED);
    assert_int_equal(s.trainer->state.step, 4);
    assert_int_equal(s.trainer->state.best_step, 6);
    CHECK_OK(ll_model_load(&best, in("best", "best.safetensors")));
    CHECK_OK(ll_evaluate(best, "valid", 2, &e));
    assert_true(e.loss == s.trainer->state.best_loss);
    ll_model_free(best);
    ll_trainer_free(s.trainer);
}

/* The checkpoint says that the run went back; another learning rate begins anew, also before it is in a checkpoint. */
static void test_another_rate_counts_from_its_first_step(void **state) {
    (void)state;
    spoiler s = {.spoil_at = 6, .event = ""}, again = {.spoil_at = 21, .event = ""};
    spoil_run(&s, "", at("counted"), NULL, LL_OK);
    assert_int_equal(s.trainer->state.rewinds, 1);
    ll_trainer_free(s.trainer);
    spoil_run(&again, "train.steps=24 train.learning-rate=0.02", at("counted"), at("counted"), LL_OK);
    assert_int_equal(again.rewinds, 1);
    assert_int_equal(again.trainer->state.rewinds, 1);
    ll_trainer_free(again.trainer);
}

/* A loss far above chance is no reason to go back where it was so before. The run says that it does not learn, and says
 * so again after it went back. */
static void test_a_run_that_begins_far_above_chance(void **state) {
    (void)state;
    static const char keys[] = "model.init-std=10 train.learning-rate=1e-06 train.eval-every=0";
    spoiler whole = {.event = ""}, s = {.spoil_at = 14, .event = ""};
    spoil_run(&whole, keys, at("above"), NULL, LL_OK);
    assert_int_equal(whole.rewinds, 0);
    assert_int_equal(whole.warnings, 1);
    spoil_run(&s, keys, at("above-again"), NULL, LL_OK);
    assert_int_equal(s.rewinds, 1);
    assert_int_equal(s.warnings, 2);
    ll_trainer_free(whole.trainer);
    ll_trainer_free(s.trainer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_run_that_diverges_goes_back),
        cmocka_unit_test(test_a_spoiled_checkpoint_is_none_to_go_back_to),
        cmocka_unit_test(test_metrics_that_somebody_empties),
        cmocka_unit_test(test_a_run_that_was_stopped_goes_back_as_far),
        cmocka_unit_test(test_a_run_goes_back_three_times_at_most),
        cmocka_unit_test(test_a_finite_loss_is_an_error_too),
        cmocka_unit_test(test_another_rate_counts_as_it_is),
        cmocka_unit_test(test_a_checkpoint_that_was_removed),
        cmocka_unit_test(test_the_best_model_stays_the_best),
        cmocka_unit_test(test_another_rate_counts_from_its_first_step),
        cmocka_unit_test(test_a_run_that_begins_far_above_chance),
    };
    return cmocka_run_group_tests(tests, make_data, remove_data);
}
