/* Streams that are fed together. Each gives the same bits as alone, for every kernel and position that can stream,
 * whatever the other streams are and whenever they join or leave. */
#include <unistd.h>

#include "longline-batch.h"
#include "model/stream/model_stream.h"
#include "stream_pairs.h"

enum {
    V = 11,
    MOST = 4200, /* of any vocabulary in this file */
    STREAMS = 7,
    T = 60 /* the most tokens of a stream */
};

/* The tokens of each stream, and the logits after each token when the stream is fed alone, token by token. */
static struct {
    int count, tokens[T];
    float *logits;
} line[STREAMS];
static int vocab;

static int length_of(int i) { return i == 0 ? T : 1 + (int)ll_below(T, 11, 3, (uint64_t)i); }

static void prepare(ll_model *model) {
    ll_stream *s = NULL;
    vocab = model->c->model.vocab;
    CHECK_OK(ll_stream_create(&s, model));
    for (int i = 0; i < STREAMS; i++) {
        line[i].count = length_of(i);
        line[i].logits = realloc(line[i].logits, (size_t)T * (size_t)vocab * sizeof(float));
        random_ints(line[i].tokens, line[i].count, vocab, 0, (uint64_t)i + 1);
        ll_stream_reset(s);
        if (s->cache) CHECK_OK(ll_stream_source(s, line[i].tokens, 1 + i));
        for (int t = 0; t < line[i].count; t++)
            CHECK_OK(ll_stream_feed(s, line[i].tokens + t, 1, line[i].logits + t * vocab));
    }
    ll_stream_free(s);
}

static void same(const char *what, int i, int t, const float *got) {
    const float *expected = line[i].logits + t * vocab;
    if (memcmp(got, expected, (size_t)vocab * sizeof *got))
        fail_msg("{%s}: stream %d beside others, token %d: other bits: %g, %g", what, i, t, (double)*got,
                 (double)*expected);
}

static int next_piece(int call, int i, int left) {
    const int most = i == 0 ? 40 : 1 + (int)ll_below(4, 21, 5, (uint64_t)i);
    const int n = 1 + (int)ll_below((uint32_t)most, 21, (uint64_t)i, (uint64_t)call);
    return n < left ? n : left;
}

/* Stream i joins at call i and takes part in most calls until all its tokens are fed. */
static void feed_together(ll_model *model, int rows, const char *what) {
    ll_batcher *batcher = NULL;
    ll_stream *stream[STREAMS] = {0};
    static float logits[STREAMS][MOST];
    float *wide = calloc(40, (size_t)vocab * sizeof *wide);
    int fed[STREAMS] = {0}, left = STREAMS;
    CHECK_OK(ll_batcher_create(&batcher, model, rows));
    for (int call = 0; left; call++) {
        ll_batch_item items[STREAMS];
        int of[STREAMS], count = 0;
        for (int i = 0; i < STREAMS && i <= call && count < rows; i++) {
            if (fed[i] == line[i].count || ll_below(4, 31, (uint64_t)i, (uint64_t)call) == 0) continue;
            if (!stream[i]) CHECK_OK(ll_batcher_stream(&stream[i], batcher));
            if (!fed[i] && stream[i]->cache) CHECK_OK(ll_stream_source(stream[i], line[i].tokens, 1 + i));
            const int n = next_piece(call, i, line[i].count - fed[i]);
            of[count] = i;
            items[count++] = (ll_batch_item){.stream = stream[i], .tokens = line[i].tokens + fed[i], .n = n,
                                             .every = i == 0, .logits = i ? logits[i] : wide};
        }
        if (!count) continue;
        CHECK_OK(ll_batcher_feed(batcher, items, count));
        for (int k = 0; k < count; k++) {
            const int i = of[k], n = items[k].n;
            for (int t = 0; t < n && i == 0; t++) same(what, i, fed[i] + t, wide + t * vocab);
            fed[i] += n;
            if (i) same(what, i, fed[i] - 1, logits[i]);
            left -= fed[i] == line[i].count;
        }
    }
    for (int i = 0; i < STREAMS; i++) {
        assert_int_equal(ll_stream_position(stream[i]), line[i].count);
        ll_stream_free(stream[i]);
    }
    ll_batcher_free(batcher);
    free(wide);
}

