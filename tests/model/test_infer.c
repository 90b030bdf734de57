/* Scores and embeddings against ll_model_logp and their definitions. No result depends on the other sequences or on
 * threads. */
#include "base/memory.h"
#include "models.h"

static const char *const variants[] = {
    "attention.kernel=softmax",
    "attention.kernel=softmax model.norm=post model.tied-embedding=off position.type=sinusoidal",
    ("attention.kernel=softmax position.type=learned position.max-length=1100 model.embedding-norm=on "
     "model.final-norm=off"),
    "attention.kernel=relu position.type=permute position.decay=fixed attention.query-multiple=3",
    "attention.kernel=favor position.type=permute model.norm=post",
    "attention.kernel=favor attention.feature-eps=0.01 position.type=rope",
    "attention.kernel=relu position.type=sine-spe position.realizations=6 position.sines=2",
    "attention.kernel=relu model.width=300 model.heads=3 model.ff=520 model.layers=1 model.vocab=300",
};
static const char *const classifiers[] = {
    "model.task=classify attention.kernel=softmax model.norm=post",
    "model.task=classify attention.kernel=relu position.type=permute model.pool=first",
    "model.task=classify attention.kernel=favor model.width=300 model.heads=3 model.ff=520 model.layers=1",
};
enum { VARIANTS = sizeof variants / sizeof *variants, CLASSIFIERS = sizeof classifiers / sizeof *classifiers };
enum { B = 5, T = 23, WIDE = 520 };
static const int lengths[B] = {23, 1, 0, 22, 9};

static int *tokens_of(const ll_model *m, int n, uint64_t seed) {
    int *tokens = calloc((size_t)n, sizeof *tokens);
    random_ints(tokens, n, m->c->model.vocab, 0, seed);
    return tokens;
}

static float *scores_of(ll_model *m, const int *tokens, const int *of, int rows, int columns) {
    float *logp = calloc((size_t)(rows * columns), sizeof *logp);
    for (int i = 0; i < rows * columns; i++) logp[i] = NAN;
    CHECK_OK(ll_model_score(m, logp, tokens, of, rows, columns));
    return logp;
}

/* A score has the bits of ll_model_logp's number for the next token, and 0 where nothing is predicted. */
static void test_scores(void **state) {
    (void)state;
    for (int v = 0; v < VARIANTS; v++) {
        ll_model *m = tiny_model(variants[v]);
        const int V = m->c->model.vocab;
        int *tokens = tokens_of(m, B * T, 3);
        float *all = calloc((size_t)(B * T * V), sizeof *all), *logp = scores_of(m, tokens, lengths, B, T);
        CHECK_OK(ll_model_logp(m, all, tokens, lengths, B, T));
        for (int b = 0; b < B; b++)
            for (int t = 0; t < T; t++) {
                const float expected = t && t < lengths[b] ? all[(b * T + t - 1) * V + tokens[b * T + t]] : 0;
                if (logp[b * T + t] != expected)
                    fail_msg("%s: score %d, %d is %g, expected %g", variants[v], b, t, logp[b * T + t], expected);
            }
        free(all), free(logp), free(tokens);
        ll_model_free(m);
    }
}

static size_t size_of(const ll_model *m, ll_embed_kind kind, int rows, int columns) {
    return (size_t)(kind == LL_EMBED_ALL ? rows * columns : rows) * (size_t)ll_model_size(m).width;
}

static float *embeddings_of(ll_model *m, int layer, ll_embed_kind kind, const int *tokens, const int *of, int rows,
                            int columns) {
    float *out = malloc(size_of(m, kind, rows, columns) * sizeof *out);
    CHECK_OK(ll_model_encode(m, layer, kind, out, tokens, of, rows, columns));
    return out;
}

static const char *keys_of(int v) {
    return v < VARIANTS ? variants[v] : classifiers[v - VARIANTS];
}

