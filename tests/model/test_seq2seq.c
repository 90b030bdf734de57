/* Encoder-decoders against their definition in double (oracle_model.c): loss, gradients, log-probabilities, and what
 * must hold for any of them. test_seq2seq_stream.c tests their streams. */
#include "seq2seq.h"

#include <unistd.h>

#include "base/memory.h"

static oracle_model oracle_of(const batch *x) {
    oracle_model o = oracle_model_of(x->model, B, T);
    o.tokens = x->tokens, o.targets = x->targets, o.lengths = x->lengths;
    o.source = x->source, o.source_lengths = x->source_lengths, o.S = S;
    return o;
}

/* The loss is the oracle's. The gradient of each tensor is its central difference, added to the earlier content. */
static void test_gradients(void **state) {
    (void)state;
    for (int v = 0; v < VARIANTS; v++) {
        batch *x = batch_of(variants[v]);
        oracle_model o = oracle_of(x);
        const ll_model_options *k = &x->model->c->model;
        assert_int_equal(x->model->operators, (k->encoder_layers ? k->encoder_layers : k->layers) + 2 * k->layers);
        o.dropout = 1, o.draw = 41;
        for (size_t i = 0; i < x->model->size; i++) x->grad[i] = 1;
        batch_run(x, x->grad, 0.5f);
        check_loss(&o, variants[v], x->model, x->tally.loss, x->grad, 4);
        free(o.params);
        batch_free(x);
    }
}

/* Log-probabilities are the oracle's. The tally counts tokens, right tokens, sequences, and sequences without a
 * mistake. */
static void test_logp_and_tally(void **state) {
    (void)state;
    for (int v = 0; v < VARIANTS; v++) {
        batch *x = batch_of(variants[v]);
        oracle_model o = oracle_of(x);
        double expected[B * T * V];
        float logp[B * T * V];
        oracle_model_logits(&o, expected);
        ll_tally want = {0};
        for (int b = 0; b < B; b++) {
            int wrong = 0, any = 0;
            for (int r = b * T; r < (b + 1) * T; r++) {
                double sum = 0;
                int best = 0;
                for (int i = 0; i < V; i++) sum += exp(expected[r * V + i]);
                for (int i = 0; i < V; i++) best = expected[r * V + i] > expected[r * V + best] ? i : best;
                for (int i = 0; i < V; i++)
                    expected[r * V + i] = r % T < x->lengths[b] ? expected[r * V + i] - log(sum) : 0;
                if (b == 1) x->targets[r] = best; /* a sequence without a mistake */
                if (b == 2 && r % T) x->targets[r] = -1;
                if (x->targets[r] < 0 || r % T >= x->lengths[b]) continue;
                any = 1;
                want.count++;
                want.correct += best == x->targets[r];
                wrong += best != x->targets[r];
            }
            want.sequences += any;
            want.exact += any && !wrong;
        }
        CHECK_OK(ll_model_logp_from(x->model, logp, x->source, x->source_lengths, S, x->tokens, x->lengths, B, T));
        check_close(variants[v], B * T * V, logp, expected, 1e-5);
        batch_run(x, NULL, 0);
        assert_int_equal(x->tally.count, want.count);
        assert_int_equal(x->tally.correct, want.correct);
        assert_int_equal(x->tally.sequences, want.sequences);
        assert_int_equal(x->tally.exact, want.exact);
        assert_true(want.exact >= 1);
        free(o.params);
        batch_free(x);
    }
}

/* Neither content nor amount of the padding of source or target changes a bit. Nor do later targets. */
static void test_padding_and_causality(void **state) {
    (void)state;
    for (int v = 0; v < VARIANTS; v++) {
        batch *x = batch_of(variants[v]);
        float logp[B * T * V], other[B * T * V];
        float *grad = calloc(x->model->size, sizeof *grad);
        batch_run(x, x->grad, 1);
        const double loss = x->tally.loss;
        CHECK_OK(ll_model_logp_from(x->model, logp, x->source, x->source_lengths, S, x->tokens, x->lengths, B, T));
        for (int b = 0; b < B; b++) {
            for (int t = x->lengths[b]; t < T; t++) x->tokens[b * T + t] = (x->tokens[b * T + t] + 3) % V;
            for (int t = x->source_lengths[b]; t < S; t++) x->source[b * S + t] = (x->source[b * S + t] + 5) % V;
        }
        batch_run(x, grad, 1);
        assert_true(x->tally.loss == loss);
        assert_memory_equal(grad, x->grad, x->model->size * sizeof *grad);
        for (int b = 0; b < B; b++) { /* each alone, without padding */
            const int n = x->lengths[b];
            CHECK_OK(ll_model_logp_from(x->model, other, x->source + b * S, NULL, x->source_lengths[b],
                                        x->tokens + b * T, NULL, 1, n));
            assert_memory_equal(other, logp + b * T * V, (size_t)(n * V) * sizeof *logp);
            x->tokens[b * T + n - 1] = (x->tokens[b * T + n - 1] + 1) % V;
        }
        CHECK_OK(ll_model_logp_from(x->model, other, x->source, x->source_lengths, S, x->tokens, x->lengths, B, T));
        for (int b = 0; b < B; b++)
            assert_memory_equal(other + b * T * V, logp + b * T * V, (size_t)((x->lengths[b] - 1) * V) * sizeof *logp);
        x->source[0] = (x->source[0] + 1) % V; /* every target depends on the whole source */
        CHECK_OK(ll_model_logp_from(x->model, other, x->source, x->source_lengths, S, x->tokens, x->lengths, B, T));
        assert_memory_not_equal(other, logp, V * sizeof *logp);
        free(grad);
        batch_free(x);
    }
}

