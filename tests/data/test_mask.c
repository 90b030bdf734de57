/* The mask of masked language models: its shares; and the tokenizer's own, where the model has no token for another
 * one. */
#include "inputs.h"
#include "tokenizers.h"

#include "data/format.h"
#include "data/subwords/unicode.h"

enum { WORDS = 30, MASK = 5 };

/* A vocab.txt with [MASK] as number 5, and a text that has it, too. */
static ll_config config(int vocab) {
    char text[4000], list[400] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n[MASK]\n";
    size_t n = 0, m = strlen(list);
    for (int i = 6; i < WORDS; i++) m += (size_t)snprintf(list + m, sizeof list - m, "w%d\n", i);
    for (int i = 0; i < 800; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, i % 10 ? "w%d " : "[MASK] ", 6 + i * i % (WORDS - 6));
    put("vocab.txt", list, m);
    return (ll_config){.model.task = LL_TASK_MLM,
                       .model.vocab = vocab,
                       .train.batch = 1,
                       .train.length = 100,
                       .data.format = LL_DATA_SUBWORDS,
                       .data.tokenizer = kept(at("")),
                       .data.test = kept(put("text", text, n)),
                       .data.train = kept(at("text"))};
}

/* Counts what targets became in many training rows: the mask, another token, or nothing else. */
static void count(const ll_config *c, int mask, int kind[3]) {
    ll_reader *r = opened(c, "train");
    ll_batch b, plain;
    ll_config lm = *c;
    lm.model.task = LL_TASK_LM;
    ll_reader *text = opened(&lm, "train");
    CHECK_OK(ll_batch_create(&b, c));
    CHECK_OK(ll_batch_create(&plain, &lm));
    for (int64_t i = 0; i < 400; i++) {
        ll_reader_batch(r, &b, 1, i);
        ll_reader_batch(text, &plain, 1, i);
        for (int t = 0; t < b.T; t++) {
            const int token = b.tokens[t], was = plain.tokens[t];
            assert_in_range(token, 0, ll_reader_vocab(r) - 1);
            if (b.targets[t] < 0) {
                assert_int_equal(token, was);
                continue;
            }
            assert_int_equal(b.targets[t], was);
            kind[token == mask ? 0 : token != was ? 1 : 2]++;
        }
    }
    ll_batch_free(&b);
    ll_batch_free(&plain);
    ll_reader_free(r);
    ll_reader_free(text);
}

static void the_tokenizers_mask(void **state) {
    (void)state;
    int kind[3] = {0};
    const ll_config c = config(WORDS);
    ll_reader *r = opened(&c, "test");
    ll_batch b;
    assert_int_equal(ll_reader_vocab(r), WORDS);
    CHECK_OK(ll_batch_create(&b, &c));
    for (int64_t i = 0; i < ll_reader_eval_batches(r); i++) {
        ll_reader_eval_batch(r, &b, i);
        for (int t = 0; t < b.T; t++) assert_int_not_equal(b.targets[t], MASK); /* those of the text are not chosen */
    }
    ll_batch_free(&b);
    ll_reader_free(r);
    count(&c, MASK, kind);
    const int all = kind[0] + kind[1] + kind[2];
    assert_in_range(all, 400 * 100 * 9 / 10 * 14 / 100, 400 * 100 * 9 / 10 * 16 / 100);
    assert_in_range(kind[0], all * 77 / 100, all * 83 / 100);
    assert_in_range(kind[1], all * 8 / 100, all * 12 / 100);
}

static void a_token_of_its_own(void **state) {
    (void)state;
    static const int vocab[] = {0, WORDS + 1};
    for (int i = 0; i < 2; i++) {
        int kind[3] = {0};
        const ll_config c = config(vocab[i]);
        ll_reader *r = opened(&c, "train");
        assert_int_equal(ll_reader_vocab(r), WORDS + 1);
        ll_reader_free(r);
        count(&c, WORDS, kind);
        assert_in_range(kind[0], 4000, 5600);
    }
}

/* Of two tokens one is the mask, so that a random token is the other one. */
static void a_random_token_is_not_the_mask(void **state) {
    (void)state;
    enum { N = 60000 };
    static int tokens[N], targets[N];
    int lengths[1] = {N}, chosen = 0, hidden = 0;
    ll_batch b = {.B = 1, .T = N, .tokens = tokens, .targets = targets, .lengths = lengths};
    const ll_reader r = {.mask = 1, .vocab = 2};
    ll_mask_row(&r, &b, 0, 1, 0);
    for (int t = 0; t < N; t++) chosen += targets[t] == 0, hidden += tokens[t] == 1;
    assert_in_range(hidden, chosen * 78 / 100, chosen * 82 / 100);
}