/* mean, first and last are taken from all vectors. */
static void test_pooling(void **state) {
    (void)state;
    for (int v = 0; v < VARIANTS + CLASSIFIERS; v++) {
        ll_model *m = tiny_model(keys_of(v));
        const int C = ll_model_size(m).width, layers = m->c->model.layers;
        int *tokens = tokens_of(m, B * T, 4);
        for (int layer = 0; layer <= layers; layer++) {
            float *all = embeddings_of(m, layer, LL_EMBED_ALL, tokens, lengths, B, T);
            float *mean = embeddings_of(m, layer, LL_EMBED_MEAN, tokens, lengths, B, T);
            float *first = embeddings_of(m, layer, LL_EMBED_FIRST, tokens, lengths, B, T);
            float *last = embeddings_of(m, layer, LL_EMBED_LAST, tokens, lengths, B, T);
            for (int b = 0; b < B; b++)
                for (int c = 0; c < C; c++) {
                    const int n = lengths[b];
                    const float *x = all + b * T * C + c;
                    double sum = 0;
                    for (int t = 0; t < n; t++) sum += (double)x[t * C];
                    for (int t = n; t < T; t++) assert_true(x[t * C] == 0);
                    assert_true(mean[b * C + c] == (n ? (float)(sum / n) : 0));
                    assert_true(last[b * C + c] == (n ? x[(n - 1) * C] : 0));
                    if (!m->cls_tokens) assert_true(first[b * C + c] == (n ? x[0] : 0));
                }
            free(all), free(mean), free(first), free(last);
        }
        free(tokens);
        ll_model_free(m);
    }
}

/* Copies the parameters that two models have in common. */
static void copy_parameters(const ll_model *to, const ll_model *from) {
    ll_tensor a, b;
    for (int i = 0; (a = ll_model_tensor(to, i)).name; i++)
        for (int j = 0; (b = ll_model_tensor(from, j)).name; j++)
            if (!strcmp(a.name, b.name)) memcpy(a.data, b.data, (size_t)a.rows * (size_t)a.cols * sizeof(float));
}

/* Layer k gives what a model of k layers without a final norm gives. */
static void test_layers(void **state) {
    (void)state;
    for (int v = 0; v < VARIANTS + CLASSIFIERS; v++) {
        char fewer[600];
        ll_model *m = tiny_model(keys_of(v));
        snprintf(fewer, sizeof fewer, "%s model.layers=1 model.final-norm=off", keys_of(v));
        ll_model *one = tiny_model(fewer);
        copy_parameters(one, m);
        int *tokens = tokens_of(m, B * T, 5);
        if (m->c->model.layers > 1)
            for (int layer = 0; layer <= 1; layer++) {
                float *a = embeddings_of(m, layer, LL_EMBED_ALL, tokens, lengths, B, T);
                float *b = embeddings_of(one, layer ? -1 : 0, LL_EMBED_ALL, tokens, lengths, B, T);
                assert_memory_equal(a, b, size_of(m, LL_EMBED_ALL, B, T) * sizeof *a);
                free(a), free(b);
            }
        free(tokens);
        ll_model_free(m);
        ll_model_free(one);
    }
}

/* Before the first block the vector is a row of the embedding. After the last, times the embedding, it is the
 * logits. */
static void test_ends(void **state) {
    (void)state;
    for (int v = 0; v < VARIANTS; v++) {
        ll_model *m = tiny_model(variants[v]);
        const int C = ll_model_size(m).width, V = m->c->model.vocab;
        int *tokens = tokens_of(m, T, 6);
        float *last = embeddings_of(m, m->c->model.layers, LL_EMBED_ALL, tokens, NULL, 1, T);
        float *bottom = embeddings_of(m, 0, LL_EMBED_ALL, tokens, NULL, 1, T);
        float *logp = calloc((size_t)(T * V), sizeof *logp);
        double *expected = calloc((size_t)V, sizeof *expected);
        CHECK_OK(ll_model_logp(m, logp, tokens, NULL, 1, T));
        const float *table = m->data + m->param[m->at.embedding].offset;
        if (v == 0)
            for (int t = 0; t < T; t++)
                assert_memory_equal(bottom + t * C, table + tokens[t] * C, (size_t)C * sizeof *table);
        for (int t = 0; t < T && m->c->model.tied; t++) {
            double sum = 0;
            for (int i = 0; i < V; i++) {
                expected[i] = 0;
                for (int c = 0; c < C; c++) expected[i] += (double)last[t * C + c] * (double)table[i * C + c];
                sum += exp(expected[i]);
            }
            for (int i = 0; i < V; i++) expected[i] -= log(sum);
            check_close(variants[v], (size_t)V, logp + t * V, expected, 1e-5);
        }
        free(tokens), free(last), free(bottom), free(logp), free(expected);
        ll_model_free(m);
    }
}

