/* Streams of encoder-decoders give what whole sequences give, in memory that does not grow. They can be copied and
 * saved to files, together with their source. */
#include "base/memory.h"
#include "seq2seq.h"
#include "states.h"

/* After each token the logits are those of the whole sequence, however it is divided. */
static void test_stream(void **state) {
    (void)state;
    for (int v = 0; v < VARIANTS; v++) {
        batch *x = batch_of(variants[v]);
        ll_stream *stream = NULL;
        float logp[T * V], logits[V];
        CHECK_OK(ll_stream_create(&stream, x->model));
        CHECK_FAILS(ll_stream_feed(stream, x->tokens, 1, logits), LL_EINVAL, "source");
        for (int b = 0; b < 2; b++) {
            const int n = x->lengths[b];
            CHECK_OK(ll_model_logp_from(x->model, logp, x->source + b * S, NULL, x->source_lengths[b],
                                        x->tokens + b * T, NULL, 1, n));
            CHECK_OK(ll_stream_source(stream, x->source + b * S, x->source_lengths[b]));
            for (int again = 0; again < 2; again++, ll_stream_reset(stream)) /* the source stays */
                for (int t = 0; t < n; t += again ? n : 1) {
                    CHECK_OK(ll_stream_feed(stream, x->tokens + b * T + t, again ? n : 1, logits));
                    double sum = 0, wanted[V];
                    for (int i = 0; i < V; i++) sum += exp((double)logits[i]);
                    for (int i = 0; i < V; i++) {
                        wanted[i] = (double)logp[(again ? n - 1 : t) * V + i];
                        logits[i] -= (float)log(sum);
                    }
                    check_close(variants[v], V, logits, wanted, 2e-5);
                }
        }
        CHECK_FAILS(ll_stream_source(stream, (const int[]){3, V}, 2), LL_EINVAL, "token 11");
        CHECK_FAILS(ll_stream_source(stream, x->source, 0), LL_EINVAL, "at least 1");
        CHECK_OK(ll_stream_feed(stream, x->tokens, 1, logits)); /* the source before is still there */
        ll_stream_free(stream);
        batch_free(x);
    }
}

/* With linear attention a stream's bytes do not depend on either length, and no token allocates. */
static void test_constant_memory(void **state) {
    (void)state;
    static const char *const keys[] = {
        SEQ2SEQ "attention.kernel=relu position.type=permute position.cross=both",
        SEQ2SEQ "attention.kernel=favor position.type=conv-spe position.realizations=5 position.cross=start",
        SEQ2SEQ "attention.kernel=elu1 position.type=rope-linear position.cross=start",
    };
    enum { LONG = 3000 };
    int *source = calloc(LONG, sizeof *source);
    random_ints(source, LONG, V, 0, 5);
    for (int v = 0; v < 3; v++) {
        ll_model *model = tiny_model(keys[v]);
        ll_stream *stream = NULL;
        float logits[V];
        CHECK_OK(ll_stream_create(&stream, model));
        CHECK_OK(ll_stream_source(stream, source, 3));
        CHECK_OK(ll_stream_feed(stream, source, 1, logits));
        const size_t bytes = ll_stream_bytes(stream);
        CHECK_OK(ll_stream_source(stream, source, LONG));
        ll_memory_fail_at(1);
        for (int i = 0; i < 20; i++) CHECK_OK(ll_stream_feed(stream, source, i % 2 ? 100 : 1, logits));
        ll_memory_fail_at(0);
        assert_int_equal(ll_stream_bytes(stream), bytes);
        for (int i = 0; i < V; i++) assert_true(isfinite(logits[i]));
        ll_stream_free(stream);
        ll_model_free(model);
    }
    free(source);
}

/* The cost of a model is that of a stream whose source is as long as its target: the bytes of its tensors in a file.
 * Softmax writes keys in blocks of 256. */
static void test_bytes(void **state) {
    (void)state;
    enum { LONG = 256 };
    int tokens[LONG];
    random_ints(tokens, LONG, V, 0, 5);
    for (int v = 0; v < VARIANTS; v++) {
        ll_model *model = tiny_model(variants[v]);
        ll_stream *stream = NULL;
        ll_safetensors *file = NULL;
        size_t bytes = 0;
        CHECK_OK(ll_stream_create(&stream, model));
        if (ll_stream_source(stream, tokens, LONG) == LL_OK) { /* learned positions end before */
            CHECK_OK(ll_stream_feed(stream, tokens, LONG, NULL));
            CHECK_OK(ll_stream_save(stream, path));
            CHECK_OK(ll_safetensors_open(&file, path));
            for (int i = 0; i < ll_safetensors_count(file); i++) {
                const ll_st_tensor *t = ll_safetensors_at(file, i);
                if (strstr(t->name, "blocks.")) bytes += t->count * (t->dtype == LL_F64 ? 8 : 4);
            }
            const size_t cost = ll_model_cost(model, LONG).stream_bytes;
            if (bytes != cost) fail_msg("%s: %zu bytes, and tensors of %zu", variants[v], cost, bytes);
        }
        ll_safetensors_free(file);
        ll_stream_free(stream);
        ll_model_free(model);
    }
}

