/* Speculative decoding. With temperature 0 it gives the bits of the large model alone. Otherwise it draws from the
 * distribution of the large model, which is compared with the exact probabilities of all short texts. */
#include <math.h>

#include "longline-batch.h"
#include "longline-draft.h"
#include "models.h"

enum { MOST = 40 };

static const ll_sampling greedy = {.top_p = 1, .seed = 3};

static void generate_alone(ll_model *model, const int *prompt, int n, int *made, int count) {
    ll_stream *s = NULL;
    float logits[64];
    CHECK_OK(ll_stream_create(&s, model));
    CHECK_OK(ll_stream_feed(s, prompt, n, logits));
    for (int i = 0; i < count; i++) {
        made[i] = ll_sample(logits, model->c->model.vocab, &greedy, n + i);
        CHECK_OK(ll_stream_feed(s, made + i, 1, logits));
    }
    ll_stream_free(s);
}

/* Generates the next `count` tokens. */
static void generate_drafted(ll_draft *d, const ll_sampling *how, int *made, int count) {
    for (int n, i = 0; i < count; i += n) {
        int tokens[LL_DRAFT_MOST + 1];
        CHECK_OK(ll_draft_next(d, how, tokens, &n));
        assert_in_range(n, 1, LL_DRAFT_MOST + 1);
        for (int k = 0; k < n && i + k < count; k++) made[i + k] = tokens[k];
    }
}

static const char *const large_models[] = {
    "attention.kernel=relu position.type=permute position.decay=fixed",
    "attention.kernel=softmax position.type=rope",
    "attention.kernel=favor model.separator=3 model.norm=post",
    "attention.kernel=relu model.separator=2 position.type=sine-spe position.realizations=8",
    "attention.kernel=gla model.layers=3",
    "attention.kernel=local attention.window=9",
};

static void test_greedy(void **state) {
    (void)state;
    const int prompt[] = {1, 4, 3, 9, 2, 2, 7};
    ll_model *small = tiny_model("attention.kernel=relu model.layers=1 model.width=8 model.heads=1 train.seed=8");
    for (size_t m = 0; m < sizeof large_models / sizeof *large_models; m++) {
        ll_model *large = tiny_model(large_models[m]);
        int expected[MOST], made[MOST];
        generate_alone(large, prompt, 7, expected, MOST);
        for (int drafts = 1; drafts < 9; drafts += 2)
            for (int self = 0; self < 2; self++) {
                ll_draft *d = NULL;
                CHECK_OK(ll_draft_create(&d, large, self ? large : small, drafts, 11));
                CHECK_OK(ll_draft_feed(d, prompt, 2)); /* in pieces */
                CHECK_OK(ll_draft_feed(d, prompt + 2, 1));
                CHECK_OK(ll_draft_feed(d, prompt + 3, 4));
                generate_drafted(d, &greedy, made, MOST);
                for (int i = 0; i < MOST; i++)
                    if (made[i] != expected[i])
                        fail_msg("{%s}, %d drafts: token %d is %d, alone %d", large_models[m], drafts, i, made[i],
                                 expected[i]);
                const ll_draft_counts n = ll_draft_count(d);
                assert_true(n.drafted == n.blocks * drafts && n.bytes > 0);
                if (self) assert_true(n.taken == n.drafted);
                if (self) assert_true(n.position == 7 + n.blocks * (drafts + 1));
                ll_draft_free(d);
            }
        ll_model_free(large);
    }
    ll_model_free(small);
}

/* ---- Distribution: exact probabilities and frequencies of all texts of LENGTH tokens ---- */

enum { V = 4, LENGTH = 3, TEXTS = V * V * V, DRAWS = 20000 };

