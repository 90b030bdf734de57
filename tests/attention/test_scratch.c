/* The scratch of a call, for every kernel and position. ll_attention_scratch is enough: nothing is written beyond it,
 * nothing is read before it is written, no call allocates, and no bit depends on it. */
#include "base/memory.h"
#include "base/random.h"
#include "ragged.h"

enum { T = 70, GUARDS = 32 };

/* Two rows of one sequence each, or packed rows of several. */
static void lengthen(ll_attention_call *c, int packed) {
    static const int lengths[] = {T, 33};
    static const ll_segment segments[] = {{0, 0, 1, 0, 1}, {0, 1, 40, 1, 40}, {0, 45, 25, 45, 25}, {1, 0, 70, 0, 70}};
    static const ll_segment whole[] = {{0, 0, T, 0, T}, {1, 0, 33, 0, 33}};
    if (packed) {
        c->segment = segments, c->segments = 4;
    } else {
        c->lengths = lengths;
    }
    for (int i = 0; i < (packed ? 4 : 2); i++) fill_sequence(c, packed ? &segments[i] : &whole[i], (uint64_t)i + 1);
}

/* Scratch in the caller's memory, filled with NaN, not aligned to a cache line, with guard bytes behind it. */
static ll_status run(const ll_attention *op, ll_attention_call *c, int backward) {
    const size_t need = ll_attention_scratch(op, c, backward);
    float *block = malloc((need + GUARDS + 3) * sizeof *block);
    assert_non_null(block);
    for (size_t i = 0; i < need + GUARDS + 3; i++) block[i] = NAN;
    memset(block + need + 3, 0x5a, GUARDS * sizeof *block);
    c->scratch = block + 3, c->scratch_floats = need;
    ll_memory_fail_at(1);
    const ll_status status = backward ? ll_attention_backward(op, c) : ll_attention_forward(op, c);
    ll_memory_fail_at(0);
    for (size_t i = 0; i < GUARDS * sizeof *block; i++)
        assert_int_equal(((const unsigned char *)(block + need + 3))[i], 0x5a);
    free(block);
    return status;
}

/* (ROWS, T), which hides every ninth key. */
static const float *mask(void) {
    static float all[ROWS * T];
    for (int i = 0; i < ROWS * T; i++) all[i] = i % 9 != 4;
    return all;
}

static void check(const ll_attention *op, int threads, int packed, int saved) {
    arrays a = arrays_of(op, ROWS, T, T, packed ? 4 : ROWS), b = arrays_of(op, ROWS, T, T, packed ? 4 : ROWS);
    static learnt da, db;
    lengthen(&a.call, packed), lengthen(&b.call, packed);
    if (!packed && op->features) a.call.key_mask = b.call.key_mask = mask();
    memset(&da, 0, sizeof da), memset(&db, 0, sizeof db);
    want(&a.call, &da), want(&b.call, &db);
    float *const kept[] = {a.call.saved, b.call.saved};
    if (!saved) a.call.saved = b.call.saved = NULL;
    ll_set_threads(1);
    CHECK_OK(ll_attention_forward(op, &a.call));
    if (saved) CHECK_OK(ll_attention_backward(op, &a.call));
    b.call.threads = threads;
    ll_set_threads(4 * threads); /* as another thread may do; the number of the call stays */
    CHECK_OK(run(op, &b.call, 0));
    if (saved) CHECK_OK(run(op, &b.call, 1));
    assert_memory_equal(a.data, b.data, a.size * sizeof *a.data);
    assert_memory_equal(&da, &db, sizeof da);
    a.call.saved = kept[0], b.call.saved = kept[1];
    arrays_free(&a), arrays_free(&b);
}

static void test_every_pair(void **state) {
    (void)state;
    int ran = 0;
    make_numbers();
    for (int causal = 0; causal < 2; causal++)
        for (int kernel = 0; kernel < KERNELS; kernel++)
            for (int position = 0; position < POSITIONS; position++)
                for (int eps = 0; eps < 2; eps++) {
                    ll_attention_config c;
                    ll_attention *op;
                    if (!describe(&c, kernel, position, causal, 0)) continue;
                    if (eps && (kernel != LL_KERNEL_FAVOR || position == LL_POSITION_ROPE_LINEAR ||
                                position == LL_POSITION_ORTHOGONAL))
                        continue;
                    if (eps) c.feature_eps = 1e-3f; /* the released stabilisers, and their gradients */
                    if (eps && !causal) c.key_max = LL_MAX_BATCH, c.max_gradient = 1;
                    CHECK_OK(ll_attention_create(&op, &c));
                    ll_attention_set_tile(op, 2); /* so that threads also share heads */
                    for (int packed = 0; packed < 2; packed++) {
                        check(op, 1, packed, 0);
                        check(op, 3, packed, 1); /* threads share the last of four heads */
                    }
                    ll_attention_free(op);
                    ran++;
                }
    ll_set_threads(0);
    assert_true(ran > 150);
}

