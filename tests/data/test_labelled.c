/* Texts with classes from TSV, CSV and folders; wrong files; the IMDB reviews. */
#include "base/spill.h"
#include "inputs.h"

#include <sys/stat.h>

static ll_config config(const char *name, const char *content) {
    return (ll_config){.model.task = LL_TASK_CLASSIFY,
                       .train.batch = 1,
                       .train.length = 6,
                       .data.format = LL_DATA_LABELLED,
                       .data.test = kept(put(name, content, strlen(content))),
                       .data.label_column = 1,
                       .data.text_column = 2};
}

/* All examples in order: "label:text|label:text|..." */
static const char *all_of(const ll_config *c, const char *split) {
    static char text[600];
    ll_reader *r = opened(c, split);
    ll_batch b;
    size_t n = 0;
    CHECK_OK(ll_batch_create(&b, c));
    for (int64_t i = 0; i < ll_reader_eval_batches(r); i++) {
        ll_reader_eval_batch(r, &b, i);
        n += (size_t)snprintf(text + n, sizeof text - n, "%d:", b.targets[0]);
        for (int t = 0; t < b.lengths[0]; t++) text[n++] = (char)b.tokens[t];
        for (int t = b.lengths[0]; t < b.T; t++) assert_int_equal(b.tokens[t], 0);
        text[n++] = '|';
    }
    text[n] = 0;
    ll_batch_free(&b);
    ll_reader_free(r);
    return text;
}

/* How many texts of the file are longer than `length` bytes. */
static void assert_cut(ll_config c, int length, int64_t expected) {
    int64_t texts, cut;
    c.train.length = length;
    ll_reader *r = opened(&c, "test");
    ll_reader_cut(r, &texts, &cut);
    assert_int_equal(texts, ll_reader_size(r));
    assert_int_equal(cut, expected);
    ll_reader_free(r);
}

static void tables_with_tabs(void **state) {
    (void)state;
    ll_config c = config("a.tsv", "1\tgood\n0\tbad film\r\n\n2\ta\tb\n0\t\n1\t\"x\"");
    assert_string_equal(all_of(&c, "test"), "1:good|0:bad fi|2:a\tb|0:|1:\"x\"|");
    c = config("b.tsv", "id\ttext\tlabel\n7\tgood\t1\n8\tbad\t0\n");
    c.data.header = 1, c.data.label_column = 3;
    assert_string_equal(all_of(&c, "test"), "1:good|0:bad|");
    c = config("d.tsv", "label\ttext\tname\n1\tgood\tpos\n0\tbad\n"); /* the header names a column after the text */
    assert_string_equal((c.data.header = 1, all_of(&c, "test")), "1:good|0:bad|");
    c = config("e.tsv", "label\ttext\n1\ta\tb\n0\tbad\n");
    assert_string_equal((c.data.header = 1, all_of(&c, "test")), "1:a\tb|0:bad|");
    c = config("c.tsv", "\xef\xbb\xbf"
                        "1\tx\n");
    assert_string_equal(all_of(&c, "test"), "1:x|");
}

static void tables_with_commas(void **state) {
    (void)state;
    ll_config c = config("a.csv", "review,sentiment\n\"a, \"\"b\"\"\",good\nplain,\"bad\"\r\n\"l\nm\",good\n,bad");
    c.data.separator = LL_SEPARATOR_COMMA, c.data.header = 1, c.data.label_column = 2, c.data.text_column = 1;
    assert_string_equal(all_of(&c, "test"), "1:a, \"b\"|0:plain|1:l\nm|0:|");
    c.data.class_names = kept("good,bad");
    assert_string_equal(all_of(&c, "test"), "0:a, \"b\"|1:plain|0:l\nm|1:|");
    assert_cut(c, 6, 0); /* two quotes are one byte */
    assert_cut(c, 5, 1);
    assert_cut(c, 4, 2);
    c.data.class_names = kept("good,ba");
    CHECK_FAILS(refused(&c, "test"), LL_EFORMAT, "\"bad\", which is not in data.classes=good,ba");
    c.data.class_names = NULL;
    ll_reader *r = opened(&c, "test");
    assert_string_equal(ll_reader_class_names(r), "bad,good");
    assert_int_equal(ll_reader_classes(r), 2);
    assert_int_equal(ll_reader_vocab(r), 256);
    ll_reader_free(r);
    /* A comma ends a text, with quotes or without: what comes behind it is another column. */
    for (int header = 0; header < 2; header++) {
        c = config("k.csv", header ? "label,text,user\n1,good,eve\n0,\"bad\",bob\n" : "1,good,eve\n0,\"bad\",bob\n");
        c.data.separator = LL_SEPARATOR_COMMA, c.data.header = header;
        assert_string_equal(all_of(&c, "test"), "1:good|0:bad|");
    }
}

