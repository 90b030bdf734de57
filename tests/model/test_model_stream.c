/* Models as streams give the same numbers as the whole sequence, however it is divided. Tokens are sampled from
 * logits. */
#include "base/memory.h"
#include "longline-batch.h"
#include "model/stream/sample.h"
#include "models.h"

static const char *const variants[] = {
    "attention.kernel=relu position.type=permute position.decay=fixed attention.query-multiple=2",
    "attention.kernel=favor position.type=permute model.norm=post model.tied-embedding=off",
    "attention.kernel=favor attention.feature-eps=0.01 position.type=sinusoidal model.embedding-norm=on",
    "attention.kernel=softmax position.type=learned position.max-length=700 model.activation=relu",
    "attention.kernel=favor attention.features=hyperbolic attention.projection=hadamard position.type=permute",
    "attention.kernel=exp position.type=permute position.decay=fixed",
    "attention.kernel=relu attention.normalise=off position.decay=fixed model.final-norm=off model.norm=post",
    "attention.kernel=softmax position.type=rope",
    "attention.kernel=favor position.type=rope-linear",
    "attention.kernel=relu position.type=sine-spe position.realizations=8",
    "attention.kernel=favor position.type=conv-spe position.realizations=8 position.taps=9",
    "attention.kernel=relu position.type=relative-s1 position.scales=3",
    "attention.kernel=value position.type=sinusoidal",
    "attention.kernel=local attention.window=37 position.type=rope",
    "attention.kernel=softmax position.type=t5",
    "attention.kernel=relu position.type=orthogonal position.decay=fixed attention.normalise=off",
    "attention.kernel=softmax position.type=shaw position.shared=on position.clip=9",
    "attention.kernel=favor position.type=relative-s2 position.clip=4",
    "attention.kernel=softmax position.type=relative-s2 position.image=on position.width=7 position.height=9",
    "attention.kernel=softmax position.type=learned position.max-length=703 position.offset=3 model.bias=all "
    "model.activation=gelu-tanh model.head-bias=on",
    "attention.kernel=softmax position.type=rope position.base=500 position.rotary=4 position.scaling=3 "
    "model.norm=parallel "
    "model.norm-kind=rms model.activation=swiglu model.bias=qkv model.kv-heads=1",
    "attention.kernel=relu model.width=300 model.heads=3 model.ff=600 model.vocab=1500 model.init-std=0.05",
};
enum { VARIANTS = sizeof variants / sizeof *variants, T = 700 };

/* After each piece of random size, the logits are those of the whole sequence. */
static void check_cuts(ll_stream *stream, const int *tokens, const float *logp, int V, int most, uint64_t seed) {
    float *logits = calloc((size_t)V, sizeof *logits);
    double *expected = calloc((size_t)V, sizeof *expected);
    for (int t = 0, i = 0; t < T; i++) {
        int n = 1 + (int)ll_below((uint32_t)most, seed, 1, (uint64_t)i);
        if (n > T - t) n = T - t;
        CHECK_OK(ll_stream_feed(stream, tokens + t, n, logits));
        t += n;
        assert_int_equal(ll_stream_position(stream), t);
        double sum = 0;
        for (int v = 0; v < V; v++) sum += exp((double)logits[v]);
        for (int v = 0; v < V; v++) expected[v] = logp[(t - 1) * V + v] + log(sum);
        check_close("logits", (size_t)V, logits, expected, 5e-5);
    }
    free(logits);
    free(expected);
}

static void test_cuts(void **state) {
    (void)state;
    for (int i = 0; i < VARIANTS; i++) {
        ll_model *model = tiny_model(variants[i]);
        ll_stream *stream = NULL;
        const int V = model->c->model.vocab;
        int tokens[T];
        float *logp = calloc((size_t)T * (size_t)V, sizeof *logp);
        random_ints(tokens, T, V, 0, 6);
        CHECK_OK(ll_model_logp(model, logp, tokens, NULL, 1, T));
        CHECK_OK(ll_stream_create(&stream, model));
        check_cuts(stream, tokens, logp, V, 20, 1);
        ll_stream_reset(stream);
        assert_int_equal(ll_stream_position(stream), 0);
        check_cuts(stream, tokens, logp, V, 600, 2);
        ll_stream_free(stream);
        ll_model_free(model);
        free(logp);
    }
}

