/* Streams against the definition in double (oracle.c). However tokens are divided among calls, the bits are the same,
 * and nothing grows. */
#include "base/memory.h"
#include "drawn.h"

static int streams(const ll_attention_config *c) {
    const int later = c->key_max == LL_MAX_SEQUENCE || c->key_max == LL_MAX_BATCH || c->query_max == LL_MAX_SEQUENCE;
    return c->causal && !(c->kernel == LL_KERNEL_FAVOR && later);
}

/* For every kernel, rule, divisor and decay a stream gives the definition. In whole blocks and token by token, after a
 * reset, and on another number of threads it has the same bits. */
static void test_definition(void **state) {
    (void)state;
    uint64_t seed = 11;
    for (int n = 0, ran = 0; ran < 250; n++) {
        ll_attention_config c = draw_config(&seed);
        c.causal = streams(&c) ? 1 : c.causal;
        if (!streams(&c)) {
            draw_config_free(&c);
            continue;
        }
        ran++;
        const int T = draw_int(&seed, 1, 70);
        const int how = draw_int(&seed, 0, 1) * DRAW_TOKEN_MAJOR, B = draw_int(&seed, 1, 3);
        drawn *d = drawn_create(c, B, T, T, 0.8, how, &seed);
        drawn_solve(d, 0);
        ll_attention *op;
        ll_attention_stream *s;
        CHECK_OK(ll_attention_create(&op, &d->config));
        CHECK_OK(ll_attention_stream_create(&s, op, d->call.B));
        const size_t count = (size_t)(d->call.B * c.H * T * c.E);
        float *first = malloc(count * sizeof *first);
        static const int most[] = {1, 40, 3}, threads[] = {2, 1, 5};
        for (int way = 0; way < 3; way++) {
            char what[40];
            snprintf(what, sizeof what, "stream case %d, way %d", n, way);
            drawn_forget(d, &d->call.y);
            ll_set_threads(threads[way]);
            drawn_feed(d, s, most[way] > 3 ? 0 : 1, most[way], &seed);
            drawn_check(d, what, 0, 1e-5, 0);
            const float *y = drawn_packed(d, &d->call.y, T, c.E);
            if (way == 0) memcpy(first, y, count * sizeof *first);
            if (memcmp(first, y, count * sizeof *first)) fail_msg("%s: other bits: %s", what, drawn_name(d));
            ll_attention_stream_reset(s);
        }
        free(first);
        ll_attention_stream_free(s);
        ll_attention_free(op);
        drawn_free(d);
    }
    ll_set_threads(0);
}

enum { JUMPS, GROWS, SHRINKS, DROPS };

/* Key t, made from random x. DROPS: one small key, then large ones. Their features are e^-100 of the first one's, so
 * they matter only when that has decayed. */
static float steep(int kind, int t, float x) {
    switch (kind) {
    case JUMPS: return t % 7 == 6 ? 12 * x : x;
    case GROWS: return (0.1f + 0.2f * (float)t) * x;
    case SHRINKS: return (12 - 0.2f * (float)t) * x;
    default: return t ? 7 + 0.1f * x : 0.1f * x;
    }
}