/* The probabilities of ll_sample by its definition: sorted, cut to top_k, then to top_p. */
static void sampling_probabilities(double p[V], const float *logits, const ll_sampling *how) {
    int order[V];
    double sum = 0, kept = 0;
    for (int i = 0; i < V; i++) order[i] = i, p[i] = exp((double)logits[i] / (double)how->temperature);
    for (int i = 0; i < V; i++)
        for (int k = i + 1; k < V; k++)
            if (p[order[k]] > p[order[i]]) {
                const int other = order[i];
                order[i] = order[k], order[k] = other;
            }
    for (int i = how->top_k ? how->top_k : V; i < V; i++) p[order[i]] = 0;
    for (int i = 0; i < V; i++) sum += p[i];
    for (int i = 0; i < V; i++) {
        if (kept >= (double)how->top_p * sum) p[order[i]] = 0;
        kept += p[order[i]];
    }
    sum = 0;
    for (int i = 0; i < V; i++) sum += p[i];
    for (int i = 0; i < V; i++) p[i] /= sum;
}

static void exact_probabilities(ll_model *model, const int *prompt, int n, const ll_sampling *how, double *expected) {
    float logp[(2 + LENGTH) * V];
    for (int text = 0; text < TEXTS; text++) {
        int tokens[2 + LENGTH] = {prompt[0], prompt[1], text / (V * V), text / V % V, text % V};
        expected[text] = 1;
        CHECK_OK(ll_model_logp(model, logp, tokens, NULL, 1, n + LENGTH));
        for (int i = 0; i < LENGTH; i++) {
            double p[V];
            sampling_probabilities(p, logp + (n + i - 1) * V, how);
            expected[text] *= p[tokens[n + i]];
        }
    }
}

/* Chi-square over all texts of which at least 5 are expected; the rest is one cell. Returns the deviation in standard
 * deviations, by the normal approximation of Wilson and Hilferty. */
static double deviation(const double *expected, const int *seen) {
    double chi = 0, rest = DRAWS, rest_seen = DRAWS;
    int cells = 0;
    for (int i = 0; i < TEXTS; i++) {
        const double e = expected[i] * DRAWS;
        if (e < 5) continue;
        chi += ((double)seen[i] - e) * ((double)seen[i] - e) / e;
        rest -= e, rest_seen -= seen[i];
        cells++;
    }
    if (rest >= 5) chi += (rest_seen - rest) * (rest_seen - rest) / rest, cells++;
    const double k = cells - 1, spread = 2 / (9 * k);
    return (cbrt(chi / k) - (1 - spread)) / sqrt(spread);
}

static double compare(ll_model *large, ll_model *small, ll_sampling how, int drafts) {
    const int prompt[] = {2, 1};
    double expected[TEXTS];
    int seen[TEXTS] = {0};
    ll_draft *d = NULL;
    exact_probabilities(large, prompt, 2, &how, expected);
    CHECK_OK(ll_draft_create(&d, large, small, drafts, V));
    for (int i = 0; i < DRAWS; i++) {
        int made[LENGTH];
        how.seed = (uint64_t)i + 1000;
        ll_draft_reset(d);
        CHECK_OK(ll_draft_feed(d, prompt, 2));
        generate_drafted(d, &how, made, LENGTH);
        seen[made[0] * V * V + made[1] * V + made[2]]++;
    }
    const ll_draft_counts n = ll_draft_count(d);
    const double z = deviation(expected, seen), accepted = (double)n.taken / (double)n.drafted;
    print_message("%d drafts, temperature %.1f, top_k %d, top_p %.1f: %.0f %% accepted, %.2f standard deviations\n",
                  drafts, (double)how.temperature, how.top_k, (double)how.top_p, 100 * accepted, z);
    assert_true(accepted > 0.1 && accepted < 0.97); /* drafts are both accepted and rejected often */
    ll_draft_free(d);
    return z;
}

