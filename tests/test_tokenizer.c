/* Text to tokens and back, from a model alone. */
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
    ll_tokens_free(tokens);
    ll_memory_fail_at(1);
    assert_int_equal(ll_tokenizer_encode(t, text, 3, &tokens, &count), LL_ENOMEM);
    ll_memory_fail_at(0);
    ll_tokenizer_free(t);
    ll_model_free(model);
    ll_model_free(few);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
