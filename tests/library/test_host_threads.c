/* Programs that call the library from several threads, each with its own models, and that fork after they have used it.
 * Each result has the same bits as from one thread alone. `make tsan` runs this under ThreadSanitizer. */
#include <dirent.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

enum { HOSTS = 8, B = 2, T = 40, STEPS = 3, TOKENS = 12, VOCAB = 11, THREADS = 4 };

static const char *const kernels[HOSTS] = {
    "attention.kernel=favor",   "attention.kernel=relu",  "attention.kernel=softmax", "attention.kernel=elu1",
    "attention.kernel=local",   "attention.kernel=value", "attention.kernel=gla",     "attention.kernel=exp",
};

typedef struct {
    int kind;
    double loss[STEPS];
    float logits[VOCAB];
    char error[200];
} outcome;

static ll_model *make(int kind) {
    static const char *const keys[] = {"model.vocab=11", "model.layers=2",  "model.width=16",
                                       "model.heads=2",  "model.ff=24",     "train.length=40",
                                       "train.warmup=1", "train.learning-rate=0.01"};
    ll_recipe *recipe = NULL;
    ll_model *model = NULL;
    int bad = ll_recipe_create(&recipe) != LL_OK;
    for (size_t i = 0; !bad && i < sizeof keys / sizeof *keys; i++) bad = ll_recipe_set(recipe, keys[i]) != LL_OK;
    if (!bad) bad = ll_recipe_set(recipe, kernels[kind]) != LL_OK;
    if (!bad) bad = ll_model_create(&model, recipe) != LL_OK;
    ll_recipe_free(recipe);
    return model;
}

static int train(ll_model *model, outcome *o) {
    int tokens[B * T], targets[B * T];
    float *gradients = calloc(ll_model_size(model).block, sizeof *gradients);
    ll_adam *adam = NULL;
    for (int i = 0; i < B * T; i++) {
        tokens[i] = (i * 7 + o->kind) % VOCAB;
        targets[i] = (i * 7 + 7 + o->kind) % VOCAB;
    }
    int bad = !gradients || ll_adam_create(&adam, model) != LL_OK;
    for (int step = 0; !bad && step < STEPS; step++) {
        ll_memory_batch batch = {sizeof batch, .B = B, .T = T, .tokens = tokens, .targets = targets};
        batch.draw = step;
        ll_loss loss = {sizeof loss};
        bad = ll_model_loss(model, &batch, gradients, &loss) || ll_adam_step(adam, gradients, NULL);
        o->loss[step] = loss.loss;
    }
    ll_adam_free(adam);
    free(gradients);
    return bad;
}

static int generate(ll_model *model, outcome *o) {
    ll_stream *s = NULL;
    int bad = ll_stream_create(&s, model) != LL_OK;
    for (int i = 0; !bad && i < TOKENS; i++) bad = ll_stream_feed(s, (const int[]){i % VOCAB}, 1, o->logits) != LL_OK;
    ll_stream_free(s);
    return bad;
}

/* Each thread also makes an error. Its text belongs to the thread. */
static void *work(void *arg) {
    outcome *o = arg;
    char key[64];
    ll_recipe *recipe = NULL;
    ll_model *model = make(o->kind);
    int bad = !model || train(model, o) || generate(model, o) || ll_recipe_create(&recipe);
    ll_model_free(model);
    snprintf(key, sizeof key, "model.no-such-key-%d=1", o->kind);
    bad = bad || ll_recipe_set(recipe, key) == LL_OK;
    ll_recipe_free(recipe);
    snprintf(o->error, sizeof o->error, "%s", ll_error());
    return bad ? NULL : o;
}

static void check_same(const outcome *a, const outcome *b) {
    assert_memory_equal(a->loss, b->loss, sizeof a->loss);
    assert_memory_equal(a->logits, b->logits, sizeof a->logits);
    assert_string_equal(a->error, b->error);
}

static void test_eight_threads_with_models_of_their_own(void **state) {
    outcome alone[HOSTS] = {0}, together[HOSTS] = {0};
    pthread_t thread[HOSTS];
    (void)state;
    for (int i = 0; i < HOSTS; i++) {
        alone[i].kind = together[i].kind = i;
        assert_non_null(work(&alone[i]));
        assert_true(alone[i].loss[STEPS - 1] > 0 && alone[i].loss[0] != alone[i].loss[1]);
    }
    for (int i = 0; i < HOSTS; i++) assert_int_equal(pthread_create(&thread[i], NULL, work, &together[i]), 0);
    for (int i = 0; i < HOSTS; i++) {
        void *good = NULL;
        assert_int_equal(pthread_join(thread[i], &good), 0);
        assert_non_null(good);
        check_same(&alone[i], &together[i]);
    }
}

/* ThreadSanitizer starts no threads in a child of a process with threads. */
#ifndef __SANITIZE_THREAD__
static int count_threads(void) {
    int n = 0;
    DIR *threads = opendir("/proc/self/task");
    for (struct dirent *e; threads && (e = readdir(threads));) n += *e->d_name != '.';
    if (threads) closedir(threads);
    return n;
}

/* A child has workers of its own, as many as its parent. */
static void test_fork_after_use(void **state) {
    outcome before = {.kind = 1}, after = {.kind = 1};
    int status = 1;
    (void)state;
    assert_non_null(work(&before));
    for (int child = 0; child < 3; child++) {
        const pid_t pid = fork();
        assert_true(pid >= 0);
        if (!pid) {
            const int good = work(&after) && !memcmp(before.loss, after.loss, sizeof before.loss) &&
                             !memcmp(before.logits, after.logits, sizeof before.logits) && count_threads() >= THREADS;
            _exit(good ? 0 : 1);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    assert_non_null(work(&after));
    check_same(&before, &after);
}
#endif

int main(void) {
    ll_set_threads(THREADS);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_eight_threads_with_models_of_their_own),
#ifndef __SANITIZE_THREAD__
        cmocka_unit_test(test_fork_after_use),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
