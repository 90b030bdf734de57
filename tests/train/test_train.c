/* The results of a run, which do not depend on how it was made. test_resume.c tests resuming and failures. */
#include "runs.h"

#include <sys/syscall.h>
#include <time.h>

#include "base/text.h"
#include "models.h"
#include "train/shards.h"

static void test_a_run_reports_what_it_does(void **state) {
    (void)state;
    const observer o = run(NULL, at("straight"), NULL, 0, LL_OK);
    assert_int_equal(o.calls, 20);
    assert_int_equal(o.evals, 3);       /* 7, 14, 20 */
    assert_int_equal(o.checkpoints, 4); /* 5, 10, 15, 20 */
    assert_int_equal(o.done, 1);
    assert_int_equal(o.last.step, 20);
    assert_true(o.last.loss > 0 && o.last.loss < log(256));
    assert_true(o.last.valid_loss > 0 && o.last.valid_loss < log(256));
    assert_true(o.last.tokens_per_second > 0);
    ll_bytes csv = slurp(in("straight", "metrics.csv"));
    const int expected[] = {7, 10, 14, 20};
    const char *row = strchr((char *)csv.data, '\n') + 1;
    for (int i = 0; i < 4; i++) {
        double cell[5]; /* step, seconds, tokens, loss, bits */
        for (int c = 0; c < 5; c++) {
            char *end;
            cell[c] = ll_scan_number(row, &end);
            assert_true(end > row && *end == ',');
            row = end + 1;
        }
        assert_true(cell[0] == expected[i]);
        assert_true(cell[2] == 4 * 24 * cell[0]);
        assert_true(fabs(cell[4] - cell[3] / log(2)) < 1e-7 * cell[4]);
        assert_true((*row == ',') == (expected[i] == 10)); /* that row has no evaluation */
        row = strchr(row, '\n') + 1;
    }
    assert_true(*row == 0);
    ll_bytes_free(&csv);
}

/* After 3, 6, ... 18 of 20 steps, except where the falling rate is below a tenth. A rate that rises may be below. */
static void test_late_draws_are_left_out(void **state) {
    (void)state;
    static const struct {
        const char *schedule;
        int warmup, redraws;
    } cases[] = {{"constant", 4, 6}, {"inverse-sqrt", 4, 6}, {"linear", 4, 5},
                 {"cosine", 4, 5},   {"linear", 200, 6},     {"cosine", 200, 6}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[32], settings[80];
        ll_model *model = NULL;
        snprintf(name, sizeof name, "%s%d", cases[i].schedule, cases[i].warmup);
        snprintf(settings, sizeof settings, "train.schedule=%s train.warmup=%d", cases[i].schedule, cases[i].warmup);
        run(settings, at(name), NULL, 0, LL_OK);
        CHECK_OK(ll_model_load(&model, in(name, "last.safetensors")));
        assert_int_equal(model->redraws, cases[i].redraws);
        ll_model_free(model);
    }
}

/* ---- The same result by other ways ---- */

/* Distance of two models' parameters and the size of the first. */
static double distance(const char *a, const char *b, double *size) {
    ll_model *x = NULL, *y = NULL;
    double d = 0;
    CHECK_OK(ll_model_load(&x, a));
    CHECK_OK(ll_model_load(&y, b));
    *size = 0;
    for (int i = 0; ll_model_tensor(x, i).name; i++) {
        const ll_tensor s = ll_model_tensor(x, i), t = ll_model_tensor(y, i);
        for (int j = 0; j < s.rows * s.cols; j++) {
            d = fmax(d, abs_error((double)s.data[j], (double)t.data[j]));
            *size = fmax(*size, fabs((double)s.data[j]));
        }
    }
    ll_model_free(x);
    ll_model_free(y);
    return d;
}