static void objects_of_lines(void **state) {
    (void)state;
    ll_config c = config("a.jsonl", "{ \"label\": 1, \"text\": \"a\\tb\"}\n\n{\"sequence\": \"\", \"label\": \"0\"}\r\n"
                                    "{\"label\": 2, \"text\": \"caf\\u00e9 noir\"}");
    assert_string_equal(all_of(&c, "test"), "1:a\tb|0:|2:caf\xc3\xa9 |");
    c = config("b.jsonl", "{\"stars\": \"good\", \"review\": \"x\"}\n{\"stars\": \"bad\", \"review\": \"y\"}\n");
    CHECK_FAILS(refused(&c, "test"), LL_EFORMAT,
                "line 1: the object has neither \"text\" nor \"sequence\"; data.text-key");
    c.data.text_key = kept("review");
    CHECK_FAILS(refused(&c, "test"), LL_EFORMAT,
                "line 1: the object has no \"label\"; data.text-key and data.label-key");
    c.data.label_key = kept("stars");
    assert_string_equal(all_of(&c, "test"), "1:x|0:y|");
    c.data.class_names = kept("good,worse");
    CHECK_FAILS(refused(&c, "test"), LL_EFORMAT, "line 2 has the label \"bad\", which is not in data.classes");
    c = config("c.jsonl", "{\"label\": \"a,b\", \"text\": \"x\"}\n");
    CHECK_FAILS(
        refused(&c, "test"), LL_EFORMAT,
        "line 1 has a label that is not one of at most 256 numbers or names without commas; is data.label-key right?");
    static char many[200000]; /* texts in pieces, and more examples than there is space for at first */
    size_t n = 0;
    for (int i = 0; i < 3000; i++)
        n += (size_t)snprintf(many + n, sizeof many - n, "{\"label\": %d, \"text\": \"%0*d\"}\n", i % 7, i ? 4 : 70000,
                              i);
    c = config("many.jsonl", many);
    ll_reader *r = opened(&c, "test");
    ll_batch b;
    CHECK_OK(ll_batch_create(&b, &c));
    for (int i = 0; i < 3000; i += 2999) {
        ll_reader_eval_batch(r, &b, i);
        assert_int_equal(b.targets[0], i % 7);
        for (int t = 0; t < 4; t++) assert_int_equal(b.tokens[t], i ? "2999"[t] : '0');
    }
    ll_batch_free(&b);
    ll_reader_free(r);
    c = config("t.tsv", "1\t{\"text\"}\n0\t{\n"); /* a table is none, whatever its texts are */
    assert_string_equal(all_of(&c, "test"), "1:{\"text|0:{|");
}

/* Large tables are read row by row, and another program may write into the file meanwhile. */
static void labels_that_change_later(void **state) {
    (void)state;
    enum { SMALL = 8 };
    ll_config c = config("later.tsv", "1\tgood\n0\tbad\n1\tfine\n0\tpoor\n");
    ll_large_file_is(SMALL);
    ll_reader *r = opened(&c, "test");
    ll_large_file_is(0);
    FILE *f = fopen(c.data.test, "r+");
    assert_non_null(f);
    assert_int_equal(fwrite("7\tgood\nx\tbad\n0", 1, 14, f), 14);
    assert_int_equal(fclose(f), 0);
    ll_batch b;
    CHECK_OK(ll_batch_create(&b, &c));
    for (int i = 0; i < 4; i++) {
        ll_reader_eval_batch(r, &b, i);
        assert_int_equal(b.targets[0], 0);
        assert_int_equal(b.lengths[0], i < 2 ? 0 : 4);
    }
    ll_batch_free(&b);
    ll_reader_free(r);
}

