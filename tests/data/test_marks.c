/* Files that are read in parts. Any row, in any order, is that of reading the whole file. The files are many times
 * longer than the distance between two marks. */
#include "inputs.h"

#include "data/sequence/fasta.h"
#include "data/text/words.h"

static uint32_t state = 1;
static int below(int n) {
    state = state * 1664525 + 1013904223;
    return (int)((uint64_t)state * (uint64_t)n >> 32);
}

/* ---- Proteins ---- */

enum { MOST = 1 << 20, SEQUENCES = 3000 };
static char text[MOST];
static int tokens[MOST];                 /* boundaries before each sequence and at the end */
static int64_t begin[SEQUENCES + 1];

/* One sequence of n letters on lines of any length, with characters that readers skip. */
static size_t write_sequence(size_t at, int n, int64_t *count) {
    const int line = below(4) ? 60 : n;
    if (!below(20)) at += (size_t)sprintf(text + at, ">nothing here\n");
    at += (size_t)sprintf(text + at, ">s%d with > in it\n", below(100));
    tokens[(*count)++] = LL_FASTA_BOUNDARY;
    for (int i = 0; i < n; i++) {
        text[at] = "ACDEFGHIKLMNPQRSTVWYacdj"[below(24)];
        tokens[(*count)++] = ll_fasta_token(text[at++]);
        if (!below(50)) text[at++] = '-';
        if (i % line == line - 1 || i + 1 == n) at += (size_t)sprintf(text + at, below(9) ? "\n" : " \r\n;skipped\n");
    }
    return at;
}

/* Two files of short sequences, and of some that are longer than several marks. */
static char *write_proteins(int64_t *count) {
    static char path[400];
    const int half = SEQUENCES / 2;
    int64_t n = 0;
    for (int file = 0; file < 2; file++) {
        size_t at = 0;
        for (int i = file * half; i < (file + 1) * half; i++) {
            begin[i] = n;
            at = write_sequence(at, i % 500 == 7 ? 30000 : 1 + below(150), &n);
        }
        assert_true(at < MOST && n < MOST);
        put(file ? "b.fasta" : "a.fasta", text, at);
    }
    begin[SEQUENCES] = n;
    tokens[n] = LL_FASTA_BOUNDARY;
    *count = n + 1;
    snprintf(path, sizeof path, "%s:", kept(at("a.fasta")));
    strcat(path, at("b.fasta"));
    return path;
}

static void assert_row(const ll_batch *b, const int *expected, int64_t n) {
    assert_int_equal(b->lengths[0], n);
    for (int t = 0; t < n; t++) {
        assert_int_equal(b->tokens[t], expected[t]);
        assert_int_equal(b->targets[t], expected[t + 1]);
    }
}

static ll_config protein_config(int64_t *count) {
    return (ll_config){.model.task = LL_TASK_LM,
                       .train.batch = 1,
                       .train.length = 100,
                       .data.format = LL_DATA_FASTA,
                       .data.valid_fraction = 0.25,
                       .data.train = write_proteins(count)};
}

static void rows_of_sequences(void **unused) {
    (void)unused;
    int64_t count, rows = 0;
    const ll_config c = protein_config(&count);
    const int first = SEQUENCES / 4 * 3;
    static int64_t start[MOST / 50], length[MOST / 50];
    for (int i = first; i < SEQUENCES; i++)
        for (int64_t at = begin[i]; at < begin[i + 1]; at += 100, rows++) {
            start[rows] = at;
            length[rows] = begin[i + 1] - at < 100 ? begin[i + 1] - at : 100;
        }
    ll_reader *r = opened(&c, "valid");
    ll_batch b;
    CHECK_OK(ll_batch_create(&b, &c));
    assert_int_equal(ll_reader_size(r), SEQUENCES - first);
    assert_int_equal(ll_reader_eval_batches(r), rows);
    for (int i = 0; i < 4000; i++) {
        const int64_t row = i < rows ? i : below((int)rows);
        ll_reader_eval_rows(r, &b, row);
        assert_row(&b, tokens + start[row], length[row]);
    }
    ll_batch_free(&b);
    ll_reader_free(r);
}