/* Products of single tokens, which are cut into slabs if they are large, have the same bits on any number of
 * threads. */
static void test_threads(void **state) {
    (void)state;
    static const int threads[] = {1, 2, 5};
    ll_model *model = tiny_model(variants[VARIANTS - 1]);
    float *first = calloc(1500, sizeof *first), *logits = calloc(1500, sizeof *logits);
    for (int i = 0; i < 3; i++) {
        ll_stream *stream = NULL;
        ll_set_threads(threads[i]);
        CHECK_OK(ll_stream_create(&stream, model));
        for (int t = 0; t < 6; t++) CHECK_OK(ll_stream_feed(stream, (const int[]){t}, 1, i ? logits : first));
        if (i) assert_memory_equal(first, logits, 1500 * sizeof *first);
        ll_stream_free(stream);
    }
    ll_set_threads(0);
    free(first);
    free(logits);
    ll_model_free(model);
}

/* The cost of a token: each weight of the blocks and the head once, and attention's state or keys. */
static void test_cost(void **state) {
    (void)state;
    ll_model *linear = tiny_model(variants[0]), *favor = tiny_model(variants[1]), *softmax = tiny_model(variants[3]);
    const double feed = 2 * 16 * 24, head = 16 * 11; /* heads of D x E: 16 x 8, 8 x 8, 8 x 8 */
    assert_true(ll_model_cost(linear, 9).multiply_adds == 2 * (16 * (2 * 32 + 2 * 16) + feed + 2 * 2 * 16 * 9) + head);
    assert_true(ll_model_cost(favor, 9).multiply_adds == 2 * (4 * 256 + feed + 2 * (2 * 12 * 9 + 2 * 12 * 8)) + head);
    assert_true(ll_model_cost(softmax, 9).multiply_adds == 2 * (4 * 256 + feed + 2 * 9 * 16) + head);
    assert_int_equal(ll_model_cost(linear, 5).stream_bytes, 2 * 2 * (17 * 8 + 16 + 4) * 8);
    assert_int_equal(ll_model_cost(softmax, 5).stream_bytes, 2 * 5 * 32 * 4);
    /* keys and values of one head for two heads of queries; a gated feed-forward layer */
    ll_model *grouped = tiny_model("attention.kernel=softmax model.kv-heads=1 model.activation=swiglu");
    const double weights = 16 * (16 + 8 + 8 + 16);
    assert_true(ll_model_cost(grouped, 9).multiply_adds == 2 * (weights + 1.5 * feed + 2 * 9 * 16) + head);
    ll_model_free(grouped);
    ll_model_free(linear);
    ll_model_free(favor);
    ll_model_free(softmax);
}

