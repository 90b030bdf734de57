/* Models against their definition in double (oracle_model.c), and what must hold for any model. */
#include "models.h"

enum { B = 4, T = 9, MOST = 4096 };

static const char *const variants[] = {
    "attention.kernel=softmax",
    "attention.kernel=softmax model.norm=post model.activation=relu model.tied-embedding=off position.type=sinusoidal",
    "attention.kernel=softmax position.type=learned position.max-length=9 model.embedding-norm=on model.final-norm=off",
    "attention.kernel=relu position.type=permute position.decay=fixed attention.query-multiple=3",
    "attention.kernel=relu attention.normalise=off position.decay=fixed model.norm=post model.embedding-norm=on",
    "attention.kernel=relu position.type=permute model.head-size=5 model.activation=relu model.tied-embedding=off",
    "attention.kernel=favor",
    "attention.kernel=favor position.type=permute position.decay=fixed model.norm=post",
    "model.task=classify attention.kernel=softmax model.norm=post",
    "model.task=classify attention.kernel=relu position.type=permute model.pool=first position.decay=none",
    "model.task=classify attention.kernel=relu position.type=permute2d position.width=3 position.height=3",
    "model.task=classify attention.kernel=favor position.type=permute2d position.width=3 position.height=3 "
    "model.pool=first model.embedding-norm=on",
    "model.task=classify attention.kernel=favor position.type=learned model.pool=first position.max-length=9 "
    "model.norm=post model.tied-embedding=off",
    "attention.kernel=relu position.type=permute model.dropout=0.3 model.embedding-norm=on",
    "model.task=classify attention.kernel=softmax model.pool=first model.dropout=0.2 model.norm=post",
    "attention.kernel=softmax position.type=rope",
    "attention.kernel=favor position.type=rope position.decay=fixed",
    "attention.kernel=relu position.type=rope-linear model.norm=post",
    "attention.kernel=favor position.type=rope-linear",
    "attention.kernel=relu position.type=sine-spe position.realizations=6 position.sines=2",
    "attention.kernel=favor position.type=sine-spe position.realizations=6 position.sines=2 position.gated=off",
    "attention.kernel=favor position.type=conv-spe position.realizations=5 position.taps=3",
    "model.task=classify attention.kernel=relu position.type=conv-spe position.realizations=5 position.taps=2 "
    "position.image=on position.width=3 position.height=3 model.pool=first",
    "attention.kernel=favor position.type=relative-s1 position.scales=2",
    "attention.kernel=relu position.type=sine-spe position.realizations=6 position.sines=2 position.shared=on",
    "model.task=classify attention.kernel=favor position.type=relative-s1 position.scales=2 position.image=on "
    "position.width=3 position.height=3 model.pool=first",
    "attention.kernel=softmax position.type=relative-s1 position.scales=3",
    "attention.kernel=favor attention.features=hyperbolic attention.projection=givens position.type=permute",
    "attention.kernel=exp attention.projection=hadamard position.type=permute position.decay=fixed",
    "model.task=classify attention.kernel=tanh attention.projection=iid attention.row-norms=sqrt-d "
    "attention.normalise=off",
    "attention.kernel=sigmoid attention.query-multiple=2 position.decay=fixed",
    "attention.kernel=favor attention.features=hyperbolic position.type=rope-linear",
    "attention.kernel=elu1 position.type=relative-s1 position.scales=2",
    "attention.kernel=exp attention.projection=hadamard position.type=sine-spe position.realizations=8 "
    "position.sines=2",
    "attention.kernel=gla model.dropout=0.2",
    "attention.kernel=gla position.type=rope position.decay=fixed model.norm=post attention.query-multiple=2",
    "attention.kernel=elu1 attention.output-norm=on position.type=permute",
    "attention.kernel=value model.norm=post position.type=sinusoidal",
    "attention.kernel=local attention.window=3 position.type=rope",
    "model.task=classify attention.kernel=local attention.window=2 position.type=relative-s1 position.scales=2",
    "model.task=classify attention.kernel=linformer attention.max-length=14 attention.projected-length=5 "
    "position.type=rope model.pool=first",
    "model.task=classify attention.kernel=nystrom attention.landmarks=4 position.type=rope model.pool=first",
    "attention.kernel=reformer attention.buckets=4 attention.chunk=2 attention.rounds=2 position.type=rope",
    "model.task=classify attention.kernel=reformer attention.buckets=4 attention.chunk=3 attention.rounds=3 "
    "model.pool=first position.type=sinusoidal model.norm=post",
    "attention.kernel=favor position.type=relative-s2 position.clip=3",
    "attention.kernel=relu position.type=relative-s2 position.shared=on model.norm=post attention.query-multiple=2",
    "model.task=classify attention.kernel=favor position.type=relative-s2 position.image=on position.width=3 "
    "position.height=3 model.pool=first position.clip=2",
    "model.task=classify attention.kernel=softmax position.type=relative-s2 model.heads=4",
    "attention.kernel=softmax position.type=t5",
    "model.task=classify attention.kernel=softmax position.type=t5 position.shared=on model.pool=first",
    "attention.kernel=softmax position.type=shaw position.clip=3 attention.query-multiple=2",
    "model.task=classify attention.kernel=softmax position.type=shaw position.clip=4 position.values=off",
    "attention.kernel=relu position.type=orthogonal position.decay=fixed attention.normalise=off",
    "model.task=classify attention.kernel=elu1 position.type=orthogonal attention.normalise=off",
    "attention.kernel=favor attention.normalise=off position.decay=fixed",
    "model.task=classify attention.kernel=favor attention.features=hyperbolic attention.normalise=off",
    "attention.kernel=favor attention.features=trigonometric attention.normalise=off model.norm=post",
    "model.task=mlm attention.kernel=relu attention.query-multiple=2 position.type=permute",
    "model.task=mlm attention.kernel=favor model.tied-embedding=off position.type=rope model.dropout=0.2",
    "model.task=match attention.kernel=relu attention.query-multiple=2 position.type=permute model.pool=first",
    "model.task=match attention.kernel=softmax model.activation=relu model.norm=post model.dropout=0.1",
    /* Settings of pretrained models: GPT-2, LLaMA, GPT-NeoX, BERT, RoBERTa, ESM-2, and some together. */
    "attention.kernel=softmax position.type=learned position.max-length=9 model.bias=all model.activation=gelu-tanh "
    "model.norm-eps=1e-3",
    "attention.kernel=softmax position.type=rope position.base=500 model.bias=none model.norm-kind=rms "
    "model.activation=swiglu model.heads=4 model.kv-heads=2 model.tied-embedding=off model.norm-eps=1e-2",
    "attention.kernel=softmax position.type=rope position.rotary=4 position.scaling=4 "
    "position.scaling-length=50 model.bias=all model.norm=parallel model.width=14",
    "model.task=mlm attention.kernel=softmax position.type=learned position.max-length=9 model.bias=all "
    "model.norm=post model.embedding-norm=on model.token-types=2 model.type-separator=3 model.head-transform=on "
    "model.head-bias=on model.norm-eps=1e-12 model.dropout=0.1",
    "model.task=mlm attention.kernel=softmax position.type=learned position.max-length=12 position.offset=3 "
    "model.bias=all model.norm=post model.token-types=1 model.head-bias=on model.tied-embedding=off",
    "model.task=mlm attention.kernel=softmax position.type=rope model.bias=all model.mask-token=4 "
    "model.head-transform=on model.head-bias=on",
    "attention.kernel=favor position.type=permute model.bias=qkv model.norm=parallel model.norm-kind=rms "
    "model.activation=swiglu model.kv-heads=1 model.dropout=0.2 model.head-bias=on",
    "model.task=classify attention.kernel=relu model.pool=first model.token-types=3 model.type-separator=2 "
    "model.mask-token=1 model.activation=silu model.norm=parallel model.final-norm=off position.type=learned "
    "position.max-length=10 position.offset=1",
    "model.task=match attention.kernel=softmax model.activation=swiglu model.bias=all model.kv-heads=1",
    "attention.kernel=reformer attention.buckets=4 attention.chunk=2 attention.rounds=2 model.bias=all "
    "model.norm=parallel model.kv-heads=1",
    /* With an eps the result depends on the stabiliser, whose gradient is taken as 0. Differences do not show that. */
    "attention.kernel=favor attention.feature-eps=0.01 position.type=sinusoidal",
};
enum { VARIANTS = sizeof variants / sizeof *variants, SMOOTH = VARIANTS - 1 };

