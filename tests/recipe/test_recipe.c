/* Recipes: the table of keys, recipes to INI text and back, files. */
#include "test.h"

#include <glob.h>
#include <limits.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/text.h"
#include "recipe/recipe_key.h"

static ll_recipe *parse(const char *text) {
    ll_recipe *r = NULL;
    CHECK_OK(ll_recipe_parse(&r, text, "test.ini"));
    return r;
}

static const char *field(const ll_config *c, int i) {
    return (const char *)ll_config_part(c, i) + ll_key_at(i)->offset;
}

static void expect_equal(const ll_recipe *a, const ll_recipe *b) {
    const ll_recipe_key *k;
    for (int i = 0; (k = ll_recipe_key_at(i)); i++) {
        const ll_key *key = ll_key_at(i);
        assert_string_equal(ll_recipe_get(a, k->name), ll_recipe_get(b, k->name));
        if (key->type == LL_KEY_NUMBER) /* to the last bit */
            assert_memory_equal(field(&a->c, i), field(&b->c, i), sizeof(double));
    }
}

static void expect_round_trip(const ll_recipe *r) {
    char *text = NULL, *again = NULL;
    CHECK_OK(ll_recipe_text(r, &text));
    ll_recipe *back = parse(text);
    expect_equal(r, back);
    CHECK_OK(ll_recipe_text(back, &again));
    assert_string_equal(text, again);
    ll_text_free(text);
    ll_text_free(again);
    ll_recipe_free(back);
}

static ll_status set(ll_recipe *r, const char *key, const char *value) {
    char *text = malloc(strlen(key) + 2 * strlen(value) + 4), *p = text + sprintf(text, "%s=\"", key);
    for (; *value; value++) {
        if (*value == '"') *p++ = '"';
        *p++ = *value;
    }
    memcpy(p, "\"", 2);
    const ll_status status = ll_recipe_set(r, text);
    free(text);
    return status;
}

/* ---- The table ---- */

static void test_defaults(void **state) {
    (void)state;
    ll_recipe *r = NULL;
    const ll_recipe_key *k;
    CHECK_OK(ll_recipe_create(&r));
    for (int i = 0; (k = ll_recipe_key_at(i)); i++) {
        /* As it is printed, because reports and digests find by the text which keys are not at their default. */
        assert_string_equal(ll_recipe_get(r, k->name), k->fallback);
        assert_non_null(strchr(k->name, '.'));
        assert_true(strlen(k->help) > 10);
        assert_int_equal(!strcmp(k->type, "choice") || !strcmp(k->type, "flag"), k->choices != NULL);
    }
    assert_null(ll_recipe_key_at(-1));
    assert_null(ll_recipe_key_at(ll_key_count()));
    CHECK_OK(ll_config_check(&r->c));
    expect_round_trip(r);
    ll_recipe_free(r);
    ll_recipe_free(NULL);
}

static size_t size_of(const ll_key *k) {
    return k->type == LL_KEY_INT64    ? sizeof(int64_t)
           : k->type == LL_KEY_NUMBER ? sizeof(double)
           : k->type == LL_KEY_TEXT   ? sizeof(char *)
                                      : sizeof(int);
}

/* Each byte of the struct belongs to one key, except for 4 bytes of padding in front of a double. */
static void test_every_field_has_one_key(void **state) {
    (void)state;
    unsigned char owner[sizeof(ll_config)] = {0};
    size_t free_bytes = 0;
    const ll_config c = {0};
    for (int i = 0; i < ll_key_count(); i++)
        for (size_t j = 0; j < size_of(ll_key_at(i)); j++) {
            const size_t byte = (size_t)(field(&c, i) - (const char *)&c) + j;
            if (owner[byte]++) fail_msg("%s shares its field", ll_key_at(i)->about.name);
        }
    for (size_t i = 0; i < sizeof owner; i++) free_bytes += !owner[i];
    assert_in_range(free_bytes, 0, 32);
    for (int i = 0; i < ll_key_count(); i++)
        for (int j = 0; j < i; j++) assert_string_not_equal(ll_key_at(i)->about.name, ll_key_at(j)->about.name);
}

