/* attention.compat: models with the stabilisers, epsilons and divisors of released programs. They are compared with
 * golden cases of those programs and with the definition in double. Rules that need later tokens are not streamed. */
#include <unistd.h>

#include "attention/operator.h"
#include "recipe/recipe.h"
#include "base/safetensors.h"
#include "base/text.h"
#include "models.h"

enum { B = 2, T = 7 };

/* ---- Against the cases that the programs themselves made ---- */

static const struct {
    const char *golden, *keys;
} cases[] = {
    {"favor-google-bidir", "attention.kernel=favor attention.compat=google model.task=classify"},
    {"favor-google-causal", "attention.kernel=favor attention.compat=google"},
    {"favor-trig-causal", "attention.kernel=favor attention.features=trigonometric attention.compat=google"},
    {"relu-plain-causal", "attention.kernel=relu attention.compat=google"},
    {"relu-googleproj-bidir",
     "attention.kernel=relu attention.projection=orthogonal attention.compat=google model.task=classify"},
    {"favor-lucid-bidir", "attention.kernel=favor attention.compat=lucidrains model.task=classify"},
    {"favor-lucid-causal", "attention.kernel=favor attention.compat=lucidrains"},
    {"relu-proj-bidir", "attention.kernel=relu attention.compat=lucidrains model.task=classify"},
    {"relu-proj-causal", "attention.kernel=relu attention.compat=lucidrains"},
    {"favor-hyp-causal", "attention.kernel=favor attention.features=hyperbolic attention.compat=fast-transformers"},
    {"favor-gauss-bidir",
     "attention.kernel=favor attention.features=gaussian attention.compat=fast-transformers model.task=classify"},
    {"elu-causal", "attention.kernel=elu1 attention.compat=fast-transformers"},
    {"permute-bidir", "attention.kernel=relu attention.compat=permuteformer model.task=classify"},
    {"permute-decay-causal-released", "attention.kernel=relu attention.compat=permuteformer position.decay=fixed"},
    {"relative-s1-1d-causal", "attention.kernel=favor attention.compat=relative-performer"},
};

static const char *word(const ll_safetensors *f, const char *key, const char *fallback) {
    const char *text = ll_safetensors_meta(f, key);
    return text ? text : fallback;
}

static int index_of(const char *text, const char *const *words, int n) {
    for (int i = 0; i < n; i++)
        if (!strcmp(text, words[i])) return i;
    fail_msg("the case says '%s'", text);
    return -1;
}

static void check_case(const ll_safetensors *f, const ll_attention_config *c) {
    static const char *const max[] = {"prefix", "token", "sequence", "batch", "none"};
    static const char *const den[] = {"sum", "sum+eps", "sum+eps*phi", "sum+L*eps", "google", "none"};
    const int favor = c->kernel == LL_KERNEL_FAVOR, trigonometric = favor && c->features == LL_FEATURES_TRIGONOMETRIC;
    assert_int_equal(c->den, index_of(word(f, "den", "sum"), den, 6));
    if (c->den != LL_DEN_SUM && c->den != LL_DEN_NONE)
        assert_float_equal(c->den_eps, ll_scan_number(word(f, "den_eps", "0"), NULL), 1e-12);
    assert_float_equal(c->feature_eps, ll_scan_number(word(f, "feature_eps", "0"), NULL), 1e-9);
    assert_true((ll_scan_number(word(f, "input_scale", "1"), NULL) != 1) ==
                (c->input_scale != 1)); /* is d^(-1/4) applied? */
    if (!favor || c->features == LL_FEATURES_GAUSSIAN) return;
    const int queries = trigonometric ? LL_MAX_SEQUENCE : index_of(word(f, "query_max", "none"), max, 5);
    assert_int_equal(c->query_max, queries);
    assert_int_equal(c->key_max, index_of(word(f, "key_max", "none"), max, 5));
    if (c->key_max == LL_MAX_NONE) return;
    assert_int_equal(c->max_gradient, !strcmp(word(f, "stabilizer_gradient", "stopped"), "through"));
    assert_true(c->max_of_u == !strcmp(word(f, "stabilizer_of", "u"), "u"));
}

