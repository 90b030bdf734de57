/* Reading safetensors: files written by hand, headers that are wrong in every way, files of other programs. */
#include "folder.h"

#include <glob.h>
#include <unistd.h>

#include "base/safetensors.h"

static void put(const char *path, uint64_t claim, const char *header, size_t header_size, const void *data,
                size_t size) {
    remove(path); /* emptying and refilling a file would flush it to the disk each time */
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fwrite(&claim, 8, 1, f);
    fwrite(header, 1, header_size, f);
    if (size) fwrite(data, 1, size, f);
    assert_int_equal(fclose(f), 0);
}

static ll_status open_text(ll_safetensors **file, const char *header, size_t data) {
    static const uint8_t bytes[64] = {1, 2, 3, 4, 5, 6, 7, 8};
    put(at("f"), strlen(header), header, strlen(header), bytes, data);
    return ll_safetensors_open(file, at("f"));
}

/* Offsets out of order, an empty tensor, a scalar, a type that is only stored, data at odd addresses. */
static void test_a_file_by_hand(void **state) {
    (void)state;
    const char *header = "{\"b\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[3,11]},"
                         "\"__metadata__\":{\"k\":\"v\",\"\\u00e9\":\"\"},"
                         "\"none\":{\"dtype\":\"F64\",\"shape\":[0,5],\"data_offsets\":[3,3]},"
                         "\"s\":{\"shape\":[],\"dtype\":\"U16\",\"data_offsets\":[11,13]},"
                         "\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}}   ";
    uint8_t data[13] = {7, 8, 255};
    const float values[2] = {1.5f, -2.0f};
    float out[3];
    memcpy(data + 3, values, 8);
    put(at("f"), strlen(header), header, strlen(header), data, sizeof data);
    ll_safetensors *f = NULL;
    CHECK_OK(ll_safetensors_open(&f, at("f")));
    assert_string_equal(ll_safetensors_path(f), at("f"));
    assert_int_equal(ll_safetensors_count(f), 4);
    static const char *const order[] = {"a", "none", "b", "s"};
    for (int i = 0; i < 4; i++) assert_string_equal(ll_safetensors_at(f, i)->name, order[i]);
    assert_null(ll_safetensors_at(f, 4));
    assert_null(ll_safetensors_at(f, -1));
    const ll_st_tensor *b = ll_safetensors_find(f, "b"), *s = ll_safetensors_find(f, "s");
    assert_true(b->dtype == LL_F32 && b->rank == 2 && b->shape[0] == 1 && b->shape[1] == 2 && b->count == 2);
    ll_st_floats(out, b);
    assert_true(out[0] == 1.5f && out[1] == -2.0f);
    ll_st_floats(out, ll_safetensors_find(f, "a"));
    assert_true(out[0] == 7 && out[1] == 8 && out[2] == 255);
    assert_true(s->dtype == LL_OTHER && s->rank == 0 && s->count == 1);
    ll_st_floats(out, s);
    assert_true(isnan(out[0]));
    assert_int_equal(ll_safetensors_find(f, "none")->count, 0);
    ll_st_floats(NULL, ll_safetensors_find(f, "none"));
    assert_null(ll_safetensors_find(f, "__metadata__"));
    assert_string_equal(ll_safetensors_meta(f, "k"), "v");
    assert_string_equal(ll_safetensors_meta(f, "\xc3\xa9"), "");
    assert_null(ll_safetensors_meta(f, "none"));
    ll_safetensors_free(f);
    ll_safetensors_free(NULL);
    f = NULL;
    CHECK_OK(open_text(&f, "{}", 0)); /* no metadata either */
    assert_null(ll_safetensors_meta(f, "k"));
    ll_safetensors_free(f);
}