static void a_file_that_is_missing(void **unused) {
    (void)unused;
    static char path[900];
    int64_t count;
    ll_config c = protein_config(&count);
    snprintf(path, sizeof path, "%s:%s", c.data.train, "/does/not/exist");
    c.data.train = path;
    CHECK_FAILS(refused(&c, "train"), LL_EIO, "/does/not/exist");
    c.data.format = LL_DATA_BYTES;
    CHECK_FAILS(refused(&c, "train"), LL_EIO, "/does/not/exist");
}

/* A row of training is a window of a sequence. An epoch has a window of each sequence, once. */
static void windows_of_an_epoch(void **unused) {
    (void)unused;
    int64_t count;
    ll_config c = protein_config(&count);
    c.data.valid_fraction = 0;
    ll_reader *r = opened(&c, "train");
    ll_batch b;
    static int seen[SEQUENCES];
    CHECK_OK(ll_batch_create(&b, &c));
    for (int number = 0; number < SEQUENCES; number++) {
        const int64_t i = ll_shuffle(number, SEQUENCES, 9, 0);
        ll_reader_rows(r, &b, 9, number);
        int64_t at = begin[i];
        const int64_t n = b.lengths[0];
        assert_int_equal(n, begin[i + 1] - at < 100 ? begin[i + 1] - at : 100);
        while (at + n <= begin[i + 1] && memcmp(b.tokens, tokens + at, (size_t)n * sizeof *tokens)) at++;
        assert_true(at + n <= begin[i + 1] && !seen[i]++);
    }
    ll_batch_free(&b);
    ll_reader_free(r);
}

static void windows_of_joined_sequences(void **unused) {
    (void)unused;
    int64_t count;
    ll_config c = protein_config(&count);
    c.data.joined = 1;
    ll_reader *r = opened(&c, "valid");
    ll_batch b;
    const int64_t first = begin[SEQUENCES / 4 * 3], size = count - first;
    CHECK_OK(ll_batch_create(&b, &c));
    assert_int_equal(ll_reader_size(r), size);
    for (int i = 0; i < 2000; i++) {
        const int64_t row = below((int)ll_reader_eval_batches(r)), at = row * 100;
        ll_reader_eval_rows(r, &b, row);
        assert_row(&b, tokens + first + at, size - 1 - at < 100 ? size - 1 - at : 100);
    }
    ll_batch_free(&b);
    ll_reader_free(r);
}

/* ---- Several files of text, one of which is large ---- */

/* A file of `size` bytes, zero but for a text at its beginning and one at its end. */
static void put_sparse(const char *name, const char *front, const char *back, int64_t size) {
    FILE *f = fopen(put(name, front, strlen(front)), "r+b");
    assert_non_null(f);
    assert_int_equal(fseeko(f, size - (int64_t)strlen(back), SEEK_SET), 0);
    assert_int_equal(fwrite(back, 1, strlen(back), f), strlen(back));
    assert_int_equal(fclose(f), 0);
}

/* The text of `n` bytes from number `from` on of a reader of joined files. */
static void expect_bytes(const ll_reader *r, int64_t from, const char *expected, int n) {
    enum { T = 16 };
    int row[T], targets[T], lengths[1];
    ll_batch b = {.B = 1, .T = n, .tokens = row, .targets = targets, .lengths = lengths};
    assert_true(n <= T);
    r->format->fill(r, &b, 0, from);
    for (int i = 0; i < n; i++) assert_int_equal(row[i], expected[i]);
}

