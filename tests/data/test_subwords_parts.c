/* The parts of a tokenizer one by one: words, normal forms, added tokens, tokens around a text; and files that are no
 * tokenizers */
#include "tokenizers.h"

#include "data/subwords/trie.h"

/* The words of a text with '|' between them. */
static void expect_words(const char *pre, const char *text, const char *words) {
    json_error_t error;
    json_t *part = json_loads(pre, 0, &error);
    ll_pretokenizer *p = NULL;
    ll_word_list list = {0};
    char got[1024] = "";
    CHECK_OK(ll_pretokenizer_create(&p, part, "test"));
    CHECK_OK(ll_pretokenize(p, &list, (const uint8_t *)text, strlen(text), 1));
    for (size_t i = 0, begin = 0; i < list.n; begin = list.end[i++]) {
        if (i) strcat(got, "|");
        strncat(got, (char *)list.text.at + begin, list.end[i] - begin);
    }
    if (strcmp(got, words)) fail_msg("\"%s\" is cut into %s, expected %s", text, got, words);
    ll_word_list_free(&list);
    ll_pretokenizer_free(p);
    json_decref(part);
}

static void words_are_cut(void **state) {
    (void)state;
    expect_words(GPT2, "Hello world's   123 !?\n\n ok", "Hello| world|'s|  | 123| !?|\n\n| ok");
    expect_words(GPT2, "\u00e9t\u00e9\u00a0x \u4e2d\u6587 \u0661\u0662",
                 "\u00e9t\u00e9|\u00a0|x| \u4e2d\u6587| \u0661\u0662");
    expect_words(GPT2, "a\u180eb", "a|\u180e|b"); /* no white space since Unicode 6.3 */
    expect_words(LLAMA3, "It'S 12345 x\n  y..\n", "It|'S| |123|45| x|\n| | y|..\n");
    expect_words("{\"type\":\"BertPreTokenizer\"}", "a,b c\u3002d", "a|,|b|c|\u3002|d");
    expect_words("{\"type\":\"Metaspace\"}", "a  bc d", "\u2581a|\u2581|\u2581bc|\u2581d");
    expect_words("{\"type\":\"Metaspace\",\"prepend_scheme\":\"never\",\"split\":false}", "a b", "a\u2581b");
    expect_words("{\"type\":\"Whitespace\"}", "it's 1.5 ok_a", "it|'|s|1|.|5|ok_a");
    /* Word characters are those of Unicode: with marks, connectors and joiners, without raised digits. */
    expect_words("{\"type\":\"Whitespace\"}", "\u0939\u093f\u0928\u094d\u0926\u0940 a\u203fb m\u00b2 \u24d0x",
                 "\u0939\u093f\u0928\u094d\u0926\u0940|a\u203fb|m|\u00b2|\u24d0x");
    expect_words("{\"type\":\"Whitespace\"}", "\u0645\u06cc\u200c\u062e e\u0301t\u0301",
                 "\u0645\u06cc\u200c\u062e|e\u0301t\u0301");
    expect_words("{\"type\":\"Split\",\"behavior\":\"Isolated\",\"pattern\":{\"Regex\":\"\\\\W\"}}", "e\u0301\u00b2x",
                 "e\u0301|\u00b2|x");
    expect_words("{\"type\":\"WhitespaceSplit\"}", " it's\u3000so ", "it's|so");
    expect_words("{\"type\":\"Digits\",\"individual_digits\":true}", "ab12c", "ab|1|2|c");
    expect_words("{\"type\":\"Digits\",\"individual_digits\":false}", "ab12c", "ab|12|c");
    expect_words("{\"type\":\"Punctuation\",\"behavior\":\"Contiguous\"}", "a..b!", "a|..|b|!");
    /* The examples of split behaviours in the manual of the tokenizers library. */
#define SPLIT(behaviour) "{\"type\":\"Split\",\"pattern\":{\"String\":\"-\"},\"behavior\":\"" behaviour "\"}"
    expect_words(SPLIT("Removed"), "the-final--countdown", "the|final|countdown");
    expect_words(SPLIT("Isolated"), "the-final--countdown", "the|-|final|-|-|countdown");
    expect_words(SPLIT("MergedWithPrevious"), "the-final--countdown", "the-|final-|-|countdown");
    expect_words(SPLIT("MergedWithNext"), "the-final--countdown", "the|-final|-|-countdown");
    expect_words(SPLIT("Contiguous"), "the-final--countdown", "the|-|final|--|countdown");
}

