/* Pieces of words, by SentencePiece if the program was built with it. Otherwise all functions return an error. */
#ifndef LL_PIECES_H
#define LL_PIECES_H

#include "base/file.h"

typedef struct ll_pieces ll_pieces;

/* Trains a unigram model of about `vocab` pieces (0: 8000). Training keeps its text in memory: of more than `most`
 * bytes it gets every second line, every third, and so on. */
enum { LL_PIECES_MOST = 1 << 28 };
LL_MUST_USE ll_status ll_pieces_train(ll_bytes *model, const ll_bytes *text, int vocab, size_t most);
LL_MUST_USE ll_status ll_pieces_create(ll_pieces **pieces, const ll_bytes *model, const char *name);
void ll_pieces_free(ll_pieces *pieces);
int ll_pieces_count(const ll_pieces *pieces);
LL_MUST_USE ll_status ll_pieces_encode(const ll_pieces *pieces, const uint8_t *text, size_t size, int32_t **tokens,
                                       int64_t *count);
const char *ll_pieces_text(ll_pieces *pieces, int token, size_t *size);

#endif
