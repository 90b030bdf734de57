/* Text as a model's tokens, and back. */
#ifndef LL_DATA_API_H
#define LL_DATA_API_H

#include "longline/base.h"
#include "longline/model.h"

LL_C_BEGIN

/* ---- Text and tokens --------------------------------------------------------------------------- */

typedef struct ll_tokenizer ll_tokenizer;

/* How the model's data.format makes tokens of text (bytes, words, letters of proteins), from the model alone. Borrows
 * the model, which must outlive it. LL_EFORMAT where its vocabulary is damaged. */
LL_API LL_MUST_USE ll_status ll_tokenizer_create(ll_tokenizer **tokenizer, const ll_model *model);
LL_API void ll_tokenizer_free(ll_tokenizer *tokenizer);
/* Tokens that stand for text are in [0, this); a model may have more (a mask). */
LL_API int ll_tokenizer_vocab(const ll_tokenizer *tokenizer);
/* The tokens of a text, in memory that the caller frees with ll_tokens_free. LL_EINVAL for text that has none.
 * O(size). */
LL_API LL_MUST_USE ll_status ll_tokenizer_encode(const ll_tokenizer *tokenizer, const void *text, size_t size,
                                                 int **tokens, size_t *count);
LL_API void ll_tokens_free(int *tokens);
/* What a token stands for, *size bytes; tokens put one after the other make a text. Valid until the next call. */
LL_API const char *ll_tokenizer_text(ll_tokenizer *tokenizer, int token, size_t *size);

LL_C_END

#endif
