/* Batches of packed rows that pass states on (states_of_rows, offsets): the first sequence of a row continues earlier
 * calls, and later calls continue the last one. */
#include "carried.h"

static void close_to(const char *name, const char *what, const float *a, const float *b, size_t n) {
    double worst = 0, largest = 1e-3;
    for (size_t i = 0; i < n; i++) {
        if (a[i] == b[i]) continue; /* exponents of empty states are infinite */
        worst = fmax(worst, abs_error((double)a[i], (double)b[i]));
        largest = fmax(largest, fabs((double)a[i]));
    }
    if (!(worst <= 1e-5 * largest)) fail_msg("%s, packed: %s is off by %.3g of %.3g", name, what, worst, largest);
}

static void run(const ll_attention *op, ll_attention_call *c) {
    c->saved = saved_for(op, c);
    CHECK_OK(ll_attention_forward(op, c));
    CHECK_OK(ll_attention_backward(op, c));
    free(c->saved);
}

/* NULL: the operator has no state of constant size. */
static ll_attention *with_state(const ll_attention_config *config, size_t *floats) {
    ll_attention *op;
    CHECK_OK(ll_attention_create(&op, config));
    if (!ll_attention_state_floats(op, floats)) return op;
    ll_attention_free(op);
    return NULL;
}

/* Rows of `row` tokens, each with a state. */
static ll_attention_call rows_of(const ll_attention *op, tensors *t, int rows, int row) {
    ll_attention_call c = call_of(op, t, 0, row, row);
    ll_view *const views[] = {&c.q, &c.k, &c.v, &c.g, &c.y, &c.dq, &c.dk, &c.dv, &c.gate, &c.dgate};
    for (int i = 0; i < TENSORS; i++) views[i]->batch = (size_t)row * (size_t)width(i);
    c.B = rows, c.states_of_rows = 1;
    return c;
}

/* Compares rows whose first sequence continues earlier calls, and whose last sequence is continued, with one call for
 * each sequence. */
static void check_packed_rows(const ll_attention_config *config, const char *name) {
    enum { ROW = 60, BATCH = 2, N = 4 };
    static const ll_segment segment[N] = {
        {0, 0, 25, 0, 25}, {0, 25, 5, 25, 5}, {0, 30, 30, 30, 30}, {1, 0, ROW, 0, ROW}};
    static const int64_t offset[N] = {7, 0, 0, 13};
    size_t floats;
    ll_attention *op = with_state(config, &floats);
    if (!op) return;
    tensors t = tensors_create(BATCH * ROW, 5), one = tensors_create(BATCH * ROW, 5);
    float *in = calloc(BATCH * floats + 1, 4), *out = calloc(BATCH * floats + 1, 4), *d = calloc(BATCH * floats + 1, 4);
    float *out1 = calloc(BATCH * floats + 1, 4), *d1 = calloc(BATCH * floats + 1, 4);
    for (int b = 0; b < BATCH; b++) {
        ll_attention_call before = call_of(op, &t, 0, b ? 13 : 7, b ? 13 : 7);
        before.state_out = in + (size_t)b * floats;
        CHECK_OK(ll_attention_forward(op, &before));
    }
    ll_attention_call c = rows_of(op, &t, BATCH, ROW);
    c.segment = segment, c.segments = N, c.offsets = offset;
    c.state_in = in, c.state_out = out, c.dstate_in = d;
    run(op, &c);
    for (int i = 0; i < N; i++) {
        const ll_segment *s = &segment[i];
        const size_t at = (size_t)s->row * floats;
        c = call_of(op, &one, s->row * ROW + s->query, s->queries, s->queries);
        c.query_offset = c.key_offset = offset[i];
        if (!s->query) c.state_in = in + at, c.dstate_in = d1 + at;
        if (s->query + s->queries == ROW) c.state_out = out1 + at;
        run(op, &c);
    }
    for (int i = 4; i < TENSORS; i++)
        close_to(name, "output or gradient", one.x[i], t.x[i], (size_t)(H * BATCH * ROW * width(i)));
    for (int p = 0; p < PARTS; p++) close_to(name, "gradient of a parameter", one.d->part[p], t.d->part[p], PART);
    close_to(name, "ddecay", one.d->ddecay, t.d->ddecay, H);
    close_to(name, "state", out1, out, BATCH * floats);
    close_to(name, "dstate", d1, d, BATCH * floats);
    free(in), free(out), free(d), free(out1), free(d1);
    tensors_free(&t), tensors_free(&one);
    ll_attention_free(op);
}