typedef struct {
    ll_model *model;
    ll_workspace *ws;
    int tokens[MOST], targets[MOST], lengths[B];
    int classify, answers; /* are targets those of sequences or pairs? how many there are */
    float *grad;
    ll_tally tally;
} batch;

static batch *batch_of(const char *keys) {
    batch *x = calloc(1, sizeof *x);
    x->model = tiny_model(keys);
    const ll_model_config *c = x->model->c;
    x->classify = !ll_task_per_token(c->model.task);
    x->answers = c->model.task == LL_TASK_MATCH ? B / 2 : x->classify ? B : B * T;
    random_ints(x->tokens, B * T, c->model.vocab, 0, 1);
    const int mask = c->model.mask_token;
    if (mask >= 0) x->tokens[0] = x->tokens[T + 2] = mask; /* the first of a row counts, too */
    random_ints(x->targets, x->answers, x->classify ? c->model.classes : c->model.vocab, !x->classify, 2);
    for (int b = 0; b < B; b++) x->lengths[b] = T - 2 * b;
    CHECK_OK(ll_workspace_create(&x->ws, x->model, B, T, 1));
    x->grad = calloc(x->model->size, sizeof *x->grad);
    return x;
}

static void batch_run(batch *x, float *grad, float scale) {
    x->tally = (ll_tally){0};
    const ll_batch in = {B, T, x->tokens, x->targets, x->lengths, 0, NULL, NULL};
    CHECK_OK(ll_model_run(x->model, x->ws, &in, grad, scale, 41, &x->tally));
}