static void test_distribution(void **state) {
    (void)state;
    const char *keys = "model.vocab=4 model.layers=1 model.width=8 model.heads=1 model.ff=8 attention.kernel=relu";
    char other[300];
    snprintf(other, sizeof other, "%s train.seed=9", keys);
    ll_model *large = tiny_model(keys), *small = tiny_model(other);
    assert_true(compare(large, small, (ll_sampling){0, 1, 0, 1, 0}, 1) < 5);
    assert_true(compare(large, small, (ll_sampling){0, 1, 0, 1, 0}, 3) < 5);
    assert_true(compare(large, small, (ll_sampling){0, 0.5f, 0, 1, 0}, 2) < 5);
    assert_true(compare(large, small, (ll_sampling){0, 1.5f, 3, 1, 0}, 2) < 5);
    assert_true(compare(large, small, (ll_sampling){0, 1, 0, 0.8f, 0}, 4) < 5);
    ll_model_free(large);
    ll_model_free(small);
}

/* ---- Limits and wrong use ---- */

/* Learned positions are limited. At the limit of the small model there are no more drafts; at that of the large one the
 * text ends. */
static void test_ends(void **state) {
    (void)state;
    const int prompt[] = {1, 5};
    const char *ends = "attention.kernel=relu position.type=learned position.max-length=12";
    ll_model *large = tiny_model(large_models[0]), *small = tiny_model(ends);
    int expected[MOST], made[MOST], n, tokens[LL_DRAFT_MOST + 1];
    ll_draft *d = NULL;
    generate_alone(large, prompt, 2, expected, MOST);
    CHECK_OK(ll_draft_create(&d, large, small, 5, 11));
    CHECK_OK(ll_draft_feed(d, prompt, 2));
    generate_drafted(d, &greedy, made, MOST);
    assert_memory_equal(made, expected, sizeof made);
    ll_draft_reset(d);
    int text[MOST + 2]; /* a prompt that is too long for the small model */
    memcpy(text, prompt, sizeof prompt), memcpy(text + 2, expected, sizeof expected);
    CHECK_OK(ll_draft_feed(d, text, MOST));
    ll_sampling cut = greedy;
    cut.struct_size = 7;
    CHECK_FAILS(ll_draft_next(d, &cut, tokens, &n), LL_EINVAL, "ll_sampling");
    CHECK_OK(ll_draft_next(d, &greedy, tokens, &n));
    assert_true(n == 1 && tokens[0] == text[MOST]);
    CHECK_OK(ll_draft_next(d, &greedy, tokens, &n));
    assert_true(n == 1 && tokens[0] == text[MOST + 1]);
    assert_true(ll_draft_count(d).left == INT64_MAX);
    ll_draft_free(d);
    CHECK_OK(ll_draft_create(&d, small, large, 5, 11));
    CHECK_OK(ll_draft_feed(d, prompt, 2));
    assert_int_equal(ll_draft_count(d).left, 10);
    ll_status status;
    while (!(status = ll_draft_next(d, &greedy, tokens, &n)))
        assert_int_equal(ll_draft_count(d).left, 12 - ll_draft_count(d).position);
    assert_int_equal(status, LL_EINVAL);
    assert_non_null(strstr(ll_error(), "learned positions end"));
    assert_int_equal(ll_draft_count(d).position, 13); /* as for a stream: 12 tokens are read, and one follows */
    assert_int_equal(ll_draft_count(d).left, -1);
    CHECK_FAILS(ll_draft_next(d, &greedy, tokens, &n), LL_EINVAL, "learned positions end");
    ll_draft_free(d);
    ll_model_free(large);
    ll_model_free(small);
}

/* A separator begins the positions anew, also one that the large model has not read yet. */
static void test_left_after_separators(void **state) {
    (void)state;
    const int tokens[] = {1, 5, 3, 3, 4, 2, 3, 7};
    ll_model *model = tiny_model("attention.kernel=relu position.type=learned position.max-length=9 model.separator=3");
    ll_draft *d = NULL;
    ll_stream *s = NULL;
    CHECK_OK(ll_draft_create(&d, model, model, 2, 11));
    CHECK_OK(ll_stream_create(&s, model));
    for (int i = 0; i < 8; i++) {
        CHECK_OK(ll_draft_feed(d, tokens + i, 1));
        CHECK_OK(ll_stream_feed(s, tokens + i, 1, NULL));
        assert_int_equal(ll_draft_count(d).left, ll_stream_left(s));
    }
    ll_stream_free(s);
    ll_draft_free(d);
    ll_model_free(model);
}

