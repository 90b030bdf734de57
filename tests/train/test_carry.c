/* train.carry-state: windows that pass their state on give what one long sequence gives. Documents begin with an empty
 * state. A stopped run resumes to the same bits. */
#include "runs.h"

#include <sys/stat.h>

#include "data/format.h"
#include "longline-dist.h"
#include "models.h"

enum { B = 2, T = 12, WINDOWS = 4, LONG = WINDOWS * T };

static const char *const kinds[] = {
    "attention.kernel=relu position.type=permute position.decay=fixed",
    "attention.kernel=gla position.type=rope",
    "attention.kernel=gla",
    "attention.kernel=favor position.type=rope-linear",
    "attention.kernel=favor position.type=sine-spe position.realizations=6 position.sines=2",
    "attention.kernel=favor position.type=conv-spe position.realizations=5 position.taps=3",
    "attention.kernel=elu1 position.type=sinusoidal",
    "attention.kernel=value position.type=sinusoidal",
    "attention.kernel=local attention.window=5 position.type=rope",
    "attention.kernel=reformer attention.buckets=4 attention.chunk=4 attention.rounds=2 position.type=none",
    "attention.kernel=relu position.type=relative-s2 position.clip=3",
    /* documents within a row; token 10 begins one */
    "model.separator=10 attention.kernel=gla position.type=rope",
    "model.separator=10 attention.kernel=favor position.type=rope-linear",
    "model.separator=10 attention.kernel=elu1 position.type=sinusoidal",
    "model.separator=10 attention.kernel=favor position.type=conv-spe position.realizations=5 position.taps=3",
    "model.separator=10 attention.kernel=local attention.window=5 position.type=rope",
    ("model.separator=10 attention.kernel=reformer attention.buckets=4 attention.chunk=4 attention.rounds=2 "
     "position.type=none"),
    "model.separator=10 attention.kernel=relu position.type=relative-s2 position.clip=3",
};

/* The losses of tokens first .. first + n - 1 in rows of LONG tokens, in the mode of training or of evaluation. carry:
 * NULL, or states that the window takes and leaves, `before` tokens after their text began. */
static void run_window(const ll_model *m, ll_workspace *ws, const int *tokens, int rows, int first, int n, float *each,
                       float *grad, ll_carry *carry, const int64_t *before) {
    int in[B * LONG], targets[B * LONG], lengths[B];
    float losses[B * LONG];
    for (int b = 0; b < rows; b++) {
        lengths[b] = n;
        for (int t = 0; t < n; t++) {
            in[b * n + t] = tokens[b * LONG + first + t];
            targets[b * n + t] = (tokens[b * LONG + first + t] + 1) % 11;
        }
    }
    const ll_batch batch = {.B = rows, .T = n, .tokens = in, .targets = targets, .lengths = lengths};
    ll_tally tally = {.each = losses};
    if (carry) ll_carry_begin(carry, &batch, before);
    ll_workspace_carry(ws, carry);
    CHECK_OK(ll_model_run(m, ws, &batch, grad, 1, 3, &tally));
    if (carry) ll_carry_advance(carry, &batch);
    ll_workspace_carry(ws, NULL);
    for (int b = 0; b < rows; b++)
        for (int t = 0; t < n; t++) each[b * LONG + first + t] = losses[b * n + t];
}

/* Row 1 begins a document in window 2, so that from there on the two rows have different positions. */
static void test_windows_are_one_sequence(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        char keys[300];
        int tokens[B * LONG];
        float whole[B * LONG], alone[B * LONG], cut[B * LONG], apart[B * LONG];
        double expected[B * LONG];
        ll_workspace *ws = NULL, *train = NULL;
        ll_carry *carry = NULL;
        snprintf(keys, sizeof keys, "%s train.carry-state=on", kinds[k]);
        ll_model *m = tiny_model(keys);
        float *grad = calloc(m->size, sizeof *grad);
        random_ints(tokens, B * LONG, 11, 0, 4);
        CHECK_OK(ll_workspace_create(&ws, m, B, LONG, 0));
        CHECK_OK(ll_workspace_create(&train, m, B, T, 1));
        CHECK_OK(ll_carry_create(&carry, m, B, T, 1));
        run_window(m, ws, tokens, B, 0, LONG, whole, NULL, NULL, NULL);
        int late[B * LONG];
        memcpy(late, tokens, sizeof late);
        memmove(late + LONG, tokens + LONG + 2 * T, (LONG - 2 * T) * sizeof *late);
        run_window(m, ws, late, B, 0, LONG, alone, NULL, NULL, NULL);
        for (int w = 0; w < WINDOWS; w++) {
            const int64_t before[B] = {w * T, (w < 2 ? w : w - 2) * T};
            run_window(m, train, tokens, B, w * T, T, apart, NULL, NULL, NULL);
            run_window(m, train, tokens, B, w * T, T, cut, grad, carry, before);
        }
        for (int t = 0; t < LONG; t++) {
            expected[t] = (double)whole[t];
            expected[LONG + t] = (double)(t < 2 * T ? whole[LONG + t] : alone[LONG + t - 2 * T]);
        }
        check_close(keys, B * LONG, cut, expected, 1e-4);
        double difference = 0; /* tokens before the window matter */
        for (int t = LONG - T; t < LONG; t++) {
            const double d = fabs((double)apart[t] - expected[t]);
            if (d > difference) difference = d;
        }
        assert_true(strstr(keys, "value") || difference > 1e-4);
        for (size_t i = 0; i < m->size; i++) assert_true(isfinite(grad[i]));
        ll_carry_free(carry);
        ll_workspace_free(ws), ll_workspace_free(train);
        ll_model_free(m);
        free(grad);
    }
}

