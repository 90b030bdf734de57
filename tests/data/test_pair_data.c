/* Pairs of texts: files of lines, and generated pairs. An error in a file names its line. */
#include "inputs.h"

#include "data/text/pairs.h"

static ll_config config(char *train) {
    return (ll_config){.model.task = LL_TASK_SEQ2SEQ,
                       .train.batch = 3,
                       .train.length = 12,
                       .data.format = LL_DATA_PAIRS,
                       .data.train = train};
}

static ll_config toy(int format) {
    return (ll_config){.model.task = LL_TASK_SEQ2SEQ,
                       .train.batch = 4,
                       .train.length = 13,
                       .data.format = format,
                       .data.shortest = 2,
                       .data.longest = 10,
                       .data.symbols = 5,
                       .train.seed = 3};
}

/* Source and target of a row as text. Checks that every token is where it should be and that padding does not count. */
static void read_row(const ll_batch *b, int row, char *source, char *target) {
    const int n = b->source_lengths[row] - 2, m = b->lengths[row] - 1;
    const int *s = b->source + row * b->S, *t = b->tokens + row * b->T, *wanted = b->targets + row * b->T;
    assert_in_range(n, 1, b->S - 2);
    assert_in_range(m, 1, b->T - 1);
    assert_int_equal(s[0], LL_TOKEN_BEGIN);
    assert_int_equal(s[n + 1], LL_TOKEN_END);
    assert_int_equal(t[0], LL_TOKEN_BEGIN);
    assert_int_equal(wanted[m], LL_TOKEN_END);
    for (int i = 0; i < n; i++) source[i] = (char)s[i + 1];
    for (int i = 0; i < m; i++) {
        target[i] = (char)wanted[i];
        assert_int_equal(t[i + 1], wanted[i]);
    }
    for (int i = n + 2; i < b->S; i++) assert_int_equal(s[i], LL_TOKEN_PAD);
    for (int i = m + 1; i < b->T; i++) {
        assert_int_equal(t[i], LL_TOKEN_PAD);
        assert_int_equal(wanted[i], -1);
    }
    source[n] = target[m] = 0;
}

static const char LINES[] = "ab\tcd\nx\tyyyyyyyyyy\n0123456789\t\xff\r\nlast\tone";
static const char *const EXPECTED[][2] = {{"ab", "cd"}, {"x", "yyyyyyyyyy"}, {"0123456789", "\xff"}, {"last", "one"}};

static void check_lines(char *path) {
    ll_config c = config(path);
    ll_reader *r = opened(&c, "train");
    ll_batch b;
    char source[16], target[16];
    CHECK_OK(ll_batch_create(&b, &c));
    assert_int_equal(ll_reader_size(r), 4);
    assert_int_equal(ll_reader_vocab(r), LL_TOKEN_COUNT);
    assert_int_equal(ll_reader_eval_batches(r), 2);
    for (int i = 0; i < 4; i++) {
        ll_reader_eval_batch(r, &b, i / 3);
        read_row(&b, i % 3, source, target);
        assert_string_equal(source, EXPECTED[i][0]);
        assert_string_equal(target, EXPECTED[i][1]);
    }
    for (int row = 1; row < 3; row++) { /* the last batch has only one row */
        assert_int_equal(b.lengths[row], 0);
        assert_int_equal(b.source_lengths[row], 0);
        for (int t = 0; t < b.T; t++) assert_int_equal(b.targets[row * b.T + t], -1);
    }
    int seen[4] = {0};
    for (int64_t i = 0; i < 4; i++) { /* 12 rows are three passes */
        ll_reader_batch(r, &b, 5, i);
        for (int row = 0; row < 3; row++) {
            read_row(&b, row, source, target);
            for (int e = 0; e < 4; e++) seen[e] += !strcmp(source, EXPECTED[e][0]) && !strcmp(target, EXPECTED[e][1]);
        }
    }
    for (int e = 0; e < 4; e++) assert_int_equal(seen[e], 3);
    ll_batch_free(&b);
    ll_reader_free(r);
}

