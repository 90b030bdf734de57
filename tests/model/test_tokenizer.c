/* Text to tokens and back, with nothing but a model; and what formats say of their tokens. */
#include <string.h>

#include "base/memory.h"
#include "data/format.h"
#include "data/text/tokenizer.h"
#include "models.h"
#include "recipe/recipe.h"

static void test_bytes(void **state) {
    (void)state;
    ll_model *model = tiny_model("model.vocab=256"), *few = tiny_model("model.vocab=200");
    ll_tokenizer *t = NULL;
    int *tokens = NULL;
    char text[256];
    size_t count = 0, size = 0;
    for (int i = 0; i < 256; i++) text[i] = (char)(255 - i);
    CHECK_FAILS(ll_tokenizer_create(&t, few), LL_EFORMAT, "200 tokens");
    assert_null(t);
    CHECK_OK(ll_tokenizer_create(&t, model));
    assert_int_equal(ll_tokenizer_vocab(t), 256);
    CHECK_OK(ll_tokenizer_encode(t, text, sizeof text, &tokens, &count));
    assert_int_equal(count, 256);
    for (int i = 0; i < 256; i++) {
        assert_int_equal(tokens[i], 255 - i);
        assert_int_equal(*ll_tokenizer_text(t, tokens[i], &size), text[i]);
        assert_int_equal(size, 1);
    }
    ll_text_free(tokens);
    ll_memory_fail_at(1);
    assert_int_equal(ll_tokenizer_encode(t, text, 3, &tokens, &count), LL_ENOMEM);
    ll_memory_fail_at(0);
    ll_tokenizer_free(t);
    ll_model_free(model);
    ll_model_free(few);
}

/* Expressions and proteins, whose tokens are not bytes. */
static void test_letters_and_lists(void **state) {
    (void)state;
    static const char list[] = "( ( [MED 3 ) 7 ) [SM 1 ] ]", again[] = "[MED 3 7 [SM 1 ] ] ";
    static const int expected[] = {12, 3, 7, 13, 1, 14, 14}, letters[] = {11, 10, 24, 25, 0};
    ll_model *lists = tiny_model("model.task=classify model.classes=10 model.vocab=15 data.format=listops");
    ll_model *proteins = tiny_model("model.vocab=26 data.format=fasta");
    ll_tokenizer *t = NULL;
    int *tokens = NULL;
    char text[64] = "";
    size_t count = 0, size = 0;
    CHECK_OK(ll_tokenizer_create(&t, lists));
    CHECK_OK(ll_tokenizer_encode(t, list, strlen(list), &tokens, &count));
    assert_int_equal(count, 7);
    assert_memory_equal(tokens, expected, sizeof expected);
    for (size_t i = 0; i < count; i++) {
        const char *word = ll_tokenizer_text(t, tokens[i], &size);
        strncat(text, word, size);
    }
    assert_string_equal(text, again);
    ll_text_free(tokens);
    CHECK_FAILS(ll_tokenizer_encode(t, "[SUM 1 ]", 8, &tokens, &count), LL_EINVAL, "MIN, MAX, MED");
    for (int at = 1; at <= 2; at++) {
        ll_memory_fail_at(at);
        assert_int_equal(ll_tokenizer_encode(t, list, 5, &tokens, &count), LL_ENOMEM);
        ll_memory_fail_at(0);
    }
    ll_tokenizer_free(t);
    CHECK_OK(ll_tokenizer_create(&t, proteins));
    CHECK_OK(ll_tokenizer_encode(t, "LkYZ\n", 5, &tokens, &count));
    assert_int_equal(count, 5);
    assert_memory_equal(tokens, letters, sizeof letters);
    assert_int_equal(*ll_tokenizer_text(t, 24, &size), 'Y');
    ll_text_free(tokens);
    CHECK_FAILS(ll_tokenizer_encode(t, "MK*", 3, &tokens, &count), LL_EINVAL, "position 2");
    ll_tokenizer_free(t);
    ll_model_free(lists);
    ll_model_free(proteins);
}

/* ---- What formats say ---- */

/* In the order of data.format. A new format is to be thought about here: what its tokens are, and where its texts may
 * be cut. */
