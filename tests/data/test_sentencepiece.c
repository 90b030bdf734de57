/* A tokenizer.model of SentencePiece, written here field by field: its map of characters, what it does to blanks,
 * pieces of each kind, unigram and BPE, and what is damaged. */
#include <math.h>

#include "inputs.h"
#include "tokenizers.h"

#include "data/subwords/tokenizer_files.h"

/* A message of a protocol buffer. */
typedef struct {
    uint8_t at[8192];
    size_t n;
} message;

static void number(message *m, int field, unsigned value) {
    m->at[m->n++] = (uint8_t)((field << 3 & 127) | (field > 15 ? 128 : 0));
    if (field > 15) m->at[m->n++] = (uint8_t)(field >> 4);
    m->at[m->n++] = (uint8_t)value; /* below 128 */
}

static void text(message *m, int field, const void *data, size_t n) {
    m->at[m->n++] = (uint8_t)(field << 3 | 2);
    m->at[m->n++] = (uint8_t)((n & 127) | 128);
    m->at[m->n++] = (uint8_t)(n >> 7);
    memcpy(m->at + m->n, data, n);
    m->n += n;
}

enum { USUAL = 1, UNKNOWN, CONTROL, USER, UNUSED, BYTE };

static void piece(message *m, const char *word, float score, unsigned kind) {
    message p = {.n = 0};
    text(&p, 1, word, strlen(word));
    p.at[p.n++] = 2 << 3 | 5;
    memcpy(p.at + p.n, &score, sizeof score);
    p.n += sizeof score;
    number(&p, 3, kind);
    text(m, 1, p.at, p.n);
}

/* The pieces that all models here begin with: <unk> is 0, <s> 1, </s> 2, the blank 3. */
static message begun(unsigned kind, int fallback) {
    message m = {.n = 0}, training = {.n = 0};
    piece(&m, "<unk>", 0, UNKNOWN);
    piece(&m, "<s>", 0, CONTROL);
    piece(&m, "</s>", 0, CONTROL);
    piece(&m, "\u2581", -3, USUAL);
    number(&training, 3, kind);
    number(&training, 35, fallback);
    text(&m, 2, training.at, training.n);
    return m;
}

/* The tokenizer of a folder with this file, and with this tokenizer_config.json unless NULL. */
static ll_subwords *tokenizer_of(const message *m, const char *config) {
    ll_bytes json = {0};
    ll_subwords *s = NULL;
    put("tokenizer.model", m->at, m->n);
    remove(at("tokenizer_config.json"));
    if (config) put("tokenizer_config.json", config, strlen(config));
    CHECK_OK(ll_subwords_find(&json, folder));
    CHECK_OK(ll_subwords_create(&s, &json, "test"));
    ll_bytes_free(&json);
    return s;
}

/* A map of one character: "A" becomes `to`. Units of the trie lie at their offset XOR the next byte, and the end of a
 * match has its value at its own offset. */
static size_t make_map(uint8_t map[600], const char *to) {
    enum { UNITS = 128, ROOT = 1, LEAF = 2 };
    uint32_t units[1 + UNITS] = {4 * UNITS};
    units[1] = ROOT << 10;
    units[1 + (ROOT ^ 'A')] = 'A' | 1u << 8 | (ROOT ^ 'A' ^ LEAF) << 10;
    units[1 + LEAF] = 1u << 31; /* the text at 0 */
    memcpy(map, units, sizeof units);
    memcpy(map + sizeof units, to, strlen(to) + 1);
    return sizeof units + strlen(to) + 1;
}

static void characters_are_mapped(void **state) {
    (void)state;
    /* Three lengths, since a base64 text ends in three ways. */
    static const char *const to[] = {"b", "bb", "bbb"}, *const ids[] = {"3 4", "3 4 4", "3 4 4 4"};
    for (int i = 0; i < 3; i++) {
        message m = begun(1, 0), rules = {.n = 0};
        uint8_t map[600];
        piece(&m, "b", -1, USUAL);
        piece(&m, "A", -1, USUAL);
        text(&rules, 2, map, make_map(map, to[i]));
        text(&m, 3, rules.at, rules.n);
        ll_subwords *s = tokenizer_of(&m, NULL);
        expect(s, "A", ids[i]);
        ll_subwords_free(s);
    }
}

static void blanks_are_kept_or_not(void **state) {
    (void)state;
    for (unsigned how = 0; how < 4; how++) {
        static const char *const ids[] = {"3 4 3 3 5 3", "3 3 4 3 3 5 3", "4 3 5", "3 4 3 5"};
        message m = begun(1, 0), rules = {.n = 0};
        piece(&m, "a", -1, USUAL);
        piece(&m, "b", -1, USUAL);
        number(&rules, 3, how & 1);
        number(&rules, 4, how >> 1);
        text(&m, 3, rules.at, rules.n);
        ll_subwords *s = tokenizer_of(&m, NULL);
        expect(s, " a  b ", ids[how]);
        ll_subwords_free(s);
    }
}