/* Keys whose features differ by factors of e^100. The running exponent follows them, up and down. */
static void test_steep_keys(void **state) {
    (void)state;
    uint64_t seed = 12;
    for (int n = 0; n < 40; n++) {
        ll_attention_config c = {.kernel = LL_KERNEL_FAVOR, .causal = 1, .H = 2, .D = 6, .E = 5, .M = 12};
        c.input_scale = 1;
        if (n & 1) c.feature_eps = 1e-4f, c.query_max = LL_MAX_TOKEN;
        draw_parts(&c, n & 2, &seed);
        const int kind = n / 4 % 4, T = kind == DROPS ? 600 : 60;
        for (int h = 0; kind == DROPS && c.decay && h < 2; h++) ((float *)c.decay)[h] = 0.7f; /* 2^-300 at the end */
        drawn *d = drawn_create(c, 1, T, T, 0.5, 0, &seed);
        for (size_t i = 0; i < (size_t)(c.H * T * c.D); i++) {
            const int t = (int)(i / (size_t)c.D) % T, h = (int)(i / (size_t)(T * c.D)), e = (int)(i % (size_t)c.D);
            float *k = d->call.k.data + (size_t)h * d->call.k.head + (size_t)t * d->call.k.token + e;
            d->o.k[i] = (double)(*k = steep(kind, t, *k));
        }
        drawn_solve(d, 0);
        ll_attention *op;
        ll_attention_stream *s;
        CHECK_OK(ll_attention_create(&op, &d->config));
        CHECK_OK(ll_attention_stream_create(&s, op, 1));
        drawn_feed(d, s, 0, 5, &seed);
        char what[40];
        snprintf(what, sizeof what, "steep keys %d", n);
        drawn_check(d, what, 0, 1e-4, 0);
        drawn_run(d, n % 3 ? 16 : 0, 0); /* the exponents of tiles follow, too */
        drawn_check(d, what, 0, 1e-4, 0);
        ll_attention_stream_free(s);
        ll_attention_free(op);
        drawn_free(d);
    }
}

static void stretch(const ll_view *x, int D, int t, float length) {
    float *row = ll_at(x, (size_t)t), square = 0;
    for (int e = 0; e < D; e++) square += row[e] * row[e];
    for (int e = 0; e < D; e++) row[e] *= length / sqrtf(square);
}

/* Rows of tiles and of a stream, as far apart as `within`, whose values are at least 0.1: no weight is lost, and the
 * first row is its value. */
static void check_far(drawn *d, const char *what, float within, float *y, uint64_t *seed) {
    const int T = d->call.T, E = d->config.E;
    drawn_run(d, 16, 0);
    memcpy(y, drawn_packed(d, &d->call.y, T, E), (size_t)(T * E) * sizeof *y);
    ll_attention *op;
    ll_attention_stream *s;
    CHECK_OK(ll_attention_create(&op, &d->config));
    if (d->config.causal) {
        CHECK_OK(ll_attention_stream_create(&s, op, 1));
        drawn_feed(d, s, 0, 5, seed);
        ll_attention_stream_free(s);
    }
    ll_attention_free(op);
    for (int i = 0; i < T * E; i++) {
        const float stream = ll_at(&d->call.y, (size_t)(i / E))[i % E];
        const int first = d->config.causal && i < E && !(fabsf(y[i] - d->call.v.data[i]) < 1e-5f);
        if (!(y[i] > 0.0999f && fabsf(y[i] - stream) < within) || first)
            fail_msg("%s: y[%d] is %g, of a stream %g", what, i, (double)y[i], (double)stream);
    }
}

/* Vectors that are too long for their exponents: all keys, the first of which is seen alone; or a query, and a key
 * among others, whose weight is e^-45000 or less, so that its length changes nothing. */
static void test_far_vectors(void **state) {
    (void)state;
    enum { T = 40, D = 6, E = 3 };
    uint64_t seed = 17;
    for (int n = 0; n < 16; n++) {
        ll_attention_config c = {.kernel = LL_KERNEL_FAVOR, .causal = n < 12, .H = 1, .D = D, .E = E, .M = 32};
        c.input_scale = 1, c.position = n & 1 ? LL_POSITION_PERMUTE : LL_POSITION_NONE;
        if (n / 4 == 1) c.feature_eps = 1e-4f, c.query_max = LL_MAX_TOKEN;
        draw_parts(&c, n / 4 == 2, &seed);
        drawn *d = drawn_create(c, 1, T, T, 0.5, 0, &seed);
        for (int i = 0; i < T * E; i++) {
            float *v = ll_at(&d->call.v, (size_t)(i / E)) + i % E;
            *v = 0.1f + fabsf(*v);
        }
        float y[T * E], near[T * E];
        for (float length = 300; length < 1e15f; length *= length < 1e5f ? 10 : 1e5f) {
            char what[40];
            snprintf(what, sizeof what, "far vectors %d, %g", n, (double)length);
            for (int t = 0; t < T; t++)
                if (t == 4 || n & 2) stretch(&d->call.k, D, t, length);
            if (!(n & 2) && c.feature_eps == 0) stretch(&d->call.q, D, 9, length);
            const float within = n & 2 && c.feature_eps > 0 ? 1 : 1e-5f; /* the weight of eps has few digits */
            check_far(d, what, within, length < 1000 ? near : y, &seed);
            for (int i = 0; i < T * E && !(n & 2) && length > 1000; i++)
                if (i / E != 9 && !(fabsf(y[i] - near[i]) < 1e-5f)) fail_msg("%s: y[%d] is %g", what, i, (double)y[i]);
        }
        drawn_free(d);
    }
}