/* The words of a choice are in the order of the enum. */
static void test_choices_are_the_enums(void **state) {
    (void)state;
    ll_recipe *r = NULL;
    CHECK_OK(ll_recipe_create(&r));
#define EXPECT(assignment, field, value)                                                                               \
    do {                                                                                                               \
        CHECK_OK(ll_recipe_set(r, assignment));                                                                        \
        assert_int_equal(r->c.field, value);                                                                           \
    } while (0)
    EXPECT("model.task=lm", model.task, LL_TASK_LM);
    EXPECT("model.task=classify", model.task, LL_TASK_CLASSIFY);
    EXPECT("model.norm=pre", model.norm, LL_NORM_PRE);
    EXPECT("model.norm=post", model.norm, LL_NORM_POST);
    EXPECT("model.norm=parallel", model.norm, LL_NORM_PARALLEL);
    EXPECT("model.norm-kind=layer", model.norm_kind, LL_NORM_LAYER);
    EXPECT("model.norm-kind=rms", model.norm_kind, LL_NORM_RMS);
    EXPECT("model.bias=feed", model.bias, LL_BIAS_FEED);
    EXPECT("model.bias=none", model.bias, LL_BIAS_NONE);
    EXPECT("model.bias=qkv", model.bias, LL_BIAS_QKV);
    EXPECT("model.bias=all", model.bias, LL_BIAS_ALL);
    EXPECT("model.activation=gelu-tanh", model.activation, LL_ACT_GELU_TANH);
    EXPECT("model.activation=silu", model.activation, LL_ACT_SILU);
    EXPECT("model.activation=swiglu", model.activation, LL_ACT_SWIGLU);
    EXPECT("model.activation=gelu", model.activation, LL_ACT_GELU);
    EXPECT("model.activation=relu", model.activation, LL_ACT_RELU);
    EXPECT("model.pool=mean", model.pool, LL_POOL_MEAN);
    EXPECT("model.pool=first", model.pool, LL_POOL_FIRST);
    EXPECT("attention.kernel=softmax", attention.kernel, LL_KERNEL_SOFTMAX);
    EXPECT("attention.kernel=favor", attention.kernel, LL_KERNEL_FAVOR);
    EXPECT("attention.kernel=relu", attention.kernel, LL_KERNEL_RELU);
    EXPECT("attention.kernel=square", attention.kernel, LL_KERNEL_SQUARE);
    EXPECT("attention.features=positive", attention.features, LL_FEATURES_POSITIVE);
    EXPECT("attention.features=hyperbolic", attention.features, LL_FEATURES_HYPERBOLIC);
    EXPECT("attention.features=trigonometric", attention.features, LL_FEATURES_TRIGONOMETRIC);
    EXPECT("attention.features=gaussian", attention.features, LL_FEATURES_GAUSSIAN);
    EXPECT("attention.projection=auto", attention.projection, LL_PROJ_AUTO);
    EXPECT("attention.projection=none", attention.projection, LL_PROJ_NONE);
    EXPECT("attention.projection=orthogonal", attention.projection, LL_PROJ_ORTHOGONAL);
    EXPECT("attention.projection=iid", attention.projection, LL_PROJ_IID);
    EXPECT("attention.projection=hadamard", attention.projection, LL_PROJ_HADAMARD);
    EXPECT("attention.projection=givens", attention.projection, LL_PROJ_GIVENS);
    EXPECT("attention.row-norms=chi", attention.row_norms, LL_ROWS_CHI);
    EXPECT("attention.row-norms=sqrt-d", attention.row_norms, LL_ROWS_SQRT_D);
    EXPECT("position.type=none", position.type, LL_POSITION_NONE);
    EXPECT("position.type=sinusoidal", position.type, LL_POSITION_SINUSOIDAL);
    EXPECT("position.type=learned", position.type, LL_POSITION_LEARNED);
    EXPECT("position.type=permute", position.type, LL_POSITION_PERMUTE);
    EXPECT("position.type=permute2d", position.type, LL_POSITION_PERMUTE2D);
    EXPECT("position.cycles=random", position.cycles, LL_CYCLES_RANDOM);
    EXPECT("position.cycles=long", position.cycles, LL_CYCLES_LONG);
    EXPECT("position.decay=none", position.decay, LL_DECAY_NONE);
    EXPECT("position.decay=fixed", position.decay, LL_DECAY_FIXED);
    EXPECT("train.optimizer=adam", train.optimizer, LL_OPT_ADAM);
    EXPECT("train.optimizer=adamw", train.optimizer, LL_OPT_ADAMW);
    EXPECT("train.schedule=constant", train.schedule, LL_LR_CONSTANT);
    EXPECT("train.schedule=linear", train.schedule, LL_LR_LINEAR);
    EXPECT("train.schedule=inverse-sqrt", train.schedule, LL_LR_INVERSE_SQRT);
    EXPECT("train.schedule=cosine", train.schedule, LL_LR_COSINE);
    EXPECT("data.format=bytes", data.format, LL_DATA_BYTES);
    EXPECT("data.format=idx", data.format, LL_DATA_IDX);
    EXPECT("data.format=demo", data.format, LL_DATA_DEMO);
    EXPECT("model.final-norm=off", model.final_norm, 0);
    EXPECT("model.final-norm=yes", model.final_norm, 1);
    EXPECT("train.seed=9223372036854775807", train.seed, INT64_MAX);
#undef EXPECT
    ll_recipe_free(r);
}