static void batch_free(batch *x) {
    ll_workspace_free(x->ws);
    ll_model_free(x->model);
    free(x->grad);
    free(x);
}

/* The loss is the oracle's. The gradient of each tensor is its central difference, added to the earlier content. */
static void test_gradients(void **state) {
    (void)state;
    for (int v = 0; v < SMOOTH; v++) {
        batch *x = batch_of(variants[v]);
        oracle_model o = oracle_model_of(x->model, B, T);
        o.tokens = x->tokens, o.targets = x->targets, o.lengths = x->lengths, o.dropout = 1, o.draw = 41;
        for (size_t i = 0; i < x->model->size; i++) x->grad[i] = 1;
        batch_run(x, x->grad, 0.5f);
        check_loss(&o, variants[v], x->model, x->tally.loss, x->grad, getenv("LL_FAST") ? 4 : 24);
        free(o.params);
        batch_free(x);
    }
}

/* Evaluation has no dropout, and counts the right targets. Training counts the same. */
static void test_tally(void **state) {
    (void)state;
    for (int v = 0; v < VARIANTS; v++) {
        batch *x = batch_of(variants[v]);
        oracle_model o = oracle_model_of(x->model, B, T);
        o.tokens = x->tokens, o.targets = x->targets, o.lengths = x->lengths;
        const int V = x->classify ? x->model->c->model.classes : x->model->c->model.vocab, rows = x->answers;
        double *logits = calloc((size_t)(rows * V), sizeof *logits);
        oracle_model_logits(&o, logits);
        int64_t count = 0, correct = 0;
        for (int r = 0; r < rows; r++) {
            if (x->targets[r] < 0 || (!x->classify && r % T >= x->lengths[r / T])) continue;
            int best = 0;
            for (int i = 0; i < V; i++)
                if (logits[r * V + i] > logits[r * V + best]) best = i;
            count++;
            correct += best == x->targets[r];
        }
        batch_run(x, NULL, 0);
        const float loss = (float)x->tally.loss;
        const double expected = oracle_model_loss(&o);
        check_close(variants[v], 1, &loss, &expected, 1e-5);
        assert_int_equal(x->tally.count, count);
        assert_int_equal(x->tally.correct, correct);
        free(logits);
        free(o.params);
        batch_free(x);
    }
}

