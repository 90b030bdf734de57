/* Where the program was built without utf8proc and PCRE2: no tokenizer of another program can be created. */
#include "data/subwords/unicode.h"

ll_status ll_unicode_check(void) {
    return ll_fail(
        LL_EINVAL,
        "this program was built without PCRE2 and utf8proc, which tokenizers of other programs need; build it "
        "again where libpcre2-dev and libutf8proc-dev are installed");
}

int ll_is_letter(int32_t c) { return (void)c, 0; }
int ll_is_number(int32_t c) { return (void)c, 0; }
int ll_is_punctuation(int32_t c) { return (void)c, 0; }
int ll_is_mark(int32_t c) { return (void)c, 0; }
int ll_is_nonspacing(int32_t c) { return (void)c, 0; }
int ll_is_word(int32_t c) { return (void)c, 0; }
int ll_is_control(int32_t c) { return (void)c, 0; }
ll_status ll_add_lower(ll_grown *out, int32_t c) { return (void)out, (void)c, ll_unicode_check(); }

ll_status ll_add_normal(ll_grown *out, const uint8_t *text, size_t n, ll_normal_form form) {
    return (void)out, (void)text, (void)n, (void)form, ll_unicode_check();
}

ll_status ll_regex_create(ll_regex **regex, const char *pattern, const char *name) {
    return (void)regex, (void)pattern, (void)name, ll_unicode_check();
}

void ll_regex_free(ll_regex *regex) { (void)regex; }

ll_status ll_regex_begin(ll_regex_walk **walk, const ll_regex *regex, const uint8_t *text, size_t n) {
    return (void)walk, (void)regex, (void)text, (void)n, ll_unicode_check();
}

ll_status ll_regex_next(ll_regex_walk *walk, size_t *begin, size_t *end) {
    return (void)walk, (void)begin, (void)end, ll_unicode_check();
}

void ll_regex_end(ll_regex_walk *walk) { (void)walk; }