/* The approximate kernels: some have no projections, and all but softmax read a fixed number of tokens. */
static void test_cost_of_baselines(void **state) {
    (void)state;
    static const struct {
        const char *keys;
        int projections, T;
        double head; /* for heads of 8 x 8 */
    } cases[] = {
        {"attention.kernel=value", 0, 50, 0},
        {"attention.kernel=local attention.window=9", 2, 50, 9 * 16},
        {"attention.kernel=local attention.window=9", 2, 4, 4 * 16},
        {"model.task=classify attention.kernel=local attention.window=9", 2, 50, 17 * 16},
        {"model.task=classify attention.kernel=linformer attention.projected-length=5", 2, 50, 2 * 5 * 16},
        {"model.task=classify attention.kernel=nystrom attention.landmarks=4", 2, 50,
         2 * 4 * 16 + (24 * 64 + 16 * 16) / 50.0},
        {"model.task=classify attention.kernel=nystrom attention.landmarks=4", 2, 3, 3 * 16},
        {"attention.kernel=reformer attention.buckets=6 attention.chunk=4 attention.rounds=2", 1, 50,
         2 * (8 * 3 + 6 * 16)},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ll_model *model = tiny_model(cases[i].keys);
        const double head = model->c->model.task == LL_TASK_LM ? 16 * 11 : 0;
        const double layer = 256 * (cases[i].projections + 2) + 2 * 16 * 24 + 2 * cases[i].head;
        const double cost = ll_model_cost(model, cases[i].T).multiply_adds;
        if (fabs(cost - (2 * layer + head)) > 1e-9 * cost)
            fail_msg("%s: a token costs %g, not %g", cases[i].keys, cost, 2 * layer + head);
        ll_model_free(model);
    }
    ll_model *value = tiny_model(cases[0].keys), *local = tiny_model(cases[1].keys);
    assert_int_equal(ll_model_cost(value, 50).stream_bytes, 0);
    assert_int_equal(ll_model_cost(local, 50).stream_bytes, 2 * 9 * 32 * 4);
    ll_model_free(value);
    ll_model_free(local);
}

/* Feeding allocates nothing, and a stream of a linear kernel never grows. */
static void test_constant_memory(void **state) {
    (void)state;
    ll_model *model = tiny_model(variants[0]);
    ll_stream *stream = NULL;
    float logits[11];
    int tokens[512];
    random_ints(tokens, 512, 11, 0, 8);
    CHECK_OK(ll_stream_create(&stream, model));
    CHECK_OK(ll_stream_feed(stream, tokens, 1, logits));
    const size_t bytes = ll_stream_bytes(stream);
    assert_true(bytes > ll_model_cost(model, 1).stream_bytes);
    assert_int_equal(ll_model_cost(model, 1).stream_bytes, ll_model_cost(model, 1 << 20).stream_bytes);
    ll_memory_fail_at(1);
    for (int i = 0; i < 40; i++) CHECK_OK(ll_stream_feed(stream, tokens, i % 2 ? 512 : 1, logits));
    ll_memory_fail_at(0);
    assert_int_equal(ll_stream_bytes(stream), bytes);
    for (int v = 0; v < 11; v++) assert_true(isfinite(logits[v]));
    ll_stream_free(stream);
    ll_model_free(model);
}

/* Tokens that cannot be fed are refused, and the stream is unchanged. */
static void test_refusals(void **state) {
    (void)state;
    ll_model *classifier = tiny_model("model.task=classify"), *model = tiny_model(variants[3]);
    ll_stream *stream = NULL;
    float logits[11], again[11];
    int tokens[T] = {0};
    CHECK_FAILS(ll_stream_create(&stream, classifier), LL_EINVAL, "language models");
    assert_null(stream);
    CHECK_OK(ll_stream_create(&stream, model));
    CHECK_OK(ll_stream_feed(stream, tokens, 3, logits));
    CHECK_FAILS(ll_stream_feed(stream, (const int[]){1, 11}, 2, again), LL_EINVAL, "token 11");
    CHECK_FAILS(ll_stream_feed(stream, tokens, 0, again), LL_EINVAL, "at least 1");
    CHECK_FAILS(ll_stream_feed(stream, tokens, 698, again), LL_EINVAL, "700");
    assert_int_equal(ll_stream_position(stream), 3);
    assert_int_equal(ll_stream_left(stream), 697);
    CHECK_OK(ll_stream_feed(stream, tokens, 697, again));
    assert_int_equal(ll_stream_left(stream), 0);
    CHECK_FAILS(ll_stream_feed(stream, tokens, 1, again), LL_EINVAL, "700");
    /* Softmax keeps its keys. If memory for them is refused, the stream fails until it is reset. */
    ll_stream_free(stream);
    CHECK_OK(ll_stream_create(&stream, model));
    ll_memory_fail_at(1);
    assert_int_equal(ll_stream_feed(stream, tokens, 500, again), LL_ENOMEM);
    ll_memory_fail_at(0);
    CHECK_FAILS(ll_stream_feed(stream, tokens, 1, again), LL_EINVAL, "reset");
    ll_stream_reset(stream);
    CHECK_OK(ll_stream_feed(stream, tokens, 3, again));
    assert_memory_equal(again, logits, sizeof again);
    ll_stream_free(stream);
    ll_model_free(model);
    ll_model_free(classifier);
}

