/* Objects that are made once and used for long: under another instruction tier, while another thread changes the number
 * of threads, after memory was refused, for a million tokens. */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "base/memory.h"
#include "base/parallel.h"
#include "base/random.h"
#include "test.h"
#include "attention/cross_cache.h"
#include "attention/linear/causal.h"

static float *drawn(size_t n, uint64_t seed) {
    float *x = ll_alloc(n, sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++) x[i] = 2 * ll_uniform(seed, 1, i) - 1;
    return x;
}

static ll_view rows(float *data, int H, int T, int D) {
    return (ll_view){data, (size_t)H * (size_t)T * (size_t)D, (size_t)T * (size_t)D, (size_t)D};
}

static ll_attention *made(ll_kernel kernel, int causal, int H, int D, int E) {
    ll_attention_config c = ll_attention_default();
    ll_attention *op = NULL;
    c.kernel = kernel, c.causal = causal, c.H = H, c.D = D, c.E = E;
    if (kernel == LL_KERNEL_RELU) c.input_scale = 1, c.feature_eps = 1e-3f;
    CHECK_OK(ll_attention_create(&op, &c));
    return op;
}

/* The tensors of one call. */
typedef struct {
    float *q, *k, *v, *y;
    ll_attention_call call;
} tensors;

static tensors tensors_of(int B, int H, int T, int D, int E) {
    const size_t n = (size_t)B * (size_t)H * (size_t)T;
    tensors t = {drawn(n * (size_t)D, 1), drawn(n * (size_t)D, 2), drawn(n * (size_t)E, 3), drawn(n * (size_t)E, 4)};
    t.call = (ll_attention_call){.B = B, .T = T, .S = T, .q = rows(t.q, H, T, D), .k = rows(t.k, H, T, D)};
    t.call.v = rows(t.v, H, T, E), t.call.y = rows(t.y, H, T, E);
    return t;
}

static void tensors_free(tensors *t) {
    ll_free(t->q);
    ll_free(t->k);
    ll_free(t->v);
    ll_free(t->y);
}

/* ---- Tiers ---- */

static void test_made_under_one_tier_used_under_another(void **state) {
    (void)state;
    enum { H = 2, D = 16, E = 16, T = 150 };
    static const char *const made_under[] = {NULL, "scalar"}, *const used_under[] = {"scalar", NULL};
    for (int i = 0; i < 2; i++) {
        CHECK_OK(ll_set_cpu(made_under[i]));
        ll_attention *both = made(LL_KERNEL_RELU, 0, H, D, E), *causal = made(LL_KERNEL_RELU, 1, H, D, E);
        tensors a = tensors_of(1, H, T, D, E), b = tensors_of(1, H, T, D, E);
        ll_cross_cache *memory = NULL;
        CHECK_OK(ll_cross_cache_create(&memory, both));
        const size_t floats = ll_attention_saved(causal, &(ll_attention_call){.B = 1, .T = T, .S = T});
        a.call.saved = ll_alloc(floats + 1, sizeof(float));
        a.call.saved[floats] = 7;
        CHECK_OK(ll_set_cpu(used_under[i]));
        assert_int_equal(ll_attention_saved(causal, &(ll_attention_call){.B = 1, .T = T, .S = T}), floats);
        CHECK_OK(ll_attention_forward(causal, &a.call));
        assert_true(a.call.saved[floats] == 7);
        CHECK_OK(ll_cross_cache_fill(memory, T, a.call.k, a.call.v));
        CHECK_OK(ll_cross_cache_read(memory, 0, T, a.call.q, a.call.y));
        CHECK_OK(ll_attention_forward(both, &b.call));
        for (int j = 0; j < H * T * E; j++) assert_true(fabsf(a.y[j] - b.y[j]) < 1e-5f);
        ll_free(a.call.saved);
        ll_cross_cache_free(memory);
        tensors_free(&a);
        tensors_free(&b);
        ll_attention_free(both);
        ll_attention_free(causal);
    }
    CHECK_OK(ll_set_cpu(NULL));
}

