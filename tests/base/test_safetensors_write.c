/* Writing safetensors: files are read back, checked against the format without our reader, damaged, interrupted. */
#include "folder.h"

#include <jansson.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/safetensors.h"

static const float floats[6] = {0, -1.5f, 3e38f, 1e-40f, 5, 6};
static const double doubles[2] = {0.1, -1e300};
static const int32_t ints[3] = {INT32_MIN, 7, INT32_MAX};
static const int64_t longs[1] = {INT64_MAX};
static const uint8_t bytes[5] = {0, 1, 2, 254, 255};

static ll_status save(const char *path) {
    ll_st_writer *w = NULL;
    ll_status status = ll_st_writer_create(&w);
    if (!status) status = ll_st_meta(w, "recipe", "[model]\nwidth = 64 \"\xc3\xa9\"\n");
    if (!status) status = ll_st_add(w, "bytes", LL_U8, 1, (size_t[]){5}, bytes);
    if (!status) status = ll_st_add(w, "floats", LL_F32, 2, (size_t[]){2, 3}, floats);
    if (!status) status = ll_st_add(w, "empty", LL_F32, 2, (size_t[]){0, 3}, NULL);
    if (!status) status = ll_st_add(w, "longs", LL_I64, 0, NULL, longs);
    if (!status) status = ll_st_add(w, "ints", LL_I32, 1, (size_t[]){3}, ints);
    if (!status) status = ll_st_add(w, "doubles", LL_F64, 3, (size_t[]){1, 2, 1}, doubles);
    if (!status) status = ll_st_save(w, path);
    ll_st_writer_free(w);
    return status;
}

static void expect_doubles(const ll_safetensors *f, const char *name, int n, const double *expected) {
    double d[8];
    float x[8];
    const ll_st_tensor *t = ll_safetensors_find(f, name);
    assert_non_null(t);
    assert_int_equal(t->count, n);
    ll_st_doubles(d, t);
    ll_st_floats(x, t);
    for (int i = 0; i < n; i++) assert_true(d[i] == expected[i] && x[i] == (float)expected[i]);
}

static void test_written_is_read(void **state) {
    (void)state;
    ll_safetensors *f = NULL;
    double d[8];
    CHECK_OK(save(at("w")));
    CHECK_OK(ll_safetensors_open(&f, at("w")));
    assert_int_equal(ll_safetensors_count(f), 6);
    assert_string_equal(ll_safetensors_meta(f, "recipe"), "[model]\nwidth = 64 \"\xc3\xa9\"\n");
    for (int i = 0; i < 6; i++) d[i] = (double)floats[i];
    expect_doubles(f, "floats", 6, d);
    expect_doubles(f, "doubles", 2, (double[]){0.1, -1e30 * 1e270});
    expect_doubles(f, "ints", 3, (double[]){-2147483648.0, 7, 2147483647.0});
    expect_doubles(f, "longs", 1, (double[]){9223372036854775807.0});
    expect_doubles(f, "bytes", 5, (double[]){0, 1, 2, 254, 255});
    expect_doubles(f, "empty", 0, NULL);
    const ll_st_tensor *t = ll_safetensors_find(f, "doubles");
    assert_true(t->rank == 3 && t->shape[0] == 1 && t->shape[1] == 2 && t->shape[2] == 1);
    assert_int_equal(ll_safetensors_find(f, "longs")->rank, 0);
    for (int i = 0; i < 6; i++) { /* every tensor is aligned to its element */
        static const size_t size[] = {[LL_F32] = 4, [LL_F64] = 8, [LL_I32] = 4, [LL_I64] = 8, [LL_U8] = 1};
        t = ll_safetensors_at(f, i);
        assert_int_equal((uintptr_t)t->data % size[t->dtype], 0);
    }
    ll_safetensors_free(f);
}

