/* Pathfinder: images are generated, written and read again, and read from the original folders of PNG files. */
#include "png_file.h"

#include "sets/pathfinder.h"
#include "data/image/png_read.h"

/* Paths of one segment. The distance between two dots tells whether they are its two ends. */
static void labels_say_what_is_joined(void **state) {
    (void)state;
    enum { SIDE = 128, MANY = 200 };
    const ll_pathfinder p = {SIDE, 1, 1, 10, 1, 1, 30, 1, 3, 0.5, 0, 1};
    static uint8_t pixels[SIDE * SIDE], label;
    int ones = 0;
    for (int i = 0; i < MANY; i++) {
        CHECK_OK(ll_pathfinder_draw(pixels, &label, &p, 3, i));
        double far = 0;
        for (int a = 0; a < SIDE * SIDE; a++)
            for (int b = a; pixels[a] == 255 && b < SIDE * SIDE; b++)
                if (pixels[b] == 255) far = fmax(far, hypot(a % SIDE - b % SIDE, a / SIDE - b / SIDE));
        const double distance = far - 2 * 2.5; /* between dots of radius 3, in whole pixels */
        if (label ? distance > 13 : distance < 17) fail_msg("image %d: class %d, dots %g apart", i, label, distance);
        ones += label;
    }
    assert_true(ones > 65 && ones < 135);
}

static void images_follow_from_seed_and_number(void **state) {
    (void)state;
    static const int sides[] = {32, 64, 128, 256};
    static uint8_t one[256 * 256], two[256 * 256];
    for (int k = 0; k < 4; k++) {
        ll_pathfinder p;
        uint8_t a = 9, b = 9;
        CHECK_OK(ll_pathfinder_standard(&p, sides[k], 14));
        const size_t size = (size_t)p.side * (size_t)p.side;
        CHECK_OK(ll_pathfinder_draw(one, &a, &p, 5, 1));
        CHECK_OK(ll_pathfinder_draw(two, &b, &p, 5, 2));
        assert_memory_not_equal(one, two, size);
        CHECK_OK(ll_pathfinder_draw(two, &b, &p, 6, 1));
        assert_memory_not_equal(one, two, size);
        CHECK_OK(ll_pathfinder_draw(two, &b, &p, 5, 1));
        assert_memory_equal(one, two, size);
        assert_int_equal(a, b);
        /* Two paths of 14 segments cover some of the image, but not most of it. */
        size_t bright = 0;
        for (size_t i = 0; i < size; i++) bright += one[i] > 60;
        assert_true(bright > (size_t)(2 * 14 * p.length) / 2 && bright < size / 2);
    }
}

/* Easy images have paths half as long, and as many distractors. */
static void shorter_paths_cover_less(void **state) {
    (void)state;
    static const int segments[] = {6, 7, 9, 14};
    static uint8_t pixels[64 * 64];
    int64_t bright[4] = {0}, distracting[4];
    for (int k = 0; k < 4; k++) {
        ll_pathfinder p;
        uint8_t label;
        CHECK_OK(ll_pathfinder_standard(&p, 64, segments[k]));
        assert_int_equal(p.segments, segments[k]);
        distracting[k] = p.distractors * p.distractor_segments;
        for (int i = 0; i < 40; i++) {
            CHECK_OK(ll_pathfinder_draw(pixels, &label, &p, 5, i));
            for (size_t at = 0; at < sizeof pixels; at++) bright[k] += pixels[at] > 60;
        }
    }
    assert_true(bright[0] < bright[1] && bright[1] < bright[2] && bright[2] < bright[3]);
    assert_true(distracting[0] == 20 && distracting[1] == 20 && distracting[2] == 18 && distracting[3] == 20);
}

/* The first steps of the curriculum have two dots, two short paths, and nothing else. */
static void the_first_steps_have_nothing_to_distract(void **state) {
    (void)state;
    static const int sides[] = {16, 32};
    uint8_t pixels[32 * 32], label;
    for (int k = 0; k < 2; k++)
        for (int segments = 1; segments <= (k ? 5 : 3); segments++) {
            ll_pathfinder p;
            int ones = 0;
            CHECK_OK(ll_pathfinder_standard(&p, sides[k], segments));
            assert_true(p.segments == segments && p.distractors == 0);
            for (int i = 0; i < 40; i++) {
                CHECK_OK(ll_pathfinder_draw(pixels, &label, &p, 5, i));
                ones += label;
            }
            assert_true(ones > 8 && ones < 32);
        }
}