static void test_no_stream(void **state) {
    (void)state;
    ll_model *model = tiny_model(SEQ2SEQ "attention.kernel=favor attention.compat=google");
    CHECK_FAILS(ll_model_can_stream(model), LL_EINVAL, "later ones too");
    assert_int_equal(ll_model_cost(model, 9).stream_bytes, 0);
    ll_model_free(model);
}

/* Feeds the tokens from `from` on, one by one or all together. The logits after the last. */
static void finish(ll_stream *s, const batch *x, int from, int together, float *logits) {
    for (int t = from; t < T; t += together ? T - from : 1)
        CHECK_OK(ll_stream_feed(s, x->tokens + t, together ? T - from : 1, logits));
}

/* At any token, a copy of a stream and a stream from its file continue to the same bits, independently, with the same
 * source. */
static void test_copies(void **state) {
    (void)state;
    for (int v = 0; v < VARIANTS; v++) {
        batch *x = batch_of(variants[v]);
        for (int n = 0; n < T; n += 3) {
            ll_stream *s = NULL, *copy = NULL, *loaded = NULL;
            float logits[V], expected[V];
            CHECK_OK(ll_stream_create(&s, x->model));
            CHECK_OK(ll_stream_source(s, x->source, S));
            if (n) CHECK_OK(ll_stream_feed(s, x->tokens, n, NULL));
            CHECK_OK(ll_stream_clone(&copy, s));
            CHECK_OK(ll_stream_save(s, path));
            CHECK_OK(ll_stream_load(&loaded, x->model, path));
            assert_int_equal(ll_stream_position(loaded), n);
            finish(s, x, n, 0, expected);
            CHECK_OK(ll_stream_source(s, x->source + S, S)); /* one must not change the others */
            finish(copy, x, n, 1, logits);
            assert_memory_equal(logits, expected, sizeof logits);
            finish(loaded, x, n, n == 3, logits);
            assert_memory_equal(logits, expected, sizeof logits);
            ll_stream_reset(loaded);
            finish(loaded, x, 0, 1, logits);
            assert_memory_equal(logits, expected, sizeof logits);
            CHECK_OK(ll_stream_source(loaded, x->source + S, S));
            finish(loaded, x, 0, 1, logits);
            finish(s, x, 0, 1, expected);
            assert_memory_equal(logits, expected, sizeof logits);
            assert_memory_not_equal(logits, (float[V]){0}, sizeof logits);
            ll_stream_free(s), ll_stream_free(copy), ll_stream_free(loaded);
        }
        batch_free(x);
    }
}

/* Without a source, the copy and the file have none either. */
static void test_no_source(void **state) {
    (void)state;
    batch *x = batch_of(variants[6]);
    ll_stream *s = NULL, *other_stream[2] = {NULL, NULL};
    float logits[V], expected[V];
    CHECK_OK(ll_stream_create(&s, x->model));
    CHECK_OK(ll_stream_clone(&other_stream[0], s));
    CHECK_OK(ll_stream_save(s, path));
    CHECK_OK(ll_stream_load(&other_stream[1], x->model, path));
    CHECK_OK(ll_stream_source(s, x->source, 4));
    finish(s, x, 0, 1, expected);
    for (int i = 0; i < 2; i++) {
        CHECK_FAILS(ll_stream_feed(other_stream[i], x->tokens, 1, logits), LL_EINVAL, "source");
        CHECK_OK(ll_stream_source(other_stream[i], x->source, 4));
        finish(other_stream[i], x, 0, 1, logits);
        assert_memory_equal(logits, expected, sizeof logits);
        ll_stream_free(other_stream[i]);
    }
    ll_stream_free(s);
    batch_free(x);
}

static void save_fed(const batch *x) {
    ll_stream *s = NULL;
    CHECK_OK(ll_stream_create(&s, x->model));
    CHECK_OK(ll_stream_source(s, x->source, S));
    CHECK_OK(ll_stream_feed(s, x->tokens, 4, NULL));
    CHECK_OK(ll_stream_save(s, path));
    ll_stream_free(s);
}

