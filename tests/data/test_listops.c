/* ListOps: values by a second definition, files of both forms, the generator. */
#include "inputs.h"

#include "data/synthetic/listops.h"

static int value_of(const char *expression) {
    uint8_t text[2000];
    const size_t size = strlen(expression);
    memcpy(text, expression, size);
    const size_t n = ll_listops_tokens(text, size);
    return n ? ll_listops_value(text, n) : -2;
}

static void values_by_hand(void **state) {
    (void)state;
    static const struct {
        const char *expression;
        int value;
    } cases[] = {
        {"[MIN 4 2 9 ]", 2},
        {"( ( ( ( [MAX 4 ) 2 ) 9 ) ] )", 9},
        {"[MED 1 2 4 ]", 2},
        {"[MED 1 2 5 9 ]", 3}, /* the median is 3.5 */
        {"[MED 9 1 ]", 5},
        {"[SM 9 9 9 ]", 7},
        {"[MAX 2 9 [MIN 4 7 ] 0 ]", 9},
        {"[SM [SM 8 8 ] [MED 7 7 ] ]", 3},
        {"5", 5},
        {"[MIN ]", -1},
        {"[MIN 1", -1},
        {"1 2", -1},
        {"]", -1},
        {"[MIN 1 ] ]", -1},
        {"[FOO 1 ]", -2},
        {"10", -2},
        {"", -2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int got = value_of(cases[i].expression);
        if (got != cases[i].value) fail_msg("%s: %d, expected %d", cases[i].expression, got, cases[i].value);
    }
    char deep[2000] = "";
    for (int i = 0; i < 257; i++) strcat(deep, "[SM ");
    strcat(deep, "1");
    for (int i = 0; i < 257; i++) strcat(deep, " ]");
    assert_int_equal(value_of(deep), -1);
    assert_int_equal(value_of(deep + 4), -1); /* one bracket more than is allowed */
}

static ll_config config(const char *path) {
    return (ll_config){.model.task = LL_TASK_CLASSIFY,
                       .train.batch = 2,
                       .train.length = 12,
                       .data.format = LL_DATA_LISTOPS,
                       .data.test = kept(path),
                       .data.train = kept(path)};
}

static void files_of_both_forms(void **state) {
    (void)state;
    static const char lra[] = "Source\tTarget\r\n( ( ( [MIN 4 ) 2 ) ] )\t2\r\n( ( ( [SM 9 ) 9 ) ] )\t8\r\n";
    static const char nb[] = "2\t( ( ( [MIN 4 ) 2 ) ] )\n8\t( ( ( [SM 9 ) 9 ) ] )\n";
    ll_config a = config(put("lra", lra, sizeof lra - 1)), b = config(put_xz("nb", nb, sizeof nb - 1));
    ll_reader *x = opened(&a, "test"), *y = opened(&b, "test");
    ll_batch batch;
    assert_same_readers(x, y, &a);
    CHECK_OK(ll_batch_create(&batch, &a));
    ll_reader_eval_batch(x, &batch, 0);
    static const int expected[] = {LL_LISTOPS_MIN, 4, 2, LL_LISTOPS_END};
    assert_int_equal(batch.lengths[0], 4);
    assert_memory_equal(batch.tokens, expected, sizeof expected);
    assert_int_equal(batch.targets[0], 2);
    assert_int_equal(batch.targets[1], 8);
    assert_int_equal(ll_reader_vocab(x), 15);
    ll_batch_free(&batch);
    ll_reader_free(x);
    ll_reader_free(y);
}

static void wrong_files_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *word;
    } cases[] = {
        {"[MIN 4 2 ]\t4\n", "line 1 has the answer 4, but its expression comes to 2"},
        {"[MIN 4 2 ]\t2\n[MIN 4 2\t2\n", "line 2 has no expression"},
        {"[MIN 4 2 ]\t12\n", "no answer"},
        {"[MIN 4 2 ]\n", "1 columns"},
        {"Source\tTarget\n", "it is empty"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ll_config c = config(put("wrong", cases[i].text, strlen(cases[i].text)));
        CHECK_FAILS(refused(&c, "test"), i == 4 ? LL_EINVAL : LL_EFORMAT, cases[i].word);
    }
}