static void written_files_are_read(void **state) {
    (void)state;
    ll_pathfinder p;
    uint8_t pixels[32 * 32], label;
    CHECK_OK(ll_pathfinder_standard(&p, 32, 14));
    CHECK_OK(ll_pathfinder_write(at("images"), at("labels"), &p, 60, 11, NULL, NULL));
    ll_config c = {.model.task = LL_TASK_CLASSIFY, .train.batch = 1, .train.length = 1024, .data.format = LL_DATA_IDX};
    c.data.test = kept(at("images")), c.data.test_labels = kept(at("labels"));
    ll_reader *r = opened(&c, "test");
    ll_batch b;
    CHECK_OK(ll_batch_create(&b, &c));
    assert_int_equal(ll_reader_size(r), 60);
    for (int i = 0; i < 60; i++) {
        ll_reader_eval_batch(r, &b, i);
        CHECK_OK(ll_pathfinder_draw(pixels, &label, &p, 11, i));
        assert_int_equal(b.targets[0], label);
        for (int t = 0; t < 1024; t++) assert_int_equal(b.tokens[t], pixels[t]);
    }
    ll_batch_free(&b);
    ll_reader_free(r);
}

static void what_cannot_be_drawn_is_refused(void **state) {
    (void)state;
    ll_pathfinder p;
    uint8_t pixels[32 * 32], label;
    CHECK_FAILS(ll_pathfinder_standard(&p, 33, 14), LL_EINVAL, "16, 32, 64, 128 and 256");
    CHECK_FAILS(ll_pathfinder_standard(&p, 32, 15), LL_EINVAL, "1 to 14");
    CHECK_OK(ll_pathfinder_standard(&p, 32, 14));
    p.segments = 150;
    CHECK_FAILS(ll_pathfinder_draw(pixels, &label, &p, 1, 1), LL_EINVAL, "did not fit");
    p.side = 8;
    CHECK_FAILS(ll_pathfinder_draw(pixels, &label, &p, 1, 1), LL_EINVAL, "side 8");
    CHECK_OK(ll_pathfinder_standard(&p, 32, 14));
    CHECK_FAILS(ll_pathfinder_write(at("x"), at("y"), &p, 0, 1, NULL, NULL), LL_EINVAL, "0 images");
    CHECK_FAILS(ll_pathfinder_write(at("x"), at("no/y"), &p, 1, 1, NULL, NULL), LL_EIO, "no/y");
    assert_int_not_equal(access(at("x"), F_OK), 0);
}

/* ---- Folders of PNG ---- */

/* Colours with opacity. cairo writes the file, so the painted values are known. */
static void transparent_colours_become_gray(void **state) {
    (void)state;
    enum { SIDE = 16 };
    cairo_surface_t *s = cairo_image_surface_create(CAIRO_FORMAT_ARGB32, SIDE, SIDE);
    const int stride = cairo_image_surface_get_stride(s);
    unsigned char *data = cairo_image_surface_get_data(s);
    uint8_t expected[SIDE][SIDE], pixels[SIDE * SIDE];
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++) {
            const uint32_t a = (uint32_t)(255 - 16 * y), r = a * (uint32_t)x / 15, g = a - r, b = a / 3;
            const uint32_t pixel = a << 24 | r << 16 | g << 8 | b; /* colours times opacity: over black */
            memcpy(data + y * stride + 4 * x, &pixel, sizeof pixel);
            expected[y][x] = (uint8_t)(0.299 * r + 0.587 * g + 0.114 * b + 0.5);
        }
    cairo_surface_mark_dirty(s);
    assert_int_equal(cairo_surface_write_to_png(s, at("colours.png")), CAIRO_STATUS_SUCCESS);
    cairo_surface_destroy(s);
    ll_bytes png = {0};
    int width = 0, height = 0;
    CHECK_OK(ll_file_read(&png, at("colours.png"), 1 << 20));
    CHECK_OK(ll_png_size(&width, &height, png.data, png.size, "colours"));
    assert_true(width == SIDE && height == SIDE);
    CHECK_OK(ll_png_pixels(pixels, 1, png.data, png.size, "colours"));
    for (int i = 0; i < SIDE * SIDE; i++)
        if (abs(pixels[i] - expected[i / SIDE][i % SIDE]) > 1)
            fail_msg("pixel %d is %d, expected %d", i, pixels[i], expected[i / SIDE][i % SIDE]);
    long n = 0; /* a failing allocation at every place, until none fails */
    for (ll_status status = LL_ENOMEM; status; n++) {
        ll_memory_fail_at(n + 1);
        status = ll_png_pixels(pixels, 1, png.data, png.size, "colours");
        ll_memory_fail_at(0);
        assert_true(status == LL_OK || status == LL_ENOMEM);
    }
    assert_true(n > 3);
    ll_bytes_free(&png);
}

static ll_config folder_config(void) {
    ll_config c = {
        .model.task = LL_TASK_CLASSIFY, .train.batch = 1, .train.length = 16, .data.format = LL_DATA_PATHFINDER};
    c.data.test = kept(at("pf"));
    return c;
}

static void put_list(const char *text) {
    put("pf/metadata/0.npy", text, strlen(text));
}

