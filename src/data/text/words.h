/* The words of a text: counted, and as tokens of a list. */
#ifndef LL_WORDS_H
#define LL_WORDS_H

#include "base/file.h"

typedef struct ll_words ll_words;
/* So many different words are counted in one pass over a text. Their table takes 130 MB, and
 * twice that while it grows or is halved. */
enum { LL_WORDS_TOGETHER = 3 << 20 };
/* The list of a text's words that occur `least` times, the first `most` of them (0: all). A text with more than
 * `together` different words is read several times, so that memory does not grow with it. */
LL_MUST_USE ll_status ll_words_list(ll_bytes *list, const ll_bytes *text, int64_t least, int most, size_t together);
LL_MUST_USE ll_status ll_words_create(ll_words **words, const ll_bytes *list, const char *name);
void ll_words_free(ll_words *words);
int ll_words_count(const ll_words *words);
LL_MUST_USE ll_status ll_words_encode(const ll_words *words, const uint8_t *text, size_t size, int32_t **tokens,
                                      int64_t *count);
/* Reads at most `most` tokens from *at on and moves it behind them. Returns how many there are. out NULL: they are only
 * counted. */
int64_t ll_words_read(const ll_words *words, const uint8_t *text, size_t size, size_t *at, int64_t most, int *out);
const char *ll_words_text(const ll_words *words, int token, size_t *size);

/* Blanks and line ends, and the zero byte that stands between two files of a folder. */
int ll_is_between_words(uint8_t c);
/* Finds the next word or line end from *at on; 0 if there is none. A line end is a word of size 0. *at moves behind it:
 * words are the same from there on. */
int ll_word_next(const uint8_t **found, size_t *n, const uint8_t *text, size_t size, size_t *at);
/* The number of words, as published losses count them: what stands between blanks, and one more for each line end. */
int64_t ll_count_words(const ll_bytes *text);

#endif
