/* Readers of text: windows, splits, packed files, folders, the demo's text, and the shuffle of examples. */
#include "inputs.h"

#include <sys/stat.h>

extern const uint8_t ll_demo_begin[], ll_demo_end[];

static uint8_t text[5000]; /* any 4 bytes in a row occur once */

static int make_text(void **state) {
    for (size_t i = 0; i < sizeof text; i++) {
        uint32_t x = (uint32_t)i * 2654435761u;
        x ^= x >> 15;
        text[i] = (uint8_t)((x * 2246822519u) >> 24);
    }
    return make_folder(state);
}

static ll_config config(char *train) {
    return (ll_config){.model.task = LL_TASK_LM,
                       .train.batch = 3,
                       .train.length = 8,
                       .data.format = LL_DATA_BYTES,
                       .data.train = train};
}

/* ---- Evaluation and training windows ---- */

/* The counted tokens, in order, are the text without its last byte; the targets are the text without its first. */
static void check_evaluation(const ll_config *c, size_t size) {
    ll_reader *r = opened(c, "train");
    ll_batch b;
    CHECK_OK(ll_batch_create(&b, c));
    size_t next = 0;
    for (int64_t i = 0; i < ll_reader_eval_batches(r); i++) {
        ll_reader_eval_batch(r, &b, i);
        size_t in_batch = 0;
        for (int row = 0; row < b.B; row++) {
            assert_in_range(b.lengths[row], 0, b.T);
            for (int t = 0; t < b.T; t++) {
                const int token = b.tokens[row * b.T + t], target = b.targets[row * b.T + t];
                if (t >= b.lengths[row]) {
                    assert_int_equal(token, 0);
                    assert_int_equal(target, -1);
                    continue;
                }
                assert_int_equal(token, text[next]);
                assert_int_equal(target, text[next + 1]);
                next++, in_batch++;
            }
        }
        assert_true(in_batch > 0);
    }
    assert_int_equal(next, size - 1);
    ll_batch_free(&b);
    ll_reader_free(r);
}

static void each_byte_is_predicted_once(void **state) {
    (void)state;
    for (size_t size = 9; size < 80; size++) {
        ll_config c = config(put("text", text, size));
        for (c.train.length = 1; c.train.length <= 8; c.train.length++)
            for (c.train.batch = 1; c.train.batch <= 4; c.train.batch++) check_evaluation(&c, size);
    }
}

static void windows_are_pieces_of_the_text(void **state) {
    (void)state;
    const ll_config c = config(put("text", text, 300));
    ll_reader *r = opened(&c, "train");
    ll_batch b;
    int seen[300] = {0};
    CHECK_OK(ll_batch_create(&b, &c));
    for (int64_t i = 0; i < 2000; i++) {
        ll_reader_batch(r, &b, 1, i);
        for (int row = 0; row < b.B; row++) {
            const int *x = b.tokens + row * b.T, *y = b.targets + row * b.T;
            int at_byte = 0;
            while (at_byte < 292 && !(text[at_byte] == x[0] && text[at_byte + 1] == x[1] && text[at_byte + 2] == x[2] &&
                                      text[at_byte + 3] == x[3]))
                at_byte++;
            assert_true(at_byte < 292);
            for (int t = 0; t < b.T; t++) {
                assert_int_equal(x[t], text[at_byte + t]);
                assert_int_equal(y[t], text[at_byte + t + 1]);
            }
            assert_int_equal(b.lengths[row], b.T);
            seen[at_byte]++;
        }
    }
    /* 6000 draws of 292 positions: 20.5 expected, standard deviation 4.5 */
    for (int i = 0; i < 292; i++) assert_in_range(seen[i], 1, 55);
    ll_batch_free(&b);
    ll_reader_free(r);
    assert_pure(&c);
}

/* ---- Files and folders ---- */

static void packed_files_are_the_same_text(void **state) {
    (void)state;
    const ll_config plain = config(put("same", text, sizeof text));
    const ll_config packed[2] = {config(put_gz("same.one", text, sizeof text)),
                                 config(put_xz("same.two", text, sizeof text))};
    ll_reader *a = opened(&plain, "train");
    assert_int_equal(ll_reader_vocab(a), 256);
    assert_int_equal(ll_reader_classes(a), 0);
    assert_int_equal(ll_reader_size(a), sizeof text);
    int width = 1, height = 1;
    ll_reader_image(a, &width, &height);
    assert_int_equal(width + height, 0);
    for (int i = 0; i < 2; i++) {
        ll_reader *b = opened(&packed[i], "train");
        assert_same_readers(a, b, &plain);
        ll_reader_free(b);
    }
    ll_reader_free(a);
}

