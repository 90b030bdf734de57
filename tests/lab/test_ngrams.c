/* N-grams against the definition of interpolated, modified Kneser-Ney smoothing, which counts anew for each
 * probability. */
#include "runs.h"

#include "longline-lab.h"

enum { LETTERS = 3, TRAIN = 300, TEST = 300 };

static char train[TRAIN + 1], valid[TEST + 1];

/* ---- The definition ---- */

/* How often the letter w stands behind the n letters of `context` in train, where no more than `most` letters are seen:
 * a longest n-gram counts as it occurs, a shorter one by the different letters before it. */
static int counted(const char *context, int n, char w, int most) {
    int count = 0;
    for (int i = 1; i < TRAIN; i++) {
        const int seen = i < most ? i : most;
        count += seen == n && train[i] == w && !memcmp(train + i - n, context, (size_t)n);
    }
    for (int a = 0; a < LETTERS && n < most; a++) {
        char longer[8] = {(char)('a' + a)};
        memcpy(longer + 1, context, (size_t)n);
        count += counted(longer, n + 1, w, most) > 0;
    }
    return count;
}

/* D[1], D[2], D[3]: what is taken from n-grams that were counted once, twice, more often. */
static void discounts(double *D, int n, int most) {
    int of[5] = {0}, contexts = 1;
    for (int i = 0; i < n; i++) contexts *= LETTERS;
    for (int i = 0; i < contexts; i++)
        for (int w = 0; w < LETTERS; w++) {
            char context[8];
            for (int j = 0, left = i; j < n; j++, left /= LETTERS) context[j] = (char)('a' + left % LETTERS);
            const int c = counted(context, n, (char)('a' + w), most);
            if (c < 5) of[c]++;
        }
    const double Y = of[1] ? of[1] / (double)(of[1] + 2 * of[2]) : 0.5;
    D[1] = of[1] > 2 * Y * of[2] ? 1 - 2 * Y * of[2] / of[1] : Y;
    D[2] = 2 * of[2] > 3 * Y * of[3] ? 2 - 3 * Y * of[3] / of[2] : D[1];
    D[3] = 3 * of[3] > 4 * Y * of[4] ? 3 - 4 * Y * of[4] / of[3] : D[2];
}

/* context: the n letters before w. */
static double probability(const char *context, int n, char w, int most) {
    const double shorter = n ? probability(context + 1, n - 1, w, most) : 1 / 256.0;
    double D[4] = {0}, given = 0;
    int all = 0;
    discounts(D, n, most);
    for (int a = 0; a < LETTERS; a++) {
        const int c = counted(context, n, (char)('a' + a), most);
        all += c, given += D[c < 3 ? c : 3];
    }
    if (!all) return shorter;
    const int c = counted(context, n, w, most);
    return (c - D[c < 3 ? c : 3] + given * shorter) / all;
}

/* ---- Both ---- */

static ll_recipe *text_recipe(const char *length) {
    char more[400];
    snprintf(more, sizeof more, "data.train=%s data.valid=%s train.batch=2 train.length=%s", at("abc.txt"),
             at("cab.txt"), length);
    return recipe_of(more);
}

/* Letters that depend on the two before them; the held-out text has sequences that train has not. */
static int make_texts(void **state) {
    for (int i = 0; i < TRAIN; i++)
        train[i] = (char)('a' + (i * i / 7 + (i > 1 ? train[i - 1] * train[i - 2] : 0)) % LETTERS);
    for (int i = 0; i < TEST; i++) valid[i] = (char)('a' + (i * 5 / 3 + i * i / 11) % LETTERS);
    return make_data(state) || ll_file_write(at("abc.txt"), train, TRAIN) || ll_file_write(at("cab.txt"), valid, TEST);
}

