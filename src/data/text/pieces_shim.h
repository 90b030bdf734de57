/* The few things asked of SentencePiece, as C functions; optional/pieces_shim.cc has them, or optional/pieces_none.c
 * says that the program was built without. Texts of errors go into `why`, 200 bytes. */
#ifndef LL_PIECES_SHIM_H
#define LL_PIECES_SHIM_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { LL_PIECES_UNKNOWN, LL_PIECES_LINE_END, LL_PIECES_WHY = 200 };

/* What a result of any size is given to, once or token by token. */
typedef int ll_pieces_take(void *arg, const char *data, size_t size);
typedef int ll_pieces_token(void *arg, int token);

/* All give 1, or 0 and why. Trains a unigram model of about `vocab` pieces on the lines of a text; the same text gives
 * the same. */
int ll_pieces_shim_train(const char *text, size_t size, int vocab, ll_pieces_take *take, void *arg, char *why);
/* Loads what training gave; NULL and why. */
void *ll_pieces_shim_load(const char *model, size_t size, char *why);
void ll_pieces_shim_free(void *processor);
int ll_pieces_shim_count(void *processor);
/* A line without its end. */
int ll_pieces_shim_encode(void *processor, const char *line, size_t size, ll_pieces_token *take, void *arg, char *why);
/* What a piece stands for, into out, of `capacity` bytes; returns its size. */
size_t ll_pieces_shim_text(void *processor, int token, char *out, size_t capacity);

#ifdef __cplusplus
}
#endif

#endif
