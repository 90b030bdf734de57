/* Sequences from files: their content and order, whole or in pieces, compressed or not. Wrong files are refused. */
#include <fcntl.h>

#include "base/random.h"
#include "inputs.h"

/* All sequences of some files as one text, "id|line|label|text\n", with their pieces joined. */
static ll_status listing(char *out, size_t capacity, const ll_input_options *how, int n, const char *const *paths) {
    ll_input *in = NULL;
    ll_sequence s;
    size_t used = 0;
    int found = 1, open = 0;
    ll_status status = ll_input_open(&in, paths, n, how);
    out[0] = 0;
    while (!status && !(status = ll_input_next(in, &s, &found)) && found) {
        assert_true(s.begins == !open);
        assert_true(s.size <= (how->piece ? how->piece : 65536) || how->format == LL_INPUT_IDX);
        if (s.begins)
            used += (size_t)snprintf(out + used, capacity - used, "%s|%lld|%s|", s.id, (long long)s.line,
                                     s.label ? s.label : "-1");
        for (size_t i = 0; i < s.size; i++)
            used += (size_t)snprintf(out + used, capacity - used, s.text[i] < 32 ? "<%02x>" : "%c", s.text[i]);
        if (s.ends) used += (size_t)snprintf(out + used, capacity - used, "\n");
        open = !s.ends;
        assert_true(used < capacity);
    }
    if (!status) {
        assert_false(open);
        /* after the end comes the end again */
        CHECK_OK(ll_input_next(in, &s, &found));
        assert_false(found);
    }
    ll_input_close(in);
    return status;
}

static const ll_input_format AUTO = LL_INPUT_AUTO;

/* The listing does not depend on the size of pieces or on compression. */
static void check_listing(ll_input_format format, const char *data, size_t size, const char *expected) {
    static const size_t pieces[] = {0, 1, 2, 3, 7};
    char out[4000];
    const char *paths[] = {put("x", data, size), put_gz("x.gz", data, size), put_xz("x.xz", data, size),
#ifdef WITH_ZSTD
                           put_zst("x.zst", data, size)
#endif
    };
    for (size_t i = 0; i < sizeof paths / sizeof *paths && paths[i]; i++)
        for (size_t p = 0; p < sizeof pieces / sizeof *pieces; p++) {
            const ll_input_options how = {.format = format, .piece = pieces[p]};
            CHECK_OK(listing(out, sizeof out, &how, 1, paths + i));
            assert_string_equal(out, expected);
        }
}
static void check_text(ll_input_format format, const char *data, const char *expected) {
    check_listing(format, data, strlen(data), expected);
}

static void check_wrong(ll_input_format format, const char *data, const char *word) {
    char out[4000];
    const ll_input_options how = {.format = format};
    const char *path = put("wrong", data, strlen(data));
    CHECK_FAILS(listing(out, sizeof out, &how, 1, &path), LL_EFORMAT, word);
    if (!strstr(ll_error(), "/wrong")) fail_msg("\"%s\" does not name the file", ll_error());
}

static void test_lines(void **state) {
    (void)state;
    check_text(AUTO, "", "");
    check_text(AUTO, "one\n\nthree", "1|1|-1|one\n2|2|-1|\n3|3|-1|three\n");
    check_text(AUTO, "a b\r\nc\rd\r\n\n", "1|1|-1|a b\n2|2|-1|c<0d>d\n3|3|-1|\n");
    check_text(AUTO, "\n", "1|1|-1|\n");
    check_text(AUTO,
               "\xef\xbb\xbf"
               "a\n\xef\xbb\xbf\n",
               "1|1|-1|a\n2|2|-1|\xef\xbb\xbf\n");
    check_text(LL_INPUT_LINES, "\xef\xbb\xbf\n\xef", "1|1|-1|\n2|2|-1|\xef\n");
    check_text(AUTO, "ends with a return\r", "1|1|-1|ends with a return<0d>\n");
    check_text(LL_INPUT_LINES, ">x\n{\"text\": 1}\n", "1|1|-1|>x\n2|2|-1|{\"text\": 1}\n");
    check_listing(AUTO, "\0a\0\nb", 5, "1|1|-1|<00>a<00>\n2|2|-1|b\n");
    check_text(AUTO, "\x89 per mille\n", "1|1|-1|\x89 per mille\n"); /* a byte of its magic number makes no PNG */
    check_text(AUTO, "\x89PNG\r\n\x1a", "1|1|-1|\x89PNG\n2|2|-1|<1a>\n");
}