/* Rows of a training batch continue those of the batch before. Offsets count from where the text or the stream
 * began. */
static void check_order(const char *more, int documents) {
    ll_recipe *recipe = recipe_of(more);
    ll_reader *reader = NULL;
    ll_batch a, b;
    int64_t offset[4], next[4];
    int begun = 0, went_on = 0;
    CHECK_OK(ll_reader_open(&reader, &recipe->c, "train"));
    CHECK_OK(ll_batch_create(&a, &recipe->c));
    CHECK_OK(ll_batch_create(&b, &recipe->c));
    for (int64_t i = 0; i < 120; i++) {
        ll_reader_batch(reader, &a, 1, i), ll_reader_offsets(reader, offset, 4, i);
        ll_reader_batch(reader, &b, 1, i + 1), ll_reader_offsets(reader, next, 4, i + 1);
        for (int row = 0; row < 4; row++) {
            assert_true(i || !offset[row]);
            begun += !next[row], went_on += next[row] > 0;
            if (!next[row]) continue;
            assert_int_equal(next[row], offset[row] + a.lengths[row]);
            assert_int_equal(b.tokens[row * b.T], a.targets[row * a.T + a.T - 1]);
        }
    }
    assert_true(begun >= (documents ? 40 : 4) && went_on > 100);
    ll_batch_free(&a), ll_batch_free(&b);
    ll_reader_free(reader);
    ll_recipe_free(recipe);
}

static void test_order(void **state) {
    (void)state;
    static char text[4000];
    size_t n = 0;
    for (unsigned i = 0; n + 100 < sizeof text; i++) {
        n += (size_t)snprintf(text + n, 32, ">p%u\n", i);
        for (unsigned j = 0; j < 30 + i * 7 % 50; j++) text[n++] = "ACDEFGHIKLMNPQRSTVWY"[(i * j + j) % 20];
        text[n++] = '\n';
    }
    CHECK_OK(ll_file_write(at("proteins.fasta"), text, n));
    check_order("train.carry-state=on", 0);
    char more[200];
    snprintf(more, sizeof more,
             "train.carry-state=on data.format=fasta data.valid-fraction=0.1 data.valid= data.train=%s",
             at("proteins.fasta"));
    check_order(more, 1);
}

/* In one pass each window is read by one stream, also where their number is no multiple of that of the streams. */
static void test_streams_do_not_overlap(void **state) {
    (void)state;
    enum { STREAMS = 4, LENGTH = 24 };
    ll_recipe *recipe = recipe_of("train.carry-state=on data.limit=1020");
    ll_reader *reader = NULL;
    ll_batch step, window;
    int times[1000] = {0};
    CHECK_OK(ll_reader_open(&reader, &recipe->c, "train"));
    CHECK_OK(ll_batch_create(&step, &recipe->c));
    CHECK_OK(ll_batch_create(&window, &recipe->c));
    assert_true(reader->rows < 1000 && reader->rows % STREAMS == STREAMS - 1);
    for (int row = 0; row < STREAMS; row++) {
        int64_t offset[STREAMS] = {1, 1, 1, 1};
        for (int64_t i = 0; i == 0 || offset[row]; i++) {
            int64_t w = -1;
            ll_reader_batch(reader, &step, 1, i);
            do ll_reader_eval_rows(reader, &window, ++w);
            while (w + 1 < reader->rows && memcmp(window.tokens, step.tokens + row * LENGTH, LENGTH * sizeof(int)));
            times[w]++;
            ll_reader_offsets(reader, offset, STREAMS, i + 1);
        }
    }
    for (int64_t w = 0; w < reader->rows; w++) assert_int_equal(times[w], 1);
    ll_batch_free(&step), ll_batch_free(&window);
    ll_reader_free(reader);
    ll_recipe_free(recipe);
}