/* Tensors of whole cache lines are aligned to lines, whatever else the file holds. */
static void test_lines(void **state) {
    (void)state;
    static const double odd[3] = {1, 2, 3};
    static float row[32];
    ll_st_writer *w;
    ll_safetensors *f = NULL;
    for (int i = 0; i < 32; i++) row[i] = (float)i;
    CHECK_OK(ll_st_writer_create(&w));
    CHECK_OK(ll_st_add(w, "odd", LL_F64, 1, (size_t[]){3}, odd));
    CHECK_OK(ll_st_add(w, "row", LL_F32, 1, (size_t[]){32}, row));
    CHECK_OK(ll_st_add(w, "part", LL_F32, 1, (size_t[]){5}, row));
    CHECK_OK(ll_st_add(w, "half", LL_F32, 2, (size_t[]){2, 8}, row + 16));
    CHECK_OK(ll_st_save(w, at("lines")));
    ll_st_writer_free(w);
    CHECK_OK(ll_safetensors_open(&f, at("lines")));
    const char *first = ll_safetensors_find(f, "row")->data;
    assert_int_equal((const char *)ll_safetensors_find(f, "half")->data - first, sizeof row);
    assert_int_equal((const char *)ll_safetensors_find(f, "odd")->data - first, sizeof row + 64);
    assert_int_equal((uintptr_t)first % 64, 0);
    assert_memory_equal(first, row, sizeof row);
    assert_memory_equal(ll_safetensors_find(f, "odd")->data, odd, sizeof odd);
    ll_safetensors_free(f);
}

/* The same file is checked with a JSON parser by the rules of the format, without our reader. */
static void test_written_is_the_format(void **state) {
    (void)state;
    ll_bytes b = {0};
    uint64_t n;
    CHECK_OK(save(at("w")));
    CHECK_OK(ll_file_read(&b, at("w"), 1 << 20));
    memcpy(&n, b.data, 8);
    assert_int_equal((n + 8) % 64, 0);
    assert_int_equal(b.data[8], '{');
    json_t *header = json_loadb((const char *)b.data + 8, n, 0, NULL);
    assert_non_null(header);
    const json_t *t = json_object_get(header, "floats"), *o = json_object_get(t, "data_offsets");
    assert_string_equal(json_string_value(json_object_get(t, "dtype")), "F32");
    assert_int_equal(json_integer_value(json_array_get(json_object_get(t, "shape"), 1)), 3);
    const json_int_t begin = json_integer_value(json_array_get(o, 0)), end = json_integer_value(json_array_get(o, 1));
    assert_int_equal(end - begin, sizeof floats);
    assert_memory_equal(b.data + 8 + n + begin, floats, sizeof floats);
    assert_int_equal(b.size, 8 + n + 24 + 36 + 5);
    json_decref(header);
    ll_bytes_free(&b);
}

static void test_what_cannot_be_written(void **state) {
    (void)state;
    ll_st_writer *w = NULL;
    const size_t shape[9] = {SIZE_MAX / 2, 3, 1, 1, 1, 1, 1, 1, 1};
    CHECK_OK(ll_st_writer_create(&w));
    CHECK_OK(ll_st_add(w, "a", LL_U8, 1, (size_t[]){5}, bytes));
    CHECK_FAILS(ll_st_add(w, "a", LL_U8, 1, (size_t[]){5}, bytes), LL_EINVAL, "already");
    CHECK_FAILS(ll_st_add(w, "b", LL_U8, 2, shape, bytes), LL_EINVAL, "larger than any file");
    CHECK_FAILS(ll_st_add(w, "b", LL_F64, 1, shape, bytes), LL_EINVAL, "larger than any file");
    CHECK_FAILS(ll_st_add(w, "b", LL_U8, 9, shape, bytes), LL_EINVAL, "rank 9");
    CHECK_FAILS(ll_st_add(w, "b", LL_OTHER, 1, (size_t[]){5}, bytes), LL_EINVAL, "b cannot");
    CHECK_FAILS(ll_st_meta(w, "m", "\xff"), LL_EINVAL, "UTF-8");
    CHECK_FAILS(ll_st_save(w, at("no/f")), LL_EIO, "no/f");
    ll_st_writer_free(w);
    ll_st_writer_free(NULL);
}

/* A reader refuses headers of more than 16 MiB, so none is written. */
static void test_a_header_that_is_too_long(void **state) {
    (void)state;
    enum { LONG = (1 << 24) + 1 };
    ll_st_writer *w = NULL;
    char *text = malloc(LONG + 1);
    assert_non_null(text);
    memset(text, 'x', LONG);
    text[LONG] = 0;
    CHECK_OK(ll_st_writer_create(&w));
    CHECK_OK(ll_st_meta(w, "long", text));
    CHECK_FAILS(ll_st_save(w, at("header")), LL_EINVAL, "more than the 16777216 that can be read");
    assert_int_equal(access(at("header"), F_OK), -1);
    ll_st_writer_free(w);
    free(text);
}

