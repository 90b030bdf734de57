/* Tokenizers of other programs: published examples, definitions written plainly, and round trips of all of Unicode and
 * of random bytes. */
#include "tokenizers.h"

#include "base/read_progress.h"

/* Tokens of a text give the text back, after a blank that the tokenizer may put in front. */
static void comes_back(const ll_subwords *s, const uint8_t *text, size_t size, int has_blank) {
    int32_t *tokens = NULL;
    int64_t n = 0;
    ll_grown back = {0};
    CHECK_OK(ll_subwords_encode(s, text, size, &tokens, &n));
    for (int64_t i = 0; i < n; i++) {
        size_t length = 0;
        const char *part = ll_subwords_text(s, tokens[i], &length);
        CHECK_OK(ll_grown_add(&back, part, length));
    }
    const size_t blank = has_blank && size;
    assert_int_equal(back.n, blank + size);
    if (blank) assert_int_equal(back.at[0], ' ');
    if (size) assert_memory_equal(back.at + blank, text, size);
    ll_grown_free(&back);
    ll_free(tokens);
}

/* ---- WordPiece ---- */

/* The examples of BERT's published tests (tokenization_test.py). */
static void bert_examples(void **state) {
    (void)state;
    ll_subwords *s = subwords_of(BERT("\"[UNK]\":0,\"[CLS]\":1,\"[SEP]\":2,\"want\":3,\"##want\":4,\"##ed\":5,\"wa\":6,"
                                      "\"un\":7,\"runn\":8,\"##ing\":9,\",\":10",
                                      "true"));
    expect(s, "UNwant\u00e9d,running", "7 4 5 10 8 9");
    expect(s, "", "");
    expect(s, "unwanted running", "7 4 5 8 9");
    expect(s, "unwantedX running", "0 8 9");
    ll_subwords_free(s);
    s = subwords_of(BERT("\"[UNK]\":0,\"hello\":1,\"!\":2,\"how\":3,\"are\":4,\"you\":5,\"?\":6,\"ah\":7,\"\u535a\":8,"
                         "\"\u63a8\":9,\"zz\":10,\"HeLLo\":11",
                         "true"));
    expect(s, " \tHeLLo!how  \n Are yoU?  ", "1 2 3 4 5 6");
    expect(s, "H\u00e9llo", "1");
    expect(s, "ah\u535a\u63a8zz", "7 8 9 10");
    expect(s, "hel\u200blo\ufffd !", "1 2"); /* format and replacement characters are removed */
    size_t size = 0;
    assert_memory_equal(ll_subwords_text(s, 1, &size), " hello", 6);
    assert_memory_equal(ll_subwords_text(s, 2, &size), "!", 1);
    ll_subwords_free(s);
    s = subwords_of(BERT("\"[UNK]\":0,\"hello\":1,\"!\":2,\"HeLLo\":3", "false"));
    expect(s, " \tHeLLo!how", "3 2 0");
    ll_subwords_free(s);
}

/* ---- Byte-level BPE ---- */

/* A tokenizer of all bytes and these merges, in memory that the caller frees. Token 256 + i is the result of merge
 * i. */
