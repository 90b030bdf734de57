/* src/base: error text, memory, threads, what the machine has, numbers as text. */
#include "test.h"

#include <locale.h>
#include <pthread.h>

#include "base/memory.h"
#include "base/parallel.h"
#include "base/random.h"
#include "base/status.h"
#include "base/text.h"

/* ---- Status ---- */

static void test_error_text(void **state) {
    (void)state;
    assert_int_equal(ll_fail(LL_EIO, "file %s: %d", "a", 3), LL_EIO);
    assert_string_equal(ll_error(), "file a: 3");
    assert_int_equal(ll_fail(LL_EINVAL, "in %s", ll_error()), LL_EINVAL); /* the error text is its own argument */
    assert_string_equal(ll_error(), "in file a: 3");
    assert_int_equal(ll_fail_in(LL_EFORMAT, "x.ini:7"), LL_EFORMAT);
    assert_string_equal(ll_error(), "x.ini:7: in file a: 3");
}

/* An error is one line without control characters, whatever the name of a file. */
static void test_error_text_is_one_line(void **state) {
    (void)state;
    assert_int_equal(ll_fail(LL_EIO, "a%sb", "\n\x1b[2J\t"), LL_EIO);
    assert_string_equal(ll_error(), "a??[2J?b");
    assert_int_equal(ll_fail(LL_EIO, "\xc2\x80\xc2\x9b%s\xc2\xa0\xe2\x82\xac", "\x9b\xe9.txt\x7f\xe2\x82"), LL_EIO);
    assert_string_equal(ll_error(), "????.txt???\xc2\xa0\xe2\x82\xac"); /* neither C1 nor what is no UTF-8 */
}

static void test_long_text_ends_with_a_character(void **state) {
    (void)state;
    char long_text[3001];
    for (int shift = 0; shift < 4; shift++) {
        for (int i = 0; i < 3000; i++) long_text[i] = i < shift ? 'x' : "\xe2\x82\xac"[(i - shift) % 3];
        long_text[shift + 2997 - shift % 3] = 0;
        assert_int_equal(ll_fail(LL_EIO, "%s", long_text), LL_EIO);
        const size_t n = strlen(ll_error());
        assert_in_range(n, 1000, 1023);
        assert_int_equal((n - (size_t)shift) % 3, 0);
        assert_memory_equal(ll_error(), long_text, n);
    }
}

static void *other_thread(void *arg) {
    *(ll_status *)arg = ll_fail(LL_EIO, "from elsewhere");
    return NULL;
}

static void test_errors_are_each_threads_own(void **state) {
    (void)state;
    ll_status status = ll_fail(LL_EINVAL, "mine");
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, other_thread, &status), 0);
    pthread_join(thread, NULL);
    assert_int_equal(status, LL_EIO);
    assert_string_equal(ll_error(), "mine");
}

/* ---- Memory ---- */

static void test_blocks_are_aligned_and_zero(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 1, 63, 64, 65, 4097, 1 << 20, 5 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int again = 0; again < 3; again++) {
            uint8_t *p = ll_alloc(sizes[i], 1);
            assert_non_null(p);
            assert_int_equal((uintptr_t)p % 64, 0);
            for (size_t j = 0; j < sizes[i]; j++) assert_int_equal(p[j], 0);
            memset(p, 0xa5, sizes[i]); /* the next allocation may get the same block */
            ll_free(p);
        }
    ll_free(NULL);
}

static void test_impossible_sizes_are_refused(void **state) {
    (void)state;
    assert_null(ll_alloc(SIZE_MAX, 2));
    assert_non_null(strstr(ll_error(), "more than any machine"));
    assert_null(ll_alloc(SIZE_MAX / 2, 1));
    assert_null(ll_alloc(SIZE_MAX / 8, 9));
}

static void test_memory_fails_when_told(void **state) {
    (void)state;
    ll_memory_fail_at(3);
    void *a = ll_alloc(1, 1), *b = ll_strdup("text");
    assert_non_null(a);
    assert_string_equal(b, "text");
    assert_null(ll_alloc(10, 10));
    assert_non_null(strstr(ll_error(), "no memory for 100 bytes"));
    assert_null(ll_alloc(1, 1)); /* and all that follow */
    ll_memory_fail_at(0);
    void *c = ll_alloc(1, 1);
    assert_non_null(c);
    ll_free(a);
    ll_free(b);
    ll_free(c);
}

/* ---- Threads ---- */

enum { PIECES = 1000 };

typedef struct {
    int times[PIECES], worker[PIECES], inner[PIECES];
} work;

