/* Inputs that are larger than memory. What is large is set to a few bytes, so that each reader of files maps them, or
 * puts what it makes of them into a temporary file: its batches are those of the bytes in memory. */
#include "each_format.h"

#include <signal.h>
#include <sys/resource.h>

#include "base/spill.h"
#include "data/synthetic/listops.h"
#include "data/text/tokenizer.h"
#include "tokenizers.h"

enum { SMALL = 100 };

/* ---- The same batches ---- */

static void expect_same(const char *what, const ll_config *c) {
    static const char *const splits[] = {"train", "valid"};
    for (int i = 0; i < 2; i++) {
        ll_large_file_is(0);
        ll_reader *memory = opened(c, splits[i]);
        ll_large_file_is(SMALL);
        ll_reader *mapped = opened(c, splits[i]);
        printf("%s, %s: %lld\n", what, splits[i], (long long)ll_reader_size(memory));
        assert_false(memory->file[0].mapped);
        assert_same_readers(memory, mapped, c);
        double words[2], bytes[2];
        ll_reader_units(memory, &words[0], &bytes[0]);
        ll_reader_units(mapped, &words[1], &bytes[1]);
        assert_true(words[0] == words[1] && bytes[0] == bytes[1]);
        ll_reader_free(memory);
        ll_reader_free(mapped);
    }
    ll_large_file_is(0);
}

static ll_config config(int task, int format, int length, char *train) {
    return (ll_config){.model.task = task,
                       .train.batch = 3,
                       .train.length = length,
                       .data.format = format,
                       .data.min_count = 1,
                       .data.only = -1,
                       .data.valid_fraction = 0.3,
                       .data.train = train};
}

static void texts(void **unused) {
    (void)unused;
    char *folder_of_texts = put_texts("texts"), *one = kept(at("texts/3"));
    ll_config c = config(LL_TASK_LM, LL_DATA_BYTES, 30, folder_of_texts);
    for (int packed = 0; packed < 2; packed++) {
        c.data.format = LL_DATA_BYTES;
        c.data.train = packed ? one : folder_of_texts;
        expect_same("bytes", &c);
        c.data.format = LL_DATA_WORDS;
        expect_same("words", &c);
        c.data.format = LL_DATA_SUBWORDS;
        c.data.tokenizer = put_tokenizer();
        expect_same("subwords", &c);
    }
    c.data.format = LL_DATA_FASTA;
    c.data.train = put_proteins();
    expect_same("fasta", &c);
    c.data.joined = 1;
    expect_same("fasta, joined", &c);
    c.data.format = LL_DATA_MIDI;
    c.data.train = put_music();
    expect_same("midi, joined", &c);
    c.data.joined = 0;
    expect_same("midi", &c);
}

static void pieces(void **unused) {
    (void)unused;
    ll_config c = config(LL_TASK_LM, LL_DATA_PIECES, 30, put_texts("lines"));
    c.data.vocab_size = 300;
    ll_reader *r = NULL;
    const ll_status status = ll_reader_open(&r, &c, "train");
    if (status && strstr(ll_error(), "without SentencePiece")) skip();
    ll_reader_free(r);
    expect_same("pieces", &c);
}

static void examples(void **unused) {
    (void)unused;
    char *rows = put_rows("rows.gz", "%d\ttext %d of %d, %d\n", 900, 1);
    ll_config c = config(LL_TASK_CLASSIFY, LL_DATA_LABELLED, 20, rows);
    c.data.label_column = 1, c.data.text_column = 2;
    expect_same("rows", &c);
    c.data.train = put_rows("rows.jsonl", "{\"label\": %d, \"text\": \"text %d of %d, %d\"}\n", 900, 0);
    expect_same("objects", &c);
    c.data.train = put_class_texts();
    expect_same("films", &c);
    const ll_listops how = {3, 4, 5, 60};
    CHECK_OK(ll_listops_write(at("lists.tsv"), &how, 400, 3, NULL, NULL));
    c.data.format = LL_DATA_LISTOPS;
    c.data.train = kept(at("lists.tsv"));
    c.train.length = 60;
    expect_same("listops", &c);
}

static void pairs(void **unused) {
    (void)unused;
    ll_config c = config(LL_TASK_SEQ2SEQ, LL_DATA_PAIRS, 40, put_rows("pairs", "%d source %d\t%d target %d\n", 900, 0));
    expect_same("pairs", &c);
    char *rows = put_rows("matches", "%d\tn%d\tn%d\ta text\tand another %d\n", 900, 0);
    c = config(LL_TASK_MATCH, LL_DATA_RETRIEVAL, 20, rows);
    expect_same("retrieval with its texts", &c);
    char docs[4000];
    size_t n = 0;
    for (int i = 0; i < 50; i++) n += (size_t)sprintf(docs + n, "n%d\tthe text with number %d\n", i, i);
    c.data.docs = kept(put_gz("docs", docs, n));
    c.data.train = put_rows("names", "%d\tn%d\tn%d\n", 900, 0);
    expect_same("retrieval by names", &c);
}