static void test_signed_bytes(void **state) {
    (void)state;
    static const int8_t signed_bytes[4] = {-128, -1, 0, 127};
    ll_st_writer *w = NULL;
    ll_safetensors *f = NULL;
    CHECK_OK(ll_st_writer_create(&w));
    CHECK_OK(ll_st_add(w, "signed", LL_ST_I8, 1, (size_t[]){4}, signed_bytes));
    CHECK_OK(ll_st_save(w, at("signed")));
    CHECK_OK(ll_safetensors_open(&f, at("signed")));
    expect_doubles(f, "signed", 4, (double[]){-128, -1, 0, 127});
    ll_safetensors_free(f);
    ll_st_writer_free(w);
}

/* ---- Damage ---- */

/* Every type of element is written and found again, also where the tensor is not a multiple of a cache line. */
static void test_every_type_is_written(void **state) {
    (void)state;
    static const uint8_t data[24] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    ll_st_writer *w = NULL;
    ll_safetensors *f = NULL;
    char name[16];
    CHECK_OK(ll_st_writer_create(&w));
    for (int dtype = 0; dtype < (int)LL_OTHER; dtype++) {
        snprintf(name, sizeof name, "t%d", dtype);
        CHECK_OK(ll_st_add(w, name, (enum ll_dtype)dtype, 1, (size_t[]){3}, data));
    }
    CHECK_OK(ll_st_save(w, at("types")));
    ll_st_writer_free(w);
    CHECK_OK(ll_safetensors_open(&f, at("types")));
    assert_int_equal(ll_safetensors_count(f), LL_OTHER);
    for (int dtype = 0; dtype < (int)LL_OTHER; dtype++) {
        snprintf(name, sizeof name, "t%d", dtype);
        const ll_st_tensor *t = ll_safetensors_find(f, name);
        assert_non_null(t);
        assert_int_equal(t->dtype, dtype);
        assert_memory_equal(t->data, data, t->bytes);
        assert_int_equal((uintptr_t)t->data % (t->bytes / 3), 0);
    }
    ll_safetensors_free(f);
}

static void test_every_truncation_is_noticed(void **state) {
    (void)state;
    ll_bytes b = {0};
    ll_safetensors *f = NULL;
    CHECK_OK(save(at("w")));
    CHECK_OK(ll_file_read(&b, at("w"), 1 << 20));
    for (size_t cut = 0; cut < b.size; cut++) {
        put_file(at("cut"), b.data, cut);
        CHECK_FAILS(ll_safetensors_open(&f, at("cut")), LL_EFORMAT, at("cut"));
    }
    ll_bytes_free(&b);
}

/* What a file says besides the bytes of tensors and checksums is what was written. */
static void check_contents(const ll_safetensors *f, size_t bit) {
    static const char *const names[] = {"bytes", "floats", "empty", "longs", "ints", "doubles"};
    static const size_t counts[] = {5, 6, 0, 1, 3, 2};
    const char *recipe = ll_safetensors_meta(f, "recipe");
    int same = recipe && !strcmp(recipe, "[model]\nwidth = 64 \"\xc3\xa9\"\n") && ll_safetensors_count(f) == 6;
    for (int i = 0; i < 6; i++) {
        const ll_st_tensor *t = ll_safetensors_find(f, names[i]);
        same = same && t && t->count == counts[i];
    }
    if (!same) fail_msg("bit %zu: the file opens, and says something else", bit);
}

/* Some flips give another valid file, as in a checksum's name. None may make the reader leave the file, or say
 * something else. */
