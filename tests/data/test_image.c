/* Images: CIFAR-10, other sizes, margins and shifts. */
#include "png_file.h"

#include "data/image/cifar.h"
#include "data/image/image.h"

/* ---- Sizes ---- */

/* Resizes one row or column by the definition, in double. */
static void expect_axis(const uint8_t *from, int n, int m, uint8_t *to) {
    const double scale = (double)n / m, spread = scale > 1 ? scale : 1;
    for (int i = 0; i < m; i++) {
        double sum = 0, weight = 0;
        for (int k = 0; k < n; k++) {
            const double w = 1 - fabs(k + 0.5 - (i + 0.5) * scale) / spread;
            if (w > 0) sum += w * from[k], weight += w;
        }
        to[i] = (uint8_t)floor(sum / weight + 0.5);
    }
}

static void sizes_by_definition(void **state) {
    (void)state;
    static const int sizes[][4] = {{28, 28, 32, 32}, {7, 5, 12, 9}, {16, 16, 8, 4}, {5, 9, 5, 3}, {1, 1, 4, 4}};
    for (int s = 0; s < 5; s++) {
        const int w = sizes[s][0], h = sizes[s][1], W = sizes[s][2], H = sizes[s][3];
        uint8_t from[1024], to[1024], rows[32][32], column[32], out[32];
        ll_resizer *r = NULL;
        for (int i = 0; i < w * h; i++) from[i] = (uint8_t)(i * i * 31 + i % 7 * 40);
        CHECK_OK(ll_resizer_create(&r, 1, w, h, &(ll_resizing){W, H, 0, 0}));
        ll_resize(r, from, to);
        for (int y = 0; y < h; y++) expect_axis(from + y * w, w, W, rows[y]);
        for (int x = 0; x < W; x++) {
            for (int y = 0; y < h; y++) column[y] = rows[y][x];
            expect_axis(column, h, H, out);
            for (int y = 0; y < H; y++)
                assert_true(abs(out[y] - to[y * W + x]) <= 1); /* a tie may be rounded the other way */
        }
        memset(from, 77, sizeof from);
        ll_resize(r, from, to);
        for (int i = 0; i < W * H; i++) assert_int_equal(to[i], 77);
        ll_resizer_free(r);
    }
    static const uint8_t two[2] = {0, 100}, four[4] = {0, 25, 75, 100};
    uint8_t to[4];
    ll_resizer *r = NULL;
    CHECK_OK(ll_resizer_create(&r, 1, 2, 1, &(ll_resizing){4, 1, 0, 0}));
    ll_resize(r, two, to);
    assert_memory_equal(to, four, 4);
    ll_resizer_free(r);
}