/* ---- Of proteins ---- */

enum { LONG = 40000 };

static ll_config long_config(void) {
    static char text[LONG + 4] = ">a\n";
    for (int i = 0; i < LONG; i++) text[3 + i] = "ACDEFGHIKL"[i * 7 % 10];
    ll_config c = {.model.task = LL_TASK_MLM, .train.batch = 1, .train.length = 1000, .data.format = LL_DATA_FASTA};
    c.data.train = c.data.test = put("long.fasta", text, LONG + 3);
    return c;
}

/* The shares of masked tokens are the published ones, within five deviations. A chosen token keeps its letter as
 * target. */
static void masks_have_the_published_shares(void **state) {
    (void)state;
    const ll_config c = long_config();
    ll_config plain = c;
    plain.model.task = LL_TASK_LM;
    ll_reader *r = opened(&c, "test"), *p = opened(&plain, "test");
    ll_batch b, whole;
    CHECK_OK(ll_batch_create(&b, &c));
    CHECK_OK(ll_batch_create(&whole, &plain));
    assert_int_equal(ll_reader_vocab(r), 27);
    double all = 0, chosen = 0, hidden = 0, kept = 0, letter[26] = {0};
    for (int64_t i = 0; i < ll_reader_eval_batches(r); i++) {
        ll_reader_eval_batch(r, &b, i);
        ll_reader_eval_batch(p, &whole, i);
        for (int t = 0; t < b.lengths[0]; t++) {
            all++;
            if (b.targets[t] < 0) {
                assert_int_equal(b.tokens[t], whole.tokens[t]);
                continue;
            }
            assert_int_equal(b.targets[t], whole.tokens[t]);
            assert_true(b.targets[t] > 0);
            chosen++;
            hidden += b.tokens[t] == 26;
            kept += b.tokens[t] == b.targets[t];
            if (b.tokens[t] < 26) letter[b.tokens[t]]++;
        }
    }
    assert_true(fabs(chosen / all - 0.15) < 5 * sqrt(0.15 * 0.85 / all));
    assert_true(fabs(hidden / chosen - 0.8) < 5 * sqrt(0.8 * 0.2 / chosen));
    assert_true(fabs(kept / chosen - (0.1 + 0.1 / 25)) < 5 * sqrt(0.1 * 0.9 / chosen));
    assert_true(letter[0] == 0 && letter[25] > 0 && letter[14] > 0); /* a random letter is any of the 25 */
    ll_batch_free(&b);
    ll_batch_free(&whole);
    ll_reader_free(r);
    ll_reader_free(p);
}

/* An evaluation has one set of masks, however its rows are divided into batches. Training has new masks each time. */
static void masks_follow_from_seed_and_number(void **state) {
    (void)state;
    ll_config c = long_config(), two = c;
    two.train.batch = 2;
    assert_pure(&c);
    ll_reader *a = opened(&c, "test"), *b = opened(&two, "test");
    ll_batch x, y;
    CHECK_OK(ll_batch_create(&x, &c));
    CHECK_OK(ll_batch_create(&y, &two));
    ll_reader_eval_batch(a, &x, 3);
    ll_reader_eval_batch(b, &y, 1);
    assert_memory_equal(x.targets, y.targets + 1000, 1000 * sizeof(int));
    ll_reader_eval_batch(a, &x, 2);
    assert_memory_equal(x.targets, y.targets, 1000 * sizeof(int));
    assert_memory_equal(x.tokens, y.tokens, 1000 * sizeof(int));
    ll_batch_free(&x);
    ll_batch_free(&y);
    ll_reader_free(a);
    ll_reader_free(b);
}

int main(void) {
    const struct CMUnitTest proteins[] = {
        cmocka_unit_test(masks_have_the_published_shares),
        cmocka_unit_test(masks_follow_from_seed_and_number),
    };
    const int failed = cmocka_run_group_tests_name("masks of proteins", proteins, make_folder, NULL);
    if (failed || ll_unicode_check()) remove_folder(NULL);
    if (failed) return failed;
    if (ll_unicode_check()) return skip_tokenizers();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_tokenizers_mask),
        cmocka_unit_test(a_token_of_its_own),
        cmocka_unit_test(a_random_token_is_not_the_mask),
    };
    return cmocka_run_group_tests_name("mask", tests, NULL, remove_folder);
}