/* A byte that is not UTF-8 separates the text before it from the text after it. An expression that looks back sees
 * neither across that byte nor before the text. */
static void expressions_see_the_text_alone(void **state) {
    (void)state;
    static const char around[] = "a\x80"
                                 "b";
    ll_regex *regex = NULL;
    CHECK_OK(ll_regex_create(&regex, "\\bb", "test"));
    for (size_t skip = 0; skip < 2; skip++) {
        ll_regex_walk *walk = NULL;
        size_t begin = 0, end = 0, n = 3 - skip;
        CHECK_OK(ll_regex_begin(&walk, regex, (const uint8_t *)around + skip, n));
        CHECK_OK(ll_regex_next(walk, &begin, &end));
        assert_int_equal(begin, n - 1);
        assert_int_equal(end, n);
        ll_regex_end(walk);
    }
    ll_regex_free(regex);
}

/* The first match of an expression in a text that begins with it: its size. */
static size_t matched(const char *pattern, const char *text) {
    ll_regex *regex = NULL;
    ll_regex_walk *walk = NULL;
    size_t begin = 0, end = 0;
    CHECK_OK(ll_regex_create(&regex, pattern, "test"));
    CHECK_OK(ll_regex_begin(&walk, regex, (const uint8_t *)text, strlen(text)));
    CHECK_OK(ll_regex_next(walk, &begin, &end));
    ll_regex_end(walk);
    ll_regex_free(regex);
    return begin ? 0 : end;
}

static void expect_refused(const char *pattern, const char *why) {
    ll_regex *regex = NULL;
    CHECK_FAILS(ll_regex_create(&regex, pattern, "test"), LL_EFORMAT, why);
}