/* Generated expressions can be read again. They have the promised lengths and depth, and are a function of the seed. */
static void generated_files(void **state) {
    (void)state;
    const ll_listops how = {.depth = 6, .arguments = 5, .least = 20, .most = 100};
    CHECK_OK(ll_listops_write(at("made"), &how, 300, 7, NULL, NULL));
    CHECK_OK(ll_listops_write(at("again"), &how, 300, 7, NULL, NULL));
    CHECK_OK(ll_listops_write(at("other"), &how, 300, 8, NULL, NULL));
    ll_config c = config(at("made")), d = config(at("again")), e = config(at("other"));
    c.train.length = d.train.length = e.train.length = 100, c.train.batch = d.train.batch = e.train.batch = 300;
    ll_reader *r = opened(&c, "test"), *same = opened(&d, "test"), *other = opened(&e, "test");
    ll_batch b, z;
    CHECK_OK(ll_batch_create(&b, &c));
    CHECK_OK(ll_batch_create(&z, &c));
    assert_same_readers(r, same, &c);
    ll_reader_eval_batch(other, &z, 0);
    ll_reader_eval_batch(r, &b, 0);
    assert_memory_not_equal(b.tokens, z.tokens, 300 * sizeof(int));
    int answers[10] = {0}, deepest = 0, widest = 0;
    for (int row = 0; row < 300; row++) {
        int depth = 1, width[64] = {0};
        assert_true(b.lengths[row] > 20 && b.lengths[row] < 100);
        answers[b.targets[row]]++;
        for (int t = 0; t < b.lengths[row]; t++) {
            const int token = b.tokens[row * 100 + t];
            if (token == LL_LISTOPS_END) {
                if (width[depth] > widest) widest = width[depth];
                assert_true(width[depth] >= 2);
                width[depth--] = 0;
            } else {
                width[depth]++;
                if (token >= LL_LISTOPS_MIN) depth++;
                if (depth > deepest) deepest = depth;
            }
        }
        assert_int_equal(depth, 1);
    }
    assert_true(deepest == 6 && widest == 5);
    for (int i = 0; i < 10; i++) assert_true(answers[i] > 5);
    ll_batch_free(&b);
    ll_batch_free(&z);
    ll_reader_free(r), ll_reader_free(same), ll_reader_free(other);
    const ll_listops bad[] = {{1, 5, 20, 100}, {6, 1, 20, 100}, {6, 5, 20, 21}, {6, 5, -1, 100}};
    for (int i = 0; i < 4; i++) CHECK_FAILS(ll_listops_write(at("bad"), &bad[i], 1, 1, NULL, NULL), LL_EINVAL, ";");
}

static int stop_at_ten(int64_t done, int64_t total, void *arg) {
    int64_t *calls = arg;
    assert_true(done == ++*calls && total == 300);
    return done == 10;
}

static void drawing_reports_and_stops(void **state) {
    (void)state;
    int64_t calls = 0;
    CHECK_FAILS(ll_data_make("listops", at("stopped"), 300, 100, 1, stop_at_ten, &calls), LL_ESTOPPED, "stopped");
    assert_int_equal(calls, 10);
    assert_int_not_equal(access(at("stopped"), F_OK), 0);
    calls = 0;
    CHECK_FAILS(ll_data_make("pathfinder-1", at("paths"), 300, 16, 1, stop_at_ten, &calls), LL_ESTOPPED, "stopped");
    calls = 0;
    CHECK_FAILS(ll_data_make("music", at("songs"), 300, 4, 1, stop_at_ten, &calls), LL_ESTOPPED, "stopped");
    assert_int_equal(calls, 10);
}

static void real_files_are_read(void **state) {
    (void)state;
    static const char *const names[] = {"listops/lra_basic_test.tsv.xz", "listops/nb2018_test_d20s.tsv.xz"};
    static const int counts[] = {2000, 10000};
    for (int i = 0; i < 2; i++) {
        const char *path = shared(names[i]);
        ll_config c = config(path);
        c.train.length = 2000;
        ll_reader *r = opened(&c, "test");
        assert_int_equal(ll_reader_size(r), counts[i]);
        ll_batch b;
        double sum = 0;
        CHECK_OK(ll_batch_create(&b, &c));
        for (int64_t j = 0; !i && j < ll_reader_eval_batches(r); j++) {
            ll_reader_eval_batch(r, &b, j);
            sum += b.lengths[0] + b.lengths[1];
        }
        if (!i) assert_true(fabs(sum / 2000 - 1035) < 25);
        ll_batch_free(&b);
        ll_reader_free(r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_by_hand),          cmocka_unit_test(files_of_both_forms),
        cmocka_unit_test(wrong_files_are_refused), cmocka_unit_test(generated_files),
        cmocka_unit_test(real_files_are_read),     cmocka_unit_test(drawing_reports_and_stops),
    };
    return cmocka_run_group_tests_name("listops", tests, make_folder, remove_folder);
}
