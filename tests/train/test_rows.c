/* metrics.csv of a run that goes on: an evaluation at a step that has its row, and the time of two calls. */
#include "runs.h"

/* Without held-out data the last step has a row. With them its evaluation is due, and the row has it. */
static void test_an_evaluation_at_a_step_that_has_its_row(void **state) {
    (void)state;
    run("train.eval-every=0 data.valid-fraction=0", at("end"), NULL, 0, LL_OK);
    run("data.valid= data.valid-fraction=0", at("late"), NULL, 0, LL_OK);
    run("train.eval-every=0 data.valid-fraction=0", at("late"), at("late"), 0, LL_OK);
    same_metrics(in("end", "metrics.csv"), in("late", "metrics.csv"));
    ll_bytes rows = slurp(in("late", "metrics.csv"));
    const char *last = strstr((char *)rows.data, "\n20,");
    assert_true(last && !strstr(last + 1, "\n20,"));
    ll_bytes_free(&rows);
    same_file(in("end", "best.safetensors"), in("late", "best.safetensors"));
}

/* A mask may be on none of a few tokens. Steps that count nothing have no loss. */
static void test_no_loss_where_nothing_counts(void **state) {
    (void)state;
    run("model.task=mlm model.vocab=0 train.length=2 train.batch=1 train.eval-every=1 train.eval-batches=0 "
        "train.steps=10",
        at("masked"), NULL, 0, LL_OK);
    ll_bytes rows = slurp(in("masked", "metrics.csv"));
    int empty = 0, full = 0;
    for (const char *row = (char *)rows.data; (row = strchr(row, '\n')) && row[1]; row++) {
        const char *loss = row;
        for (int comma = 0; comma < 3; comma++) loss = strchr(loss, ',') + 1;
        assert_false(loss[0] == '0' && loss[1] == ',');
        empty += !strncmp(loss, ",,", 2);
        full += *loss != ',';
    }
    ll_bytes_free(&rows);
    assert_true(empty && full);
    assert_int_equal(empty + full, 10);
}

static int stop_at_10(const ll_progress *p, void *arg) {
    double *seconds = arg;
    assert_true(p->seconds >= *seconds);
    *seconds = p->seconds;
    return !p->event && p->step == 10;
}

/* The time of a run that is stopped and goes on is that of both parts. */
static void test_seconds_count_on(void **state) {
    (void)state;
    ll_recipe *recipe = recipe_of(NULL);
    ll_trainer *trainer = NULL;
    double seconds = 0;
    CHECK_OK(ll_trainer_create(&trainer, recipe, at("seconds"), NULL));
    CHECK_FAILS(ll_trainer_run(trainer, stop_at_10, &seconds), LL_ESTOPPED, "step 10");
    CHECK_OK(ll_trainer_run(trainer, stop_at_10, &seconds));
    ll_trainer_free(trainer);
    ll_recipe_free(recipe);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_evaluation_at_a_step_that_has_its_row),
        cmocka_unit_test(test_no_loss_where_nothing_counts),
        cmocka_unit_test(test_seconds_count_on),
    };
    return cmocka_run_group_tests(tests, make_data, remove_data);
}
