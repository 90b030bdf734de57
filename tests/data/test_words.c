/* Words: the list of words of a text, text to tokens and back, readers with their own list or a model's, losses by
 * word. */
#include "inputs.h"

#include "base/read_progress.h"
#include "data/text/words.h"
#include "train/train_internal.h"

static const char text[] = "the cat and the dog\n \n the <unk> cat sat\tthere\n";

static ll_bytes list_of(const char *of, int64_t least, int most) {
    ll_bytes list = {0};
    CHECK_OK(ll_words_list(&list, &(ll_bytes){(uint8_t *)of, strlen(of)}, least, most, LL_WORDS_TOGETHER));
    return list;
}

static void expect_list(const char *of, int64_t least, int most, const char *expected) {
    ll_bytes list = list_of(of, least, most);
    assert_int_equal(list.size, strlen(expected));
    assert_memory_equal(list.data, expected, list.size);
    ll_bytes_free(&list);
}

static void lists_are_by_frequency(void **state) {
    (void)state;
    expect_list(text, 1, 0, "<unk>\n<eos>\nthe\ncat\nand\ndog\nsat\nthere\n");
    expect_list(text, 2, 0, "<unk>\n<eos>\nthe\ncat\n");
    expect_list(text, 1, 5, "<unk>\n<eos>\nthe\ncat\nand\n");
    expect_list(text, 1, 2, "<unk>\n<eos>\n");
    expect_list("", 1, 0, "<unk>\n<eos>\n");
    expect_list("a ab b a.", 1, 0, "<unk>\n<eos>\na\na.\nab\nb\n");
    ll_bytes list = {0};
    CHECK_FAILS(ll_words_list(&list, &(ll_bytes){(uint8_t *)"a", 1}, 1, 1, LL_WORDS_TOGETHER), LL_EINVAL,
                "data.vocab-size = 1 has no room");
}

static void text_to_tokens_and_back(void **state) {
    (void)state;
    static const int expected[] = {2, 3, 4, 2, 5, 1, 1, 2, 0, 3, 6, 7, 1};
    ll_bytes list = list_of(text, 1, 0);
    ll_words *words = NULL;
    int32_t *tokens = NULL;
    int64_t n = 0;
    char back[200] = "";
    CHECK_OK(ll_words_create(&words, &list, "list"));
    assert_int_equal(ll_words_count(words), 8);
    CHECK_OK(ll_words_encode(words, (const uint8_t *)text, sizeof text - 1, &tokens, &n));
    assert_int_equal(n, 13);
    assert_int_equal(ll_count_words(&(ll_bytes){(uint8_t *)text, sizeof text - 1}), 13);
    for (int i = 0; i < 13; i++) {
        size_t size = 0;
        assert_int_equal(tokens[i], expected[i]);
        const char *word = ll_words_text(words, tokens[i], &size);
        strncat(back, word, size);
    }
    assert_string_equal(back, "the cat and the dog \n\nthe <unk> cat sat there \n");
    ll_free(tokens);
    CHECK_OK(ll_words_encode(words, (const uint8_t *)"a Cat", 5, &tokens,
                             &n)); /* unknown words; a text's end is no end of a line */
    assert_true(n == 2 && tokens[0] == 0 && tokens[1] == 0);
    ll_free(tokens);
    ll_words_free(words);
    ll_bytes_free(&list);
}

/* A zero byte stands between the files of a folder. It parts words, as a blank does. */
static void files_do_not_share_a_word(void **state) {
    (void)state;
    static const char joined[] = "the cat\0dog\n\0the end";
    ll_bytes list = list_of("the cat dog end", 1, 0);
    ll_words *words = NULL;
    int32_t *tokens = NULL;
    int64_t n = 0;
    CHECK_OK(ll_words_create(&words, &list, "list"));
    CHECK_OK(ll_words_encode(words, (const uint8_t *)joined, sizeof joined - 1, &tokens, &n));
    assert_int_equal(n, 6);
    for (int i = 0; i < 6; i++) assert_int_equal(tokens[i], ((const int[]){5, 2, 3, 1, 5, 4})[i]);
    ll_free(tokens);
    ll_words_free(words);
    ll_bytes_free(&list);
}

/* So many words that the table grows. Each is found again. */
static void large_lists(void **state) {
    (void)state;
    enum { MANY = 5000 };
    static char of[MANY * 8];
    size_t n = 0;
    for (int i = 0; i < MANY; i++) n += (size_t)snprintf(of + n, 8, "w%d ", i);
    ll_bytes list = list_of(of, 1, 0);
    ll_words *words = NULL;
    int32_t *tokens = NULL;
    int64_t count = 0;
    static int seen[MANY + 2];
    CHECK_OK(ll_words_create(&words, &list, "list"));
    assert_int_equal(ll_words_count(words), MANY + 2);
    CHECK_OK(ll_words_encode(words, (const uint8_t *)of, n, &tokens, &count));
    assert_int_equal(count, MANY);
    for (int i = 0; i < MANY; i++) {
        char word[16];
        size_t size = 0;
        assert_true(tokens[i] >= 2 && !seen[tokens[i]]++);
        snprintf(word, sizeof word, "w%d ", i);
        const char *got = ll_words_text(words, tokens[i], &size);
        assert_true(size == strlen(word) && !memcmp(got, word, size));
    }
    ll_free(tokens);
    ll_words_free(words);
    ll_bytes_free(&list);
}