static void test_json(void **state) {
    (void)state;
    check_text(AUTO, "{\"text\": \"a\\u00e4\\u0000b\"}\r\n \n{\"id\": \"x y\", \"sequence\": \"\", \"n\": [1.5, {}]}",
               "1|1|-1|a\xc3\xa4<00>b\nx y|3|-1|\n");
    check_text(LL_INPUT_JSONL,
               "\xef\xbb\xbf{\"id\": -3, \"sequence\": \"no\", \"text\": \"yes\"}\n{\"id\": null, \"text\": \"2\"}",
               "-3|1|-1|yes\n2|2|-1|2\n");
    check_text(AUTO, "\xef\xbb\xbf{\"text\": \"yes\"}\n", "1|1|-1|yes\n");
    check_text(AUTO, "\xef\xbb\xbf", "");
    check_text(AUTO, "{\"id\": 7, \"text\": \"a\", \"hash\": 18446744073709551615}", "7|1|-1|a\n");
    check_wrong(AUTO, "{\"id\": 18446744073709551615, \"text\": \"a\"}", "neither string nor integer of 64 bits");
    check_wrong(AUTO, "{\"text\": \"a\"}\n{\"text\": \"b\"", "line 2: not JSON at byte");
    check_wrong(AUTO, "{\"text\": \"a\"}\n[1]\n", "line 2: not a JSON object");
    check_wrong(AUTO, "{\"txt\": \"a\"}\n", "line 1: the object has neither");
    check_wrong(AUTO, "{\"text\": 3}\n", "is not a string");
    check_wrong(AUTO, "{\"text\": \"\xff\"}\n", "line 1: not JSON");
    check_wrong(AUTO, "{\"text\": \"a\", \"text\": \"b\"}\n", "line 1: not JSON");
    check_wrong(AUTO, "{\"id\": [], \"text\": \"a\"}\n", "neither string nor integer");
    check_wrong(AUTO, "{\"id\": \"a\\u0000\", \"text\": \"a\"}\n", "a zero byte");
    char deep[400] = "{\"text\": \"a\", \"x\": ";
    for (int i = 0; i < 80; i++) strcat(deep, "[");
    check_wrong(AUTO, deep, "nested more than");
}

static void test_json_keys(void **state) {
    (void)state;
    char out[400];
    const char *path = put("keys", "{\"a\": \"x\", \"text\": \"t\", \"b\": 7}\n", 32);
    const ll_input_options how = {.text_key = "a", .id_key = "b"}, none = {.text_key = "c"};
    CHECK_OK(listing(out, sizeof out, &how, 1, &path));
    assert_string_equal(out, "7|1|-1|x\n");
    CHECK_FAILS(listing(out, sizeof out, &none, 1, &path), LL_EFORMAT, "no \"c\"");
    const ll_input_options labelled = {.label_key = "b"}, named = {.label_key = "a"}, no_label = {.label_key = "c"};
    CHECK_OK(listing(out, sizeof out, &labelled, 1, &path));
    assert_string_equal(out, "1|1|7|t\n");
    CHECK_OK(listing(out, sizeof out, &named, 1, &path));
    assert_string_equal(out, "1|1|x|t\n");
    CHECK_FAILS(listing(out, sizeof out, &no_label, 1, &path), LL_EFORMAT, "no \"c\"");
    const ll_input_options lines = {.label_key = "b", .format = LL_INPUT_LINES};
    CHECK_FAILS(listing(out, sizeof out, &lines, 1, &path), LL_EFORMAT, "not JSONL");
    const ll_input_options text = {.text_key = "a", .format = LL_INPUT_LINES},
                           id = {.id_key = "b", .format = LL_INPUT_LINES};
    CHECK_FAILS(listing(out, sizeof out, &text, 1, &path), LL_EFORMAT, "only JSONL has texts under a key");
    CHECK_FAILS(listing(out, sizeof out, &id, 1, &path), LL_EFORMAT, "only JSONL has names under a key");
    const ll_input_options file = {.labels = "labels"};
    CHECK_FAILS(listing(out, sizeof out, &file, 1, &path), LL_EFORMAT, "no idx file of images");
}