static void check(ll_model *model, const char *keys) {
    prepare(model);
    feed_together(model, 9, keys);
    feed_together(model, 64, keys);
}

static void test_every_pair(void **state) {
    (void)state;
    const int ran = on_every_streaming_pair(check);
    print_message("%d pairs\n", ran);
    assert_true(ran >= (getenv("LL_FAST") ? 50 : 400));
}

/* Other parts of a network, products that are cut into tasks, and documents that begin within a stream. */
static const char *const variants[] = {
    "attention.kernel=relu model.separator=3 position.type=permute position.decay=fixed",
    "attention.kernel=softmax model.separator=3 position.type=learned position.max-length=60",
    "attention.kernel=favor model.norm=post model.tied-embedding=off model.embedding-norm=on",
    "attention.kernel=relu model.norm=parallel model.norm-kind=rms model.activation=swiglu model.bias=qkv",
    "attention.kernel=softmax position.type=rope model.kv-heads=1 model.heads=2 model.bias=all model.head-bias=on",
    "attention.kernel=relu model.width=300 model.heads=3 model.ff=600 model.vocab=4200 model.init-std=0.05",
    "attention.kernel=elu1 model.width=300 model.heads=3 model.ff=1100 model.vocab=4200 model.tied-embedding=off",
    "model.task=seq2seq attention.kernel=favor position.type=permute",
    "model.task=seq2seq attention.kernel=softmax position.type=sinusoidal",
};

static void test_networks(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        ll_model *model = tiny_model(variants[i]);
        check(model, variants[i]);
        ll_model_free(model);
    }
}

static void test_threads(void **state) {
    (void)state;
    ll_model *model = tiny_model("attention.kernel=favor position.type=rope model.width=96 model.heads=6");
    ll_set_threads(1);
    prepare(model);
    for (int threads = 1; threads < 6; threads += 2) {
        ll_set_threads(threads);
        feed_together(model, 64, "threads");
    }
    ll_set_threads(0);
    ll_model_free(model);
}

static void test_weights(void **state) {
    (void)state;
    static const ll_precision precisions[] = {LL_BFLOAT16, LL_INT8};
    for (int i = 0; i < 2; i++) {
        ll_model *model = tiny_model("attention.kernel=relu model.width=64 model.ff=300 model.tied-embedding=off");
        CHECK_OK(ll_model_quantize(model, precisions[i]));
        prepare(model);
        feed_together(model, 64, "rounded weights");
        ll_model_free(model);
    }
}

/* A stream of a batcher can be fed by itself, copied, saved and loaded, and then fed together with others again. */
static void test_streams(void **state) {
    (void)state;
    char path[] = "/tmp/ll-batcher-XXXXXX";
    ll_model *model = tiny_model("attention.kernel=relu position.type=rope");
    ll_batcher *batcher = NULL;
    ll_stream *a = NULL, *b = NULL, *c = NULL;
    float logits[3][V];
    close(mkstemp(path));
    prepare(model);
    CHECK_OK(ll_batcher_create(&batcher, model, 16));
    CHECK_OK(ll_batcher_stream(&a, batcher));
    CHECK_OK(ll_stream_feed(a, line[0].tokens, 30, logits[0]));
    same("alone", 0, 29, logits[0]);
    CHECK_OK(ll_stream_clone(&b, a));
    CHECK_OK(ll_stream_save(a, path));
    CHECK_OK(ll_batcher_load(&c, batcher, path));
    ll_batch_item items[3] = {{a, line[0].tokens + 30, 5, 0, logits[0]}, {b, line[0].tokens + 30, 9, 0, logits[1]},
                              {c, line[0].tokens + 30, 30, 0, logits[2]}};
    CHECK_OK(ll_batcher_feed(batcher, items, 3));
    same("first", 0, 34, logits[0]);
    same("clone", 0, 38, logits[1]);
    same("file", 0, 59, logits[2]);
    ll_stream *own = NULL; /* ll_stream_load reads what a batcher's stream saved */
    CHECK_OK(ll_stream_load(&own, model, path));
    assert_true(ll_stream_bytes(own) > 4 * ll_stream_bytes(c));
    ll_stream_free(own);
    ll_stream_free(a);
    ll_stream_free(b);
    ll_stream_free(c);
    ll_batcher_free(batcher);
    ll_model_free(model);
    unlink(path);
}