/* Pairs of one token each, up to more than a chunk of them: in training and in evaluation. */
static void test_short_pairs(void **state) {
    (void)state;
    enum { MANY = 1030 };
    static const char keys[] = "model.task=match attention.kernel=value model.layers=1 model.ff=8";
    static const int counts[] = {2, 4, 10, MANY};
    ll_model *m = tiny_model(keys);
    float *grad = calloc(m->size, sizeof *grad);
    int tokens[MANY], targets[MANY / 2], lengths[MANY];
    random_ints(tokens, MANY, m->c->model.vocab, 0, 1);
    random_ints(targets, MANY / 2, m->c->model.classes, 0, 2);
    for (int b = 0; b < MANY; b++) lengths[b] = 1;
    for (int i = 0; i < 4; i++) {
        oracle_model o = oracle_model_of(m, counts[i], 1);
        const ll_batch in = {counts[i], 1, tokens, targets, lengths, 0, NULL, NULL};
        o.tokens = tokens, o.targets = targets, o.lengths = lengths;
        for (size_t j = 0; j < m->size; j++) grad[j] = 1;
        for (int training = 0; training < 2; training++) {
            ll_workspace *ws = NULL;
            ll_tally tally = {0};
            CHECK_OK(ll_workspace_create(&ws, m, counts[i], 1, training));
            CHECK_OK(ll_model_run(m, ws, &in, training ? grad : NULL, 0.5f, 0, &tally));
            const float loss = (float)tally.loss;
            const double expected = oracle_model_loss(&o);
            check_close(keys, 1, &loss, &expected, 1e-5);
            if (training) check_loss(&o, keys, m, tally.loss, grad, counts[i] == MANY ? 1 : 4);
            ll_workspace_free(ws);
        }
        free(o.params);
    }
    free(grad);
    ll_model_free(m);
}

/* Log-probabilities of all rows in use, in one array. */
static float *logp_of(batch *x, int length, const int *lengths, size_t *size) {
    const int V = x->classify ? x->model->c->model.classes : x->model->c->model.vocab;
    *size = (size_t)(x->classify ? x->answers : B * length) * (size_t)V;
    float *logp = calloc(*size, sizeof *logp);
    int tokens[MOST] = {0};
    for (int b = 0; b < B; b++)
        for (int t = 0; t < length; t++) tokens[b * length + t] = t < T ? x->tokens[b * T + t] : 0;
    CHECK_OK(ll_model_logp(x->model, logp, tokens, lengths, B, length));
    return logp;
}

/* Neither content nor amount of the padding changes a bit of a result. */
static void test_padding(void **state) {
    (void)state;
    for (int v = 0; v < VARIANTS; v++) {
        batch *x = batch_of(variants[v]);
        batch_run(x, x->grad, 1);
        const double loss = x->tally.loss;
        float *other = calloc(x->model->size, sizeof *other);
        size_t size, longer_size;
        float *logp = logp_of(x, T, x->lengths, &size);
        for (int b = 0; b < B; b++)
            for (int t = x->lengths[b]; t < T; t++) x->tokens[b * T + t] = (x->tokens[b * T + t] + 3) % 11;
        batch_run(x, other, 1);
        assert_true(x->tally.loss == loss);
        assert_memory_equal(other, x->grad, x->model->size * sizeof *other);
        const int more = x->model->c->position.type == LL_POSITION_LEARNED ? 0 : 4;
        float *longer = logp_of(x, T + more, x->lengths, &longer_size);
        const size_t V = x->classify ? size : (size_t)x->model->c->model.vocab;
        for (int b = 0; b < (x->classify ? 1 : B); b++)
            assert_memory_equal(longer + (size_t)(b * (T + more)) * V, logp + (size_t)(b * T) * V,
                                V * sizeof *logp * (size_t)(x->classify ? 1 : x->lengths[b]));
        free(logp), free(longer), free(other);
        batch_free(x);
    }
}

