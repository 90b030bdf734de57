/* Tokenizers of other programs: published examples, definitions written out plainly, all of Unicode and any bytes to
 * tokens and back, and files that are none. */
#include "test.h"

#include "data/subwords/parts.h"
#include "data/subwords/subwords.h"

static ll_bytes bytes_of(const char *text) { return (ll_bytes){(uint8_t *)text, strlen(text)}; }

static ll_subwords *subwords_of(const char *json) {
    ll_subwords *s = NULL;
    const ll_bytes bytes = bytes_of(json);
    CHECK_OK(ll_subwords_create(&s, &bytes, "test"));
    return s;
}

/* The tokens of a text as "1 2 3", in static memory. */
static const char *ids_of(const ll_subwords *s, const char *text, size_t size) {
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

static void expect(const ll_subwords *s, const char *text, const char *ids) {
    const char *got = ids_of(s, text, strlen(text));
    if (strcmp(got, ids)) fail_msg("\"%s\" is %s, expected %s", text, got, ids);
}

/* The text of the tokens of a text is that text. */
static void comes_back(const ll_subwords *s, const uint8_t *text, size_t size) {
    int32_t *tokens = NULL;
    int64_t n = 0;
    ll_buffer back = {0};
    CHECK_OK(ll_subwords_encode(s, text, size, &tokens, &n));
    for (int64_t i = 0; i < n; i++) {
        size_t length = 0;
        const char *part = ll_subwords_text(s, tokens[i], &length);
        CHECK_OK(ll_buffer_add(&back, part, length));
    }
    const size_t blank = ll_subwords_has_blank(s) && back.n && back.at[0] == ' ';
    assert_int_equal(back.n - blank, size);
    if (size) assert_memory_equal(back.at + blank, text, size);
    ll_buffer_free(&back);
    ll_free(tokens);
}

/* ---- WordPiece ---- */

/* The examples of the tests that were published with BERT (tokenization_test.py). */
#define BERT(vocab, lower)                                                                                             \
    "{\"normalizer\":{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,\"strip_accents\":" \
    "null,\"lowercase\":" lower "},\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"decoder\":{\"type\":"           \
    "\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true},\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\","     \
    "\"continuing_subword_prefix\":\"##\",\"max_input_chars_per_word\":100,\"vocab\":{" vocab "}}}"

static void bert_examples(void **state) {
    (void)state;
    ll_subwords *s = subwords_of(BERT("\"[UNK]\":0,\"[CLS]\":1,\"[SEP]\":2,\"want\":3,\"##want\":4,\"##ed\":5,\"wa\":6,"
                                      "\"un\":7,\"runn\":8,\"##ing\":9,\",\":10", "true"));
    expect(s, "UNwant\u00e9d,running", "7 4 5 10 8 9");
    expect(s, "", "");
    expect(s, "unwanted running", "7 4 5 8 9");
    expect(s, "unwantedX running", "0 8 9");
    ll_subwords_free(s);
    s = subwords_of(BERT("\"[UNK]\":0,\"hello\":1,\"!\":2,\"how\":3,\"are\":4,\"you\":5,\"?\":6,\"ah\":7,\"\u535a\":8,"
                         "\"\u63a8\":9,\"zz\":10,\"HeLLo\":11", "true"));
    expect(s, " \tHeLLo!how  \n Are yoU?  ", "1 2 3 4 5 6");
    expect(s, "H\u00e9llo", "1");
    expect(s, "ah\u535a\u63a8zz", "7 8 9 10");
    expect(s, "hel\u200blo\ufffd !", "1 2"); /* format and replacement characters go */
    size_t size = 0;
    assert_memory_equal(ll_subwords_text(s, 1, &size), " hello", 6);
    assert_memory_equal(ll_subwords_text(s, 2, &size), "!", 1);
    ll_subwords_free(s);
    s = subwords_of(BERT("\"[UNK]\":0,\"hello\":1,\"!\":2,\"HeLLo\":3", "false"));
    expect(s, " \tHeLLo!how", "3 2 0");
    ll_subwords_free(s);
}

/* ---- Byte-level BPE ---- */

/* A tokenizer of all bytes and these merges, in memory to be freed; token 256 + i is what merge i makes. */
static char *byte_level(const char *pre, const char *const merges[][2], size_t count) {
    const size_t room = 1 << 16;
    char *json = malloc(room);
    size_t n = (size_t)snprintf(json, room, "{\"pre_tokenizer\":%s,\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":"
                                            "\"BPE\",\"vocab\":{", pre);
    for (int b = 0, next = 256; b < 256; b++) {
        const int seen = (b >= 33 && b <= 126) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        n += (size_t)snprintf(json + n, room - n, "%s\"\\u%04x\":%d", b ? "," : "", seen ? b : next++, b);
    }
    for (size_t i = 0; i < count; i++)
        n += (size_t)snprintf(json + n, room - n, ",\"%s%s\":%zu", merges[i][0], merges[i][1], 256 + i);
    n += (size_t)snprintf(json + n, room - n, "},\"merges\":[");
    for (size_t i = 0; i < count; i++)
        n += (size_t)snprintf(json + n, room - n, "%s\"%s %s\"", i ? "," : "", merges[i][0], merges[i][1]);
    snprintf(json + n, room - n, "]}}");
    return json;
}

#define GPT2 "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true}"
#define LLAMA3                                                                                                         \
    "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"behavior\":\"Isolated\",\"invert\":false,"          \
    "\"pattern\":{\"Regex\":\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}{1,3}| "      \
    "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"}},{\"type\":\"ByteLevel\","    \
    "\"add_prefix_space\":false,\"use_regex\":false}]}"

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
    expect_words(GPT2, "\u00e9t\u00e9\u00a0x \u4e2d\u6587 \u0661\u0662", "\u00e9t\u00e9|\u00a0|x| \u4e2d\u6587| \u0661\u0662");
    expect_words(GPT2, "a\u180eb", "a|\u180e|b"); /* no white space since Unicode 6.3 */
    expect_words(LLAMA3, "It'S 12345 x\n  y..\n", "It|'S| |123|45| x|\n| | y|..\n");
    expect_words("{\"type\":\"BertPreTokenizer\"}", "a,b c\u3002d", "a|,|b|c|\u3002|d");
    expect_words("{\"type\":\"Metaspace\"}", "a  bc d", "\u2581a|\u2581|\u2581bc|\u2581d");
    expect_words("{\"type\":\"Metaspace\",\"prepend_scheme\":\"never\",\"split\":false}", "a b", "a\u2581b");
    expect_words("{\"type\":\"Whitespace\"}", "it's 1.5 ok_a", "it|'|s|1|.|5|ok_a");
    expect_words("{\"type\":\"WhitespaceSplit\"}", " it's\u3000so ", "it's|so");
    expect_words("{\"type\":\"Digits\",\"individual_digits\":true}", "ab12c", "ab|1|2|c");
    expect_words("{\"type\":\"Digits\",\"individual_digits\":false}", "ab12c", "ab|12|c");
    expect_words("{\"type\":\"Punctuation\",\"behavior\":\"Contiguous\"}", "a..b!", "a|..|b|!");
    /* The examples in the tokenizers library's manual of what a split becomes. */
#define SPLIT(behaviour) "{\"type\":\"Split\",\"pattern\":{\"String\":\"-\"},\"behavior\":\"" behaviour "\"}"
    expect_words(SPLIT("Removed"), "the-final--countdown", "the|final|countdown");
    expect_words(SPLIT("Isolated"), "the-final--countdown", "the|-|final|-|-|countdown");
    expect_words(SPLIT("MergedWithPrevious"), "the-final--countdown", "the-|final-|-|countdown");
    expect_words(SPLIT("MergedWithNext"), "the-final--countdown", "the|-final|-|-countdown");
    expect_words(SPLIT("Contiguous"), "the-final--countdown", "the|-|final|--|countdown");
}