/* A CLS token is the first token. A classifier that pools the first token reads its vector: head and softmax give the
 * classes. */
static void test_class_token(void **state) {
    (void)state;
    for (int v = 0; v < CLASSIFIERS; v++) {
        ll_model *m = tiny_model(classifiers[v]);
        const int C = ll_model_size(m).width, classes = ll_model_size(m).classes;
        assert_int_equal(classes, 5);
        int *tokens = tokens_of(m, T, 7);
        float *x = embeddings_of(m, -1, m->cls_tokens ? LL_EMBED_FIRST : LL_EMBED_MEAN, tokens, NULL, 1, T), logp[5];
        const float *W = m->data + m->param[m->at.head].offset, *bias = m->data + m->param[m->at.head + 1].offset;
        double expected[5], sum = 0;
        CHECK_OK(ll_model_logp(m, logp, tokens, NULL, 1, T));
        for (int i = 0; i < classes; i++) {
            expected[i] = (double)bias[i];
            for (int c = 0; c < C; c++) expected[i] += (double)x[c] * (double)W[c * classes + i];
            sum += exp(expected[i]);
        }
        for (int i = 0; i < classes; i++) expected[i] -= log(sum);
        check_close(classifiers[v], 5, logp, expected, 1e-5);
        free(tokens), free(x);
        ll_model_free(m);
    }
}

/* Sequence b of a batch and the same sequence alone, without padding, give the same bits. */
static void check_alone(const char *keys, ll_model *m, const int *tokens, const int *of, int rows, int columns) {
    const size_t C = (size_t)ll_model_size(m).width, V = (size_t)ll_model_size(m).classes, wide = (size_t)columns;
    const int lm = !V;
    float *all = embeddings_of(m, -1, LL_EMBED_ALL, tokens, of, rows, columns);
    float *mean = embeddings_of(m, -1, LL_EMBED_MEAN, tokens, of, rows, columns);
    float *result = lm ? scores_of(m, tokens, of, rows, columns) : calloc((size_t)rows * V, sizeof *result);
    if (!lm) CHECK_OK(ll_model_logp(m, result, tokens, of, rows, columns));
    for (int b = 0; b < rows; b++) {
        const size_t n = (size_t)of[b], i = (size_t)b;
        const int *own = tokens + i * wide;
        if (!n) continue;
        float *a = embeddings_of(m, -1, LL_EMBED_ALL, own, NULL, 1, of[b]);
        float *x = embeddings_of(m, -1, LL_EMBED_MEAN, own, NULL, 1, of[b]);
        float *r = lm ? scores_of(m, own, NULL, 1, of[b]) : calloc(V, sizeof *r);
        if (!lm) CHECK_OK(ll_model_logp(m, r, own, NULL, 1, of[b]));
        const size_t count = lm ? n : V, at = i * (lm ? wide : V);
        if (memcmp(a, all + i * wide * C, n * C * sizeof *a) || memcmp(x, mean + i * C, C * sizeof *x) ||
            memcmp(r, result + at, count * sizeof *r))
            fail_msg("%s: sequence %d of length %d is not what it is alone", keys, b, of[b]);
        free(a), free(x), free(r);
    }
    free(all), free(mean), free(result);
}

static void test_alone(void **state) {
    (void)state;
    for (int v = 0; v < VARIANTS + CLASSIFIERS; v++) {
        ll_model *m = tiny_model(keys_of(v));
        int *tokens = tokens_of(m, B * T, 8);
        check_alone(keys_of(v), m, tokens, lengths, B, T);
        free(tokens);
        ll_model_free(m);
    }
}

/* The same with several chunks of rows, of which the last has one row. */
static void test_alone_in_chunks(void **state) {
    (void)state;
    static const int of[2] = {WIDE, 505}, one[1] = {1025};
    static const int picks[] = {0, 3, 4, VARIANTS + 1};
    for (size_t i = 0; i < sizeof picks / sizeof *picks; i++) {
        ll_model *m = tiny_model(keys_of(picks[i]));
        int *tokens = tokens_of(m, 2 * WIDE, 9);
        check_alone(keys_of(picks[i]), m, tokens, of, 2, WIDE);
        check_alone(keys_of(picks[i]), m, tokens, one, 1, 1040);
        free(tokens);
        ll_model_free(m);
    }
}

