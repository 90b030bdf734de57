/* Batches of tokens. A reader opens the files a recipe names and hands out batches that are a function
 * of (seed, step) alone, so that a resumed run sees what an uninterrupted one would have seen. */
#ifndef LL_DATA_H
#define LL_DATA_H

#include "data/batch.h"
#include "base/file.h"
#include "data/data_options.h"

typedef struct ll_reader ll_reader;

/* split: "train", "valid" or "test". vocabulary: that of another reader, or of a model, which is copied (NULL or empty:
 * makes its own). LL_EINVAL / LL_EIO / LL_EFORMAT name the file. */
LL_MUST_USE ll_status ll_reader_create(ll_reader **reader, const ll_reader_options *c, const char *split,
                                       const ll_bytes *vocabulary);
/* What a model must keep to read and write the same tokens; empty where the recipe says all. */
const ll_bytes *ll_reader_vocabulary(const ll_reader *reader);
/* Words and bytes of the whole split for each of its tokens; 0 and 0 for what is not text. */
void ll_reader_units(const ll_reader *reader, double *words, double *bytes);
void ll_reader_free(ll_reader *reader);
/* Does the library make the data of this recipe, a valid split among them? */
int ll_data_is_made(const ll_data_options *c);
int ll_reader_vocab(const ll_reader *reader);   /* tokens are in [0, vocab) */
int ll_reader_classes(const ll_reader *reader); /* 0 for language models */
/* Names of the classes where the data have them and the recipe does not: what data.classes has to be; else NULL. */
const char *ll_reader_class_names(const ll_reader *reader);
int64_t ll_reader_size(const ll_reader *reader); /* tokens (text) or examples */
/* Pixels in a row and rows of an image; 0 and 0 for what is not an image. */
void ll_reader_image(const ll_reader *reader, int *width, int *height);
/* Images come moved to the right by so many pixels from now on, in place of data.shift. */
void ll_reader_shift(ll_reader *reader, int pixels);

/* Training batch number `index` (B = c->batch): random windows of text, or a shuffled pass through
 * the examples (a new shuffle every epoch, a function of seed and epoch). Fills batch, whose arrays
 * hold B*T, B*T (or B) and B. Cannot fail. */
void ll_reader_batch(const ll_reader *reader, ll_batch *batch, uint64_t seed, int64_t index);
/* A part of one: examples number first, first + 1, .. of all batches, as many as `batch` has. */
void ll_reader_rows(const ll_reader *reader, ll_batch *batch, uint64_t seed, int64_t first);

/* Evaluation: consecutive windows or examples in order, each token predicted once. Batch number
 * `index` of ll_reader_eval_batches; a short last batch has lengths 0 and targets -1 at its end. */
/* Of training batch `index` of n streams (train.carry-state): tokens of its text that came before each row. */
void ll_reader_offsets(const ll_reader *reader, int64_t *offset, int n, int64_t index);
int64_t ll_reader_eval_batches(const ll_reader *reader);
void ll_reader_eval_batch(const ll_reader *reader, ll_batch *batch, int64_t index);
void ll_reader_eval_rows(const ll_reader *reader, ll_batch *batch, int64_t first);

/* Adds how often each token (of ll_reader_vocab) is there to be predicted in the whole split; batch is scratch. */
void ll_reader_count(const ll_reader *reader, ll_batch *batch, int64_t *count);

/* The text of a byte reader (its whole split), for baselines; NULL for what is not one text of bytes. */
const uint8_t *ll_reader_text(const ll_reader *reader, size_t *size);

/* For batches of c->batch examples of c->length tokens. */
LL_MUST_USE ll_status ll_batch_allocate(ll_batch *batch, const ll_reader_options *c);
void ll_batch_free(ll_batch *batch);

#endif
