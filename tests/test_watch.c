/* How far calls with a model have come, as ll_model_watch tells it. */
#include "models.h"

typedef struct {
    int64_t done, total, stop;
} told;

static int hear(int64_t done, int64_t total, void *arg) {
    told *t = arg;
    assert_true(done == ++t->done);
    t->total = total;
    return done == t->stop;
}

/* After every block, and where it is stopped. */
static void test_watch(void **state) {
    (void)state;
    ll_model *m = tiny_model("attention.kernel=softmax");
    ll_stream *stream = NULL;
    const int tokens[4] = {1, 2, 3, 4}, layers = m->c->layers;
    float out[64 * 16];
    told t = {0};
    ll_model_watch(m, hear, &t);
    CHECK_OK(ll_model_score(m, out, tokens, NULL, 1, 4));
    assert_true(t.done == layers && t.total == layers);
    t = (told){.stop = 1};
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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_watch)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
