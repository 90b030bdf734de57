/* The best model of a run that is resumed: with another evaluation, and without its file. */
#include "runs.h"

static int make_run(void **state) {
    if (make_data(state)) return -1;
    run(NULL, at("run"), NULL, 0, LL_OK);
    return 0;
}

/* Keeps what a run says of its best model. */
static int hear(const ll_progress *p, void *arg) {
    if (p->event && (!strcmp(p->event, "best") || !strcmp(p->event, "no best")))
        snprintf(arg, 200, "%s: %s", p->event, ll_error());
    return 0;
}

/* Resumes a run of which half of the held-out text is noise. What it takes for the loss of its best model must be that
 * of the file. */
static void go_on(const char *more, const char *name, char said[200]) {
    char keys[300], valid[160];
    ll_trainer *trainer = NULL;
    ll_model *best = NULL;
    ll_evaluation e = {.struct_size = sizeof e};
    snprintf(valid, sizeof valid, "data.valid=%s", at("noisy.txt"));
    snprintf(keys, sizeof keys, "%s %s", valid, more);
    ll_recipe *recipe = recipe_of(keys);
    *said = 0;
    CHECK_OK(ll_trainer_create(&trainer, recipe, NULL, at(name)));
    CHECK_OK(ll_trainer_run(trainer, hear, said));
    CHECK_OK(ll_model_load(&best, in(name, "best.safetensors")));
    CHECK_OK(ll_model_set(best, valid));
    CHECK_OK(ll_evaluate(best, "valid", recipe->c.train.eval_batches, &e));
    if (e.loss != trainer->state.best_loss) fail_msg("%g is taken for %g", e.loss, trainer->state.best_loss);
    assert_true(e.loss <= trainer->state.valid_loss);
    ll_model_free(best);
    ll_trainer_free(trainer);
    ll_recipe_free(recipe);
}

/* Losses of two evaluations are not compared. A run that is resumed with another one measures its best model anew. */
static void test_the_best_model_under_another_evaluation(void **state) {
    (void)state;
    char said[200];
    ll_bytes text = slurp(at("train.txt"));
    uint32_t x = 1;
    for (size_t i = text.size / 2; i < text.size; i++) text.data[i] = (uint8_t)((x = x * 1664525 + 1013904223) >> 24);
    CHECK_OK(ll_file_write(at("noisy.txt"), text.data, text.size));
    ll_bytes_free(&text);
    copy_folder(at("run"), at("noisy"));
    copy_folder(at("run"), at("spoilt"));
    go_on("train.steps=40 train.eval-batches=0", "noisy", said);
    assert_non_null(strstr(said, "best: with the evaluation there is now, the best model so far, of step "));
    go_on("train.steps=41 train.eval-batches=0", "noisy", said);
    assert_string_equal(said, "");
    go_on("train.steps=50 train.eval-batches=1", "noisy", said);
    assert_non_null(strstr(said, "best: "));
    CHECK_OK(ll_file_write(in("spoilt", "best.safetensors"), "none", 4));
    go_on("train.steps=40", "spoilt", said);
    assert_non_null(strstr(said, "no best: "));
    assert_non_null(strstr(said, "does not count any more"));
}

/* Without its file, the best model is that of the next evaluation, however high its loss. */
static void test_a_best_model_that_is_gone(void **state) {
    (void)state;
    copy_folder(at("run"), at("bestless"));
    assert_int_equal(unlink(in("bestless", "best.safetensors")), 0);
    char said[200] = "";
    ll_recipe *recipe = recipe_of("train.steps=30 train.learning-rate=9 train.schedule=constant");
    ll_trainer *trainer = NULL;
    CHECK_OK(ll_trainer_create(&trainer, recipe, NULL, at("bestless")));
    CHECK_OK(ll_trainer_run(trainer, hear, said));
    assert_non_null(strstr(said, "best.safetensors is not there; the best model so far, of step "));
    ll_trainer_free(trainer);
    ll_recipe_free(recipe);
    assert_int_equal(access(in("bestless", "best.safetensors"), F_OK), 0);
}

/* Stops at the evaluation of step 14, which has a new best model, as a kill before the next checkpoint would. */
typedef struct {
    const char *from, *to;
} killer;

static int kill_at_14(const ll_progress *p, void *arg) {
    const killer *k = arg;
    if (!p->event || strcmp(p->event, "eval") || p->step != 14) return 0;
    if (k->to) copy_folder(k->from, k->to);
    return 1;
}

static int64_t best_of_14(const char *more, const char *out, const char *resume, const char *copy) {
    ll_trainer *trainer = NULL;
    ll_recipe *recipe = recipe_of(more);
    CHECK_OK(ll_trainer_create(&trainer, recipe, out, resume));
    CHECK_FAILS(ll_trainer_run(trainer, kill_at_14, &(killer){out, copy}), LL_ESTOPPED, "step 14");
    const int64_t step = trainer->state.best_step;
    ll_trainer_free(trainer);
    ll_recipe_free(recipe);
    return step;
}

/* The best model is already in its file when the run makes it again, under another evaluation. It is that of this
 * step, not of the one that the checkpoint before has. */
static void test_a_best_model_that_is_made_again(void **state) {
    (void)state;
    assert_int_equal(best_of_14(NULL, at("ahead"), NULL, at("ahead-killed")), 14);
    assert_int_equal(best_of_14("train.eval-batches=1", at("ahead-killed"), at("ahead-killed"), NULL), 14);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_best_model_under_another_evaluation),
        cmocka_unit_test(test_a_best_model_that_is_gone),
        cmocka_unit_test(test_a_best_model_that_is_made_again),
    };
    return cmocka_run_group_tests(tests, make_run, remove_data);
}
