/* Every kernel with every position that can stream. The stream gives what the whole sequence gives, with the same bits
 * however it is divided, copied, or stopped and loaded from a file; and it does not grow. */
#include <unistd.h>

#include "base/memory.h"
#include "stream_pairs.h"

enum { V = 11, T = 300 };

static char path[40];

static int tokens_of(int most, uint64_t seed, uint64_t i, int left) {
    const int n = 1 + (int)ll_below((uint32_t)most, seed, 1, i);
    return n < left ? n : left;
}

/* How far logits of a stream may be from those of the whole sequence. Orthogonal positions turn features, so weights
 * have either sign. Their sum, by which y is divided, is small for some tokens. With relu, here, it is down to 1/7,500
 * of the sum of their sizes, of which one rounding, 2^-24, is then 4.5e-4 of y. So where orthogonal positions have a
 * divisor, two such roundings more are allowed. Without one the common bound holds. */
static double bound_of(const char *keys) {
    const int turned = strstr(keys, "type=orthogonal") && !strstr(keys, "normalise=off");
    return turned ? 2e-4 + 2 * 7500 * 0x1p-24 : 2e-4;
}

/* The logits after each token, fed one by one. They are compared with those of the whole sequence. */
static void check_tiles(ll_model *model, const int *tokens, float *alone, const char *what) {
    static float logp[T * V];
    ll_stream *s = NULL;
    CHECK_OK(ll_model_logp(model, logp, tokens, NULL, 1, T));
    CHECK_OK(ll_stream_create(&s, model));
    for (int t = 0; t < T; t++) {
        double expected[V], sum = 0;
        CHECK_OK(ll_stream_feed(s, tokens + t, 1, alone + t * V));
        for (int v = 0; v < V; v++) sum += exp((double)alone[t * V + v]);
        for (int v = 0; v < V; v++) expected[v] = logp[t * V + v] + log(sum);
        check_close(what, V, alone + t * V, expected, bound_of(what));
    }
    ll_stream_free(s);
}

static void same(const char *what, const char *which, int t, const float *a, const float *b) {
    if (memcmp(a, b, V * sizeof *a)) fail_msg("%s: %s, token %d: other bits: %g, %g", what, which, t, a[0], b[0]);
}

/* Feeds pieces of up to `most` tokens. Now and then the stream is replaced by a copy, or by one from its file. */
static void check_pieces(ll_model *model, const int *tokens, const float *alone, int most, uint64_t seed,
                         const char *what) {
    ll_stream *s = NULL, *other = NULL;
    float logits[V];
    CHECK_OK(ll_stream_create(&s, model));
    for (int t = 0, i = 0; t < T; i++) {
        const int n = tokens_of(most, seed, (uint64_t)i, T - t),
                  turn = i == (most > 200 ? 0 : 5) ? 1 : 2 * (int)ll_below(8, seed, 2, (uint64_t)i);
        CHECK_OK(ll_stream_feed(s, tokens + t, n, i % 3 ? logits : NULL));
        t += n;
        if (i % 3) same(what, "pieces", t, logits, alone + (t - 1) * V);
        if (turn == 0) {
            CHECK_OK(ll_stream_clone(&other, s));
            CHECK_OK(ll_stream_feed(s, (const int[]){3, 1, 4}, 3, NULL)); /* one must not change the other */
        } else if (turn == 1) {
            CHECK_OK(ll_stream_save(s, path));
            CHECK_OK(ll_stream_load(&other, model, path));
        }
        if (turn > 1) continue;
        ll_stream_free(s);
        s = other;
        assert_int_equal(ll_stream_position(s), t);
        CHECK_OK(ll_stream_logits(s, logits));
        same(what, turn ? "file" : "clone", t, logits, alone + (t - 1) * V);
    }
    ll_stream_free(s);
}

/* Feeding allocates nothing and leaves the size of a stream unchanged, unless it `grows`, as with softmax. */
static void check_size(ll_model *model, const int *tokens, int grows) {
    ll_stream *s = NULL;
    CHECK_OK(ll_stream_create(&s, model));
    CHECK_OK(ll_stream_feed(s, tokens, 1, NULL));
    const size_t bytes = ll_stream_bytes(s);
    if (!grows) ll_memory_fail_at(1);
    CHECK_OK(ll_stream_feed(s, tokens, T, NULL));
    ll_memory_fail_at(0);
    assert_true(grows ? ll_stream_bytes(s) > bytes : ll_stream_bytes(s) == bytes);
    ll_stream_free(s);
}

static void check(ll_model *model, const char *keys) {
    static float alone[T * V];
    int tokens[T];
    random_ints(tokens, T, V, 0, 6);
    check_tiles(model, tokens, alone, keys);
    check_pieces(model, tokens, alone, 12, 1, keys);
    check_pieces(model, tokens, alone, 290, 2, keys);
    check_size(model, tokens, model->c->attention.kernel == LL_KERNEL_SOFTMAX);
}

static void test_every_pair(void **state) {
    (void)state;
    const int ran = on_every_streaming_pair(check);
    /* Softmax has no features and no decay, and linear kernels have no logits. rope-linear excludes favor with an eps
     * or without a divisor, orthogonal excludes an eps, relative-s2 excludes a decay. Local is softmax in a window.
     * Reformer's queries are its keys. value reads no query, so only positions that change the embedding go with it.
     * gla is a linear kernel, but without relative-s2. */
    enum { SOFTMAX = 11, LINEAR = STREAM_KERNELS - 5, LOCAL = 8, BUCKETS = 4, VALUE = 3 };
    const int gla = 2 * (STREAM_POSITIONS - 3), linear = LINEAR * (2 * (STREAM_POSITIONS - 3) + 1) - 2 * 3 - 2;
    if (!getenv("LL_FAST")) assert_int_equal(ran, SOFTMAX + linear + LOCAL + BUCKETS + VALUE + gla);
}

/* The same with other numbers of threads, from a file that another number wrote. */
static void test_threads(void **state) {
    (void)state;
    static float alone[T * V];
    ll_model *model = tiny_model("attention.kernel=favor position.type=permute position.decay=fixed model.width=32");
    int tokens[T];
    random_ints(tokens, T, V, 0, 6);
    ll_set_threads(1);
    check_tiles(model, tokens, alone, "one thread");
    for (int threads = 2; threads < 5; threads++) {
        ll_set_threads(threads);
        check_pieces(model, tokens, alone, 70, (uint64_t)threads, "threads");
    }
    ll_set_threads(0);
    ll_model_free(model);
}

static int make_path(void **state) {
    (void)state; /* hundreds of files, each flushed to disk; in memory where possible */
    snprintf(path, sizeof path, "%s/ll-stream-XXXXXX", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    const int file = mkstemp(path);
    return file < 0 ? -1 : close(file);
}

static int remove_path(void **state) {
    (void)state;
    return unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_pair), cmocka_unit_test(test_threads)};
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