static const char *const abc[][2] = {{"a", "b"},   {"b", "a"},    {"ab", "c"},   {"c", "ab"},   {"a", "a"},
                                     {"aa", "aa"}, {"abc", "ab"}, {"ba", "ba"},  {"c", "c"},    {"cc", "aa"},
                                     {"b", "b"},   {"bb", "ab"},  {"aaaa", "b"}, {"cab", "bb"}, {"cc", "cc"}};
enum { MERGES = sizeof abc / sizeof *abc };

/* The definition: as long as there is one, the merge of the lowest rank, where it is leftmost. */
static size_t merge_plainly(int *token, size_t n, const ll_subwords *s) {
    for (;;) {
        size_t best = MERGES, at = 0;
        for (size_t i = 0; i + 1 < n; i++)
            for (size_t m = 0; m < best; m++) {
                char pair[64] = "", merged[64];
                for (size_t k = i; k < i + 2; k++) {
                    size_t size = 0;
                    const char *text = ll_subwords_text(s, token[k], &size);
                    strncat(pair, text, size);
                    if (k == i) strcat(pair, " ");
                }
                snprintf(merged, sizeof merged, "%s %s", abc[m][0], abc[m][1]);
                if (!strcmp(pair, merged)) best = m, at = i;
            }
        if (best == MERGES) return n;
        token[at] = 256 + (int)best;
        memmove(token + at + 1, token + at + 2, (n - at - 2) * sizeof *token);
        n--;
    }
}