/* What Pillow 9.4 makes of rows whose pixels are close to ties. Weights that were cut off, not rounded, give others. */
static void ties_as_pillow(void **state) {
    (void)state;
    static const struct {
        int bicubic, n, m;
        uint8_t from[7], to[10];
    } rows[] = {
        {0, 4, 9, {78, 141, 150, 69}, {78, 89, 117, 142, 146, 149, 119, 83, 69}},
        {0, 7, 6, {150, 69, 33, 153, 81, 174, 102}, {135, 58, 86, 113, 145, 116}},
        {1, 3, 6, {117, 168, 117}, {112, 128, 160, 160, 128, 112}},
        {1, 5, 10, {28, 11, 32, 58, 41}, {30, 24, 13, 13, 26, 39, 54, 56, 45, 39}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint8_t to[10];
        ll_resizer *r = NULL;
        CHECK_OK(ll_resizer_create(&r, 1, rows[i].n, 1, &(ll_resizing){rows[i].m, 1, 0, rows[i].bicubic}));
        ll_resize(r, rows[i].from, to);
        assert_memory_equal(to, rows[i].to, (size_t)rows[i].m);
        ll_resizer_free(r);
    }
}

/* What Pillow 9.4 makes of a row with BICUBIC; and the middle of what is resized to a square. */
static void bicubic_and_cropped(void **state) {
    (void)state;
    static const uint8_t row[7] = {0, 100, 30, 200, 255, 7, 90};
    static const uint8_t shorter[4] = {39, 96, 200, 52}, longer[10] = {0, 58, 89, 28, 139, 240, 249, 53, 30, 95};
    uint8_t to[100], whole[100], middle[24], from[35];
    ll_resizer *r = NULL;
    CHECK_OK(ll_resizer_create(&r, 1, 7, 1, &(ll_resizing){4, 1, 0, 1}));
    ll_resize(r, row, to);
    assert_memory_equal(to, shorter, sizeof shorter);
    ll_resizer_free(r);
    CHECK_OK(ll_resizer_create(&r, 1, 7, 1, &(ll_resizing){10, 1, 0, 1}));
    ll_resize(r, row, to);
    assert_memory_equal(to, longer, sizeof longer);
    ll_resizer_free(r);
    for (int bicubic = 0; bicubic < 2; bicubic++) {
        for (int i = 0; i < 35; i++) from[i] = (uint8_t)(i * i * 31);
        CHECK_OK(ll_resizer_create(&r, 1, 7, 5, &(ll_resizing){10, 10, 0, bicubic}));
        ll_resize(r, from, whole);
        ll_resizer_free(r);
        CHECK_OK(ll_resizer_create(&r, 1, 7, 5, &(ll_resizing){4, 6, 10, bicubic}));
        ll_resize(r, from, middle);
        ll_resizer_free(r);
        for (int y = 0; y < 6; y++) assert_memory_equal(middle + 4 * y, whole + 10 * (y + 2) + 3, 4);
    }
    assert_int_equal(ll_resizer_create(&r, 1, 7, 5, &(ll_resizing){10, 10, 9, 0}), LL_EINVAL);
    assert_non_null(strstr(ll_error(), "data.resize-side = 9 is smaller than"));
}

/* Each channel is resized as if it were alone. */
static void channels_by_themselves(void **state) {
    (void)state;
    uint8_t from[3 * 7 * 5], one[7 * 5], to[3 * 4 * 9], alone[4 * 9];
    ll_resizer *all = NULL, *single = NULL;
    for (size_t i = 0; i < sizeof from; i++) from[i] = (uint8_t)(i * i * 13 + i % 5 * 40);
    CHECK_OK(ll_resizer_create(&all, 3, 7, 5, &(ll_resizing){4, 9, 0, 0}));
    CHECK_OK(ll_resizer_create(&single, 1, 7, 5, &(ll_resizing){4, 9, 0, 0}));
    ll_resize(all, from, to);
    for (int c = 0; c < 3; c++) {
        for (int i = 0; i < 35; i++) one[i] = from[3 * i + c];
        ll_resize(single, one, alone);
        for (int i = 0; i < 36; i++) assert_int_equal(to[3 * i + c], alone[i]);
    }
    ll_resizer_free(all);
    ll_resizer_free(single);
}

static void gray_and_colours(void **state) {
    (void)state;
    static const uint8_t colours[] = {255, 0, 0, 0, 255, 0, 0, 0, 255, 10, 20, 30}, gray[] = {76, 150, 29, 18};
    static const uint8_t repeated[] = {76, 76, 76, 150, 150, 150, 29, 29, 29, 18, 18, 18};
    uint8_t out[12];
    ll_recolour(out, 1, colours, 3, 4);
    assert_memory_equal(out, gray, 4);
    ll_recolour(out, 3, gray, 1, 4);
    assert_memory_equal(out, repeated, 12);
    ll_recolour(out, 3, colours, 3, 4);
    assert_memory_equal(out, colours, 12);
}

/* ---- idx with margins and shifts ---- */

/* 3 images of 4 x 2; the first has an empty column on both sides, the second none, the third two. */
static const uint8_t images[] = {0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 4, 0, 1, 2, 0,
                                 0, 3, 4, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
static const uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 3, 1, 1, 0};

static ll_config config(void) {
    return (ll_config){.model.task = LL_TASK_CLASSIFY,
                       .train.batch = 1,
                       .train.length = 8,
                       .data.format = LL_DATA_IDX,
                       .data.only = -1,
                       .data.test = kept(put("images", images, sizeof images)),
                       .data.test_labels = kept(put("labels", labels, sizeof labels))};
}

static void expect_image(const ll_config *c, int64_t count, const int *pixels) {
    ll_reader *r = opened(c, "test");
    ll_batch b;
    CHECK_OK(ll_batch_create(&b, c));
    assert_int_equal(ll_reader_size(r), count);
    ll_reader_eval_batch(r, &b, 0);
    assert_memory_equal(b.tokens, pixels, 8 * sizeof(int));
    ll_batch_free(&b);
    ll_reader_free(r);
}

static void shifts_and_margins(void **state) {
    (void)state;
    ll_config c = config();
    expect_image(&c, 3, (const int[]){0, 1, 2, 0, 0, 3, 4, 0});
    c.data.shift = 1;
    expect_image(&c, 3, (const int[]){0, 0, 1, 2, 0, 0, 3, 4});
    c.data.shift = -2;
    expect_image(&c, 3, (const int[]){2, 0, 0, 0, 4, 0, 0, 0});
    c.data.shift = 9;
    expect_image(&c, 3, (const int[]){0, 0, 0, 0, 0, 0, 0, 0});
    c.data.shift = 0, c.data.margin = 1;
    expect_image(&c, 2, (const int[]){0, 1, 2, 0, 0, 3, 4, 0});
    c.data.only = 0;
    expect_image(&c, 1, (const int[8]){0});
    c.data.margin = 2, c.data.only = 1;
    CHECK_FAILS(refused(&c, "test"), LL_EINVAL, "2 empty columns on both sides (data.margin) and the class");
    c.data.margin = 3, c.data.only = -1;
    CHECK_FAILS(refused(&c, "test"), LL_EINVAL, "3 empty columns");
    c.data.margin = 1, c.data.only = 9;
    CHECK_FAILS(refused(&c, "test"), LL_EINVAL, "has 1 empty column on both sides");
}

static void resized_images_are_read(void **state) {
    (void)state;
    ll_config c = config();
    int width = 0, height = 0;
    c.data.resize = 4, c.train.length = 16;
    ll_reader *r = opened(&c, "test");
    ll_batch b;
    CHECK_OK(ll_batch_create(&b, &c));
    ll_reader_image(r, &width, &height);
    assert_true(width == 4 && height == 4);
    ll_reader_eval_batch(r, &b, 0);
    static const int expected[] = {0, 1, 2, 0, 0, 2, 3, 0, 0, 3, 4, 0, 0, 3, 4, 0}; /* 1.5 and 2.5 up */
    assert_int_equal(b.lengths[0], 16);
    assert_memory_equal(b.tokens, expected, 8 * sizeof(int));
    assert_memory_equal(b.tokens + 12, expected + 12, 4 * sizeof(int));
    ll_batch_free(&b);
    ll_reader_free(r);
    c.train.length = 15;
    CHECK_FAILS(refused(&c, "test"), LL_EINVAL, "set train.length=16");
}

/* ---- CIFAR-10 ---- */

static uint8_t records[3 * LL_CIFAR_RECORD];

static ll_config cifar(const char *path) {
    return (ll_config){.model.task = LL_TASK_CLASSIFY,
                       .train.batch = 1,
                       .train.length = 1024,
                       .data.format = LL_DATA_CIFAR10,
                       .data.only = -1,
                       .data.train = kept(path),
                       .data.test = kept(path)};
}

static void make_records(void) {
    for (int i = 0; i < 3; i++) {
        uint8_t *p = records + i * LL_CIFAR_RECORD;
        p[0] = (uint8_t)(3 * i);
        memset(p + 1, 255 - 100 * i, 1024);
        memset(p + 1025, 10 + i, 1024);
        memset(p + 2049, 200, 1024);
    }
}

static void colours_become_gray(void **state) {
    (void)state;
    make_records();
    char list[300];
    snprintf(list, sizeof list, "%s:%s", put("one", records, LL_CIFAR_RECORD),
             put_xz("two", records + LL_CIFAR_RECORD, 2 * LL_CIFAR_RECORD));
    ll_config c = cifar(list), whole = cifar(put_gz("all", records, sizeof records));
    ll_reader *r = opened(&c, "test"), *w = opened(&whole, "test");
    ll_batch b;
    assert_same_readers(r, w, &c);
    CHECK_OK(ll_batch_create(&b, &c));
    assert_int_equal(ll_reader_size(r), 3);
    assert_int_equal(ll_reader_classes(r), 10);
    for (int i = 0; i < 3; i++) {
        const double mean = 0.2989 * (255 - 100 * i) + 0.5870 * (10 + i) + 0.1140 * 200;
        ll_reader_eval_batch(r, &b, i);
        assert_int_equal(b.targets[0], 3 * i);
        for (int t = 0; t < 1024; t++) assert_int_equal(b.tokens[t], (int)(mean / 255 * 255.5));
    }
    ll_batch_free(&b);
    ll_reader_free(r);
    ll_reader_free(w);
}

static void a_folder_has_both_splits(void **state) {
    (void)state;
    make_records();
    char command[200];
    snprintf(command, sizeof command, "mkdir -p '%s'", at("batches"));
    assert_int_equal(system(command), 0);
    put("batches/data_batch_1.bin", records, LL_CIFAR_RECORD);
    put("batches/data_batch_2.bin", records, LL_CIFAR_RECORD);
    put("batches/batches.meta.txt", "airplane", 8);
    ll_config c = cifar(at("batches"));
    CHECK_FAILS(refused(&c, "test"), LL_EINVAL, "no test_batch.bin");
    put("batches/test_batch.bin", records, sizeof records);
    ll_reader *train = opened(&c, "train"), *test = opened(&c, "test");
    assert_int_equal(ll_reader_size(train), 2);
    assert_int_equal(ll_reader_size(test), 3);
    ll_reader_free(train);
    ll_reader_free(test);
    /* The same of a folder that is one of several paths; a file that is named is read for any split. */
    char list[400];
    snprintf(list, sizeof list, "%s:%s", kept(at("batches")), put("test_batch_more", records, LL_CIFAR_RECORD));
    c = cifar(list);
    train = opened(&c, "train"), test = opened(&c, "test");
    assert_int_equal(ll_reader_size(train), 3);
    assert_int_equal(ll_reader_size(test), 4);
    ll_reader_free(train);
    ll_reader_free(test);
    c = cifar(at("batches"));
    c.data.test = c.data.train;
    char first[300];
    assert_false(ll_data_shared(first, sizeof first, &c.data, 1));
    c.data.valid = kept(at("batches/test_batch.bin"));
    assert_false(ll_data_shared(first, sizeof first, &c.data, 0));
    c.data.valid = kept(at("batches/data_batch_2.bin"));
    assert_true(ll_data_shared(first, sizeof first, &c.data, 0));
    assert_string_equal(first, c.data.valid);
    c.data.valid = c.data.train;
    CHECK_FAILS(refused(&c, "valid"), LL_EINVAL, "leave data.valid empty");
}

static void wrong_records_are_refused(void **state) {
    (void)state;
    make_records();
    ll_config c = cifar(put("short", records, sizeof records - 1));
    CHECK_FAILS(refused(&c, "test"), LL_EFORMAT, "9218 bytes");
    c = cifar(put("none", records, 0));
    CHECK_FAILS(refused(&c, "test"), LL_EFORMAT, "0 bytes");
    records[LL_CIFAR_RECORD] = 10;
    c = cifar(put("class", records, sizeof records));
    CHECK_FAILS(refused(&c, "test"), LL_EFORMAT, "byte 3073 has label 10");
    make_records();
    c = cifar(put("good", records, sizeof records));
    c.model.classes = 9;
    CHECK_FAILS(refused(&c, "test"), LL_EINVAL, "model.classes=10");
    c.model.classes = 0, c.train.length = 1023;
    CHECK_FAILS(refused(&c, "test"), LL_EINVAL, "train.length=1024");
}

/* A class has the number that is the name of its folder, also without data.classes. */
static void folders_may_be_numbers(void **state) {
    (void)state;
    static const int names[] = {0, 1, 4, 10};
    char name[64], command[300];
    for (int i = 0; i < 12; i++) {
        snprintf(command, sizeof command, "mkdir -p '%s/%d'", at("numbers"), names[i % 4]);
        assert_int_equal(system(command), 0);
        snprintf(name, sizeof name, "numbers/%d/%d.png", names[i % 4], i);
        put_png(name, 2, 2, 20 * names[i % 4]);
    }
    ll_config c = config();
    c.data.format = LL_DATA_PNG, c.data.test = kept(at("numbers")), c.train.length = 4;
    ll_reader *r = opened(&c, "test");
    ll_batch b;
    CHECK_OK(ll_batch_create(&b, &c));
    assert_int_equal(ll_reader_size(r), 12);
    assert_int_equal(ll_reader_classes(r), 11);
    for (int64_t i = 0; i < ll_reader_eval_batches(r); i++) {
        ll_reader_eval_batch(r, &b, i);
        for (int row = 0; row < b.B && b.lengths[row]; row++)
            assert_int_equal(20 * b.targets[row], b.tokens[row * b.T]);
    }
    ll_batch_free(&b);
    ll_reader_free(r);
    for (int i = 0; i < 2; i++) put(i ? "numbers/1/Thumbs.db" : "numbers/4/Thumbs.db", "no picture", 10);
    CHECK_FAILS(refused(&c, "test"), LL_EFORMAT, "Thumbs.db: not a PNG file; 1 more file cannot be read: Thumbs.db");
    for (int i = 0; i < 2; i++) assert_int_equal(remove(at(i ? "numbers/1/Thumbs.db" : "numbers/4/Thumbs.db")), 0);
    c.model.classes = 11;
    c.data.class_names = kept("0,1,10");
    r = opened(&c, "test");
    assert_int_equal(ll_reader_size(r), 9);
    assert_int_equal(ll_reader_left_out(r), 3);
    ll_reader_free(r);
    ll_reader_options closed = ll_config_reader(&c);
    closed.closed = 1;
    CHECK_FAILS(ll_reader_create(&r, &closed, "test", NULL), LL_EFORMAT,
                "its folder \"4\" is no class; to leave it out, set data.classes=0,1,10");
    c.data.train = c.data.test, c.data.class_names = kept("0,1,4,9,10");
    CHECK_FAILS(refused(&c, "train"), LL_EFORMAT, "no example has the class \"9\" of data.classes=0,1,4,9,10");
    c.data.class_names = NULL;
    snprintf(command, sizeof command, "mv '%s/4' '%s/four'", c.data.test, c.data.test);
    assert_int_equal(system(command), 0);
    CHECK_FAILS(refused(&c, "test"), LL_EFORMAT, "has the label \"four\", and the classes of the model are numbers");
    static char list[2000];
    size_t n = 0;
    for (int i = 0; i < 300; i++) n += (size_t)snprintf(list + n, sizeof list - n, "%sc%d", i ? "," : "", i);
    c.data.class_names = list, c.model.classes = 300;
    CHECK_FAILS(refused(&c, "test"), LL_EINVAL, "data.classes has 300 names, and data of this format have at most 256");
}

/* The first test images in colour, against the same images in gray. */
static void real_images_agree(void **state) {
    (void)state;
    char *colour = shared("cifar10/test_batch_first1000.bin.xz");
    ll_config c = cifar(colour), g = config();
    g.train.length = 1024;
    g.data.test = kept(shared("cifar10/gray-t10k-images-idx3-ubyte.xz"));
    g.data.test_labels = kept(shared("cifar10/gray-t10k-labels-idx1-ubyte.xz"));
    ll_reader *a = opened(&c, "test"), *b = opened(&g, "test");
    ll_batch x, y;
    CHECK_OK(ll_batch_create(&x, &c));
    CHECK_OK(ll_batch_create(&y, &g));
    for (int64_t i = 0; i < 1000; i++) {
        ll_reader_eval_batch(a, &x, i);
        ll_reader_eval_batch(b, &y, i);
        assert_same_batch(&x, &y, &c);
    }
    ll_batch_free(&x);
    ll_batch_free(&y);
    ll_reader_free(a);
    ll_reader_free(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_by_definition),       cmocka_unit_test(shifts_and_margins),
        cmocka_unit_test(bicubic_and_cropped),       cmocka_unit_test(resized_images_are_read),
        cmocka_unit_test(colours_become_gray),       cmocka_unit_test(a_folder_has_both_splits),
        cmocka_unit_test(wrong_records_are_refused), cmocka_unit_test(real_images_agree),
        cmocka_unit_test(channels_by_themselves),    cmocka_unit_test(gray_and_colours),
        cmocka_unit_test(folders_may_be_numbers),    cmocka_unit_test(ties_as_pillow),
    };
    return cmocka_run_group_tests_name("image", tests, make_folder, remove_folder);
}