static void test_golden_rules(void **state) {
    (void)state;
    const char *root = getenv("LL_SHARED");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[300];
        snprintf(path, sizeof path, "%s/golden/%s.safetensors", root ? root : "../shared", cases[i].golden);
        if (access(path, R_OK)) {
            printf("not there, so not tested: %s\n", path);
            skip();
        }
        ll_safetensors *f;
        ll_model *model = tiny_model(cases[i].keys);
        CHECK_OK(ll_safetensors_open(&f, path));
        check_case(f, &model->attention[0]->c);
        ll_safetensors_free(f);
        ll_model_free(model);
    }
}

/* What the released programs add to each feature, and what longline does, unless the recipe says another number. */
static void test_epsilons(void **state) {
    (void)state;
    static const struct {
        const char *keys;
        double eps;
    } added[] = {
        {"attention.kernel=favor", 0},
        {"attention.kernel=relu", 1e-3},
        {"attention.kernel=relu attention.feature-eps=0", 0},
        {"attention.kernel=relu attention.feature-eps=0.25 attention.compat=google", 0.25},
        {"attention.kernel=favor attention.compat=google", 1e-6},
        {"attention.kernel=favor attention.features=trigonometric attention.compat=google", 0},
        {"attention.kernel=relu attention.compat=google", 1e-3},
        {"attention.kernel=favor attention.compat=lucidrains", 1e-4},
        {"attention.kernel=relu attention.compat=lucidrains", 1e-3},
        {"attention.kernel=relu attention.compat=fast-transformers", 0},
        {"attention.kernel=relu attention.compat=permuteformer", 1e-3},
        {"attention.kernel=favor attention.compat=relative-performer", 1e-4},
    };
    for (size_t i = 0; i < sizeof added / sizeof *added; i++) {
        ll_model *model = tiny_model(added[i].keys);
        assert_true(model->attention[0]->c.feature_eps == (float)added[i].eps);
        ll_model_free(model);
    }
}

/* ---- Against the definition ---- */

/* Gradients are compared with differences where the maximum is differentiated or where there is none. */
static const struct {
    const char *keys;
    int smooth, streams;
} variants[] = {
    {"attention.kernel=favor attention.compat=google", 1, 0},
    {"attention.kernel=favor attention.compat=google model.task=classify", 1, 0},
    {"attention.kernel=favor attention.compat=google attention.features=trigonometric model.init-std=0.1", 1, 0},
    {"attention.kernel=relu attention.compat=google position.type=permute position.decay=fixed", 1, 1},
    {"attention.kernel=sigmoid attention.compat=google", 1, 1},
    {"attention.kernel=favor attention.compat=lucidrains", 0, 0},
    {"attention.kernel=favor attention.compat=lucidrains position.type=rope model.task=classify", 0, 0},
    {"attention.kernel=relu attention.compat=lucidrains position.type=rope", 1, 1},
    {"attention.kernel=favor attention.compat=fast-transformers attention.features=hyperbolic", 1, 1},
    {"attention.kernel=favor attention.compat=fast-transformers attention.features=hyperbolic "
     "position.type=sine-spe position.realizations=6 position.sines=2",
     1, 1},
    {"attention.kernel=elu1 attention.compat=fast-transformers position.type=rope-linear", 1, 1},
    {"attention.kernel=relu attention.compat=permuteformer position.type=permute position.decay=fixed", 1, 1},
    {"attention.kernel=relu attention.compat=permuteformer position.type=permute model.task=classify", 1, 0},
    {"attention.kernel=favor attention.compat=relative-performer position.type=relative-s1 position.scales=2", 1, 0},
};
enum { VARIANTS = sizeof variants / sizeof *variants };

static void test_definition(void **state) {
    (void)state;
    for (int v = 0; v < VARIANTS; v++) {
        ll_model *model = tiny_model(variants[v].keys);
        const int classify = model->c->model.task == LL_TASK_CLASSIFY;
        int tokens[B * T], targets[B * T], lengths[B] = {T, T - 2};
        ll_workspace *ws = NULL;
        ll_tally tally = {0};
        float *grad = calloc(model->size, sizeof *grad);
        oracle_model o = oracle_model_of(model, B, T);
        random_ints(tokens, B * T, 11, 0, 1);
        random_ints(targets, B * T, 5, 0, 2);
        o.tokens = tokens, o.targets = targets, o.lengths = lengths;
        o.dropout = 1, o.draw = 3; /* with the noise of training */
        CHECK_OK(ll_workspace_create(&ws, model, B, T, 1));
        const ll_batch in = {.B = B, .T = T, .tokens = tokens, .targets = targets, .lengths = lengths};
        CHECK_OK(ll_model_run(model, ws, &in, grad, 1, 3, &tally));
        assert_int_equal(tally.count, classify ? B : 2 * T - 2);
        const float loss = (float)tally.loss;
        const double expected = oracle_model_loss(&o);
        check_close(variants[v].keys, 1, &loss, &expected, 1e-5);
        if (variants[v].smooth)
            for (int i = 0; i < model->count; i++) check_tensor(&o, variants[v].keys, &model->param[i], grad, 1, 6);
        ll_workspace_free(ws);
        free(o.params), free(grad);
        ll_model_free(model);
    }
}

