/* The functions of SentencePiece that we need, as C functions. pieces_shim.cc implements them; pieces_none.c returns an
 * error where the program was built without it. Error texts are written to `why`, 200 bytes; "" where memory was
 * refused. */
#ifndef LL_PIECES_SHIM_H
#define LL_PIECES_SHIM_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { LL_PIECES_UNKNOWN, LL_PIECES_LINE_END, LL_PIECES_WHY = 200 };

/* Receives a result of any size, at once or token by token. */
typedef int ll_pieces_take(void *arg, const char *data, size_t size);
typedef int ll_pieces_token(void *arg, int token);

/* All return 1, or 0 and why. Trains a unigram model of about `vocab` pieces on the lines of a text; the same text
 * gives the same model. */
int ll_pieces_shim_train(const char *text, size_t size, int vocab, ll_pieces_take *take, void *arg, char *why);
/* Loads the result of training; NULL and why on failure. */
void *ll_pieces_shim_load(const char *model, size_t size, char *why);
void ll_pieces_shim_free(void *processor);
int ll_pieces_shim_count(void *processor);
/* Encodes a line without its line end. */
int ll_pieces_shim_encode(void *processor, const char *line, size_t size, ll_pieces_token *take, void *arg, char *why);
/* The token of a byte; LL_PIECES_UNKNOWN: it has none. */
int ll_pieces_shim_byte(void *processor, int byte);
/* Writes the text of a piece to out, of `capacity` bytes; returns its size. */
size_t ll_pieces_shim_text(void *processor, int token, char *out, size_t capacity);

#ifdef __cplusplus
}
#endif

#endif
