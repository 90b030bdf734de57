/* The attention operator as a stream gives the same numbers as its definition and as one call, however the tokens are
 * divided into blocks. Settings that need later tokens are refused. */
#include "drawn.h"

/* Can it stream? Only if no output depends on later tokens. */
static int streams(const ll_attention_config *c) {
    const int whole = c->key_max == LL_MAX_SEQUENCE || c->key_max == LL_MAX_BATCH || c->query_max == LL_MAX_SEQUENCE;
    const int cancels = c->feature_eps == 0 && c->den == LL_DEN_SUM;
    return c->causal && !(c->kernel == LL_KERNEL_FAVOR && c->features != LL_FEATURES_GAUSSIAN && whole && !cancels);
}

static void test_streams_are_tiles(void **state) {
    (void)state;
    uint64_t seed = 21;
    int ran = 0;
    for (int n = 0; n < rounds(400); n++) {
        ll_attention_config c = draw_config(&seed);
        ll_attention *op;
        ll_attention_stream *s;
        CHECK_OK(ll_attention_create(&op, &c));
        if (!streams(&c)) {
            CHECK_FAILS(ll_attention_stream_create(&s, op, 1), LL_EINVAL, "");
            draw_config_free(&c);
            ll_attention_free(op);
            continue;
        }
        const int T = draw_int(&seed, 1, draw_int(&seed, 0, 3) ? 40 : 200), B = draw_int(&seed, 1, 3);
        drawn *d = drawn_create(c, B, T, T, 0.8, draw_int(&seed, 0, 1) * DRAW_TOKEN_MAJOR, &seed);
        drawn_solve(d, 0);
        CHECK_OK(ll_attention_stream_create(&s, op, B));
        for (int pass = 0; pass < 3; pass++) {
            ll_set_threads(pass == 1 ? 2 : 1);
            drawn_forget(d, &d->call.y);
            drawn_feed(d, s, 1, pass == 0 ? 1 : pass == 1 ? 7 : T, &seed);
            drawn_check(d, pass ? "stream in blocks" : "stream of single tokens", 0, 1e-5, 0);
            ll_attention_stream_reset(s);
        }
        ll_attention_stream_free(s);
        ll_attention_free(op);
        drawn_free(d);
        ran++;
    }
    ll_set_threads(0);
    assert_in_range(ran, rounds(100), rounds(400));
}

/* Softmax keeps all keys and values. The state of every other kernel has a size that does not depend on the length. */
static void test_state_does_not_grow(void **state) {
    (void)state;
    uint64_t seed = 22;
    ll_attention_config c = {.kernel = LL_KERNEL_RELU, .H = 2, .D = 8, .E = 8, .causal = 1, .input_scale = 1};
    c.feature_eps = 1e-3f;
    c.position = LL_POSITION_PERMUTE;
    draw_parts(&c, 1, &seed);
    ll_attention *op;
    ll_attention_stream *s;
    drawn *d = drawn_create(c, 1, 500, 500, 0.8, 0, &seed);
    CHECK_OK(ll_attention_create(&op, &c));
    CHECK_OK(ll_attention_stream_create(&s, op, 1));
    drawn_feed(d, s, 1, 10, &seed);
    const size_t bytes = ll_attention_stream_bytes(s);
    for (int i = 0; i < 20; i++) drawn_feed(d, s, 1, 10, &seed);
    assert_in_range(bytes, 2 * 8 * 9 * sizeof(double), 100000);
    assert_int_equal(ll_attention_stream_bytes(s), bytes);
    ll_attention_stream_free(s);
    ll_attention_free(op);
    drawn_free(d);
}

/* Errors do not grow in a long stream: under decay, the last 400 of 20000 tokens equal those of a stream that starts
 * there, since earlier tokens have decayed. */
static void test_error_of_long_streams_does_not_grow(void **state) {
    (void)state;
    uint64_t seed = 23;
    ll_attention_config c = {.kernel = LL_KERNEL_RELU, .H = 1, .D = 6, .E = 5, .causal = 1, .input_scale = 1};
    c.feature_eps = 1e-3f;
    draw_parts(&c, 1, &seed);
    ((float *)c.decay)[0] = 0.9f;
    ll_attention *op;
    ll_attention_stream *s;
    drawn *d = drawn_create(c, 1, 400, 400, 0.8, 0, &seed);
    CHECK_OK(ll_attention_create(&op, &c));
    CHECK_OK(ll_attention_stream_create(&s, op, 1));
    for (int i = 0; i < 50; i++) drawn_feed(d, s, 1, 400, &seed);
    drawn_solve(d, 0);
    const float *y = drawn_packed(d, &d->call.y, 400, c.E);
    check_close("last tokens", 100 * 5, y + 300 * 5, d->y + 300 * 5, 1e-5);
    ll_attention_stream_free(s);
    ll_attention_free(op);
    drawn_free(d);
}

/* Many streams share scratch: a lean one has none, however many threads there are, though it consists of others. */
static void test_lean_streams(void **state) {
    (void)state;
    static const ll_position positions[] = {LL_POSITION_NONE, LL_POSITION_ROPE_LINEAR, LL_POSITION_RELATIVE_S2};
    static const float rpe[17 * 8];
    for (int i = 0; i < 3; i++) {
        ll_attention_config c = {.kernel = LL_KERNEL_RELU, .causal = 1, .H = 4, .D = 8, .E = 8, .input_scale = 1};
        size_t bytes[2];
        ll_attention *op;
        c.position = positions[i];
        c.encoding = (ll_position_config){.clip = 16, .axes = 1, .keyless = 2, .rpe = rpe};
        CHECK_OK(ll_attention_create(&op, &c));
        for (int many = 0; many < 2; many++) {
            ll_attention_stream *s;
            ll_set_threads(many ? 16 : 1);
            CHECK_OK(ll_attention_stream_create_lean(&s, op, 1));
            bytes[many] = ll_attention_stream_bytes(s);
            ll_attention_stream_free(s);
        }
        ll_set_threads(0);
        assert_int_equal(bytes[0], bytes[1]);
        ll_attention_free(op);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_streams_are_tiles),
        cmocka_unit_test(test_state_does_not_grow),
        cmocka_unit_test(test_error_of_long_streams_does_not_grow),
        cmocka_unit_test(test_lean_streams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
