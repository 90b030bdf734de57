/* Files: reading gives what was packed, and damage is noticed. Folders. */
#include "folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "packers.h"

/* Bytes that can be compressed, but not to nothing. */
static void fill(uint8_t *p, size_t n) {
    uint32_t x = 7;
    for (size_t i = 0; i < n; i++) {
        x = x * 1664525u + 1013904223u;
        p[i] = (uint8_t)(i % 16 < 8 ? x >> 28 : i >> 8);
    }
}

typedef size_t pack_fn(uint8_t *out, size_t most, const uint8_t *data, size_t size);
#ifdef WITH_ZSTD
static pack_fn *const packers[] = {pack_gzip, pack_xz, pack_zstd};
#else
static pack_fn *const packers[] = {pack_gzip, pack_xz};
#endif
enum { PACKERS = sizeof packers / sizeof *packers };

static void expect_content(const char *path, const uint8_t *data, size_t size) {
    ll_bytes b = {0};
    CHECK_OK(ll_file_read(&b, path, size));
    assert_int_equal(b.size, size);
    assert_memory_equal(b.data, data, size);
    assert_int_equal(b.data[size], 0);
    ll_bytes_free(&b);
    CHECK_OK(ll_file_map(&b, path));
    assert_int_equal(b.size, size);
    assert_memory_equal(b.data, data, size);
    assert_int_equal(b.data[size], 0);
    ll_bytes_free(&b);
    assert_null(b.data);
    if (size) CHECK_FAILS(ll_file_read(&b, path, size - 1), LL_EFORMAT, path);
}

/* Sizes around those of buffers and pages. */
static void test_what_is_written_is_read(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 1, 2, 4095, 4096, 4097, 65535, 65536, 65537, 131072, 1000003};
    uint8_t *data = malloc(1 << 20), *packed = malloc(2 << 20);
    fill(data, 1 << 20);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        CHECK_OK(ll_file_write(at("f"), data, sizes[i]));
        expect_content(at("f"), data, sizes[i]);
        for (int k = 0; k < PACKERS; k++) {
            put_file(at("p"), packed, packers[k](packed, 2 << 20, data, sizes[i]));
            expect_content(at("p"), data, sizes[i]);
        }
    }
    free(data);
    free(packed);
}

static void test_archives_one_after_the_other(void **state) {
    (void)state;
    uint8_t data[5000], packed[12000];
    fill(data, sizeof data);
    for (int k = 0; k < PACKERS; k++) {
        size_t n = packers[k](packed, sizeof packed, data, 3000);
        n += packers[k](packed + n, sizeof packed - n, data + 3000, 2000);
        memset(packed + n, 0, 512);
        put_file(at("p"), packed, n);
        expect_content(at("p"), data, sizeof data);
        put_file(at("p"), packed, n + 512); /* padded, as gzip and xz allow */
        if (k < 2) expect_content(at("p"), data, sizeof data);
        packed[n] = 'x'; /* followed by something that is no archive */
        ll_bytes b = {0};
        put_file(at("p"), packed, n + 512);
        CHECK_FAILS(ll_file_read(&b, at("p"), 1 << 20), LL_EFORMAT, "damaged");
    }
}

#ifdef WITH_ZSTD
/* pzstd writes a frame to skip, with the size of the next one, before every frame. */
static void test_frames_to_skip(void **state) {
    (void)state;
    uint8_t data[5000], packed[12000];
    fill(data, sizeof data);
    for (int first = 0x50; first <= 0x5f; first++) {
        size_t n = 0;
        for (int part = 0; part < 2; part++) {
            memcpy(packed + n, (const uint8_t[]){(uint8_t)first, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 'd', 'a', 't', 'a'}, 12);
            n += 12;
            n += pack_zstd(packed + n, sizeof packed - n, data + part * 2500, 2500);
        }
        put_file(at("p"), packed, n);
        expect_content(at("p"), data, sizeof data);
    }
    put_file(at("p"), "P*M", 3); /* the beginning of one, but no more */
    expect_content(at("p"), (const uint8_t *)"P*M", 3);
}
#endif

