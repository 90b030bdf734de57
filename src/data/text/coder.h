/* Text to tokens and back. The vocabulary is one block of bytes: a list of words, a model of pieces, or a
 * tokenizer.json. A reader makes it from the train split or reads it from data.tokenizer, and a model file keeps it.
 * Formats with fixed tokens need none. */
#ifndef LL_CODER_H
#define LL_CODER_H

#include "base/file.h"
#include "data/data_options.h"

typedef struct ll_coder ll_coder;

/* The vocabulary of a text, by the recipe's data.min-count and data.vocab-size; empty for formats without one. */
LL_MUST_USE ll_status ll_coder_vocabulary(ll_bytes *vocabulary, const ll_data_options *c, const ll_bytes *text);
/* Borrows the vocabulary. LL_EFORMAT if it is not one of this format; `name` is how errors call it. */
LL_MUST_USE ll_status ll_coder_create(ll_coder **coder, const ll_data_options *c, const ll_bytes *vocabulary,
                                      const char *name);
void ll_coder_free(ll_coder *coder);
int ll_coder_vocab(const ll_coder *coder);
int ll_coder_is_music(const ll_coder *coder);
/* The tokens of a text, in memory that the caller frees with ll_free. */
LL_MUST_USE ll_status ll_coder_encode(const ll_coder *coder, const uint8_t *text, size_t size, int32_t **tokens,
                                      int64_t *count);
/* The text of a token; the texts of tokens are joined without separators. Valid until the next call. */
const char *ll_coder_text(ll_coder *coder, int token, size_t *size);
/* The tokens that go before a text (end = 0), or after it; none but in another program's tokenizer. */
const int32_t *ll_coder_around(const ll_coder *coder, int end, size_t *count);

/* The token of masked language models; -1: none. Only another program's tokenizer may have one. */
int ll_coder_mask(const ll_coder *coder);

#endif
