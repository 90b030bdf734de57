/* Files that tests of readers write into a folder of their own, and the data in ../shared. */
#ifndef LL_INPUTS_H
#define LL_INPUTS_H

#include "folder.h"

#include "base/memory.h"
#include "data/format.h"
#include "packers.h"
#include "recipe/recipe_reader.h"

/* A copy of a name that stays for many more. */
static inline char *kept(const char *name) {
    static char names[256][400];
    static int next;
    char *text = names[next++ % 256];
    snprintf(text, sizeof names[0], "%s", name ? name : "");
    return name ? text : NULL;
}

static inline char *put(const char *name, const void *data, size_t size) {
    FILE *f = fopen(at(name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
    return at(name);
}

static inline char *put_gz(const char *name, const void *data, size_t size) {
    gzFile f = gzopen(at(name), "wb");
    assert_non_null(f);
    assert_int_equal(gzwrite(f, data, (unsigned)size), size);
    assert_int_equal(gzclose(f), Z_OK);
    return at(name);
}

static inline char *put_xz(const char *name, const void *data, size_t size) {
    const size_t bound = lzma_stream_buffer_bound(size);
    uint8_t *packed = malloc(bound);
    assert_non_null(packed);
    char *path = put(name, packed, pack_xz(packed, bound, data, size));
    free(packed);
    return path;
}

#ifdef WITH_ZSTD
static inline char *put_zst(const char *name, const void *data, size_t size) {
    uint8_t *packed = malloc(ZSTD_compressBound(size));
    assert_non_null(packed);
    char *path = put(name, packed, pack_zstd(packed, ZSTD_compressBound(size), data, size));
    free(packed);
    return path;
}
#endif

static inline ll_reader *opened(const ll_config *c, const char *split) {
    ll_reader *reader = NULL;
    CHECK_OK(ll_reader_open(&reader, c, split));
    return reader;
}

/* The status of a reader that must not open; a refusal leaves the pointer unchanged. */
static inline ll_status refused(const ll_config *c, const char *split) {
    ll_reader *reader = NULL;
    const ll_status status = ll_reader_open(&reader, c, split);
    assert_true((status == LL_OK) == (reader != NULL));
    ll_reader_free(reader);
    return status;
}

static inline size_t targets_of(const ll_batch *b, const ll_config *c) {
    return ll_config_per_token(c) ? (size_t)b->B * (size_t)b->T : (size_t)c->train.batch;
}

static inline void assert_same_batch(const ll_batch *a, const ll_batch *b, const ll_config *c) {
    assert_memory_equal(a->tokens, b->tokens, sizeof(int) * (size_t)a->B * (size_t)a->T);
    assert_memory_equal(a->targets, b->targets, sizeof(int) * targets_of(a, c));
    assert_memory_equal(a->lengths, b->lengths, sizeof(int) * (size_t)a->B);
    if (a->source) assert_memory_equal(a->source, b->source, sizeof(int) * (size_t)a->B * (size_t)a->S);
}

/* Two readers return the same batches, in training and in evaluation. */
static inline void assert_same_readers(const ll_reader *a, const ll_reader *b, const ll_config *c) {
    ll_batch x, y;
    CHECK_OK(ll_batch_create(&x, c));
    CHECK_OK(ll_batch_create(&y, c));
    assert_int_equal(ll_reader_size(a), ll_reader_size(b));
    assert_int_equal(ll_reader_eval_batches(a), ll_reader_eval_batches(b));
    for (int64_t i = 0; i < 5; i++) {
        ll_reader_batch(a, &x, 3, i);
        ll_reader_batch(b, &y, 3, i);
        assert_same_batch(&x, &y, c);
    }
    for (int64_t i = 0; i < ll_reader_eval_batches(a); i++) {
        ll_reader_eval_batch(a, &x, i);
        ll_reader_eval_batch(b, &y, i);
        assert_same_batch(&x, &y, c);
    }
    ll_batch_free(&x);
    ll_batch_free(&y);
}

/* Batch i does not depend on earlier requests, nor on which reader of the same files returns it. */
static inline void assert_pure(const ll_config *c) {
    ll_reader *a = opened(c, "train"), *b = opened(c, "train");
    ll_batch x, y;
    CHECK_OK(ll_batch_create(&x, c));
    CHECK_OK(ll_batch_create(&y, c));
    for (int64_t i = 40; i >= 0; i -= 8) {
        for (int64_t j = 0; j < i; j++) ll_reader_batch(a, &x, 5, j);
        ll_reader_batch(a, &x, 5, i);
        ll_reader_batch(b, &y, 5, i);
        assert_same_batch(&x, &y, c);
        ll_reader_batch(b, &y, 6, i); /* another seed is another order */
        assert_memory_not_equal(x.tokens, y.tokens, sizeof(int) * (size_t)x.B * (size_t)x.T);
    }
    ll_batch_free(&x);
    ll_batch_free(&y);
    ll_reader_free(a);
    ll_reader_free(b);
}

/* Opening fails cleanly whichever allocation is refused; sanitizers see what it leaves behind. */
static inline void assert_memory_can_end(const ll_config *c, const char *split) {
    for (long n = 1; n < 1000; n++) {
        ll_memory_fail_at(n);
        const ll_status status = refused(c, split);
        ll_memory_fail_at(0);
        if (status == LL_OK) {
            assert_true(n > 1);
            return;
        }
        assert_int_equal(status, LL_ENOMEM);
    }
    fail_msg("no end of allocations");
}

/* The path of a file of the shared data. Where there is none, the test is skipped. */
static inline char *shared(const char *name) {
    static char paths[8][256];
    static int next;
    const char *root = getenv("LL_SHARED");
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/data/%s", root ? root : "../shared", name);
    if (!access(path, R_OK)) return path;
    printf("not there, so not tested: %s\n", path);
    skip();
    return NULL;
}

#endif