/* ---- Text there and back ---- */

/* A value of the key, determined by `draw`. */
static void random_value(char *out, const ll_key *k, uint64_t draw) {
    static const char *const texts[] = {"",      "a b.txt", "x #1",   "#1",     " lead",     "trail ",
                                        "\"q\"", "a\"b",    "a;b ;c", "k = v",  "[section]", "\xc3\xa9t\xc3\xa9.gz",
                                        "\"",    "\"\"",    "a\\b",   "-1e999", "=",         "\" # \""};
    const double u = (double)ll_uniform(11, 3, draw), v = k->lo + u * (k->hi - k->lo);
    const uint32_t n = ll_below(1000, 12, 3, draw);
    switch (k->type) {
    case LL_KEY_INT:
    case LL_KEY_INT64: sprintf(out, "%lld", (long long)fmin(n % 2 ? v : k->lo + n % 50, k->hi)); break;
    case LL_KEY_NUMBER:
        ll_format_text(out, LL_NUMBER_TEXT, "%.17g", n % 2 ? v : k->lo + (k->hi - k->lo) * pow(u, 20));
        break;
    case LL_KEY_FLAG: strcpy(out, n % 2 ? "on" : "off"); break;
    case LL_KEY_TEXT: strcpy(out, texts[n % (sizeof texts / sizeof *texts)]); break;
    case LL_KEY_CHOICE: {
        char words[200];
        strcpy(words, k->about.choices);
        uint32_t count = 1;
        for (const char *p = words; *p; p++) count += *p == '|';
        char *word = strtok(words, "|");
        for (uint32_t i = n % count; i > 0; i--) word = strtok(NULL, "|");
        strcpy(out, word);
    }
    }
}

static void test_text_reads_back(void **state) {
    (void)state;
    char value[256];
    for (uint64_t trial = 0; trial < 300; trial++) {
        ll_recipe *r = NULL;
        CHECK_OK(ll_recipe_create(&r));
        for (int i = 0; i < ll_key_count(); i++) {
            random_value(value, ll_key_at(i), trial * 1000 + (uint64_t)i);
            CHECK_OK(set(r, ll_key_at(i)->about.name, value));
            if (ll_key_at(i)->type == LL_KEY_TEXT)
                assert_string_equal(ll_recipe_get(r, ll_key_at(i)->about.name), value);
        }
        expect_round_trip(r);
        ll_recipe *copy = NULL;
        CHECK_OK(ll_recipe_copy(&copy, r));
        ll_recipe_free(r);
        expect_round_trip(copy); /* shares nothing with the freed one */
        ll_recipe_free(copy);
    }
}