/* Learned positions are left for the text since the last separator. Others have no end. */
static void test_left(void **state) {
    (void)state;
    ll_model *model = tiny_model("attention.kernel=softmax position.type=learned position.max-length=9 "
                                 "position.offset=2 model.separator=3");
    ll_model *endless = tiny_model("attention.kernel=relu position.type=permute");
    ll_stream *stream = NULL;
    CHECK_OK(ll_stream_create(&stream, model));
    assert_int_equal(ll_stream_left(stream), 7);
    CHECK_OK(ll_stream_feed(stream, (const int[]){1, 2, 1, 2, 1, 2, 1}, 7, NULL));
    assert_int_equal(ll_stream_left(stream), 0);
    CHECK_OK(ll_stream_feed(stream, (const int[]){3, 1}, 2, NULL));
    assert_int_equal(ll_stream_left(stream), 5);
    /* A separator has the first position itself. */
    const int again[] = {1, 3, 1, 1, 1, 1, 1, 1, 1};
    CHECK_FAILS(ll_stream_feed(stream, again, 9, NULL), LL_EINVAL, "learned positions end at 7");
    CHECK_OK(ll_stream_feed(stream, again, 8, NULL));
    assert_int_equal(ll_stream_left(stream), 0);
    ll_stream_free(stream);
    CHECK_OK(ll_stream_create(&stream, endless));
    CHECK_OK(ll_stream_feed(stream, (const int[]){1, 2}, 2, NULL));
    assert_true(ll_stream_left(stream) == INT64_MAX);
    ll_stream_free(stream);
    ll_model_free(model);
    ll_model_free(endless);
}

/* How often each of V tokens is drawn in n draws. */
static void frequencies(const float *logits, int V, ll_sampling how, int n, double *share) {
    float copy[16];
    for (int v = 0; v < V; v++) share[v] = 0;
    for (int i = 0; i < n; i++) {
        memcpy(copy, logits, (size_t)V * sizeof *copy);
        const int token = ll_sample(copy, V, &how, i);
        assert_true(token >= 0 && token < V);
        share[token] += 1.0 / n;
    }
}

static void check_shares(const float *logits, ll_sampling how, const double *expected) {
    enum { N = 20000, V = 5 };
    double share[V];
    frequencies(logits, V, how, N, share);
    for (int v = 0; v < V; v++) {
        const double sigma = sqrt(expected[v] * (1 - expected[v]) / N);
        if (fabs(share[v] - expected[v]) > 4.5 * sigma + 1e-9)
            fail_msg("token %d: %g of the draws, expected %g", v, share[v], expected[v]);
    }
}

