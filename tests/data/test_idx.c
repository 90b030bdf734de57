/* The reader of idx images: its batches, and all the ways in which its files can be wrong. */
#include "inputs.h"

#include "data/image/idx.h"

enum { COUNT = 20, WIDTH = 4, HEIGHT = 3, PIXELS = WIDTH * HEIGHT };

static uint8_t images[16 + COUNT * PIXELS], labels[8 + COUNT];

static void put_number(uint8_t *p, uint32_t x) {
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(x >> (24 - 8 * i));
}

/* The first pixel of image i is i; its label is i mod 7. */
static int pixel(int i, int t) {
    return t ? (i * 31 + t * 17) % 256 : i;
}

static int make_files(void **state) {
    put_number(images, 0x803);
    put_number(images + 4, COUNT);
    put_number(images + 8, HEIGHT);
    put_number(images + 12, WIDTH);
    put_number(labels, 0x801);
    put_number(labels + 4, COUNT);
    for (int i = 0; i < COUNT; i++) {
        for (int t = 0; t < PIXELS; t++) images[16 + i * PIXELS + t] = (uint8_t)pixel(i, t);
        labels[8 + i] = (uint8_t)(i % 7);
    }
    return make_folder(state);
}

static ll_config config(void) {
    return (ll_config){.model.task = LL_TASK_CLASSIFY,
                       .model.classes = 7,
                       .train.batch = 3,
                       .train.length = PIXELS,
                       .data.format = LL_DATA_IDX,
                       .data.train = put("images", images, sizeof images),
                       .data.train_labels = put("labels", labels, sizeof labels)};
}

static void assert_row(const ll_batch *b, int row, int image) {
    for (int t = 0; t < b->T; t++) assert_int_equal(b->tokens[row * b->T + t], t < PIXELS ? pixel(image, t) : 0);
    assert_int_equal(b->targets[row], image % 7);
    assert_int_equal(b->lengths[row], PIXELS);
}

static void an_evaluation_is_every_image_in_order(void **state) {
    (void)state;
    ll_config c = config();
    for (c.train.length = PIXELS; c.train.length < PIXELS + 3; c.train.length++) {
        ll_reader *r = opened(&c, "train");
        ll_batch b;
        CHECK_OK(ll_batch_create(&b, &c));
        assert_int_equal(ll_reader_vocab(r), 256);
        assert_int_equal(ll_reader_eval_batches(r), 7);
        for (int i = 0; i < 7; i++) {
            ll_reader_eval_batch(r, &b, i);
            for (int row = 0; row < 3; row++)
                if (3 * i + row < COUNT) assert_row(&b, row, 3 * i + row);
        }
        assert_int_equal(b.targets[2], -1); /* 20 images are six batches and two rows */
        assert_int_equal(b.lengths[2], 0);
        for (int t = 0; t < b.T; t++) assert_int_equal(b.tokens[2 * b.T + t], 0);
        ll_batch_free(&b);
        ll_reader_free(r);
    }
}

static void an_epoch_is_every_image_once(void **state) {
    (void)state;
    const ll_config c = config();
    ll_reader *r = opened(&c, "train");
    ll_batch b;
    int seen[COUNT] = {0}, order[2][COUNT];
    CHECK_OK(ll_batch_create(&b, &c));
    for (int i = 0; i < 20; i++) { /* three epochs, which do not end where batches end */
        ll_reader_batch(r, &b, 9, i);
        for (int row = 0; row < 3; row++) {
            const int place = 3 * i + row, image = b.tokens[row * b.T];
            assert_row(&b, row, image);
            assert_int_equal(seen[image]++, place / COUNT);
            if (place < 2 * COUNT) order[place / COUNT][place % COUNT] = image;
        }
    }
    assert_memory_not_equal(order[0], order[1], sizeof order[0]);
    ll_batch_free(&b);
    ll_reader_free(r);
    assert_pure(&c);
}

static void what_is_known_of_images(void **state) {
    (void)state;
    ll_config c = config();
    c.model.classes = c.train.length = 0; /* taken from the data */
    ll_reader *r = opened(&c, "train");
    int width = 0, height = 0;
    ll_reader_image(r, &width, &height);
    assert_int_equal(width, WIDTH);
    assert_int_equal(height, HEIGHT);
    assert_int_equal(ll_reader_classes(r), 7);
    assert_int_equal(ll_reader_size(r), COUNT);
    ll_reader_free(r);
}