static char *byte_level(const char *pre, const char *const merges[][2], size_t count) {
    const size_t room = 1 << 16;
    char *json = malloc(room);
    size_t n = (size_t)snprintf(json, room,
                                "{\"pre_tokenizer\":%s,\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":"
                                "\"BPE\",\"vocab\":{",
                                pre);
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

static const char *const abc[][2] = {{"a", "b"},   {"b", "a"},    {"ab", "c"},   {"c", "ab"},   {"a", "a"},
                                     {"aa", "aa"}, {"abc", "ab"}, {"ba", "ba"},  {"c", "c"},    {"cc", "aa"},
                                     {"b", "b"},   {"bb", "ab"},  {"aaaa", "b"}, {"cab", "bb"}, {"cc", "cc"}};
enum { MERGES = sizeof abc / sizeof *abc };

/* The definition: apply the merge of the lowest rank, at its leftmost place, as long as there is one. */
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
        const size_t n = 1 + (size_t)trial % 150; /* longer than words that need no allocation */
        for (size_t i = 0; i < n; i++)
            expected[i] = text[i] =
                (char)("abc"[(seed = seed * 1664525 + 1013904223) >> 24 & 3 ? (seed >> 16) % 2 : 2]);
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

/* A word of a million letters. An algorithm that takes O(n^2) would exceed the time limit of the test. */
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

/* The older tokenizer of LLaMA: characters, and bytes for what has no token. */
static char *byte_fallback(void) {
    const size_t room = 1 << 15;
    char *json = malloc(room);
    size_t n = (size_t)snprintf(
        json, room,
        "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"\u2581\"},{"
        "\"type\":"
        "\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\u2581\"}]},\"decoder\":{\"type\":\"Sequence\","
        "\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"\u2581\"},\"content\":\" \"},{\"type\":"
        "\"ByteFallback\"},{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" "
        "\",\"start\":1,\"stop\":0}]},\"model\":"
        "{\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"byte_fallback\":true,\"fuse_unk\":true,\"merges\":[\"a "
        "b\",\"\u2581 ab\"],"
        "\"vocab\":{\"<unk>\":0");
    for (int b = 0; b < 256; b++) n += (size_t)snprintf(json + n, room - n, ",\"<0x%02X>\":%d", b, b + 1);
    snprintf(json + n, room - n, ",\"\u2581\":257,\"a\":258,\"b\":259,\"ab\":260,\"\u2581ab\":261,\"\u00e9\":262}}}");
    return json;
}

/* Of a pair that stands twice the last rank counts, as in the tokenizers library. */
static void the_last_rank_counts(void **state) {
    (void)state;
    ll_subwords *s = subwords_of("{\"model\":{\"type\":\"BPE\",\"merges\":[\"a b\",\"b c\",\"a b\"],\"vocab\":"
                                 "{\"a\":0,\"b\":1,\"c\":2,\"ab\":3,\"bc\":4}}}");
    expect(s, "abc", "0 4");
    ll_subwords_free(s);
}

/* "xy" has the lowest rank but for "yz", which takes its y. Then "xyz" has a rank of its own, after that of "wx". */
static void a_pair_that_changed_has_another_rank(void **state) {
    (void)state;
    ll_subwords *s = subwords_of("{\"model\":{\"type\":\"BPE\",\"merges\":[\"y z\",\"x y\",\"w x\",\"x yz\"],\"vocab\":"
                                 "{\"w\":0,\"x\":1,\"y\":2,\"z\":3,\"yz\":4,\"xy\":5,\"wx\":6,\"xyz\":7}}}");
    expect(s, "wxyz", "6 4");
    ll_subwords_free(s);
}

static void all_text_comes_back(void **state) {
    (void)state;
    char *json[2] = {byte_level(LLAMA3, abc, MERGES), byte_fallback()};
    for (int k = 0; k < 2; k++) {
        ll_subwords *s = subwords_of(json[k]);
        ll_grown all = {0};
        for (int32_t c = 0; c < 0x110000; c++) {        /* every code point, 4096 in a text */
            const int is_blank = k == 1 && c == 0x2581; /* this tokenizer writes a blank so */
            if ((c < 0xd800 || c >= 0xe000) && !is_blank) CHECK_OK(ll_grown_add_char(&all, c));
            if (c % 4096 != 4095) continue;
            comes_back(s, all.at, all.n, k == 1);
            all.n = 0;
        }
        uint32_t seed = 7;
        for (int trial = 0; trial < 300; trial++) { /* random bytes */
            uint8_t text[200];
            for (size_t i = 0; i < sizeof text; i++) text[i] = (uint8_t)((seed = seed * 1664525 + 1013904223) >> 24);
            comes_back(s, text, (size_t)trial % sizeof text, k == 1);
        }
        ll_grown_free(&all);
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
} units[] = {{"a", -3},     {"b", -3.5},   {"ab", -5},     {"ba", -4.2},
             {"aba", -8.5}, {"bab", -6.1}, {"\u00e9", -4}, {"a\u00e9", -6.5}};
enum { UNITS = sizeof units / sizeof *units };

/* The best sum over all ways to cut a text. A character without a token is 10 below the lowest. */
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
    expect(s, "axxb", "0 8 1"); /* several unknown characters in a row are one token */
    ll_subwords_free(s);
}

/* With ByteLevel, what has no token is a byte, not a character. */
static void unigram_of_bytes(void **state) {
    (void)state;
    ll_subwords *s = subwords_of("{\"pre_tokenizer\":" GPT2 ",\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":"
                                 "[[\"?\",0],[\"\u00c3\",-1],[\"\u00a9\",-2],[\"a\",-3]]}}");
    expect(s, "\u00e9a", "1 2 3");
    expect(s, "a\u00e8", "3 1 0");
    ll_subwords_free(s);
}

/* The name of a token for a byte in a text is text, as for SentencePiece. The byte has the token. */
static void unigram_with_bytes(void **state) {
    (void)state;
    static char json[8000];
    size_t n = (size_t)snprintf(
        json, sizeof json,
        "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"byte_fallback\":true,\"vocab\":[[\"<unk>\",0]");
    for (int i = 0; i < 256; i++) n += (size_t)snprintf(json + n, sizeof json - n, ",[\"<0x%02X>\",0]", i);
    snprintf(json + n, sizeof json - n,
             ",[\"<\",-5],[\">\",-5],[\"0x\",-5],[\"0\",-5],[\"x\",-5],[\"4\",-5],[\"1\",-5]]}}");
    ll_subwords *s = subwords_of(json);
    expect(s, "<0x41>A", "257 259 262 263 258 66");
    ll_subwords_free(s);
}

static void count_reports(const char *name, int64_t done, int64_t total, void *arg) {
    assert_null(name);
    assert_true(done < total);
    ++*(int *)arg;
}

/* Without a pre-tokenizer a text is one word, which takes long. */
static void a_long_word_is_watched(void **state) {
    (void)state;
    enum { SIZE = 500000 };
    static const char *const models[] = {
        "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"?\",0],[\"a\",-1]]}}",
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"aa\":1},\"merges\":[\"a a\"]}}"};
    uint8_t *text = malloc(SIZE);
    memset(text, 'a', SIZE);
    for (int i = 0; i < 2; i++) {
        ll_subwords *s = subwords_of(models[i]);
        int32_t *tokens = NULL;
        int64_t count = 0;
        int reports = 0;
        ll_read_progress_watch(count_reports, &reports);
        CHECK_OK(ll_subwords_encode(s, text, SIZE, &tokens, &count));
        ll_read_progress_watch(NULL, NULL);
        assert_int_equal(count, SIZE / (i + 1));
        assert_true(reports >= SIZE >> 17);
        ll_free(tokens);
        ll_subwords_free(s);
    }
    free(text);
}

#define REPLACE "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"%s\"}"

static void refuse(const char *json, const char *why) {
    ll_subwords *s = NULL;
    const ll_bytes bytes = bytes_of(json);
    CHECK_FAILS(ll_subwords_create(&s, &bytes, "there"), LL_EFORMAT, why);
}

/* A tokenizer may not ask for any amount of memory: four steps make 10^12 letters of one. */
static void steps_have_a_limit(void **state) {
    (void)state;
    char json[8192], many[1001];
    int32_t *tokens;
    int64_t count;
    size_t n = 0;
    ll_grown two = {.most = 2};
    CHECK_OK(ll_grown_add(&two, "ab", 2));
    CHECK_FAILS(ll_grown_add(&two, "c", 1), LL_EINVAL, "more than 2 bytes");
    ll_grown_free(&two);
    memset(many, 'a', sizeof many - 1);
    many[sizeof many - 1] = 0;
    n += (size_t)snprintf(json, sizeof json, "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[");
    for (int i = 0; i < 4; i++) n += (size_t)snprintf(json + n, sizeof json - n, "%s" REPLACE, i ? "," : "", many);
    n += (size_t)snprintf(json + n, sizeof json - n, "]},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0}}");
    snprintf(json + n, sizeof json - n, "}");
    ll_subwords *s = subwords_of(json);
    CHECK_FAILS(ll_subwords_encode(s, (const uint8_t *)"a", 1, &tokens, &count), LL_EINVAL,
                "step 3 of the tokenizer's normalizer: a text becomes more than 1048640 bytes");
    ll_subwords_free(s);
    snprintf(json + n, sizeof json - n, ",\"added_tokens\":[{\"id\":1,\"content\":\"a\",\"normalized\":true}]}");
    refuse(json,
           "there: added token 0 of its tokenizer: step 1 of the tokenizer's normalizer: a text becomes more than "
           "272 bytes");
    n = (size_t)snprintf(json, sizeof json, "{\"decoder\":{\"type\":\"Sequence\",\"decoders\":[");
    for (int i = 0; i < 4; i++) n += (size_t)snprintf(json + n, sizeof json - n, "%s" REPLACE, i ? "," : "", many);
    snprintf(json + n, sizeof json - n, "]},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0}}}");
    refuse(json, "there: the decoder Replace of its tokenizer: a text becomes more than 65536 bytes");
}

int main(void) {
    if (ll_unicode_check()) return skip_tokenizers();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bert_examples),          cmocka_unit_test(merges_are_the_definition),
        cmocka_unit_test(the_last_rank_counts),   cmocka_unit_test(long_words_end),
        cmocka_unit_test(all_text_comes_back),    cmocka_unit_test(unigram_is_the_best_way),
        cmocka_unit_test(unigram_of_bytes),       cmocka_unit_test(unigram_with_bytes),
        cmocka_unit_test(a_long_word_is_watched), cmocka_unit_test(a_pair_that_changed_has_another_rank),
        cmocka_unit_test(steps_have_a_limit),
    };
    return cmocka_run_group_tests_name("subwords", tests, NULL, NULL);
}