static void test_fasta(void **state) {
    (void)state;
    check_text(AUTO, ">a first one\nACGT\nac-g.t\n\n>b\n>c\r\nM K*\r\n;no\nL\n",
               "a|1|-1|ACGTacgt\nb|5|-1|\nc|6|-1|MKL\n");
    check_text(AUTO, ";comment\n\n>\nAC", "3|3|-1|AC\n");
    check_text(AUTO, ">end", "end|1|-1|\n");
    check_wrong(AUTO, ">a\nAC\nA1\n", "line 3: byte 0x31");
    check_wrong(AUTO, ">a\nA*C\n", "line 2: byte 0x2a");
    check_wrong(AUTO, ">a\nAC>\n", "line 2: byte 0x3e");
    check_wrong(AUTO, ">a\nAC;\n", "line 2: byte 0x3b");
    check_wrong(LL_INPUT_FASTA, "ACGT\n", "line 1: no header");
    check_wrong(AUTO, ">a\rMK\r>b\rMK\r", "line 1: a line that ends with CR alone");
    check_text(AUTO, ">a b\r\r\nMK\r\n>b\r", "a|1|-1|MK\nb|3|-1|\n");
    char name[5000];
    memset(name, 'x', sizeof name);
    name[0] = '>', name[sizeof name - 1] = 0;
    check_wrong(AUTO, name, "a name of more than");
}

static void test_whole(void **state) {
    (void)state;
    char out[4000], expected[4000];
    const ll_input_options how = {.format = LL_INPUT_WHOLE, .piece = 4};
    const char *paths[] = {put("one", "a\nb\n", 4), put("none", "", 0), put("two", "12345", 5)};
    CHECK_OK(listing(out, sizeof out, &how, 3, paths));
    snprintf(expected, sizeof expected, "%s|0|-1|a<0a>b<0a>\n%s|0|-1|\n%s|0|-1|12345\n", paths[0], paths[1], paths[2]);
    assert_string_equal(out, expected);
}

/* A text may have no sequence; an image or a piece of music is no empty file. */
static void test_empty(void **state) {
    (void)state;
    char out[4000];
    const ll_input_options text = {0}, image = {.width = 4, .height = 4}, music = {.format = LL_INPUT_MIDI};
    const char *path = put("none", "", 0);
    CHECK_OK(listing(out, sizeof out, &text, 1, &path));
    assert_string_equal(out, "");
    CHECK_FAILS(listing(out, sizeof out, &image, 1, &path), LL_EFORMAT, "none is empty, and no image");
    CHECK_FAILS(listing(out, sizeof out, &music, 1, &path), LL_EFORMAT, "none is empty, and no piece of music");
}

/* Files of different kinds, one after the other. Errors then name the file beside the line. */
static void test_files(void **state) {
    (void)state;
    char out[4000], expected[4000];
    const ll_input_options how = {0};
    const char *paths[] = {put("lines", "a\nb", 3), put("fasta", ">s\nAC", 5), put("json", "{\"text\":\"t\"}", 12)};
    CHECK_OK(listing(out, sizeof out, &how, 3, paths));
    snprintf(expected, sizeof expected, "%s:1|1|-1|a\n%s:2|2|-1|b\ns|1|-1|AC\n%s:1|1|-1|t\n", paths[0], paths[0],
             paths[2]);
    assert_string_equal(out, expected);
    const char *missing[] = {paths[0], at("missing")}, *folders[] = {at("")};
    CHECK_FAILS(listing(out, sizeof out, &how, 2, missing), LL_EIO, "missing");
    CHECK_FAILS(listing(out, sizeof out, &how, 1, folders), LL_EIO, "is a folder");
    CHECK_FAILS(listing(out, sizeof out, &how, 0, NULL), LL_EINVAL, "no files");
}

