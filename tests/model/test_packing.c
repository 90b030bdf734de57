/* Documents in packed rows (model.separator): each gives the same bits as alone, and none sees another. */
#include "models.h"

enum { B = 2, T = 40, V = 11, SEPARATOR = 10 };

#define PACKED "model.separator=10 "
static const char *const variants[] = {
    PACKED "attention.kernel=softmax position.type=rope",
    PACKED "attention.kernel=softmax position.type=learned position.max-length=40 model.norm=post",
    PACKED "attention.kernel=relu position.type=permute position.decay=fixed",
    PACKED "attention.kernel=favor position.type=sinusoidal model.embedding-norm=on",
    PACKED "attention.kernel=favor position.type=permute position.decay=fixed attention.feature-eps=0.01",
    PACKED "attention.kernel=elu1 position.type=rope-linear",
    PACKED "attention.kernel=relu position.type=sine-spe position.realizations=6 position.sines=2",
    PACKED "attention.kernel=favor position.type=conv-spe position.realizations=5 position.taps=3",
    PACKED "attention.kernel=favor position.type=relative-s1 position.scales=2",
    PACKED "attention.kernel=favor position.type=relative-s2 position.clip=3",
    PACKED "attention.kernel=softmax position.type=relative-s2 position.clip=2",
    PACKED "attention.kernel=softmax position.type=t5",
    PACKED "attention.kernel=softmax position.type=shaw position.clip=3 position.values=on",
    /* Rotated features have both signs. A divisor near zero would magnify rounding. */
    PACKED "attention.kernel=relu attention.normalise=off position.type=orthogonal",
    PACKED "attention.kernel=local attention.window=4 position.type=rope",
    PACKED "attention.kernel=value",
    PACKED "attention.kernel=reformer attention.buckets=4 attention.chunk=3 attention.rounds=2 position.type=rope",
};
enum { VARIANTS = sizeof variants / sizeof *variants };

/* Tokens without a separator, to which some are added: two in a row, one at the start of row 1, one at an end. */
static void make_tokens(int *tokens) {
    static const int at[] = {5, 17, 18, 39, 40, 63};
    random_ints(tokens, B * T, V - 1, 0, 3);
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) tokens[at[i]] = SEPARATOR;
}

/* The documents of a row: where each begins, their number *count, and where the row ends. */
static void documents(const int *tokens, int length, int *first, int *count) {
    *count = 0;
    for (int t = 0; t < length; t++)
        if (t == 0 || tokens[t] == SEPARATOR) first[(*count)++] = t;
    first[*count] = length;
}

static void test_documents_are_alone(void **state) {
    (void)state;
    const int lengths[B] = {T, 33};
    for (int v = 0; v < VARIANTS; v++) {
        ll_model *model = tiny_model(variants[v]);
        int tokens[B * T], changed[B * T], first[T + 1], count;
        float logp[B * T * V], other[B * T * V];
        make_tokens(tokens);
        CHECK_OK(ll_model_logp(model, logp, tokens, lengths, B, T));
        for (int b = 0; b < B; b++) {
            documents(tokens + b * T, lengths[b], first, &count);
            assert_true(count >= 2);
            for (int i = 0; i < count; i++) {
                const int at = b * T + first[i], n = first[i + 1] - first[i];
                CHECK_OK(ll_model_logp(model, other, tokens + at, NULL, 1, n));
                assert_memory_equal(logp + at * V, other, (size_t)(n * V) * sizeof *logp);
                /* with another document in its place all others are unchanged */
                memcpy(changed, tokens, sizeof changed);
                for (int t = at; t < at + n; t++)
                    if (changed[t] != SEPARATOR) changed[t] = (changed[t] + 1) % SEPARATOR;
                CHECK_OK(ll_model_logp(model, other, changed, lengths, B, T));
                assert_memory_equal(logp, other, (size_t)(at * V) * sizeof *logp);
                assert_memory_equal(logp + (at + n) * V, other + (at + n) * V,
                                    (size_t)((B * T - at - n) * V) * sizeof *logp);
                if (n > 1) assert_memory_not_equal(logp + at * V, other + at * V, (size_t)(n * V) * sizeof *logp);
            }
        }
        ll_model_free(model);
    }
}

/* Loss and gradients are the sums over the documents alone, with the same bits on any number of threads. */
static void test_gradients_add_up(void **state) {
    (void)state;
    for (int v = 0; v < VARIANTS; v++) {
        ll_model *model = tiny_model(variants[v]);
        ll_workspace *ws = NULL;
        int tokens[B * T], targets[B * T], lengths[B] = {T, 33}, first[T + 1], count;
        float *grad = calloc(model->size, sizeof *grad), *part = calloc(model->size, sizeof *part);
        double *sum = calloc(model->size, sizeof *sum);
        ll_tally whole = {0}, parts = {0};
        make_tokens(tokens);
        random_ints(targets, B * T, V, 1, 9);
        CHECK_OK(ll_workspace_create(&ws, model, B, T, 1));
        ll_set_threads(3);
        ll_batch in = {.B = B, .T = T, .tokens = tokens, .targets = targets, .lengths = lengths};
        CHECK_OK(ll_model_run(model, ws, &in, grad, 1, 0, &whole));
        ll_set_threads(1);
        memset(&whole, 0, sizeof whole);
        CHECK_OK(ll_model_run(model, ws, &in, part, 1, 0, &whole));
        assert_memory_equal(part, grad, model->size * sizeof *grad);
        for (int b = 0; b < B; b++) {
            documents(tokens + b * T, lengths[b], first, &count);
            for (int i = 0; i < count; i++) {
                const int at = b * T + first[i], n = first[i + 1] - first[i];
                in = (ll_batch){.B = 1, .T = n, .tokens = tokens + at, .targets = targets + at};
                memset(part, 0, model->size * sizeof *part);
                CHECK_OK(ll_model_run(model, ws, &in, part, 1, 0, &parts));
                for (size_t e = 0; e < model->size; e++) sum[e] += (double)part[e];
            }
        }
        const float loss = (float)whole.loss;
        check_close(variants[v], 1, &loss, &parts.loss, 1e-6);
        assert_int_equal(whole.count, parts.count);
        assert_int_equal(whole.correct, parts.correct);
        for (int i = 0; i < model->count; i++) {
            const ll_param *p = &model->param[i];
            check_close(p->name, (size_t)p->rows * (size_t)p->cols, grad + p->offset, sum + p->offset, 2e-5);
        }
        free(grad), free(part), free(sum);
        ll_workspace_free(ws);
        ll_model_free(model);
    }
}

