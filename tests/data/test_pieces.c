/* Pieces of words: text to pieces and back, the same model each time, and the vocabulary that a reader makes. A build
 * without SentencePiece says so. */
#include "inputs.h"

#include "data/text/pieces.h"

static char text[30000];
static size_t size;

static int make_text(void **state) {
    static const char *const words[] = {"the", "river", "running", "under", "bridges", "of", "stone", "and", "water"};
    for (unsigned i = 0; size + 64 < sizeof text; i++)
        size += (size_t)snprintf(text + size, 64, "%s %s%s", words[i * i % 9], words[(i * 7 + i / 5) % 9],
                                 i % 6 ? " " : ".\n");
    return make_folder(state);
}

/* Fails if this build has no SentencePiece, whose error says so. */
static int trains(ll_bytes *model) {
    const ll_status status = ll_pieces_train(model, &(ll_bytes){(uint8_t *)text, size}, 300, LL_PIECES_MOST);
    if (!status) return 1;
    assert_int_equal(status, LL_EINVAL);
    if (!strstr(ll_error(), "without SentencePiece")) fail_msg("%s", ll_error());
    return 0;
}

static void train(ll_bytes *model) {
    if (!trains(model)) skip();
}

static void expect_back(ll_pieces *p, const char *in, size_t n) {
    int32_t *tokens = NULL;
    int64_t count = 0;
    char *out = calloc(n + 1, 1);
    size_t at = 0;
    CHECK_OK(ll_pieces_encode(p, (const uint8_t *)in, n, &tokens, &count));
    for (int64_t i = 0; i < count; i++) {
        size_t length = 0;
        assert_true(tokens[i] >= 0 && tokens[i] < ll_pieces_count(p));
        const char *piece = ll_pieces_text(p, tokens[i], &length);
        assert_true(at + length <= n);
        memcpy(out + at, piece, length);
        at += length;
    }
    assert_int_equal(at, n);
    assert_memory_equal(out, in, n);
    free(out);
    ll_free(tokens);
}

static void text_there_and_back(void **state) {
    (void)state;
    static const char other[] = "  Two  blanks,\n\n\xc3\xa9t\xc3\xa9 and \xe2\x82\xac; zebra";
    ll_bytes model = {0}, again = {0};
    ll_pieces *p = NULL;
    train(&model);
    CHECK_OK(ll_pieces_create(&p, &model, "model"));
    expect_back(p, text, size);
    expect_back(p, other, sizeof other - 1);
    expect_back(p, "\n", 1);
    /* Bytes that are no UTF-8, and the character that SentencePiece writes for a blank. */
    expect_back(p, "the \xff\xc3 river\0\r\n\x80\xe2\x96\x81of\xe2\x96", 23);
    for (int i = 0; i < 256; i++) expect_back(p, (const char[]){'a', (char)i, 'b'}, 3);
    expect_back(p, "", 0);
    int32_t *tokens = NULL;
    int64_t count = 0;
    CHECK_OK(ll_pieces_encode(p, (const uint8_t *)text, size, &tokens, &count));
    assert_true(count < (int64_t)size / 2 && tokens[count - 1] != 0);
    ll_free(tokens);
    train(&again);
    assert_int_equal(model.size, again.size);
    assert_memory_equal(model.data, again.data, model.size);
    ll_pieces_free(p);
    ll_bytes_free(&model);
    ll_bytes_free(&again);
}

/* The pieces of a text, of which `most` bytes are read. */
static ll_bytes learned(const char *from, size_t n, size_t most) {
    ll_bytes model = {0};
    CHECK_OK(ll_pieces_train(&model, &(ll_bytes){(uint8_t *)from, n}, 300, most));
    return model;
}

static void expect_same(const char *a, const char *b, size_t n, size_t most) {
    ll_bytes x = learned(a, n, most), y = learned(b, n + n / 65536, most);
    assert_int_equal(x.size, y.size);
    assert_memory_equal(x.data, y.data, x.size);
    ll_bytes_free(&x);
    ll_bytes_free(&y);
}

/* A line of any length is learned from as if it ended before the last blank of 64 KiB, or else between characters. */
static void long_lines_are_learned_from(void **state) {
    (void)state;
    enum { N = 140000, LONGEST = 65536 };
    ll_bytes model = {0};
    train(&model);
    ll_bytes_free(&model);
    char *line = malloc(N), *lines = malloc(N + N / LONGEST);
    for (int blanks = 1; blanks >= 0; blanks--) {
        size_t n = 0, begin = 0;
        for (size_t i = 0; i < N; i++) {
            line[i] = blanks ? text[i % size] : i % 2 ? (char)(0xa0 + (i * i / 7 + i / 11) % 8) : '\xc3';
            if (line[i] == '\n') line[i] = ' ';
        }
        for (size_t i = 0; i < N; i++) {
            size_t end = begin + LONGEST;
            while (end < N && (blanks ? line[end] != ' ' : (line[end] & 0xc0) == 0x80)) end--;
            if (i == end) lines[n++] = '\n', begin = i;
            lines[n++] = line[i];
        }
        assert_int_equal(n, N + N / LONGEST);
        expect_same(line, lines, N, LL_PIECES_MOST);
        if (blanks) expect_same(line, lines, N, N - 1); /* every other line */
    }
    free(line);
    free(lines);
}

