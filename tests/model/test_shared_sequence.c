/* Sequences shared by several processes. Losses and gradients are those of one process, for every kernel and position,
 * causal or not, by states or by a ring. Here parts are threads, and messages are queues. */
#include "models.h"

#include <pthread.h>

#include "base/parallel.h"
#include "model/config/mechanism.h"
#include "model/sequence/ring_parts.h"
#include "model/sequence/shared_sequence.h"

enum { B = 2, LONG = 24, PARTS = 24, SEQUENCE_VOCAB = 11 };

/* ---- Messages between threads ---- */

typedef struct sent_message {
    struct sent_message *next;
    int from, to, tag;
    float x[];
} sent_message;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t arrived;
    sent_message *first;
    size_t sent; /* floats */
} messages = {.lock = PTHREAD_MUTEX_INITIALIZER, .arrived = PTHREAD_COND_INITIALIZER};

typedef struct {
    int part, parts;
    struct {
        float *x;
        size_t n;
        int peer;
    } taken[LL_SHARED_MESSAGES];
} part_transport;

enum { STATE = 100, ROOT };

static void put(int from, int to, int tag, const float *x, size_t n) {
    sent_message *l = malloc(sizeof *l + n * sizeof *x);
    *l = (sent_message){.from = from, .to = to, .tag = tag};
    memcpy(l->x, x, n * sizeof *x);
    pthread_mutex_lock(&messages.lock);
    sent_message **at = &messages.first;
    while (*at) at = &(*at)->next;
    *at = l;
    messages.sent += n;
    pthread_cond_broadcast(&messages.arrived);
    pthread_mutex_unlock(&messages.lock);
}

static void take(int from, int to, int tag, float *x, size_t n) {
    pthread_mutex_lock(&messages.lock);
    for (;;) {
        sent_message **at = &messages.first;
        while (*at && ((*at)->from != from || (*at)->to != to || (*at)->tag != tag)) at = &(*at)->next;
        sent_message *l = *at;
        if (l) {
            memcpy(x, l->x, n * sizeof *x);
            *at = l->next;
            free(l);
            break;
        }
        pthread_cond_wait(&messages.arrived, &messages.lock);
    }
    pthread_mutex_unlock(&messages.lock);
}

static ll_status send_state(void *arg, const float *x, size_t n, int to) {
    const part_transport *p = arg;
    put(p->part, to, STATE, x, n);
    return LL_OK;
}
static ll_status receive_state(void *arg, float *x, size_t n, int from) {
    const part_transport *p = arg;
    take(from, p->part, STATE, x, n);
    return LL_OK;
}
static ll_status broadcast_state(void *arg, float *x, size_t n, int from) {
    const part_transport *p = arg;
    for (int i = 0; i < p->parts && p->part == from; i++)
        if (i != from) put(from, i, ROOT, x, n);
    if (p->part != from) take(from, p->part, ROOT, x, n);
    return LL_OK;
}
static ll_status sum_states(void *arg, float *x, size_t n) {
    const part_transport *p = arg;
    float *one = malloc(n * sizeof *one);
    if (p->part) put(p->part, 0, ROOT, x, n);
    for (int i = 1; i < p->parts && !p->part; i++) {
        take(i, 0, ROOT, one, n);
        for (size_t j = 0; j < n; j++) x[j] += one[j];
    }
    free(one);
    return broadcast_state(arg, x, n, 0);
}
static ll_status begin(void *arg, float *x, size_t n, int peer, int message) {
    part_transport *p = arg;
    if (message % 2)
        p->taken[message].x = x, p->taken[message].n = n, p->taken[message].peer = peer;
    else
        put(p->part, peer, message, x, n);
    return LL_OK;
}
static ll_status wait_for(void *arg, int message) {
    const part_transport *p = arg;
    if (message % 2) take(p->taken[message].peer, p->part, message - 1, p->taken[message].x, p->taken[message].n);
    return LL_OK;
}

/* ---- A step ---- */

typedef struct {
    const char *keys;
    int part, parts, mlm;
    float *grad;
    double loss;
    size_t size;
    ll_status status;
    char error[200];
} job;

