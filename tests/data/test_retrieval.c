/* Pairs of texts: in files that name texts or contain them, in training and evaluation; wrong files. */
#include "inputs.h"

static const char docs[] = "a\tfirst text\nb\tsecond\twith a tab\nc\t\n";
static const char pairs[] = "1\ta\tb\n0\tb\tc\r\n1.0\tc\ta\n";

static ll_config config(const char *text) {
    return (ll_config){.model.task = LL_TASK_MATCH,
                       .train.batch = 2,
                       .train.length = 8,
                       .data.format = LL_DATA_RETRIEVAL,
                       .data.test = kept(put("pairs", text, strlen(text)))};
}

static const char *text_of(const ll_batch *b, int row) {
    static char text[4][32];
    static int next;
    char *to = text[next++ % 4];
    for (int t = 0; t < b->lengths[row]; t++) to[t] = (char)b->tokens[row * b->T + t];
    to[b->lengths[row]] = 0;
    return to;
}

static void expect_pairs(const ll_config *c) {
    ll_reader *r = opened(c, "test");
    ll_batch b;
    CHECK_OK(ll_batch_create(&b, c));
    assert_int_equal(b.B, 4);
    assert_int_equal(ll_reader_size(r), 3);
    assert_int_equal(ll_reader_classes(r), 2);
    assert_int_equal(ll_reader_eval_batches(r), 2);
    ll_reader_eval_batch(r, &b, 0);
    assert_string_equal(text_of(&b, 0), "first te");
    assert_string_equal(text_of(&b, 1), "second\tw");
    assert_string_equal(text_of(&b, 2), "second\tw");
    assert_string_equal(text_of(&b, 3), "");
    assert_true(b.targets[0] == 1 && b.targets[1] == 0);
    ll_reader_eval_batch(r, &b, 1);
    assert_string_equal(text_of(&b, 1), "first te");
    assert_true(b.targets[0] == 1 && b.targets[1] == -1 && b.lengths[2] == 0 && b.lengths[3] == 0);
    ll_batch_free(&b);
    ll_reader_free(r);
}

static void pairs_by_name(void **state) {
    (void)state;
    ll_config c = config(pairs);
    c.data.docs = kept(put_gz("docs", docs, sizeof docs - 1));
    expect_pairs(&c);
    c.data.train = c.data.test;
    assert_pure(&c);
}

static void pairs_with_their_texts(void **state) {
    (void)state;
    ll_config c = config("1\ta\tb\tfirst text\tsecond\twith a tab\n0\tb\tc\tsecond_w\t\n1\tc\ta\t\tfirst text\n");
    ll_reader *r = opened(&c, "test");
    ll_batch b;
    CHECK_OK(ll_batch_create(&b, &c));
    ll_reader_eval_batch(r, &b, 0);
    assert_string_equal(text_of(&b, 0), "first te");
    assert_string_equal(text_of(&b, 1), "second\tw");
    assert_string_equal(text_of(&b, 2), "second_w");
    assert_string_equal(text_of(&b, 3), "");
    ll_batch_free(&b);
    ll_reader_free(r);
}

static void wrong_pairs_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *docs, *word;
    } cases[] = {
        {"1\ta\td\n", docs, "line 1 names \"d\", which is not in data.docs"},
        {"1\ta\tb\n2\ta\tb\n", docs, "line 2 has the label \"2\""},
        {"1\ta\n", docs, "2 columns, expected at least 3"},
        {"1\ta\tb\n", "a\tx\nb\ty\na\tz\n", "\"a\" occurs twice"},
        {"1\ta\tb\n", "a\nb\n", "data.docs"},
        {"1\ta\tb\tonly one\n", NULL, "4 columns, expected at least 5"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ll_config c = config(cases[i].text);
        if (cases[i].docs) c.data.docs = kept(put("docs", cases[i].docs, strlen(cases[i].docs)));
        CHECK_FAILS(refused(&c, "test"), LL_EFORMAT, cases[i].word);
    }
    ll_config c = config(pairs);
    c.data.docs = kept(at("missing"));
    CHECK_FAILS(refused(&c, "test"), LL_EIO, "data.docs");
    c.data.docs = NULL;
    c.model.task = LL_TASK_CLASSIFY;
    CHECK_FAILS(refused(&c, "test"), LL_EINVAL, "model.task=match");
}

static void real_pairs_are_read(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int count;
    } known[] = {{"acl-retrieval/pairs-train.tsv", 4379},
                 {"acl-retrieval/pairs-val.tsv", 547},
                 {"acl-retrieval/pairs-test.tsv", 548}};
    int64_t positive = 0;
    for (int i = 0; i < 3; i++) {
        ll_config c = config("");
        c.data.docs = kept(shared("acl-retrieval/docs.tsv.xz"));
        c.data.test = shared(known[i].name);
        c.train.batch = 1;
        ll_reader *r = opened(&c, "test");
        ll_batch b;
        CHECK_OK(ll_batch_create(&b, &c));
        assert_int_equal(ll_reader_size(r), known[i].count);
        for (int64_t j = 0; j < known[i].count; j++) {
            ll_reader_eval_batch(r, &b, j);
            positive += b.targets[0];
        }
        ll_batch_free(&b);
        ll_reader_free(r);
    }
    assert_int_equal(positive, 2737);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_by_name),
        cmocka_unit_test(pairs_with_their_texts),
        cmocka_unit_test(wrong_pairs_are_refused),
        cmocka_unit_test(real_pairs_are_read),
    };
    return cmocka_run_group_tests_name("retrieval", tests, make_folder, remove_folder);
}
