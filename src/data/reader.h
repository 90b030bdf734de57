/* Batches of tokens. A reader opens the files that a recipe names. Its batches are a function of (seed, step) alone, so
 * that a resumed run sees the same batches as an uninterrupted one. */
#ifndef LL_READER_H
#define LL_READER_H

#include "data/batch.h"
#include "base/file.h"
#include "data/data_options.h"

typedef struct ll_reader ll_reader;

/* split: "train", "valid" or "test". vocabulary: that of another reader or of a model, which is copied; NULL or empty:
 * the reader makes its own. LL_EINVAL / LL_EIO / LL_EFORMAT name the file. */
LL_MUST_USE ll_status ll_reader_create(ll_reader **reader, const ll_reader_options *c, const char *split,
                                       const ll_bytes *vocabulary);
/* The vocabulary, which a model must keep to read and write the same tokens; empty if the format needs none. */
const ll_bytes *ll_reader_vocabulary(const ll_reader *reader);
/* Words and bytes of the whole split divided by its tokens; 0 and 0 if it is not text. */
void ll_reader_units(const ll_reader *reader, double *words, double *bytes);
void ll_reader_free(ll_reader *reader);
/* Does the library generate the data of this recipe, with a valid split? */
int ll_data_is_made(const ll_data_options *c);
/* Is a file of data.valid, or of data.test, also read for training? `first` becomes the name of the first one. */
int ll_data_shared(char *first, size_t size, const ll_data_options *c, int test);
/* What a token of this recipe is: "byte", "word". */
const char *ll_data_unit(const ll_data_options *c);
int ll_reader_vocab(const ll_reader *reader);   /* tokens are in [0, vocab) */
int ll_reader_classes(const ll_reader *reader); /* 0 for language models */
/* The names of the classes, as the value of data.classes, if the data have names and the recipe has not; else NULL. */
const char *ll_reader_class_names(const ll_reader *reader);
/* How many files are left out, because they are in folders that data.classes does not name. */
int64_t ll_reader_left_out(const ll_reader *reader);
/* The label of a table's first row, if it is the only one and may be the name of the column; else "". */
const char *ll_reader_heading(const ll_reader *reader);
/* A key that is set and has no effect, because it is for files of another form; NULL: there is none. */
const char *ll_reader_unused(const ll_reader *reader);
/* Of the file that the split is in, or is a part of: how many texts with classes there are, and how many of them have
 * more tokens than a batch, which holds the first ones. 0 and 0 for other data. */
void ll_reader_cut(const ll_reader *reader, int64_t *texts, int64_t *cut);
int64_t ll_reader_size(const ll_reader *reader); /* tokens (text) or examples */
/* Width and height of an image in pixels; 0 and 0 if the data are not images. */
void ll_reader_image(const ll_reader *reader, int *width, int *height);
/* Numbers of a pixel; 0 likewise. */
int ll_reader_channels(const ll_reader *reader);
/* From now on images are shifted to the right by so many pixels, instead of data.shift. */
void ll_reader_shift(ll_reader *reader, int pixels);

/* Training batch number `index` (B = c->batch): random windows of text, or a shuffled pass through the examples. Each
 * epoch has a new shuffle, a function of seed and epoch. Fills batch, whose arrays hold B*T, B*T (or B) and B. Cannot
 * fail. */
void ll_reader_batch(const ll_reader *reader, ll_batch *batch, uint64_t seed, int64_t index);
/* A part of that: as many examples as `batch` has, from number `first` of all batches on. */
void ll_reader_rows(const ll_reader *reader, ll_batch *batch, uint64_t seed, int64_t first);

/* Training batch `index` with n streams (train.carry-state): for each row, the number of tokens of its text before
 * it. */
void ll_reader_offsets(const ll_reader *reader, int64_t *offset, int n, int64_t index);

/* Evaluation: consecutive windows, or examples in order; each token is predicted once. Batch number `index` of
 * ll_reader_eval_batches. A short last batch ends with rows of length 0 and targets -1. */
int64_t ll_reader_eval_batches(const ll_reader *reader);
void ll_reader_eval_batch(const ll_reader *reader, ll_batch *batch, int64_t index);
void ll_reader_eval_rows(const ll_reader *reader, ll_batch *batch, int64_t first);

/* Adds to each token of ll_reader_vocab, or to each class, how often it occurs as a target in batch `index` of
 * evaluation, whatever mask is drawn. batch is scratch. */
void ll_reader_count(const ll_reader *reader, ll_batch *batch, int64_t index, int64_t *count);

/* Allocates a batch of c->batch examples of c->length tokens. */
LL_MUST_USE ll_status ll_batch_allocate(ll_batch *batch, const ll_reader_options *c);
void ll_batch_free(ll_batch *batch);

#endif