static void original_folders_are_read(void **state) {
    (void)state;
    char command[300];
    snprintf(command, sizeof command, "mkdir -p '%s' '%s'", at("pf/imgs/0"), at("pf/metadata"));
    assert_int_equal(system(command), 0);
    put_png("pf/imgs/0/sample_0.png", 4, 4, 10);
    put_png("pf/imgs/0/sample_1.png", 4, 4, 100);
    put_list("imgs/0 sample_1.png 1 1 1.8 14 4\nimgs/0 sample_0.png 0 0 1.8 14 4\n\n");
    ll_config c = folder_config();
    ll_reader *r = opened(&c, "test");
    ll_batch b;
    int width, height;
    CHECK_OK(ll_batch_create(&b, &c));
    assert_int_equal(ll_reader_size(r), 2);
    assert_int_equal(ll_reader_classes(r), 2);
    ll_reader_image(r, &width, &height);
    assert_true(width == 4 && height == 4);
    for (int i = 0; i < 2; i++) {
        ll_reader_eval_batch(r, &b, i);
        assert_int_equal(b.targets[0], 1 - i);
        for (int t = 0; t < 16; t++) assert_int_equal(b.tokens[t], (i ? 10 : 100) + t);
    }
    ll_batch_free(&b);
    ll_reader_free(r);
}

static void wrong_folders_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *list, *word;
        ll_status status;
    } cases[] = {
        {"imgs/0 sample_0.png 0\n", "line 1 is not", LL_EFORMAT},
        {"imgs/0 sample_0.png 0 2\n", "line 1 is not", LL_EFORMAT},
        {"imgs/0 ../../x.png 0 1\n", "line 1 is not", LL_EFORMAT},
        {"/etc passwd 0 1\n", "line 1 is not", LL_EFORMAT},
        {"imgs/0 sample_9.png 0 1\n", "sample_9.png", LL_EIO},
        {"\n", "name no image", LL_EFORMAT},
        {"\x93NUMPY", "array of NumPy", LL_EFORMAT},
        {"imgs/0 sample_0.png 0 1\nimgs/0 large.png 0 1\n", "5 x 5 pixels", LL_EFORMAT},
        {"imgs/0 text.png 0 1\n", "not a PNG", LL_EFORMAT},
        {"imgs/0 cut.png 0 1\n", "damaged PNG", LL_EFORMAT},
        {"imgs/0 huge.png 0 1\n", "sides may be 1..4096", LL_EFORMAT},
    };
    ll_bytes png = {0};
    put_png("pf/imgs/0/large.png", 5, 5, 0);
    put("pf/imgs/0/text.png", "text", 4);
    CHECK_OK(ll_file_read(&png, at("pf/imgs/0/sample_0.png"), 1 << 20));
    put("pf/imgs/0/cut.png", png.data, png.size - 20);
    png.data[16] = 127;
    put("pf/imgs/0/huge.png", png.data, png.size);
    ll_bytes_free(&png);
    ll_config c = folder_config();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_list(cases[i].list);
        CHECK_FAILS(refused(&c, "test"), cases[i].status, cases[i].word);
    }
    c.data.test = kept(at("nowhere"));
    CHECK_FAILS(refused(&c, "test"), LL_EIO, "nowhere");
}

static void real_images_are_read(void **state) {
    (void)state;
    char *images = shared("pathfinder32/hard-images-idx3-ubyte.gz");
    ll_config c = {.model.task = LL_TASK_CLASSIFY, .train.batch = 1, .train.length = 1024, .data.format = LL_DATA_IDX};
    c.data.test = kept(images), c.data.test_labels = kept(shared("pathfinder32/hard-labels-idx1-ubyte.gz"));
    ll_reader *r = opened(&c, "test");
    ll_batch b;
    int ones = 0;
    CHECK_OK(ll_batch_create(&b, &c));
    for (int i = 0; i < 800; i++) {
        ll_reader_eval_batch(r, &b, i);
        ones += b.targets[0];
    }
    assert_int_equal(ll_reader_size(r), 800);
    assert_int_equal(ones, 393);
    ll_batch_free(&b);
    ll_reader_free(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_say_what_is_joined), cmocka_unit_test(images_follow_from_seed_and_number),
        cmocka_unit_test(shorter_paths_cover_less),
        cmocka_unit_test(the_first_steps_have_nothing_to_distract), cmocka_unit_test(written_files_are_read),
        cmocka_unit_test(what_cannot_be_drawn_is_refused), cmocka_unit_test(original_folders_are_read),
        cmocka_unit_test(transparent_colours_become_gray), cmocka_unit_test(wrong_folders_are_refused),
        cmocka_unit_test(real_images_are_read),
    };
    return cmocka_run_group_tests_name("pathfinder", tests, make_folder, remove_folder);
}