static void test_refused(void **state) {
    (void)state;
    ll_model *large = tiny_model(large_models[0]), *other = tiny_model("model.vocab=12 attention.kernel=relu");
    ll_model *pair = tiny_model("model.task=seq2seq attention.kernel=relu");
    ll_model *classes = tiny_model("model.task=classify");
    ll_draft *d = NULL;
    int tokens[LL_DRAFT_MOST + 1], n;
    assert_int_equal(ll_draft_create(&d, large, other, 4, 11), LL_EINVAL);
    assert_non_null(strstr(ll_error(), "a vocabulary of 12"));
    assert_int_equal(ll_draft_create(&d, large, pair, 4, 11), LL_EINVAL);
    assert_int_equal(ll_draft_create(&d, large, classes, 4, 11), LL_EINVAL);
    assert_int_equal(ll_draft_create(&d, large, large, 0, 11), LL_EINVAL);
    assert_int_equal(ll_draft_create(&d, large, large, LL_DRAFT_MOST + 1, 11), LL_EINVAL);
    assert_int_equal(ll_draft_create(&d, large, large, 4, 12), LL_EINVAL);
    CHECK_OK(ll_draft_create(&d, large, large, 4, 11));
    assert_int_equal(ll_draft_next(d, &greedy, tokens, &n), LL_EINVAL);
    tokens[0] = 11;
    assert_int_equal(ll_draft_feed(d, tokens, 1), LL_EINVAL);
    assert_int_equal(ll_draft_feed(d, tokens, 0), LL_EINVAL);
    ll_draft_free(d);
    ll_draft_free(NULL);
    ll_model_free(large);
    ll_model_free(other);
    ll_model_free(pair);
    ll_model_free(classes);
}

/* A prompt that is refused behind the last learned position: nothing follows until the draft is reset. */
static void test_broken(void **state) {
    (void)state;
    ll_model *large = tiny_model("position.type=learned position.max-length=8 attention.kernel=relu");
    ll_model *small = tiny_model("attention.kernel=relu");
    const int prompt[] = {1, 5, 3, 2, 1, 5, 3, 2};
    int tokens[LL_DRAFT_MOST + 1], n;
    ll_draft *d = NULL;
    CHECK_OK(ll_draft_create(&d, large, small, 4, 11));
    CHECK_OK(ll_draft_feed(d, prompt, 4));
    assert_int_equal(ll_draft_feed(d, prompt, 8), LL_EINVAL);
    CHECK_FAILS(ll_draft_next(d, &greedy, tokens, &n), LL_EINVAL, "an earlier call of this draft failed; reset it");
    CHECK_FAILS(ll_draft_feed(d, prompt, 1), LL_EINVAL, "reset it first");
    ll_draft_reset(d);
    CHECK_OK(ll_draft_feed(d, prompt, 4));
    CHECK_OK(ll_draft_next(d, &greedy, tokens, &n));
    ll_draft_free(d);
    ll_model_free(large);
    ll_model_free(small);
}

static ll_model *model_of_memory;
static ll_status use_little_memory(void) {
    const int prompt[] = {1, 5, 3};
    int tokens[LL_DRAFT_MOST + 1], n;
    ll_draft *d = NULL;
    ll_status status = ll_draft_create(&d, model_of_memory, model_of_memory, 3, 11);
    if (!status) status = ll_draft_feed(d, prompt, 3);
    if (!status) status = ll_draft_next(d, &greedy, tokens, &n);
    ll_draft_free(d);
    return status;
}

static void test_memory(void **state) {
    (void)state;
    model_of_memory = tiny_model(large_models[0]);
    assert_in_range(check_refused_memory(use_little_memory), 20, 10000);
    ll_model_free(model_of_memory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_greedy),  cmocka_unit_test(test_distribution),
        cmocka_unit_test(test_ends),    cmocka_unit_test(test_left_after_separators),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_broken),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