static void test_wrong_files(void **state) {
    (void)state;
    static const char *const wrong[] = {"-1", "0", "x", "", "9999999999", NULL};
    static const struct {
        int variant;
        const char *tensor[3];
    } kinds[] = {{0, {"blocks.0.cross.keys", "blocks.0.cross.values", NULL}},
                 {6, {"blocks.0.cross.state", NULL}},
                 {8, {"blocks.0.cross.state", NULL}}};
    for (int k = 0; k < 3; k++) {
        batch *x = batch_of(variants[kinds[k].variant]);
        save_fed(x);
        CHECK_OK(load_changed(x->model, (change){0}, NULL, NULL));
        for (int i = 0; i < 6; i++)
            CHECK_FAILS(load_changed(x->model, (change){0}, "source", wrong[i]), LL_EFORMAT, "source");
        if (k == 0) /* softmax: no memory is allocated for what the file does not hold */
            CHECK_FAILS(load_changed(x->model, (change){0}, "source", "1000000000"), LL_EFORMAT, "cross.keys");
        for (int i = 0; kinds[k].tensor[i]; i++) {
            const char *name = kinds[k].tensor[i];
            for (int how = OMIT; how <= RETYPE; how++)
                CHECK_FAILS(load_changed(x->model, (change){name, how, 0, 0}, NULL, NULL), LL_EFORMAT, name);
            CHECK_FAILS(load_changed(x->model, (change){name, PATCH, NAN, 1}, NULL, NULL), LL_EFORMAT, "not finite");
            CHECK_FAILS(load_changed(x->model, (change){name, PATCH, INFINITY, 9}, NULL, NULL), LL_EFORMAT,
                        "blocks.0.cross");
        }
        batch_free(x);
    }
    batch *x = batch_of(variants[2]); /* learned positions end at 12 */
    save_fed(x);
    CHECK_FAILS(load_changed(x->model, (change){0}, "source", "13"), LL_EFORMAT, "learned positions");
    batch_free(x);
}

/* The file of a linear model does not grow with the source. That of softmax contains it. */
static void test_size(void **state) {
    (void)state;
    static const int variant[] = {6, 0};
    enum { LONG = 500 };
    int source[LONG];
    random_ints(source, LONG, V, 0, 5);
    for (int k = 0; k < 2; k++) {
        ll_model *model = tiny_model(variants[variant[k]]);
        long size[2];
        for (int i = 0; i < 2; i++) {
            ll_stream *s = NULL;
            CHECK_OK(ll_stream_create(&s, model));
            CHECK_OK(ll_stream_source(s, source, i ? LONG : 100)); /* as many digits in the file */
            CHECK_OK(ll_stream_save(s, path));
            FILE *f = fopen(path, "rb");
            assert_int_equal(fseek(f, 0, SEEK_END), 0);
            size[i] = ftell(f);
            fclose(f);
            ll_stream_free(s);
        }
        assert_true(k ? size[1] > size[0] + 4 * LONG : size[1] == size[0]);
        ll_model_free(model);
    }
}

/* Whichever allocation is refused, nothing is left behind. */
static void test_no_memory(void **state) {
    (void)state;
    static const int variant[] = {0, 8, 9};
    for (int k = 0; k < 3; k++) {
        batch *x = batch_of(variants[variant[k]]);
        save_fed(x);
        ll_status status = LL_ENOMEM;
        long n = 1;
        for (; status; n++) {
            ll_stream *s = NULL, *copy = NULL;
            ll_memory_fail_at(n);
            status = ll_stream_load(&s, x->model, path);
            if (!status) status = ll_stream_clone(&copy, s);
            ll_memory_fail_at(0);
            if (status) assert_int_equal(status, LL_ENOMEM);
            if (status) assert_null(copy);
            ll_stream_free(s), ll_stream_free(copy);
            assert_true(n < 2000);
        }
        assert_true(n > 20);
        batch_free(x);
    }
}

int main(void) {
    ll_set_threads(1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stream),    cmocka_unit_test(test_constant_memory), cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_copies),    cmocka_unit_test(test_no_source),       cmocka_unit_test(test_wrong_files),
        cmocka_unit_test(test_size),      cmocka_unit_test(test_no_memory),       cmocka_unit_test(test_no_stream),
    };
    return cmocka_run_group_tests(tests, make_paths, remove_paths);
}