/* One word more than the million tokens that there can be. */
static void too_many_words_are_refused(void **state) {
    (void)state;
    enum { MANY = 999999, SIZE = 5 };
    char *of = malloc(MANY * SIZE);
    ll_bytes list = {0};
    assert_non_null(of);
    for (int i = 0; i < MANY; i++)
        for (int k = 0; k < SIZE; k++) of[i * SIZE + k] = (char)(k == SIZE - 1 ? ' ' : '0' + (i >> (15 - 5 * k)) % 32);
    CHECK_FAILS(ll_words_list(&list, &(ll_bytes){(uint8_t *)of, MANY * SIZE}, 1, 0, LL_WORDS_TOGETHER), LL_EINVAL,
                "more than 999998 different words");
    assert_null(list.data);
    free(of);
}

static void damaged_lists_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *list, *word;
    } cases[] = {
        {"", "line 1 of the vocabulary is missing"},  {"<unk>\n", "line 2 of the vocabulary is missing"},
        {"<eos>\n<unk>\n", "must be <unk>"},          {"<unk>\nfoo\n", "must be <eos>"},
        {"<unk>\n<eos>\na\n\nb\n", "line 4"},         {"<unk>\n<eos>\na b\n", "holds a blank"},
        {"<unk>\n<eos>\na\nb\na\n", "line 5 of the"}, {"<unk>\n<eos>\n<eos>\n", "was there before"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char copy[64];
        ll_words *words = NULL;
        strcpy(copy, cases[i].list);
        const ll_bytes list = {(uint8_t *)copy, strlen(copy)};
        CHECK_FAILS(ll_words_create(&words, &list, "NAME"), LL_EFORMAT, cases[i].word);
        assert_null(words);
    }
}

/* ---- Readers ---- */

static ll_config config(const char *name) {
    return (ll_config){.model.task = LL_TASK_LM,
                       .train.batch = 1,
                       .train.length = 4,
                       .data.format = LL_DATA_WORDS,
                       .data.train = kept(name),
                       .data.min_count = 1};
}

static void write_at(const char *path, long at, const char *bytes) {
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    assert_true(!fseek(file, at, SEEK_SET) && fputs(bytes, file) >= 0 && !fclose(file));
}

/* Puts a blank into the first word, which has been counted. */
static void change(const char *name, int64_t done, int64_t total, void *path) {
    (void)name, (void)total;
    if (done) write_at(path, 1, " ");
}

/* A large text is mapped, so that another program can change it meanwhile. */
static void a_text_that_changes_is_named(void **state) {
    (void)state;
    ll_config c = config(put("large.txt", "first", 5));
    write_at(c.data.train, 64 << 20, "last");
    ll_read_progress_watch(change, c.data.train);
    CHECK_FAILS(refused(&c, "train"), LL_EFORMAT, "large.txt: line 3 of the vocabulary holds a blank; the file");
    ll_read_progress_watch(NULL, NULL);
}

static void a_reader_makes_its_list_from_train(void **state) {
    (void)state;
    ll_config c = config(put("train.txt", text, sizeof text - 1));
    c.data.test = kept(put("test.txt", "the mouse sat\n", 14));
    ll_reader *r = opened(&c, "test"), *train = opened(&c, "train");
    ll_batch b;
    double words, bytes;
    CHECK_OK(ll_batch_create(&b, &c));
    assert_int_equal(ll_reader_vocab(r), 8);
    assert_int_equal(ll_reader_size(r), 4);
    ll_reader_units(r, &words, &bytes);
    assert_true(words == 1 && bytes == 14.0 / 4);
    ll_reader_eval_batch(r, &b, 0);
    assert_int_equal(b.lengths[0], 3);
    assert_true(b.tokens[0] == 2 && b.tokens[1] == 0 && b.tokens[2] == 6);
    assert_true(b.targets[0] == 0 && b.targets[1] == 6 && b.targets[2] == 1);
    ll_reader_free(r);
    /* The list of a model is kept, and the training text is not needed. */
    c.data.train = kept("/does/not/exist");
    CHECK_OK(ll_reader_open_as(&r, &c, "test", ll_reader_vocabulary(train)));
    assert_int_equal(ll_reader_vocab(r), 8);
    assert_int_equal(ll_reader_vocabulary(r)->size, ll_reader_vocabulary(train)->size);
    ll_reader_free(r);
    CHECK_FAILS(refused(&c, "test"), LL_EIO, "/does/not/exist");
    ll_reader_free(train);
    ll_batch_free(&b);
}

