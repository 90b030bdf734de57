/* Encoder-decoders learn to copy and to reverse, also sources longer than all in training, with the project's recipes
 * on one thread. The sanitizers leave this slow test out. */
#include "runs.h"

/* Trains by a recipe with some keys changed, and returns the model of the last step. */
static ll_model *trained(const char *recipe_path, const char *name, const char *const *changes) {
    ll_recipe *recipe = NULL;
    ll_trainer *trainer = NULL;
    ll_model *model = NULL;
    CHECK_OK(ll_recipe_load(&recipe, recipe_path));
    for (; *changes; changes++) set(recipe, *changes);
    CHECK_OK(ll_trainer_create(&trainer, recipe, at(name), NULL));
    CHECK_OK(ll_trainer_run(trainer, NULL, NULL));
    CHECK_OK(ll_model_load(&model, in(name, "last.safetensors")));
    ll_trainer_free(trainer);
    ll_recipe_free(recipe);
    return model;
}

/* Over 99 % of target tokens are right for sources of 33 to 48 symbols, after training on 1 to 32. Returns how many
 * whole targets are right. */
static double check_tokens(ll_model *model, const char *name) {
    ll_evaluation e = {0};
    CHECK_OK(ll_model_set(model, "train.length=51"));
    CHECK_OK(ll_model_set(model, "data.longest=48"));
    CHECK_OK(ll_model_set(model, "data.shortest=33"));
    CHECK_OK(ll_evaluate(model, "test", 0, &e));
    printf("%s: %.4f of tokens, %.4f of %d longer sequences\n", name, e.accuracy, e.exact, (int)e.sequences);
    assert_int_equal(e.sequences, 1000);
    assert_true(e.accuracy > 0.99);
    return e.exact;
}

/* Over 99 % of those targets have no mistake. */
static void check_longer(ll_model *model, const char *name) {
    const double exact = check_tokens(model, name);
    if (!(exact > 0.99)) fail_msg("%s: %g of longer sequences are right", name, exact);
}

/* Greedy decoding with a stream writes the target and its end. */
static void check_stream(ll_model *model, const char *source, const char *target) {
    ll_stream *stream = NULL;
    int tokens[64] = {LL_TOKEN_BEGIN}, n = 1, token = LL_TOKEN_BEGIN;
    float logits[LL_TOKEN_COUNT];
    const ll_sampling greedy = {.top_p = 1};
    for (; source[n - 1]; n++) tokens[n] = source[n - 1];
    tokens[n++] = LL_TOKEN_END;
    CHECK_OK(ll_stream_create(&stream, model));
    CHECK_OK(ll_stream_source(stream, tokens, n));
    for (size_t i = 0; i <= strlen(target); i++) {
        CHECK_OK(ll_stream_feed(stream, &token, 1, logits));
        token = ll_sample(logits, LL_TOKEN_COUNT, &greedy, (int64_t)i);
        if (token != (target[i] ? target[i] : LL_TOKEN_END))
            fail_msg("%s: token %zu is %d, expected %c", source, i, token, target[i]);
    }
    ll_stream_free(stream);
}

static void test_copy(void **state) {
    (void)state;
    static const char *const as_it_is[] = {NULL};
    ll_model *model = trained("recipes/copy.ini", "copy", as_it_is);
    check_longer(model, "copy");
    check_stream(model, "abracadabra", "abracadabra");
    check_stream(model, "thequickbrownfoxjumpsoverthelazydogagain", "thequickbrownfoxjumpsoverthelazydogagain");
    ll_model_free(model);
}

static void test_reverse(void **state) {
    (void)state;
    static const char *const as_it_is[] = {NULL};
    ll_model *model = trained("recipes/reverse.ini", "reverse", as_it_is);
    check_longer(model, "reverse");
    check_stream(model, "desserts", "stressed");
    check_stream(model, "niagaodyzalehtrevospmujxofnworbkciuqehta", "athequickbrownfoxjumpsoverthelazydoagain");
    ll_model_free(model);
}

/* One model for both tasks. The source says which one. */
static void test_both(void **state) {
    (void)state;
    static const char *const both[] = {"data.format=copy-reverse", "position.cross=both", "train.length=35",
                                       "train.steps=600", NULL};
    ll_model *model = trained("recipes/copy.ini", "both", both);
    check_tokens(model, "copy and reverse");
    ll_model_free(model);
}

/* Exact attention with rope, by the same recipe. */
static void test_softmax(void **state) {
    (void)state;
    static const char *const changes[] = {"attention.kernel=softmax", "position.type=rope",
                                          "attention.query-multiple=1", "train.steps=300", NULL};
    ll_model *model = trained("recipes/reverse.ini", "softmax", changes);
    check_longer(model, "reverse, softmax");
    check_stream(model, "desserts", "stressed");
    ll_model_free(model);
}

int main(void) {
    ll_set_threads(1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copy),
        cmocka_unit_test(test_reverse),
        cmocka_unit_test(test_both),
        cmocka_unit_test(test_softmax),
    };
    return cmocka_run_group_tests(tests, make_data, remove_data);
}
