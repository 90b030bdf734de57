/* Inside the data room. A format opens its files and fills one row of a batch; which rows make up a
 * batch is the same for all formats and lives in reader.c.
 *
 *   reader.c   splits, batches         shuffle.c  the order of examples
 *   bytes.c    any file as text        demo.c     the text inside the library
 *   idx.c      images with labels     pairs.c    lines of source TAB target
 *   toy.c      sources to be copied or reversed */
#ifndef LL_READER_H
#define LL_READER_H

#include "base/file.h"
#include "data/data.h"

enum { LL_SPLIT_TRAIN, LL_SPLIT_VALID, LL_SPLIT_TEST };

enum {
    LL_ORDER_WINDOWS, /* anywhere in a text */
    LL_ORDER_SHUFFLED, /* all examples, then all again in another order */
    LL_ORDER_ENDLESS   /* one example after the other, never the same again */
};

typedef struct {
    const char *name; /* as in data.format */
    int task;         /* LL_TASK_...: what it can be read for */
    int order;        /* which places training takes: LL_ORDER_... */
    ll_status (*open)(ll_reader *r, const ll_config *c, int split);
    /* Row number `row` of the batch becomes the text from byte `place`, or example number `place`. */
    void (*fill)(const ll_reader *r, ll_batch *batch, int row, int64_t place);
} ll_format;

extern const ll_format ll_format_bytes, ll_format_idx, ll_format_demo, ll_format_pairs, ll_format_copy,
    ll_format_reverse, ll_format_copy_reverse;

struct ll_reader {
    const ll_format *format;
    int B, T, vocab, classes, width, height;
    int64_t size;          /* bytes of text, or examples, of this split */
    int64_t rows, stride;  /* row number i of an evaluation is at place i * stride, i < rows */
    const uint8_t *data;   /* text or pixels of this split */
    const uint8_t *labels; /* of images */
    struct ll_pair *pairs; /* (all of the file), and the first of this split */
    int64_t first;
    int split, shortest, longest, symbols; /* toys */
    uint64_t seed;
    ll_bytes file[2];      /* what data and labels point into */
};

typedef struct {
    const char *key, *path; /* "data.train" and its value */
} ll_source;

/* The file of a split (labels = 1: of its labels), or LL_EINVAL naming the key that is empty. A valid
 * split without a file is the end of the train file. */
LL_MUST_USE ll_status ll_split_source(ll_source *source, const ll_config *c, int split, int labels);
/* Which of the n bytes or examples of that file are the split: `count` from `first`. data.limit shortens
 * train after valid is cut off, so that runs with different limits are compared on the same data. */
void ll_split_range(int64_t *first, int64_t *count, const ll_config *c, int split, int64_t n);

/* r reads `size` bytes of text. LL_EINVAL, with `name` in it, where that is too little for a window. */
LL_MUST_USE ll_status ll_text_use(ll_reader *r, const ll_config *c, int split, const char *name, const uint8_t *text,
                                  int64_t size);
void ll_text_fill(const ll_reader *r, ll_batch *batch, int row, int64_t place);

/* Where place i of [0, n) goes in the shuffle of an epoch: for each (seed, epoch) a permutation of [0, n),
 * n < 2^62. O(1) time and memory. */
int64_t ll_shuffle(int64_t i, int64_t n, uint64_t seed, uint32_t epoch);

/* Row `row` of a seq2seq batch: source and target of n and m bytes, with the tokens that begin and end them. */
void ll_pair_fill(ll_batch *batch, int row, const uint8_t *source, size_t n, const uint8_t *target, size_t m);

#endif