static const struct {
    const char *name, *unit;
    ll_cut cut;
    int baseline, made, images;
    ll_input_format input;
} formats[] = {
    {"bytes", "byte", LL_CUT_BYTE, 0, 0, 0, LL_INPUT_AUTO},
    {"idx", "number", LL_CUT_BYTE, 0, 0, 1, LL_INPUT_AUTO},
    {"demo", "byte", LL_CUT_BYTE, 0, 1, 0, LL_INPUT_AUTO},
    {"fasta", "residue", LL_CUT_BYTE, 1, 0, 0, LL_INPUT_FASTA},
    {"words", "word", LL_CUT_LINE, 1, 0, 0, LL_INPUT_AUTO},
    {"labelled", "byte", LL_CUT_BYTE, 0, 0, 0, LL_INPUT_AUTO},
    {"listops", "symbol", LL_CUT_NOWHERE, 0, 0, 0, LL_INPUT_AUTO},
    {"retrieval", "byte", LL_CUT_BYTE, 0, 0, 0, LL_INPUT_AUTO},
    {"cifar10", "number", LL_CUT_BYTE, 0, 0, 1, LL_INPUT_AUTO},
    {"pathfinder", "number", LL_CUT_BYTE, 0, 0, 1, LL_INPUT_AUTO},
    {"pieces", "piece", LL_CUT_LINE, 0, 0, 0, LL_INPUT_AUTO},
    {"pairs", "token", LL_CUT_BYTE, 0, 0, 0, LL_INPUT_AUTO},
    {"copy", "token", LL_CUT_BYTE, 0, 1, 0, LL_INPUT_AUTO},
    {"reverse", "token", LL_CUT_BYTE, 0, 1, 0, LL_INPUT_AUTO},
    {"copy-reverse", "token", LL_CUT_BYTE, 0, 1, 0, LL_INPUT_AUTO},
    {"midi", "event", LL_CUT_LINE, 1, 0, 0, LL_INPUT_MIDI},
    {"subwords", "token", LL_CUT_NOWHERE, 0, 0, 0, LL_INPUT_AUTO},
    {"recall", "token", LL_CUT_BYTE, 0, 1, 0, LL_INPUT_AUTO},
    {"png", "number", LL_CUT_BYTE, 0, 0, 1, LL_INPUT_AUTO},
};
enum { FORMATS = sizeof formats / sizeof *formats };

static void test_formats(void **state) {
    (void)state;
    char names[400] = "", assignment[64];
    ll_recipe *recipe = tiny_recipe("");
    for (int i = 0; i < FORMATS; i++) {
        const ll_format *format = ll_format_named(formats[i].name);
        sprintf(names + strlen(names), "%s%s", i ? "|" : "", formats[i].name);
        snprintf(assignment, sizeof assignment, "data.format=%s", formats[i].name);
        CHECK_OK(ll_recipe_set(recipe, assignment));
        assert_non_null(format);
        assert_int_equal(recipe->c.data.format, i);
        assert_int_equal(format->cut, formats[i].cut);
        assert_int_equal(format->baseline, formats[i].baseline);
        assert_int_equal(format->made, formats[i].made);
        assert_int_equal(format->images, formats[i].images);
        assert_int_equal(format->input, formats[i].input);
        for (const char *const *task = (const char *const[]){"lm", "mlm", "seq2seq", "classify", "match", NULL}; *task;
             task++) {
            snprintf(assignment, sizeof assignment, "model.task=%s", *task);
            CHECK_OK(ll_recipe_set(recipe, assignment));
            assert_string_equal(ll_recipe_unit(recipe), strstr("lm mlm seq2seq", *task) ? formats[i].unit : "example");
        }
    }
    assert_string_equal(ll_key_of(&ll_data_keys, "data.format")->about.choices, names);
    ll_recipe_free(recipe);
}

/* The tokens of a text's parts, one after the other, are those of the whole. */
static void expect_parts(const ll_tokenizer *t, const char *text, ll_cut cut) {
    int *whole = NULL, *some = NULL;
    size_t count = 0, n = 0, sum = 0;
    CHECK_OK(ll_tokenizer_encode(t, text, strlen(text), &whole, &count));
    for (const char *next; *text; text = next) {
        next = cut == LL_CUT_BYTE ? text + 1 : strchr(text, '\n') + 1;
        CHECK_OK(ll_tokenizer_encode(t, text, (size_t)(next - text), &some, &n));
        assert_true(sum + n <= count);
        assert_memory_equal(some, whole + sum, n * sizeof *some);
        sum += n;
        ll_text_free(some);
    }
    assert_int_equal(sum, count);
    ll_text_free(whole);
}

static void test_texts_are_cut(void **state) {
    (void)state;
    static const char protein[] = "MKV\nLKYZ\n\nAC\n",
                      music[] = "Piece\nBar Meter_4/4 Position_1 Pitch_60 Duration_4\n"
                                "Bar Position_1 Pitch_64 Duration_4\n";
    char text[8000] = "";
    for (size_t n = 0, i = 0; n + 80 < sizeof text; i++)
        n += (size_t)sprintf(text + n, "the river %zu  ran\tunder\n\n a bridge of st\xc3\xb6ne\n", i * i % 90);
    for (int i = 0; i < FORMATS; i++) {
        const ll_data_options c = {.format = i, .fine = 0, .min_count = 1, .vocab_size = i == LL_DATA_PIECES ? 300 : 0};
        ll_bytes vocabulary = {0};
        ll_tokenizer *t = NULL;
        if (formats[i].cut == LL_CUT_NOWHERE) continue;
        const ll_status status = ll_tokenizer_vocabulary(&vocabulary, &c, &(ll_bytes){(uint8_t *)text, strlen(text)});
        if (status && strstr(ll_error(), "without SentencePiece")) continue;
        CHECK_OK(status);
        CHECK_OK(ll_tokenizer_create_from(&t, &c, &vocabulary, "it"));
        expect_parts(t, i == LL_DATA_FASTA ? protein : i == LL_DATA_MIDI ? music : text, formats[i].cut);
        ll_tokenizer_free(t);
        ll_bytes_free(&vocabulary);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bytes), cmocka_unit_test(test_letters_and_lists),
                                       cmocka_unit_test(test_formats), cmocka_unit_test(test_texts_are_cut)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