/* Words that occur only in held-out text are not in the list. */
static void held_out_text_is_unknown(void **state) {
    (void)state;
    ll_config c = config(put("train.txt", "a a a a a a a a a a b b ", 24));
    c.data.valid_fraction = 4.0 / 24;
    ll_reader *r = opened(&c, "valid");
    ll_batch b;
    CHECK_OK(ll_batch_create(&b, &c));
    assert_int_equal(ll_reader_vocab(r), 3);
    ll_reader_eval_batch(r, &b, 0);
    assert_true(b.tokens[0] == 0 && b.targets[0] == 0 && b.lengths[0] == 1);
    ll_batch_free(&b);
    ll_reader_free(r);
    c.train.length = 20;
    CHECK_FAILS(refused(&c, "train"), LL_EINVAL, "10 tokens to train on");
}

/* ---- A model keeps its words ---- */

static void a_model_brings_its_words_along(void **state) {
    (void)state;
    const char *keys[] = {"model.vocab=0", "model.layers=1", "model.width=8", "model.heads=1",    "model.ff=8",
                          "train.steps=2", "train.length=4", "train.batch=2", "data.format=words"};
    ll_recipe *recipe = NULL;
    ll_trainer *trainer = NULL;
    ll_model *model = NULL;
    ll_tokenizer *tokenizer = NULL;
    ll_evaluation e = {.struct_size = sizeof e};
    char key[200], file[200];
    int *tokens = NULL;
    size_t n = 0;
    CHECK_OK(ll_recipe_create(&recipe));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) CHECK_OK(ll_recipe_set(recipe, keys[i]));
    snprintf(key, sizeof key, "data.train=%s", put("train.txt", text, sizeof text - 1));
    CHECK_OK(ll_recipe_set(recipe, key));
    snprintf(key, sizeof key, "data.valid=%s", put("valid.txt", text, sizeof text - 1));
    CHECK_OK(ll_recipe_set(recipe, key));
    CHECK_OK(ll_trainer_create(&trainer, recipe, at("run"), NULL));
    CHECK_OK(ll_trainer_run(trainer, NULL, NULL));
    ll_trainer_free(trainer);
    CHECK_OK(ll_trainer_create(&trainer, NULL, at("run"), at("run")));
    ll_trainer_free(trainer);
    assert_int_equal(unlink(at("train.txt")), 0);
    snprintf(file, sizeof file, "%s", at("run/best.safetensors"));
    CHECK_OK(ll_model_load(&model, file));
    assert_string_equal(ll_recipe_get(ll_model_recipe(model), "model.vocab"), "8");
    CHECK_OK(ll_evaluate(model, "valid", 0, &e));
    assert_true(fabs(e.bits_per_word - e.bits_per_token) < 1e-12);
    assert_true(fabs(e.bits_per_byte - e.bits_per_token * 13 / (sizeof text - 1)) < 1e-9);
    CHECK_OK(ll_tokenizer_create(&tokenizer, model));
    assert_int_equal(ll_tokenizer_vocab(tokenizer), 8);
    CHECK_OK(ll_tokenizer_encode(tokenizer, "dog cat\n", 8, &tokens, &n));
    assert_true(n == 3 && tokens[0] == 5 && tokens[1] == 3 && tokens[2] == 1);
    assert_memory_equal(ll_tokenizer_text(tokenizer, 5, &n), "dog ", 4);
    ll_text_free(tokens);
    ll_tokenizer_free(tokenizer);
    ll_bytes_free(&model->vocabulary);
    CHECK_FAILS(ll_tokenizer_create(&tokenizer, model), LL_EFORMAT, "vocabulary is missing");
    ll_model_free(model);
    ll_recipe_free(recipe);
}

static void real_words_are_counted(void **state) {
    (void)state;
    ll_config c = {.model.task = LL_TASK_LM,
                   .train.batch = 1,
                   .train.length = 512,
                   .data.format = LL_DATA_WORDS,
                   .data.min_count = 1};
    c.data.train = shared("wikitext-2/train.txt.xz");
    c.data.valid = shared("wikitext-2/valid.txt.xz");
    ll_reader *train = opened(&c, "train"), *valid = NULL;
    CHECK_OK(ll_reader_open_as(&valid, &c, "valid", ll_reader_vocabulary(train)));
    assert_int_equal(ll_reader_vocab(train), 33278);
    assert_int_equal(ll_reader_size(train), 2088628);
    assert_int_equal(ll_reader_size(valid), 217646);
    ll_reader_free(train);
    ll_reader_free(valid);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_are_by_frequency),
        cmocka_unit_test(text_to_tokens_and_back),
        cmocka_unit_test(files_do_not_share_a_word),
        cmocka_unit_test(large_lists),
        cmocka_unit_test(too_many_words_are_refused),
        cmocka_unit_test(damaged_lists_are_refused),
        cmocka_unit_test(a_text_that_changes_is_named),
        cmocka_unit_test(a_reader_makes_its_list_from_train),
        cmocka_unit_test(held_out_text_is_unknown),
        cmocka_unit_test(a_model_brings_its_words_along),
        cmocka_unit_test(real_words_are_counted),
    };
    return cmocka_run_group_tests_name("words", tests, make_folder, remove_folder);
}