/* Files with four axes have red, green and blue of each pixel; a recipe may want either kind. */
static void colours(void **state) {
    (void)state;
    enum { N = 3, NUMBERS = 3 * PIXELS };
    uint8_t file[20 + N * NUMBERS], few[8 + N];
    memcpy(few, labels, sizeof few);
    memcpy(file, images, 16);
    put_number(file, 0x804);
    put_number(file + 4, N);
    put_number(file + 16, 3);
    put_number(few + 4, N);
    for (int i = 0; i < N * NUMBERS; i++) file[20 + i] = (uint8_t)(i * 7);
    ll_config c = config();
    c.data.valid_fraction = 0;
    for (int channels = 1; channels <= 3; channels += 2) {
        c.data.train = put("colours", file, sizeof file);
        c.data.train_labels = put("few", few, sizeof few);
        c.model.channels = channels;
        c.train.length = channels * PIXELS;
        ll_reader *r = opened(&c, "train");
        ll_batch b;
        assert_int_equal(ll_reader_channels(r), channels);
        CHECK_OK(ll_batch_create(&b, &c));
        ll_reader_eval_batch(r, &b, 0);
        for (int i = 0; i < N * PIXELS; i++) {
            const uint8_t *p = file + 20 + 3 * i;
            const int gray = (299 * p[0] + 587 * p[1] + 114 * p[2] + 500) / 1000;
            for (int k = 0; k < channels; k++)
                assert_int_equal(b.tokens[channels * i + k], channels == 1 ? gray : p[k]);
        }
        ll_batch_free(&b);
        ll_reader_free(r);
    }
    c = config();
    c.model.channels = 3; /* gray files for a model of colours */
    c.train.length = NUMBERS;
    ll_reader *r = opened(&c, "train");
    ll_batch b;
    CHECK_OK(ll_batch_create(&b, &c));
    ll_reader_eval_batch(r, &b, 0);
    for (int i = 0; i < NUMBERS; i++) assert_int_equal(b.tokens[i], pixel(0, i / 3));
    ll_batch_free(&b);
    ll_reader_free(r);
    ll_idx found;
    put_number(file + 16, 4);
    CHECK_FAILS(ll_idx_images(&found, file, sizeof file, "NAME"), LL_EFORMAT, "byte 16 has 4 numbers a pixel");
    put_number(file + 16, 3);
    CHECK_FAILS(ll_idx_images(&found, file, sizeof file - 1, "NAME"), LL_EFORMAT, "it is truncated");
    CHECK_FAILS(ll_idx_images(&found, file, 19, "NAME"), LL_EFORMAT, "has a header of 20 bytes");
}

static void splits_of_images(void **state) {
    (void)state;
    ll_config c = config();
    c.data.valid_fraction = 0.2;
    c.data.limit = 10;
    ll_reader *train = opened(&c, "train"), *valid = opened(&c, "valid");
    assert_int_equal(ll_reader_size(train), 10);
    assert_int_equal(ll_reader_size(valid), 4);
    ll_batch b;
    CHECK_OK(ll_batch_create(&b, &c));
    ll_reader_eval_batch(valid, &b, 0);
    for (int row = 0; row < 3; row++) assert_row(&b, row, 16 + row);
    for (int i = 0; i < 20; i++) {
        ll_reader_batch(train, &b, 1, i);
        for (int row = 0; row < 3; row++) assert_true(b.tokens[row * b.T] < 10);
    }
    ll_batch_free(&b);
    ll_reader_free(train);
    ll_reader_free(valid);
    c.data.valid = c.data.train;
    CHECK_FAILS(refused(&c, "valid"), LL_EINVAL, "data.valid-labels is empty");
    c.data.valid_labels = c.data.train_labels;
    CHECK_OK(refused(&c, "valid"));
    c.data.valid = NULL;
    CHECK_FAILS(refused(&c, "valid"), LL_EINVAL, "data.valid is empty");
    CHECK_FAILS(refused(&c, "test"), LL_EINVAL, "data.test is empty");
    c.data.valid_labels = NULL;
    c.data.valid_fraction = 0.01;
    CHECK_FAILS(refused(&c, "valid"), LL_EINVAL, "data.valid-fraction");
}

static void packed_images_are_the_same(void **state) {
    (void)state;
    const ll_config c = config();
    ll_config gz = c, xz = c;
    gz.data.train = put_gz("images.gz", images, sizeof images);
    gz.data.train_labels = put_gz("labels.gz", labels, sizeof labels);
    xz.data.train = put_xz("images.xz", images, sizeof images);
    xz.data.train_labels = put_xz("labels.xz", labels, sizeof labels);
    ll_reader *r[3] = {opened(&c, "train"), opened(&gz, "train"), opened(&xz, "train")};
    assert_same_readers(r[0], r[1], &c);
    assert_same_readers(r[0], r[2], &c);
    for (int i = 0; i < 3; i++) ll_reader_free(r[i]);
    assert_memory_can_end(&c, "train");
}

/* ---- Wrong files: each error names file, byte, what was found and what was expected. ---- */

