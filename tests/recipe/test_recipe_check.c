/* Recipes that are refused, and the words of the errors. */
#include "test.h"

#include "recipe/recipe.h"

static void test_bad_text(void **state) {
    (void)state;
    static const struct {
        const char *text;
        ll_status status;
        const char *word[3];
    } bad[] = {
        {"[model]\n\nwidht = 64\n", LL_EINVAL, {"test.ini:3: ", "\"model.widht\"", "nearest is model.width"}},
        {"[train]\nkernel = relu\n", LL_EINVAL, {"test.ini:2: ", "train.kernel", "nearest is attention.kernel"}},
        {"kernal = relu\n", LL_EINVAL, {"test.ini:1: ", "\"kernal\"", "nearest is attention.kernel"}},
        {"[model]\nwidth = big\n", LL_EINVAL, {"test.ini:2: model.width", "\"big\"", "(1 to 65536)"}},
        {"[model]\nwidth = 0\n", LL_EINVAL, {"test.ini:2: model.width = 0", "out of range", "(1 to 65536)"}},
        {"[model]\nwidth = 99999999999999999999\n", LL_EINVAL, {"test.ini:2: model.width", "(1 to 65536)"}},
        {"[model]\ndropout = 1.5\n", LL_EINVAL, {"model.dropout = 1.5 is out of range", "(0 to 0.99)"}},
        {"[model]\ndropout = nan\n", LL_EINVAL, {"model.dropout", "\"nan\"", "a number"}},
        {"[model]\nnorm = mid\n", LL_EINVAL, {"test.ini:2: model.norm", "\"mid\"", "one of pre|post"}},
        {"[model]\nnorm = pre|post\n", LL_EINVAL, {"one of pre|post"}},
        {"[model]\nnorm = \n", LL_EINVAL, {"one of pre|post"}},
        {"[model]\ntied-embedding = maybe\n", LL_EINVAL, {"on or off"}},
        {"[model]\nwidth = 64\n\nwidth = 32\n", LL_EFORMAT, {"test.ini:4: ", "second time", "line 2"}},
        {"[model\nwidth = 64\n", LL_EFORMAT, {"test.ini:1: ", "lacks its ]"}},
        {"[model] width = 64\n", LL_EFORMAT, {"test.ini:1: ", "line of its own"}},
        {"[model]\nwidth 64\n", LL_EFORMAT, {"test.ini:2: \"width 64\"", "neither"}},
        {"[data]\ntrain = \"a\n", LL_EFORMAT, {"test.ini:2: data.train", "quotes"}},
        {"[data]\ntrain = \"a\" b\n", LL_EFORMAT, {"quotes"}},
        {"[data]\ntrain = \"a\"\"\n", LL_EFORMAT, {"quotes"}},
        {"[data]\ntrain = a\x01z\n", LL_EINVAL, {"data.train", "UTF-8"}},
        {"[data]\ntrain = \xff\n", LL_EINVAL, {"data.train", "UTF-8"}},
        {"[model]\n= 3\n", LL_EINVAL, {"no key \"model.\""}},
        {"\"[model]\n", LL_EFORMAT, {"neither"}},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ll_recipe *r = NULL;
        for (int j = 0; j < 3 && bad[i].word[j]; j++)
            CHECK_FAILS(ll_recipe_parse(&r, bad[i].text, "test.ini"), bad[i].status, bad[i].word[j]);
        assert_null(r);
    }
}