static void merges_are_the_definition(void **state) {
    (void)state;
    char *json = byte_level(GPT2, abc, MERGES);
    ll_subwords *s = subwords_of(json);
    uint32_t seed = 1;
    for (int trial = 0; trial < 400; trial++) {
        char text[160];
        int expected[160];
        const size_t n = 1 + (size_t)trial % 150; /* more than what needs no memory of its own */
        for (size_t i = 0; i < n; i++) expected[i] = text[i] = (char)("abc"[(seed = seed * 1664525 + 1013904223) >> 24 & 3 ? (seed >> 16) % 2 : 2]);
        int32_t *tokens = NULL;
        int64_t count = 0;
        CHECK_OK(ll_subwords_encode(s, (uint8_t *)text, n, &tokens, &count));
        assert_int_equal(count, merge_plainly(expected, n, s));
        for (int64_t i = 0; i < count; i++) assert_int_equal(tokens[i], expected[i]);
        ll_free(tokens);
    }
    ll_subwords_free(s);
    free(json);
}

/* A word of a million letters: what is O(n^2) does not end within the test's time. */
static void long_words_end(void **state) {
    (void)state;
    enum { N = 1 << 20 };
    char *json = byte_level(GPT2, abc, MERGES), *text = malloc(N);
    ll_subwords *s = subwords_of(json);
    int32_t *tokens = NULL;
    int64_t count = 0;
    memset(text, 'a', N);
    CHECK_OK(ll_subwords_encode(s, (uint8_t *)text, N, &tokens, &count));
    assert_int_equal(count, N / 4);
    ll_free(tokens);
    ll_subwords_free(s);
    free(text);
    free(json);
}

/* Llama's older kind: characters, and bytes for what has no token. */
static char *byte_fallback(void) {
    const size_t room = 1 << 15;
    char *json = malloc(room);
    size_t n = (size_t)snprintf(
        json, room,
        "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"\u2581\"},{\"type\":"
        "\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\u2581\"}]},\"decoder\":{\"type\":\"Sequence\","
        "\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"\u2581\"},\"content\":\" \"},{\"type\":"
        "\"ByteFallback\"},{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]},\"model\":"
        "{\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"byte_fallback\":true,\"fuse_unk\":true,\"merges\":[\"a b\",\"\u2581 ab\"],"
        "\"vocab\":{\"<unk>\":0");
    for (int b = 0; b < 256; b++) n += (size_t)snprintf(json + n, room - n, ",\"<0x%02X>\":%d", b, b + 1);
    snprintf(json + n, room - n, ",\"\u2581\":257,\"a\":258,\"b\":259,\"ab\":260,\"\u2581ab\":261,\"\u00e9\":262}}}");
    return json;
}

static void all_text_comes_back(void **state) {
    (void)state;
    char *json[2] = {byte_level(LLAMA3, abc, MERGES), byte_fallback()};
    for (int k = 0; k < 2; k++) {
        ll_subwords *s = subwords_of(json[k]);
        ll_buffer all = {0};
        for (int32_t c = 0; c < 0x110000; c++) { /* every code point, 4096 a text */
            const int is_blank = k == 1 && c == 0x2581; /* how this kind writes a blank */
            if ((c < 0xd800 || c >= 0xe000) && !is_blank) CHECK_OK(ll_buffer_add_char(&all, c));
            if (c % 4096 != 4095) continue;
            comes_back(s, all.at, all.n);
            all.n = 0;
        }
        uint32_t seed = 7;
        for (int trial = 0; trial < 300; trial++) { /* any bytes */
            uint8_t text[200];
            for (size_t i = 0; i < sizeof text; i++) text[i] = (uint8_t)((seed = seed * 1664525 + 1013904223) >> 24);
            comes_back(s, text, (size_t)trial % sizeof text);
        }
        ll_buffer_free(&all);
        ll_subwords_free(s);
    }
    ll_subwords *s = subwords_of(json[1]);
    expect(s, "ab a\u00e9\n\u20ac", "261 257 258 262 11 227 131 173");
    ll_subwords_free(s);
    free(json[0]);
    free(json[1]);
}

/* ---- Unigram ---- */