/* The source is much longer than the target, and the weights are so wide that products pack them. The scratch is enough
 * for both (sanitizers check), and padding the target to the length of the source changes no bit. */
static void test_long_source(void **state) {
    (void)state;
    enum { LONG = 600 };
    static const char *const keys[] = {
        SEQ2SEQ "model.width=160 attention.kernel=softmax",
        SEQ2SEQ "model.width=160 attention.kernel=relu position.type=permute position.cross=both",
    };
    int source[LONG], tokens[LONG];
    float *padded = calloc(LONG * V, sizeof *padded), alone[T * V];
    random_ints(source, LONG, V, 0, 6);
    random_ints(tokens, LONG, V, 0, 7);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        ll_model *model = tiny_model(keys[i]);
        CHECK_OK(ll_model_logp_from(model, alone, source, NULL, LONG, tokens, NULL, 1, T));
        CHECK_OK(ll_model_logp_from(model, padded, source, NULL, LONG, tokens, (int[]){T}, 1, LONG));
        assert_memory_equal(alone, padded, sizeof alone);
        ll_model_free(model);
    }
    free(padded);
}

/* Loss and gradients have the same bits on any number of threads, also where rows need many pieces. */
static void test_threads(void **state) {
    (void)state;
    enum { LONG = 1100, SOURCE = 1300 };
    static const int threads[] = {1, 2, 5};
    ll_model *model = tiny_model(SEQ2SEQ "attention.kernel=favor position.type=permute position.cross=both "
                                         "model.dropout=0.1");
    ll_workspace *ws = NULL;
    int *ints = calloc(2 * (2 * LONG + SOURCE), sizeof *ints);
    const ll_batch in = {
        2, LONG, ints, ints + 2 * LONG, (int[]){LONG, 700}, SOURCE, ints + 4 * LONG, (int[]){900, SOURCE}};
    random_ints(ints, 2 * (2 * LONG + SOURCE), V, 0, 8);
    CHECK_OK(ll_workspace_create(&ws, model, 2, SOURCE, 1));
    float *first = calloc(model->size, sizeof *first), *grad = calloc(model->size, sizeof *grad);
    double loss = 0;
    for (int i = 0; i < 3; i++) {
        ll_tally tally = {0};
        memset(grad, 0, model->size * sizeof *grad);
        ll_set_threads(threads[i]);
        CHECK_OK(ll_model_run(model, ws, &in, grad, 1, 3, &tally));
        if (i == 0) memcpy(first, grad, model->size * sizeof *first), loss = tally.loss;
        assert_true(tally.loss == loss);
        assert_memory_equal(first, grad, model->size * sizeof *first);
    }
    ll_set_threads(1);
    ll_workspace_free(ws);
    ll_model_free(model);
    free(first), free(grad), free(ints);
}

/* A model from a file gives the same bits. */
static void test_file(void **state) {
    (void)state;
    char path[] = "/tmp/ll-seq2seq-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    for (int v = 0; v < VARIANTS; v++) {
        batch *x = batch_of(variants[v]);
        ll_model *model = NULL;
        float logp[2][B * T * V];
        CHECK_OK(ll_model_redraw(x->model, 2));
        CHECK_OK(ll_model_save(x->model, path));
        CHECK_OK(ll_model_load(&model, path));
        for (int i = 0; i < 2; i++)
            CHECK_OK(ll_model_logp_from(i ? model : x->model, logp[i], x->source, x->source_lengths, S, x->tokens,
                                        x->lengths, B, T));
        assert_memory_equal(logp[0], logp[1], sizeof logp[0]);
        ll_model_free(model);
        batch_free(x);
    }
    unlink(path);
}