typedef struct {
    int of_labels;
    size_t size;          /* size of the file; zeros follow the right content */
    int at;               /* -1: nothing is changed */
    uint32_t number;      /* the new value of the four bytes there */
    const char *words[3]; /* all are in the error */
} wrong_file;

static const wrong_file wrong[] = {
    {0, 0, -1, 0, {"/images", "byte 0", "header of 16"}},
    {0, 15, -1, 0, {"/images", "byte 15", "header of 16"}},
    {0, sizeof images - 1, -1, 0, {"/images", "ends at byte 255", "expected 256"}},
    {0, sizeof images + 3, -1, 0, {"/images", "259 bytes", "expected 256"}},
    {0, sizeof images, 0, 0x802, {"/images", "byte 0 has magic 0x00000802", "expected 0x00000803"}},
    {0, sizeof images, 0, 0x01000803, {"/images", "magic 0x01000803", "expected 0x00000803"}},
    {0, sizeof images, 0, 0x801, {"/images", "magic 0x00000801", "exchanged"}},
    {0, sizeof images, 4, 0, {"/images", "byte 4 has count 0", "at least 1"}},
    {0, sizeof images, 4, COUNT + 1, {"/images", "ends at byte 256", "expected 268"}},
    {0, sizeof images, 4, 0xffffffff, {"/images", "4294967295 images", "expected 51539607556"}},
    {0, sizeof images, 8, 0, {"/images", "byte 8 has height 0", "1..4096"}},
    {0, sizeof images, 12, 0x80000000, {"/images", "byte 12 has width 2147483648", "1..4096"}},
    {1, 0, -1, 0, {"/labels", "byte 0", "header of 8"}},
    {1, 7, -1, 0, {"/labels", "byte 7", "header of 8"}},
    {1, sizeof labels - 1, -1, 0, {"/labels", "ends at byte 27", "expected 28"}},
    {1, sizeof labels + 1, -1, 0, {"/labels", "29 bytes", "expected 28"}},
    {1, sizeof labels, 0, 0x803, {"/labels", "magic 0x00000803", "exchanged"}},
    {1, sizeof labels, 4, COUNT - 1, {"/labels", "byte 4 has 19 labels", "expected 20"}},
    {1, sizeof labels, 12, 0x04050607, {"/labels", "byte 15 has label 7", "expected 0..6"}},
    {1, sizeof labels, 12, 0xff050600, {"/labels", "byte 12 has label 255", "expected 0..6"}},
};

static void wrong_files_are_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const wrong_file *w = &wrong[i];
        uint8_t bytes[sizeof images + 8] = {0};
        memcpy(bytes, w->of_labels ? labels : images, w->of_labels ? sizeof labels : sizeof images);
        if (w->at >= 0) put_number(bytes + w->at, w->number);
        const ll_config c = config();
        put(w->of_labels ? "labels" : "images", bytes, w->size);
        for (int k = 0; k < 3; k++) CHECK_FAILS(refused(&c, "train"), LL_EFORMAT, w->words[k]);
    }
}

static void wrong_recipes_are_refused(void **state) {
    (void)state;
    ll_config c = config();
    c.train.length = PIXELS - 1;
    CHECK_FAILS(refused(&c, "train"), LL_EINVAL, "set train.length=12");
    c = config();
    c.model.task = LL_TASK_LM;
    CHECK_FAILS(refused(&c, "train"), LL_EINVAL, "model.task=classify");
    c = config();
    c.data.train_labels = NULL;
    CHECK_FAILS(refused(&c, "train"), LL_EINVAL, "data.train-labels is empty");
    c.data.train_labels = at("missing");
    CHECK_FAILS(refused(&c, "train"), LL_EIO, "/missing");
    CHECK_FAILS(refused(&c, "train"), LL_EIO, "data.train-labels: ");
}

/* If no labels are named, they are found beside images that have their published name. */
static void labels_are_found_beside(void **state) {
    (void)state;
    static const char *const pairs[][2] = {{"train-images-idx3-ubyte", "train-labels-idx1-ubyte"},
                                           {"t10k-images.idx3-ubyte.gz", "t10k-labels.idx1-ubyte.gz"},
                                           {"images-idx3-ubyte", "labels-idx1-ubyte"}};
    for (int i = 0; i < 3; i++) {
        ll_config c = config();
        c.data.train = c.data.test = put(pairs[i][0], images, sizeof images);
        c.data.train_labels = c.data.test_labels = NULL;
        CHECK_FAILS(refused(&c, "train"), LL_EINVAL, pairs[i][1]);
        CHECK_FAILS(refused(&c, "train"), LL_EINVAL, "data.train-labels");
        put(pairs[i][1], labels, sizeof labels);
        c.data.valid_fraction = 0.25;
        for (int split = 0; split < 3; split++) {
            static const char *const names[] = {"train", "valid", "test"};
            ll_reader *r = opened(&c, names[split]);
            ll_batch b;
            CHECK_OK(ll_batch_create(&b, &c));
            ll_reader_eval_batch(r, &b, 0);
            assert_row(&b, 0, split == 1 ? COUNT * 3 / 4 : 0);
            ll_batch_free(&b);
            ll_reader_free(r);
        }
        c.data.train_labels = put("other", labels, sizeof labels - 1); /* named labels are used */
        CHECK_FAILS(refused(&c, "train"), LL_EFORMAT, "other");
    }
}

