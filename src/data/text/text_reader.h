/* Windows of tokens, for all readers of running text. */
#ifndef LL_TEXT_READER_H
#define LL_TEXT_READER_H

#include "data/reader.h"

/* r->own of these formats, or its beginning. */
typedef struct {
    const uint8_t *data;  /* text of this split: a byte for each token ... */
    int32_t *tokens;      /* ... or tokens that do not fit a byte */
    int64_t words, bytes; /* bytes and words of the split's text; 0: unknown; words -1: not counted yet */
} ll_text_windows;

/* Makes r read `size` bytes of text. LL_EINVAL, with `name` in it, if that is too little for a window. */
LL_MUST_USE ll_status ll_text_use(ll_reader *r, const ll_reader_options *c, int split, const char *name,
                                  const uint8_t *text, int64_t size);
/* Makes r read r->size texts of their own. r->begin (which it takes over) has the beginning of each. Each text has the
 * token before its first and the one after its last. Windows do not cross texts. */
LL_MUST_USE ll_status ll_texts_use(ll_reader *r, const ll_reader_options *c, const uint8_t *text, int64_t *begin);
void ll_text_fill(const ll_reader *r, ll_batch *batch, int row, int64_t index);
void ll_text_close(const ll_reader *r);

#endif