/* Other blanks than U+0020 stay, also at the ends of a text. */
static void line_ends_are_kept(void **state) {
    (void)state;
    message m = begun(1, 0), rules = {.n = 0};
    piece(&m, "a", -1, USUAL);
    piece(&m, "\n", -1, USUAL);
    piece(&m, "\u3000", -1, USUAL);
    number(&rules, 4, 1);
    text(&m, 3, rules.at, rules.n);
    ll_subwords *s = tokenizer_of(&m, NULL);
    expect(s, "\na\n", "3 5 4 5");
    expect(s, "  \u3000a\t \n  ", "3 6 4 0 3 5");
    ll_subwords_free(s);
}

/* Pieces of the user are found after blanks have become U+2581, and the longest ones first. */
static void blanks_of_the_user_are_found(void **state) {
    (void)state;
    for (unsigned kind = 1; kind < 3; kind++) {
        message m = begun(kind, 0), rules = {.n = 0};
        piece(&m, "a", -1, USUAL);
        piece(&m, "b", -1, USUAL);
        piece(&m, "\u2581\u2581", 0, USER);
        piece(&m, "\u2581\u2581\u2581\u2581", 0, USER);
        piece(&m, "(\u2581)*", 0, USER);
        number(&rules, 3, 0);
        number(&rules, 4, 0);
        text(&m, 3, rules.at, rules.n);
        ll_subwords *s =
            tokenizer_of(&m, "{\"added_tokens_decoder\": {\"7\": {\"content\": \"\u2581\u2581\u2581\u2581\"}}}");
        expect(s, "a  b", "4 6 5");
        expect(s, "a       b a", "4 7 6 3 5 3 4");
        expect(s, "a( )*b", "4 8 5");
        size_t n;
        assert_memory_equal(ll_subwords_text(s, 7, &n), "    ", 4);
        assert_int_equal(n, 4);
        ll_subwords_free(s);
    }
}

static void pieces_have_kinds(void **state) {
    (void)state;
    message m = begun(1, 1);
    piece(&m, "a", -1, USUAL);
    piece(&m, "<new>", 0, USER);
    for (unsigned byte = 0; byte < 256; byte++) {
        char word[8];
        snprintf(word, sizeof word, "<0x%02X>", byte);
        piece(&m, word, 0, BYTE);
    }
    ll_subwords *s = tokenizer_of(&m, NULL);
    expect(s, "a<new>a", "3 4 5 3 4");
    expect(s, "\u00e9", "3 201 175"); /* no piece: bytes 0xc3 and 0xa9 */
    ll_subwords_free(s);
    m = begun(1, 0);
    s = tokenizer_of(&m, NULL);
    expect(s, "x", "3 0");
    ll_subwords_free(s);
}

/* No text becomes an unused piece, whatever its score, and a character that has no other is unknown. */
static void unused_pieces_are_left(void **state) {
    (void)state;
    for (unsigned kind = 1; kind < 3; kind++) {
        message m = begun(kind, 0);
        piece(&m, "a", -1, USUAL);
        piece(&m, "b", -1, USUAL);
        piece(&m, "ab", 0, UNUSED);
        piece(&m, "c", -90, UNUSED);
        ll_subwords *s = tokenizer_of(&m, NULL);
        expect(s, "ab", "3 4 5");
        if (kind == 1) expect(s, "ac", "3 4 0");
        ll_subwords_free(s);
    }
}

/* The pair whose piece has the highest score is merged first. */
static void pairs_are_merged(void **state) {
    (void)state;
    for (int later = 0; later < 2; later++) {
        message m = begun(2, 0);
        piece(&m, "a", -9, USUAL);
        piece(&m, "b", -9, USUAL);
        piece(&m, "c", -9, USUAL);
        piece(&m, "ab", later ? -2 : -1, USUAL);
        piece(&m, "bc", later ? -1 : -2, USUAL);
        ll_subwords *s = tokenizer_of(&m, NULL);
        expect(s, "abc", later ? "3 4 8" : "3 7 6");
        ll_subwords_free(s);
    }
}

/* The tokens before and after a text; -1: none. */
static void expect_around(const ll_subwords *s, int first, int last) {
    for (int end = 0; end < 2; end++) {
        size_t n;
        const int32_t *around = ll_subwords_special(s, end, &n);
        const int expected = end ? last : first;
        assert_int_equal(n, expected >= 0);
        if (n) assert_int_equal(around[0], expected);
    }
}

