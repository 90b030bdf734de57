/* Downloads from a small server in this program: whole, continued, cut off, refused; and checksums. A build without
 * libcurl says so. */
#include "inputs.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/socket.h>

enum { SIZE = 200000 };

/* The server supports ranges; does not; hangs up in the middle; has no such file. */
enum { RANGES, WHOLE, CUT, MISSING };

/* What the server says about the file's version: nothing, a tag, a weak tag and a date, or a tag although it ignores
 * If-Range. */
enum { NOTHING, TAG, DATE, IGNORED };

static uint8_t content[SIZE], newer[SIZE];
static char sum[65], url[64], asked[200]; /* asked: the last If-Range header */
static int listener, mode, marks, changed, requests, ranged;

static void send_all(int fd, const void *data, size_t n) {
    for (const char *p = data; n;) {
        const ssize_t sent = send(fd, p, n, MSG_NOSIGNAL);
        if (sent <= 0) return;
        p += sent, n -= (size_t)sent;
    }
}

/* Headers that identify this version of the file. */
static const char *version(void) {
    static const char *const lines[2][4] = {
        {"", "ETag: \"one\"\r\n", "ETag: W/\"x\"\r\nLast-Modified: Sat, 01 Jan 2022 00:00:00 GMT\r\n",
         "ETag: \"one\"\r\n"},
        {"", "ETag: \"two\"\r\n", "ETag: W/\"x\"\r\nLast-Modified: Sun, 02 Jan 2022 00:00:00 GMT\r\n",
         "ETag: \"two\"\r\n"}};
    return lines[changed][marks];
}

static void keep_asked(const char *request) {
    const char *line = strstr(request, "If-Range: ");
    snprintf(asked, sizeof asked, "%.*s", line ? (int)strcspn(line + 10, "\r") : 0, line ? line + 10 : "");
}

static void answer(int fd) {
    char request[4096] = "", head[600];
    const uint8_t *file = changed ? newer : content;
    size_t n = 0, first = 0;
    while (n + 1 < sizeof request && !strstr(request, "\r\n\r\n")) {
        const ssize_t got = recv(fd, request + n, sizeof request - 1 - n, 0);
        if (got <= 0) return;
        n += (size_t)got;
        request[n] = 0;
    }
    requests++;
    const int how = mode; /* the test may change it as soon as it has the answer */
    const char *range = strstr(request, "Range: bytes=");
    ranged += range != NULL;
    keep_asked(request);
    const int other = *asked && marks != IGNORED && !strstr(version(), asked);
    if (range && how != WHOLE && !other) first = (size_t)strtoul(range + 13, NULL, 10);
    if (how == MISSING) {
        n = (size_t)snprintf(head, sizeof head,
                             "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    } else if (first >= SIZE) {
        n = (size_t)snprintf(head, sizeof head,
                             "HTTP/1.1 416 Range\r\nContent-Range: bytes */%d\r\nContent-Length: 0\r\n"
                             "Connection: close\r\n\r\n",
                             SIZE);
    } else if (first) {
        n = (size_t)snprintf(head, sizeof head,
                             "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes %zu-%d/%d\r\n"
                             "%sContent-Length: %zu\r\nConnection: close\r\n\r\n",
                             first, SIZE - 1, SIZE, version(), SIZE - first);
    } else {
        n = (size_t)snprintf(head, sizeof head,
                             "HTTP/1.1 200 OK\r\n%sContent-Length: %d\r\nConnection: close\r\n\r\n", version(), SIZE);
    }
    send_all(fd, head, n);
    if (how != MISSING && first < SIZE) send_all(fd, file + first, how == CUT ? (SIZE - first) / 2 : SIZE - first);
}

static void *serve(void *arg) {
    (void)arg;
    for (int fd; (fd = accept(listener, NULL, NULL)) >= 0; close(fd)) answer(fd);
    return NULL;
}

static int start(void **state) {
    pthread_t thread;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int64_t bytes = 0;
    for (unsigned i = 0; i < SIZE; i++) content[i] = (uint8_t)(i * i % 251), newer[i] = (uint8_t)(i * i % 239);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    if (make_folder(state) || listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) ||
        listen(listener, 8) || getsockname(listener, (struct sockaddr *)&address, &length))
        return -1;
    snprintf(url, sizeof url, "http://127.0.0.1:%d/file", ntohs(address.sin_port));
    CHECK_OK(ll_data_checksum(put("content", content, SIZE), sum, &bytes));
    unsetenv("http_proxy");
    setenv("no_proxy", "127.0.0.1", 1);
    return pthread_create(&thread, NULL, serve, NULL) || pthread_detach(thread);
}

/* Skips the test where this program cannot fetch. */
static void need_fetch(void) {
    mode = RANGES, marks = TAG, changed = 0;
    const ll_status status = ll_data_fetch(url, at("probe"), NULL, NULL, NULL);
    if (status && strstr(ll_error(), "without libcurl")) {
        assert_int_equal(status, LL_EIO);
        skip();
    }
    if (status) fail_msg("%s", ll_error());
}