static void folders_of_classes(void **state) {
    (void)state;
    static const char *const folders[] = {"f", "f/neg", "f/pos", "f/unsup"};
    for (int i = 0; i < 4; i++) assert_int_equal(mkdir(at(folders[i]), 0700), 0);
    put("f/neg/0_1.txt", "dull", 4);
    put("f/pos/1_9.txt", "nice", 4);
    put_gz("f/pos/2_8.txt", "fine", 4);
    put("f/unsup/3_0.txt", "what", 4);
    put("f/readme", "none", 4);
    ll_config c = config("none", "");
    c.data.test = kept(at("f"));
    c.data.class_names = kept("neg,pos");
    assert_string_equal(all_of(&c, "test"), "0:dull|1:nice|1:fine|");
    c.data.class_names = NULL;
    assert_string_equal(all_of(&c, "test"), "0:dull|1:nice|1:fine|2:what|");
    assert_cut(c, 4, 0);
    assert_cut(c, 3, 4);
    c.data.class_names = kept("a,b");
    CHECK_FAILS(refused(&c, "test"), LL_EINVAL, "a,b");
}

/* Files are sorted by class. Still, held-out examples have both classes, and no example is in both splits. */
static void held_out_examples_are_drawn(void **state) {
    (void)state;
    static char text[3000], seen[200];
    size_t n = 0;
    for (int i = 0; i < 200; i++) n += (size_t)snprintf(text + n, 32, "%d\t%03d\n", i / 100, i);
    ll_config c = config("sorted.tsv", text);
    c.data.train = c.data.test;
    c.data.valid_fraction = 0.3;
    int ones = 0;
    for (int s = 0; s < 2; s++) {
        ll_reader *r = opened(&c, s ? "valid" : "train");
        ll_batch b;
        CHECK_OK(ll_batch_create(&b, &c));
        assert_int_equal(ll_reader_size(r), s ? 60 : 140);
        for (int64_t i = 0; i < ll_reader_eval_batches(r); i++) {
            ll_reader_eval_batch(r, &b, i);
            const int number = 100 * (b.tokens[0] - '0') + 10 * (b.tokens[1] - '0') + b.tokens[2] - '0';
            assert_int_equal(seen[number]++, 0);
            assert_int_equal(b.targets[0], number / 100);
            ones += s && b.targets[0];
        }
        ll_batch_free(&b);
        ll_reader_free(r);
    }
    assert_true(ones > 15 && ones < 45);
    assert_pure(&c);
}

static void wrong_tables_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *word;
        int comma;
    } cases[] = {
        {"1\tgood\n0\n", "line 2 has 1 columns", 0},
        {"1,good\n0,\"bad\n", "line 2 is never closed", 1},
        {"1,\"good\nfilm\"\n0,\"bad\n", "line 3 is never closed", 1},
        {"1,\"good\" film\n", "line 1 has text after a closing quote", 1},
        {"\"1\"\rgood\n", "line 1 has text after a closing quote", 1}, /* a line end of two bytes, or of '\n' */
        {"1,good\n0,bad\n1,well, good\n", "line 3 has 3 columns, and the first row has 2; a text with commas must", 1},
        {"0\tgood\na,b\tbad\n", "data.label-column", 0},
        {"0\tgood\n\xff\tbad\n", "UTF-8", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ll_config c = config("wrong", cases[i].text);
        c.data.separator = cases[i].comma;
        CHECK_FAILS(refused(&c, "test"), LL_EFORMAT, cases[i].word);
    }
    ll_config c = config("tabs", "good\t1\na\tb\t0\n");
    c.data.label_column = 2, c.data.text_column = 1;
    CHECK_FAILS(refused(&c, "test"), LL_EFORMAT,
                "line 2 has 3 columns, and the first row has 2; a text with tabs must");
    c = config("empty", "");
    CHECK_FAILS(refused(&c, "test"), LL_EINVAL, "it is empty");
    c = config("three", "2\ta\n");
    c.model.classes = 2;
    CHECK_FAILS(refused(&c, "test"), LL_EFORMAT, "three: line 1 has label 2, expected 0..1");
    c.model.classes = 0, c.train.length = 0;
    CHECK_FAILS(refused(&c, "test"), LL_EINVAL, "train.length");
    c = config("lines.csv", "label,text\n0,\"a\n\nb\"\n\n1,c\n2,d\n3,e\n");
    c.data.separator = LL_SEPARATOR_COMMA, c.data.header = 1, c.model.classes = 2;
    CHECK_FAILS(refused(&c, "test"), LL_EFORMAT, "lines.csv: line 8 has label 3, expected 0..1");
    c.data.class_names = kept("0,1");
    CHECK_FAILS(refused(&c, "test"), LL_EFORMAT, "line 7 has the label \"2\", which is not in data.classes=0,1");
    c = config("names.csv", "x,\"a\nb\"\n,c\n");
    c.data.separator = LL_SEPARATOR_COMMA;
    CHECK_FAILS(refused(&c, "test"), LL_EFORMAT, "line 3 has a label that is not one of at most 256");
    static char many[4000];
    size_t n = 0;
    for (int i = 0; i < 300; i++) n += (size_t)snprintf(many + n, 16, "n%d\tx\n", i);
    c = config("many", many);
    CHECK_FAILS(refused(&c, "test"), LL_EFORMAT, "data.label-column");
}

