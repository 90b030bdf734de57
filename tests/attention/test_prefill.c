/* Prompts that a call reads into a stream. The stream then equals, up to rounding, one that was fed, and a call can
 * continue from a stream's state. For every kernel and position that can stream. */
#include "attention/attention_stream.h"
#include "carried.h"

enum { PROMPT = 90, MORE = 40, ALL = PROMPT + MORE };

static void feed(ll_attention_stream *s, const ll_attention *op, tensors *t, int from, int n) {
    const ll_attention_call c = call_of(op, t, from, n, n);
    CHECK_OK(ll_attention_stream_feed(s, n, c.q, c.k, c.v, c.gate, c.y));
}

static void prefill(ll_attention_stream *s, const ll_attention *op, tensors *t, int from, int n) {
    ll_attention_call c = call_of(op, t, from, n, n);
    c.dgate = (ll_view){0}, c.ddecay = NULL;
    CHECK_OK(ll_attention_stream_prefill(s, &c));
}

static void compare(const char *name, const tensors *a, const tensors *b) {
    double worst = 0, largest = 1e-3;
    for (int i = 0; i < H * a->T * E; i++) {
        const double error = abs_error((double)a->x[4][i], (double)b->x[4][i]);
        worst = fmax(worst, error);
        largest = fmax(largest, fabs((double)a->x[4][i]));
    }
    if (!(worst <= 2e-4 * largest)) fail_msg("%s: y is off by %.3g of %.3g", name, worst, largest);
}

/* Only fed; a prompt by a call, then fed; fed, call, fed; two calls. */
static void check_pair(const ll_attention_config *config, const char *name) {
    static const int cuts[3][4] = {{0, PROMPT, ALL, ALL}, {20, PROMPT, ALL, ALL}, {0, 30, ALL, ALL}};
    ll_attention *op;
    ll_attention_stream *s;
    CHECK_OK(ll_attention_create(&op, config));
    tensors whole = tensors_create(ALL, 7), parts = tensors_create(ALL, 7);
    CHECK_OK(ll_attention_stream_create(&s, op, 1));
    feed(s, op, &whole, 0, ALL);
    ll_attention_stream_free(s);
    for (int i = 0; i < 3; i++) {
        const int from = cuts[i][0], to = cuts[i][1];
        CHECK_OK(ll_attention_stream_create(&s, op, 1));
        memset(parts.x[4], 0, (size_t)(H * ALL * E) * sizeof(float));
        feed(s, op, &parts, 0, from);
        prefill(s, op, &parts, from, to - from);
        if (i == 2) prefill(s, op, &parts, to, PROMPT - to);
        feed(s, op, &parts, i == 2 ? PROMPT : to, i == 2 ? MORE : ALL - to);
        compare(name, &whole, &parts);
        CHECK_OK(ll_attention_stream_check(s)); /* as if it were saved and loaded */
        ll_attention_stream_free(s);
    }
    tensors_free(&whole), tensors_free(&parts);
    ll_attention_free(op);
}

static void test_prompts(void **state) {
    (void)state;
    assert_true(check_pairs(1, check_pair, check_pair) > 70);
}

/* Two sequences, two prompts give what each sequence gives by itself. The distance between the caller's states does not
 * matter. */
static void check_two(const ll_attention_config *config, const char *name) {
    ll_attention *op;
    CHECK_OK(ll_attention_create(&op, config));
    tensors alone = tensors_create(2 * PROMPT, 7);
    for (int b = 0; b < 2; b++) {
        ll_attention_stream *s;
        CHECK_OK(ll_attention_stream_create(&s, op, 1));
        feed(s, op, &alone, b * PROMPT, PROMPT);
        ll_attention_stream_free(s);
    }
    tensors t[2] = {tensors_create(2 * PROMPT, 7), tensors_create(2 * PROMPT, 7)};
    for (int i = 0; i < 2; i++) {
        ll_attention_stream *s;
        CHECK_OK(ll_attention_stream_create(&s, op, 2));
        for (int from = 0; from < PROMPT; from += PROMPT / 2) {
            ll_attention_call call = call_of(op, &t[i], from, PROMPT / 2, PROMPT / 2);
            call.q.batch = call.k.batch = PROMPT * (size_t)D, call.v.batch = call.y.batch = PROMPT * (size_t)E;
            call.gate.batch = PROMPT;
            call.B = 2, call.state_row = (size_t)i, call.dgate = (ll_view){0}, call.ddecay = NULL;
            CHECK_OK(ll_attention_stream_prefill(s, &call));
        }
        ll_attention_stream_free(s);
    }
    assert_memory_equal(t[0].x[4], t[1].x[4], (size_t)(H * 2 * PROMPT * E) * sizeof(float));
    compare(name, &alone, &t[0]);
    tensors_free(&t[0]), tensors_free(&t[1]), tensors_free(&alone);
    ll_attention_free(op);
}