/* The text of a reader of bytes, which each window of an evaluation has a part of. To be freed. */
static uint8_t *text_of(const ll_reader *r, const ll_config *c, size_t *size) {
    ll_batch b;
    CHECK_OK(ll_batch_create(&b, c));
    uint8_t *found = test_malloc((size_t)ll_reader_size(r) + 1);
    *size = 0;
    for (int64_t i = 0; i < ll_reader_eval_batches(r); i++) {
        ll_reader_eval_batch(r, &b, i);
        for (int row = 0; row < b.B; row++)
            for (int t = 0; t < b.lengths[row]; t++) {
                const int at = row * b.T + t;
                if (!*size) found[(*size)++] = (uint8_t)b.tokens[at];
                if (b.targets[at] >= 0) found[(*size)++] = (uint8_t)b.targets[at];
            }
    }
    ll_batch_free(&b);
    return found;
}

static void assert_text(const ll_config *c, const char *split, const void *expected, size_t size) {
    ll_reader *r = opened(c, split);
    size_t n = 0;
    uint8_t *found = text_of(r, c, &n);
    assert_int_equal(n, size);
    assert_memory_equal(found, expected, size);
    assert_int_equal(ll_reader_size(r), size);
    test_free(found);
    ll_reader_free(r);
}

static void a_folder_is_its_files_in_order(void **state) {
    (void)state;
    assert_int_equal(mkdir(at("many"), 0700), 0);
    assert_int_equal(mkdir(at("many/sub"), 0700), 0);
    const ll_config c = config(at("many"));
    CHECK_FAILS(refused(&c, "train"), LL_EINVAL, "many: no files");
    put("many/b", "second text", 11);
    put_gz("many/a.gz", "first text", 10);
    put("many/sub/c", "", 0);
    put_xz("many/sub/d", "last", 4);
    put("many/.hidden", "nothing", 7);
    assert_text(&c, "train", "first text\0second text\0\0last", 28);
    assert_memory_can_end(&c, "train");
    put("many/sub/e.gz", "\x1f\x8b\x08 broken", 10);
    CHECK_FAILS(refused(&c, "train"), LL_EFORMAT, "e.gz");
}

static void broken_archives_are_refused(void **state) {
    (void)state;
    char *const packed[2] = {put_gz("whole.gz", text, sizeof text), put_xz("whole.xz", text, sizeof text)};
    for (int i = 0; i < 2; i++) {
        static uint8_t bytes[2 * sizeof text];
        FILE *f = fopen(packed[i], "rb");
        const size_t n = fread(bytes, 1, sizeof bytes, f);
        fclose(f);
        const ll_config cut = config(put("cut", bytes, n - 20));
        CHECK_FAILS(refused(&cut, "train"), LL_EFORMAT, "/cut");
        bytes[n / 2] ^= 16;
        const ll_config flipped = config(put("flipped", bytes, n));
        CHECK_FAILS(refused(&flipped, "train"), LL_EFORMAT, "/flipped");
    }
}

/* ---- Splits ---- */

static void valid_is_cut_from_the_end(void **state) {
    (void)state;
    ll_config c = config(put("text", text, 1000));
    c.data.valid_fraction = 0.1;
    assert_text(&c, "train", text, 900);
    assert_text(&c, "valid", text + 900, 100);
    assert_memory_can_end(&c, "valid");
    c.data.limit = 200; /* the split on which runs are compared is unchanged */
    assert_text(&c, "train", text, 200);
    assert_text(&c, "valid", text + 900, 100);
    c.data.valid = c.data.test = put("other", text + 2000, 50);
    assert_text(&c, "valid", text + 2000, 50);
    assert_text(&c, "test", text + 2000, 50);
    c.data.limit = 0;
    assert_text(&c, "train", text, 1000);
}