static void images(void **unused) {
    (void)unused;
    ll_config c = config(LL_TASK_CLASSIFY, LL_DATA_IDX, 0, NULL);
    put_idx(&c.data.train, &c.data.train_labels);
    c.train.length = 36;
    expect_same("idx", &c);
    c.model.channels = 3, c.data.resize = 4, c.train.length = 3 * 36;
    expect_same("idx, in colour and resized", &c);
    c.data.resize = 0, c.data.train_labels = NULL;
    c.data.format = LL_DATA_CIFAR10, c.data.train = put_cifar("cifar.gz"), c.train.length = 3072;
    expect_same("cifar10", &c);
    c.data.format = LL_DATA_PNG, c.data.train = put_pictures(), c.data.resize = 8;
    expect_same("png", &c);
    c.data.resize = 0, c.model.channels = 1, c.train.length = 36;
    c.data.format = LL_DATA_PATHFINDER, c.data.train = put_paths();
    expect_same("pathfinder", &c);
}

/* Tokens of the blocks of a text are those of the whole. */
static void compare_blocks(int one_line) {
    enum { SIZE = 10 << 20 };
    char *text = malloc(SIZE + 100);
    size_t n = 0;
    assert_non_null(text);
    while (n < SIZE) n += write_words(text + n, 5);
    for (size_t i = 0; one_line && i < n; i++)
        if (text[i] == '\n') text[i] = ' ';
    memset(text + (4 << 20) - 3, ' ', 6); /* blanks where a block might end: their tokens are pairs of them */
    ll_config c = config(LL_TASK_LM, LL_DATA_SUBWORDS, 1000, kept(put("long", text, n)));
    c.data.valid_fraction = 0;
    c.data.tokenizer = put_tokenizer();
    ll_tokenizer *tokenizer = NULL;
    ll_bytes list = {0};
    int *whole = NULL;
    size_t count = 0;
    CHECK_OK(ll_tokenizer_vocabulary(&list, &c.data, NULL));
    CHECK_OK(ll_tokenizer_create_from(&tokenizer, &c.data, &list, "list"));
    CHECK_OK(ll_tokenizer_encode(tokenizer, text, n, &whole, &count));
    ll_reader *r = opened(&c, "train");
    ll_batch b;
    CHECK_OK(ll_batch_create(&b, &c));
    assert_int_equal(ll_reader_size(r), count);
    for (int64_t i = 0; i < ll_reader_eval_batches(r); i++) {
        ll_reader_eval_batch(r, &b, i);
        for (int64_t row = 0, at = 3000 * i; row < 3 && at + 1000 < (int64_t)count; row++, at += 1000)
            assert_memory_equal(b.tokens + 1000 * row, whole + at, 1000 * sizeof *whole);
    }
    ll_batch_free(&b);
    ll_reader_free(r);
    ll_tokenizer_free(tokenizer);
    ll_bytes_free(&list);
    ll_free(whole);
    free(text);
}

static void blocks(void **unused) {
    (void)unused;
    compare_blocks(0);
    compare_blocks(1);
}

/* ---- What can fail ---- */

/* No temporary file leaves a name. */
static void no_names(void **unused) {
    (void)unused;
    make("temporary");
    setenv("TMPDIR", at("temporary"), 1);
    ll_spill s = {.name = "it"};
    ll_bytes all = {0};
    ll_large_file_is(SMALL);
    for (int i = 0; i < 1000; i++) CHECK_OK(ll_spill_add(&s, &i, sizeof i));
    assert_non_null(s.file);
    assert_int_equal(files_in(at("temporary")), 0);
    CHECK_OK(ll_spill_end(&s, &all));
    assert_int_equal(files_in(at("temporary")), 0);
    assert_true(all.mapped && all.size == 1000 * sizeof(int) && !all.data[all.size]);
    for (int i = 0; i < 1000; i++) assert_int_equal(((int *)all.data)[i], i);
    ll_bytes_free(&all);
    unsetenv("TMPDIR");
    ll_large_file_is(0);
}

static void a_folder_that_cannot_be_written(void **unused) {
    (void)unused;
    ll_config c = config(LL_TASK_LM, LL_DATA_BYTES, 30, put_texts("refused"));
    ll_large_file_is(SMALL);
    setenv("TMPDIR", "/does/not/exist", 1);
    CHECK_FAILS(refused(&c, "train"), LL_EIO, "/does/not/exist cannot be written: No such file or directory; set");
    unsetenv("TMPDIR");
    ll_large_file_is(0);
}