static void test_standard_input(void **state) {
    (void)state;
    char out[4000];
    const ll_input_options how = {0};
    const char *minus = "-";
    const int keep = dup(0), fd = open(put("in", "x\ny\n", 4), O_RDONLY);
    assert_true(dup2(fd, 0) == 0);
    CHECK_OK(listing(out, sizeof out, &how, 1, &minus));
    assert_true(dup2(keep, 0) == 0);
    close(fd), close(keep);
    assert_string_equal(out, "1|1|-1|x\n2|2|-1|y\n");
}

/* Three images of 2 x 2, and their labels. */
static const uint8_t images[] = {0, 0,   8,   3,   0,   0, 0, 3, 0, 0,   0,   2,   0,   0, 0,
                                 2, 'a', 'b', 'c', 'd', 1, 2, 3, 4, '1', '2', '3', '4', 9};
static const uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 3, 5, 0, 9, 9};

static ll_status image_listing(char *out, size_t images_size, size_t labels_size) {
    const char *path = put("images", images, images_size);
    const ll_input_options how = {.labels = labels_size ? put("labels", labels, labels_size) : NULL, .piece = 3};
    ll_input_options idx = how;
    idx.format = LL_INPUT_IDX;
    return listing(out, 4000, &idx, 1, &path);
}

static void test_images(void **state) {
    (void)state;
    char out[4000];
    check_listing(LL_INPUT_IDX, (const char *)images, 28, "0|0|-1|abcd\n1|0|-1|<01><02><03><04>\n2|0|-1|1234\n");
    CHECK_OK(image_listing(out, 28, 11));
    assert_string_equal(out, "0|0|5|abcd\n1|0|0|<01><02><03><04>\n2|0|9|1234\n");
    CHECK_FAILS(image_listing(out, 27, 11), LL_EFORMAT, "ends in image 2 of 3");
    CHECK_FAILS(image_listing(out, 29, 11), LL_EFORMAT, "bytes follow the last");
    CHECK_FAILS(image_listing(out, 28, 10), LL_EFORMAT, "ends before label 2 of 3");
    CHECK_FAILS(image_listing(out, 28, 12), LL_EFORMAT, "bytes follow the last label");
    CHECK_FAILS(image_listing(out, 12, 11), LL_EFORMAT, "ends at byte 12");
    CHECK_FAILS(image_listing(out, 28, 7), LL_EFORMAT, "labels");
    /* the first bytes tell the format */
    const char *path = put("auto", images, 28);
    const ll_input_options how = {.piece = 16};
    CHECK_OK(listing(out, sizeof out, &how, 1, &path));
    assert_non_null(strstr(out, "2|0|-1|1234"));
}

/* A PNG file of two pixels, red 1, green 2, blue 3 and 4, 5, 6, as it is, gray, and wider. */
static void test_pictures(void **state) {
    (void)state;
    static const uint8_t png[] = {
        0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44, 0x52,
        0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x01, 0x08, 0x02, 0x00, 0x00, 0x00, 0x7b, 0x40, 0xe8,
        0xdd, 0x00, 0x00, 0x00, 0x0f, 0x49, 0x44, 0x41, 0x54, 0x78, 0x9c, 0x63, 0x60, 0x64, 0x62, 0x66,
        0x61, 0x65, 0x03, 0x00, 0x00, 0x3f, 0x00, 0x16, 0x21, 0xba, 0xd4, 0x54, 0x00, 0x00, 0x00, 0x00,
        0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82,
    };
    char out[4000];
    const char *path = put("picture.png", png, sizeof png);
    ll_input_options how = {0};
    CHECK_OK(listing(out, sizeof out, &how, 1, &path));
    assert_non_null(strstr(out, "|0|-1|<01><02><03><04><05><06>\n"));
    how.channels = 1;
    CHECK_OK(listing(out, sizeof out, &how, 1, &path));
    assert_non_null(strstr(out, "|0|-1|<02><05>\n"));
    how.width = 4, how.height = 2;
    CHECK_OK(listing(out, sizeof out, &how, 1, &path));
    assert_non_null(strstr(out, "|0|-1|<02><03><04><05><02><03><04><05>\n"));
    how.channels = 2;
    CHECK_FAILS(listing(out, sizeof out, &how, 1, &path), LL_EINVAL, "can be 1 or 3");
    how.channels = 3;
    path = put("picture.png", png, sizeof png - 20);
    CHECK_FAILS(listing(out, sizeof out, &how, 1, &path), LL_EFORMAT, "picture.png: a damaged PNG file");
    path = put("picture.png", png, 20);
    CHECK_FAILS(listing(out, sizeof out, &how, 1, &path), LL_EFORMAT, "picture.png: not a PNG file");
}