static void files_of_which_one_is_large(void **unused) {
    (void)unused;
    static char path[1300];
    const int64_t large = LL_LARGE_FILE + 5;
    put("1.txt", "one two\n", 8);
    put_sparse("2.txt", "large ", " end\n", large);
    put("3.txt", "three", 5);
    snprintf(path, sizeof path, "%s:", kept(at("1.txt")));
    strcat(path, at("2.txt"));
    strcat(path, ":");
    strcat(path, at("3.txt"));
    const ll_config c = {.model.task = LL_TASK_LM,
                         .train.batch = 1,
                         .train.length = 8,
                         .data.format = LL_DATA_BYTES,
                         .data.test = path,
                         .data.train = path,
                         .data.valid_fraction = 7.0 / (double)(8 + 1 + large + 1 + 5)};
    ll_reader *r = opened(&c, "test"), *valid = opened(&c, "valid");
    double words, bytes;
    assert_int_equal(ll_reader_size(r), 8 + 1 + large + 1 + 5);
    expect_bytes(r, 0, "one two\n\0large ", 15);
    expect_bytes(r, 9 + large - 6, "\0 end\n\0three", 11);
    assert_int_equal(ll_reader_size(valid), 7);
    expect_bytes(valid, 0, "\n\0three", 6);
    /* one, two, a line end, large, end, a line end, three: zero bytes part words */
    ll_reader_units(r, &words, &bytes);
    assert_true(fabs(words * (double)ll_reader_size(r) - 7) < 1e-3 && bytes == 1);
    ll_reader_free(r);
    ll_reader_free(valid);
    remove(at("2.txt"));
}

/* ---- Words ---- */

static size_t write_words(void) {
    size_t n = 0;
    for (int i = 0; i < 40000; i++) {
        const int word = below(below(2) ? 10 : 1000);
        n += (size_t)sprintf(text + n, "%sw%d%s", below(9) ? "" : "  ", word, below(12) ? " " : "\n\n");
    }
    put("words.txt", text, n);
    return n;
}

static void windows_of_words(void **unused) {
    (void)unused;
    const size_t size = write_words();
    const ll_config c = {.model.task = LL_TASK_LM,
                         .train.batch = 1,
                         .train.length = 30,
                         .data.format = LL_DATA_WORDS,
                         .data.min_count = 20,
                         .data.valid_fraction = 0.5,
                         .data.train = kept(at("words.txt"))};
    ll_reader *r = opened(&c, "valid");
    ll_words *words = NULL;
    ll_batch b;
    int32_t *whole = NULL;
    int64_t n = 0;
    const size_t half = size - (size_t)(0.5 * (double)size + 0.5);
    CHECK_OK(ll_words_create(&words, ll_reader_vocabulary(r), "list"));
    CHECK_OK(ll_words_encode(words, (const uint8_t *)text + half, size - half, &whole, &n));
    CHECK_OK(ll_batch_create(&b, &c));
    assert_int_equal(ll_reader_size(r), n);
    for (int i = 0; i < 3000; i++) {
        const int64_t row = i < 900 ? i % ll_reader_eval_batches(r) : below((int)ll_reader_eval_batches(r));
        ll_reader_eval_rows(r, &b, row);
        assert_row(&b, whole + row * 30, n - 1 - row * 30 < 30 ? n - 1 - row * 30 : 30);
    }
    ll_free(whole);
    ll_words_free(words);
    ll_batch_free(&b);
    ll_reader_free(r);
}

/* A list does not depend on how many words are counted in one pass. */
static void lists_in_several_passes(void **unused) {
    (void)unused;
    const ll_bytes all = {(uint8_t *)text, write_words()};
    static const struct {
        int64_t least;
        int most;
    } kinds[] = {{1, 0}, {10, 0}, {1, 100}, {1, 2}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        ll_bytes whole = {0};
        const int64_t least = kinds[i].least;
        CHECK_OK(ll_words_list(&whole, &all, least, kinds[i].most, LL_WORDS_TOGETHER));
        for (size_t together = 30; together < 1100; together *= 3) {
            ll_bytes list = {0};
            CHECK_OK(ll_words_list(&list, &all, kinds[i].least, kinds[i].most, together));
            assert_int_equal(list.size, whole.size);
            assert_memory_equal(list.data, whole.data, whole.size);
            ll_bytes_free(&list);
        }
        ll_bytes_free(&whole);
    }
}