static void test_long_paths(void **state) {
    (void)state;
    ll_recipe *r = NULL;
    char path[4000];
    memset(path, 'x', sizeof path);
    path[sizeof path - 1] = 0;
    CHECK_OK(ll_recipe_create(&r));
    CHECK_OK(set(r, "data.train", path));
    assert_string_equal(r->c.data.train, path);
    expect_round_trip(r);
    ll_recipe_free(r);
}

static void test_what_ini_may_look_like(void **state) {
    (void)state;
    ll_recipe *r = parse("\xef\xbb\xbf# a comment\r\n; another\r\n\r\n"
                         "  [ model ]  # sizes\r\n"
                         "layers=3\r\n"
                         "\t width = 64   ; of a token\n"
                         "   heads = 4\n"
                         "[data] ; files\n"
                         "train = dir/a#b;c.txt # this is a comment\n"
                         "valid = \"with # and \"\"quotes\"\"\" # this too\n"
                         "test =\n"
                         "[attention]\n"
                         "[model]\n"
                         "ff = 128");
    assert_int_equal(r->c.model.layers, 3);
    assert_int_equal(r->c.model.width, 64);
    assert_int_equal(r->c.model.heads, 4);
    assert_int_equal(r->c.model.ff, 128);
    assert_string_equal(r->c.data.train, "dir/a#b;c.txt");
    assert_string_equal(r->c.data.valid, "with # and \"quotes\"");
    assert_string_equal(r->c.data.test, "");
    ll_recipe_free(r);
    r = parse("");
    ll_recipe_free(r);
}

/* A value that get returned stays valid until that key is set again. */
static void test_values_stay(void **state) {
    (void)state;
    ll_recipe *r = parse("[model]\nwidth = 64\n[data]\ntrain = a\n");
    const char *width = ll_recipe_get(r, "model.width"), *train = ll_recipe_get(r, "data.train");
    for (int i = 0; i < ll_key_count(); i++) assert_non_null(ll_recipe_get(r, ll_key_at(i)->about.name));
    CHECK_OK(ll_recipe_set(r, "model.heads=4"));
    assert_string_equal(width, "64");
    assert_string_equal(train, "a");
    assert_null(ll_recipe_get(r, "model.none"));
    assert_null(ll_recipe_get(r, ""));
    ll_recipe_free(r);
}

static void test_a_refused_value_changes_nothing(void **state) {
    (void)state;
    ll_recipe *r = parse("[model]\nwidth = 64\n[data]\ntrain = a\n"), *before = NULL;
    CHECK_OK(ll_recipe_copy(&before, r));
    CHECK_FAILS(ll_recipe_set(r, "model.width=0"), LL_EINVAL, "model.width");
    CHECK_FAILS(ll_recipe_set(r, "model.norm=x"), LL_EINVAL, "pre|post");
    CHECK_FAILS(ll_recipe_set(r, "data.train=\n"
                                 "x\ny"),
                LL_EINVAL, "data.train");
    CHECK_FAILS(ll_recipe_set(r, "data.train=\"x"), LL_EINVAL, "quotes");
    CHECK_FAILS(ll_recipe_set(r, "position.typo=none"), LL_EINVAL, "nearest is position.type");
    CHECK_FAILS(ll_recipe_set(r, "position.type"), LL_EINVAL, "section.key=value");
    CHECK_FAILS(ll_recipe_set(r, "=3"), LL_EINVAL, "no key");
    CHECK_FAILS(ll_recipe_set(r, ""), LL_EINVAL, "sets nothing");
    expect_equal(r, before);
    CHECK_OK(ll_recipe_set(r, " data.train = x #1 ")); /* no comments on the command line */
    assert_string_equal(r->c.data.train, "x #1");
    ll_recipe_free(r);
    ll_recipe_free(before);
}