static void test_packed_rows_hand_on(void **state) {
    (void)state;
    assert_true(check_pairs(1, check_packed_rows, NULL) > 70);
}

/* Rows in which no sequence lies leave the state that they take, or that before the first token. */
static void check_empty_rows(const ll_attention_config *config, const char *name) {
    enum { ROW = 20, BATCH = 3 };
    static const ll_segment segment = {1, 2, 10, 2, 10};
    size_t floats;
    ll_attention *op = with_state(config, &floats);
    if (!op) return;
    tensors t = tensors_create(BATCH * ROW, 5);
    float *x[4]; /* states and their gradients, before and after */
    for (int i = 0; i < 4; i++) {
        x[i] = calloc(BATCH * floats + 1, sizeof *x[i]);
        for (size_t n = 0; n < BATCH * floats; n++) x[i][n] = i % 2 ? NAN : 0;
    }
    for (int b = 0; b < BATCH; b++) {
        ll_attention_call before = call_of(op, &t, 0, 7, 7);
        before.state_out = x[0] + (size_t)b * floats;
        CHECK_OK(ll_attention_forward(op, &before));
    }
    for (size_t n = 0; n < BATCH * floats; n++) x[2][n] = (float)(n % 7);
    ll_attention_call c = rows_of(op, &t, BATCH, ROW);
    c.segment = &segment, c.segments = 1;
    c.state_in = x[0], c.state_out = x[1], c.dstate_out = x[2], c.dstate_in = x[3];
    run(op, &c);
    for (size_t b = 0; b < BATCH; b += 2) {
        const size_t at = b * floats, size = floats * sizeof(float);
        if (memcmp(x[0] + at, x[1] + at, size)) fail_msg("%s: row %zu does not pass its state on", name, b);
        if (memcmp(x[2] + at, x[3] + at, size)) fail_msg("%s: nor the gradient of row %zu", name, b);
    }
    c.state_in = NULL, c.saved = NULL;
    CHECK_OK(ll_attention_forward(op, &c));
    ll_attention_state_clear(op, x[0]);
    if (memcmp(x[0], x[1], floats * sizeof(float))) fail_msg("%s: an empty row leaves a state", name);
    for (int i = 0; i < 4; i++) free(x[i]);
    tensors_free(&t);
    ll_attention_free(op);
}

static void test_empty_rows(void **state) {
    (void)state;
    assert_true(check_pairs(1, check_empty_rows, NULL) > 70);
}

/* The sequences of a packed row run side by side. So the last one must not write its state over the one that the first
 * one takes. */
static void test_states_apart(void **state) {
    enum { ROW = 60 };
    static const ll_segment segment[] = {{0, 0, 25, 0, 25}, {0, 25, 35, 25, 35}};
    ll_attention_config config = ll_attention_default();
    ll_attention *op;
    size_t floats;
    (void)state;
    config.kernel = LL_KERNEL_ELU1, config.causal = 1, config.H = H, config.D = D, config.E = E;
    CHECK_OK(ll_attention_create(&op, &config));
    CHECK_OK(ll_attention_state_floats(op, &floats));
    tensors t = tensors_create(ROW, 9);
    float *one = calloc(2 * floats, sizeof *one);
    assert_non_null(one);
    ll_attention_call c = rows_of(op, &t, 1, ROW);
    c.state_in = c.state_out = one;
    CHECK_OK(ll_attention_forward(op, &c));
    c.segment = segment, c.segments = 2;
    CHECK_FAILS(ll_attention_forward(op, &c), LL_EINVAL, "cannot be state_in; give it memory of its own");
    c.state_out = one + floats;
    CHECK_OK(ll_attention_forward(op, &c));
    free(one);
    tensors_free(&t);
    ll_attention_free(op);
}