/* Row t of a language model has the same bits whatever follows t. */
static void test_causality(void **state) {
    (void)state;
    for (int v = 0; v < VARIANTS; v++) {
        batch *x = batch_of(variants[v]);
        if (x->model->c->model.task == LL_TASK_LM) {
            const size_t V = (size_t)x->model->c->model.vocab;
            size_t size;
            float *before = logp_of(x, T, NULL, &size);
            for (int b = 0; b < B; b++)
                for (int t = 4; t < T; t++) x->tokens[b * T + t] = (x->tokens[b * T + t] + 1) % 11;
            float *after = logp_of(x, T, NULL, &size);
            for (int b = 0; b < B; b++) {
                const size_t at = (size_t)(b * T) * V;
                assert_memory_equal(before + at, after + at, 4 * V * sizeof *before);
                assert_memory_not_equal(before + at + 4 * V, after + at + 4 * V, V * sizeof *before);
            }
            free(before), free(after);
        }
        batch_free(x);
    }
}

/* Log-probabilities are the oracle's, and their exponentials sum to 1. */
static void test_logp(void **state) {
    (void)state;
    for (int v = 0; v < VARIANTS; v++) {
        batch *x = batch_of(variants[v]);
        oracle_model o = oracle_model_of(x->model, B, T);
        o.tokens = x->tokens;
        size_t size;
        float *logp = logp_of(x, T, NULL, &size);
        double *expected = calloc(size, sizeof *expected);
        oracle_model_logits(&o, expected);
        const size_t V = (size_t)(x->classify ? x->model->c->model.classes : x->model->c->model.vocab);
        for (size_t r = 0; r < size / V; r++) {
            double sum = 0, total = 0;
            for (size_t i = 0; i < V; i++) sum += exp(expected[r * V + i]);
            for (size_t i = 0; i < V; i++) expected[r * V + i] -= log(sum), total += exp((double)logp[r * V + i]);
            assert_true(fabs(total - 1) < 1e-5);
        }
        check_close(variants[v], size, logp, expected, 1e-5);
        free(logp), free(expected), free(o.params);
        batch_free(x);
    }
}

/* Loss and gradients have the same bits on 1, 2 and 5 threads, also where rows need many pieces. */
static void test_threads(void **state) {
    (void)state;
    enum { LONG = 1300 };
    static const int threads[] = {1, 2, 5};
    static const char *const keys[] = {
        "attention.kernel=favor position.type=permute model.dropout=0.1 model.vocab=300 model.width=32 model.layers=1",
        "model.task=classify attention.kernel=relu model.pool=mean model.norm=post model.layers=1",
    };
    for (int v = 0; v < 2; v++) {
        batch *x = batch_of(keys[v]);
        ll_workspace *ws = NULL;
        const ll_batch in = {2, LONG, x->tokens, x->targets, (int[]){LONG, 700}, 0, NULL, NULL};
        CHECK_OK(ll_workspace_create(&ws, x->model, 2, LONG, 1));
        random_ints(x->tokens, 2 * LONG, 11, 0, 4);
        random_ints(x->targets, 2 * LONG, 5, 0, 5);
        float *first = calloc(x->model->size, sizeof *first);
        double loss = 0;
        for (int i = 0; i < 3; i++) {
            ll_tally tally = {0};
            memset(x->grad, 0, x->model->size * sizeof *x->grad);
            ll_set_threads(threads[i]);
            CHECK_OK(ll_model_run(x->model, ws, &in, x->grad, 1, 3, &tally));
            if (i == 0) memcpy(first, x->grad, x->model->size * sizeof *first), loss = tally.loss;
            assert_true(tally.loss == loss);
            assert_memory_equal(first, x->grad, x->model->size * sizeof *first);
        }
        ll_set_threads(1);
        ll_workspace_free(ws);
        free(first);
        batch_free(x);
    }
}

