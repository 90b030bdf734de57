/* Inside the data room. A format opens its files and fills one row of a batch. Which rows make up a batch is the same
 * for all formats (batch.c). What only one kind of format needs is in the file of that kind, behind r->own. */
#ifndef LL_FORMAT_H
#define LL_FORMAT_H

#include "base/file.h"
#include "data/corpus.h"
#include "data/file_list.h"
#include "data/marks.h"
#include "data/reader.h"
#include "longline/files.h"

enum { LL_SPLIT_TRAIN, LL_SPLIT_VALID, LL_SPLIT_TEST };

/* Where a text may be cut so that the tokens of its parts, one after the other, are those of the whole: nowhere, after
 * a line, after any byte. */
typedef enum { LL_CUT_NOWHERE, LL_CUT_LINE, LL_CUT_BYTE } ll_cut;

typedef struct {
    const char *name; /* as in data.format */
    unsigned tasks;   /* bits 1 << LL_TASK_...: the tasks it can be read for */
    ll_status (*open)(ll_reader *r, const ll_reader_options *c, int split);
    /* Writes the text from token `index`, or example number `index`, into row `row` of the batch. */
    void (*fill)(const ll_reader *r, ll_batch *batch, int row, int64_t index);
    size_t own;                        /* bytes of r->own */
    void (*close)(const ll_reader *r); /* frees what r->own points to; NULL: nothing to free */
    /* Changes a row of a training batch by draws of (seed, number); NULL: no change. */
    void (*augment)(const ll_reader *r, ll_batch *batch, int row, uint64_t seed, int64_t number);
    ll_files_pick *pick; /* of the files of a path those that a split reads; NULL: all */
    int made;         /* the library generates the data, with a valid split; no file is named */
    int images;       /* the examples are images */
    const char *unit; /* what a token is, and so what a loss of tokens is counted in */
    ll_cut cut;       /* of a text of such tokens */
    int baseline;          /* the frequencies of tokens are shown beside the loss of a model */
    ll_input_format input; /* what files of sequences are, if they are of one kind; else LL_INPUT_AUTO */
} ll_format;

/* The format of this name in a recipe, or NULL. */
const ll_format *ll_format_named(const char *name);

extern const ll_format ll_format_bytes, ll_format_idx, ll_format_demo, ll_format_fasta, ll_format_words,
    ll_format_labelled, ll_format_listops, ll_format_retrieval, ll_format_cifar10, ll_format_pathfinder, ll_format_png,
    ll_format_pieces, ll_format_midi, ll_format_pairs, ll_format_copy, ll_format_reverse, ll_format_copy_reverse,
    ll_format_subwords, ll_format_recall;

struct ll_reader {
    const ll_format *format;
    int task, B, T, vocab, classes;
    int width, height;     /* of images; else 0 and 0 */
    int channels;          /* numbers of a pixel */
    int examples;          /* a shuffled pass through `size` examples; else windows of one text of `size` tokens */
    int endless;           /* examples are generated and never repeat */
    int64_t size;          /* tokens of text, or examples, of this split */
    int streams;           /* training reads `rows` in order, in as many streams as a batch has rows */
    int64_t rows, stride;  /* row number i of an evaluation has index i * stride, i < rows */
    int texts;             /* examples are texts of their own, cut into windows: ll_text_at */
    int mask, maskable; /* mlm: the token of the mask (-1: one after the format's), and the first that may be masked */
    ll_bytes vocabulary;   /* what a tokenizer needs */
    char *class_names;     /* as data.classes, if the data have names and the recipe has not; else NULL */
    int64_t left_out;      /* files in folders that data.classes does not name */
    int64_t seen, cut;     /* of the whole file: texts with classes, and those of more than T tokens, which are cut */
    char heading[64];      /* what may be the name of the column of labels, read as a label; else "" */
    const char *unused;    /* a key that is set and that files of this form do not have a use for; or NULL */
    ll_bytes file[2];      /* the bytes that were read, or are mapped (ll_file_take) */
    void *own;             /* (format->own bytes) the data of this kind of format, initially zero */
};

typedef struct {
    const char *key, *path; /* "data.train" and its value */
} ll_source;

/* The file of a split, or of its labels if `labels`. LL_EINVAL names the key that is empty. A valid split without a
 * file is the end of the train file. */
LL_MUST_USE ll_status ll_split_source(ll_source *source, const ll_reader_options *c, int split, int labels);
/* The split is `count` of the file's n bytes or examples, from number `first` on. data.limit shortens train after valid
 * is cut off, so that runs with different limits are evaluated on the same data. */
void ll_split_range(int64_t *first, int64_t *count, const ll_reader_options *c, int split, int64_t n);
/* Would data.valid-fraction hold out none of n examples, or all of them? */
int ll_split_is_empty(const ll_reader_options *c, int64_t n);
/* ll_split_range of examples, of which each split has at least one: LL_EINVAL says what to set. what: "sequence";
 * `name` is how errors call the file. */
LL_MUST_USE ll_status ll_split_examples(int64_t *first, int64_t *count, const ll_reader_options *c, int split,
                                        int64_t n, const char *what, const char *name);

/* Is the valid split cut from train? */
int ll_split_is_cut(const ll_reader_options *c);
/* Releases all but `count` bytes from `first` on, so that the end of a large file needs little memory. */
LL_MUST_USE ll_status ll_bytes_keep(ll_bytes *bytes, int64_t first, int64_t count);

/* Texts of their own are cut into windows (text_reader.c). A text, its number among those of the split, the number of
 * rows of an evaluation before it, and its tokens. */
typedef struct {
    int64_t text, row, begin, end;
} ll_text;
/* The text that has this token, row, or number. */
ll_text ll_text_at(const ll_reader *r, ll_mark_field by, int64_t number);

/* Masks a row that `fill` has written, by draws of (seed, number, position). */
void ll_mask_row(const ll_reader *r, ll_batch *batch, int row, uint64_t seed, int64_t number);

/* The number to which the shuffle of an epoch moves index i of [0, n): for each (seed, epoch) a permutation of [0, n),
 * n < 2^62. O(1) time and memory. */
int64_t ll_shuffle(int64_t i, int64_t n, uint64_t seed, uint32_t epoch);

/* Fills row `row` of a seq2seq batch: source and target of n and m bytes, and the tokens that begin and end them. */
void ll_pair_fill(ll_batch *batch, int row, const uint8_t *source, size_t n, const uint8_t *target, size_t m);

#endif