/* ---- Rows ---- */

enum { ROWS = 8000 };

static void rows_of_a_table(void **unused) {
    (void)unused;
    size_t n = (size_t)sprintf(text, "text,class\n");
    for (int i = 0; i < ROWS; i++)
        n += (size_t)sprintf(text + n, i % 3 ? "row %d,c%d\n" : "\"a \"\"row\"\",\n%d\",c%d\r\n\n", i, i * 7 % 5);
    const ll_config c = {.model.task = LL_TASK_CLASSIFY,
                         .train.batch = 1,
                         .train.length = 24,
                         .data.format = LL_DATA_LABELLED,
                         .data.separator = LL_SEPARATOR_COMMA,
                         .data.header = 1,
                         .data.label_column = 2,
                         .data.text_column = 1,
                         .data.test = kept(put("rows.csv", text, n))};
    ll_reader *r = opened(&c, "test");
    ll_batch b;
    CHECK_OK(ll_batch_create(&b, &c));
    assert_int_equal(ll_reader_size(r), ROWS);
    assert_string_equal(ll_reader_class_names(r), "c0,c1,c2,c3,c4");
    for (int i = 0; i < 2 * ROWS; i++) {
        const int row = i < ROWS ? i : below(ROWS);
        char expected[40], got[40] = "";
        snprintf(expected, sizeof expected, row % 3 ? "row %d" : "a \"row\",\n%d", row);
        ll_reader_eval_rows(r, &b, row);
        for (int t = 0; t < b.lengths[0]; t++) got[t] = (char)b.tokens[t];
        assert_string_equal(got, expected);
        assert_int_equal(b.targets[0], row * 7 % 5);
    }
    ll_batch_free(&b);
    ll_reader_free(r);
}

/* ---- Memory ---- */

/* Every allocation of an opening reader is refused once. */
static void refused_memory(void **unused) {
    (void)unused;
    static char path[900];
    snprintf(path, sizeof path, "%s:", kept(put("s.fasta", ">a\nMKV\n>b\nLLLLLLLL\n", 19)));
    strcat(path, at("s.fasta"));
    char *const rows = kept(put("s.tsv", "good\ttext of it\nbad\tother\n", 26));
    const ll_config lm = {.model.task = LL_TASK_LM, .train.batch = 1, .train.length = 4, .data.min_count = 1};
    ll_config c[4] = {lm, lm, lm, lm};
    c[0].data.format = LL_DATA_FASTA, c[0].data.train = path;
    c[1].data.format = LL_DATA_WORDS, c[1].data.train = rows;
    c[2].data.format = LL_DATA_BYTES, c[2].data.train = path;
    c[3].data.format = LL_DATA_LABELLED, c[3].data.train = rows;
    c[3].model.task = LL_TASK_CLASSIFY, c[3].data.label_column = 1, c[3].data.text_column = 2;
    for (int i = 0; i < 4; i++) {
        ll_status status = LL_ENOMEM;
        for (int n = 1; status; n++) {
            ll_reader *r = NULL;
            ll_memory_fail_at(n);
            status = ll_reader_open(&r, &c[i], "train");
            ll_memory_fail_at(0);
            assert_true(n < 100 && (status == LL_OK || status == LL_ENOMEM));
            ll_reader_free(r);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_sequences),
        cmocka_unit_test(a_file_that_is_missing),
        cmocka_unit_test(windows_of_an_epoch),
        cmocka_unit_test(windows_of_joined_sequences),
        cmocka_unit_test(files_of_which_one_is_large),
        cmocka_unit_test(windows_of_words),
        cmocka_unit_test(lists_in_several_passes),
        cmocka_unit_test(rows_of_a_table),
        cmocka_unit_test(refused_memory),
    };
    return cmocka_run_group_tests_name("marks", tests, make_folder, remove_folder);
}
