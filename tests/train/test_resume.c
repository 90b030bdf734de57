/* A resumed run ends in the same bits as one that was not interrupted. No failure on the way costs the checkpoint on
 * disk. */
#include "runs.h"

#include <signal.h>
#include <sys/resource.h>

#include "base/memory.h"

static void test_stop_and_resume_give_the_same_bits(void **state) {
    (void)state;
    /* Steps at which these are due: nothing, a checkpoint, an evaluation, the end. */
    const int64_t stops[] = {3, 5, 7, 20};
    for (int i = 0; i < 4; i++) {
        char name[32];
        snprintf(name, sizeof name, "stopped%d", i);
        const observer o = run(NULL, at(name), NULL, stops[i], LL_ESTOPPED);
        assert_int_equal(o.last.step, stops[i]);
        assert_non_null(strstr(ll_error(), "resume"));
        run(NULL, at(name), at(name), 0, LL_OK);
        same_run("straight", name);
    }
}

static void test_stop_in_an_evaluation(void **state) {
    (void)state;
    const int64_t steps[] = {14, 20};
    for (int i = 0; i < 2; i++) {
        observer o = {.stop_in = steps[i]};
        ll_recipe *recipe = recipe_of(NULL);
        ll_trainer *trainer = NULL;
        const char *name = i ? "inside20" : "inside14";
        CHECK_OK(ll_trainer_create(&trainer, recipe, at(name), NULL));
        CHECK_FAILS(ll_trainer_run(trainer, observe, &o), LL_ESTOPPED, "resume");
        assert_int_equal(o.evals, i + 1); /* of step 7, and 14; that of steps[i] was not finished */
        ll_trainer_free(trainer);
        ll_recipe_free(recipe);
        o = run(NULL, at(name), at(name), 0, LL_OK);
        assert_int_equal(o.evals, 2 - i);
        same_run("straight", name);
    }
}

static int stop_within(const ll_progress *p, void *arg) {
    const int64_t *step = arg;
    return p->event && !strcmp(p->event, "computing") && p->step == *step;
}

/* Step 4 draws new features. What is saved where it is stopped has those of step 3. */
static void test_stop_within_a_step(void **state) {
    (void)state;
    static const char keys[] = "train.eval-every=0";
    int64_t step = 3;
    run(keys, at("after"), NULL, step, LL_ESTOPPED);
    run(keys, at("unstopped"), NULL, 0, LL_OK);
    ll_recipe *recipe = recipe_of(keys);
    ll_trainer *trainer = NULL;
    CHECK_OK(ll_trainer_create(&trainer, recipe, at("within"), NULL));
    trainer->report_interval = 0;
    CHECK_FAILS(ll_trainer_run(trainer, stop_within, &step), LL_ESTOPPED, "step 3");
    ll_trainer_free(trainer);
    ll_recipe_free(recipe);
    same_file(in("after", "last.safetensors"), in("within", "last.safetensors"));
    run(keys, at("within"), at("within"), 0, LL_OK);
    same_file(in("unstopped", "last.safetensors"), in("within", "last.safetensors"));
}

static int stop_at_news(const ll_progress *p, void *arg) {
    (void)arg;
    return p->event && !strcmp(p->event, "eval");
}

/* A run is stopped before it evaluates, and again at the same step. No row of metrics occurs twice, and no other run
 * may use the folder. */
static void test_stop_again_at_the_same_step(void **state) {
    (void)state;
    ll_trainer *trainer = NULL;
    run(NULL, at("again"), NULL, 7, LL_ESTOPPED);
    copy_folder(at("again"), at("lost"));
    for (int i = 0; i < 2; i++) {
        ll_trainer *second = NULL;
        CHECK_OK(ll_trainer_create(&trainer, NULL, NULL, at("again")));
        CHECK_FAILS(ll_trainer_create(&second, NULL, NULL, at("again")), LL_EIO, "another run is writing to");
        assert_null(second);
        CHECK_FAILS(ll_trainer_run(trainer, stop_at_news, NULL), LL_ESTOPPED, i ? "step 14" : "step 7");
        ll_trainer_free(trainer);
    }
    run(NULL, at("again"), at("again"), 0, LL_OK);
    same_run("straight", "again");
    /* The same, but killed before that evaluation was saved. Its row exists, and is written again. */
    copy_folder(in("again", "metrics.csv"), in("lost", "metrics.csv"));
    run(NULL, at("lost"), at("lost"), 0, LL_OK);
    same_run("straight", "lost");
}

