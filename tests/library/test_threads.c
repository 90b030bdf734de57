/* The number of threads changes while other threads compute. A call keeps the number with which it began, and results
 * have the same bits. Heap overflows show under `make asan`; without it many of them show as other bits or a crash. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "models.h"

enum { T = 700, MOST_THREADS = 8, RUNS = 12, TOKENS = 11 };

/* ---- One thread sets the number over and over ---- */

static atomic_int over;

static void *keep_changing(void *unused) {
    for (unsigned i = 0; !atomic_load(&over); i++) {
        ll_set_threads(1 + (int)(i * 5 % MOST_THREADS));
        sched_yield();
    }
    return unused;
}

static pthread_t begin_changes(void) {
    pthread_t thread;
    atomic_store(&over, 0);
    assert_int_equal(pthread_create(&thread, NULL, keep_changing, NULL), 0);
    return thread;
}

static void end_changes(pthread_t thread) {
    atomic_store(&over, 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
    ll_set_threads(0);
}

/* ---- Forward and backward of models ---- */

/* One head and one sequence, so that threads share a head. */
static const char *const recipes[] = {
    "attention.kernel=favor",
    "attention.kernel=favor attention.compat=google",
    "attention.kernel=favor attention.compat=google model.task=mlm",
    "attention.kernel=relu position.type=permute position.decay=fixed",
    "attention.kernel=elu1 position.type=rope",
    "attention.kernel=elu1 model.task=classify model.width=64",
    "attention.kernel=elu1 position.type=sine-spe position.realizations=8",
    "attention.kernel=elu1 model.heads=2 position.type=relative-s2",
    "attention.kernel=gla position.type=rope",
    "attention.kernel=softmax position.type=t5",
    "attention.kernel=local attention.window=9",
    "attention.kernel=reformer attention.chunk=20 attention.buckets=8",
    "attention.kernel=value",
    "attention.kernel=nystrom attention.landmarks=8 model.task=classify",
    "attention.kernel=linformer attention.max-length=700 attention.projected-length=9 model.task=classify",
};
enum { RECIPES = sizeof recipes / sizeof *recipes };

typedef struct {
    ll_model *model;
    ll_workspace *ws;
    ll_batch in;
    int tokens[T], targets[T];
    float *grad;
    double loss;
} trained;

static trained *make(const char *keys) {
    trained *x = calloc(1, sizeof *x);
    char all[600];
    snprintf(all, sizeof all, "model.heads=1 model.width=32 train.length=%d %s", T, keys);
    x->model = tiny_model(all);
    random_ints(x->tokens, T, TOKENS, 0, 1);
    random_ints(x->targets, T, 5, 0, 2);
    x->in = (ll_batch){1, T, x->tokens, x->targets, NULL, 0, NULL, NULL};
    x->grad = calloc(x->model->size, sizeof *x->grad);
    CHECK_OK(ll_workspace_create(&x->ws, x->model, 1, T, 1));
    return x;
}

static void forward_and_backward(trained *x) {
    ll_tally tally = {0};
    memset(x->grad, 0, x->model->size * sizeof *x->grad);
    CHECK_OK(ll_model_run(x->model, x->ws, &x->in, x->grad, 1, 41, &tally));
    x->loss = tally.loss;
}

static void destroy(trained *x) {
    ll_workspace_free(x->ws);
    ll_model_free(x->model);
    free(x->grad), free(x);
}

static void test_threads_change_during_training(void **state) {
    (void)state;
    for (int i = 0; i < RECIPES; i++) {
        trained *x = make(recipes[i]);
        ll_set_threads(1);
        forward_and_backward(x);
        const double loss = x->loss;
        const size_t bytes = x->model->size * sizeof *x->grad;
        float *grad = malloc(bytes);
        memcpy(grad, x->grad, bytes);
        const pthread_t thread = begin_changes();
        int same = 1;
        for (int run = 0; run < RUNS; run++) {
            forward_and_backward(x);
            same = same && x->loss == loss && !memcmp(x->grad, grad, bytes);
        }
        end_changes(thread);
        if (!same) fail_msg("{%s} has other bits when the number of threads changes", recipes[i]);
        free(grad);
        destroy(x);
    }
}

/* ---- Streams ---- */

static void test_threads_change_during_a_stream(void **state) {
    (void)state;
    for (int i = 0; i < RECIPES; i++) {
        trained *x = make(recipes[i]);
        ll_stream *s = NULL;
        float logits[TOKENS], again[TOKENS];
        if (!ll_stream_create(&s, x->model)) {
            ll_set_threads(1);
            CHECK_OK(ll_stream_feed(s, x->tokens, T, logits));
            const pthread_t thread = begin_changes();
            int same = 1;
            for (int run = 0; run < RUNS; run++) {
                ll_stream_reset(s);
                CHECK_OK(ll_stream_feed(s, x->tokens, T, again));
                same = same && !memcmp(logits, again, sizeof logits);
            }
            end_changes(thread);
            if (!same) fail_msg("a stream of {%s} has other bits when the number of threads changes", recipes[i]);
        }
        ll_stream_free(s);
        destroy(x);
    }
}

/* ---- Stacks as small as musl gives to threads ---- */

#ifdef __SANITIZE_ADDRESS__
enum { STACK = 1 << 20 }; /* stack frames are larger there */
#else
enum { STACK = 128 << 10 };
#endif

static void *on_small_stack(void *arg) {
    forward_and_backward(arg);
    return NULL;
}

static void test_small_stacks_are_enough(void **state) {
    (void)state;
    static const char *const precision[] = {"fp32", "bf16"};
    for (int i = 0; i < 2 * RECIPES; i++) {
        char keys[300];
        snprintf(keys, sizeof keys, "%s model.ff=300 train.precision=%s", recipes[i / 2], precision[i % 2]);
        trained *x = make(keys);
        pthread_t thread;
        pthread_attr_t attr;
        pthread_attr_init(&attr);
        assert_int_equal(pthread_attr_setstacksize(&attr, STACK), 0);
        forward_and_backward(x);
        const double loss = x->loss;
        assert_int_equal(pthread_create(&thread, &attr, on_small_stack, x), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        pthread_attr_destroy(&attr);
        assert_true(x->loss == loss);
        destroy(x);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_change_during_training),
        cmocka_unit_test(test_threads_change_during_a_stream),
        cmocka_unit_test(test_small_stacks_are_enough),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