static void inside(void *arg, size_t i) {
    work *w = arg;
    w->inner[i]++;
}

static void piece(void *arg, size_t i, int worker) {
    work *w = arg;
    w->times[i]++;
    w->worker[i] = worker;
    if (i % 100 == 0) { /* a nested loop runs on the same worker, in order */
        work *mine = calloc(1, sizeof *mine);
        ll_parallel_for(10, inside, mine);
        for (int j = 0; j < 10; j++) w->inner[i] += mine->inner[j];
        free(mine);
    }
}

static void test_every_piece_runs_once(void **state) {
    (void)state;
    static const int threads[] = {1, 2, 5};
    for (int k = 0; k < 3; k++) {
        work *w = calloc(1, sizeof *w);
        ll_set_threads(threads[k]);
        assert_int_equal(ll_threads(), threads[k]);
        ll_parallel_among(ll_threads(), PIECES, piece, w);
        for (int i = 0; i < PIECES; i++) {
            assert_int_equal(w->times[i], 1);
            assert_in_range(w->worker[i], 0, threads[k] - 1);
            assert_int_equal(w->inner[i], i % 100 ? 0 : 10);
        }
        ll_parallel_among(ll_threads(), 0, piece, NULL);
        ll_parallel_for(0, inside, NULL);
        free(w);
    }
    ll_set_threads(0);
    assert_in_range(ll_threads(), 1, 1024);
    ll_set_threads(257);
    assert_int_equal(ll_threads(), 256);
    ll_set_threads(-3);
    assert_in_range(ll_threads(), 1, 1024);
}

/* ---- Machine ---- */

static void test_machine(void **state) {
    (void)state;
    char expected[32];
    snprintf(expected, sizeof expected, "%d.%d.%d", LL_VERSION_MAJOR, LL_VERSION_MINOR, LL_VERSION_PATCH);
    assert_string_equal(ll_version(), expected);
    const double t = ll_now();
    for (int i = 0; i < 1000; i++) assert_true(ll_now() >= t);
}

#ifndef __SANITIZE_THREAD__ /* which uses several times the memory that it watches */
static void test_memory_in_use(void **state) {
    (void)state;
    enum { BLOCK = 64 << 20 };
    const double before = (double)ll_memory_now();
    char *p = ll_alloc(BLOCK, 1);
    assert_non_null(p);
    memset(p, 1, BLOCK);
    const double with = (double)ll_memory_now();
    assert_true(before > 0 && with > before + BLOCK * 0.9 && with < before + BLOCK * 1.5);
    ll_memory_rest(p + 1, BLOCK - 1);
    assert_true((double)ll_memory_now() < with - BLOCK * 0.9 && p[0] == 1 && p[BLOCK / 2] == 0);
    ll_free(p);
    assert_true((double)ll_memory_peak() > before + BLOCK * 0.9);
}
#endif

/* ---- Numbers as text ---- */

static void test_integers(void **state) {
    (void)state;
    static const char *const bad[] = {"", " 1", "1 ", "1.0", "1e3", "0x10", "--1", "-", "9223372036854775808", "1_0"};
    int64_t v = 42;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (ll_parse_integer(&v, bad[i])) fail_msg("\"%s\" was read as %lld", bad[i], (long long)v);
    assert_int_equal(v, 42);
    assert_true(ll_parse_integer(&v, "-9223372036854775808") && v == INT64_MIN);
    assert_true(ll_parse_integer(&v, "9223372036854775807") && v == INT64_MAX);
    assert_true(ll_parse_integer(&v, "+007") && v == 7);
}

static void test_numbers(void **state) {
    (void)state;
    static const char *const bad[] = {"",   " 1",    "1 ",  "nan", "inf", "-inf",  "0x1p3", "1,5",
                                      "1e", "1e999", "--1", ".",   "e5",  "1.2.3", "1f"};
    double v = 42;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (ll_parse_number(&v, bad[i])) fail_msg("\"%s\" was read as %g", bad[i], v);
    assert_true(v == 42);
    assert_true(ll_parse_number(&v, "1e-3") && v == 0.001);
    assert_true(ll_parse_number(&v, "-.5") && v == -0.5);
}

static void expect_print(double v, const char *text) {
    char out[LL_NUMBER_TEXT];
    ll_print_number(out, v);
    assert_string_equal(out, text);
}