/* Each piece of music begins with an empty state, and a stopped run on pieces resumes to the same bits. */
static void test_music(void **state) {
    (void)state;
    static const char note[] =
        " Bar Position_1 Pitch_40 Duration_1 Velocity_2 Position_5 Pitch_60 Duration_4 Velocity_66";
    assert_int_equal(mkdir(at("music"), 0777), 0);
    for (size_t i = 0; i < 60; i++) {
        char name[64], text[1200] = "Bar Position_1 Tempo_120";
        snprintf(name, sizeof name, "music/%02zu.txt", i);
        for (size_t n = strlen(text), bars = 2 + i * 7 % 9; bars; bars--, n += strlen(text + n))
            snprintf(text + n, sizeof text - n, "%s", note);
        CHECK_OK(ll_file_write(at(name), text, strlen(text)));
    }
    char more[256];
    snprintf(more, sizeof more,
             "train.carry-state=on model.vocab=628 data.format=midi data.valid= data.valid-fraction=0.1 data.train=%s",
             at("music"));
    check_order(more, 1);
    run(more, at("whole-music"), NULL, 0, LL_OK);
    run(more, at("stopped-music"), NULL, 7, LL_ESTOPPED);
    run(more, at("stopped-music"), at("stopped-music"), 0, LL_OK);
    same_run("whole-music", "stopped-music");
}

static void test_a_stopped_run_goes_on_to_the_same_bits(void **state) {
    (void)state;
    static const char *const more[] = {"train.carry-state=on",
                                       "train.carry-state=on attention.kernel=gla train.accumulate=2",
                                       "train.carry-state=on attention.redraw=0 model.separator=32"};
    for (int i = 0; i < 3; i++) {
        char straight[20], stopped[20];
        snprintf(straight, sizeof straight, "straight%d", i), snprintf(stopped, sizeof stopped, "stopped%d", i);
        run(more[i], at(straight), NULL, 0, LL_OK);
        run(more[i], at(stopped), NULL, 7, LL_ESTOPPED);
        run(more[i], at(stopped), at(stopped), 0, LL_OK);
        same_run(straight, stopped);
    }
    ll_recipe *recipe = recipe_of("train.carry-state=off"); /* the key belongs to the run */
    ll_trainer *trainer = NULL;
    CHECK_FAILS(ll_trainer_create(&trainer, recipe, NULL, at("straight0")), LL_EINVAL, "train.carry-state");
    ll_recipe_free(recipe);
}

/* Fills a tensor with a number of alternating sign. */
static void alternate(ll_model *m, const char *name, float value) {
    for (int i = 0; i < m->count; i++) {
        const ll_param *p = &m->param[i];
        if (strcmp(p->name, name)) continue;
        for (int j = 0; j < p->rows * p->cols; j++) p->value[j] = j % 2 ? -value : value;
        return;
    }
    fail_msg("there is no %s", name);
}

/* What makes steps, without a run. */
typedef struct {
    ll_recipe *recipe;
    ll_reader *reader;
    ll_model *model;
    ll_engine *engine;
} stepper;

static stepper stepper_create(const char *more) {
    stepper s = {.recipe = recipe_of(more)};
    CHECK_OK(ll_reader_open_as(&s.reader, &s.recipe->c, "train", NULL));
    CHECK_OK(ll_fit_fill(s.recipe, s.reader));
    CHECK_OK(ll_model_create(&s.model, s.recipe));
    CHECK_OK(ll_engine_create(&s.engine, s.model));
    return s;
}

static void stepper_free(stepper *s) {
    ll_engine_free(s->engine), ll_model_free(s->model), ll_reader_free(s->reader), ll_recipe_free(s->recipe);
}

/* Losses and norms of gradients of steps 1 to 3. fails: steps 2 and 3 are first made with weights whose loss is finite,
 * but not the norm of its gradient. */
