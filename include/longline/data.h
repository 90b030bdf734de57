/* Text as a model's tokens, and back; music. */
#ifndef LL_DATA_API_H
#define LL_DATA_API_H

#include "longline/base.h"
#include "longline/model.h"

LL_C_BEGIN

/* ---- Text and tokens ---- */

typedef struct ll_tokenizer ll_tokenizer;

/* How the model's data.format makes tokens of text (bytes, words, letters of proteins, events of music), from the model
 * alone. Borrows the model, which must outlive it. LL_EFORMAT where its vocabulary is damaged. */
LL_API LL_MUST_USE ll_status ll_tokenizer_create(ll_tokenizer **tokenizer, const ll_model *model);
LL_API void ll_tokenizer_free(ll_tokenizer *tokenizer);
/* Tokens that stand for text are in [0, this); a model may have more (a mask). */
LL_API int ll_tokenizer_vocab(const ll_tokenizer *tokenizer);
/* The tokens of a text, in memory that the caller frees with ll_text_free. LL_EINVAL for text that has none.
 * O(size). */
LL_API LL_MUST_USE ll_status ll_tokenizer_encode(const ll_tokenizer *tokenizer, const void *text, size_t size,
                                                 int **tokens, size_t *count);
/* What a token stands for, *size bytes; tokens put one after the other make a text. Valid until the next call. */
LL_API const char *ll_tokenizer_text(ll_tokenizer *tokenizer, int token, size_t *size);

/* ---- Music ---- */

/* The token that stands before every piece of music, and ends the one before it; -1: the model is of something else. */
LL_API int ll_tokenizer_piece(const ll_tokenizer *tokenizer);
/* Writes tokens of a model of music (data.format = midi) as a standard MIDI file. Tokens before number `first` say
 * where in a bar, how fast and on what instruments the music goes on, but are not heard: the file begins with the bar
 * that `first` is in. Any tokens will do; what makes no sense among them is passed over. LL_EINVAL for other models,
 * and where no note is left. O(count). */
LL_API LL_MUST_USE ll_status ll_tokenizer_write_midi(const ll_tokenizer *tokenizer, const char *path, const int *tokens,
                                                     size_t count, size_t first);

LL_C_END

#endif