static void test_a_killed_run_loses_only_what_came_after_its_checkpoint(void **state) {
    (void)state;
    ll_recipe *recipe = recipe_of(NULL);
    ll_trainer *trainer = NULL;
    observer o = {.copy_at = 15, .from = at("victim"), .to = at("killed")};
    CHECK_OK(ll_trainer_create(&trainer, recipe, o.from, NULL));
    CHECK_OK(ll_trainer_run(trainer, observe, &o)); /* copied before step 15 is saved; it has rows up to 14 */
    ll_trainer_free(trainer);
    ll_recipe_free(recipe);
    /* half a row, as a kill may leave it */
    FILE *f = fopen(in("killed", "metrics.csv"), "a");
    assert_non_null(f);
    fputs("15,1.2", f);
    fclose(f);
    CHECK_OK(ll_trainer_create(&trainer, NULL, NULL, at("killed"))); /* the recipe is in the checkpoint */
    assert_string_equal(ll_trainer_folder(trainer), at("killed"));
    CHECK_OK(ll_trainer_run(trainer, NULL, NULL));
    ll_trainer_free(trainer);
    same_run("straight", "killed");
}

static void test_a_run_can_move_to_another_folder(void **state) {
    (void)state;
    run(NULL, at("old"), NULL, 8, LL_ESTOPPED);
    run(NULL, at("new"), at("old"), 0, LL_OK);
    same_run("straight", "new");
    CHECK_FAILS(refused(NULL, at("straight"), at("old")), LL_EINVAL, "holds a run");
    /* Killed there before its next checkpoint, it goes on there. */
    ll_recipe *recipe = recipe_of(NULL);
    ll_trainer *trainer = NULL;
    observer o = {.stop_at = 10, .copy_at = 9, .from = at("newer"), .to = at("cut")};
    CHECK_OK(ll_trainer_create(&trainer, recipe, o.from, at("old")));
    CHECK_FAILS(ll_trainer_run(trainer, observe, &o), LL_ESTOPPED, "resume");
    ll_trainer_free(trainer);
    ll_recipe_free(recipe);
    run(NULL, at("cut"), at("cut"), 0, LL_OK);
    same_run("straight", "cut");
}

static void test_a_finished_run_can_be_made_longer(void **state) {
    (void)state;
    copy_folder(at("straight"), at("longer"));
    observer o = run(NULL, at("longer"), at("longer"), 0, LL_OK); /* nothing to do */
    assert_int_equal(o.calls, 0);
    assert_int_equal(o.done, 1);
    same_run("straight", "longer");
    o = run("train.steps=23 train.eval-every=100", at("longer"), at("longer"), 0, LL_OK);
    assert_int_equal(o.calls, 3);
    assert_int_equal(o.last.step, 23);
}

/* Without evaluations, the estimate of the time left is that of the steps since the run went on: elapsed / done * left.
 * What had elapsed before is the same at every step. */
typedef struct {
    int64_t begun, count;
    double before;
} estimate;

static int follow_estimate(const ll_progress *p, void *arg) {
    estimate *e = arg;
    const double done = (double)(p->step - e->begun), left = (double)(p->steps - p->step);
    if (p->event || !(left > 0)) return 0;
    if (done < 2) {
        assert_true(isnan(p->eta));
        return 0;
    }
    const double before = p->seconds - p->eta / left * done;
    if (e->count++) assert_true(fabs(before - e->before) < 1e-6);
    e->before = before;
    return 0;
}

static void test_time_left(void **state) {
    (void)state;
    ll_trainer *trainer = NULL;
    estimate e = {.begun = 6};
    run("data.valid= data.valid-fraction=0", at("estimated"), NULL, 6, LL_ESTOPPED);
    CHECK_OK(ll_trainer_create(&trainer, NULL, NULL, at("estimated")));
    CHECK_OK(ll_trainer_run(trainer, follow_estimate, &e));
    ll_trainer_free(trainer);
    assert_true(e.count > 8 && e.before > -1e-6); /* nothing, to rounding: a quick run has 0.000 seconds in its rows */
}

/* Resumes a run with the recipe in its folder, and returns the step at which it ends. */
static int64_t end_of(const char *folder) {
    observer o = {0};
    ll_trainer *trainer = NULL;
    CHECK_OK(ll_trainer_create(&trainer, NULL, NULL, folder));
    CHECK_OK(ll_trainer_run(trainer, observe, &o));
    ll_trainer_free(trainer);
    return o.last.step;
}