/* Parts that do not go together. The last assignment is the wrong one. */
static void test_checks(void **state) {
    (void)state;
    static const struct {
        const char *set[5], *word;
    } cases[] = {
        {{"model.heads=7"}, "model.heads = 7 does not divide model.width = 512"},
        {{"model.vocab=0"}, "model.vocab"},
        {{"model.task=classify", "model.classes=0"}, "model.classes"},
        {{"train.length=0"}, "train.length"},
        {{"model.head-size=2048", "attention.query-multiple=64"}, "attention.query-multiple"},
        {{"train.batch=65536", "train.length=65536"}, "train.batch"},
        {{"attention.kernel=favor", "attention.num-features=0"}, "attention.num-features"},
        {{"attention.kernel=favor", "attention.projection=none"}, "attention.projection = none"},
        {{"attention.projection=iid"}, "attention.kernel = softmax has none"},
        {{"attention.row-norms=sqrt-d"}, "attention.row-norms"},
        {{"attention.features=hyperbolic"}, "attention.kernel=favor"},
        {{"attention.kernel=favor", "attention.features=hyperbolic", "attention.num-features=33"}, "33 is odd"},
        {{"attention.kernel=favor", "attention.features=trigonometric", "attention.feature-eps=0.1"}, "both signs"},
        {{"attention.kernel=favor", "attention.projection=hadamard", "model.head-size=12"}, "power of two"},
        {{"attention.kernel=favor", "attention.projection=hadamard", "position.type=sine-spe",
          "position.realizations=6"},
         "have size 6"},
        {{"attention.feature-eps=-0.5"}, "attention.feature-eps"},
        {{"attention.normalise=off"}, "attention.normalise"},
        {{"position.type=permute"}, "attention.kernel = softmax has none"},
        {{"model.task=classify", "position.width=4", "position.height=4", "position.type=permute2d"}, "permute2d"},
        {{"attention.kernel=relu", "position.width=4", "position.height=4", "position.type=permute2d"},
         "model.task = lm"},
        {{"position.decay=fixed"}, "softmax has none"},
        {{"model.task=mlm", "model.separator=0"}, "may hide a separator"},
        {{"model.task=mlm", "model.vocab=300", "model.mask-token=299", "model.mask-token=300"},
         "model.mask-token = 300 is not a token of model.vocab"},
        {{"model.task=mlm", "model.vocab=300", "model.token-types=2", "model.type-separator=299",
          "model.type-separator=300"},
         "model.type-separator = 300 is not a token of model.vocab"},
        {{"attention.kernel=relu", "model.task=classify", "position.decay=fixed"}, "position.decay=none"},
        {{"model.head-size=9", "position.type=rope"}, "9 are odd; change model.head-size"},
        {{"position.type=rope-linear"}, "softmax has none; use rope"},
        {{"attention.kernel=relu", "model.head-size=9", "position.type=rope-linear"},
         "9 is odd; change attention.num-features or model.head-size"},
        {{"attention.kernel=favor", "position.type=rope-linear", "attention.feature-eps=0.1"}, "no eps"},
        {{"position.type=conv-spe", "position.image=on"}, "whole images"},
        {{"position.type=relative-s1", "position.image=on"}, "position.width and position.height"},
        {{"attention.kernel=value", "position.type=rope"}, "use sinusoidal, learned or none"},
        {{"attention.kernel=value", "position.type=rope-linear"}, "use sinusoidal, learned or none"},
        {{"attention.kernel=value", "position.type=t5"}, "use sinusoidal, learned or none"},
        {{"attention.kernel=local", "position.type=t5"}, "use softmax, or relative-s1"},
        {{"attention.kernel=reformer", "position.type=t5"}, "use softmax, or rope"},
        {{"attention.kernel=local", "position.type=permute"}, "attention.kernel = local has none"},
        {{"attention.kernel=local", "attention.normalise=off"}, "attention.kernel = local is not one"},
        {{"attention.kernel=linformer"}, "use local, favor or softmax"},
        {{"attention.kernel=reformer", "position.type=sine-spe"}, "are the same; use rope"},
        {{"attention.kernel=reformer", "attention.buckets=7"}, "make it even"},
        {{"attention.kernel=nystrom"}, "nystrom mixes all tokens"},
        {{"model.task=classify", "attention.kernel=linformer", "train.length=4096", "model.pool=first"},
         "token in front is beyond attention.max-length = 4096"},
        {{"attention.kernel=favor", "position.type=t5"}, "use softmax"},
        {{"attention.kernel=relu", "position.type=shaw"}, "relative-s1"},
        {{"position.type=orthogonal"}, "favor or relu"},
        {{"attention.kernel=relu", "attention.query-multiple=64", "position.type=orthogonal"}, "2 to 2048"},
        {{"attention.kernel=favor", "position.type=orthogonal", "attention.feature-eps=0.1"}, "feature-eps=0"},
        {{"model.heads=1", "position.type=relative-s2"}, "1 is odd"},
        {{"attention.kernel=relu", "position.type=relative-s2", "position.decay=fixed"}, "position.decay=none"},
        {{"position.type=relative-s2", "position.image=on"}, "position.width and position.height"},
        {{"model.kv-heads=3"}, "model.kv-heads = 3 does not divide"},
        {{"model.token-types=2"}, "reads whole sequences"},
        {{"model.mask-token=2"}, "reads whole sequences"},
        {{"model.type-separator=2"}, "there are none; set model.token-types"},
        {{"model.head-transform=on"}, "set model.task=mlm"},
        {{"model.task=classify", "model.head-bias=on"}, "model.head-bias = on"},
        {{"model.task=seq2seq", "model.norm=parallel"}, "need one stack"},
        {{"model.task=seq2seq", "model.bias=all"}, "need one stack"},
        {{"position.type=rope", "position.scaling=8", "position.scaling-length=8192", "position.scaling-low=4"},
         "position.scaling-low = 4 must be below position.scaling-high = 4"},
        {{"position.type=rope", "position.rotary=3"}, "position.rotary = 3 must be an even number"},
        {{"position.type=learned", "position.offset=4096"}, "position.offset = 4096 leaves nothing"},
        {{"position.type=learned", "train.length=5000"},
         "5000 is beyond the 4096 tokens of position.max-length = 4096"},
        {{"position.type=learned", "train.length=64", "position.max-length=64", "position.offset=2"},
         "62 tokens of position.max-length = 64, the last learned position; set train.length=62 or less, or, in a new "
         "model, position.max-length=66"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ll_recipe *r = NULL;
        CHECK_OK(ll_recipe_create(&r));
        int last = 0;
        while (last < 4 && cases[i].set[last + 1]) last++;
        for (int j = 0; j <= last; j++) {
            CHECK_OK(ll_recipe_set(r, cases[i].set[j]));
            if (j < last) CHECK_OK(ll_config_check(&r->c));
        }
        CHECK_FAILS(ll_config_check(&r->c), LL_EINVAL, cases[i].word);
        ll_recipe_free(r);
    }
}

static void test_checks_of_images(void **state) {
    (void)state;
    ll_recipe *r = NULL;
    CHECK_OK(ll_recipe_parse(&r, "[model]\ntask = classify\n[attention]\nkernel = relu\n[position]\ntype = permute2d\n",
                             "test.ini"));
    CHECK_FAILS(ll_config_check(&r->c), LL_EINVAL, "position.width and position.height");
    CHECK_OK(ll_recipe_set(r, "position.width=28"));
    CHECK_OK(ll_recipe_set(r, "position.height=28"));
    CHECK_OK(ll_config_check(&r->c));
    CHECK_OK(ll_recipe_set(r, "model.head-size=9"));
    CHECK_FAILS(ll_config_check(&r->c), LL_EINVAL, "9 is odd");
    CHECK_OK(ll_recipe_set(r, "attention.query-multiple=2"));
    CHECK_OK(ll_config_check(&r->c));
    CHECK_OK(ll_recipe_set(r, "attention.kernel=favor"));
    CHECK_OK(ll_config_check(&r->c));
    CHECK_OK(ll_recipe_set(r, "attention.num-features=101"));
    CHECK_FAILS(ll_config_check(&r->c), LL_EINVAL, "101 is odd");
    char most[40];
    snprintf(most, sizeof most, "train.length=%d", LL_LENGTH_MOST);
    CHECK_OK(ll_recipe_set(r, most));
    snprintf(most, sizeof most, "train.length=%d", LL_LENGTH_MOST + 1);
    CHECK_FAILS(ll_recipe_set(r, most), LL_EINVAL, "");
    ll_recipe_free(r);
}

/* Choice n of a key is row n of the table of mechanisms, and both have the same length. */
static void check_names(const char *key, const ll_mechanism *(*at)(int)) {
    const ll_recipe_key *k = NULL;
    for (int i = 0; (k = ll_recipe_key_at(i)) && strcmp(k->name, key);) i++;
    assert_non_null(k);
    char text[400];
    snprintf(text, sizeof text, "%s", k->choices);
    int n = 0;
    for (char *rest = text, *word; (word = strtok_r(rest, "|", &rest)); n++) {
        if (!at(n) || !at(n)->name) fail_msg("%s has %s, the table no row %d", key, word, n);
        assert_string_equal(at(n)->name, word);
        assert_true(*at(n)->what && *at(n)->cost && (at(n)->causal || at(n)->whole));
    }
    assert_null(at(n));
    assert_null(at(-1));
}

static void test_mechanisms(void **state) {
    (void)state;
    check_names("attention.kernel", ll_kernel_at);
    check_names("position.type", ll_position_at);
    CHECK_OK(ll_pair_legal("relu", "permute", 1));
    CHECK_FAILS(ll_pair_legal("relu", "permutation", 1), LL_EINVAL, "no position.type");
    CHECK_FAILS(ll_pair_legal("linear", "permute", 1), LL_EINVAL, "no attention.kernel");
    CHECK_FAILS(ll_pair_legal("softmax", "rope-linear", 0), LL_EINVAL, "features");
    CHECK_FAILS(ll_pair_legal("relu", "permute2d", 1), LL_EINVAL, "earlier tokens");
    CHECK_OK(ll_pair_legal("relu", "permute2d", 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_text),
        cmocka_unit_test(test_checks),
        cmocka_unit_test(test_checks_of_images),
        cmocka_unit_test(test_mechanisms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