/* Tokens are drawn with their probabilities. Tokens that are cut are never drawn. */
static void test_sampling(void **state) {
    (void)state;
    float x[5];
    const double p[5] = {0.1, 0.4, 0.2, 0.25, 0.05};
    for (int v = 0; v < 5; v++) x[v] = (float)log(p[v]) + 3;
    ll_sampling how = ll_sampling_default();
    check_shares(x, how, p);
    how.temperature = 0.5f;
    check_shares(x, how, (const double[]){0.01 / 0.275, 0.16 / 0.275, 0.04 / 0.275, 0.0625 / 0.275, 0.0025 / 0.275});
    how = (ll_sampling){.temperature = 1, .top_k = 2, .top_p = 1, .seed = 3};
    check_shares(x, how, (const double[]){0, 0.4 / 0.65, 0, 0.25 / 0.65, 0});
    how = (ll_sampling){.temperature = 1, .top_p = 0.8f, .seed = 4};
    check_shares(x, how, (const double[]){0, 0.4 / 0.85, 0.2 / 0.85, 0.25 / 0.85, 0});
    how = (ll_sampling){.temperature = 1, .top_k = 3, .top_p = 0.7f, .seed = 4}; /* of those that top_k leaves */
    check_shares(x, how, (const double[]){0, 0.4 / 0.65, 0, 0.25 / 0.65, 0});
    check_shares(x, (ll_sampling){.temperature = 0, .top_p = 1}, (const double[]){0, 1, 0, 0, 0});
    check_shares(x, (ll_sampling){.temperature = 1, .top_k = 1, .top_p = 1}, (const double[]){0, 1, 0, 0, 0});
    check_shares(x, (ll_sampling){.temperature = 1, .top_p = 0}, (const double[]){0, 1, 0, 0, 0});
    check_shares(x, (ll_sampling){.temperature = 1e-30f, .top_p = 1}, (const double[]){0, 1, 0, 0, 0});
}

/* The part of [0, 1) that a token has begins with its first number, and ends before that of the next token. */
static void test_sampling_borders(void **state) {
    (void)state;
    const float weights[4] = {1, 0, 1, 2};
    const double u[5] = {0, 0.24, 0.25, 0.5, 0.99};
    const int token[5] = {0, 0, 2, 3, 3};
    for (int i = 0; i < 5; i++) assert_int_equal(ll_sample_at(weights, 4, 4, u[i]), token[i]);
}

/* Among equal values at the cut the first ones stay. NaN is never drawn. */
static void test_sampling_edges(void **state) {
    (void)state;
    const float equal[5] = {1, 1, 1, 1, 1}, strange[5] = {NAN, -INFINITY, 2, NAN, -3e38f};
    const float nothing[5] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY};
    check_shares(equal, (ll_sampling){.temperature = 1, .top_k = 2, .top_p = 1}, (const double[]){0.5, 0.5, 0, 0, 0});
    check_shares(equal, (ll_sampling){.temperature = 1, .top_p = 0.55f},
                 (const double[]){1 / 3.0, 1 / 3.0, 1 / 3.0, 0, 0});
    check_shares(equal, (ll_sampling){.temperature = 0, .top_p = 1}, (const double[]){1, 0, 0, 0, 0});
    check_shares(strange, ll_sampling_default(), (const double[]){0, 0, 1, 0, 0});
    check_shares(nothing, ll_sampling_default(), (const double[]){1, 0, 0, 0, 0});
    const float some[5] = {NAN, logf(0.5f), logf(0.3f), -NAN, logf(0.2f)}; /* the others keep their shares */
    check_shares(some, ll_sampling_default(), (const double[]){0, 0.5, 0.3, 0, 0.2});
    check_shares(some, (ll_sampling){.temperature = 1, .top_k = 2, .top_p = 1},
                 (const double[]){0, 0.625, 0.375, 0, 0});
    float one = -7, a[3] = {1, 2, 3}, b[3] = {1, 2, 3};
    ll_sampling how = {.temperature = 1, .top_k = 9, .top_p = 1, .seed = 1};
    assert_int_equal(ll_sample(&one, 1, &how, 5), 0);
    assert_int_equal(ll_sample(a, 3, &how, (int64_t)1 << 40), ll_sample(b, 3, &how, (int64_t)1 << 40));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuts),     cmocka_unit_test(test_constant_memory),
        cmocka_unit_test(test_refusals), cmocka_unit_test(test_threads),
        cmocka_unit_test(test_left),
        cmocka_unit_test(test_cost),     cmocka_unit_test(test_cost_of_baselines),
        cmocka_unit_test(test_sampling), cmocka_unit_test(test_sampling_edges),
        cmocka_unit_test(test_sampling_borders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