/* ---- Threads ---- */

static atomic_int stop;

static void *toggle(void *arg) {
    (void)arg;
    for (int i = 0; !atomic_load(&stop); i++) ll_set_threads(i % 2 ? 7 : 2);
    return NULL;
}

static atomic_int largest;

static void note(void *arg, size_t i, int worker) {
    (void)arg, (void)i;
    if (worker > atomic_load(&largest)) atomic_store(&largest, worker);
    nanosleep(&(struct timespec){0, 100000}, NULL);
}

/* Scratch for two workers is used by two, whatever the number of threads is later. */
static void test_no_more_workers_than_asked_for(void **state) {
    (void)state;
    atomic_store(&largest, 0);
    ll_set_threads(7);
    ll_parallel_among(2, 200, note, NULL);
    ll_set_threads(1);
    assert_int_equal(atomic_load(&largest), 1);
}

static void test_threads_change_during_calls(void **state) {
    (void)state;
    enum { B = 3, H = 3, D = 8, E = 8, T = 90, CALLS = 60 };
    static const ll_kernel kernels[] = {LL_KERNEL_RELU, LL_KERNEL_SOFTMAX};
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        ll_attention *op = made(kernels[i], 1, H, D, E);
        tensors a = tensors_of(B, H, T, D, E), b = tensors_of(B, H, T, D, E);
        ll_set_threads(1);
        CHECK_OK(ll_attention_forward(op, &a.call));
        atomic_store(&stop, 0);
        assert_int_equal(pthread_create(&thread, NULL, toggle, NULL), 0);
        for (int n = 0; n < CALLS; n++) {
            CHECK_OK(ll_attention_forward(op, &b.call));
            assert_memory_equal(a.y, b.y, B * H * T * E * sizeof(float));
        }
        atomic_store(&stop, 1);
        pthread_join(thread, NULL);
        tensors_free(&a);
        tensors_free(&b);
        ll_attention_free(op);
    }
    ll_set_threads(1);
}

/* ---- Memory ---- */

static void test_a_memory_that_could_not_be_filled_is_empty(void **state) {
    (void)state;
    enum { D = 16, E = 16, MANY = 900, FEW = 3 };
    ll_attention *op = made(LL_KERNEL_SOFTMAX, 0, 1, D, E);
    tensors t = tensors_of(1, 1, MANY, D, E);
    int refused = 0;
    for (long at = 1; at <= 4; at++) {
        ll_cross_cache *memory = NULL;
        CHECK_OK(ll_cross_cache_create(&memory, op));
        CHECK_OK(ll_cross_cache_fill(memory, MANY, t.call.k, t.call.v));
        ll_memory_fail_at(at);
        const ll_status status = ll_cross_cache_fill(memory, FEW, t.call.k, t.call.v);
        ll_memory_fail_at(0);
        CHECK_OK(ll_cross_cache_read(memory, 0, 1, t.call.q, t.call.y));
        if (status) {
            refused++;
            for (int e = 0; e < E; e++) assert_true(t.y[e] == 0);
        }
        ll_cross_cache_free(memory);
    }
    assert_true(refused);
    tensors_free(&t);
    ll_attention_free(op);
}

/* ---- A million tokens ---- */

enum { LONG = 1000000 };

/* 2^24 is the first number to which a float does not add 1. */
static void test_a_sum_keeps_what_is_small(void **state) {
    (void)state;
    const float one = 1;
    float sum = 0x1p24f, low = 0;
    for (int i = 0; i < 1000; i++) ll_sum_keep(1, 1, &one, &sum, &low);
    assert_true(sum == 0x1p24f + 1000);
    for (int i = 0; i < 1000; i++) ll_sum_keep(1, -0.5f, &one, &sum, &low);
    assert_true(sum == 0x1p24f + 500);
}