/* Names of train come as data.classes. Without them the classes are numbers, and one label of another split that is
 * none would change the number of every class. */
static void other_splits_have_the_classes_of_train(void **state) {
    (void)state;
    ll_config c = config("mixed.tsv", "2\ta\n10\tb\nx\tc\n");
    c.model.classes = 12;
    CHECK_FAILS(refused(&c, "test"), LL_EFORMAT,
                "line 3 has the label \"x\", and the classes of the model are numbers");
    c.data.class_names = kept("10,2,x");
    assert_string_equal(all_of(&c, "test"), "1:a|0:b|2:c|");
}

/* A list of classes is wrong in a place that the error names, however long the list is. */
static void wrong_lists_are_refused(void **state) {
    (void)state;
    static char list[4000], name[300];
    size_t n = 0;
    ll_config c = config("few.tsv", "c1\ta\n");
    c.data.class_names = list;
    for (int i = 0; i < 257; i++) n += (size_t)snprintf(list + n, sizeof list - n, "%sc%d", i ? "," : "", i);
    CHECK_FAILS(refused(&c, "test"), LL_EINVAL, "data.classes has 257 names, and data of this format have at most 256");
    snprintf(strrchr(list, ','), 8, ",c2");
    CHECK_FAILS(refused(&c, "test"), LL_EINVAL, "has 257 names");
    *strrchr(list, ',') = 0;
    assert_string_equal(all_of(&c, "test"), "1:a|");
    snprintf(strrchr(list, ','), 8, ",c2");
    CHECK_FAILS(refused(&c, "test"), LL_EINVAL, "names 3 and 256 of 256 are both \"c2\"");
    memset(name, 'x', 257);
    c.data.class_names = name;
    CHECK_FAILS(refused(&c, "test"), LL_EINVAL, "name 1 of 1 has more than 256 bytes");
}

static void real_reviews_are_read(void **state) {
    (void)state;
    ll_config c = {.model.task = LL_TASK_CLASSIFY,
                   .train.batch = 1,
                   .train.length = 13704,
                   .data.format = LL_DATA_LABELLED,
                   .data.label_column = 1,
                   .data.text_column = 4};
    c.data.test = shared("imdb/train.tsv.xz");
    ll_reader *r = opened(&c, "test");
    ll_batch b;
    int64_t positive = 0;
    int longest = 0;
    CHECK_OK(ll_batch_create(&b, &c));
    assert_int_equal(ll_reader_size(r), 25000);
    for (int64_t i = 0; i < 25000; i++) {
        ll_reader_eval_batch(r, &b, i);
        positive += b.targets[0];
        if (b.lengths[0] > longest) longest = b.lengths[0];
        assert_true(b.targets[0] == (i >= 12500)); /* sorted by class */
    }
    assert_int_equal(positive, 12500);
    assert_int_equal(longest, 13704);
    ll_batch_free(&b);
    ll_reader_free(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_with_tabs),
        cmocka_unit_test(tables_with_commas),
        cmocka_unit_test(objects_of_lines),
        cmocka_unit_test(labels_that_change_later),
        cmocka_unit_test(folders_of_classes),
        cmocka_unit_test(held_out_examples_are_drawn),
        cmocka_unit_test(wrong_tables_are_refused),
        cmocka_unit_test(real_reviews_are_read),
        cmocka_unit_test(other_splits_have_the_classes_of_train),
        cmocka_unit_test(wrong_lists_are_refused),
    };
    return cmocka_run_group_tests_name("labelled", tests, make_folder, remove_folder);
}