static const struct {
    const char *text;
    double score;
} units[] = {{"a", -3}, {"b", -3.5}, {"ab", -5}, {"ba", -4.2}, {"aba", -8.5}, {"bab", -6.1}, {"\u00e9", -4}, {"a\u00e9", -6.5}};
enum { UNITS = sizeof units / sizeof *units };

/* The best sum of all ways to cut a text; a character without a token is 10 below the least. */
static double best_sum(const char *text) {
    double best = *text ? -1e9 : 0;
    int single = 0;
    if (!*text) return 0;
    const size_t first = (*text & 0x80) ? 2 : 1;
    for (int u = 0; u < UNITS; u++) {
        const size_t n = strlen(units[u].text);
        if (strncmp(text, units[u].text, n)) continue;
        const double sum = units[u].score + best_sum(text + n);
        if (sum > best) best = sum;
        if (n == first) single = 1;
    }
    const double unknown = single ? -1e9 : -8.5 - 10 + best_sum(text + first);
    return unknown > best ? unknown : best;
}

static void unigram_is_the_best_way(void **state) {
    (void)state;
    char json[1024];
    size_t n = (size_t)snprintf(json, sizeof json, "{\"model\":{\"type\":\"Unigram\",\"unk_id\":%d,\"vocab\":[", UNITS);
    for (int u = 0; u < UNITS; u++)
        n += (size_t)snprintf(json + n, sizeof json - n, "[\"%s\",%d.%d],", units[u].text, (int)units[u].score,
                              (int)(-10 * units[u].score) % 10);
    snprintf(json + n, sizeof json - n, "[\"<unk>\",0]]}}");
    ll_subwords *s = subwords_of(json);
    uint32_t seed = 3;
    for (int trial = 0; trial < 300; trial++) {
        char text[40] = "";
        for (int i = 0; i < 1 + trial % 12; i++) {
            static const char *const letters[] = {"a", "b", "a", "b", "\u00e9", "x"};
            strcat(text, letters[(seed = seed * 1664525 + 1013904223) % 6]);
        }
        int32_t *tokens = NULL;
        int64_t count = 0;
        double sum = 0;
        CHECK_OK(ll_subwords_encode(s, (uint8_t *)text, strlen(text), &tokens, &count));
        for (int64_t i = 0; i < count; i++)
            if (tokens[i] < UNITS) sum += units[tokens[i]].score;
        for (const char *c = text; *c; c++) sum -= *c == 'x' ? 18.5 : 0;
        if (fabs(sum - best_sum(text)) > 1e-9) fail_msg("%s: %g, expected %g", text, sum, best_sum(text));
        ll_free(tokens);
    }
    expect(s, "axxb", "0 8 1"); /* unknown ones in a row are one */
    ll_subwords_free(s);
}

/* ---- Normalizers, added tokens, what goes around ---- */

static void expect_normal(const char *part, const char *text, const char *normal) {
    json_error_t error;
    json_t *json = json_loads(part, 0, &error);
    ll_normalizer *n = NULL;
    ll_buffer out = {0};
    CHECK_OK(ll_normalizer_create(&n, json, "test"));
    CHECK_OK(ll_normalize(n, &out, (const uint8_t *)text, strlen(text)));
    CHECK_OK(ll_buffer_add(&out, "", 1));
    assert_string_equal((char *)out.at, normal);
    ll_buffer_free(&out);
    ll_normalizer_free(n);
    json_decref(json);
}

static void texts_are_normalised(void **state) {
    (void)state;
    /* Rows of Unicode's NormalizationTest.txt: a composed character, Hangul, an order of marks, a compatibility one. */
    expect_normal("{\"type\":\"NFC\"}", "D\u0307\u0323 e\u0301", "\u1e0c\u0307 \u00e9");
    expect_normal("{\"type\":\"NFD\"}", "\u1e0c\u0307 \uac01", "D\u0323\u0307 \u1100\u1161\u11a8");
    expect_normal("{\"type\":\"NFKC\"}", "\ufb01 \u2460 \uff21", "fi 1 A");
    expect_normal("{\"type\":\"NFKD\"}", "\u01c4", "DZ\u030c");
    expect_normal("{\"type\":\"NFC\"}", "e\u0301\xff" "e\u0301", "\u00e9\xff\u00e9");
    expect_normal("{\"type\":\"Lowercase\"}", "\u00c9\u0130\u03a3 \xff", "\u00e9i\u0307\u03c3 \xff");
    expect_normal("{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":false}", " \u3000a ", "a ");
    expect_normal("{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" {2,}\"},\"content\":\"_\"}", "a  b c   ", "a_b c_");
    expect_normal("{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFD\"},{\"type\":\"StripAccents\"},{\"type\":"
                  "\"Prepend\",\"prepend\":\"^\"}]}", "\u00e9\u00fc", "^eu");
    expect_normal("null", "x", "x");
}