static void tokens_go_around(void **state) {
    (void)state;
    static const struct {
        const char *config;
        int first, last;
    } some[] = {{"{\"tokenizer_class\": \"LlamaTokenizer\"}", 1, -1},
                {"{\"tokenizer_class\": \"LlamaTokenizer\", \"add_eos_token\": true}", 1, 2},
                {"{\"tokenizer_class\": \"LlamaTokenizer\", \"add_bos_token\": false}", -1, -1},
                {"{\"add_eos_token\": true}", -1, 2},
                {"{\"tokenizer_class\": \"GemmaTokenizer\", \"bos_token\": \"<bos>\"}", 4, -1},
                {"{\"add_bos_token\": true, \"bos_token\": {\"content\": \"<bos>\"}, \"add_eos_token\": true, "
                 "\"eos_token\": \"<end>\", \"added_tokens_decoder\": {\"7\": {\"content\": \"<end>\"}}}",
                 4, 7},
                {NULL, -1, -1}};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        message m = begun(1, 0);
        piece(&m, "<bos>", 0, CONTROL);
        ll_subwords *s = tokenizer_of(&m, some[i].config);
        expect_around(s, some[i].first, some[i].last);
        ll_subwords_free(s);
    }
}

/* Tokens that the files beside a tokenizer.model add, with their numbers and flags. */
static void files_add_tokens(void **state) {
    (void)state;
    static const char added[] = "{\"<old>\": 5, \"<both>\": 6}";
    static const char map[] = "{\"additional_special_tokens\": [\"a\", {\"content\": \"b\", \"lstrip\": true}]}";
    static const char config[] =
        "{\"added_tokens_decoder\": {\"4\": {\"content\": \"<new>\", \"rstrip\": true, \"normalized\": true}, "
        "\"6\": {\"content\": \"<both>\", \"single_word\": true, \"special\": false}}}";
    for (unsigned kind = 1; kind < 3; kind++) {
        message m = begun(kind, 0);
        for (int later = 0; later < 2; later++) {
            ll_subwords *s;
            remove(at("added_tokens.json"));
            remove(at("special_tokens_map.json"));
            if (later) {
                put("added_tokens.json", added, sizeof added - 1);
                put("special_tokens_map.json", map, sizeof map - 1);
                piece(&m, "a", -1, USUAL);
                piece(&m, "b", -1, USUAL);
            }
            s = tokenizer_of(&m, later ? NULL : config);
            expect(s, later ? "<old><both>" : "<new>  <both>", later ? "5 6" : "4 6");
            if (later) expect(s, "a b", "4 5");
            if (!later) expect(s, "x<both>", "3 0");
            assert_int_equal(ll_subwords_count(s), 7);
            ll_subwords_free(s);
        }
    }
    remove(at("added_tokens.json"));
    remove(at("special_tokens_map.json"));
}

/* The same beside vocab.json with merges.txt, where the text of CLIP and others is refused. */
static void files_of_merges(void **state) {
    (void)state;
    static const char vocab[] = "{\"i\": 0, \"n\": 1, \"in\": 2, \"n</w>\": 3, \"in</w>\": 4}", merges[] = "i n\n",
                      marked[] = "#version: 0.2\ni n\ni n</w>\n",
                      config[] = "{\"added_tokens_decoder\": {\"5\": {\"content\": \"<new>\"}}}";
    ll_bytes json = {0};
    ll_subwords *s = NULL;
    put("vocab.json", vocab, sizeof vocab - 1);
    put("merges.txt", merges, sizeof merges - 1);
    put("tokenizer_config.json", config, sizeof config - 1);
    CHECK_OK(ll_subwords_find(&json, folder));
    CHECK_OK(ll_subwords_create(&s, &json, "test"));
    expect(s, "in<new>n", "2 5 1");
    ll_subwords_free(s);
    ll_bytes_free(&json);
    put("merges.txt", marked, sizeof marked - 1);
    CHECK_FAILS(ll_subwords_find(&json, folder), LL_EINVAL, "marks the ends of words (n</w>)");
    CHECK_FAILS(ll_subwords_find(&json, at("vocab.json")), LL_EINVAL, "name its folder");
    remove(at("vocab.json"));
    remove(at("merges.txt"));
}

