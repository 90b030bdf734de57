/* Tokenizers of other programs, as tokenizer.json describes them (the tokenizers library's format): a text's added
 * tokens are cut out, the rest is normalised, cut into words, and each word into tokens by byte-pair encoding (Sennrich
 * et al. 2016), WordPiece (Schuster and Nakajima 2012) or a unigram model (Kudo 2018). */
#ifndef LL_SUBWORDS_H
#define LL_SUBWORDS_H

#include "base/file.h"

typedef struct ll_subwords ll_subwords;

/* From the text of a tokenizer.json, which is not kept; `name` is what errors call it. LL_EFORMAT: it is damaged, or
 * has a part that is not known, which the text names. O(size). */
LL_MUST_USE ll_status ll_subwords_create(ll_subwords **subwords, const ll_bytes *json, const char *name);
void ll_subwords_free(ll_subwords *s);
/* All tokens are below this. */
int ll_subwords_count(const ll_subwords *s);
/* The token of masked language models, [MASK] or <mask>; -1: none. */
int ll_subwords_mask(const ll_subwords *s);
/* Tokens of a text of any bytes, without those that go around it; to be freed with ll_free. O(n log n) at most.
 * LL_EINVAL where a byte has no token and there is none for what is unknown. */
LL_MUST_USE ll_status ll_subwords_encode(const ll_subwords *s, const uint8_t *text, size_t size, int32_t **tokens,
                                         int64_t *count);
/* What a token stands for, to be put one after the other. It lasts as long as s. */
const char *ll_subwords_text(const ll_subwords *s, int token, size_t *size);
/* The tokens that go before (end = 0) or after a text, as [CLS] and [SEP]. */
const int32_t *ll_subwords_special(const ll_subwords *s, int end, size_t *count);

#endif