static void test_refusals(void **state) {
    (void)state;
    ll_model *model = tiny_model("attention.kernel=relu");
    ll_model *classifier = tiny_model("attention.kernel=relu model.task=classify");
    ll_batcher *batcher = NULL, *other = NULL;
    ll_stream *a = NULL, *b = NULL, *stranger = NULL;
    CHECK_FAILS(ll_batcher_create(&batcher, classifier, 4), LL_EINVAL, "classifier");
    CHECK_FAILS(ll_batcher_create(&batcher, model, 0), LL_EINVAL, "0 rows");
    CHECK_FAILS(ll_batcher_create(&batcher, model, 1025), LL_EINVAL, "1025");
    CHECK_OK(ll_batcher_create(&batcher, model, 2));
    CHECK_OK(ll_batcher_create(&other, model, 2));
    CHECK_OK(ll_batcher_stream(&a, batcher));
    CHECK_OK(ll_batcher_stream(&b, batcher));
    CHECK_OK(ll_batcher_stream(&stranger, other));
    const int good[] = {1, 2, 3}, bad[] = {1, V};
    ll_batch_item items[3] = {{a, good, 3}, {b, bad, 2}, {a, good, 1}};
    for (int i = 0; i < 3; i++) items[i].status = LL_OK;
    CHECK_FAILS(ll_batcher_feed(batcher, items, 2), LL_EINVAL, "item 1: token 11");
    for (int i = 0; i < 2; i++) assert_int_equal(items[i].status, LL_EINVAL); /* nothing is fed */
    assert_int_equal(ll_stream_position(a), 0);
    CHECK_FAILS(ll_batcher_feed(batcher, items, 3), LL_EINVAL, "3 items");
    CHECK_FAILS(ll_batcher_feed(batcher, items, -1), LL_EINVAL, "-1 items");
    items[1] = (ll_batch_item){b, good, 0};
    CHECK_FAILS(ll_batcher_feed(batcher, items, 2), LL_EINVAL, "item 1: 0 tokens");
    items[1] = (ll_batch_item){a, good, 1};
    CHECK_FAILS(ll_batcher_feed(batcher, items, 2), LL_EINVAL, "another item");
    for (int i = 0; i < 2; i++) assert_int_equal(items[i].status, LL_EINVAL);
    items[1] = (ll_batch_item){stranger, good, 1};
    CHECK_FAILS(ll_batcher_feed(batcher, items, 2), LL_EINVAL, "item 1: not a stream of this");
    CHECK_OK(ll_batcher_feed(batcher, items, 1));
    assert_int_equal(ll_stream_position(a), 3);
    ll_stream_free(a);
    ll_stream_free(b);
    ll_stream_free(stranger);
    ll_batcher_free(batcher);
    ll_batcher_free(other);
    ll_model_free(model);
    ll_model_free(classifier);
}

/* One token's vector is not finite. The streams that do not read this token go on. */
static void test_divergence(void **state) {
    (void)state;
    ll_model *model = tiny_model("attention.kernel=relu model.norm=pre model.tied-embedding=off");
    prepare(model);
    int bad = 0; /* not the first token of stream 0 */
    while (bad == line[0].tokens[0] || bad == line[0].tokens[1] || bad == line[0].tokens[2]) bad++;
    model->param[model->at.embedding].value[bad * model->c->model.width] = NAN;
    ll_batcher *batcher = NULL;
    ll_stream *a = NULL, *b = NULL;
    float logits[V];
    CHECK_OK(ll_batcher_create(&batcher, model, 8));
    CHECK_OK(ll_batcher_stream(&a, batcher));
    CHECK_OK(ll_batcher_stream(&b, batcher));
    ll_batch_item items[2] = {{a, &bad, 1}, {b, line[0].tokens, 3, 0, logits}};
    CHECK_FAILS(ll_batcher_feed(batcher, items, 2), LL_EDIVERGED, "weights are too large");
    assert_int_equal(items[0].status, LL_EDIVERGED);
    assert_int_equal(items[1].status, LL_OK);
    same("beside a broken one", 0, 2, logits);
    CHECK_FAILS(ll_batcher_feed(batcher, items, 1), LL_EINVAL, "reset");
    ll_stream_free(a);
    ll_stream_free(b);
    ll_batcher_free(batcher);
    ll_model_free(model);
}

