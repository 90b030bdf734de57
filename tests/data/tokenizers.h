/* Tokenizers in tests: from the text of a tokenizer.json, and what they make of a text. */
#ifndef LL_TEST_TOKENIZERS_H
#define LL_TEST_TOKENIZERS_H

#include "test.h"

#include "data/subwords/parts.h"
#include "data/subwords/subwords.h"

#define BERT(vocab, lower)                                                                                             \
    "{\"normalizer\":{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,\"strip_"          \
    "accents\":"                                                                                                       \
    "null,\"lowercase\":" lower "},\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"decoder\":{\"type\":"           \
    "\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true},\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\","     \
    "\"continuing_subword_prefix\":\"##\",\"max_input_chars_per_word\":100,\"vocab\":{" vocab "}}}"

#define GPT2 "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true}"
#define LLAMA3                                                                                                         \
    "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"behavior\":\"Isolated\",\"invert\":false,"        \
    "\"pattern\":{\"Regex\":\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}{1,3}| "    \
    "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"}},{\"type\":\"ByteLevel\","  \
    "\"add_prefix_space\":false,\"use_regex\":false}]}"

/* In place of a program's tests, where the build has no PCRE2 and utf8proc. */
static inline void built_without_unicode(void **state) {
    (void)state;
    skip();
}

static inline int skip_tokenizers(void) {
    printf("built without PCRE2 and utf8proc: tokenizers of other programs are not tested\n");
    const struct CMUnitTest tests[] = {cmocka_unit_test(built_without_unicode)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

static inline ll_bytes bytes_of(const char *text) { return (ll_bytes){.data = (uint8_t *)text, .size = strlen(text)}; }

static inline ll_subwords *subwords_of(const char *json) {
    ll_subwords *s = NULL;
    const ll_bytes bytes = bytes_of(json);
    CHECK_OK(ll_subwords_create(&s, &bytes, "test"));
    return s;
}

/* The tokens of a text as "1 2 3", in static memory. */
static inline const char *ids_of(const ll_subwords *s, const char *text, size_t size) {
    static char out[4096];
    int32_t *tokens = NULL;
    int64_t n = 0;
    size_t at = 0;
    CHECK_OK(ll_subwords_encode(s, (const uint8_t *)text, size, &tokens, &n));
    *out = 0;
    for (int64_t i = 0; i < n && at < sizeof out - 16; i++)
        at += (size_t)snprintf(out + at, sizeof out - at, "%s%d", i ? " " : "", tokens[i]);
    ll_free(tokens);
    return out;
}

static inline void expect(const ll_subwords *s, const char *text, const char *ids) {
    const char *got = ids_of(s, text, strlen(text));
    if (strcmp(got, ids)) fail_msg("\"%s\" is %s, expected %s", text, got, ids);
}

#endif