static void test_far_trigonometric_features(void **state) {
    (void)state;
    uint64_t seed = 18;
    ll_attention_config c = {.kernel = LL_KERNEL_FAVOR, .causal = 1, .H = 1, .D = 6, .E = 3, .M = 32, .input_scale = 1};
    c.features = LL_FEATURES_TRIGONOMETRIC;
    draw_parts(&c, 0, &seed);
    drawn *d = drawn_create(c, 1, 20, 20, 0.5, 0, &seed);
    stretch(&d->call.q, 6, 9, 3e4f), stretch(&d->call.k, 6, 4, 3e5f);
    drawn_run(d, 16, 0);
    const float *y = drawn_packed(d, &d->call.y, 20, 3);
    for (int i = 0; i < 20 * 3; i++) assert_true(isfinite(y[i]) && y[i] != 0);
    drawn_free(d);
}

/* Random tokens without end, made from few numbers. */
typedef struct {
    float q[64], k[64], v[64], y[64];
} token;
static void feed_token(ll_attention_stream *s, const ll_attention_config *c, token *x, uint64_t *seed) {
    const size_t D = (size_t)c->D, E = (size_t)c->E, H = (size_t)c->H;
    for (size_t i = 0; i < D * H; i++) x->q[i] = (float)draw_uniform(seed), x->k[i] = (float)draw_uniform(seed);
    for (size_t i = 0; i < E * H; i++) x->v[i] = (float)draw_uniform(seed);
    CHECK_OK(ll_attention_stream_feed(s, 1, (ll_view){x->q, D * H, D, D * H}, (ll_view){x->k, D * H, D, D * H},
                                      (ll_view){x->v, E * H, E, E * H}, (ll_view){0},
                                      (ll_view){x->y, E * H, E, E * H}));
}

/* A linear stream allocates nothing and does not grow, and its output stays a mean of the values. */
static void test_constant_size(void **state) {
    (void)state;
    uint64_t seed = 13;
    for (int kind = 0; kind < 3; kind++) {
        ll_attention_config c = {.kernel = kind ? LL_KERNEL_FAVOR : LL_KERNEL_RELU, .causal = 1, .H = 2};
        c.D = c.E = 8, c.M = kind ? 16 : 0, c.input_scale = 1, c.position = LL_POSITION_PERMUTE, c.feature_eps = 1e-3f;
        c.query_max = LL_MAX_TOKEN;
        draw_parts(&c, kind == 2, &seed);
        ll_attention *op;
        ll_attention_stream *s;
        CHECK_OK(ll_attention_create(&op, &c));
        CHECK_OK(ll_attention_stream_create(&s, op, 1));
        token x;
        feed_token(s, &c, &x, &seed);
        const size_t bytes = ll_attention_stream_bytes(s);
        ll_memory_fail_at(1);
        const int tokens = getenv("LL_FAST") ? 2000 : 30000;
        for (int t = 1; t < tokens; t++) feed_token(s, &c, &x, &seed);
        ll_memory_fail_at(0);
        assert_int_equal(ll_attention_stream_bytes(s), bytes);
        for (int e = 0; e < 16; e++)
            if (!(x.y[e] > 0 && x.y[e] < 1))
                fail_msg("kind %d: y[%d] is %g, not a mean of values", kind, e, (double)x.y[e]);
        ll_attention_stream_free(s);
        ll_attention_free(op);
        draw_config_free(&c);
    }
}