/* A full disk: no file of this process may grow beyond 2 kB. */
static void a_full_disk(void **unused) {
    (void)unused;
    struct rlimit before, full;
    char *rows = put_rows("full.rows.gz", "%d\t%d %d %d\n", 900, 1);
    ll_config c[4] = {config(LL_TASK_LM, LL_DATA_BYTES, 30, put_texts("full")),
                      config(LL_TASK_CLASSIFY, LL_DATA_CIFAR10, 1024, put_cifar("full.gz")),
                      config(LL_TASK_CLASSIFY, LL_DATA_PNG, 64, put_pictures()),
                      config(LL_TASK_CLASSIFY, LL_DATA_LABELLED, 20, rows)};
    c[2].data.resize = 8;
    c[3].data.label_column = 1, c[3].data.text_column = 2;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    full = before;
    full.rlim_cur = 500;
    ll_large_file_is(SMALL);
    for (int i = 0; i < 4; i++) {
        setrlimit(RLIMIT_FSIZE, &full);
        const ll_status status = refused(&c[i], "train");
        setrlimit(RLIMIT_FSIZE, &before);
        assert_int_equal(status, LL_EIO);
        assert_non_null(strstr(ll_error(), "cannot be written: File too large; set TMPDIR to a folder with"));
    }
    ll_large_file_is(0);
    signal(SIGXFSZ, handler);
}

/* A tokenizer that leaves out control characters does not join the words of two files. */
static void files_are_apart(void **unused) {
    (void)unused;
    static const char json[] = BERT("\"[UNK]\":0,\"dog\":1,\"the\":2", "true");
    make("apart");
    put("apart/a", "the dog", 7);
    put("apart/b", "the", 3);
    ll_config c = config(LL_TASK_LM, LL_DATA_SUBWORDS, 1, kept(at("apart")));
    c.data.tokenizer = kept(put("bert.json", json, sizeof json - 1));
    c.data.valid_fraction = 0;
    ll_reader *r = opened(&c, "train");
    assert_int_equal(ll_reader_size(r), 3);
    ll_reader_free(r);
}

static void refused_memory(void **unused) {
    (void)unused;
    ll_config c[4] = {config(LL_TASK_LM, LL_DATA_BYTES, 30, put_texts("less")),
                      config(LL_TASK_LM, LL_DATA_SUBWORDS, 30, put_texts("less")),
                      config(LL_TASK_CLASSIFY, LL_DATA_PATHFINDER, 36, put_paths()),
                      config(LL_TASK_CLASSIFY, LL_DATA_LABELLED, 20, put_rows("less.gz", "%d\t%d %d %d\n", 90, 1))};
    c[1].data.tokenizer = put_tokenizer();
    c[3].data.label_column = 1, c[3].data.text_column = 2;
    for (int large = 0; large < 2; large++)
        for (int i = 0; i < 4; i++) {
            ll_large_file_is(large ? 0 : SMALL);
            for (long n = 1, failed = 1; failed; n += i == 1 ? 37 : 1) {
                ll_memory_fail_at(n);
                const ll_status status = refused(&c[i], "train");
                ll_memory_fail_at(0);
                assert_true(status == LL_OK || status == LL_ENOMEM);
                failed = status != LL_OK;
            }
        }
    ll_large_file_is(0);
}

/* A file that has no room among the addresses of the process, here because it may have no more of them. */
static void no_addresses(void **state) {
    (void)state;
    struct rlimit before, none;
    ll_bytes bytes = {0};
    const char *path = at("sparse");
    CHECK_OK(ll_file_write(path, "x", 1));
    assert_int_equal(truncate(path, 64 << 20), 0);
    getrlimit(RLIMIT_AS, &before);
    none = before, none.rlim_cur = 1 << 20;
    setrlimit(RLIMIT_AS, &none);
    const ll_status status = ll_file_map(&bytes, path);
    setrlimit(RLIMIT_AS, &before);
    assert_int_equal(status, LL_ENOMEM);
    assert_non_null(strstr(ll_error(), "no memory to map the 67108864 bytes of"));
    assert_null(bytes.data);
    CHECK_OK(ll_file_map(&bytes, path));
    assert_int_equal(bytes.size, 64 << 20);
    ll_bytes_free(&bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts),
        cmocka_unit_test(pieces),
        cmocka_unit_test(examples),
        cmocka_unit_test(pairs),
        cmocka_unit_test(images),
        cmocka_unit_test(blocks),
        cmocka_unit_test(files_are_apart),
        cmocka_unit_test(no_names),
        cmocka_unit_test(a_folder_that_cannot_be_written),
        cmocka_unit_test(a_full_disk),
        cmocka_unit_test(refused_memory),
        cmocka_unit_test(no_addresses),
    };
    return cmocka_run_group_tests_name("spill", tests, make_folder, remove_folder);
}