/* The same where a chunk's logits are made in two parts, the second of one row. */
static void test_alone_in_parts(void **state) {
    (void)state;
    enum { LONG = 1040 };
    static const int of[2] = {LONG, LONG};
    static const char keys[] = "attention.kernel=relu model.layers=1 model.vocab=1025";
    ll_model *m = tiny_model(keys);
    int *tokens = tokens_of(m, 2 * LONG, 9);
    check_alone(keys, m, tokens, of, 2, LONG);
    free(tokens);
    ll_model_free(m);
}

static void test_threads(void **state) {
    (void)state;
    static const int threads[] = {1, 2, 5};
    for (int v = 3; v < VARIANTS; v += 2) {
        ll_model *m = tiny_model(variants[v]);
        int *tokens = tokens_of(m, WIDE, 10);
        float *first = NULL, *vectors = NULL;
        for (int i = 0; i < 3; i++) {
            ll_set_threads(threads[i]);
            float *logp = scores_of(m, tokens, NULL, 2, WIDE / 2);
            float *x = embeddings_of(m, -1, LL_EMBED_MEAN, tokens, NULL, 2, WIDE / 2);
            if (i) {
                assert_memory_equal(logp, first, WIDE * sizeof *logp);
                assert_memory_equal(x, vectors, size_of(m, LL_EMBED_MEAN, 2, 0) * sizeof *x);
                free(logp), free(x);
            } else {
                first = logp, vectors = x;
            }
        }
        ll_set_threads(0);
        free(first), free(vectors), free(tokens);
        ll_model_free(m);
    }
}

/* A stream that is fed in pieces gives the scores of the whole. */
static void test_stream(void **state) {
    (void)state;
    enum { LONG = 1000 };
    for (int v = 0; v < VARIANTS; v++) {
        ll_model *m = tiny_model(variants[v]);
        ll_stream *stream = NULL;
        int *tokens = tokens_of(m, LONG, 11);
        float *whole = scores_of(m, tokens, NULL, 1, LONG), *logp = calloc(LONG, sizeof *logp);
        double *expected = calloc(LONG, sizeof *expected);
        for (int t = 0; t < LONG; t++) expected[t] = (double)whole[t];
        CHECK_OK(ll_stream_create(&stream, m));
        for (int most = 1; most <= LONG; most = most * 30 + 7) {
            ll_stream_reset(stream);
            for (int t = 0, i = 0, n; t < LONG; t += n, i++) {
                n = 1 + (int)ll_below((uint32_t)most, 12, (uint64_t)most, (uint64_t)i);
                if (n > LONG - t) n = LONG - t;
                CHECK_OK(ll_stream_score(stream, logp + t, tokens + t, n));
            }
            check_close(variants[v], LONG, logp, expected, 5e-5);
            assert_true(logp[0] == 0);
        }
        /* feeding tokens in between changes no score */
        float *next = calloc((size_t)m->c->model.vocab, sizeof *next);
        ll_stream_reset(stream);
        CHECK_OK(ll_stream_feed(stream, tokens, 400, next));
        CHECK_OK(ll_stream_score(stream, logp + 400, tokens + 400, LONG - 400));
        check_close(variants[v], LONG, logp, expected, 5e-5);
        assert_int_equal(ll_stream_position(stream), LONG);
        ll_stream_free(stream);
        free(tokens), free(whole), free(logp), free(expected), free(next);
        ll_model_free(m);
    }
}