/* Filters that are long beside all else that a position has in scratch. */
static void test_long_filters(void **state) {
    (void)state;
    ll_attention_config c;
    ll_attention *op;
    make_numbers();
    assert_true(describe(&c, LL_KERNEL_RELU, LL_POSITION_CONV_SPE, 1, 0));
    c.encoding.taps = 80, c.encoding.filter_k = numbers + 1000;
    CHECK_OK(ll_attention_create(&op, &c));
    for (int packed = 0; packed < 2; packed++) check(op, 3, packed, 1);
    ll_set_threads(0);
    ll_attention_free(op);
}

/* Long heads that all threads share, in tiles of the default size: small tiles leave so much room between arrays that
 * a size may be far too small. */
static void check_shared_heads(ll_kernel kernel, int backward) {
    enum { LONG = 1100, WIDE = 24, GUARD = 1 << 14 };
    static float x[8][LONG * WIDE];
    static float projection[WIDE * WIDE];
    ll_attention_config c = ll_attention_default();
    ll_attention *op;
    c.kernel = kernel, c.causal = 1, c.H = 1, c.D = c.E = WIDE, c.M = kernel == LL_KERNEL_FAVOR ? WIDE : 0;
    if (c.M) c.projection = projection, c.feature_eps = 1e-3f;
    for (int i = 0; i < WIDE * WIDE; i++) projection[i] = (float)(i % 7) / 7;
    for (int i = 0; i < 8 * LONG * WIDE; i++) x[i / (LONG * WIDE)][i % (LONG * WIDE)] = (float)(i % 11) / 11;
    CHECK_OK(ll_attention_create(&op, &c));
    ll_attention_call call = {.B = 1, .T = LONG, .S = LONG, .threads = 4};
    ll_view *const views[] = {&call.q, &call.k, &call.v, &call.y, &call.g, &call.dq, &call.dk, &call.dv};
    for (int i = 0; i < 8; i++) *views[i] = (ll_view){x[i], LONG * WIDE, LONG * WIDE, WIDE};
    if (backward) call.saved = calloc(ll_attention_saved(op, &call), sizeof *call.saved);
    for (int back = 0; back <= backward; back++) {
        const size_t need = ll_attention_scratch(op, &call, back);
        float *scratch = malloc((need + GUARD) * sizeof *scratch);
        for (size_t i = 0; i < GUARD; i++) scratch[need + i] = 42;
        call.scratch = scratch, call.scratch_floats = need;
        CHECK_OK(back ? ll_attention_backward(op, &call) : ll_attention_forward(op, &call));
        for (size_t i = 0; i < GUARD; i++) assert_true(scratch[need + i] == 42);
        free(scratch);
    }
    free(call.saved);
    ll_attention_free(op);
}

static void test_shared_heads(void **state) {
    (void)state;
    for (int backward = 0; backward < 2; backward++) {
        check_shared_heads(LL_KERNEL_RELU, backward);
        check_shared_heads(LL_KERNEL_FAVOR, backward);
    }
}

/* Tiles of several runs, since the state decays or grows too much within one: threads that share a head give the bits
 * of one thread. */