/* All values are equal. Then y is this value, whatever the weights are. */
static void test_sums_of_a_million(void **state) {
    (void)state;
    enum { D = 2, E = 3, M = 4, LAST = 8 };
    const int T = getenv("LL_FAST") ? LONG / 10 : LONG;
    tensors t = tensors_of(1, 1, T, D, E);
    float W[M * D] = {1, 0, 0, 1, -1, 0, 0, -1}, y[LAST * E];
    for (int i = 0; i < T * E; i++) t.v[i] = 0.7f;
    ll_attention_config c = ll_attention_default();
    ll_attention *op = NULL;
    c.kernel = LL_KERNEL_FAVOR, c.D = D, c.E = E, c.M = M, c.projection = W, c.feature_eps = 1e-2f;
    c.query_max = LL_MAX_TOKEN, c.key_max = LL_MAX_PREFIX;
    CHECK_OK(ll_attention_create(&op, &c));
    CHECK_OK(ll_attention_forward(op, &t.call));
    for (int i = T * E - E; i < T * E; i++) assert_true(fabsf(t.y[i] - 0.7f) < 7e-5f);
    ll_attention_free(op);

    ll_cross_cache *memory = NULL;
    op = made(LL_KERNEL_SOFTMAX, 0, 1, D, E);
    CHECK_OK(ll_cross_cache_create(&memory, op));
    CHECK_OK(ll_cross_cache_fill(memory, T, t.call.k, t.call.v));
    CHECK_OK(ll_cross_cache_read(memory, 0, LAST, t.call.q, rows(y, 1, LAST, E)));
    for (int i = 0; i < LAST * E; i++) assert_true(fabsf(y[i] - 0.7f) < 7e-5f);
    ll_cross_cache_free(memory);
    ll_attention_free(op);
    tensors_free(&t);
}

/* ---- Pairs that mean nothing ---- */

static void test_kernels_without_features_refuse_what_needs_them(void **state) {
    (void)state;
    static const ll_kernel kernels[] = {LL_KERNEL_VALUE, LL_KERNEL_LOCAL, LL_KERNEL_REFORMER, LL_KERNEL_LINFORMER,
                                        LL_KERNEL_NYSTROM};
    float numbers[64] = {0};
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        ll_attention_config c = ll_attention_default();
        ll_attention *op = NULL;
        c.kernel = kernels[i], c.causal = 0, c.H = 2, c.D = c.E = 4;
        c.approximate = (ll_approximate_config){.window = 3, .length = 8, .rank = 2, .landmarks = 2, .iterations = 2};
        c.approximate.buckets = 4, c.approximate.chunk = 2, c.approximate.rounds = 1;
        c.approximate.linformer_k = c.approximate.linformer_v = numbers;
        c.encoding.theta = c.encoding.basis = c.encoding.rpe = numbers;
        c.encoding.clip = 2, c.encoding.keyless = c.encoding.axes = 1;
        c.position = LL_POSITION_ORTHOGONAL;
        CHECK_FAILS(ll_attention_create(&op, &c), LL_EINVAL, "no features that a matrix could rotate");
        c.position = LL_POSITION_RELATIVE_S2;
        CHECK_FAILS(ll_attention_create(&op, &c), LL_EINVAL, "relative-s2 is for softmax and linear kernels");
    }
}

int main(void) {
    ll_set_threads(1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_made_under_one_tier_used_under_another),
        cmocka_unit_test(test_no_more_workers_than_asked_for),
        cmocka_unit_test(test_threads_change_during_calls),
        cmocka_unit_test(test_a_memory_that_could_not_be_filled_is_empty),
        cmocka_unit_test(test_a_sum_keeps_what_is_small),
        cmocka_unit_test(test_sums_of_a_million),
        cmocka_unit_test(test_kernels_without_features_refuse_what_needs_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
