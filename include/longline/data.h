/* Text as a model's tokens, and back; music. */
#ifndef LL_DATA_API_H
#define LL_DATA_API_H

#include "longline/base.h"
#include "longline/model.h"

LL_C_BEGIN

/* ---- Text and tokens ---- */

typedef struct ll_tokenizer ll_tokenizer;

/* Makes tokens of text as the model's data.format does: bytes, words, letters of proteins, events of music, or the
 * tokens of the tokenizer that an imported model brought. Needs no file but the model. Keeps the model, which must
 * outlive it. LL_EFORMAT: the model's vocabulary is damaged. */
LL_API LL_MUST_USE ll_status ll_tokenizer_create(ll_tokenizer **tokenizer, const ll_model *model);
LL_API void ll_tokenizer_free(ll_tokenizer *tokenizer);
/* Tokens of text are in [0, this number). A model may have further ones, as a mask. */
LL_API int ll_tokenizer_vocab(const ll_tokenizer *tokenizer);
/* The tokens of a text, without those that go around it, in memory that the caller frees with ll_text_free.
 * LL_EINVAL for text that the tokenizer cannot cut; empty text has no tokens. O(size), and O(n log n) in the longest
 * word of an imported tokenizer. */
LL_API LL_MUST_USE ll_status ll_tokenizer_encode(const ll_tokenizer *tokenizer, const void *text, size_t size,
                                                 int **tokens, size_t *count);
/* The text of a token, *size bytes; the texts of tokens joined make the whole text (of imported tokenizers, as far as
 * they keep it: BERT's loses case, and its words begin with a blank). Valid until the next call. A number that
 * is no token of text has none: *size is 0. */
LL_API const char *ll_tokenizer_text(ll_tokenizer *tokenizer, int token, size_t *size);

/* Tokens with a part of their own: those that go before and after every text of an imported model, as [CLS] and [SEP];
 * and the one that begins every piece of music, and so ends the piece before it. */
typedef enum { LL_SPECIAL_BEFORE, LL_SPECIAL_AFTER, LL_SPECIAL_PIECE } ll_special;
/* *count of them, which is 0 where there are none. They last as long as the tokenizer. */
LL_API const int *ll_tokenizer_special(const ll_tokenizer *tokenizer, ll_special which, size_t *count);

/* ---- Music ---- */

/* Writes tokens of a model of music (data.format = midi) as a standard MIDI file. Tokens before number `first` set
 * the position in the bar, the tempo and the instruments, but none of their notes is written: the file begins with the
 * bar that `first` is in. Any tokens are accepted; those that make no sense are skipped. LL_EINVAL for other models,
 * and where no note is left. O(count). */
LL_API LL_MUST_USE ll_status ll_tokenizer_write_midi(const ll_tokenizer *tokenizer, const char *path, const int *tokens,
                                                     size_t count, size_t first);

LL_C_END

#endif