static void losses_are_those_of_the_definition(void **state) {
    (void)state;
    ll_recipe *recipes[] = {text_recipe("299"), text_recipe("2"), text_recipe("37")}; /* windows of one text */
    for (int k = 0; k < 15; k++) {
        const int order = k / 3 + 1;
        double loss = 0, expected = 0;
        int64_t tokens = 0;
        CHECK_OK(ll_ngrams(recipes[k % 3], order, "valid", NULL, NULL, &loss, &tokens));
        assert_int_equal(tokens, TEST - 1);
        for (int i = 1; i < TEST; i++) {
            const int n = i < order - 1 ? i : order - 1;
            expected -= log(probability(valid + i - n, n, valid[i], order - 1)) / (TEST - 1);
        }
        if (!(fabs(loss - expected) < 1e-12)) fail_msg("order %d: %.15g, not %.15g", order, loss, expected);
    }
    for (int i = 0; i < 3; i++) ll_recipe_free(recipes[i]);
}

/* Of proteins a context ends where its sequence begins, however short windows are. Joined ones are one text. */
static void contexts_end_with_their_text(void **state) {
    (void)state;
    char text[4000];
    size_t n = 0;
    for (int i = 0; i < 100; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, ">s\nACDEF%s\n", i % 3 ? "GHIK" : "LMN");
    CHECK_OK(ll_file_write(at("one.fasta"), text, n));
    double loss[3];
    for (int i = 0; i < 3; i++) {
        char keys[400];
        int64_t tokens = 0;
        snprintf(keys, sizeof keys, "data.format=fasta data.train=%s data.valid=%s train.batch=2 train.length=%d%s",
                 at("one.fasta"), at("one.fasta"), i ? 3 : 20, i == 2 ? " data.joined=on" : "");
        ll_recipe *recipe = recipe_of(keys);
        CHECK_OK(ll_ngrams(recipe, 4, "valid", NULL, NULL, &loss[i], &tokens));
        ll_recipe_free(recipe);
    }
    assert_true(loss[0] == loss[1]);
    assert_true(loss[0] != loss[2]);
}

/* Of generated data 1000 examples are counted. Values are uniform among 4 and follow nothing that n-grams see. */
static void made_data_have_a_beginning(void **state) {
    (void)state;
    ll_recipe *recipe = recipe_of("data.format=recall data.shortest=4 data.longest=4 data.symbols=4 train.length=16");
    double loss = 0;
    int64_t tokens = 0;
    CHECK_OK(ll_ngrams(recipe, 1, "valid", NULL, NULL, &loss, &tokens));
    assert_int_equal(tokens, 4000);
    if (!(fabs(loss - log(4)) < 0.01)) fail_msg("%g", loss);
    ll_recipe_free(recipe);
}

static int stop_at_once(int64_t done, int64_t all, void *arg) {
    *(int *)arg += done == 1 && all > 1;
    return 1;
}

static void wrong_calls_are_refused(void **state) {
    (void)state;
    ll_recipe *recipe = text_recipe("16");
    double loss = 0;
    int64_t tokens = 0;
    int calls = 0;
    CHECK_FAILS(ll_ngrams(recipe, 0, "valid", NULL, NULL, &loss, &tokens), LL_EINVAL, "1 to 16");
    CHECK_FAILS(ll_ngrams(recipe, 17, "valid", NULL, NULL, &loss, &tokens), LL_EINVAL, "1 to 16");
    CHECK_FAILS(ll_ngrams(recipe, 2, "test", NULL, NULL, &loss, &tokens), LL_EINVAL, "test");
    CHECK_FAILS(ll_ngrams(recipe, 2, "valid", stop_at_once, &calls, &loss, &tokens), LL_ESTOPPED, "stopped on request");
    assert_int_equal(calls, 1);
    ll_recipe_free(recipe);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_are_those_of_the_definition),
        cmocka_unit_test(contexts_end_with_their_text),
        cmocka_unit_test(made_data_have_a_beginning),
        cmocka_unit_test(wrong_calls_are_refused),
    };
    return cmocka_run_group_tests(tests, make_texts, remove_data);
}