/* Adam divides by the size of a gradient, so its eps must be large for rounding to stay small. */
static void test_accumulation_is_a_larger_batch(void **state) {
    (void)state;
    const char *same = "model.dropout=0 train.clip=0 train.steps=6 train.eps=0.001 ";
    char more[200];
    double size;
    snprintf(more, sizeof more, "%strain.batch=8", same);
    run(more, at("batch8"), NULL, 0, LL_OK);
    snprintf(more, sizeof more, "%strain.batch=4 train.accumulate=2", same);
    run(more, at("batch4"), NULL, 0, LL_OK);
    snprintf(more, sizeof more, "%strain.batch=4", same);
    run(more, at("half"), NULL, 0, LL_OK);
    const double d = distance(in("batch8", "last.safetensors"), in("batch4", "last.safetensors"), &size);
    const double half = distance(in("batch8", "last.safetensors"), in("half", "last.safetensors"), &size);
    if (!(d < 1e-5 * size && half > 100 * d)) fail_msg("distance %g, with half the batch %g of %g", d, half, size);
}

/* One process cuts a batch into shards by its tokens. */
static void test_default_shards(void **state) {
    (void)state;
    static const struct {
        const char *keys;
        int launched, shards, most;
    } cases[] = {
        {"train.batch=8 train.length=512", 0, 2, 4},
        {"train.batch=8 train.length=511", 0, 1, 8},
        {"train.batch=22 train.length=1024", 0, 11, 2},
        {"train.batch=4 train.length=8192", 0, 4, 1},
        {"train.batch=4 train.length=8192 dist.shards=1", 0, 1, 4},
        {"train.batch=4 train.length=8192 train.carry-state=on", 0, 1, 4},
        {"train.batch=4 train.length=8192 model.width=256 model.ff=8", 0, 4, 1},
        {"train.batch=4 train.length=8192 model.width=258 model.ff=8", 0, 1, 4},
        {"train.batch=8 train.length=16", 1, 8, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ll_recipe *recipe = tiny_recipe(cases[i].keys);
        ll_shards s;
        CHECK_OK(ll_shards_plan_for(&s, &recipe->c, 0, 1, cases[i].launched));
        if (s.shards != cases[i].shards || s.most != cases[i].most || s.count != s.shards)
            fail_msg("%s: %d shards of %d", cases[i].keys, s.shards, s.most);
        ll_recipe_free(recipe);
    }
    /* The second of two ranks, with the last three of five shards. */
    ll_recipe *recipe = tiny_recipe("train.batch=5 train.length=16");
    ll_shards s;
    int first, count;
    CHECK_OK(ll_shards_plan_for(&s, &recipe->c, 1, 2, 1));
    ll_shards_leaves(&s, 1, &first, &count);
    assert_true(s.first == 2 && s.count == 3 && first == 2 && count == 3);
    ll_recipe_free(recipe);
}

/* Shards change the order of sums and nothing else, so the models agree to rounding. */
static void test_shards_are_one_batch(void **state) {
    (void)state;
    const char *same = "model.dropout=0.1 train.steps=6 train.eps=0.001 train.batch=8 ";
    char more[200];
    double size;
    for (int shards = 0; shards < 2; shards++) {
        snprintf(more, sizeof more, "%strain.length=512 dist.shards=%d", same, shards);
        run(more, at(shards ? "whole" : "cut"), NULL, 0, LL_OK);
    }
    const double d = distance(in("whole", "last.safetensors"), in("cut", "last.safetensors"), &size);
    if (!(d < 1e-5 * size && d > 0)) fail_msg("distance %g of %g", d, size);
}

/* In one shard, in one for each thread or nearly, in several rounds of those, in rounds that leave some, in too few. */
static void test_threads_change_no_bit(void **state) {
    (void)state;
    static const struct {
        int shards, threads, at_once;
        char more[30]; /* noise of a batch is in the operators */
    } cases[] = {{1, 2, 1}, {8, 2, 2}, {7, 3, 3}, {8, 5, 5}, {7, 4, 4}, {5, 9, 5}, {8, 8, 8}, {4, 8, 1},
                 {8, 2, 1, " position.type=sine-spe"}, {8, 4, 1, " position.type=conv-spe"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char keys[160], one[32], several[32];
        ll_shards plan;
        snprintf(keys, sizeof keys, "train.steps=3 train.batch=8 train.accumulate=2 dist.shards=%d%s", cases[i].shards,
                 cases[i].more);
        snprintf(one, sizeof one, "one%zu", i);
        snprintf(several, sizeof several, "several%zu", i);
        ll_set_threads(1);
        run(keys, at(one), NULL, 0, LL_OK);
        ll_set_threads(cases[i].threads);
        run(keys, at(several), NULL, 0, LL_OK);
        ll_recipe *recipe = recipe_of(keys);
        CHECK_OK(ll_shards_plan(&plan, &recipe->c));
        assert_int_equal(ll_shards_at_once(&plan, &recipe->c, 1, plan.count), cases[i].at_once);
        ll_recipe_free(recipe);
        ll_set_threads(0);
        same_run(one, several);
    }
}

/* Loss, right answers and targets of one batch, by the public function. */
typedef struct {
    double loss, right, count;
} sums;

static sums score(ll_model *model, float *logp, const ll_batch *b) {
    const int V = ll_model_recipe(model)->c.model.vocab;
    sums s = {0, 0, 0};
    CHECK_OK(ll_model_logp(model, logp, b->tokens, b->lengths, b->B, b->T));
    for (int j = 0; j < b->B * b->T; j++) {
        if (b->targets[j] < 0) continue;
        const float *row = logp + (size_t)j * (size_t)V;
        int best = 0;
        for (int k = 1; k < V; k++) best = row[k] > row[best] ? k : best;
        s.loss -= (double)row[b->targets[j]];
        s.right += best == b->targets[j];
        s.count++;
    }
    return s;
}

static void expect(const ll_evaluation *e, sums s) {
    assert_int_equal(e->count, (int64_t)s.count);
    assert_true(fabs(e->loss - s.loss / s.count) < 1e-5 * e->loss);
    assert_true(fabs(e->bits_per_token - e->loss / log(2)) < 1e-12);
    assert_true(fabs(e->accuracy - s.right / s.count) < 1e-3);
}

static void test_evaluation_against_log_probabilities(void **state) {
    (void)state;
    ll_model *model = NULL;
    ll_reader *reader = NULL;
    ll_batch b = {0};
    ll_evaluation e = {.struct_size = sizeof e};
    CHECK_OK(ll_model_load(&model, in("straight", "best.safetensors")));
    const ll_config *c = &ll_model_recipe(model)->c;
    CHECK_OK(ll_reader_open(&reader, c, "valid"));
    CHECK_OK(ll_batch_create(&b, c));
    float *logp = calloc((size_t)b.B * (size_t)b.T * (size_t)c->model.vocab, sizeof *logp);
    assert_non_null(logp);
    sums all = {0, 0, 0}, some = {0, 0, 0};
    assert_int_equal(ll_reader_eval_batches(reader), 16);
    for (int64_t i = 0; i < 16; i++) {
        ll_reader_eval_batch(reader, &b, i);
        const sums s = score(model, logp, &b);
        const double few = i == 0 || i == 5 || i == 10; /* 3 of 16, evenly spaced */
        all = (sums){all.loss + s.loss, all.right + s.right, all.count + s.count};
        some = (sums){some.loss + few * s.loss, some.right + few * s.right, some.count + few * s.count};
    }
    assert_int_equal((int)all.count, 1499);
    CHECK_OK(ll_evaluate(model, "valid", 0, &e));
    expect(&e, all);
    CHECK_FAILS(ll_evaluate(model, "valid", -1, &e), LL_EINVAL, "evaluation of -1 batches");
    CHECK_OK(ll_evaluate(model, "valid", 3, &e));
    expect(&e, some);
    free(logp);
    ll_batch_free(&b);
    ll_reader_free(reader);
    ll_model_free(model);
}

static void test_training_learns(void **state) {
    (void)state;
    const observer o =
        run("train.steps=150 train.checkpoint-every=0 train.eval-every=0 model.dropout=0", at("learn"), NULL, 0, LL_OK);
    assert_int_equal(o.evals, 1);
    assert_int_equal(o.checkpoints, 1);
    if (!(o.last.valid_loss < 2.2)) fail_msg("loss %g after 150 steps", o.last.valid_loss);
}

/* Images of 4 x 4 as idx files, bright if their class is 1. */
static void make_images(int count, const char *images, const char *labels) {
    uint8_t x[16 + 40 * 16] = {0, 0, 8, 3, 0, 0, 0, (uint8_t)count, 0, 0, 0, 4, 0, 0, 0, 4};
    uint8_t y[8 + 40] = {0, 0, 8, 1, 0, 0, 0, (uint8_t)count};
    for (int i = 0; i < count; i++) {
        y[8 + i] = i * i % 7 > 2;
        for (int j = 0; j < 16; j++) x[16 + i * 16 + j] = (uint8_t)(y[8 + i] * 128 + (i * 5 + j * 3) % 100);
    }
    CHECK_OK(ll_file_write(images, x, 16 + (size_t)count * 16));
    CHECK_OK(ll_file_write(labels, y, 8 + (size_t)count));
}

/* Sizes that a recipe leaves at 0 come from the data, and the saved model has them. */
static void test_images(void **state) {
    (void)state;
    char more[700];
    make_images(40, at("x"), at("y"));
    make_images(13, at("vx"), at("vy")); /* not a multiple of the batch */
    snprintf(more, sizeof more,
             "model.task=classify model.vocab=0 model.classes=0 attention.kernel=relu position.type=permute2d "
             "train.length=0 train.steps=60 train.eval-batches=0 data.format=idx data.train=%s data.train-labels=%s "
             "data.valid=%s data.valid-labels=%s",
             at("x"), at("y"), at("vx"), at("vy"));
    run(more, at("images"), NULL, 30, LL_ESTOPPED);
    const observer o = run(more, at("images"), at("images"), 0, LL_OK);
    if (!(o.last.valid_accuracy > 0.9)) fail_msg("accuracy %g", o.last.valid_accuracy);
    ll_model *model = NULL;
    ll_evaluation e = {.struct_size = sizeof e};
    CHECK_OK(ll_model_load(&model, in("images", "last.safetensors")));
    CHECK_OK(ll_evaluate(model, "valid", 0, &e));
    assert_int_equal(e.count, 13);
    assert_true(fabs(e.loss - o.last.valid_loss) < 1e-6);
    assert_string_equal(ll_recipe_get(ll_model_recipe(model), "position.width"), "4");
    assert_string_equal(ll_recipe_get(ll_model_recipe(model), "train.length"), "16");
    CHECK_FAILS(ll_ngrams(ll_model_recipe(model), 2, "valid", NULL, NULL, &e.loss, &e.count), LL_EINVAL,
                "model.task=lm");
    ll_model_free(model);
}

/* At step 4, the embedding of a byte that the data does not have is spoiled. No loss shows that. */
static int spoil_a_row(const ll_progress *p, void *arg) {
    const ll_tensor rows = ll_model_tensor(((const ll_trainer *)arg)->model, 0);
    if (!p->event && p->step == 4) rows.data[255 * rows.cols] = NAN;
    return 0;
}

static void test_a_spoiled_row_is_not_saved(void **state) {
    (void)state;
    ll_trainer *trainer = NULL;
    ll_recipe *recipe = recipe_of("model.tied-embedding=off");
    CHECK_OK(ll_trainer_create(&trainer, recipe, at("row"), NULL));
    assert_string_equal(ll_model_tensor(trainer->model, 0).name, "embedding.weight");
    CHECK_FAILS(ll_trainer_run(trainer, spoil_a_row, trainer), LL_EDIVERGED, "the norm of the parameters became");
    assert_int_not_equal(access(in("row", "last.safetensors"), F_OK), 0);
    ll_trainer_free(trainer);
    ll_recipe_free(recipe);
}

static void test_no_steps(void **state) {
    (void)state;
    const observer o = run("train.steps=0", at("zero"), NULL, 0, LL_OK);
    ll_model *model = NULL;
    assert_int_equal(o.calls, 0);
    CHECK_OK(ll_model_load(&model, in("zero", "last.safetensors")));
    ll_model_free(model);
}

static void test_without_held_out_data(void **state) {
    (void)state;
    const observer o = run("data.valid= data.valid-fraction=0", at("novalid"), NULL, 0, LL_OK);
    assert_int_equal(o.evals, 0);
    assert_true(isnan(o.last.valid_loss));
    assert_int_not_equal(access(in("novalid", "best.safetensors"), F_OK), 0);
    assert_int_equal(access(in("novalid", "last.safetensors"), F_OK), 0);
}

/* Four tokens of a masked model, of which none is masked: a loss of 0 would be the best of the run. */
static void test_held_out_data_without_targets(void **state) {
    (void)state;
    char keys[200];
    const char *few = "model.task=mlm model.vocab=257 train.length=4 train.batch=1 train.steps=1";
    snprintf(keys, sizeof keys, "%s train.eval-batches=1", few);
    assert_int_equal(refused(keys, at("unmasked"), NULL), LL_EINVAL);
    assert_non_null(strstr(ll_error(), "raise train.eval-batches"));
    assert_int_equal(access(at("unmasked"), F_OK), -1);
    snprintf(keys, sizeof keys, "%s train.eval-batches=50", few);
    assert_true(run(keys, at("masked"), NULL, 0, LL_OK).last.valid_loss > 0);
}

/* Replaces the clock, if `tick` is not 0: it goes on by so many nanoseconds whenever it is read. */
static int64_t tick, ticks;

int clock_gettime(clockid_t clock, struct timespec *t) {
    if (!tick) return (int)syscall(SYS_clock_gettime, clock, t);
    ticks += tick;
    *t = (struct timespec){ticks / 1000000000, ticks % 1000000000};
    return 0;
}

/* From step 20 on, a step takes half the time. */
static int hurry(const ll_progress *p, void *arg) {
    double *speed = arg;
    if (p->event || p->step % 20) return 0;
    speed[p->step / 20 - 1] = p->tokens_per_second;
    tick = 1000000;
    return 0;
}

/* The speed that is shown is that of the last steps. */
static void test_speed_is_the_present_one(void **state) {
    (void)state;
    double speed[2] = {0};
    ll_trainer *trainer = NULL;
    ll_recipe *recipe = recipe_of("train.steps=40 train.eval-every=0 train.checkpoint-every=0");
    tick = 2000000;
    CHECK_OK(ll_trainer_create(&trainer, recipe, at("speed"), NULL));
    CHECK_OK(ll_trainer_run(trainer, hurry, speed));
    tick = 0;
    if (!(fabs(speed[1] / speed[0] - 2) < 0.05)) fail_msg("%g and %g tokens a second", speed[0], speed[1]);
    ll_trainer_free(trainer);
    ll_recipe_free(recipe);
}

static void test_step_time(void **state) {
    (void)state;
    double seconds = 0;
    ll_recipe *recipe = recipe_of("data.train=/does/not/exist");
    CHECK_OK(ll_train_step_time(recipe, 3, &seconds));
    assert_true(seconds > 0);
    CHECK_FAILS(ll_train_step_time(recipe, 0, &seconds), LL_EINVAL, "repeats");
    ll_recipe_free(recipe);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_run_reports_what_it_does),
        cmocka_unit_test(test_late_draws_are_left_out),
        cmocka_unit_test(test_accumulation_is_a_larger_batch),
        cmocka_unit_test(test_default_shards),
        cmocka_unit_test(test_shards_are_one_batch),
        cmocka_unit_test(test_threads_change_no_bit),
        cmocka_unit_test(test_evaluation_against_log_probabilities),
        cmocka_unit_test(test_training_learns),
        cmocka_unit_test(test_images),
        cmocka_unit_test(test_a_spoiled_row_is_not_saved),
        cmocka_unit_test(test_no_steps),
        cmocka_unit_test(test_without_held_out_data),
        cmocka_unit_test(test_held_out_data_without_targets),
        cmocka_unit_test(test_speed_is_the_present_one),
        cmocka_unit_test(test_step_time),
    };
    return cmocka_run_group_tests(tests, make_data, remove_data);
}