static void added_tokens_are_found(void **state) {
    (void)state;
    ll_subwords *s = subwords_of(
        "{\"added_tokens\":[{\"id\":1,\"content\":\"<s>\"},{\"id\":2,\"content\":\"<s>x\"},{\"id\":3,\"content\":\"[M]\","
        "\"lstrip\":true},{\"id\":4,\"content\":\"cat\",\"single_word\":true},{\"id\":9,\"content\":\"New\",\"normalized\":"
        "true}],\"normalizer\":{\"type\":\"Lowercase\"},\"pre_tokenizer\":{\"type\":\"WhitespaceSplit\"},\"post_processor\":"
        "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"}},{\"Sequence\":{\"id\":\"A\"}},"
        "{\"SpecialToken\":{\"id\":\"[M]\"}}],\"special_tokens\":{\"<s>\":{\"ids\":[1]},\"[M]\":{\"ids\":[3,2]}}},"
        "\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"?\",\"vocab\":{\"?\":0,\"a\":5,\"cats\":6}}}");
    size_t n = 0;
    assert_int_equal(ll_subwords_count(s), 10);
    expect(s, "a<s>a<s>xa  [M]a", "5 1 5 2 5 3 5");
    expect(s, "cats cat a", "6 4 5");
    expect(s, "a neWa NEW", "5 9 5 9"); /* looked for in what is normalised, and so is its own text */
    expect(s, "<S>", "0");
    assert_int_equal(ll_subwords_around(s, 0, &n)[0], 1);
    assert_int_equal(n, 1);
    assert_int_equal(ll_subwords_around(s, 1, &n)[1], 2);
    assert_int_equal(n, 2);
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
    refuse("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1}}}", "numbers a token -1");
    refuse("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":4000000000}}}", "numbers a token 4000000000");
    refuse("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":\"b\"}}}", "has no number");
    refuse("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"ab\"]}}", "merge 0 of its tokenizer is no pair");
    refuse("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a a\"]}}", "that is no token");
    refuse("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"end_of_word_suffix\":\"</w>\"}}", "end_of_word_suffix");
    refuse("{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\"]]}}", "token 0 of its tokenizer has no score");
    refuse("{\"model\":{\"type\":\"Unigram\",\"unk_id\":7,\"vocab\":[[\"a\",0]]}}", "unk_id of its tokenizer is no token");
    refuse("{\"normalizer\":{\"type\":\"Rot13\"}}", "the normalizer \"Rot13\"");
    refuse("{\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAAA\"}}", "precompiled_charsmap");
    refuse("{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"}}}", "the regular expression \"(\" is none");
    refuse("{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{}}}", "a Split without a pattern");
    refuse("{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\"},{\"type\":\"Digits\"}]}}",
           "a pre_tokenizer after ByteLevel");
    refuse("{\"added_tokens\":[{\"content\":\"x\"}]}", "added token 0 of its tokenizer has no id");
    refuse("{\"post_processor\":{\"type\":\"BertProcessing\"}}", "a token without a number");
    refuse("{\"post_processor\":{\"type\":\"BertProcessing\",\"cls\":[\"a\",5],\"sep\":[\"a\",0]},\"model\":{\"type\":"
           "\"BPE\",\"vocab\":{\"a\":0}}}", "has token 5, of 1");
    refuse("{\"decoder\":{\"type\":\"CTC\"},\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":0}}}", "the decoder \"CTC\"");
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

static void memory_may_be_refused(void **state) {
    (void)state;
    assert_true(check_refused_memory(use_memory) > 10);
    assert_true(check_refused_memory(use_regex_memory) > 4);
}

int main(void) {
    if (ll_unicode_check()) {
        printf("built without PCRE2 and utf8proc: tokenizers of other programs are not tested\n");
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bert_examples),           cmocka_unit_test(words_are_cut),
        cmocka_unit_test(merges_are_the_definition), cmocka_unit_test(long_words_end),
        cmocka_unit_test(all_text_comes_back),     cmocka_unit_test(unigram_is_the_best_way),
        cmocka_unit_test(texts_are_normalised),    cmocka_unit_test(added_tokens_are_found),
        cmocka_unit_test(bad_files_are_refused),   cmocka_unit_test(memory_may_be_refused),
    };
    return cmocka_run_group_tests_name("subwords", tests, NULL, NULL);
}