/* One bit of a header is flipped, or the file has another length. The file is read within its bounds, and accepted or
 * refused by name. */
static void no_header_leads_astray(void **state) {
    (void)state;
    for (int bit = 0; bit < 128; bit++) {
        uint8_t *copy = malloc(sizeof images);
        ll_idx found = {0};
        memcpy(copy, images, sizeof images);
        copy[bit / 8] ^= (uint8_t)(1 << bit % 8);
        CHECK_FAILS(ll_idx_images(&found, copy, sizeof images, "NAME"), LL_EFORMAT, "NAME");
        free(copy);
    }
    for (size_t size = 0; size < sizeof images; size++) {
        uint8_t *copy = malloc(size + 1);
        ll_idx found = {0};
        memcpy(copy, images, size);
        CHECK_FAILS(ll_idx_images(&found, copy, size, "NAME"), LL_EFORMAT, "NAME");
        free(copy);
    }
}

/* ---- Real images ---- */

typedef struct {
    const char *name;
    int64_t count;
    double mean;   /* mean of all pixels, as published, 0..255 */
    int labels[5]; /* of the first images */
} known_set;

static const known_set known[] = {
    {"mnist/train", 60000, 0.1307 * 255, {5, 0, 4, 1, 9}},
    {"mnist/t10k", 10000, 0.1325 * 255, {7, 2, 1, 0, 4}},
    {"fashion-mnist/train", 60000, 0.2860 * 255, {9, 0, 0, 3, 0}},
    {"fashion-mnist/t10k", 10000, 0.2868 * 255, {9, 2, 1, 1, 6}},
};

static void check_known(const known_set *k) {
    char image_name[64], label_name[64];
    snprintf(image_name, sizeof image_name, "%s-images-idx3-ubyte.gz", k->name);
    snprintf(label_name, sizeof label_name, "%s-labels-idx1-ubyte.gz", k->name);
    char *const image_path = shared(image_name), *const label_path = shared(label_name);
    ll_config c = {.model.task = LL_TASK_CLASSIFY,
                   .model.classes = 10,
                   .train.batch = 5,
                   .train.length = 784,
                   .data.format = LL_DATA_IDX};
    c.data.test = image_path;
    c.data.test_labels = label_path;
    ll_reader *r = opened(&c, "test");
    ll_batch b;
    int width = 0, height = 0;
    CHECK_OK(ll_batch_create(&b, &c));
    assert_int_equal(ll_reader_size(r), k->count);
    ll_reader_image(r, &width, &height);
    assert_int_equal(width, 28);
    assert_int_equal(height, 28);
    ll_reader_eval_batch(r, &b, 0);
    for (int i = 0; i < 5; i++) assert_int_equal(b.targets[i], k->labels[i]);
    double sum = 0;
    for (int64_t i = 0; i < k->count / 5; i++) {
        ll_reader_eval_batch(r, &b, i);
        for (int t = 0; t < 5 * 784; t++) sum += b.tokens[t];
    }
    assert_true(fabs(sum / (double)(k->count * 784) - k->mean) < 0.02);
    ll_batch_free(&b);
    ll_reader_free(r);
}

static void real_images_are_read(void **state) {
    (void)state;
    const int fast = getenv("LL_FAST") != NULL; /* then only the small files */
    for (int i = fast; i < 4; i += 1 + fast) check_known(&known[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_evaluation_is_every_image_in_order),
        cmocka_unit_test(an_epoch_is_every_image_once),
        cmocka_unit_test(what_is_known_of_images),
        cmocka_unit_test(colours),
        cmocka_unit_test(splits_of_images),
        cmocka_unit_test(packed_images_are_the_same),
        cmocka_unit_test(wrong_files_are_refused),
        cmocka_unit_test(wrong_recipes_are_refused),
        cmocka_unit_test(labels_are_found_beside),
        cmocka_unit_test(no_header_leads_astray),
        cmocka_unit_test(real_images_are_read),
    };
    return cmocka_run_group_tests_name("idx", tests, make_files, remove_folder);
}