/* What PCRE2 and the tokenizers library read in different ways is translated or refused. */
static void expressions_mean_the_same(void **state) {
    (void)state;
    static const char *const wrong[] = {"[a-c&&[^b]]+", "[a[bc]]", "[^[x]]", "[\\H]", "[[:alpha]"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        expect_refused(wrong[i], "within brackets, which is not supported");
    assert_int_equal(matched("\\h+", "aF9g"), 3);
    assert_int_equal(matched("\\H+", "xyz a"), 4);
    assert_int_equal(matched("[\\h_]+", "a_fg"), 3);
    assert_int_equal(matched("[]a]+\\s", "]a] b"), 4);
    assert_int_equal(matched("[^]a]+\\s", "b ]"), 2);
    assert_int_equal(matched("[[:digit:]x\\]\\[]+\\s?", "1x][ b"), 5);
    assert_int_equal(matched("a&&\\w", "a&&b"), 4);
    static const char *const repeated[] = {"[0-9]{1,3}+", "\\p{N}{2}+", "(ab){2}?", "\\x{61}{2,}+"};
    for (size_t i = 0; i < sizeof repeated / sizeof *repeated; i++)
        expect_refused(repeated[i], "after \"{n}\", which is not supported");
    assert_int_equal(matched("\\p{L}+\\x{20}?", "ab c"), 3);
    assert_int_equal(matched("a{2,3}?", "aaa"), 2);
    assert_int_equal(matched("a{,2}b", "aab"), 3);
    assert_int_equal(matched("a{,}", "a{,}"), 4);
    assert_int_equal(matched("[{2}+]+", "2{+}"), 4);
    assert_int_equal(matched("a$\\n^b", "a\nb"), 3);
    assert_int_equal(matched("a.b", "a\nb"), 0);
    assert_int_equal(matched("(?m)a.b", "a\nb"), 3);
    assert_int_equal(matched("(?im:A.)b", "a\nb"), 3);
    assert_int_equal(matched("(?m:a.)(?-m:b.)", "a\nb\n"), 0);
    assert_int_equal(matched("m(?:m)", "mm"), 2);
}

static void expect_normal(const char *part, const char *text, const char *normal) {
    json_error_t error;
    json_t *json = json_loads(part, 0, &error);
    ll_normalizer *n = NULL;
    ll_grown out = {0};
    CHECK_OK(ll_normalizer_create(&n, json, "test"));
    CHECK_OK(ll_normalize(n, &out, (const uint8_t *)text, strlen(text), 1024));
    CHECK_OK(ll_grown_add(&out, "", 1));
    assert_string_equal((char *)out.at, normal);
    ll_grown_free(&out);
    ll_normalizer_free(n);
    json_decref(json);
}

static void texts_are_normalised(void **state) {
    (void)state;
    /* Rows of Unicode's NormalizationTest.txt: composed, Hangul, reordered and compatibility characters. */
    expect_normal("{\"type\":\"NFC\"}", "D\u0307\u0323 e\u0301", "\u1e0c\u0307 \u00e9");
    expect_normal("{\"type\":\"NFD\"}", "\u1e0c\u0307 \uac01", "D\u0323\u0307 \u1100\u1161\u11a8");
    expect_normal("{\"type\":\"NFKC\"}", "\ufb01 \u2460 \uff21", "fi 1 A");
    expect_normal("{\"type\":\"NFKD\"}", "\u01c4", "DZ\u030c");
    expect_normal("{\"type\":\"NFC\"}",
                  "e\u0301\xff"
                  "e\u0301",
                  "\u00e9\xff\u00e9");
    expect_normal("{\"type\":\"Lowercase\"}", "\u00c9\u0130\u03a3 \xff", "\u00e9i\u0307\u03c3 \xff");
    expect_normal("{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":false}", " \u3000a ", "a ");
    expect_normal("{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" {2,}\"},\"content\":\"_\"}", "a  b c   ", "a_b c_");
    expect_normal("{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFD\"},{\"type\":\"StripAccents\"},{\"type\":"
                  "\"Prepend\",\"prepend\":\"^\"}]}",
                  "\u00e9\u00fc", "^eu");
    expect_normal("null", "x", "x");
}

static void added_tokens_are_found(void **state) {
    (void)state;
    ll_subwords *s = subwords_of(
        "{\"added_tokens\":[{\"id\":1,\"content\":\"<s>\"},{\"id\":2,\"content\":\"<s>x\"},{\"id\":3,\"content\":\"[M]"
        "\","
        "\"lstrip\":true},{\"id\":4,\"content\":\"cat\",\"single_word\":true},{\"id\":9,\"content\":\"New\","
        "\"normalized\":"
        "true}],\"normalizer\":{\"type\":\"Lowercase\"},\"pre_tokenizer\":{\"type\":\"WhitespaceSplit\"},\"post_"
        "processor\":"
        "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"}},{\"Sequence\":{\"id\":\"A\"}}"
        ","
        "{\"SpecialToken\":{\"id\":\"[M]\"}}],\"special_tokens\":{\"<s>\":{\"ids\":[1]},\"[M]\":{\"ids\":[3,2]}}},"
        "\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"?\",\"vocab\":{\"?\":0,\"a\":5,\"cats\":6}}}");
    size_t n = 0;
    assert_int_equal(ll_subwords_count(s), 10);
    expect(s, "a<s>a<s>xa  [M]a", "5 1 5 2 5 3 5");
    expect(s, "cats cat a", "6 4 5");
    expect(s, "a neWa NEW", "5 9 5 9"); /* it is found in normalised text, and its own text is normalised too */
    expect(s, "<S>", "0");
    assert_int_equal(ll_subwords_special(s, 0, &n)[0], 1);
    assert_int_equal(n, 1);
    assert_int_equal(ll_subwords_special(s, 1, &n)[1], 2);
    assert_int_equal(n, 2);
    ll_subwords_free(s);
}

/* The text that a decoder makes of a token. */
static void expect_decoded(const char *decoder, const char *token, const char *text) {
    char json[512];
    size_t n = 0;
    snprintf(json, sizeof json, "{\"decoder\":%s,\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"%s\":0}}}", decoder,
             token);
    ll_subwords *s = subwords_of(json);
    const char *got = ll_subwords_text(s, 0, &n);
    if (n != strlen(text) || memcmp(got, text, n)) fail_msg("%s makes %.*s of %s", decoder, (int)n, got, token);
    ll_subwords_free(s);
}

static void tokens_are_decoded(void **state) {
    (void)state;
    expect_decoded("null", "a\u2581", " a\u2581"); /* without a decoder tokens stand apart */
    expect_decoded("{\"type\":\"Fuse\"}", "a\u2581", "a\u2581");
    expect_decoded("{\"type\":\"Metaspace\"}", "\u2581a\u2581", " a ");
    expect_decoded("{\"type\":\"Metaspace\",\"replacement\":\" \"}", " a", " a");
    expect_decoded("{\"type\":\"Replace\",\"pattern\":{\"String\":\"_\"},\"content\":\"--\"}", "_a_", "--a--");
    expect_decoded("{\"type\":\"Replace\",\"pattern\":{\"String\":\"ab\"},\"content\":\"\"}", "ab", "");
}

