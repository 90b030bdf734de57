/* The floating-point mode. Every call leaves that of the host as it was. No result depends on it. Subnormal numbers
 * count as 0 in every thread that computes. */
#include <fenv.h>
#include <float.h>

#include "base/float_mode.h"
#include "base/parallel.h"
#include "model/model_internal.h"
#include "longline-lab.h"
#include "models.h"
#include "oracle/oracle.h"
#include "runs.h"
#include "test.h"

enum { B = 1, H = 2, T = 90, D = 8, E = 4, MOST = 1 << 15 /* parameters */ };
static const int roundings[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
enum { ROUNDINGS = sizeof roundings / sizeof *roundings };

static volatile float least = FLT_MIN;

/* Does this thread keep subnormal numbers? */
static int keeps(void) { return least * 0.5f > 0; }

/* The host still has the mode that the trial set. */
static void check_host(int rounding) {
    assert_int_equal(fegetround(), rounding);
    assert_true(keeps());
}

/* Outputs, gradients and stream outputs of one operator, in x. */
typedef struct {
    float y[H * T * E], streamed[H * T * E], dq[H * T * D], dk[H * T * D], dv[H * T * E];
} attended;

static void attend(int rounding, attended *x) {
    uint64_t seed = 3;
    float q[H * T * D], k[H * T * D], v[H * T * E], g[H * T * E], ddecay[H] = {0};
    const float decay[H] = {0.9f, 0.5f};
    fesetround(FE_TONEAREST); /* the inputs are the same */
    for (int i = 0; i < H * T * D; i++) q[i] = (float)draw_normal(&seed), k[i] = (float)draw_normal(&seed);
    for (int i = 0; i < H * T * E; i++) v[i] = (float)draw_normal(&seed), g[i] = (float)draw_normal(&seed);
    fesetround(rounding);
    ll_attention_config c = ll_attention_default();
    c.kernel = LL_KERNEL_ELU1, c.causal = 1, c.H = H, c.D = D, c.E = E, c.decay = decay;
    c.position = LL_POSITION_ROPE;
    ll_attention *op;
    ll_attention_stream *s;
    CHECK_OK(ll_attention_create(&op, &c));
    ll_attention_call call = {.B = B, .T = T, .S = T, .ddecay = ddecay};
    call.q = (ll_view){q, H * T * D, T * D, D}, call.k = (ll_view){k, H * T * D, T * D, D};
    call.dq = (ll_view){x->dq, H * T * D, T * D, D}, call.dk = (ll_view){x->dk, H * T * D, T * D, D};
    call.v = (ll_view){v, H * T * E, T * E, E}, call.dv = (ll_view){x->dv, H * T * E, T * E, E};
    call.g = (ll_view){g, H * T * E, T * E, E}, call.y = (ll_view){x->streamed, H * T * E, T * E, E};
    CHECK_OK(ll_attention_stream_create(&s, op, B));
    CHECK_OK(ll_attention_stream_feed(s, T, call.q, call.k, call.v, (ll_view){0}, call.y));
    check_host(rounding);
    call.y.data = x->y;
    call.saved = calloc(ll_attention_saved(op, &call) + 1, sizeof(float));
    CHECK_OK(ll_attention_forward(op, &call));
    check_host(rounding);
    CHECK_OK(ll_attention_backward(op, &call));
    check_host(rounding);
    free(call.saved);
    ll_attention_stream_free(s);
    ll_attention_free(op);
}

static void test_attention(void **state) {
    (void)state;
    static attended first, again;
    attend(FE_TONEAREST, &first);
    for (int threads = 1; threads <= 3; threads += 2)
        for (int i = 0; i < ROUNDINGS; i++) {
            ll_set_threads(threads);
            attend(roundings[i], &again);
            fesetround(FE_TONEAREST);
            assert_memory_equal(&first, &again, sizeof first);
        }
    ll_set_threads(0);
}

typedef struct {
    float gradients[MOST], logits[7], weights[7];
    double loss;
} learnt;

/* Makes a model, trains it for a step, reads tokens with a stream, and draws the next one. */
static void learn(int rounding, learnt *x) {
    static const int tokens[8] = {1, 4, 2, 0, 3, 4, 1, 2}, targets[8] = {4, 2, 0, 3, 4, 1, 2, 5};
    ll_recipe *recipe = tiny_recipe("model.task=lm attention.kernel=favor position.type=rope model.vocab=7");
    ll_model *m;
    ll_adam *adam;
    ll_stream *s;
    double norm;
    fesetround(rounding);
    CHECK_OK(ll_model_create(&m, recipe));
    check_host(rounding);
    assert_true(ll_model_size(m).block <= MOST);
    CHECK_OK(ll_adam_create(&adam, m));
    const ll_memory_batch batch = {
        .struct_size = sizeof batch, .B = 1, .T = 8, .tokens = tokens, .targets = targets, .draw = 1};
    ll_loss result = {.struct_size = sizeof result};
    CHECK_OK(ll_model_loss(m, &batch, x->gradients, &result));
    check_host(rounding);
    x->loss = result.loss;
    CHECK_OK(ll_adam_step(adam, x->gradients, &norm));
    check_host(rounding);
    CHECK_OK(ll_stream_create(&s, m));
    CHECK_OK(ll_stream_feed(s, tokens, 8, x->logits));
    check_host(rounding);
    const ll_sampling how = ll_sampling_default();
    memcpy(x->weights, x->logits, sizeof x->weights);
    assert_in_range(ll_sample(x->weights, 7, &how, 8), 0, 6); /* makes weights of the logits */
    check_host(rounding);
    ll_stream_free(s);
    ll_adam_free(adam);
    ll_model_free(m);
    ll_recipe_free(recipe);
    fesetround(FE_TONEAREST);
}

static void test_model(void **state) {
    (void)state;
    static learnt first, again;
    learn(FE_TONEAREST, &first);
    for (int i = 0; i < ROUNDINGS; i++) {
        learn(roundings[i], &again);
        assert_memory_equal(&first, &again, sizeof first);
    }
}

/* A model that is loaded, and one that is trained. Roots of its head size are not exact, and it has sinusoids. */
static const char inexact[] =
    "model.width=40 model.heads=4 position.type=sinusoidal train.steps=3 train.eval-every=2 attention.redraw=2 ";

typedef struct {
    float logp[24];
    double loss;
} found;

/* A host without its traps is no host of this test. */
static void trap(int on) {
#if defined __GLIBC__ && defined __x86_64__
    if (on) feenableexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW);
    if (!on) fedisableexcept(FE_ALL_EXCEPT);
#else
    (void)on;
#endif
}