static void test_refusals(void **state) {
    (void)state;
    ll_model *m = tiny_model(variants[0]), *classifier = tiny_model(classifiers[0]);
    float out[64 * 16];
    const int tokens[4] = {1, 2, 11, 3};
    CHECK_FAILS(ll_model_score(classifier, out, tokens, NULL, 1, 2), LL_EINVAL, "language model");
    CHECK_FAILS(ll_model_score(m, out, tokens, NULL, 1, 4), LL_EINVAL, "token 11 at position 2");
    CHECK_FAILS(ll_model_encode(m, -1, LL_EMBED_MEAN, out, tokens, NULL, 1, 4), LL_EINVAL, "token 11");
    CHECK_FAILS(ll_model_encode(m, -1, (ll_embed_kind)17, out, tokens, NULL, 1, 2), LL_EINVAL, "kind 17");
    CHECK_FAILS(ll_model_encode(m, 3, LL_EMBED_MEAN, out, tokens, NULL, 1, 2), LL_EINVAL, "layer 3");
    CHECK_FAILS(ll_model_encode(m, -2, LL_EMBED_MEAN, out, tokens, NULL, 1, 2), LL_EINVAL, "layer -2");
    CHECK_OK(ll_model_encode(m, 2, LL_EMBED_MEAN, out, tokens, NULL, 1, 2));
    ll_stream *stream = NULL;
    CHECK_OK(ll_stream_create(&stream, m));
    CHECK_FAILS(ll_stream_score(stream, out, tokens, 4), LL_EINVAL, "token 11");
    assert_int_equal(ll_stream_position(stream), 0);
    ll_stream_free(stream);
    for (long n = 1;; n++) {
        ll_memory_fail_at(n);
        const ll_status a = ll_model_score(m, out, tokens, NULL, 1, 2);
        ll_memory_fail_at(n);
        const ll_status b = ll_model_encode(m, -1, LL_EMBED_MEAN, out, tokens, NULL, 1, 2);
        ll_memory_fail_at(0);
        if (!a && !b) break;
        assert_true((!a || a == LL_ENOMEM) && (!b || b == LL_ENOMEM) && n < 50);
    }
    ll_model_free(m);
    ll_model_free(classifier);
}

static void enlarge(const ll_model *m, const char *name, float value) {
    for (int i = 0; i < m->count; i++)
        for (int j = 0; !strcmp(m->param[i].name, name) && j < m->param[i].rows * m->param[i].cols; j++)
            m->data[m->param[i].offset + (size_t)j] = value;
}

/* Finite weights that give results which are not finite. */
static void test_diverged(void **state) {
    (void)state;
    ll_model *m = tiny_model(variants[0]), *classifier = tiny_model(classifiers[1]);
    ll_stream *stream = NULL;
    float out[64 * 16];
    const int tokens[4] = {1, 2, 3, 4};
    enlarge(m, "norm.gain", 3e38f);
    enlarge(classifier, "norm.gain", 3e38f);
    CHECK_FAILS(ll_model_logp(m, out, tokens, NULL, 1, 4), LL_EDIVERGED, "at position 0 of sequence 0");
    CHECK_FAILS(ll_model_score(m, out, tokens, NULL, 2, 2), LL_EDIVERGED, "at position 1 of sequence 0");
    CHECK_FAILS(ll_model_encode(m, -1, LL_EMBED_ALL, out, tokens, NULL, 1, 4), LL_EDIVERGED, "infinite at position");
    CHECK_FAILS(ll_model_encode(m, -1, LL_EMBED_LAST, out, tokens, NULL, 2, 2), LL_EDIVERGED, "in sequence 0");
    CHECK_OK(ll_model_encode(m, 0, LL_EMBED_MEAN, out, tokens, NULL, 1, 4));
    CHECK_FAILS(ll_model_logp(classifier, out, tokens, NULL, 2, 2), LL_EDIVERGED, "not a number in sequence 0");
    CHECK_OK(ll_stream_create(&stream, m));
    CHECK_FAILS(ll_stream_feed(stream, tokens, 3, out), LL_EDIVERGED, "at token 2");
    CHECK_FAILS(ll_stream_feed(stream, tokens, 3, NULL), LL_EINVAL, "reset");
    CHECK_FAILS(ll_stream_logits(stream, out), LL_EINVAL, "reset");
    ll_stream_reset(stream);
    CHECK_FAILS(ll_stream_score(stream, out, tokens, 4), LL_EDIVERGED, "at token 1");
    ll_stream_reset(stream);
    enlarge(m, "norm.gain", 1);
    CHECK_OK(ll_stream_score(stream, out, tokens, 4));
    ll_stream_free(stream);
    ll_model_free(m);
    ll_model_free(classifier);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scores),         cmocka_unit_test(test_pooling),         cmocka_unit_test(test_layers),
        cmocka_unit_test(test_ends),           cmocka_unit_test(test_class_token),     cmocka_unit_test(test_alone),
        cmocka_unit_test(test_threads),        cmocka_unit_test(test_alone_in_chunks), cmocka_unit_test(test_stream),
        cmocka_unit_test(test_alone_in_parts), cmocka_unit_test(test_refusals),        cmocka_unit_test(test_diverged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
