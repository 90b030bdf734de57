/* Writing: a written file is whole or absent. */
#include "folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"

static int without_locks; /* the errno of a file system that has none, or 0 */

/* Replaces flock of the C library. */
int flock(int fd, int how) {
    if (!without_locks) return (int)syscall(SYS_flock, fd, how);
    errno = without_locks;
    return -1;
}

static void expect_content(const char *path, const uint8_t *data, size_t size) {
    ll_bytes b = {0};
    CHECK_OK(ll_file_read(&b, path, size));
    assert_int_equal(b.size, size);
    assert_memory_equal(b.data, data, size);
    ll_bytes_free(&b);
}

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

/* A name may be as long as the file system allows, also where two writers of it have unfinished files. */
static void test_long_names(void **state) {
    (void)state;
    char name[NAME_MAX + 6] = "long/";
    CHECK_OK(ll_folder_create(at("long")));
    for (size_t n = 200; n <= NAME_MAX; n++) {
        ll_writer *one = NULL;
        memset(name + 5, 'n', n);
        CHECK_OK(ll_writer_open(&one, at(name)));
        CHECK_OK(ll_file_write(at(name), "two", 3));
        CHECK_OK(ll_writer_put(one, "one", 3));
        CHECK_OK(ll_writer_commit(one));
        expect_content(at(name), (const uint8_t *)"one", 3);
        assert_int_equal(unlink(at(name)), 0);
        assert_int_equal(files_in(at("long")), 0);
    }
}

/* An unfinished file has a name of whole characters. */
static void test_long_names_in_utf8(void **state) {
    (void)state;
    CHECK_OK(ll_folder_create(at("utf8")));
    for (size_t first = 0; first < 3; first++) {
        char name[NAME_MAX + 6] = "utf8/aaa";
        ll_writer *one = NULL;
        for (size_t n = 5 + first; n + 3 <= 5 + NAME_MAX; n += 3) memcpy(name + n, "\xe2\x82\xac", 4);
        CHECK_OK(ll_writer_open(&one, at(name)));
        DIR *listing = opendir(at("utf8"));
        assert_non_null(listing);
        int names = 0;
        for (struct dirent *e; (e = readdir(listing));) {
            assert_true(ll_is_plain_text(e->d_name));
            names += e->d_name[0] != '.';
        }
        closedir(listing);
        assert_int_equal(names, 1);
        ll_writer_abandon(one);
    }
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

static void test_links_to_files_that_are_not_there_yet(void **state) {
    (void)state;
    static const char *const links[][2] = {
        {"ends/new", "to-new"}, {"to-new", "to-link"}, {"../ends/up", "ends/to-up"}, {"lost/new", "to-lost"}};
    struct stat info;
    CHECK_OK(ll_folder_create(at("ends")));
    for (int i = 0; i < 4; i++) assert_int_equal(symlink(links[i][0], at(links[i][1])), 0);
    assert_int_equal(symlink(at("ends/full"), at("to-full")), 0);
    assert_int_equal(symlink("circle", at("circle")), 0);
    CHECK_OK(ll_file_write(at("to-link"), "one", 3));
    expect_content(at("ends/new"), (const uint8_t *)"one", 3);
    CHECK_OK(ll_file_write(at("ends/to-up"), "two", 3));
    expect_content(at("ends/up"), (const uint8_t *)"two", 3);
    CHECK_OK(ll_file_write(at("to-full"), "six", 3));
    expect_content(at("ends/full"), (const uint8_t *)"six", 3);
    for (int i = 0; i < 3; i++) assert_true(!lstat(at(links[i][1]), &info) && S_ISLNK(info.st_mode));
    CHECK_FAILS(ll_file_write(at("to-lost"), "x", 1), LL_EIO, "lost/new: No such file");
    assert_true(!lstat(at("to-lost"), &info) && S_ISLNK(info.st_mode));
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
    assert_true(!chmod(at("private"), 0444)); /* and a file that is only to be read stays that */
    CHECK_OK(ll_file_write(at("private"), "new", 3));
    assert_true(!stat(at("private"), &info) && (info.st_mode & 0777) == 0444);
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

/* Without locks no writer touches what may be another's: the file of the usual name, and one of its own name. */
static void test_writers_without_locks(void **state) {
    (void)state;
    static const int reasons[] = {ENOLCK, ENOSYS, EOPNOTSUPP};
    char own[4200];
    ll_writer *one = NULL, *two = NULL;
    CHECK_OK(ll_folder_create(at("lockless")));
    for (int i = 0; i < 3; i++) {
        without_locks = reasons[i];
        CHECK_OK(ll_writer_open(&one, at("lockless/f")));
        CHECK_OK(ll_writer_open(&two, at("lockless/f")));
        assert_int_equal(files_in(at("lockless")), i ? 3 : 2);
        CHECK_OK(ll_writer_put(one, "the first", 9));
        CHECK_OK(ll_writer_put(two, "two", 3));
        CHECK_OK(ll_writer_commit(two));
        expect_content(at("lockless/f"), (const uint8_t *)"two", 3);
        CHECK_OK(ll_writer_commit(one));
        expect_content(at("lockless/f"), (const uint8_t *)"the first", 9);
        assert_int_equal(files_in(at("lockless")), 1);
    }
    for (int i = 0; i < 20; i++) { /* a process of this number on another machine has taken the next names */
        snprintf(own, sizeof own, "%s.tmp-%ld-%d", at("lockless/f"), (long)getpid(), i);
        put_file(own, "other", 5);
    }
    put_file(at("lockless/f.tmp-longline"), "usual", 5);
    CHECK_OK(ll_file_write(at("lockless/f"), "mine", 4));
    expect_content(at("lockless/f"), (const uint8_t *)"mine", 4);
    expect_content(at("lockless/f.tmp-longline"), (const uint8_t *)"usual", 5);
    assert_int_equal(files_in(at("lockless")), 22);
    expect_content(own, (const uint8_t *)"other", 5);
    without_locks = 0;
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

/* Another user's file in the place of the unfinished one is not written to; nor is one that has a second name, which
 * stands for it where the test cannot give files away. */
static void test_a_file_of_others_in_that_place(void **state) {
    (void)state;
    CHECK_OK(ll_folder_create(at("others")));
    CHECK_OK(ll_file_write(at("others/f.tmp-longline"), "", 0));
    if (geteuid() || chown(at("others/f.tmp-longline"), 65534, (gid_t)-1)) {
        char first[PATH_MAX];
        snprintf(first, sizeof first, "%s", at("others/f.tmp-longline"));
        assert_int_equal(link(first, at("others/g")), 0);
    }
    CHECK_OK(ll_file_write(at("others/f"), "new", 3));
    expect_content(at("others/f"), (const uint8_t *)"new", 3);
    expect_content(at("others/f.tmp-longline"), (const uint8_t *)"", 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_abandoned_file_leaves_nothing),
        cmocka_unit_test(test_a_full_disk_keeps_the_old_file),
        cmocka_unit_test(test_what_cannot_be_written),
        cmocka_unit_test(test_long_names),
        cmocka_unit_test(test_long_names_in_utf8),
        cmocka_unit_test(test_a_link_stays_a_link),
        cmocka_unit_test(test_links_to_files_that_are_not_there_yet),
        cmocka_unit_test(test_permissions_stay),
        cmocka_unit_test(test_writers_of_one_file),
        cmocka_unit_test(test_writers_without_locks),
        cmocka_unit_test(test_a_pipe_in_place_of_the_unfinished_file),
        cmocka_unit_test(test_a_file_of_others_in_that_place),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
