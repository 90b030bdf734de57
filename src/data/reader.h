/* Inside the data room. A format opens its files and fills one row of a batch; which rows make up a
 * batch is the same for all formats and lives in reader.c.
 *
 *   reader.c   opened and asked        batch.c    which rows make up a batch
 *   source.c   files of a split        shuffle.c  the order of examples
 *   text_reader.c windows of tokens    mask.c     tokens to guess
 *   bytes.c    any file as text        demo.c     the text inside the library
 *   idx.c      images with labels      fasta.c    proteins
 *   coder.h    text to tokens and back tokens.c   text of words
 *   cells.c    rows of TSV and CSV     labelled.c texts with classes
 *   listops.c  lists and operations    retrieval.c pairs of texts
 *   examples.c rows of those           cifar.c    CIFAR-10
 *   image.c    rows of images          resize.c   to another size
 *   png.c      gray pixels of PNG      pathfinder_png.c folders of them
 *   pairs.c    source TAB target      toy.c      sources to be copied or reversed
 *   music.h    MIDI files
 *
 * What a kind of format keeps beside the head that all readers have stands in the file of that kind, behind r->own. */
#ifndef LL_READER_H
#define LL_READER_H

#include "base/file.h"
#include "data/data_internal.h"

enum { LL_SPLIT_TRAIN, LL_SPLIT_VALID, LL_SPLIT_TEST };

typedef struct {
    const char *name; /* as in data.format */
    unsigned tasks;   /* bits 1 << LL_TASK_...: what it can be read for */
    ll_status (*open)(ll_reader *r, const ll_reader_options *c, int split);
    /* Row number `row` of the batch becomes the text from token `index`, or example number `index`. */
    void (*fill)(const ll_reader *r, ll_batch *batch, int row, int64_t index);
    size_t own;                        /* bytes of r->own */
    void (*close)(const ll_reader *r); /* frees what r->own points to; NULL: nothing */
    /* Changes a row of a training batch by draws of (seed, number); NULL: does not. */
    void (*augment)(const ll_reader *r, ll_batch *batch, int row, uint64_t seed, int64_t number);
    int made; /* the library makes the data, a valid split among them: no file is named */
} ll_format;

extern const ll_format ll_format_bytes, ll_format_idx, ll_format_demo, ll_format_fasta, ll_format_words,
    ll_format_labelled, ll_format_listops, ll_format_retrieval, ll_format_cifar10, ll_format_pathfinder,
    ll_format_pieces, ll_format_midi, ll_format_pairs, ll_format_copy, ll_format_reverse, ll_format_copy_reverse,
    ll_format_subwords;

struct ll_reader {
    const ll_format *format;
    int task, B, T, vocab, classes;
    int width, height;     /* of images; 0 and 0 */
    int examples;          /* a shuffled pass through `size` examples; else windows of one text of `size` tokens */
    int endless;           /* examples that are made: never the same again */
    int64_t size;          /* tokens of text, or examples, of this split */
    int streams;           /* training reads `rows` in their order, in as many streams as a batch has rows */
    int64_t rows, stride;  /* row number i of an evaluation has index i * stride, i < rows */
    int64_t *begin;        /* (size + 1) examples of text: where each begins; else NULL */
    int64_t *row;          /* (size + 1) rows of an evaluation before each of them, where they are cut into windows */
    int mask, maskable;    /* mlm: the token that hides others, and the first that may be hidden */
    ll_bytes vocabulary;   /* what a coder needs to know */
    char *class_names;     /* as data.classes, where the recipe leaves them to the data; else NULL */
    ll_bytes file[2];      /* what was read */
    int mapped;            /* file[0] is mapped (ll_file_map) */
    void *own;             /* (format->own bytes) what this kind of format keeps, zeros at first */
};

typedef struct {
    const char *key, *path; /* "data.train" and its value */
} ll_source;

/* The file of a split (labels = 1: of its labels), or LL_EINVAL naming the key that is empty. A valid
 * split without a file is the end of the train file. */
LL_MUST_USE ll_status ll_split_source(ll_source *source, const ll_reader_options *c, int split, int labels);
/* Which of the n bytes or examples of that file are the split: `count` from `first`. data.limit shortens
 * train after valid is cut off, so that runs with different limits are compared on the same data. */
void ll_split_range(int64_t *first, int64_t *count, const ll_reader_options *c, int split, int64_t n);

/* All files that a path names: itself, those of a folder (sorted), or of several paths with ":" between them. */
LL_MUST_USE ll_status ll_files_list(char ***paths, int *count, const char *path);

/* The bytes of all of them, with one zero byte between two. */
LL_MUST_USE ll_status ll_files_read(ll_bytes *bytes, const char *path);

/* Is there a split of its own to evaluate on, or is it cut from train, or none? */
int ll_split_is_cut(const ll_reader_options *c);
/* Lets go of all but `count` bytes from `first`: the end of a large file is small. */
LL_MUST_USE ll_status ll_bytes_keep(ll_bytes *bytes, int64_t first, int64_t count);

/* The interval that holds x: begin[i] <= x < begin[i + 1], i < n. */
int64_t ll_interval_of(const int64_t *begin, int64_t n, int64_t x);

/* Masks a row that `fill` has written, by draws of (seed, number, position). */
void ll_mask_row(const ll_reader *r, ll_batch *batch, int row, uint64_t seed, int64_t number);

/* Where index i of [0, n) goes in the shuffle of an epoch: for each (seed, epoch) a permutation of [0, n),
 * n < 2^62. O(1) time and memory. */
int64_t ll_shuffle(int64_t i, int64_t n, uint64_t seed, uint32_t epoch);

/* Row `row` of a seq2seq batch: source and target of n and m bytes, with the tokens that begin and end them. */
void ll_pair_fill(ll_batch *batch, int row, const uint8_t *source, size_t n, const uint8_t *target, size_t m);

#endif