static void test_two_sequences(void **state) {
    (void)state;
    assert_true(check_pairs(1, check_two, check_two) > 70);
}

/* What favor with an eps sums in double, V and N, comes back from the state of a call, whose floats are pairs. */
static void test_doubles_come_back(void **state) {
    (void)state;
    ll_attention_config c;
    ll_attention *op;
    ll_attention_stream *s, *other;
    ll_state_tensor sums[LL_STATE_TENSORS], back[LL_STATE_TENSORS];
    size_t floats;
    make_numbers();
    assert_true(describe(&c, LL_KERNEL_FAVOR, LL_POSITION_NONE, 1, 0));
    c.feature_eps = 1e-3f;
    CHECK_OK(ll_attention_create(&op, &c));
    CHECK_OK(ll_attention_state_floats(op, &floats));
    CHECK_OK(ll_attention_stream_create(&s, op, 1));
    CHECK_OK(ll_attention_stream_create(&other, op, 1));
    tensors t = tensors_create(PROMPT, 7);
    float *left = calloc(floats, sizeof *left);
    feed(s, op, &t, 0, PROMPT);
    ll_recurrence_linear.store_state(s, 0, left);
    ll_recurrence_linear.load_state(other, 0, left);
    assert_int_equal(ll_attention_stream_state(s, PROMPT, sums), 1);
    assert_int_equal(ll_attention_stream_state(other, PROMPT, back), 1);
    const size_t size = sums[0].shape[2], V = size - 4 - E; /* N, its maximum and two exponents come after V */
    for (size_t h = 0; h < H; h++)
        for (size_t i = h * size + V; i <= h * size + V + E; i++) {
            const double x = ((double *)sums[0].data)[i], y = ((double *)back[0].data)[i];
            assert_true((double)(float)x != x && fabs(y - x) <= 1e-13 * fabs(x));
        }
    free(left);
    tensors_free(&t);
    ll_attention_stream_free(s), ll_attention_stream_free(other);
    ll_attention_free(op);
}

static void check_refused(ll_kernel kernel) {
    ll_attention_config c;
    ll_attention *op;
    ll_attention_stream *s;
    float x = 0;
    make_numbers();
    assert_true(describe(&c, kernel, LL_POSITION_NONE, 1, 0));
    CHECK_OK(ll_attention_create(&op, &c));
    CHECK_OK(ll_attention_stream_create(&s, op, 1));
    ll_attention_call call = {.B = 2};
    CHECK_FAILS(ll_attention_stream_prefill(s, &call), LL_EINVAL, "2 sequences for a stream of 1");
    call = (ll_attention_call){.B = 1, .threads = -3};
    CHECK_FAILS(ll_attention_stream_prefill(s, &call), LL_EINVAL, "-3 threads");
    const ll_attention_call more[] = {
        {.B = 1, .lengths = (int[]){0}}, {.B = 1, .query_lengths = (int[]){0}}, {.B = 1, .dgate = {.data = &x}},
        {.B = 1, .ddecay = &x},          {.B = 1, .dstate_in = &x},             {.B = 1, .dstate_out = &x},
    };
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        CHECK_FAILS(ll_attention_stream_prefill(s, &more[i]), LL_EINVAL, "leave out lengths");
    ll_attention_stream_free(s);
    ll_attention_free(op);
}

static void test_refused(void **state) {
    (void)state;
    check_refused(LL_KERNEL_RELU), check_refused(LL_KERNEL_SOFTMAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prompts),
        cmocka_unit_test(test_two_sequences),
        cmocka_unit_test(test_doubles_come_back),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