static void lines_become_pairs(void **state) {
    (void)state;
    check_lines(put("pairs", LINES, sizeof LINES - 1));
    char marked[sizeof LINES + 3] = "\xef\xbb\xbf"; /* a byte order mark is no part of the first source */
    memcpy(marked + 3, LINES, sizeof LINES);
    check_lines(put("marked", marked, sizeof LINES + 2));
    check_lines(put_gz("pairs.gz", LINES, sizeof LINES - 1));
    check_lines(put_xz("pairs.xz", LINES, sizeof LINES - 1));
    ll_config c = config(put("many", "a\t1\nb\t2\nc\t3\nd\t4\ne\t5\nf\t6\ng\t7\nh\t8\ni\t9\nj\t0\n", 40));
    c.data.valid_fraction = 0.3;
    c.data.limit = 5;
    ll_reader *train = opened(&c, "train"), *valid = opened(&c, "valid");
    assert_int_equal(ll_reader_size(train), 5);
    assert_int_equal(ll_reader_size(valid), 3);
    ll_batch b;
    char source[16], target[16];
    CHECK_OK(ll_batch_create(&b, &c));
    ll_reader_eval_batch(valid, &b, 0);
    read_row(&b, 0, source, target);
    assert_string_equal(source, "h"); /* the end of the file */
    ll_batch_free(&b);
    ll_reader_free(train);
    ll_reader_free(valid);
    assert_pure(&c);
    assert_memory_can_end(&c, "train");
}