/* Byte tokens give bytes whatever else the decoder does, also where a token with an empty text has the same number. */
static void tokens_of_bytes_are_decoded(void **state) {
    (void)state;
    char json[1 << 14];
    size_t n = (size_t)snprintf(json, sizeof json,
                                "{\"decoder\":{\"type\":\"ByteFallback\"},\"model\":{\"type\":\"BPE\",\"byte_"
                                "fallback\":true,\"vocab\":{");
    for (int b = 0; b < 256; b++) n += (size_t)snprintf(json + n, sizeof json - n, "\"<0x%02X>\":%d,", b, b);
    snprintf(json + n, sizeof json - n, "\"\":7}}}");
    ll_subwords *s = subwords_of(json);
    for (int b = 0; b < 256; b++) {
        const char *text = ll_subwords_text(s, b, &n);
        assert_int_equal(n, b != 7);
        if (n) assert_int_equal((uint8_t)*text, b);
    }
    ll_subwords_free(s);
}

/* ---- Bad files, and no memory ---- */

static void refuse(const char *json, const char *word) {
    ll_subwords *s = NULL;
    const ll_bytes bytes = bytes_of(json);
    CHECK_FAILS(ll_subwords_create(&s, &bytes, "there"), LL_EFORMAT, word);
    assert_null(s);
}

static void bad_files_are_refused(void **state) {
    (void)state;
    char deep[2000];
    memset(deep, '[', sizeof deep);
    deep[sizeof deep - 1] = 0;
    refuse(deep, "there: its tokenizer is nested more than");
    refuse("", "is no JSON object");
    refuse("[]", "is no JSON object");
    refuse("{}", "has no vocabulary");
    refuse("{\"model\":{\"type\":\"Magic\",\"vocab\":{\"a\":0}}}", "the model \"Magic\", which is not supported");
    refuse("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"\\u0000\":0}}}", "NUL byte in object key not supported");
    refuse("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1}}}", "numbers a token -1");
    refuse("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":4000000000}}}", "numbers a token 4000000000");
    refuse("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":\"b\"}}}", "has no number");
    refuse("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"ab\"]}}",
           "merge 0 of its tokenizer is no pair");
    refuse("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a a\"]}}", "that is no token");
    refuse("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"end_of_word_suffix\":\"</w>\"}}", "end_of_word_suffix");
    refuse("{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\"]]}}", "token 0 of its tokenizer has no score");
    refuse("{\"model\":{\"type\":\"Unigram\",\"vocab\":{\"a\":0,\"b\":3000000}}}", "is no list of tokens and scores");
    refuse("{\"model\":{\"type\":\"Unigram\",\"unk_id\":7,\"vocab\":[[\"a\",0]]}}",
           "unk_id of its tokenizer is no token");
    refuse("{\"model\":{\"type\":\"Unigram\",\"unused\":[1],\"vocab\":[[\"a\",0]]}}",
           "number 0 of its tokenizer's unused ones is no token");
    refuse("{\"normalizer\":{\"type\":\"Rot13\"}}", "the normalizer \"Rot13\"");
    refuse("{\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAAA\"}}", "precompiled_charsmap");
    refuse("{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"}}}",
           "the regular expression \"(\" is none");
    refuse("{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{}}}", "a Split without a pattern");
    refuse("{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\"},{\"type\":\"Digits\"}"
           "]}}",
           "a pre_tokenizer after ByteLevel");
    refuse("{\"added_tokens\":[{\"content\":\"x\"}]}", "added token 0 of its tokenizer has no id");
    refuse("{\"post_processor\":{\"type\":\"BertProcessing\"}}", "a token without a number");
    refuse("{\"post_processor\":{\"type\":\"BertProcessing\",\"cls\":[\"a\",5],\"sep\":[\"a\",0]},\"model\":{\"type\":"
           "\"BPE\",\"vocab\":{\"a\":0}}}",
           "has token 5, of 1");
    refuse("{\"decoder\":{\"type\":\"CTC\"},\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":0}}}",
           "the decoder \"CTC\"");
    refuse("{\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\"}}",
           "a Metaspace whose replacement is empty");
    refuse("{\"decoder\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a\"},\"content\":\"\"},\"model\":{\"type\":"
           "\"WordLevel\",\"vocab\":{\"a\":0}}}",
           "the decoder of its tokenizer has a regular expression");
    ll_subwords *s = subwords_of("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0}}}");
    int32_t *tokens;
    int64_t n;
    CHECK_FAILS(ll_subwords_encode(s, (const uint8_t *)"ab", 2, &tokens, &n), LL_EINVAL, "no token for byte 0x62");
    ll_subwords_free(s);
}