static void test_flipped_bits(void **state) {
    (void)state;
    ll_bytes b = {0};
    CHECK_OK(save(at("w")));
    CHECK_OK(ll_file_read(&b, at("w"), 1 << 20));
    int opened = 0;
    for (size_t bit = 0; bit < 8 * b.size; bit++) {
        ll_safetensors *f = NULL;
        double d[8];
        b.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        put_file(at("bit"), b.data, b.size);
        if (!ll_safetensors_open(&f, at("bit"))) opened++;
        for (int i = 0; f && i < ll_safetensors_count(f); i++) ll_st_doubles(d, ll_safetensors_at(f, i));
        if (f) check_contents(f, bit);
        ll_safetensors_free(f);
        b.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    assert_true(opened > 0);
    ll_bytes_free(&b);
}

static void test_a_full_disk_keeps_the_old_file(void **state) {
    (void)state;
    struct rlimit before, full;
    ll_safetensors *f = NULL;
    CHECK_OK(save(at("w")));
    const int n = files_in(folder);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    full = before;
    full.rlim_cur = 100;
    setrlimit(RLIMIT_FSIZE, &full);
    const ll_status status = save(at("w"));
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(status, LL_EIO);
    assert_int_equal(files_in(folder), n);
    CHECK_OK(ll_safetensors_open(&f, at("w")));
    ll_safetensors_free(f);
}

static ll_status open_saved(const char *path) {
    ll_safetensors *f = NULL;
    const ll_status status = ll_safetensors_open(&f, path);
    ll_safetensors_free(f);
    return status;
}

static ll_status save_in_folder(void) {
    return save(at("memory"));
}

static ll_status open_in_folder(void) {
    return open_saved(at("memory"));
}

static void test_refused_memory_is_survived(void **state) {
    (void)state;
    assert_true(check_refused_memory(save_in_folder) >= 8);
    assert_true(check_refused_memory(open_in_folder) >= 8);
}

/* jansson, of which one allocation is refused: each of those that a file takes. */
static long left = -1;

static void *refusing(size_t size) {
    if (left == 0) {
        left = -1;
        return NULL;
    }
    if (left > 0) left--;
    return malloc(size);
}

static void test_jansson_without_memory(void **state) {
    (void)state;
    ll_status status = LL_ENOMEM;
    long n = 0;
    CHECK_OK(save(at("jansson")));
    ll_bytes old = {0}, now = {0};
    CHECK_OK(ll_file_read(&old, at("jansson"), 1 << 20));
    for (; status && n < 1000; n++) {
        left = n;
        status = save(at("jansson"));
        left = -1;
        if (status) CHECK_FAILS(status, LL_ENOMEM, "no memory");
        CHECK_OK(ll_file_read(&now, at("jansson"), 1 << 20));
        assert_int_equal(now.size, old.size);
        assert_memory_equal(now.data, old.data, old.size);
        ll_bytes_free(&now);
    }
    CHECK_OK(status);
    assert_true(n > 40);
    ll_bytes_free(&old);
}

/* Digests are stored in files, so the digest of a content never changes. Different contents have different digests. */
static void test_digest(void **state) {
    (void)state;
    static const char *const texts[][3] = {
        {"key", "value", "x"}, {"key", "valu", "x"}, {"keyvalue", "", "x"}, {"key", "value", "y"}};
    float data[4] = {1, 2, 3, 4};
    char first[LL_DIGEST_TEXT] = "", hex[LL_DIGEST_TEXT];
    for (int i = 0; i < 7; i++) {
        ll_st_writer *w = NULL;
        const char *const *text = texts[i < 4 ? i : 0];
        const size_t shape[2] = {i == 4 ? 4 : 2, i == 4 ? 1 : 2};
        data[3] = i == 5 ? 5 : 4;
        CHECK_OK(ll_st_writer_create(&w));
        CHECK_OK(ll_st_meta(w, text[0], text[1]));
        CHECK_OK(ll_st_add(w, text[2], i == 6 ? LL_I32 : LL_F32, 2, shape, data));
        ll_st_digest(w, hex);
        ll_st_writer_free(w);
        if (i == 0) memcpy(first, hex, sizeof hex);
        if (i > 0) assert_string_not_equal(first, hex);
    }
    assert_string_equal(first, "1b9e6242085a087e1e2708ea67335307");
}

int main(void) {
    json_set_alloc_funcs(refusing, free); /* as a program would: before its first call of the library */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_written_is_read),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_written_is_the_format),
        cmocka_unit_test(test_what_cannot_be_written),
        cmocka_unit_test(test_a_header_that_is_too_long),
        cmocka_unit_test(test_signed_bytes),
        cmocka_unit_test(test_every_type_is_written),
        cmocka_unit_test(test_every_truncation_is_noticed),
        cmocka_unit_test(test_flipped_bits),
        cmocka_unit_test(test_jansson_without_memory),
        cmocka_unit_test(test_a_full_disk_keeps_the_old_file),
        cmocka_unit_test(test_refused_memory_is_survived),
        cmocka_unit_test(test_digest),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