static void test_printed_numbers_read_back(void **state) {
    (void)state;
    expect_print(0.1, "0.1");
    expect_print(0, "0");
    expect_print(10000, "10000");
    expect_print(-245569, "-245569");
    expect_print(1e20, "1e+20");
    expect_print(1e-8, "1e-08");
    expect_print(1.0 / 3, "0.3333333333333333");
    for (uint64_t i = 0; i < 20000; i++) {
        uint32_t r[4];
        double v, back;
        char out[LL_NUMBER_TEXT];
        ll_random4(r, 1, 1, i);
        memcpy(&v, r, sizeof v);
        if (!isfinite(v)) continue;
        ll_print_number(out, v);
        if (!ll_parse_number(&back, out) || back != v) fail_msg("%a was printed as %s", v, out);
    }
}

/* Files must not depend on the locale of a host program. `make locale` brings a locale with a decimal comma; otherwise
 * one of the machine serves. */
static void test_numbers_in_any_locale(void **state) {
    (void)state;
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE", "sv_SE.UTF-8"};
    int found = 0;
    for (int i = 0; i < 5 && !found; i++) /* musl has every name, and always a point */
        found = setlocale(LC_ALL, names[i]) && !strcmp(localeconv()->decimal_point, ",");
    if (!found) printf("no locale with a decimal comma is installed: numbers were tested in the C locale alone\n");
    double v = 0;
    char text[32], *end;
    expect_print(0.25, "0.25");
    assert_true(ll_parse_number(&v, "0.25") && v == 0.25);
    assert_int_equal(ll_format_text(text, sizeof text, "%.2f %s %d", 0.5, "of", 3), 9);
    assert_string_equal(text, "0.50 of 3");
    assert_int_equal(ll_format_text(text, 4, "%.3f", 0.5), 5);
    assert_string_equal(text, "0.5");
    assert_true(ll_scan_number("1.5, 2", &end) == 1.5 && *end == ',');
    assert_int_equal(ll_fail(LL_EINVAL, "%g", 0.5), LL_EINVAL);
    assert_string_equal(ll_error(), "0.5");
    setlocale(LC_ALL, "");
}

static void test_plain_text(void **state) {
    (void)state;
    static const char *const good[] = {
        "", "a b/c.txt", "\xc2\xa0", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x99\x82", "\xf4\x8f\xbf\xbf"};
    static const char *const bad[] = {"a\n",
                                      "\t",
                                      "\x7f",
                                      "\xc2\x80",
                                      "a\302\23331m",
                                      "\xc2\x9f",
                                      "\xe9",
                                      "\xc3",
                                      "\xc0\x80",
                                      "\xe0\x80\x80",
                                      "\xed\xa0\x80",
                                      "\xf4\x90\x80\x80",
                                      "\xf0\x80\x80\x80",
                                      "\x80",
                                      "\xff",
                                      "\xe2\x82",
                                      "\xe2\x82z"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) assert_true(ll_is_plain_text(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (ll_is_plain_text(bad[i])) fail_msg("bad text %zu was accepted", i);
}

static void test_edit_distance(void **state) {
    (void)state;
    char words[2][200];
    assert_int_equal(ll_edit_distance("kitten", "sitting"), 3);
    assert_int_equal(ll_edit_distance("", "abc"), 3);
    assert_int_equal(ll_edit_distance("layers", "lyaers"), 1);
    assert_int_equal(ll_edit_distance("ab", "xyba"), 3);
    assert_int_equal(ll_edit_distance("ca", "abc"), 3); /* swapped letters are not changed once more */
    assert_int_equal(ll_edit_distance("abc", ""), 3);
    assert_int_equal(ll_edit_distance("same", "same"), 0);
    memset(words[0], 'a', 199), memset(words[1], 'b', 199);
    words[0][199] = words[1][199] = 0;
    assert_int_equal(ll_edit_distance(words[0], words[1]), 63); /* only the first 63 letters count */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_error_text),
        cmocka_unit_test(test_error_text_is_one_line),
        cmocka_unit_test(test_long_text_ends_with_a_character),
        cmocka_unit_test(test_errors_are_each_threads_own),
        cmocka_unit_test(test_blocks_are_aligned_and_zero),
        cmocka_unit_test(test_impossible_sizes_are_refused),
        cmocka_unit_test(test_memory_fails_when_told),
        cmocka_unit_test(test_every_piece_runs_once),
        cmocka_unit_test(test_machine),
#ifndef __SANITIZE_THREAD__
        cmocka_unit_test(test_memory_in_use),
#endif
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_printed_numbers_read_back),
        cmocka_unit_test(test_numbers_in_any_locale),
        cmocka_unit_test(test_plain_text),
        cmocka_unit_test(test_edit_distance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