/* The second sequence of a row begins behind chunks of the first, whose states the backward pass needs, too. */
static void test_long_rows(void **state) {
    enum { ROW = 1400, N = 2 };
    static const ll_segment segment[N] = {{0, 0, 600, 0, 600}, {0, 600, 800, 600, 800}};
    ll_attention_config config = ll_attention_default();
    ll_attention *op;
    (void)state;
    config.kernel = LL_KERNEL_RELU, config.causal = 1, config.H = H, config.D = D, config.E = E;
    CHECK_OK(ll_attention_create(&op, &config));
    tensors t = tensors_create(ROW, 9), one = tensors_create(ROW, 9);
    ll_attention_call c = call_of(op, &t, 0, ROW, ROW);
    c.segment = segment, c.segments = N;
    run(op, &c);
    for (int i = 0; i < N; i++) {
        c = call_of(op, &one, segment[i].query, segment[i].queries, segment[i].queries);
        run(op, &c);
    }
    for (int i = 4; i < TENSORS; i++)
        close_to("relu", "output or gradient of a long row", one.x[i], t.x[i], (size_t)(H * ROW * width(i)));
    tensors_free(&t), tensors_free(&one);
    ll_attention_free(op);
}

/* Counts of a state that no call leaves are refused before they say where to read. */
static void test_counts_are_checked(void **state) {
    (void)state;
    static const int kernels[] = {LL_KERNEL_LOCAL, LL_KERNEL_REFORMER};
    static const float counts[] = {1e6f, -3, 0.5f, NAN, 2e9f};
    make_numbers();
    for (int i = 0; i < 2; i++) {
        ll_attention_config c;
        ll_attention *op;
        size_t floats;
        assert_true(describe(&c, kernels[i], LL_POSITION_NONE, 1, 0));
        CHECK_OK(ll_attention_create(&op, &c));
        CHECK_OK(ll_attention_state_floats(op, &floats));
        tensors t = tensors_create(40, 9);
        float *in = calloc(2 * floats, sizeof *in);
        ll_attention_call call = rows_of(op, &t, 2, 20);
        call.state_in = in, call.saved = saved_for(op, &call);
        CHECK_OK(ll_attention_forward(op, &call));
        for (size_t n = 0; n < 2 * sizeof counts / sizeof *counts; n++) {
            char words[60];
            snprintf(words, sizeof words, "state_in of sequence %zu: tensor tokens holds", n % 2);
            in[n % 2 * floats] = counts[n / 2];
            CHECK_FAILS(ll_attention_forward(op, &call), LL_EINVAL, words);
            CHECK_FAILS(ll_attention_backward(op, &call), LL_EINVAL, words);
            in[n % 2 * floats] = 0;
        }
        free(in), free(call.saved);
        tensors_free(&t);
        ll_attention_free(op);
    }
}

/* So is the second number of keys, which the state has for a divisor that counts them. */
static void test_second_count_is_checked(void **state) {
    (void)state;
    static const float counts[] = {0.5f, NAN, -INFINITY, 2e10f};
    ll_attention_config c;
    ll_attention *op;
    size_t floats;
    make_numbers();
    assert_true(describe(&c, LL_KERNEL_RELU, LL_POSITION_NONE, 1, 0));
    c.den = LL_DEN_EPS_L, c.den_eps = 0.3f;
    CHECK_OK(ll_attention_create(&op, &c));
    CHECK_OK(ll_attention_state_floats(op, &floats));
    tensors t = tensors_create(20, 9);
    float *in = calloc(floats, sizeof *in);
    ll_attention_state_clear(op, in);
    ll_attention_call call = call_of(op, &t, 0, 20, 20);
    call.state_in = in;
    CHECK_OK(ll_attention_forward(op, &call));
    for (size_t n = 0; n < sizeof counts / sizeof *counts; n++) {
        in[floats - 1] = counts[n];
        CHECK_FAILS(ll_attention_forward(op, &call), LL_EINVAL, "keys besides 0; give what a call");
    }
    free(in);
    tensors_free(&t);
    ll_attention_free(op);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts_are_checked),
        cmocka_unit_test(test_second_count_is_checked),
        cmocka_unit_test(test_packed_rows_hand_on),
        cmocka_unit_test(test_empty_rows),
        cmocka_unit_test(test_long_rows),
        cmocka_unit_test(test_states_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