/* ---- Files ---- */

static void test_files(void **state) {
    (void)state;
    char path[] = "/tmp/ll-recipe-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    ll_recipe *r = NULL;
    CHECK_OK(ll_file_write(path, "[model]\nlayers = 2\n", 19));
    CHECK_OK(ll_recipe_load(&r, path));
    assert_int_equal(r->c.model.layers, 2);
    ll_recipe_free(r);
    r = NULL;
    CHECK_OK(ll_file_write(path, "[model]\nlayer = 2\n", 18));
    CHECK_FAILS(ll_recipe_load(&r, path), LL_EINVAL, path);
    CHECK_FAILS(ll_recipe_load(&r, path), LL_EINVAL, ":2: ");
    CHECK_OK(ll_file_write(path, "[model]\n\0 = 2\n", 14));
    CHECK_FAILS(ll_recipe_load(&r, path), LL_EFORMAT, "not text");
    char *big = calloc(1, (1 << 20) + 1);
    memset(big, '#', 1 << 20);
    CHECK_OK(ll_file_write(path, big, 1 << 20));
    CHECK_OK(ll_recipe_load(&r, path));
    ll_recipe_free(r);
    r = NULL;
    CHECK_OK(ll_file_write(path, big, (1 << 20) + 1));
    CHECK_FAILS(ll_recipe_load(&r, path), LL_EFORMAT, path);
    free(big);
    unlink(path);
    CHECK_FAILS(ll_recipe_load(&r, path), LL_EIO, path);
    assert_null(r);
}

/* The recipes of the project, if the test runs in its root. */
static void test_own_recipes_load(void **state) {
    (void)state;
    glob_t found;
    if (glob("recipes/*.ini", 0, NULL, &found)) return;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        ll_recipe *r = NULL;
        CHECK_OK(ll_recipe_load(&r, found.gl_pathv[i]));
        expect_round_trip(r);
        ll_recipe_free(r);
    }
    globfree(&found);
}

static void test_no_text(void **state) {
    (void)state;
    ll_recipe *r = NULL;
    CHECK_FAILS(ll_recipe_parse(&r, NULL, "test.ini"), LL_EINVAL, "no text");
    CHECK_FAILS(ll_recipe_load(&r, NULL), LL_EINVAL, "no path");
    CHECK_FAILS(ll_recipe_parse(&r, "[model]\nfoo = 1", NULL), LL_EINVAL, "recipe:2: ");
}

/* ---- Memory refused at every place ---- */

static ll_status use_everything(void) {
    ll_recipe *r = NULL, *copy = NULL;
    char *text = NULL;
    ll_status status = ll_recipe_parse(&r, "[data]\ntrain = a\n", "test.ini");
    if (!status) status = ll_recipe_set(r, "data.valid=b");
    if (!status) status = ll_recipe_copy(&copy, r);
    if (!status) status = ll_recipe_text(copy, &text);
    ll_text_free(text);
    ll_recipe_free(copy);
    ll_recipe_free(r);
    return status;
}

static void test_refused_memory_is_survived(void **state) {
    (void)state;
    assert_true(check_refused_memory(use_everything) >= 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_every_field_has_one_key),
        cmocka_unit_test(test_choices_are_the_enums),
        cmocka_unit_test(test_text_reads_back),
        cmocka_unit_test(test_long_paths),
        cmocka_unit_test(test_what_ini_may_look_like),
        cmocka_unit_test(test_values_stay),
        cmocka_unit_test(test_a_refused_value_changes_nothing),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_own_recipes_load),
        cmocka_unit_test(test_no_text),
        cmocka_unit_test(test_refused_memory_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