static int look(const ll_progress *p, void *arg) {
    (void)p;
    check_host(*(const int *)arg); /* the caller's function has the host's mode, also within a step */
    return 0;
}

static void train(int rounding, int resumes, const char *folder, found *x) {
    int tokens[24];
    for (int t = 0; t < 24; t++) tokens[t] = 32 + t * 7 % 90;
    fesetround(rounding); /* numbers as text are the same, too */
    ll_recipe *recipe = recipe_of(inexact);
    ll_trainer *trainer;
    ll_model *m;
    ll_evaluation e = {.struct_size = sizeof e};
    trap(1);
    CHECK_OK(ll_trainer_create(&trainer, resumes ? NULL : recipe, at(folder), resumes ? at(folder) : NULL));
    check_host(rounding);
    trainer->report_interval = 0;
    CHECK_OK(ll_trainer_run(trainer, look, &rounding));
    check_host(rounding);
    ll_trainer_free(trainer);
    CHECK_OK(ll_model_load(&m, in(folder, "last.safetensors")));
    check_host(rounding);
    CHECK_OK(ll_model_score(m, x->logp, tokens, NULL, 1, 24));
    CHECK_OK(ll_evaluate(m, "valid", 2, &e));
    check_host(rounding);
    trap(0);
    fesetround(FE_TONEAREST);
    x->loss = e.loss;
    ll_model_free(m);
    ll_recipe_free(recipe);
}

static void test_training(void **state) {
    (void)state;
    static found first, again;
    train(FE_TONEAREST, 0, "nearest", &first);
    for (int i = 0; i < ROUNDINGS; i++) {
        char folder[16];
        snprintf(folder, sizeof folder, "mode%d", i);
        train(roundings[i], 0, folder, &again);
        assert_memory_equal(&first, &again, sizeof first);
        same_run("nearest", folder);
        train(roundings[i], 1, folder, &again);
        assert_memory_equal(&first, &again, sizeof first);
    }
}

/* ---- The laboratory ---- */

typedef struct {
    double ngrams, unigram, error[2], table[60];
} measured;

static void measure(int rounding, const ll_recipe *recipe, const ll_attention_config *c, measured *x) {
    static const char *const experiments[] = {"features", "moments"};
    int64_t tokens;
    ll_baseline baseline;
    ll_stream_error error;
    fesetround(rounding);
    CHECK_OK(ll_ngrams(recipe, 3, "valid", NULL, NULL, &x->ngrams, &tokens));
    CHECK_OK(ll_unigram(recipe, "valid", 0, &baseline));
    x->unigram = baseline.loss;
    CHECK_OK(ll_attention_stream_error(&error, c, 300, 5));
    x->error[0] = error.deviation[0], x->error[1] = error.tiles[0];
    for (int e = 0; e < 2; e++) {
        ll_table *t = NULL;
        CHECK_OK(ll_analyse(&t, experiments[e], &(ll_analysis){.seed = 3, .quick = 1, .length = 64}));
        for (int i = 0; i < 30 && i < t->rows * t->columns; i++) x->table[30 * e + i] = t->number[i];
        ll_table_free(t);
    }
    check_host(rounding);
    fesetround(FE_TONEAREST);
}

static void test_laboratory(void **state) {
    (void)state;
    static measured first, again;
    ll_recipe *recipe = recipe_of(NULL);
    ll_attention_config c = ll_attention_default();
    c.kernel = LL_KERNEL_ELU1, c.causal = 1, c.H = 1, c.D = D, c.E = E;
    measure(FE_TONEAREST, recipe, &c, &first);
    for (int i = 0; i < ROUNDINGS; i++) {
        measure(roundings[i], recipe, &c, &again);
        assert_memory_equal(&first, &again, sizeof first);
    }
    ll_recipe_free(recipe);
}

static void halve(void *arg, size_t i, int worker) {
    int *kept = arg;
    (void)worker;
    for (volatile int wait = 0; wait < 20000; wait++) {} /* so that every thread gets some of them */
    kept[i] = keeps();
}

static void test_subnormals_are_zero_in_every_thread(void **state) {
    (void)state;
#if !defined __x86_64__ && !defined __aarch64__
    puts("here subnormal numbers are kept");
    skip();
#endif
    enum { N = 500 };
    static int kept[N];
    for (int threads = 1; threads <= 4; threads++) {
        memset(kept, -1, sizeof kept);
        ll_parallel_among(threads, N, halve, kept);
        for (int i = 0; i < N; i++) assert_int_equal(kept[i], 0);
        assert_true(keeps());
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_model),
        cmocka_unit_test(test_training),
        cmocka_unit_test(test_laboratory),
        cmocka_unit_test(test_subnormals_are_zero_in_every_thread),
    };
    return cmocka_run_group_tests(tests, make_data, remove_data);
}
