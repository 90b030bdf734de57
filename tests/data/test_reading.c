/* Progress of reading: of files as they are on the disk, packed or not, and of passes over texts. */
#include "folder.h"

#include <pthread.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/spill.h"
#include "data/text/words.h"
#include "longline-lab.h"
#include "packers.h"

enum { SIZE = 1 << 20 };

typedef struct {
    const char *name;          /* whose reports are counted; NULL: those of texts */
    int count, others, passes; /* passes: how often it began again */
    int64_t first, last, total;
} reports;

static void follow(const char *name, int64_t done, int64_t total, void *arg) {
    reports *r = arg;
    assert_true(done >= 0 && done <= total);
    if (!name != !r->name || (name && strcmp(name, r->name) != 0)) {
        r->others++;
        return;
    }
    r->passes += done < r->last;
    if (!r->count++) r->first = done;
    r->last = done;
    r->total = total;
}

/* Words that do not repeat soon, so that the packed file is long, too. */
static void make_text(const char *path) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    unsigned x = 1;
    for (int i = 0; i < SIZE / 8; i++) fprintf(file, "%07x%c", (x = x * 1664525 + 1013904223) >> 4, i % 9 ? ' ' : '\n');
    assert_int_equal(fclose(file), 0);
}

static void test_files(void **state) {
    (void)state;
    static uint8_t packed[2 * SIZE];
    ll_bytes text = {0}, again = {0};
    make_text(at("words.txt"));
    CHECK_OK(ll_file_read(&text, at("words.txt"), 2 * SIZE));
    const size_t n = pack_gzip(packed, sizeof packed, text.data, text.size);
    CHECK_OK(ll_file_write(at("words.txt.gz"), packed, n));
    for (int i = 0; i < 2; i++) {
        char path[200];
        snprintf(path, sizeof path, "%s", at(i ? "words.txt.gz" : "words.txt"));
        reports r = {.name = path};
        ll_data_watch(follow, &r);
        CHECK_OK(ll_file_read(&again, path, 2 * SIZE));
        ll_data_watch(NULL, NULL);
        assert_true(r.count > 1 && !r.others);
        assert_int_equal(r.total, i ? n : text.size);
        assert_int_equal(r.last, r.total);
        assert_true(!i || r.first < r.total);
        const int before = r.count;
        ll_bytes_free(&again);
        CHECK_OK(ll_file_read(&again, path, 2 * SIZE));
        assert_int_equal(r.count, before); /* it is not called any more */
        ll_bytes_free(&again);
    }
    ll_bytes_free(&text);
}

/* Every pass over the text: the list of words, their number, the tokens. */
static void test_passes(void **state) {
    (void)state;
    ll_bytes text = {0}, list = {0};
    ll_words *words = NULL;
    int32_t *tokens = NULL;
    int64_t count = 0;
    make_text(at("words.txt"));
    CHECK_OK(ll_file_take(&text, at("words.txt")));
    for (int i = 0; i < 3; i++) {
        reports r = {0};
        ll_data_watch(follow, &r);
        if (i == 0) CHECK_OK(ll_words_list(&list, &text, 1, 1000, LL_WORDS_TOGETHER));
        if (i == 1) assert_true(ll_count_words(&text) > SIZE / 8);
        if (i == 2) CHECK_OK(ll_words_create(&words, &list, "the list"));
        if (i == 2) CHECK_OK(ll_words_encode(words, text.data, text.size, &tokens, &count));
        ll_data_watch(NULL, NULL);
        assert_true(r.count >= SIZE / (1 << 17) && !r.others && r.total == (int64_t)text.size);
        assert_int_equal(r.passes, i == 2); /* words are counted before they become tokens */
        assert_true(r.last > r.total - (1 << 18));
    }
    ll_free(tokens);
    ll_words_free(words);
    ll_bytes_free(&list);
    ll_bytes_free(&text);
}

/* Another thread's reading is not reported. */
static void *read_there(void *path) {
    ll_bytes bytes = {0};
    CHECK_OK(ll_file_read(&bytes, path, 2 * SIZE));
    ll_bytes_free(&bytes);
    return NULL;
}

static void test_threads(void **state) {
    (void)state;
    reports r = {0};
    pthread_t thread;
    char path[200];
    snprintf(path, sizeof path, "%s", at("words.txt"));
    make_text(path);
    ll_data_watch(follow, &r);
    assert_int_equal(pthread_create(&thread, NULL, read_there, path), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    ll_data_watch(NULL, NULL);
    assert_int_equal(r.count + r.others, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_files), cmocka_unit_test(test_passes),
                                       cmocka_unit_test(test_threads)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