/* The gradient of one batch, whose second sequence ends within the last part but one. */
static void *run_part(void *arg) {
    job *j = arg;
    int tokens[B * LONG], targets[B * LONG], lengths[B], in[B * LONG], out[B * LONG];
    const int T = LONG / j->parts, whole[B] = {LONG, LONG - LONG / 3};
    ll_workspace *ws = NULL;
    ll_tally tally = {0};
    part_transport office = {.part = j->part, .parts = j->parts};
    const ll_sharing how = {j->part,    j->parts, send_state, receive_state, broadcast_state, sum_states, begin,
                            wait_for, &office};
    ll_model *m = tiny_model(j->keys);
    random_ints(tokens, B * LONG, SEQUENCE_VOCAB, 0, 1);
    random_ints(targets, B * LONG, SEQUENCE_VOCAB, 1, 2);
    for (int b = 0; b < B; b++) {
        const int left = whole[b] - j->part * T;
        lengths[b] = left < 0 ? 0 : left < T ? left : T;
        for (int t = 0; t < T; t++) {
            in[b * T + t] = tokens[b * LONG + j->part * T + t];
            out[b * T + t] = targets[b * LONG + j->part * T + t];
        }
    }
    const ll_batch batch = {.B = B, .T = T, .tokens = in, .targets = out, .lengths = lengths};
    j->size = m->size;
    j->grad = calloc(m->size, sizeof *j->grad);
    j->status = ll_workspace_create(&ws, m, B, T, 1);
    if (!j->status && j->parts > 1) j->status = ll_workspace_share(ws, &how);
    if (!j->status) j->status = ll_model_run(m, ws, &batch, j->grad, 1, 3, &tally);
    if (j->status) snprintf(j->error, sizeof j->error, "%s", ll_error());
    j->loss = tally.loss;
    ll_workspace_free(ws);
    ll_model_free(m);
    return NULL;
}

/* Sums over all parts. LL_EINVAL: all parts refuse. */
static job run_parts(const char *keys, int parts) {
    job part[PARTS];
    pthread_t thread[PARTS];
    for (int p = 0; p < parts; p++) {
        part[p] = (job){.keys = keys, .part = p, .parts = parts};
        assert_int_equal(pthread_create(&thread[p], NULL, run_part, &part[p]), 0);
    }
    for (int p = 0; p < parts; p++) pthread_join(thread[p], NULL);
    for (int p = 1; p < parts; p++) {
        part[0].loss += part[p].loss;
        assert_int_equal(part[p].status, part[0].status);
        for (size_t i = 0; i < part[0].size; i++) part[0].grad[i] += part[p].grad[i];
        free(part[p].grad);
    }
    assert_null(messages.first); /* every message was received */
    return part[0];
}

static void check_shared(const char *keys, int parts, double tolerance) {
    job one = run_parts(keys, 1), all = run_parts(keys, parts);
    if (all.status) fail_msg("{%s}, %d parts: %s", keys, parts, all.error);
    double *expected = malloc(one.size * sizeof *expected);
    char what[760];
    for (size_t i = 0; i < one.size; i++) expected[i] = (double)one.grad[i];
    snprintf(what, sizeof what, "{%s}, %d parts", keys, parts);
    if (!(fabs(all.loss - one.loss) <= 1e-6 * one.loss))
        fail_msg("%s: loss %.9g, expected %.9g", what, all.loss, one.loss);
    check_close(what, one.size, all.grad, expected, tolerance);
    free(one.grad), free(all.grad), free(expected);
}

/* A small pair that has a model in both directions. NULL: kernel and position do not go together. */
static const char *pair_of(int kernel, int position, int both, const char *more, char keys[700]) {
    static const char *const sign[] = {"gelu", "cos", "tanh", "identity"}; /* weights of either sign */
    const char *k = ll_kernel_at(kernel)->name, *x = ll_position_at(position)->name;
    int divided = position != LL_POSITION_ORTHOGONAL;
    for (size_t i = 0; i < sizeof sign / sizeof *sign; i++) divided &= !!strcmp(k, sign[i]);
    snprintf(keys, 700,
             "model.task=%s attention.kernel=%s position.type=%s attention.normalise=%s position.max-length=24 "
             "position.clip=3 position.realizations=5 position.sines=2 position.taps=3 position.scales=2 "
             "attention.window=5 attention.buckets=4 attention.chunk=3 attention.max-length=24 "
             "position.width=6 position.height=4 attention.landmarks=4 attention.projected-length=4 %s",
             both ? "mlm" : "lm", k, x, divided ? "on" : "off", more);
    ll_recipe *recipe = tiny_recipe(keys);
    ll_model *m = NULL;
    const ll_status status = ll_model_create(&m, recipe);
    assert_true(status == LL_OK || status == LL_EINVAL);
    ll_recipe_free(recipe);
    ll_model_free(m);
    return status ? NULL : keys;
}

