/* Progress of calls with a model, as ll_model_watch reports it. */
#include "models.h"

typedef struct {
    int64_t done, total, stop;
} watched;

static int on_progress(int64_t done, int64_t total, void *arg) {
    watched *t = arg;
    assert_true(done == ++t->done);
    t->total = total;
    return done == t->stop;
}

/* It is reported after each block, and the call ends where it is stopped. */
static void test_watch(void **state) {
    (void)state;
    ll_model *m = tiny_model("attention.kernel=softmax");
    ll_stream *stream = NULL;
    const int tokens[4] = {1, 2, 3, 4}, layers = m->c->model.layers;
    float out[64 * 16];
    watched t = {0};
    ll_model_watch(m, on_progress, &t);
    CHECK_OK(ll_model_score(m, out, tokens, NULL, 1, 4));
    assert_true(t.done == layers && t.total == layers);
    t = (watched){.stop = 1};
    CHECK_FAILS(ll_model_encode(m, -1, LL_EMBED_MEAN, out, tokens, NULL, 1, 4), LL_ESTOPPED, "stopped");
    assert_true(t.done == 1 && t.total == layers);
    CHECK_OK(ll_stream_create(&stream, m));
    CHECK_OK(ll_stream_score(stream, out, tokens, 4));
    ll_model_watch(m, NULL, NULL);
    CHECK_OK(ll_model_logp(m, out, tokens, NULL, 1, 4));
    assert_true(t.done == 1);
    ll_stream_free(stream);
    ll_model_free(m);
}

/* Blocks of an encoder count, too, in each batch. A stream reports on its source; if that is stopped it has none. */
static void test_two_stacks(void **state) {
    (void)state;
    ll_model *m = tiny_model("model.task=seq2seq attention.kernel=relu model.layers=2 model.encoder-layers=3");
    ll_workspace *ws = NULL;
    ll_stream *stream = NULL;
    int tokens[4] = {1, 2, 3, 4};
    float logp[4 * 11];
    watched t = {0};
    ll_model_watch(m, on_progress, &t);
    CHECK_OK(ll_model_logp_from(m, logp, tokens, NULL, 4, tokens, NULL, 1, 4));
    assert_true(t.done == 5 && t.total == 5);
    t = (watched){0};
    CHECK_OK(ll_workspace_create(&ws, m, 1, 4, 0));
    const ll_batch batch = {1, 4, tokens, tokens, NULL, 4, tokens, NULL};
    for (int i = 0; i < 2; i++) {
        ll_tally tally = {0};
        ll_workspace_part(ws, i, 2);
        CHECK_OK(ll_model_run(m, ws, &batch, NULL, 0, 0, &tally));
    }
    assert_true(t.done == 10 && t.total == 10);
    CHECK_OK(ll_stream_create(&stream, m));
    t = (watched){0};
    CHECK_OK(ll_stream_source(stream, tokens, 4));
    assert_true(t.done == 5 && t.total == 5);
    t = (watched){.stop = 4};
    CHECK_FAILS(ll_stream_source(stream, tokens, 4), LL_ESTOPPED, "stopped");
    assert_true(t.done == 4);
    CHECK_FAILS(ll_stream_feed(stream, tokens, 1, logp), LL_EINVAL, "no source");
    ll_stream_free(stream);
    ll_workspace_free(ws);
    ll_model_free(m);
}

/* Progress in thousandths; it never falls. */
static int follow(int64_t done, int64_t total, void *arg) {
    watched *t = arg;
    assert_true(done >= 0 && done <= total);
    assert_true(1000 * done / total >= t->done);
    t->done = 1000 * done / total;
    t->total++;
    return t->total == t->stop;
}

/* A block that takes long reports its chunks, here 20. */
static void test_long_input(void **state) {
    (void)state;
    enum { LONG = 20 * 1024 };
    static int tokens[LONG];
    ll_model *m = tiny_model("model.task=seq2seq attention.kernel=relu model.layers=1 model.encoder-layers=1");
    ll_stream *stream = NULL;
    watched t = {0};
    for (int i = 0; i < LONG; i++) tokens[i] = 1 + i % 4;
    CHECK_OK(ll_stream_create(&stream, m));
    ll_model_watch(m, follow, &t);
    CHECK_OK(ll_stream_source(stream, tokens, LONG));
    assert_int_equal(t.done, 1000);
    assert_true(t.total >= 40);
    t = (watched){.stop = 3};
    CHECK_FAILS(ll_stream_source(stream, tokens, LONG), LL_ESTOPPED, "stopped");
    assert_int_equal(t.total, 3);
    ll_stream_free(stream);
    ll_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_watch), cmocka_unit_test(test_two_stacks),
                                       cmocka_unit_test(test_long_input)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