static void gradients_of(double made[6], int fails, const char *more) {
    char keys[200];
    snprintf(keys, sizeof keys,
             "train.carry-state=on model.tied-embedding=off model.dropout=0 attention.redraw=0 %s", more);
    stepper s = stepper_create(keys);
    ll_model *const m = s.model;
    ll_gradient g;
    float *before = malloc(m->size * sizeof *before);
    memcpy(before, m->data, m->size * sizeof *before);
    for (int step = 1; step <= 3; step++) {
        if (fails && step >= 2) {
            memset(m->data, 0, m->size * sizeof *before);
            alternate(m, "embedding.weight", 1e-20f);
            alternate(m, "norm.gain", 1e10f);
            alternate(m, "head.weight", 1e30f);
            CHECK_OK(ll_engine_gradient(s.engine, s.reader, step, &g));
            assert_true(isfinite(g.loss) && !isfinite(g.norm));
            memcpy(m->data, before, m->size * sizeof *before);
        }
        CHECK_OK(ll_engine_gradient(s.engine, s.reader, step, &g));
        made[2 * step - 2] = g.loss, made[2 * step - 1] = g.norm;
    }
    free(before);
    stepper_free(&s);
}

static void test_a_step_that_fails_passes_nothing_on(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *more = i ? "train.accumulate=2" : "";
        double straight[6], again[6];
        gradients_of(straight, 0, more), gradients_of(again, 1, more);
        assert_memory_equal(straight, again, sizeof straight);
    }
}

/* The loss of step 4, which begins with new features if attention.redraw is 3, after the steps from `first` on. */
static double loss_of_step_4(int first, const char *redraw) {
    char more[120];
    ll_gradient g = {0};
    snprintf(more, sizeof more, "train.carry-state=on attention.redraw=%s", redraw);
    stepper s = stepper_create(more);
    for (int step = first; step <= 4; step++) CHECK_OK(ll_engine_gradient(s.engine, s.reader, step, &g));
    stepper_free(&s);
    return g.loss;
}

/* A state belongs to the features it was summed with. */
static void test_new_features_begin_with_empty_states(void **state) {
    (void)state;
    assert_true(loss_of_step_4(1, "3") == loss_of_step_4(4, "3"));
    assert_true(loss_of_step_4(1, "0") != loss_of_step_4(4, "0"));
}

static void test_refused(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"attention.kernel=softmax position.type=none", "attention.kernel = softmax"},
        {"position.type=learned", "position.max-length"},
        {"model.task=mlm", "model.task = lm"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char more[200];
        snprintf(more, sizeof more, "%s train.carry-state=on", cases[i][0]);
        ll_recipe *recipe = recipe_of(more);
        CHECK_FAILS(ll_config_check(&recipe->c), LL_EINVAL, cases[i][1]);
        ll_recipe_free(recipe);
    }
    ll_recipe *recipe = recipe_of("train.carry-state=on train.length=4000");
    ll_reader *reader = NULL;
    CHECK_FAILS(ll_reader_open(&reader, &recipe->c, "train"), LL_EINVAL, "streams side by side");
    ll_recipe_free(recipe);
}

/* The memory of a run counts its states: three blocks where a step reads several windows. */
static void test_memory_is_announced(void **state) {
    (void)state;
    for (int batches = 1; batches <= 2; batches++) {
        ll_rank_memory with, without;
        char keys[200];
        snprintf(keys, sizeof keys, "attention.kernel=relu train.batch=3 train.accumulate=%d", batches);
        ll_recipe *recipe = tiny_recipe(keys);
        ll_model *m = NULL;
        ll_carry *carry = NULL;
        CHECK_OK(ll_dist_memory(recipe, 0, &without));
        CHECK_OK(ll_recipe_set(recipe, "train.carry-state=on"));
        CHECK_OK(ll_dist_memory(recipe, 0, &with));
        CHECK_OK(ll_model_create(&m, recipe));
        CHECK_OK(ll_carry_create(&carry, m, 3, 4, batches));
        assert_true(without.states == 0);
        /* Of 3 rows, of these when the step began, and of 12 documents. Each piece begins on a line. */
        const double offsets = (3 + 3 + 12) * sizeof(int64_t),
                     pieces = (double)(carry->count * (size_t)(batches + 1) * sizeof(float)) + offsets;
        assert_true(with.states >= pieces && with.states < pieces + (batches + 4) * 64);
        assert_true(with.total - with.states - with.report ==
                    with.weights + with.gradients + with.moments + with.activations);
        ll_carry_free(carry);
        ll_model_free(m);
        ll_recipe_free(recipe);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_windows_are_one_sequence),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_streams_do_not_overlap),
        cmocka_unit_test(test_music),
        cmocka_unit_test(test_a_stopped_run_goes_on_to_the_same_bits),
        cmocka_unit_test(test_a_step_that_fails_passes_nothing_on),
        cmocka_unit_test(test_new_features_begin_with_empty_states),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_memory_is_announced),
    };
    return cmocka_run_group_tests(tests, make_data, remove_data);
}