static void expect_bytes(const char *name, const uint8_t *expected) {
    ll_bytes bytes = {0};
    CHECK_OK(ll_file_read(&bytes, at(name), SIZE));
    assert_int_equal(bytes.size, SIZE);
    assert_memory_equal(bytes.data, expected, SIZE);
    ll_bytes_free(&bytes);
    static const char *const ends[] = {"part", "part.version"};
    for (int i = 0; i < 2; i++) {
        char part[64];
        snprintf(part, sizeof part, "%s.%s", name, ends[i]);
        assert_int_not_equal(access(at(part), F_OK), 0);
    }
}

static void expect_file(const char *name) { expect_bytes(name, content); }

static void checksums_are_published_ones(void **state) {
    (void)state;
    char digits[65];
    int64_t bytes = -1;
    CHECK_OK(ll_data_checksum(put("empty", "", 0), digits, &bytes));
    assert_string_equal(digits, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_int_equal(bytes, 0);
    CHECK_OK(ll_data_checksum(put("abc", "abc", 3), digits, &bytes));
    assert_string_equal(digits, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    CHECK_FAILS(ll_data_checksum(at("missing"), digits, &bytes), LL_EIO, "missing");
    for (int i = 0; ll_data_known(i); i++) {
        const ll_known_file *f = ll_data_known(i);
        const char *slash = strrchr(f->file, '/'), *name = slash ? slash + 1 : f->file;
        assert_true(strncmp(f->url, "http", 4) == 0 && strstr(f->url, name));
        if (f->sha256) assert_true(strlen(f->sha256) == 64 && strspn(f->sha256, "0123456789abcdef") == 64);
        assert_true(f->file[0] != '/' && !strstr(f->file, ".."));
        assert_true(f->archive || !f->strip);
    }
}

static void a_file_comes_whole(void **state) {
    (void)state;
    need_fetch();
    CHECK_OK(ll_data_fetch(url, at("whole"), sum, NULL, NULL));
    expect_file("whole");
    CHECK_OK(ll_data_fetch(url, at("in/new/folders"), sum, NULL, NULL));
    expect_file("in/new/folders");
}

static void what_was_cut_off_is_gone_on_with(void **state) {
    (void)state;
    need_fetch();
    mode = CUT;
    CHECK_FAILS(ll_data_fetch(url, at("later"), sum, NULL, NULL), LL_EIO, "is kept");
    assert_int_not_equal(access(at("later"), F_OK), 0);
    assert_int_equal(access(at("later.part"), F_OK), 0);
    mode = RANGES;
    ranged = 0;
    CHECK_OK(ll_data_fetch(url, at("later"), sum, NULL, NULL));
    assert_int_equal(ranged, 1);
    expect_file("later");
    put("all.part", content, SIZE); /* only renaming was left to do */
    CHECK_OK(ll_data_fetch(url, at("all"), sum, NULL, NULL));
    expect_file("all");
}

static void cut_off(const char *name) {
    mode = CUT;
    CHECK_FAILS(ll_data_fetch(url, at(name), NULL, NULL, NULL), LL_EIO, "is kept");
    mode = RANGES;
    ranged = 0;
}

/* Without a checksum, the version that the server names decides. */
static void the_same_file_is_gone_on_with(void **state) {
    (void)state;
    static const char *const expected[] = {"", "\"one\"", "Sat, 01 Jan 2022 00:00:00 GMT", "\"one\""};
    static const char *const names[] = {"same0", "same1", "same2", "same3"};
    need_fetch();
    for (marks = NOTHING; marks <= IGNORED; marks++) {
        cut_off(names[marks]);
        CHECK_OK(ll_data_fetch(url, at(names[marks]), NULL, NULL, NULL));
        assert_int_equal(ranged, marks != NOTHING); /* without a version nothing shows that it is the same file */
        assert_string_equal(asked, expected[marks]);
        expect_file(names[marks]);
    }
}

static void a_file_that_changed_comes_anew(void **state) {
    (void)state;
    static const char *const names[] = {"new0", "new1", "new2", "new3"};
    need_fetch();
    for (marks = NOTHING; marks <= IGNORED; marks++) {
        changed = 0;
        cut_off(names[marks]);
        changed = 1;
        CHECK_OK(ll_data_fetch(url, at(names[marks]), NULL, NULL, NULL));
        expect_bytes(names[marks], newer);
    }
    changed = 0, marks = TAG; /* once more, cut off twice, in two versions */
    cut_off("twice");
    changed = 1;
    cut_off("twice");
    CHECK_OK(ll_data_fetch(url, at("twice"), NULL, NULL, NULL));
    assert_int_equal(ranged, 1);
    expect_bytes("twice", newer);
}

static void another_address_is_another_file(void **state) {
    (void)state;
    char other[80];
    need_fetch();
    cut_off("moved");
    changed = 1;
    snprintf(other, sizeof other, "%s2", url);
    CHECK_OK(ll_data_fetch(other, at("moved"), NULL, NULL, NULL));
    assert_int_equal(ranged, 0);
    expect_bytes("moved", newer);
}

/* A part that is longer than the file cannot be its beginning. */
static void too_much_is_thrown_away(void **state) {
    (void)state;
    static uint8_t more[SIZE + 7];
    need_fetch();
    put("more.part", more, sizeof more);
    CHECK_OK(ll_data_fetch(url, at("more"), sum, NULL, NULL));
    expect_file("more");
}

/* Two programs never write into the same part. */
static void another_program_has_the_part(void **state) {
    (void)state;
    need_fetch();
    const int other = open(put("busy.part", content, 1000), O_WRONLY);
    assert_int_equal(flock(other, LOCK_EX | LOCK_NB), 0);
    CHECK_FAILS(ll_data_fetch(url, at("busy"), NULL, NULL, NULL), LL_EIO, "another program fetches");
    assert_int_not_equal(access(at("busy"), F_OK), 0);
    close(other);
    CHECK_OK(ll_data_fetch(url, at("busy"), NULL, NULL, NULL));
    expect_file("busy");
}

static void a_server_without_ranges_sends_all_again(void **state) {
    (void)state;
    need_fetch();
    mode = WHOLE;
    put("again.part", content, 1000);
    CHECK_OK(ll_data_fetch(url, at("again"), sum, NULL, NULL));
    expect_file("again");
}

static void a_wrong_checksum_leaves_nothing(void **state) {
    (void)state;
    need_fetch();
    char wrong[65];
    memset(wrong, 'a', 64);
    wrong[64] = 0;
    CHECK_FAILS(ll_data_fetch(url, at("wrong"), wrong, NULL, NULL), LL_EFORMAT, sum);
    assert_int_not_equal(access(at("wrong"), F_OK), 0);
    assert_int_not_equal(access(at("wrong.part"), F_OK), 0);
}

static int stop(int64_t bytes, int64_t total, void *arg) {
    (void)total;
    ++*(int *)arg;
    return bytes > 0;
}

static void failures_say_what_to_do(void **state) {
    (void)state;
    need_fetch();
    int calls = 0;
    mode = MISSING;
    CHECK_FAILS(ll_data_fetch(url, at("x"), NULL, NULL, NULL), LL_EIO, "404");
    mode = RANGES;
    CHECK_FAILS(ll_data_fetch("http://127.0.0.1:1/x", at("x"), NULL, NULL, NULL), LL_EIO, "check the network");
    assert_int_not_equal(access(at("x.part"), F_OK), 0); /* of which nothing came */
    CHECK_FAILS(ll_data_fetch("file:///etc/passwd", at("x"), NULL, NULL, NULL), LL_EINVAL,
                "file:///etc/passwd: needs an address that begins with http:// or https://");
    assert_int_not_equal(access(at("x.part"), F_OK), 0);
    CHECK_FAILS(ll_data_fetch(url, at("whole/x"), NULL, NULL, NULL), LL_EIO, "whole: a file has that name");
    CHECK_FAILS(ll_data_fetch(url, at("stopped"), NULL, stop, &calls), LL_ESTOPPED, "is kept");
    assert_true(calls > 0);
}

/* What is asked of formats by their names; tests/model/test_tokenizer.c has the answers of all. */
static void formats_are_told_by_name(void **state) {
    (void)state;
    assert_true(ll_format_makes("recall") && !ll_format_makes("bytes"));
    assert_true(ll_format_has_images("png") && !ll_format_has_images("bytes"));
    assert_true(ll_format_has_baseline("words") && !ll_format_has_baseline("bytes"));
    assert_string_equal(ll_format_unit("listops"), "symbol");
    assert_string_equal(ll_format_unit("none"), "");
    assert_true(ll_format_cuts_bytes("bytes") && !ll_format_cuts_bytes("words"));
    assert_true(ll_format_cuts_lines("bytes") && ll_format_cuts_lines("words") && !ll_format_cuts_lines("subwords"));
    assert_true(ll_format_input("midi") == LL_INPUT_MIDI && ll_format_input("bytes") == LL_INPUT_AUTO);
    assert_false(ll_format_makes("none") || ll_format_has_images("none") || ll_format_has_baseline("none"));
    assert_false(ll_format_cuts_lines("none") || ll_format_cuts_bytes("none") || ll_format_input("none"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checksums_are_published_ones),     cmocka_unit_test(a_file_comes_whole),
        cmocka_unit_test(what_was_cut_off_is_gone_on_with), cmocka_unit_test(a_server_without_ranges_sends_all_again),
        cmocka_unit_test(a_wrong_checksum_leaves_nothing),  cmocka_unit_test(failures_say_what_to_do),
        cmocka_unit_test(the_same_file_is_gone_on_with),    cmocka_unit_test(a_file_that_changed_comes_anew),
        cmocka_unit_test(another_address_is_another_file),  cmocka_unit_test(too_much_is_thrown_away),
        cmocka_unit_test(another_program_has_the_part),     cmocka_unit_test(formats_are_told_by_name),
    };
    return cmocka_run_group_tests_name("fetch", tests, start, remove_folder);
}