static void what_cannot_be_read_is_refused(void **state) {
    (void)state;
    ll_config c = config(put("text", text, 100));
    CHECK_FAILS(refused(&c, "trian"), LL_EINVAL, "\"trian\"");
    CHECK_FAILS(refused(&c, "test"), LL_EINVAL, "data.test is empty");
    CHECK_FAILS(refused(&c, "valid"), LL_EINVAL, "data.valid-fraction is 0");
    c.data.valid_fraction = 0.001;
    CHECK_FAILS(refused(&c, "valid"), LL_EINVAL, "/text: 0 bytes");
    c.data.valid_fraction = 0;
    c.train.length = 100;
    CHECK_FAILS(refused(&c, "train"), LL_EINVAL, "train.length=100 need 101");
    c.train.length = 99;
    CHECK_OK(refused(&c, "train"));
    c.data.limit = 99;
    CHECK_FAILS(refused(&c, "train"), LL_EINVAL, "99 bytes");
    c.data.valid = put("one", "x", 1);
    CHECK_FAILS(refused(&c, "valid"), LL_EINVAL, "/one: 1 bytes");
    c.data.valid = put("none", "", 0);
    CHECK_FAILS(refused(&c, "valid"), LL_EFORMAT, "/none has 0 bytes");
    c.data.valid = at("missing");
    CHECK_FAILS(refused(&c, "valid"), LL_EIO, "/missing");
    CHECK_FAILS(refused(&c, "valid"), LL_EIO, "data.valid: ");
    c.model.task = LL_TASK_CLASSIFY;
    CHECK_FAILS(refused(&c, "train"), LL_EINVAL, "model.task=lm");
    ll_config empty = config(NULL);
    CHECK_FAILS(refused(&empty, "train"), LL_EINVAL, "--set data.train=FILE");
}

/* ---- The demo ---- */

static void the_demo_holds_out_a_tenth(void **state) {
    (void)state;
    ll_config c = {.model.task = LL_TASK_LM, .train.batch = 2, .train.length = 256, .data.format = LL_DATA_DEMO};
    const size_t size = (size_t)(ll_demo_end - ll_demo_begin);
    ll_reader *split[2] = {opened(&c, "train"), opened(&c, "valid")};
    uint8_t *whole[2];
    const uint8_t *part[2];
    size_t left[2];
    for (int i = 0; i < 2; i++) part[i] = whole[i] = text_of(split[i], &c, &left[i]);
    assert_int_equal(left[0] + left[1], size);
    assert_in_range(left[1] * 100 / size, 7, 13);
    /* Every piece of the text occurs next in one of the two splits. */
    for (size_t i = 0; i < size; i += 4096) {
        const size_t n = size - i < 4096 ? size - i : 4096;
        int which = 0;
        while (which < 2 && (left[which] < n || memcmp(part[which], ll_demo_begin + i, n))) which++;
        assert_true(which < 2);
        part[which] += n, left[which] -= n;
    }
    assert_int_equal(left[0] + left[1], 0);
    for (int i = 0; i < 2; i++) test_free(whole[i]), ll_reader_free(split[i]);
    CHECK_FAILS(refused(&c, "test"), LL_EINVAL, "no test split");
    assert_memory_can_end(&c, "train");
    assert_pure(&c);
    c.data.limit = 1000;
    assert_text(&c, "train", ll_demo_begin, 1000);
}

/* ---- The shuffle ---- */

static void the_shuffle_is_a_permutation(void **state) {
    (void)state;
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 16, 17, 64, 65, 1000, 4097, 60000};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const int64_t n = sizes[s];
        char *seen = calloc((size_t)n, 1);
        for (int64_t i = 0; i < n; i++) {
            const int64_t to = ll_shuffle(i, n, 7, 3);
            assert_true(to >= 0 && to < n);
            assert_int_equal(seen[to]++, 0);
        }
        free(seen);
    }
    const int64_t large = ((int64_t)1 << 40) + 12345;
    for (int64_t i = 0; i < 1000; i++) {
        const int64_t to = ll_shuffle(i, large, 7, 3);
        assert_true(to >= 0 && to < large);
        assert_int_equal(to, ll_shuffle(i, large, 7, 3));
    }
}

