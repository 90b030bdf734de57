/* What readers of running text share, whatever file it comes from: windows of its tokens. */
#ifndef LL_TEXT_READER_H
#define LL_TEXT_READER_H

#include "data/reader.h"

/* r->own of these formats, or what it begins with. */
typedef struct {
    const uint8_t *data;  /* text of this split, a byte a token ... */
    int32_t *tokens;      /* ... or text of tokens that do not fit bytes */
    int64_t words, bytes; /* of the split's text; 0: unknown; words -1: not yet counted */
} ll_text_windows;

/* r reads `size` bytes of text. LL_EINVAL, with `name` in it, where that is too little for a window. */
LL_MUST_USE ll_status ll_text_use(ll_reader *r, const ll_reader_options *c, int split, const char *name,
                                  const uint8_t *text, int64_t size);
/* r reads r->size texts of their own, r->begin of them (memory it takes over), each with the token before its
 * first and the one after its last; windows do not reach from one into the next. */
LL_MUST_USE ll_status ll_texts_use(ll_reader *r, const ll_reader_options *c, const uint8_t *text, int64_t *begin);
void ll_text_fill(const ll_reader *r, ll_batch *batch, int row, int64_t index);
void ll_text_close(const ll_reader *r);

#endif
