/* Text to tokens and back, without a model (train/model_tokenizer.c makes one of a model's). The vocabulary is one
 * block of bytes: a list of words, a model of pieces, or a tokenizer.json. A reader makes it from the train split or
 * reads it from data.tokenizer, and a model file keeps it. Formats with fixed tokens need none. */
#ifndef LL_TOKENIZER_H
#define LL_TOKENIZER_H

#include "base/file.h"
#include "data/data_options.h"
#include "longline/data.h"

/* The vocabulary of a text, by the recipe's data.min-count and data.vocab-size; empty for formats without one. */
LL_MUST_USE ll_status ll_tokenizer_vocabulary(ll_bytes *vocabulary, const ll_data_options *c, const ll_bytes *text);
/* Of this format and vocabulary, which is borrowed: words point into theirs, and a tokenizer.json is read at once.
 * LL_EFORMAT if it is not one of this format; `name` is how errors call it. */
LL_MUST_USE ll_status ll_tokenizer_create_from(ll_tokenizer **tokenizer, const ll_data_options *c,
                                               const ll_bytes *vocabulary, const char *name);
/* The token of masked language models; -1: none. Only another program's tokenizer may have one. */
int ll_tokenizer_mask(const ll_tokenizer *tokenizer);

#endif