static ll_status use_memory(void) {
    static const char json[] = BERT("\"[UNK]\":0,\"a\":1,\"##b\":2", "true");
    const ll_bytes bytes = bytes_of(json);
    ll_subwords *s = NULL;
    int32_t *tokens = NULL;
    int64_t n = 0;
    ll_status status = ll_subwords_create(&s, &bytes, "test");
    if (!status) status = ll_subwords_encode(s, (const uint8_t *)"ab \u00e9 cd", 8, &tokens, &n);
    if (!status) ll_free(tokens);
    ll_subwords_free(s);
    return status;
}

static ll_status use_regex_memory(void) {
    json_t *part = json_loads(GPT2, 0, NULL);
    ll_pretokenizer *p = NULL;
    ll_word_list list = {0};
    ll_status status = ll_pretokenizer_create(&p, part, "test");
    if (!status) status = ll_pretokenize(p, &list, (const uint8_t *)"ab cd", 5, 1);
    ll_word_list_free(&list);
    ll_pretokenizer_free(p);
    json_decref(part);
    return status;
}

/* More nodes than a trie begins with, so that it grows several times. */
enum { TEXTS = 3000, LONGEST_TEXT = 6 };

static void name_of(char *text, int i) {
    snprintf(text, LONGEST_TEXT + 1, "%x", (unsigned)i * 2654435761u >> 8);
}

static ll_status fill(ll_trie *t) {
    ll_status status = ll_trie_create(t);
    for (int i = 0; i < TEXTS && !status; i++) {
        char text[LONGEST_TEXT + 1];
        name_of(text, i);
        status = ll_trie_add(t, (const uint8_t *)text, strlen(text), i);
    }
    return status;
}

static void a_trie_grows(void **state) {
    (void)state;
    ll_trie t = {0};
    char text[LONGEST_TEXT + 1], longer[LONGEST_TEXT + 2];
    CHECK_OK(fill(&t));
    assert_true(t.nodes > 4096 && t.nodes <= t.capacity);
    for (int i = 0; i < TEXTS; i++) {
        size_t length;
        name_of(text, i);
        const size_t n = strlen(text);
        assert_int_equal(ll_trie_find(&t, (const uint8_t *)text, n), i);
        snprintf(longer, sizeof longer, "%s!", text);
        assert_int_equal(ll_trie_find(&t, (const uint8_t *)longer, n + 1), -1);
        assert_int_equal(ll_trie_longest(&t, 0, (const uint8_t *)longer, n + 1, &length), i);
        assert_int_equal(length, n);
    }
    name_of(text, 7);
    CHECK_OK(ll_trie_add(&t, (const uint8_t *)text, strlen(text), 9)); /* the first value stays */
    assert_int_equal(ll_trie_find(&t, (const uint8_t *)text, strlen(text)), 7);
    assert_int_equal(ll_trie_find(&t, (const uint8_t *)"", 0), -1);
    ll_trie_free(&t);
}

static ll_status use_trie(void) {
    ll_trie t = {0};
    const ll_status status = fill(&t);
    ll_trie_free(&t);
    return status;
}

static void memory_may_be_refused(void **state) {
    (void)state;
    assert_true(check_refused_memory(use_memory) > 10);
    assert_true(check_refused_memory(use_regex_memory) > 4);
    assert_true(check_refused_memory(use_trie) > 4);
}

int main(void) {
    if (ll_unicode_check()) return skip_tokenizers();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_cut),
        cmocka_unit_test(expressions_see_the_text_alone),
        cmocka_unit_test(expressions_mean_the_same),

        cmocka_unit_test(texts_are_normalised),
        cmocka_unit_test(added_tokens_are_found),
        cmocka_unit_test(tokens_are_decoded),
        cmocka_unit_test(tokens_of_bytes_are_decoded),
        cmocka_unit_test(bad_files_are_refused),
        cmocka_unit_test(memory_may_be_refused),
        cmocka_unit_test(a_trie_grows),
    };
    return cmocka_run_group_tests_name("subwords_parts", tests, NULL, NULL);
}