/* Each of the logits that an item asks for counts, not the last ones alone, which no longer see the token. */
static void test_divergence_on_the_way(void **state) {
    (void)state;
    ll_model *model = tiny_model("attention.kernel=local attention.window=2 model.layers=1 model.tied-embedding=off");
    const int tokens[6] = {3, 0, 1, 2, 1, 2};
    float every[6 * V], last[V];
    model->param[model->at.embedding].value[3 * model->c->model.width] = NAN;
    for (int rows = 2; rows <= 8; rows += 6) { /* in several passes, and in one */
        ll_batcher *batcher = NULL;
        ll_stream *a = NULL, *b = NULL;
        CHECK_OK(ll_batcher_create(&batcher, model, rows));
        CHECK_OK(ll_batcher_stream(&a, batcher));
        CHECK_OK(ll_batcher_stream(&b, batcher));
        ll_batch_item item = {b, tokens, 6, 0, last};
        CHECK_OK(ll_batcher_feed(batcher, &item, 1));
        item = (ll_batch_item){a, tokens, 6, 1, every};
        CHECK_FAILS(ll_batcher_feed(batcher, &item, 1), LL_EDIVERGED, "at token 0");
        assert_int_equal(item.status, LL_EDIVERGED);
        ll_stream_free(a);
        ll_stream_free(b);
        ll_batcher_free(batcher);
    }
    ll_model_free(model);
}

/* Memory is refused in the first of two passes. The stream that needs none in the second pass goes on. */
static void test_refused_pass(void **state) {
    (void)state;
    ll_model *model = tiny_model("attention.kernel=softmax");
    ll_batcher *batcher = NULL;
    ll_stream *a = NULL, *b = NULL;
    float logits[V];
    prepare(model);
    CHECK_OK(ll_batcher_create(&batcher, model, T));
    CHECK_OK(ll_batcher_stream(&a, batcher));
    CHECK_OK(ll_batcher_stream(&b, batcher));
    for (int i = 0; i < 4; i++) CHECK_OK(ll_stream_feed(a, line[0].tokens, T, NULL)); /* 256 tokens fill its memory */
    CHECK_OK(ll_stream_feed(b, line[0].tokens, 1, NULL));
    ll_batch_item items[2] = {{a, line[0].tokens, T}, {b, line[0].tokens + 1, 2, 0, logits}};
    ll_memory_fail_at(1);
    const ll_status status = ll_batcher_feed(batcher, items, 2);
    ll_memory_fail_at(0);
    assert_int_equal(status, LL_ENOMEM);
    assert_int_equal(items[0].status, LL_ENOMEM);
    assert_int_equal(items[1].status, LL_OK);
    same("after a refused pass", 0, 2, logits);
    CHECK_FAILS(ll_batcher_feed(batcher, items, 1), LL_EINVAL, "reset");
    ll_stream_free(a);
    ll_stream_free(b);
    ll_batcher_free(batcher);
    ll_model_free(model);
}

static ll_model *refused_model;
static ll_status use(void) {
    ll_batcher *batcher = NULL;
    ll_stream *s = NULL;
    ll_status status = ll_batcher_create(&batcher, refused_model, 4);
    if (!status) status = ll_batcher_stream(&s, batcher);
    ll_batch_item item = {s, (const int[]){1, 2, 3, 4, 5, 6}, 6};
    if (!status) status = ll_batcher_feed(batcher, &item, 1);
    ll_stream_free(s);
    ll_batcher_free(batcher);
    return status;
}

static void test_refused_memory(void **state) {
    (void)state;
    refused_model = tiny_model("attention.kernel=softmax position.type=rope");
    assert_in_range(check_refused_memory(use), 10, 60);
    ll_model_free(refused_model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_pair),   cmocka_unit_test(test_divergence_on_the_way),
        cmocka_unit_test(test_networks),     cmocka_unit_test(test_threads),
        cmocka_unit_test(test_weights),      cmocka_unit_test(test_streams),
        cmocka_unit_test(test_refusals),     cmocka_unit_test(test_divergence),
        cmocka_unit_test(test_refused_pass), cmocka_unit_test(test_refused_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
