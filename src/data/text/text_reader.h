/* Windows of tokens, for all readers of running text. */
#ifndef LL_TEXT_READER_H
#define LL_TEXT_READER_H

#include "data/format.h"

/* A place in the bytes of a file: the next token is number `token`, and it is at `byte` or later. */
typedef struct {
    int64_t byte, token;
    int begins; /* a text begins: the next token is the boundary before its first letter */
} ll_text_cursor;

/* A text of its own, numbered in the whole file, and the place behind it if another one follows before the next
 * mark. */
typedef struct {
    int64_t text, row, begin, end;
    ll_text_cursor behind;
} ll_text_place;

/* r->own of these formats, or its beginning. Tokens are in memory (data, tokens), or are made from the bytes of a file
 * when they are read (scan). */
typedef struct {
    const uint8_t *data;  /* text of this split: a byte for each token ... */
    ll_bytes tokens;      /* ... or tokens (int32_t) that do not fit a byte, in memory or mapped */
    int64_t words, bytes; /* bytes and words of the split's text; 0: unknown; words -1: not counted yet */
    /* Reads tokens up to number `until`, or up to the beginning of the next text if next_text. Writes them to `out`,
     * unless that is NULL. */
    void (*scan)(const ll_reader *r, ll_text_cursor *at, int64_t until, int next_text, int *out);
    ll_marks marks;      /* for scan: places between tokens */
    ll_text_cursor last; /* ... and where it ended the last time */
    int64_t offset;      /* the number of the split's first token, for scan and tokens */
    size_t touched;      /* for ll_bytes_touch */
    ll_marks texts;      /* beginnings of texts of their own, and their end */
    ll_text_place found; /* the one that was asked for last */
    int64_t first, row;  /* the split's first text, and the rows before it */
} ll_text_windows;

/* Makes r read `size` tokens of text. LL_EINVAL, with `name` in it, if that is too little for a window. */
LL_MUST_USE ll_status ll_text_use(ll_reader *r, const ll_reader_options *c, int split, const char *name,
                                  const uint8_t *text, int64_t size);
/* Makes r read the texts of their own that are the split's. Each has the token before its first and the one after its
 * last. Windows do not cross texts. LL_EINVAL: there are none. what: "sequence". */
LL_MUST_USE ll_status ll_texts_use(ll_reader *r, const ll_reader_options *c, int split, const char *what,
                                   const char *name);
/* Makes the texts that ll_texts_use chose one text. It ends with the token after the last of them. If the texts are too
 * few to be split, the share of the one text is held out. */
LL_MUST_USE ll_status ll_texts_join(ll_reader *r, const ll_reader_options *c, int split, const char *name);
/* LL_EINVAL if train.length is less than a token. */
LL_MUST_USE ll_status ll_text_check_length(const ll_reader_options *c);
/* The number of windows of T tokens that a text has from token `begin` to the one before `end`. */
int64_t ll_text_windows_of(int64_t begin, int64_t end, int T);
void ll_text_fill(const ll_reader *r, ll_batch *batch, int row, int64_t index);
void ll_text_close(const ll_reader *r);

#endif