/* Over many epochs, examples 0 and 1 come equally often to every ordered pair of positions. */
static void the_shuffle_has_no_favourites(void **state) {
    (void)state;
    enum { N = 5, EPOCHS = 20000 };
    int pairs[N][N] = {{0}};
    for (uint32_t epoch = 0; epoch < EPOCHS; epoch++) pairs[ll_shuffle(0, N, 11, epoch)][ll_shuffle(1, N, 11, epoch)]++;
    for (int a = 0; a < N; a++)
        for (int b = 0; b < N; b++) /* 1000 expected, standard deviation 31 */
            assert_in_range(pairs[a][b], a == b ? 0 : 850, a == b ? 0 : 1150);
    /* A random permutation has one fixed point on average. So have two epochs, or two seeds, in common. */
    int fixed = 0, epochs = 0, seeds = 0;
    for (int64_t i = 0; i < 5000; i++) {
        const int64_t to = ll_shuffle(i, 5000, 1, 0);
        fixed += to == i;
        epochs += to == ll_shuffle(i, 5000, 1, 1);
        seeds += to == ll_shuffle(i, 5000, 2, 0);
    }
    assert_in_range(fixed, 0, 9);
    assert_in_range(epochs, 0, 9);
    assert_in_range(seeds, 0, 9);
}

/* ---- Real text ---- */

/* Known sizes: 1,115,394 bytes of Shakespeare, 1,121,681 of WikiText-2's validation part. */
static void real_text_is_read(void **state) {
    (void)state;
    static const struct {
        const char *name, *begin;
        int64_t size;
    } files[] = {{"text/tinyshakespeare.txt", "First Citizen:\nBefore we proceed", 1115394},
                 {"wikitext-2/valid.txt.xz", " \n = Homarus gammarus = \n", 1121681}};
    for (size_t i = 0; i < 2; i++) {
        char *const path = shared(files[i].name);
        ll_config c = config(path);
        c.data.valid_fraction = 0.1;
        ll_reader *train = opened(&c, "train"), *valid = opened(&c, "valid");
        size_t n = 0;
        uint8_t *found = text_of(train, &c, &n);
        assert_memory_equal(found, files[i].begin, strlen(files[i].begin));
        test_free(found);
        assert_int_equal(ll_reader_size(train) + ll_reader_size(valid), files[i].size);
        assert_int_equal(ll_reader_size(valid), (files[i].size + 5) / 10);
        ll_reader_free(train);
        ll_reader_free(valid);
    }
}

/* ---- Recipes ---- */

static void recipes_are_whole(void **state) {
    (void)state;
    static const char *const names[] = {"text-bytes", "fashion-mnist", "mnist"};
    for (size_t i = 0; i < 3; i++) {
        char path[64], train[64] = "";
        ll_recipe *recipe = NULL;
        snprintf(path, sizeof path, "recipes/%s.ini", names[i]);
        if (i) snprintf(train, sizeof train, "data/%s/train-images-idx3-ubyte.gz", names[i]);
        CHECK_OK(ll_recipe_load(&recipe, path));
        assert_string_equal(ll_recipe_get(recipe, "data.train"), train);
        assert_string_equal(ll_recipe_get(recipe, "data.format"), i ? "idx" : "bytes");
        if (i) { /* the trainer takes these sizes from the images */
            CHECK_FAILS(ll_config_check(&recipe->c), LL_EINVAL, "position.width");
            CHECK_OK(ll_recipe_set(recipe, "position.width=28"));
            CHECK_OK(ll_recipe_set(recipe, "position.height=28"));
        }
        CHECK_OK(ll_config_check(&recipe->c));
        ll_recipe_free(recipe);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_byte_is_predicted_once),
        cmocka_unit_test(windows_are_pieces_of_the_text),
        cmocka_unit_test(packed_files_are_the_same_text),
        cmocka_unit_test(a_folder_is_its_files_in_order),
        cmocka_unit_test(broken_archives_are_refused),
        cmocka_unit_test(valid_is_cut_from_the_end),
        cmocka_unit_test(what_cannot_be_read_is_refused),
        cmocka_unit_test(the_demo_holds_out_a_tenth),
        cmocka_unit_test(the_shuffle_is_a_permutation),
        cmocka_unit_test(the_shuffle_has_no_favourites),
        cmocka_unit_test(real_text_is_read),
        cmocka_unit_test(recipes_are_whole),
    };
    return cmocka_run_group_tests_name("data", tests, make_text, remove_folder);
}