/* Settings given when a run is resumed hold from then on, even if no checkpoint has been written since. */
static void test_a_setting_outlives_a_kill(void **state) {
    (void)state;
    run(NULL, at("set"), NULL, 6, LL_ESTOPPED);
    copy_folder(at("set"), at("unset"));
    ll_recipe *recipe = recipe_of("train.steps=23 train.checkpoint-every=0");
    ll_trainer *trainer = NULL;
    observer o = {.copy_at = 8, .from = at("set"), .to = at("set-killed")};
    CHECK_OK(ll_trainer_create(&trainer, recipe, NULL, o.from));
    CHECK_OK(ll_trainer_run(trainer, observe, &o));
    ll_trainer_free(trainer);
    ll_recipe_free(recipe);
    assert_int_equal(end_of(at("set-killed")), 23);
    same_run("set", "set-killed");
    assert_int_equal(unlink(in("unset", "recipe.ini")), 0); /* then the recipe in the checkpoint is used */
    assert_int_equal(end_of(at("unset")), 20);
    same_run("straight", "unset");
}

/* Runs of other kinds: an encoder-decoder with generated data, and packed lines. */
static void test_other_runs_resume(void **state) {
    (void)state;
    static const char *const keys[] = {
        "model.task=seq2seq model.vocab=259 data.format=copy-reverse position.cross=both data.valid=",
        "model.separator=10 position.decay=fixed",
    };
    for (int i = 0; i < 2; i++) {
        const char *whole = i ? "packed" : "pairs", *halved = i ? "packed-halved" : "pairs-halved";
        run(keys[i], at(whole), NULL, 0, LL_OK);
        run(keys[i], at(halved), NULL, 7, LL_ESTOPPED);
        run(keys[i], at(halved), at(halved), 0, LL_OK);
        same_run(whole, halved);
    }
}

/* ---- What can go wrong ---- */

/* Weight decay that multiplies weights by -999 at every step. */
#define ABSURD                                                                                                         \
    "train.learning-rate=100 train.weight-decay=10 train.schedule=constant train.warmup=0 train.eval-every=0 "

static void test_divergence_keeps_the_last_checkpoint(void **state) {
    (void)state;
    run(NULL, at("diverge"), NULL, 6, LL_ESTOPPED);
    copy_folder(at("diverge"), at("before"));
    run(ABSURD "train.steps=100 train.checkpoint-every=0", at("diverge"), at("diverge"), 0, LL_EDIVERGED);
    assert_non_null(strstr(ll_error(), "still holds step 6"));
    assert_non_null(strstr(ll_error(), "train.learning-rate"));
    same_file(in("diverge", "last.safetensors"), in("before", "last.safetensors"));
    run(NULL, at("diverge"), at("diverge"), 0, LL_OK);
    same_run("straight", "diverge");
}

/* The step that would spoil the model is not taken. */
static void test_divergence_is_seen_before_the_update(void **state) {
    (void)state;
    ll_recipe *recipe = recipe_of(ABSURD "train.steps=100 train.checkpoint-every=0");
    ll_trainer *trainer = NULL;
    char step[32];
    CHECK_OK(ll_trainer_create(&trainer, recipe, at("seen"), NULL));
    CHECK_FAILS(ll_trainer_run(trainer, NULL, NULL), LL_EDIVERGED, "became");
    snprintf(step, sizeof step, "at step %lld,", (long long)trainer->state.step + 1);
    assert_non_null(strstr(ll_error(), step));
    assert_true(trainer->state.step < 40);
    assert_true(isfinite(ll_optimizer_norm(trainer->engine->optimizer, trainer->model->data)));
    ll_trainer_free(trainer);
    ll_recipe_free(recipe);
}

static void test_divergence_before_the_first_checkpoint(void **state) {
    (void)state;
    run(ABSURD "train.steps=100 train.checkpoint-every=0", at("diverge0"), NULL, 0, LL_EDIVERGED);
    assert_non_null(strstr(ll_error(), "before the first checkpoint"));
    assert_int_not_equal(access(in("diverge0", "last.safetensors"), F_OK), 0);
    run(NULL, at("diverge0"), NULL, 0, LL_OK); /* the folder has nothing to lose */
    same_run("straight", "diverge0");
}