/* A stream begins anew at a separator, wherever blocks end. */
static void test_streams(void **state) {
    (void)state;
    static const int cuts[] = {1, 7, T};
    for (int v = 0; v < VARIANTS; v++) {
        ll_model *model = tiny_model(variants[v]);
        ll_stream *stream = NULL;
        int tokens[B * T];
        float logp[T * V], logits[V];
        make_tokens(tokens);
        CHECK_OK(ll_stream_create(&stream, model));
        CHECK_OK(ll_model_logp(model, logp, tokens, NULL, 1, T));
        for (int c = 0; c < 3; c++) {
            ll_stream_reset(stream);
            for (int t = 0; t < T; t += cuts[c]) {
                const int n = T - t < cuts[c] ? T - t : cuts[c];
                double wanted[V], sum = 0;
                CHECK_OK(ll_stream_feed(stream, tokens + t, n, logits));
                for (int i = 0; i < V; i++) sum += exp((double)logits[i]);
                for (int i = 0; i < V; i++) {
                    wanted[i] = (double)logp[(t + n - 1) * V + i];
                    logits[i] -= (float)log(sum);
                }
                check_close(variants[v], V, logits, wanted, 2e-5);
                assert_int_equal(ll_stream_position(stream), t + n);
            }
        }
        ll_stream_free(stream);
        ll_model_free(model);
    }
}

/* Learned positions count from each separator, so all documents together may be longer than the table. */
static void test_learned_positions(void **state) {
    (void)state;
    ll_model *model = tiny_model(PACKED "position.type=learned position.max-length=4");
    ll_stream *stream = NULL;
    static const int tokens[] = {1, 2, 3, 10, 4, 5, 6, 10, 10}, long_last[] = {1, 2, 3, 4, 10, 5, 6, 7, 8};
    float logits[V], logp[9 * V], fed[9];
    double expected[9];
    CHECK_OK(ll_stream_create(&stream, model));
    CHECK_OK(ll_stream_score(stream, fed, tokens, 9));
    CHECK_OK(ll_model_score(model, logp, tokens, NULL, 1, 9));
    for (int t = 0; t < 9; t++) expected[t] = (double)fed[t];
    check_close("scores", 9, logp, expected, 2e-5);
    CHECK_OK(ll_model_logp(model, logp, tokens, NULL, 1, 9));
    CHECK_OK(ll_model_encode(model, -1, LL_EMBED_MEAN, logp, tokens, NULL, 1, 9));
    CHECK_OK(ll_model_score(model, logp, long_last, (const int[]){8}, 1, 9));
    CHECK_FAILS(ll_model_score(model, logp, long_last, NULL, 1, 9), LL_EINVAL, "5 tokens, but the model has learned");
    ll_stream_reset(stream);
    CHECK_OK(ll_stream_feed(stream, tokens, 9, logits));
    CHECK_OK(ll_stream_feed(stream, (const int[]){1, 2, 3}, 3, logits));
    CHECK_FAILS(ll_stream_feed(stream, (const int[]){1, 10}, 2, logits), LL_EINVAL, "max-length");
    CHECK_OK(ll_stream_feed(stream, (const int[]){10, 1}, 2, logits));
    ll_stream_free(stream);
    ll_model_free(model);
}

static void test_refusals(void **state) {
    (void)state;
    static const char *const bad[][2] = {
        {"model.separator=3 model.task=classify", "model.task=lm"},
        {"model.separator=3 model.task=seq2seq", "model.task=lm"},
        {"model.separator=11", "model.vocab = 11"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ll_recipe *recipe = tiny_recipe(bad[i][0]);
        ll_model *model = NULL;
        CHECK_FAILS(ll_model_create(&model, recipe), LL_EINVAL, bad[i][1]);
        ll_recipe_free(recipe);
    }
}

/* Documents of a batch are counted by an int. */
static void test_too_many_documents(void **state) {
    (void)state;
    ll_model *m = tiny_model("attention.kernel=relu model.layers=1 model.separator=10");
    size_t bytes = 0;
    CHECK_OK(ll_workspace_measure(&bytes, m, 1, 1 << 30, 1, 1));
    assert_true(bytes > 0);
    CHECK_FAILS(ll_workspace_measure(&bytes, m, 2, 1 << 30, 1, 1), LL_EINVAL, "with model.separator");
    ll_model_free(m);
    m = tiny_model("attention.kernel=relu model.layers=1");
    CHECK_OK(ll_workspace_measure(&bytes, m, 2, 1 << 30, 1, 1));
    ll_model_free(m);
}

int main(void) {
    ll_set_threads(1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_documents_are_alone),
        cmocka_unit_test(test_gradients_add_up),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_learned_positions),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_too_many_documents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