/* Gradient descent on one batch learns every target. */
static void test_overfit(void **state) {
    (void)state;
    static const int picks[] = {0, 3, 7, 10, 12};
    for (size_t v = 0; v < sizeof picks / sizeof *picks; v++) {
        batch *x = batch_of(variants[picks[v]]);
        for (int b = 0; b < B; b++) x->tokens[b * T] = b; /* equal prefixes could not be told apart */
        for (int step = 0; step < 400; step++) {
            memset(x->grad, 0, x->model->size * sizeof *x->grad);
            batch_run(x, x->grad, 1.0f / (float)x->answers);
            for (size_t i = 0; i < x->model->size; i++) x->model->data[i] -= 0.5f * x->grad[i];
        }
        batch_run(x, NULL, 0);
        if (x->tally.correct != x->tally.count)
            fail_msg("%s: %d of %d right, loss %g", variants[picks[v]], (int)x->tally.correct, (int)x->tally.count,
                     x->tally.loss / (double)x->tally.count);
        batch_free(x);
    }
}

/* Wrong tokens and lengths are refused by name before anything is computed. */
static void test_refusals(void **state) {
    (void)state;
    ll_model *model = tiny_model("position.type=learned position.max-length=4");
    float logp[11 * 8];
    CHECK_FAILS(ll_model_logp(model, logp, (const int[]){1, 11}, NULL, 1, 2), LL_EINVAL, "token 11 at position 1");
    CHECK_FAILS(ll_model_logp(model, logp, (const int[]){1, -1}, NULL, 1, 2), LL_EINVAL, "token -1");
    CHECK_FAILS(ll_model_logp(model, logp, (const int[]){1, 1}, (const int[]){3}, 1, 2), LL_EINVAL, "length 3");
    CHECK_FAILS(ll_model_logp(model, logp, (const int[]){1, 1}, NULL, 0, 2), LL_EINVAL, "0 x 2");
    CHECK_FAILS(ll_model_logp(model, logp, (const int[8]){0}, NULL, 1, 8), LL_EINVAL, "max-length");
    CHECK_OK(ll_model_logp(model, logp, (const int[8]){0}, NULL, 1, 4));
    ll_model_free(model);
    model = tiny_model("model.task=match");
    CHECK_FAILS(ll_model_logp(model, logp, (const int[]){1, 1, 1}, NULL, 3, 1), LL_EINVAL, "two and two");
    ll_model_free(model);
    /* Without the layer of pairs they would not be too large. */
    static const char *const huge[] = {
        "model.task=match model.classes=1000000 model.ff=1048576",
        "model.task=match model.width=65536 model.heads=64 model.ff=1048576 model.layers=4",
    };
    for (int i = 0; i < 2; i++) {
        ll_recipe *recipe = tiny_recipe(huge[i]);
        CHECK_FAILS(ll_model_create(&model, recipe), LL_EINVAL, "10^12");
        ll_recipe_free(recipe);
    }
}

int main(void) {
    ll_set_threads(1); /* except in test_threads: models this small are slower with threads */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients), cmocka_unit_test(test_tally),     cmocka_unit_test(test_short_pairs),
        cmocka_unit_test(test_padding),   cmocka_unit_test(test_causality), cmocka_unit_test(test_logp),
        cmocka_unit_test(test_threads),   cmocka_unit_test(test_overfit),   cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
