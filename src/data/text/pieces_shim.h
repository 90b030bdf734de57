/* The functions of SentencePiece that we need, as C functions. pieces_shim.cc implements them; pieces_none.c returns an
 * error where the program was built without it. Error texts are written to `why`, 200 bytes; "" where memory was
 * refused. */
#ifndef LL_PIECES_SHIM_H
#define LL_PIECES_SHIM_H

#include <stddef.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { LL_PIECES_UNKNOWN, LL_PIECES_LINE_END, LL_PIECES_WHY = 200 };

/* Receives a result of any size, at once or token by token. */
typedef int ll_pieces_take(void *arg, const char *data, size_t size);
typedef int ll_pieces_token(void *arg, int token);

enum { LL_PIECES_LONGEST = 65536 }; /* SentencePiece leaves longer lines out */

/* The size of the first line of a text, without its end. A longer one is cut before its last blank, or else between two
 * characters. */
static inline size_t ll_pieces_line(const char *text, size_t size) {
    const size_t longest = LL_PIECES_LONGEST, most = size < longest ? size : longest;
    const char *end = (const char *)memchr(text, '\n', most);
    size_t n = most;
    if (end) return (size_t)(end - text);
    if (n == size || text[n] == '\n') return n;
    while (n && text[n] != ' ') n--;
    if (n) return n;
    for (n = most; n > most - 4 && (text[n] & 0xc0) == 0x80;) n--;
    return n;
}

/* All return 1, or 0 and why. Trains a unigram model of about `vocab` pieces on the lines of a text; the same text
 * gives the same model. That may take minutes, and does not say how far it is: `wait` is called every second. */
int ll_pieces_shim_train(const char *text, size_t size, int vocab, void (*wait)(void), ll_pieces_take *take, void *arg,
                         char *why);
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