/* Whichever allocation is refused, the call returns LL_ENOMEM, nothing leaks (sanitizers check), and a stream can be
 * used again. */
static void test_memory_can_end(void **state) {
    (void)state;
    ll_recipe *recipe = tiny_recipe(variants[6]);
    int tokens[T], ok = 0;
    float logits[V];
    random_ints(tokens, T, V, 0, 5);
    for (long n = 1; n < 2000 && !ok; n++) {
        ll_model *model = NULL;
        ll_workspace *ws = NULL;
        ll_stream *stream = NULL;
        ll_memory_fail_at(n);
        ll_status status = ll_model_create(&model, recipe);
        if (!status) status = ll_workspace_create(&ws, model, 2, T, 1);
        if (!status) status = ll_stream_create(&stream, model);
        if (!status) status = ll_stream_source(stream, tokens, T);
        ll_memory_fail_at(0);
        if (status) {
            assert_int_equal(status, LL_ENOMEM);
        } else {
            ok = n > 10;
        }
        if (stream) {
            CHECK_OK(ll_stream_source(stream, tokens, T));
            CHECK_OK(ll_stream_feed(stream, tokens, 2, logits));
        }
        ll_stream_free(stream);
        ll_workspace_free(ws);
        ll_model_free(model);
    }
    assert_true(ok);
    ll_recipe_free(recipe);
}

/* Settings and calls that an encoder-decoder cannot have are refused with the reason. */
static void test_refusals(void **state) {
    (void)state;
    static const char *const bad[][2] = {
        {"model.encoder-layers=2", "model.task=seq2seq"},
        {"position.cross=start", "position.cross=none"},
        {"model.task=seq2seq position.cross=end", "inside attention"},
        {"model.task=seq2seq position.type=permute2d attention.kernel=relu", "seq2seq"},
        {"model.task=seq2seq position.type=relative-s1 position.image=on", "position.image"},
        {"model.task=seq2seq model.heads=1 position.cross=both position.type=rope", "start or end"},
        {"model.task=seq2seq attention.kernel=local", "use softmax, favor or relu"},
        {"model.task=seq2seq attention.kernel=reformer", "use softmax, favor or relu"},
        {"model.task=seq2seq attention.kernel=softmax position.type=t5", "use permute, rope"},
        {"model.task=seq2seq position.type=relative-s2", "use permute, rope"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ll_recipe *recipe = tiny_recipe(bad[i][0]);
        ll_model *model = NULL;
        CHECK_FAILS(ll_model_create(&model, recipe), LL_EINVAL, bad[i][1]);
        ll_recipe_free(recipe);
    }
    ll_model *lm = tiny_model(""), *model = tiny_model(variants[0]);
    float logp[4 * V];
    const int t[4] = {1, 2, 3, 4}, wrong[2] = {1, V};
    ll_stream *stream = NULL;
    CHECK_FAILS(ll_model_logp(model, logp, t, NULL, 1, 4), LL_EINVAL, "sources");
    CHECK_FAILS(ll_model_logp_from(lm, logp, t, NULL, 4, t, NULL, 1, 4), LL_EINVAL, "no encoder");
    CHECK_FAILS(ll_model_logp_from(model, logp, wrong, NULL, 2, t, NULL, 1, 4), LL_EINVAL, "token 11");
    CHECK_OK(ll_stream_create(&stream, lm));
    CHECK_FAILS(ll_stream_source(stream, t, 4), LL_EINVAL, "no encoder");
    ll_stream_free(stream);
    ll_model_free(lm);
    /* A source that is refused leaves the one before. */
    float logits[V];
    const int five[5] = {1, 2, 3, 4, 5};
    lm = tiny_model("model.task=seq2seq attention.kernel=relu position.type=learned position.max-length=4");
    CHECK_OK(ll_stream_create(&stream, lm));
    CHECK_OK(ll_stream_source(stream, t, 2));
    CHECK_FAILS(ll_stream_source(stream, five, 5), LL_EINVAL,
                "a source of 5 tokens, and the model's learned positions end at 4");
    CHECK_OK(ll_stream_feed(stream, t, 1, logits));
    CHECK_OK(ll_stream_source(stream, t, 4));
    ll_stream_free(stream);
    ll_model_free(lm);
    ll_model_free(model);
}

int main(void) {
    ll_set_threads(1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_logp_and_tally),
        cmocka_unit_test(test_padding_and_causality),
        cmocka_unit_test(test_long_source),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_file),
        cmocka_unit_test(test_memory_can_end),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