/* A file that is not there is read from the same file packed, whatever it is packed with. */
static void test_packed_files_stand_for_plain_ones(void **state) {
    (void)state;
    static const char *const ends[] = {"", ".gz", ".xz", ".zst"};
    uint8_t data[100], packed[1000];
    char name[32], other[32];
    fill(data, sizeof data);
    for (int k = 0; k < PACKERS; k++)
        for (int i = 0; i < 4; i++) {
            snprintf(name, sizeof name, "stem%d%s", k, ends[k + 1]);
            snprintf(other, sizeof other, "stem%d%s", k, ends[i]);
            put_file(at(name), packed, packers[k](packed, sizeof packed, data, sizeof data));
            expect_content(at(other), data, sizeof data);
        }
    ll_bytes b = {0};
    CHECK_FAILS(ll_file_read(&b, at("stem"), 1000), LL_EIO, "No such file");
}

static void test_every_truncation_is_noticed(void **state) {
    (void)state;
    uint8_t data[3000], packed[4000];
    ll_bytes b = {0};
    fill(data, sizeof data);
    for (int k = 0; k < PACKERS; k++) {
        const size_t n = packers[k](packed, sizeof packed, data, sizeof data);
        for (size_t cut = 6; cut < n; cut++) {
            put_file(at("cut"), packed, cut);
            CHECK_FAILS(ll_file_read(&b, at("cut"), 1 << 20), LL_EFORMAT, at("cut"));
            assert_null(b.data);
        }
    }
}