/* Softmax doubles its memory when it is full. If memory is refused, the stream is unchanged. */
static void test_growth(void **state) {
    (void)state;
    uint64_t seed = 14, again;
    ll_attention_config c = ll_attention_default();
    c.H = 2, c.D = c.E = 8;
    ll_attention *op;
    ll_attention_stream *s;
    CHECK_OK(ll_attention_create(&op, &c));
    CHECK_OK(ll_attention_stream_create(&s, op, 1));
    const size_t bytes = ll_attention_stream_bytes(s);
    token x, y;
    for (int t = 0; t < 256; t++) feed_token(s, &c, &x, &seed);
    again = seed;
    for (int n = 1; n < 3; n++) {
        ll_memory_fail_at(n);
        ll_view none = {x.q, 16, 8, 16};
        const ll_status status =
            ll_attention_stream_feed(s, 1, none, none, none, (ll_view){0}, (ll_view){y.y, 16, 8, 16});
        ll_memory_fail_at(0);
        assert_int_equal(status, LL_ENOMEM);
    }
    feed_token(s, &c, &x, &seed);
    assert_true(ll_attention_stream_bytes(s) > bytes);
    ll_attention_stream_reset(s); /* the same tokens without a failure */
    seed = 14;
    for (int t = 0; t < 256; t++) feed_token(s, &c, &y, &seed);
    assert_int_equal(seed, again);
    feed_token(s, &c, &y, &seed);
    assert_memory_equal(x.y, y.y, 16 * sizeof(float));
    ll_attention_stream_free(s);
    ll_attention_free(op);
}

static void test_refusals(void **state) {
    (void)state;
    uint64_t seed = 15;
    ll_attention_config c = {.kernel = LL_KERNEL_FAVOR, .causal = 1, .H = 1, .D = 4, .E = 4, .M = 8, .input_scale = 1};
    c.feature_eps = 1e-4f, c.query_max = LL_MAX_TOKEN;
    draw_parts(&c, 0, &seed);
    ll_attention *op;
    ll_attention_stream *s = NULL;
    static const ll_max rules[] = {LL_MAX_SEQUENCE, LL_MAX_BATCH};
    static const char *const names[] = {"sequence", "batch"};
    for (int i = 0; i < 2; i++) {
        c.key_max = rules[i];
        CHECK_OK(ll_attention_create(&op, &c));
        CHECK_FAILS(ll_attention_stream_create(&s, op, 1), LL_EINVAL, names[i]);
        ll_attention_free(op);
    }
    c.feature_eps = 0; /* without it the rule changes nothing */
    CHECK_OK(ll_attention_create(&op, &c));
    CHECK_OK(ll_attention_stream_create(&s, op, 1));
    ll_attention_stream_free(s);
    s = NULL;
    CHECK_FAILS(ll_attention_stream_create(&s, op, 0), LL_EINVAL, "at least 1");
    ll_attention_free(op);
    c.causal = 0;
    CHECK_OK(ll_attention_create(&op, &c));
    CHECK_FAILS(ll_attention_stream_create(&s, op, 1), LL_EINVAL, "not causal");
    assert_null(s);
    ll_attention_free(op);
    c.causal = 1;
    CHECK_OK(ll_attention_create(&op, &c));
    for (int n = 1; n < 4; n++) { /* memory is refused at every place */
        ll_memory_fail_at(n);
        const ll_status status = ll_attention_stream_create(&s, op, 2);
        ll_memory_fail_at(0);
        assert_int_equal(status, LL_ENOMEM);
    }
    ll_attention_free(op);
    draw_config_free(&c);
    ll_attention_stream_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_definition), cmocka_unit_test(test_steep_keys), cmocka_unit_test(test_constant_size),
        cmocka_unit_test(test_growth),     cmocka_unit_test(test_refusals),   cmocka_unit_test(test_far_vectors),
        cmocka_unit_test(test_far_trigonometric_features),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
