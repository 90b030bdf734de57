/* What tokenizers ask of Unicode: classes of characters, normal forms, regular expressions. By utf8proc and PCRE2 where
 * the program was built with them (unicode_lib.c); else ll_unicode_check says so (unicode_none.c). */
#ifndef LL_UNICODE_H
#define LL_UNICODE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/text.h"

/* Bytes that grow, to `most` of them; 0: without a limit. */
typedef struct {
    uint8_t *at;
    size_t n, capacity, most;
} ll_grown;

/* LL_EINVAL past the limit. */
LL_MUST_USE ll_status ll_grown_add(ll_grown *b, const void *data, size_t n);
LL_MUST_USE ll_status ll_grown_add_char(ll_grown *b, int32_t c);
void ll_grown_free(ll_grown *b);

/* Has it the property White_Space? */
int ll_is_white(int32_t c);

/* LL_EINVAL where the program was built without Unicode. */
LL_MUST_USE ll_status ll_unicode_check(void);

/* A general category of Unicode by its first letter, or by both: L, N, P, M, Mn. 0 for c < 0. */
int ll_is_letter(int32_t c);
int ll_is_number(int32_t c);
int ll_is_punctuation(int32_t c);
int ll_is_mark(int32_t c);
int ll_is_nonspacing(int32_t c);
/* A word character (UTS 18, annex C), as \w of an expression. */
int ll_is_word(int32_t c);
/* Cc, Cf or Co. */
int ll_is_control(int32_t c);
/* The lower case of c, which is one character for all but U+0130. */
LL_MUST_USE ll_status ll_add_lower(ll_grown *out, int32_t c);

typedef enum { LL_NFC, LL_NFD, LL_NFKC, LL_NFKD } ll_normal_form;
/* Adds a normal form of the text to out. Bytes that are no UTF-8 stay what they are. */
LL_MUST_USE ll_status ll_add_normal(ll_grown *out, const uint8_t *text, size_t n, ll_normal_form form);

typedef struct ll_regex ll_regex;
/* An expression as the tokenizers library writes it: \s is White_Space; \w is as in ll_is_word; \p{L} and \p{N} are
 * known; \h is a hexadecimal digit; ^ and $ are ends of lines, and (?m) is for ".". LL_EFORMAT, with `name` in the
 * text, where it is none, or has what PCRE2 reads in another way. */
LL_MUST_USE ll_status ll_regex_create(ll_regex **regex, const char *pattern, const char *name);
void ll_regex_free(ll_regex *regex);
/* One walk over a text from left to right. The regex may be used by several walks at a time. */
typedef struct ll_regex_walk ll_regex_walk;
LL_MUST_USE ll_status ll_regex_begin(ll_regex_walk **walk, const ll_regex *regex, const uint8_t *text, size_t n);
/* The next match that is not empty, in text[*begin, *end); *begin = n where there is none. */
LL_MUST_USE ll_status ll_regex_next(ll_regex_walk *walk, size_t *begin, size_t *end);
void ll_regex_end(ll_regex_walk *walk);

#endif
