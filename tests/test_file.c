/* Files: reading gives what was packed, damage is noticed, and a written file is whole or absent. */
#include "folder.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
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

/* ---- Writing ---- */

static void test_an_abandoned_file_leaves_nothing(void **state) {
    (void)state;
    CHECK_OK(ll_folder_create(at("w")));
    CHECK_OK(ll_file_write(at("w/f"), "old", 3));
    ll_writer *w = NULL;
    CHECK_OK(ll_writer_open(&w, at("w/f")));
    CHECK_OK(ll_writer_put(w, "new", 3));
    assert_int_equal(files_in(at("w")), 2);
    expect_content(at("w/f"), (const uint8_t *)"old", 3);
    ll_writer_abandon(w);
    ll_writer_abandon(NULL);
    assert_int_equal(files_in(at("w")), 1);
    expect_content(at("w/f"), (const uint8_t *)"old", 3);
}

/* A full disk: no file of this process may grow beyond 100 kB. */
static void test_a_full_disk_keeps_the_old_file(void **state) {
    (void)state;
    static const size_t sizes[] = {100001, 150000, 3 << 20};
    struct rlimit before, full;
    uint8_t *data = calloc(1, 3 << 20);
    CHECK_OK(ll_folder_create(at("full")));
    CHECK_OK(ll_file_write(at("full/f"), "old", 3));
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    full = before;
    full.rlim_cur = 100000;
    for (int i = 0; i < 3; i++) {
        setrlimit(RLIMIT_FSIZE, &full);
        const ll_status status = ll_file_write(at("full/f"), data, sizes[i]);
        ll_writer *w = NULL; /* and in pieces, continuing after the failure */
        const ll_status opened = ll_writer_open(&w, at("full/f"));
        ll_status put_status = LL_OK;
        for (size_t j = 0; j < sizes[i] / 1000 + 1 && w; j++)
            if (ll_writer_put(w, data, 1000)) put_status = LL_EIO;
        const ll_status committed = ll_writer_commit(w);
        setrlimit(RLIMIT_FSIZE, &before);
        assert_int_equal(status, LL_EIO);
        assert_int_equal(opened, LL_OK);
        if (sizes[i] > 200000) assert_int_equal(put_status, LL_EIO);
        assert_int_equal(committed, LL_EIO);
        assert_non_null(strstr(ll_error(), "full/f"));
        assert_int_equal(files_in(at("full")), 1);
        expect_content(at("full/f"), (const uint8_t *)"old", 3);
    }
    signal(SIGXFSZ, SIG_DFL);
    free(data);
}

static void test_what_cannot_be_written(void **state) {
    (void)state;
    CHECK_FAILS(ll_file_write(at("no/f"), "x", 1), LL_EIO, "no/f: No such file");
    CHECK_FAILS(ll_file_write(folder, "x", 1), LL_EIO, "is a folder");
    CHECK_FAILS(ll_file_write("/dev/null", "x", 1), LL_EIO, "not a regular file");
    struct stat info;
    assert_true(!stat("/dev/null", &info) && S_ISCHR(info.st_mode));
}

static void test_a_link_stays_a_link(void **state) {
    (void)state;
    struct stat info;
    CHECK_OK(ll_folder_create(at("far")));
    CHECK_OK(ll_file_write(at("far/f"), "old", 3));
    assert_int_equal(symlink("far/f", at("link")), 0);
    CHECK_OK(ll_file_write(at("link"), "new", 3));
    expect_content(at("far/f"), (const uint8_t *)"new", 3);
    assert_true(!lstat(at("link"), &info) && S_ISLNK(info.st_mode));
    /* A link in the place of the new file is not followed. */
    char temp[4200];
    snprintf(temp, sizeof temp, "%s.tmp-longline", at("g"));
    assert_int_equal(symlink(at("far/f"), temp), 0);
    CHECK_OK(ll_file_write(at("g"), "mine", 4));
    expect_content(at("far/f"), (const uint8_t *)"new", 3);
    expect_content(at("g"), (const uint8_t *)"mine", 4);
}

/* A private file stays private while it is replaced and afterwards. */
static void test_permissions_stay(void **state) {
    (void)state;
    ll_writer *w = NULL;
    struct stat during, info;
    CHECK_OK(ll_file_write(at("private"), "old", 3));
    assert_true(!chmod(at("private"), 0600));
    CHECK_OK(ll_writer_open(&w, at("private")));
    assert_true(!stat(at("private.tmp-longline"), &during));
    CHECK_OK(ll_writer_commit(w));
    assert_true(!stat(at("private"), &info) && (during.st_mode & 0777) == 0600 && (info.st_mode & 0777) == 0600);
}

/* What a killed program left is overwritten. Two programs that write at the same time have files of their own. */
static void test_writers_of_one_file(void **state) {
    (void)state;
    char temp[4200];
    ll_writer *one = NULL, *two = NULL;
    snprintf(temp, sizeof temp, "%s.tmp-longline", at("h"));
    FILE *left = fopen(temp, "w");
    assert_true(left && fputs("a longer text that was left", left) > 0 && !fclose(left));
    CHECK_OK(ll_writer_open(&one, at("h")));
    CHECK_OK(ll_writer_open(&two, at("h")));
    CHECK_OK(ll_writer_put(two, "two", 3));
    CHECK_OK(ll_writer_put(one, "one", 3));
    CHECK_OK(ll_writer_commit(one));
    expect_content(at("h"), (const uint8_t *)"one", 3);
    CHECK_OK(ll_writer_commit(two));
    expect_content(at("h"), (const uint8_t *)"two", 3);
    assert_int_not_equal(access(temp, F_OK), 0);
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
    ll_status status = ll_file_read(&b, at("m/packed"), 1 << 20);
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

/* Where something else has the name of the unfinished file, even a pipe, it is removed. */
static void test_a_pipe_in_place_of_the_unfinished_file(void **state) {
    (void)state;
    CHECK_OK(ll_folder_create(at("pipe")));
    assert_int_equal(mkfifo(at("pipe/f.tmp-longline"), 0600), 0);
    const int reader = open(at("pipe/f.tmp-longline"), O_RDONLY | O_NONBLOCK);
    assert_true(reader >= 0);
    CHECK_OK(ll_file_write(at("pipe/f"), "new", 3));
    close(reader);
    expect_content(at("pipe/f"), (const uint8_t *)"new", 3);
    assert_int_equal(files_in(at("pipe")), 1);
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
        cmocka_unit_test(test_packed_files_stand_for_plain_ones),
        cmocka_unit_test(test_every_truncation_is_noticed),
        cmocka_unit_test(test_flipped_bits_never_change_content),
        cmocka_unit_test(test_the_limit_bounds_memory),
        cmocka_unit_test(test_what_cannot_be_read),
        cmocka_unit_test(test_an_abandoned_file_leaves_nothing),
        cmocka_unit_test(test_a_full_disk_keeps_the_old_file),
        cmocka_unit_test(test_what_cannot_be_written),
        cmocka_unit_test(test_a_link_stays_a_link),
        cmocka_unit_test(test_permissions_stay),
        cmocka_unit_test(test_writers_of_one_file),
        cmocka_unit_test(test_folders),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_a_pipe_in_place_of_the_unfinished_file),
        cmocka_unit_test(test_a_descriptor_that_cannot_be_mapped),
        cmocka_unit_test(test_refused_memory_is_survived),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
