/* Text to tokens and back, with nothing but a model. */
#include <string.h>

#include "base/memory.h"
#include "models.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bytes), cmocka_unit_test(test_letters_and_lists)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