/* Is the pair refused? It is if a later token must be known before the first is computed, or if it keeps all tokens and
 * has no ring. */
static int is_refused(int kernel, int position, int both) {
    if (kernel == LL_KERNEL_LINFORMER || kernel == LL_KERNEL_NYSTROM) return 1;
    if (both) return kernel == LL_KERNEL_LOCAL || kernel == LL_KERNEL_REFORMER || position == LL_POSITION_RELATIVE_S2;
    return kernel == LL_KERNEL_SOFTMAX && position == LL_POSITION_RELATIVE_S2;
}

/* Every kernel with every position that go together. */
static void test_every_pair(void **state) {
    (void)state;
    int checked = 0, refused = 0;
    for (int k = 0; ll_kernel_at(k); k++)
        for (int x = 0; ll_position_at(x); x++)
            for (int both = 0; both < 2; both++) {
                char keys[700];
                if (!pair_of(k, x, both, (k + x) % 3 ? "" : "train.recompute=on", keys)) continue;
                const int parts = 2 + (k + x + both) % 3;
                if (!is_refused(k, x, both)) {
                    check_shared(keys, parts, 1e-5);
                    checked++;
                    continue;
                }
                job all = run_parts(keys, parts);
                if (all.status != LL_EINVAL || !strstr(all.error, "dist.sequence"))
                    fail_msg("{%s}: %s", keys, all.error);
                free(all.grad);
                refused++;
            }
    assert_true(checked > 150 && refused > 10);
}

/* A causal ring cuts each part in two: into 2 and 1 tokens, and into one and none. */
static void test_odd_parts(void **state) {
    (void)state;
    static const char *const positions[] = {"none", "rope", "t5", "shaw", "sinusoidal"};
    for (size_t i = 0; i < sizeof positions / sizeof *positions; i++) {
        char keys[200];
        snprintf(keys, sizeof keys, "model.task=lm attention.kernel=softmax position.type=%s position.clip=3",
                 positions[i]);
        check_shared(keys, 8, 1e-5);
        check_shared(keys, 24, 1e-5);
    }
}

/* Parts of a causal ring have each token once, and see equally many keys. */
static void test_a_causal_ring_is_balanced(void **state) {
    (void)state;
    enum { T = 6 };
    for (int parts = 2; parts <= 9; parts++) {
        const ll_ring_parts p = {.how.parts = parts, .causal = 1};
        int had[9 * T] = {0};
        for (int part = 0; part < parts; part++) {
            ll_ring_span span[2];
            int64_t keys = 0;
            assert_int_equal(ll_ring_spans(&p, part, T, span), 2);
            for (int i = 0; i < 2; i++)
                for (int64_t t = span[i].first; t < span[i].first + span[i].count; t++) {
                    assert_int_equal(had[t]++, 0);
                    keys += t + 1;
                }
            assert_int_equal(2 * keys, T * (parts * T + 1));
        }
        for (int t = 0; t < parts * T; t++) assert_int_equal(had[t], 1);
    }
}

/* What a part cannot know of the others is refused, with the key that is in the way. */
static void test_what_ranks_cannot_share(void **state) {
    (void)state;
    static const struct {
        const char *keys, *why;
    } cases[] = {
        {"model.task=lm attention.kernel=relu model.separator=0", "model.separator"},
        {"model.task=mlm attention.kernel=relu model.token-types=2", "model.token-types"},
        {"model.task=lm attention.kernel=relu position.type=learned position.max-length=12", "position.max-length"},
        {"model.task=lm attention.kernel=relu train.chunk=4", "set train.chunk=0"},
        {"model.task=classify attention.kernel=relu", "only sequences of tasks lm and mlm"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        job all = run_parts(cases[i].keys, 2);
        if (all.status != LL_EINVAL || !strstr(all.error, cases[i].why))
            fail_msg("{%s}: status %d, %s", cases[i].keys, (int)all.status, all.error);
        free(all.grad);
    }
}

int main(void) {
    ll_set_threads(1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_pair),
        cmocka_unit_test(test_odd_parts),
        cmocka_unit_test(test_a_causal_ring_is_balanced),
        cmocka_unit_test(test_what_ranks_cannot_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
