/* The mask of masked language models: the tokenizer's own, where the model has no token for another one. */
#include "inputs.h"
#include "tokenizers.h"

#include "data/reader.h"
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

int main(void) {
    if (ll_unicode_check()) return skip_tokenizers();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_tokenizers_mask),
        cmocka_unit_test(a_token_of_its_own),
        cmocka_unit_test(a_random_token_is_not_the_mask),
    };
    return cmocka_run_group_tests_name("mask", tests, make_folder, remove_folder);
}