static void test_headers_that_lie(void **state) {
    (void)state;
#define T(dtype, shape, offsets) "{\"t\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
    static const struct {
        const char *header;
        size_t data;
        const char *word;
    } bad[] = {
        {T("F32", "[2]", "[0,8]"), 7, "truncated: tensor t ends at byte 8 of the data, which has 7"},
        {T("F32", "[2]", "[0,8]"), 9, "has 9 bytes, its tensors end at 8"},
        {T("F32", "[2]", "[1,9]"), 9, "tensor t begins at byte 1 of the data, leaving a hole"},
        {T("F32", "[3]", "[0,8]"), 8, "3 elements of type F32 but 8 bytes"},
        {T("F64", "[2]", "[0,8]"), 8, "2 elements of type F64 but 8 bytes"},
        {T("F32", "[2]", "[8,0]"), 8, "no data_offsets"},
        {T("F32", "[2]", "[-8,0]"), 8, "no data_offsets"},
        {T("F32", "[2]", "[0,8,8]"), 8, "no data_offsets"},
        {T("F32", "[2]", "[0.0,8.0]"), 8, "no data_offsets"},
        {T("F32", "[2]", "8"), 8, "no data_offsets"},
        {T("F32", "[2]", "[0,9223372036854775807]"), 8, "truncated"},
        {T("F32", "[2]", "[0,18446744073709551624]"), 8, "not JSON"},
        {T("F32", "[-2]", "[0,8]"), 8, "impossible size in axis 0"},
        {T("F32", "[\"2\"]", "[0,8]"), 8, "impossible size in axis 0"},
        {T("F32", "[4611686018427387905,4]", "[0,16]"), 16, "impossible size in axis 1"},
        {T("F32", "[4611686018427387905]", "[0,4]"), 4, "elements of type F32 but 4 bytes"},
        {T("F32", "[1,1,1,1,1,1,1,1,2]", "[0,8]"), 8, "at most 8 axes"},
        {T("F32", "2", "[0,8]"), 8, "no shape"},
        {T("F33", "[2]", "[0,8]"), 8, "type F33"},
        {T("", "[2]", "[0,8]"), 8, "which is not known"},
        {"{\"t\":{\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "type none"},
        {"{\"t\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", 8, "no shape"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, "no data_offsets"},
        {"{\"t\":3}", 0, "type none"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
         "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
         3, "tensor b begins at byte 1 of the data, overlapping"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
         "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}",
         2, "tensor b begins at byte 0 of the data, overlapping"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"
         "\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}",
         0, "duplicate"},
        {"{\"__metadata__\":[]}", 0, "__metadata__"},
        {"{\"__metadata__\":{\"a\":1}}", 0, "metadata a is not text"},
        {"{\"a\\u0000b\":{}}", 0, "not JSON"},
        {"{\"a\":", 0, "not JSON"},
        {"[]", 0, "does not begin with {"},
        {" {}", 0, "does not begin with {"},
        {"{\"a\":[[[[[[[[[[]]]]]]]]]]}", 0, "nested more than 8 deep"},
        {"{\"a\":\"\\\"[[[[[[[[[[[[\",\"b\":[}", 0, "not JSON"},
        {"{\"a\xff\":1}", 0, "not JSON"},
    };
#undef T
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ll_safetensors *f = NULL;
        CHECK_FAILS(open_text(&f, bad[i].header, bad[i].data), LL_EFORMAT, bad[i].word);
        CHECK_FAILS(open_text(&f, bad[i].header, bad[i].data), LL_EFORMAT, at("f"));
        assert_null(f);
    }
}

static void test_sizes_that_lie(void **state) {
    (void)state;
    ll_safetensors *f = NULL;
    put(at("f"), 3, "{}", 2, NULL, 0);
    CHECK_FAILS(ll_safetensors_open(&f, at("f")), LL_EFORMAT, "truncated");
    put(at("f"), UINT64_MAX, "{}", 2, NULL, 0);
    CHECK_FAILS(ll_safetensors_open(&f, at("f")), LL_EFORMAT, "claims a header of 18446744073709551615 bytes");
    put(at("f"), (1 << 24) + 1, "{}", 2, NULL, 0);
    CHECK_FAILS(ll_safetensors_open(&f, at("f")), LL_EFORMAT, "claims a header");
    put(at("f"), 0, "{}", 2, NULL, 0);
    CHECK_FAILS(ll_safetensors_open(&f, at("f")), LL_EFORMAT, "not JSON");
    CHECK_OK(ll_file_write(at("f"), "1234567", 7));
    CHECK_FAILS(ll_safetensors_open(&f, at("f")), LL_EFORMAT, "7 bytes");
    CHECK_OK(ll_file_write(at("f"), "", 0));
    CHECK_FAILS(ll_safetensors_open(&f, at("f")), LL_EFORMAT, "0 bytes");
    CHECK_OK(ll_file_write(at("f"), "[model]\nwidth = 3\n", 18));
    CHECK_FAILS(ll_safetensors_open(&f, at("f")), LL_EFORMAT, "not a safetensors file");
    CHECK_FAILS(ll_safetensors_open(&f, at("none")), LL_EIO, "none");
    CHECK_FAILS(ll_safetensors_open(&f, folder), LL_EIO, "folder");
    assert_null(f);
}

/* A hundred thousand brackets would exhaust the stack of a recursive parser. */
static void test_deep_headers(void **state) {
    (void)state;
    enum { N = 100000 };
    char *deep = malloc(N);
    ll_safetensors *f = NULL;
    memset(deep, '[', N);
    memcpy(deep, "{\"a\":", 5);
    put(at("f"), N, deep, N, NULL, 0);
    CHECK_FAILS(ll_safetensors_open(&f, at("f")), LL_EFORMAT, "deep");
    free(deep);
}

static void test_golden_files(void **state) {
    (void)state;
    const char *shared = getenv("LL_SHARED");
    char pattern[512];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/golden/*.safetensors", shared ? shared : "../shared");
    if (glob(pattern, 0, NULL, &found)) {
        printf("no golden files in %s: reading them was not tested\n", pattern);
        skip();
    }
    for (size_t i = 0; i < found.gl_pathc; i++) {
        ll_safetensors *f = NULL;
        CHECK_OK(ll_safetensors_open(&f, found.gl_pathv[i]));
        const ll_st_tensor *y = ll_safetensors_find(f, "y");
        assert_true(y && (y->dtype == LL_F64 || y->dtype == LL_F32) && y->rank == 4);
        double *values = malloc(y->count * sizeof *values);
        ll_st_doubles(values, y);
        for (size_t j = 0; j < y->count; j++) assert_true(isfinite(values[j]));
        free(values);
        assert_non_null(ll_safetensors_meta(f, "case"));
        ll_safetensors_free(f);
    }
    printf("read %zu golden files\n", found.gl_pathc);
    globfree(&found);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_file_by_hand), cmocka_unit_test(test_headers_that_lie),
        cmocka_unit_test(test_sizes_that_lie), cmocka_unit_test(test_deep_headers),
        cmocka_unit_test(test_golden_files),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