static void wrong_lines_are_named(void **state) {
    (void)state;
    static const char *const bad[][2] = {
        {"", "0 bytes"},
        {"a\tb\nno tab\n", "line 2 has no TAB"},
        {"a\tb\n\nc\td\n", "line 2 has no TAB"},
        {"a\tb\tc\n", "line 1 has more than one TAB"},
        {"\tb\n", "line 1 has an empty source"},
        {"a\tb\na\t\n", "line 2 has an empty target"},
        {"a\t\r\n", "empty target"},
        {"01234567890\tb\n", "line 1 has a source of 11 bytes, and there is room for 10; set train.length=13"},
        {"a\t012345678901\n", "line 1 has a target of 12 bytes"},
        {"\n", "line 1 has no TAB"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ll_config c = config(put("bad", bad[i][0], strlen(bad[i][0])));
        CHECK_FAILS(refused(&c, "train"), LL_EFORMAT, bad[i][1]);
        assert_non_null(strstr(ll_error(), "data.train"));
    }
    ll_config c = config(put("good", "a\tb\n", 4));
    c.model.task = LL_TASK_LM;
    CHECK_FAILS(refused(&c, "train"), LL_EINVAL, "model.task=seq2seq");
    c = config(at("good"));
    c.train.length = 2;
    CHECK_FAILS(refused(&c, "train"), LL_EINVAL, "train.length");
    c = config(at("good"));
    c.data.valid_fraction = 0.9;
    CHECK_FAILS(
        refused(&c, "train"), LL_EINVAL,
        "valid-fraction=0.9 holds out all of 1 pair; name data.valid=FILE, or set data.valid-fraction=0 to train");
    CHECK_FAILS(refused(&c, "test"), LL_EINVAL, "data.test");
    c = config(at("nowhere"));
    CHECK_FAILS(refused(&c, "train"), LL_EIO, "nowhere");
}

static void toys_follow_their_rule(void **state) {
    (void)state;
    static const int formats[] = {LL_DATA_COPY, LL_DATA_REVERSE, LL_DATA_COPY_REVERSE};
    for (int f = 0; f < 3; f++) {
        ll_config c = toy(formats[f]);
        const int marks = formats[f] == LL_DATA_COPY_REVERSE;
        ll_reader *r = opened(&c, "train");
        ll_batch b;
        int length[16] = {0}, symbol[5] = {0}, copies = 0;
        char source[16], target[16];
        CHECK_OK(ll_batch_create(&b, &c));
        for (int64_t i = 0; i < 200; i++) {
            ll_reader_batch(r, &b, 3, i);
            for (int row = 0; row < b.B; row++) {
                read_row(&b, row, source, target);
                const char *s = source + marks;
                const size_t n = strlen(s);
                const int copy = formats[f] == LL_DATA_COPY || (marks && source[0] == '=');
                if (marks) assert_true(source[0] == '=' || source[0] == '<');
                assert_int_equal(strlen(target), n);
                for (size_t e = 0; e < n; e++) {
                    assert_int_equal(target[e], s[copy ? e : n - 1 - e]);
                    assert_in_range(s[e], 'a', 'e');
                    symbol[s[e] - 'a']++;
                }
                length[n]++;
                copies += copy;
            }
        }
        for (int n = 0; n < 16; n++)
            assert_in_range(length[n], n >= 2 && n <= 10 ? 50 : 0, n >= 2 && n <= 10 ? 130 : 0);
        for (int s = 0; s < 5; s++) assert_in_range(symbol[s], 850, 1100); /* 800 x 6 / 5 = 960 */
        if (marks) assert_in_range(copies, 340, 460);
        ll_batch_free(&b);
        ll_reader_free(r);
        assert_memory_can_end(&c, "valid");
    }
}

/* Associative recall: pairs in front, and each of their keys once more, later, with its value as the target. */
static void recall_follows_its_rule(void **state) {
    (void)state;
    ll_config c = {.model.task = LL_TASK_LM,
                   .train.batch = 4,
                   .train.length = 41,
                   .train.seed = 3,
                   .data.format = LL_DATA_RECALL,
                   .data.shortest = 5,
                   .data.longest = 5,
                   .data.symbols = 7};
    ll_reader *r = opened(&c, "train");
    ll_batch b;
    int distance[3] = {0};
    CHECK_OK(ll_batch_create(&b, &c));
    for (int64_t i = 0; i < 100; i++) {
        ll_reader_batch(r, &b, 1, i);
        for (int row = 0; row < b.B; row++) {
            const int *token = b.tokens + row * b.T, *target = b.targets + row * b.T;
            int value[7], asked = 0;
            for (int k = 0; k < 7; k++) value[k] = -1;
            for (int p = 0; p < 5; p++) {
                assert_in_range(token[2 * p], 0x40, 0x46);
                assert_in_range(token[2 * p + 1], 0xc0, 0xc6);
                assert_int_equal(value[token[2 * p] - 0x40], -1); /* all keys differ */
                value[token[2 * p] - 0x40] = token[2 * p + 1];
                assert_true(target[2 * p] == -1 && target[2 * p + 1] == -1);
            }
            for (int t = 10; t < b.T; t++) {
                if (target[t] < 0) {
                    assert_int_equal(token[t], ' ');
                    continue;
                }
                assert_in_range(token[t], 0x40, 0x46);
                assert_int_equal(target[t], value[token[t] - 0x40]);
                value[token[t] - 0x40] = -1; /* each is asked for once */
                distance[(t - 10) / 10 < 2 ? (t - 10) / 10 : 2]++;
                asked++;
            }
            assert_int_equal(asked, 5);
        }
    }
    assert_true(distance[0] > distance[1] && distance[1] > distance[2] / 2 && distance[2] > 100);
    ll_batch_free(&b);
    ll_reader_free(r);
    assert_memory_can_end(&c, "valid");
    c.data.longest = 8;
    CHECK_FAILS(refused(&c, "train"), LL_EINVAL, "data.longest = 8");
    c.data.symbols = 64;
    c.train.length = 31;
    CHECK_FAILS(refused(&c, "train"), LL_EINVAL, "train.length=32");
    c.data.longest = 4;
    CHECK_FAILS(refused(&c, "train"), LL_EINVAL, "data.shortest");
    c.data.shortest = 2;
    r = opened(&c, "valid");
    CHECK_OK(ll_batch_create(&b, &c));
    int seen[5] = {0};
    for (int64_t i = 0; i < 50; i++) {
        ll_reader_eval_batch(r, &b, i);
        for (int row = 0; row < b.B; row++) {
            int asked = 0;
            for (int t = 0; t < b.T; t++) asked += b.targets[row * b.T + t] >= 0;
            assert_in_range(asked, 2, 4);
            seen[asked]++;
        }
    }
    for (int n = 2; n <= 4; n++) assert_in_range(seen[n], 45, 90);
    ll_batch_free(&b);
    ll_reader_free(r);
}

/* A batch of shorter rows than the reader's has the beginning of each sequence, and nothing is written behind it. */
static void short_batches_have_the_beginning(void **state) {
    (void)state;
    ll_config c = {.model.task = LL_TASK_LM,
                   .train.batch = 1,
                   .train.length = 96,
                   .train.seed = 3,
                   .data.format = LL_DATA_RECALL,
                   .data.shortest = 8,
                   .data.longest = 8,
                   .data.symbols = 8};
    enum { SHORT = 24, EMPTY = -7 };
    ll_reader *r = opened(&c, "train");
    ll_batch whole, some;
    CHECK_OK(ll_batch_create(&whole, &c));
    CHECK_OK(ll_batch_create(&some, &c));
    some.T = SHORT;
    for (int64_t i = 0; i < 20; i++) {
        for (int t = 0; t < whole.T; t++) some.tokens[t] = some.targets[t] = EMPTY;
        ll_reader_batch(r, &whole, 1, i);
        ll_reader_batch(r, &some, 1, i);
        assert_memory_equal(some.tokens, whole.tokens, SHORT * sizeof *some.tokens);
        assert_memory_equal(some.targets, whole.targets, SHORT * sizeof *some.targets);
        for (int t = SHORT; t < whole.T; t++) assert_true(some.tokens[t] == EMPTY && some.targets[t] == EMPTY);
    }
    ll_batch_free(&whole);
    ll_batch_free(&some);
    ll_reader_free(r);
}

/* Another split, seed or index gives another example. The same three give the same example. */
static void toys_are_counted(void **state) {
    (void)state;
    ll_config c = toy(LL_DATA_COPY);
    ll_reader *a = opened(&c, "train"), *same = opened(&c, "train"), *valid = opened(&c, "valid");
    c.train.seed = 4;
    ll_reader *other = opened(&c, "train");
    ll_batch x, y;
    CHECK_OK(ll_batch_create(&x, &c));
    CHECK_OK(ll_batch_create(&y, &c));
    const size_t bytes = sizeof(int) * (size_t)x.B * (size_t)x.S;
    for (int64_t i = 20; i >= 0; i -= 5) {
        ll_reader_batch(a, &x, 1, i);
        ll_reader_batch(same, &y, 1, i);
        assert_memory_equal(x.source, y.source, bytes);
        assert_memory_equal(x.targets, y.targets, bytes);
        ll_reader_batch(other, &y, 1, i);
        assert_memory_not_equal(x.source, y.source, bytes);
        ll_reader_eval_batch(valid, &y, i);
        assert_memory_not_equal(x.source, y.source, bytes);
        ll_reader_batch(a, &y, 1, i + 1);
        assert_memory_not_equal(x.source, y.source, bytes);
    }
    ll_batch_free(&x);
    ll_batch_free(&y);
    ll_reader_free(a), ll_reader_free(same), ll_reader_free(valid), ll_reader_free(other);
    c.data.longest = 12;
    CHECK_FAILS(refused(&c, "train"), LL_EINVAL, "train.length=14");
    c.data.longest = 1;
    CHECK_FAILS(refused(&c, "train"), LL_EINVAL, "data.shortest");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_become_pairs),     cmocka_unit_test(wrong_lines_are_named),
        cmocka_unit_test(toys_follow_their_rule), cmocka_unit_test(recall_follows_its_rule),
        cmocka_unit_test(toys_are_counted),       cmocka_unit_test(short_batches_have_the_beginning),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