/* The class in tokenizer_config.json says how vocab.json and merges.txt cut a text, and what goes around it. */
static void classes_of_merges(void **state) {
    (void)state;
    static const char vocab[] = "{\"1\": 0, \"2\": 1, \"12\": 2, \"<s>\": 3, \"</s>\": 4, \"<b>\": 5, \"e\": 6, "
                                "\"\u00c3\": 7, \"\u00a9\": 8, \"\u00cc\": 9, \"\u0123\": 10}";
    static const struct {
        const char *config, *ids;
        int first, last;
    } some[] = {{"{}", "2 6 9 10", 3, 4},
                {"{\"add_bos_token\": false}", "2 6 9 10", -1, -1},
                {"{\"tokenizer_class\": \"RobertaTokenizerFast\"}", "2 6 9 10", 3, 4},
                {"{\"tokenizer_class\": \"GPT2Tokenizer\"}", "2 6 9 10", -1, -1},
                {"{\"tokenizer_class\": \"GPT2Tokenizer\", \"add_bos_token\": true, \"bos_token\": \"<b>\"}",
                 "2 6 9 10", 5, -1},
                {"{\"tokenizer_class\": \"Qwen2Tokenizer\", \"bos_token\": null}", "0 1 7 8", -1, -1}};
    static const char other[] = "{\"tokenizer_class\": \"BlenderbotTokenizer\"}";
    ll_bytes json = {0};
    put("vocab.json", vocab, sizeof vocab - 1);
    put("merges.txt", "1 2\n", 4);
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        ll_subwords *s = NULL;
        put("tokenizer_config.json", some[i].config, strlen(some[i].config));
        CHECK_OK(ll_subwords_find(&json, folder));
        CHECK_OK(ll_subwords_create(&s, &json, "test"));
        expect(s, "12e\u0301", some[i].ids);
        expect_around(s, some[i].first, some[i].last);
        ll_subwords_free(s);
        ll_bytes_free(&json);
    }
    put("tokenizer_config.json", other, sizeof other - 1);
    CHECK_FAILS(ll_subwords_find(&json, folder), LL_EINVAL, "is a BlenderbotTokenizer, which is not read");
    remove(at("vocab.json"));
    remove(at("merges.txt"));
}

static void refuse(const message *m, const char *why) {
    ll_bytes json = {0};
    put("tokenizer.model", m->at, m->n);
    CHECK_FAILS(ll_subwords_find(&json, folder), strstr(why, "damaged") ? LL_EFORMAT : LL_EINVAL, why);
    assert_null(json.data);
}

static void bad_models_are_refused(void **state) {
    (void)state;
    remove(at("tokenizer_config.json"));
    const char *const damaged = "tokenizer.model is damaged, or not a model of SentencePiece";
    const message good = begun(1, 0);
    message m = good;
    m.n--; /* the last field is cut short */
    refuse(&m, damaged);
    m.n = 0; /* no file of this name would be read as none: a number alone */
    number(&m, 9, 1);
    refuse(&m, damaged);
    m = good;
    m.at[m.n++] = 3; /* a group, which no such file has */
    refuse(&m, damaged);
    m = good;
    text(&m, 1, "\x15", 1); /* a piece whose score is cut short */
    refuse(&m, damaged);
    m = good;
    piece(&m, "\xff", 0, USUAL); /* no UTF-8 */
    refuse(&m, damaged);
    m = good;
    text(&m, 1, "", 0); /* a piece without text */
    refuse(&m, damaged);
    char longest[1026];
    memset(longest, 'a', sizeof longest);
    longest[1025] = 0;
    m = begun(2, 0);
    piece(&m, longest, 0, USUAL); /* to cut it in two takes the square of its length */
    refuse(&m, "has 1025 bytes; 1024 are the most");
    const char *const kind = "only unigram and BPE with U+2581 before words are";
    m = begun(3, 0);
    refuse(&m, kind);
    static const char config[] = "{\"add_bos_token\": true, \"bos_token\": \"<bos>\"}";
    put("tokenizer_config.json", config, sizeof config - 1);
    refuse(&good, "has add_bos_token, and its tokenizer has no token \"<bos>\"");
    remove(at("tokenizer_config.json"));
    for (int field = 2; field < 4; field++) {
        message part = {.n = 0};
        m = good;
        if (field == 2) number(&part, 24, 1); /* blanks behind words */
        if (field == 3) number(&part, 5, 0);  /* blanks as they are */
        text(&m, field, part.at, part.n);
        refuse(&m, kind);
    }
    for (unsigned model = 1; model < 3; model++) {
        m = begun(model, 0);
        piece(&m, "a", model == 1 ? NAN : -INFINITY, USUAL); /* no score */
        refuse(&m, damaged);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(characters_are_mapped), cmocka_unit_test(blanks_are_kept_or_not),
        cmocka_unit_test(line_ends_are_kept),    cmocka_unit_test(blanks_of_the_user_are_found),
        cmocka_unit_test(pieces_have_kinds),     cmocka_unit_test(unused_pieces_are_left),
        cmocka_unit_test(pairs_are_merged),      cmocka_unit_test(tokens_go_around),
        cmocka_unit_test(files_add_tokens),      cmocka_unit_test(files_of_merges),
        cmocka_unit_test(classes_of_merges),     cmocka_unit_test(bad_models_are_refused),
    };
    return cmocka_run_group_tests_name("sentencepiece", tests, make_folder, remove_folder);
}