/* Damage in an archive is noticed where it is, and the error names the file. */
static void test_damage(void **state) {
    (void)state;
    char text[9000], out[20000];
    for (int i = 0; i < 9000; i++) text[i] = i % 60 == 59 ? '\n' : (char)('a' + ll_below(26, 1, 2, (uint64_t)i));
    const char *path = put_gz("cut.gz", text, sizeof text);
    const ll_input_options how = {0};
    assert_int_equal(truncate(path, 1500), 0);
    CHECK_FAILS(listing(out, sizeof out, &how, 1, &path), LL_EFORMAT, "cut.gz is truncated");
    path = put_xz("cut.xz", text, sizeof text);
    assert_int_equal(truncate(path, 1500), 0);
    CHECK_FAILS(listing(out, sizeof out, &how, 1, &path), LL_EFORMAT, "cut.xz is truncated");
}

static void test_progress(void **state) {
    (void)state;
    const char *paths[] = {put("p", "a\nb\n", 4), put("q", "c\n", 2)};
    const ll_input_options how = {0};
    ll_input *in = NULL;
    ll_sequence s;
    int found = 1;
    int64_t done, total, before = 0;
    const ll_input_options unknown = {.format = (ll_input_format)77};
    CHECK_FAILS(ll_input_open(&in, paths, 2, &unknown), LL_EINVAL, "format 77");
    CHECK_OK(ll_input_open(&in, paths, 2, &how));
    ll_input_progress(in, &done, &total);
    assert_int_equal(done, 0);
    assert_int_equal(total, 6);
    while (found) {
        CHECK_OK(ll_input_next(in, &s, &found));
        ll_input_progress(in, &done, &total);
        assert_true(done >= before);
        before = done;
    }
    assert_int_equal(done, 6);
    ll_input_close(in);
}

static void test_memory_can_end(void **state) {
    (void)state;
    static const char *const data[] = {"a\n", ">x\nAC\n", "{\"text\": \"a\"}\n"};
    const ll_input_options plain = {0};
    for (int i = 0; i < 3; i++) {
        const char *path = put("m", data[i], strlen(data[i]));
        const ll_input_options keys = {.text_key = "text", .id_key = "id"}, how = *data[i] == '{' ? keys : plain;
        char out[400];
        ll_status status = LL_ENOMEM;
        for (long n = 1; status; n++) {
            ll_memory_fail_at(n);
            status = listing(out, sizeof out, &how, 1, &path);
            ll_memory_fail_at(0);
            assert_true((!status || status == LL_ENOMEM) && n < 100);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),          cmocka_unit_test(test_json),           cmocka_unit_test(test_json_keys),
        cmocka_unit_test(test_fasta),          cmocka_unit_test(test_whole),          cmocka_unit_test(test_empty),
        cmocka_unit_test(test_files),          cmocka_unit_test(test_standard_input), cmocka_unit_test(test_images),
        cmocka_unit_test(test_pictures),       cmocka_unit_test(test_damage),         cmocka_unit_test(test_progress),
        cmocka_unit_test(test_memory_can_end),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