static void check_runs(ll_kernel kernel, float strong) {
    enum { LONG = 900, WIDE = 16, N = LONG * WIDE };
    static float x[2][8][N], projection[WIDE * WIDE];
    float ddecay[2] = {0}, eta = strong;
    ll_attention_config c = ll_attention_default();
    ll_attention *op;
    c.kernel = kernel, c.causal = 1, c.H = 1, c.D = c.E = WIDE, c.decay = &eta;
    c.M = kernel == LL_KERNEL_FAVOR ? WIDE : 0, c.projection = c.M ? projection : NULL;
    ll_normal_fill(projection, WIDE * WIDE, 1, 2, 0);
    CHECK_OK(ll_attention_create(&op, &c));
    for (int shared = 0; shared < 2; shared++) {
        ll_attention_call call = {.B = 1, .T = LONG, .S = LONG, .threads = shared ? 4 : 1, .ddecay = &ddecay[shared]};
        ll_view *const views[] = {&call.q, &call.k, &call.v, &call.y, &call.g, &call.dq, &call.dk, &call.dv};
        for (int i = 0; i < 8; i++) {
            ll_normal_fill(x[shared][i], N, 3, (uint64_t)i, 0);
            *views[i] = (ll_view){x[shared][i], N, N, WIDE};
        }
        call.saved = calloc(ll_attention_saved(op, &call), sizeof *call.saved);
        CHECK_OK(ll_attention_forward(op, &call));
        CHECK_OK(ll_attention_backward(op, &call));
        free(call.saved);
    }
    assert_memory_equal(x[0], x[1], sizeof x[0]);
    assert_true(ddecay[0] == ddecay[1] && ddecay[0] != 0);
    ll_attention_free(op);
}

static void test_shared_runs(void **state) {
    (void)state;
    check_runs(LL_KERNEL_RELU, 0.25f);
    check_runs(LL_KERNEL_FAVOR, 0.25f);
    check_runs(LL_KERNEL_ELU1, 1e-4f);
}

/* Scratch for fewer threads gives fewer threads. Scratch for none gives an error. */
static void test_threads_fit(void **state) {
    (void)state;
    ll_attention_config c;
    ll_attention *op;
    make_numbers();
    assert_true(describe(&c, LL_KERNEL_RELU, LL_POSITION_PERMUTE, 1, 0));
    CHECK_OK(ll_attention_create(&op, &c));
    arrays a = arrays_of(op, ROWS, T, T, ROWS), b = arrays_of(op, ROWS, T, T, ROWS);
    lengthen(&a.call, 0), lengthen(&b.call, 0);
    CHECK_OK(ll_attention_forward(op, &a.call));
    ll_set_threads(1);
    const size_t need = ll_attention_scratch(op, &b.call, 0);
    float *scratch = malloc(need * sizeof *scratch);
    b.call.scratch = scratch, b.call.scratch_floats = need;
    ll_set_threads(4);
    assert_true(ll_attention_scratch(op, &b.call, 0) > need);
    CHECK_OK(ll_attention_forward(op, &b.call));
    assert_memory_equal(a.data, b.data, a.size * sizeof *a.data);
    char words[80];
    snprintf(words, sizeof words, "takes %zu floats of scratch, not %zu; ask ll_attention_scratch", need, need - 1);
    b.call.scratch_floats = need - 1;
    CHECK_FAILS(ll_attention_forward(op, &b.call), LL_EINVAL, words);
    b.call.threads = 256;
    const size_t most = ll_attention_scratch(op, &b.call, 0);
    b.call.threads = 1000000, b.call.scratch = NULL;
    assert_int_equal(ll_attention_scratch(op, &b.call, 0), most);
    CHECK_OK(ll_attention_forward(op, &b.call));
    ll_set_threads(0);
    free(scratch);
    arrays_free(&a), arrays_free(&b);
    ll_attention_free(op);
}

/* A call of fewer tokens or sequences needs no more. */
static void test_sizes_grow(void **state) {
    (void)state;
    make_numbers();
    for (int causal = 0; causal < 2; causal++)
        for (int kernel = 0; kernel < KERNELS; kernel++)
            for (int position = 0; position < POSITIONS; position++) {
                ll_attention_config c;
                ll_attention *op;
                if (!describe(&c, kernel, position, causal, 0)) continue;
                CHECK_OK(ll_attention_create(&op, &c));
                for (int backward = 0; backward < 2; backward++) {
                    size_t last = 0;
                    for (int n = 0; n < 3000; n = n * 3 / 2 + 1) {
                        ll_attention_call call = {.B = 1 + n / 100, .T = n, .S = n, .segments = n};
                        float saved;
                        call.saved = backward ? &saved : NULL;
                        const size_t floats = ll_attention_scratch(op, &call, backward);
                        assert_true(floats >= last);
                        last = floats;
                    }
                }
                ll_attention_free(op);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_pair),  cmocka_unit_test(test_long_filters), cmocka_unit_test(test_shared_heads),
        cmocka_unit_test(test_shared_runs), cmocka_unit_test(test_threads_fit),  cmocka_unit_test(test_sizes_grow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