static ll_pieces *shared_pieces;

static ll_status encode_text(void) {
    int32_t *tokens = NULL;
    int64_t count = 0;
    const ll_status status = ll_pieces_encode(shared_pieces, (const uint8_t *)text, size, &tokens, &count);
    if (!status) ll_free(tokens);
    return status;
}

static void refused_memory_is_said(void **state) {
    (void)state;
    ll_bytes model = {0}, other = {0};
    train(&model);
    CHECK_OK(ll_pieces_create(&shared_pieces, &model, "model"));
    assert_true(check_refused_memory(encode_text) > 1);
    ll_memory_fail_at(1);
    const ll_status status = ll_pieces_train(&other, &(ll_bytes){(uint8_t *)text, size}, 300, LL_PIECES_MOST);
    ll_memory_fail_at(0);
    assert_int_equal(status, LL_ENOMEM);
    ll_pieces_free(shared_pieces);
    ll_bytes_free(&model);
}

static void damaged_models_are_refused(void **state) {
    (void)state;
    ll_bytes model = {0}, none = {0};
    ll_pieces *p = NULL;
    train(&model);
    CHECK_FAILS(ll_pieces_create(&p, &none, "NAME"), LL_EFORMAT, "NAME");
    model.size /= 2;
    CHECK_FAILS(ll_pieces_create(&p, &model, "NAME"), LL_EFORMAT, "NAME");
    memset(model.data, 0xff, model.size);
    CHECK_FAILS(ll_pieces_create(&p, &model, "NAME"), LL_EFORMAT, "NAME");
    assert_null(p);
    ll_bytes_free(&model);
    CHECK_FAILS(ll_pieces_train(&model, &(ll_bytes){(uint8_t *)"", 0}, 100, LL_PIECES_MOST), LL_EINVAL,
                "data.format=pieces");
}

/* Texts at which SentencePiece would end the program. */
static void texts_without_characters_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t size;
    } none[] = {{"\t\t\n\t\n", 5}, {"\0\0\n", 3}, {"<0x0A>\n</s><0xFF>", 18}, {"\xe2\x96\x85words\n\t", 10}};
    ll_bytes model = {0};
    train(&model);
    ll_bytes_free(&model);
    for (int i = 0; i < 4; i++)
        CHECK_FAILS(ll_pieces_train(&model, &(ll_bytes){(uint8_t *)none[i].text, none[i].size}, 300, LL_PIECES_MOST),
                    LL_EINVAL, "data.format=bytes");
    /* Small letters are no name of a byte. */
    CHECK_OK(ll_pieces_train(&model, &(ll_bytes){(uint8_t *)"<0x0a>\n", 7}, 300, LL_PIECES_MOST));
    ll_bytes_free(&model);
    /* One letter among 20,000 tabs, and three among them. */
    char *tabs = malloc(20000);
    memset(tabs, '\t', 20000);
    tabs[100] = 'a';
    CHECK_FAILS(ll_pieces_train(&model, &(ll_bytes){(uint8_t *)tabs, 20000}, 300, LL_PIECES_MOST), LL_EINVAL,
                "data.format=bytes");
    tabs[200] = tabs[300] = 'a';
    CHECK_OK(ll_pieces_train(&model, &(ll_bytes){(uint8_t *)tabs, 20000}, 300, LL_PIECES_MOST));
    ll_bytes_free(&model);
    free(tabs);
}

static void a_reader_makes_its_pieces(void **state) {
    (void)state;
    ll_bytes model = {0};
    ll_config c = {.model.task = LL_TASK_LM,
                   .train.batch = 2,
                   .train.length = 16,
                   .data.format = LL_DATA_PIECES,
                   .data.vocab_size = 300};
    c.data.train = kept(put("text", text, size));
    if (!trains(&model)) {
        CHECK_FAILS(refused(&c, "train"), LL_EINVAL, "without SentencePiece");
        return;
    }
    ll_reader *r = opened(&c, "train");
    double words, bytes;
    assert_int_equal(ll_reader_vocabulary(r)->size, model.size);
    assert_memory_equal(ll_reader_vocabulary(r)->data, model.data, model.size);
    ll_reader_units(r, &words, &bytes);
    assert_true(fabs(bytes * (double)ll_reader_size(r) - (double)size) < 1e-6);
    assert_true(ll_reader_vocab(r) > 256 && ll_reader_vocab(r) <= 400);
    ll_reader_free(r);
    assert_pure(&c);
    ll_bytes_free(&model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_there_and_back),       cmocka_unit_test(damaged_models_are_refused),
        cmocka_unit_test(refused_memory_is_said),    cmocka_unit_test(texts_without_characters_are_refused),
        cmocka_unit_test(a_reader_makes_its_pieces), cmocka_unit_test(long_lines_are_learned_from),
    };
    return cmocka_run_group_tests_name("pieces", tests, make_text, remove_folder);
}