/* A checksum follows the content. A flipped bit is an error, unless it lies where nothing depends on it. */
static void test_flipped_bits_never_change_content(void **state) {
    (void)state;
    uint8_t data[400], packed[1000];
    ll_bytes b = {0};
    fill(data, sizeof data);
    for (int k = 0; k < PACKERS; k++) {
        const size_t n = packers[k](packed, sizeof packed, data, sizeof data);
        for (size_t bit = 8 * 6; bit < 8 * n; bit++) {
            packed[bit / 8] ^= (uint8_t)(1 << bit % 8);
            put_file(at("bit"), packed, n);
            const ll_status status = ll_file_read(&b, at("bit"), 1 << 20);
            if (status)
                assert_int_equal(status, LL_EFORMAT);
            else {
                assert_int_equal(b.size, sizeof data);
                assert_memory_equal(b.data, data, sizeof data);
                ll_bytes_free(&b);
            }
            packed[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
    }
}

/* Sound archives whose distances are too large. It is no use to fetch them again. */
static void test_archives_that_need_much_memory(void **state) {
    (void)state;
    enum { HEADER = 12 }; /* of a stream of xz; that of its first block follows */
    uint8_t xz[200];
    ll_bytes b = {0};
    const size_t n = pack_xz(xz, sizeof xz, (const uint8_t *)"text", 4), header = 4u * xz[HEADER];
    size_t filter = HEADER + 2;
    while (xz[filter] != 0x21 || xz[filter + 1] != 1)
        filter++;        /* the filter LZMA2 has one byte, the size of its dictionary: */
    xz[filter + 2] = 37; /* 1.5 GiB */
    const uint32_t sum = lzma_crc32(xz + HEADER, header, 0);
    for (int i = 0; i < 4; i++) xz[HEADER + header + (size_t)i] = (uint8_t)(sum >> 8 * i);
    put_file(at("wide"), xz, n);
    CHECK_FAILS(ll_file_read(&b, at("wide"), 10), LL_EFORMAT, "wide needs more than 1 GiB");
    assert_non_null(strstr(ll_error(), "xz -d"));
#ifdef WITH_ZSTD
    /* Magic number, no size, a window of 2 GiB, and the last block of four bytes as they are. */
    static const uint8_t zst[] = {0x28, 0xb5, 0x2f, 0xfd, 0, 21 << 3, 4 << 3 | 1, 0, 0, 't', 'e', 'x', 't'};
    put_file(at("wide"), zst, sizeof zst);
    CHECK_FAILS(ll_file_read(&b, at("wide"), 10), LL_EFORMAT, "wide needs more than 1 GiB");
    assert_non_null(strstr(ll_error(), "zstd -d --long=31"));
#endif
}

/* 64 MB of zeros in 64 kB are refused at the limit, before they are unpacked. */
static void test_the_limit_bounds_memory(void **state) {
    (void)state;
    enum { BIG = 64 << 20, LIMIT = 1 << 20 };
    uint8_t *zeros = calloc(BIG, 1), *packed = malloc(1 << 20);
    for (int k = 0; k < PACKERS; k++) {
        put_file(at("bomb"), packed, packers[k](packed, 1 << 20, zeros, BIG));
        ll_bytes b = {0};
        CHECK_FAILS(ll_file_read(&b, at("bomb"), LIMIT), LL_EFORMAT, "more than 1048576 bytes");
    }
    free(zeros);
    free(packed);
}

static void test_what_cannot_be_read(void **state) {
    (void)state;
    ll_bytes b = {0};
    CHECK_FAILS(ll_file_read(&b, at("nothing"), 10), LL_EIO, "nothing: No such file");
    CHECK_FAILS(ll_file_map(&b, at("nothing")), LL_EIO, "nothing: No such file");
    CHECK_FAILS(ll_file_read(&b, folder, 10), LL_EIO, "is a folder");
    CHECK_FAILS(ll_file_map(&b, folder), LL_EIO, "is a folder");
    CHECK_OK(ll_file_read(&b, "/dev/null", 10)); /* can be read, though its size is 0 */
    assert_int_equal(b.size, 0);
    ll_bytes_free(&b);
}

/* ---- Folders ---- */

static void test_folders(void **state) {
    (void)state;
    CHECK_OK(ll_folder_create(at("a//b/c/")));
    CHECK_OK(ll_folder_create(at("a/b/c")));
    assert_true(ll_is_folder(at("a/b/c")));
    CHECK_OK(ll_file_write(at("a/b/z"), "", 0));
    assert_false(ll_is_folder(at("a/b/z")));
    assert_false(ll_is_folder(at("a/b/none")));
    CHECK_FAILS(ll_folder_create(at("a/b/z")), LL_EIO, "a file has that name");
    CHECK_FAILS(ll_folder_create(at("a/b/z/y")), LL_EIO, "a/b/z");
    CHECK_FAILS(ll_folder_create(""), LL_EINVAL, "without a name");
}

static void test_lists(void **state) {
    (void)state;
    char **names = NULL;
    int n = -1;
    CHECK_OK(ll_folder_create(at("l/sub/deep")));
    CHECK_OK(ll_folder_list(&names, &n, at("l")));
    assert_int_equal(n, 0);
    ll_names_free(names, n);
    static const char *const files[] = {"l/B", "l/a", "l/sub/deep/1", "l/sub/0", "l/.hidden", "l/z"};
    static const char *const expected[] = {"l/B", "l/a", "l/broken", "l/sub/0", "l/sub/deep/1", "l/y", "l/z"};
    for (int i = 0; i < 6; i++) put_file(at(files[i]), "", 0);
    assert_int_equal(symlink("z", at("l/y")), 0);       /* a link to a file counts */
    assert_int_equal(symlink("..", at("l/sub/up")), 0); /* one to a folder could lead in a circle */
    assert_int_equal(symlink("none", at("l/broken")), 0); /* whoever reads it reports it */
    CHECK_OK(ll_folder_list(&names, &n, at("l")));
    assert_int_equal(n, 7);
    for (int i = 0; i < 7; i++) assert_string_equal(names[i], at(expected[i]));
    ll_names_free(names, n);
    CHECK_FAILS(ll_folder_list(&names, &n, at("l/none")), LL_EIO, "l/none");
}

/* As in a folder whose names may be read, but not what they are of: here the path of its file is too long. */
static void test_files_that_cannot_be_looked_at(void **state) {
    (void)state;
    enum { STEP = 201, LONG = 3900 };
    char path[4096], name[STEP], **names = NULL;
    size_t n = (size_t)snprintf(path, sizeof path, "%s", at("deep"));
    int count = 0;
    memset(name, 'd', STEP - 1);
    name[STEP - 1] = 0;
    while (n < LONG) n += (size_t)snprintf(path + n, sizeof path - n, "/%s", name);
    CHECK_OK(ll_folder_create(path));
    const int deep = open(path, O_RDONLY | O_DIRECTORY);
    const int file = openat(deep, name, O_WRONLY | O_CREAT, 0600);
    assert_true(deep >= 0 && file >= 0);
    close(file), close(deep);
    CHECK_FAILS(ll_folder_list(&names, &count, at("deep")), LL_EIO, "cannot look at");
}

static void test_paths(void **state) {
    (void)state;
    static const char *const cases[][3] = {{"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"", "b", "b"}, {"/", "b", "/b"}};
    for (int i = 0; i < 4; i++) {
        char *path = ll_path_join(cases[i][0], cases[i][1]);
        assert_string_equal(path, cases[i][2]);
        ll_free(path);
    }
}

/* ---- Memory refused at every place ---- */

static ll_status use_everything(void) {
    ll_bytes b = {0};
    char **names = NULL;
    int n = 0;
    ll_status status = ll_file_read(&b, at("m/packed.gz"), 1 << 20); /* it is m/packed */
    ll_bytes_free(&b);
    if (!status) status = ll_file_map(&b, at("m/packed"));
    ll_bytes_free(&b);
    if (!status) status = ll_folder_create(at("m/sub"));
    if (!status) status = ll_folder_list(&names, &n, at("m"));
    if (!status) ll_names_free(names, n);
    if (!status) status = ll_file_write(at("m/out"), "x", 1);
    ll_writer *output = NULL;
    if (!status) status = ll_writer_output(&output);
    ll_writer_abandon(output);
    return status;
}

static void test_a_descriptor_that_cannot_be_mapped(void **state) {
    (void)state;
    ll_bytes b = {0};
    CHECK_OK(ll_file_write(at("f"), "text", 4));
    const int fd = open(at("f"), O_WRONLY);
    assert_true(fd >= 0);
    CHECK_FAILS(ll_descriptor_map(&b, fd, 4, "name of it"), LL_EIO, "cannot read name of it: Permission denied");
    assert_null(b.data);
    close(fd);
}

static void test_refused_memory_is_survived(void **state) {
    (void)state;
    uint8_t data[2000], packed[3000];
    memset(data, 'x', sizeof data);
    CHECK_OK(ll_folder_create(at("m")));
    put_file(at("m/packed"), packed, pack_gzip(packed, sizeof packed, data, sizeof data));
    assert_true(check_refused_memory(use_everything) >= 10);
    assert_int_equal(files_in(at("m")), 3); /* packed, out, sub; no temporary file */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_written_is_read),
        cmocka_unit_test(test_archives_one_after_the_other),
#ifdef WITH_ZSTD
        cmocka_unit_test(test_frames_to_skip),
#endif
        cmocka_unit_test(test_packed_files_stand_for_plain_ones),
        cmocka_unit_test(test_every_truncation_is_noticed),
        cmocka_unit_test(test_flipped_bits_never_change_content),
        cmocka_unit_test(test_archives_that_need_much_memory),
        cmocka_unit_test(test_the_limit_bounds_memory),
        cmocka_unit_test(test_what_cannot_be_read),
        cmocka_unit_test(test_folders),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_files_that_cannot_be_looked_at),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_a_descriptor_that_cannot_be_mapped),
        cmocka_unit_test(test_refused_memory_is_survived),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