/* Rules that are documented to look ahead depend on later tokens and cannot stream. All others do not depend on them,
 * and stream. */
static void test_later_tokens(void **state) {
    (void)state;
    for (int v = 0; v < VARIANTS; v++) {
        ll_model *model = tiny_model(variants[v].keys);
        ll_stream *stream = NULL;
        if (!variants[v].streams) {
            const int lm = model->c->model.task == LL_TASK_LM;
            CHECK_FAILS(ll_model_can_stream(model), LL_EINVAL, lm ? "later ones too" : "classifier");
            CHECK_FAILS(ll_stream_create(&stream, model), LL_EINVAL, lm ? "attention.compat = " : "classifier");
            assert_int_equal(ll_model_cost(model, T).stream_bytes, 0);
        } else {
            CHECK_OK(ll_model_can_stream(model));
            CHECK_OK(ll_stream_create(&stream, model));
        }
        if (model->c->model.task == LL_TASK_LM) {
            int tokens[T];
            float before[T * 11], after[T * 11], logits[11];
            random_ints(tokens, T, 11, 0, 1);
            CHECK_OK(ll_model_logp(model, before, tokens, NULL, 1, T));
            if (stream) {
                double sum = 0, expected[11];
                CHECK_OK(ll_stream_feed(stream, tokens, T, logits));
                for (int i = 0; i < 11; i++) sum += exp((double)logits[i]);
                for (int i = 0; i < 11; i++) expected[i] = before[(T - 1) * 11 + i] + log(sum);
                check_close(variants[v].keys, 11, logits, expected, 5e-5);
            }
            int changed = 0;
            for (uint64_t draw = 0; draw < 20; draw++) { /* only a later key that is the longest has an effect */
                random_ints(tokens + 2, T - 2, 11, 0, 50 + draw);
                CHECK_OK(ll_model_logp(model, after, tokens, NULL, 1, T));
                changed |= memcmp(before, after, 2 * 11 * sizeof *before) != 0;
            }
            if (changed == variants[v].streams) fail_msg("{%s}: leaks %d", variants[v].keys, changed);
        }
        ll_stream_free(stream);
        ll_model_free(model);
    }
}

static void test_refusals(void **state) {
    (void)state;
    static const char *const bad[][2] = {
        {"attention.compat=google", "linear kernels"},
        {"attention.kernel=favor attention.features=hyperbolic attention.compat=google", "positive or trigonometric"},
        {"attention.kernel=favor attention.compat=fast-transformers", "hyperbolic or gaussian"},
        {"attention.kernel=favor attention.compat=permuteformer", "it has relu"},
        {"attention.kernel=elu1 attention.compat=permuteformer", "it has relu"},
        {"attention.kernel=relu attention.compat=relative-performer", "it has favor"},
        {"attention.kernel=relu attention.projection=none attention.compat=lucidrains", "always projects"},
        {"attention.kernel=relu attention.projection=iid attention.compat=permuteformer", "without a projection"},
        {"attention.kernel=favor attention.compat=google position.type=rope-linear", "no eps"},
        {"attention.kernel=relu attention.compat=lucidrains position.type=rope-linear", "use position.type=rope"},
        {"attention.kernel=favor attention.compat=relative-performer model.separator=0",
         "documents depend on each other"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ll_recipe *recipe = tiny_recipe(bad[i][0]);
        ll_model *model = NULL;
        CHECK_FAILS(ll_model_create(&model, recipe), LL_EINVAL, bad[i][1]);
        assert_null(model);
        ll_recipe_free(recipe);
    }
}

int main(void) {
    ll_set_threads(1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_rules), cmocka_unit_test(test_epsilons), cmocka_unit_test(test_definition),
        cmocka_unit_test(test_later_tokens), cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