/* The last saved model has a finite loss, however often the run saves. */
static void test_a_model_that_diverged_is_not_saved(void **state) {
    (void)state;
    ll_trainer *trainer = NULL;
    const observer o = run(ABSURD "train.steps=100 train.checkpoint-every=1", at("diverge1"), NULL, 0, LL_EDIVERGED);
    assert_true(o.checkpoints > 0);
    CHECK_OK(ll_trainer_create(&trainer, NULL, NULL, at("diverge1")));
    ll_gradient g;
    CHECK_OK(ll_engine_gradient(trainer->engine, trainer->train, trainer->state.step + 1, &g));
    assert_true(isfinite(g.loss));
    ll_trainer_free(trainer);
}

/* Files can have so many bytes from now on; 0: any number again. */
static void limit_files(rlim_t bytes) {
    static struct rlimit before;
    if (bytes) assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    struct rlimit now = before;
    if (bytes) now.rlim_cur = bytes;
    signal(SIGXFSZ, bytes ? SIG_IGN : SIG_DFL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &now), 0);
}

/* A folder to which a run moves is that of a run only when all models are there, whichever is too large. */
static void test_a_full_disk_where_a_run_moves(void **state) {
    (void)state;
    run(NULL, at("moves"), NULL, 8, LL_ESTOPPED);
    copy_folder(at("moves"), at("larger"));
    assert_int_equal(truncate(in("larger", "best.safetensors"), 1 << 20), 0);
    const char *const from[2] = {"moves", "larger"};
    const rlim_t limits[2] = {50000, 1 << 19}; /* the first: between the sizes of best and last.safetensors */
    for (int i = 0; i < 2; i++) {
        limit_files(limits[i]);
        const ll_status status = refused(NULL, at("moved"), at(from[i]));
        limit_files(0);
        assert_int_equal(status, LL_EIO);
        assert_int_not_equal(access(in("moved", "last.safetensors"), F_OK), 0);
        assert_int_not_equal(access(in("moved", "best.safetensors"), F_OK), 0);
    }
    run(NULL, at("moved"), at("moves"), 0, LL_OK);
    same_run("straight", "moved");
}

static void test_a_full_disk_leaves_the_checkpoint_whole(void **state) {
    (void)state;
    run(NULL, at("full"), NULL, 6, LL_ESTOPPED);
    copy_folder(at("full"), at("whole"));
    limit_files(6000); /* enough for the metrics, not for a checkpoint */
    const observer o = run("train.eval-every=0", at("full"), at("full"), 0, LL_EIO);
    limit_files(0);
    assert_int_equal(o.last.step, 10);
    same_file(in("full", "last.safetensors"), in("whole", "last.safetensors"));
    char **files = NULL;
    int count = 0;
    CHECK_OK(ll_folder_list(&files, &count, at("full")));
    assert_int_equal(count, 3); /* recipe.ini, metrics.csv, last.safetensors; no temporary file */
    ll_names_free(files, count);
    run(NULL, at("full"), at("full"), 0, LL_OK);
    same_run("straight", "full");
}

static ll_recipe *own;
static ll_status create(void) {
    ll_trainer *trainer = NULL;
    const ll_status status = ll_trainer_create(&trainer, own, at("memory"), NULL);
    ll_trainer_free(trainer);
    return status;
}

static void test_memory_refused(void **state) {
    (void)state;
    own = recipe_of(NULL);
    assert_true(check_refused_memory(create) > 10);
    ll_recipe_free(own);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stop_and_resume_give_the_same_bits),
        cmocka_unit_test(test_stop_in_an_evaluation),
        cmocka_unit_test(test_time_left),
        cmocka_unit_test(test_stop_within_a_step),
        cmocka_unit_test(test_stop_again_at_the_same_step),
        cmocka_unit_test(test_a_killed_run_loses_only_what_came_after_its_checkpoint),
        cmocka_unit_test(test_a_run_can_move_to_another_folder),
        cmocka_unit_test(test_a_finished_run_can_be_made_longer),
        cmocka_unit_test(test_a_setting_outlives_a_kill),
        cmocka_unit_test(test_other_runs_resume),
        cmocka_unit_test(test_divergence_keeps_the_last_checkpoint),
        cmocka_unit_test(test_divergence_is_seen_before_the_update),
        cmocka_unit_test(test_divergence_before_the_first_checkpoint),
        cmocka_unit_test(test_a_model_that_diverged_is_not_saved),
        cmocka_unit_test(test_a_full_disk_where_a_run_moves),
        cmocka_unit_test(test_a_full_disk_leaves_the_checkpoint_whole),
        cmocka_unit_test(test_memory_refused),
    };
    return cmocka_run_group_tests(tests, make_straight, remove_data);
}
