/* Batches through a model and its teacher, against the definition in double and against differences. */
#include "models.h"

#include "base/memory.h"
#include "model/distil.h"

enum { B = 3, T = 7 };

typedef struct {
    const char *teacher, *student; /* the student's changes come after the teacher's */
} pair;

static const pair pairs[] = {
    {"position.type=rope", "attention.kernel=favor"},
    {"position.type=rope", "attention.kernel=relu position.type=permute position.decay=fixed"},
    {"position.type=rope", "attention.kernel=gla position.type=none model.dropout=0.3"},
    {"position.type=sinusoidal model.norm=post", "attention.kernel=elu1"},
    {"model.norm=parallel model.bias=all position.type=learned position.max-length=9", "attention.kernel=favor"},
    {"model.heads=4 model.kv-heads=2 model.norm-kind=rms model.activation=swiglu model.bias=qkv",
     "attention.kernel=exp"},
    {"model.task=classify model.pool=first position.type=rope", "attention.kernel=relu"},
    {"model.task=mlm model.head-transform=on model.head-bias=on model.bias=all", "attention.kernel=favor"},
    {"model.task=match", "attention.kernel=elu1 attention.normalise=off"},
    {"position.type=rope", "attention.kernel=softmax position.type=t5"}, /* what positions in attention learn, too */
    {"position.type=learned position.max-length=9", "attention.kernel=softmax position.type=shaw position.clip=2"},
};
enum { PAIRS = sizeof pairs / sizeof *pairs };

typedef struct {
    ll_model *teacher, *student;
    ll_workspace *ws;
    ll_teacher *t;
    int tokens[B * T + T], targets[B * T + T], lengths[B + 1], B;
    ll_batch in;
    float *grad;
    char keys[600];
} setup;

static int is_pair(const setup *x) { return x->student->c->model.task == LL_TASK_MATCH; }

/* A student with its teacher's weights, in which those of attention are perturbed. */
static setup *setup_of(const pair *p) {
    setup *x = calloc(1, sizeof *x);
    char *summary = NULL;
    snprintf(x->keys, sizeof x->keys, "%s %s", p->teacher, p->student);
    x->teacher = tiny_model(p->teacher);
    ll_recipe *recipe = tiny_recipe(x->keys);
    CHECK_OK(ll_model_create_from(&x->student, recipe, x->teacher, &summary));
    ll_recipe_free(recipe);
    ll_free(summary);
    for (int i = 0; i < x->student->count; i++) {
        const ll_param *q = &x->student->param[i];
        for (int j = 0; ll_distil_is_attention(q->name) && j < q->rows * q->cols; j++)
            q->value[j] += 0.2f * (ll_uniform(3, 9, q->offset + (size_t)j) - 0.5f);
    }
    const ll_model_config *c = x->student->c;
    const int per_token = ll_task_per_token(c->model.task);
    x->B = is_pair(x) ? B + 1 : B;
    random_ints(x->tokens, x->B * T, c->model.vocab, 0, 1);
    random_ints(x->targets, x->B * T, per_token ? c->model.vocab : c->model.classes, per_token, 2);
    for (int b = 0; b < x->B; b++) x->lengths[b] = T - b;
    x->in = (ll_batch){.B = x->B, .T = T, .tokens = x->tokens, .targets = x->targets, .lengths = x->lengths};
    CHECK_OK(ll_workspace_create(&x->ws, x->student, x->B, T, 1));
    CHECK_OK(ll_teacher_create(&x->t, x->teacher, x->student, x->B, T, 1));
    x->grad = calloc(x->student->size, sizeof *x->grad);
    return x;
}

static void setup_free(setup *x) {
    ll_teacher_free(x->t);
    ll_workspace_free(x->ws);
    ll_model_free(x->student);
    ll_model_free(x->teacher);
    free(x->grad);
    free(x);
}

/* ---- The definition ---- */

typedef struct {
    const setup *x;
    oracle_model own, theirs;
    double *logits; /* of the teacher */
    double *entered, *attended, *mine;
    int attention;
    double weight, temperature;
} definition;

static int outputs(const setup *x) {
    const ll_model_config *c = x->student->c;
    return ll_task_per_token(c->model.task) ? c->model.vocab : c->model.classes;
}

static int answers(const setup *x) {
    return ll_task_per_token(x->student->c->model.task) ? x->B * T : is_pair(x) ? x->B / 2 : x->B;
}

static oracle_model oracle_of(const setup *x, const ll_model *m) {
    oracle_model o = oracle_model_of(m, x->B, T);
    o.tokens = x->tokens, o.targets = x->targets, o.lengths = x->lengths;
    return o;
}

static definition define(const setup *x, int attention, double weight, double temperature) {
    definition d = {.x = x, .attention = attention, .weight = weight, .temperature = temperature};
    d.logits = calloc((size_t)(x->B * (T + 1) * 16), sizeof *d.logits);
    d.entered = calloc((size_t)(x->B * (T + 1) * 32), sizeof *d.entered);
    d.attended = calloc((size_t)(x->B * (T + 1) * 32), sizeof *d.attended);
    d.mine = calloc((size_t)(x->B * (T + 1) * 32), sizeof *d.mine);
    d.theirs = oracle_of(x, x->teacher);
    d.theirs.entered = d.entered, d.theirs.attended = d.attended;
    oracle_model_logits(&d.theirs, d.logits);
    d.own = oracle_of(x, x->student);
    if (attention) d.own.given = d.entered, d.own.attended = d.mine;
    if (!attention) d.own.dropout = 1, d.own.draw = 41;
    return d;
}

static void definition_free(definition *d) {
    free(d->own.params), free(d->theirs.params);
    free(d->logits), free(d->entered), free(d->attended), free(d->mine);
}

static double log_soft(const double *x, int n, int i, double t) {
    double top = -INFINITY, sum = 0;
    for (int j = 0; j < n; j++) top = fmax(top, x[j] / t);
    for (int j = 0; j < n; j++) sum += exp(x[j] / t - top);
    return x[i] / t - top - log(sum);
}

static double logits_loss(definition *d) {
    const setup *x = d->x;
    const int V = outputs(x), per_token = ll_task_per_token(x->student->c->model.task);
    double *own = calloc((size_t)(x->B * (T + 1) * 16), sizeof *own), loss = 0;
    oracle_model_logits(&d->own, own);
    for (int r = 0; r < answers(x); r++) {
        if (x->targets[r] < 0 || (per_token && r % T >= x->lengths[r / T])) continue;
        const double *a = own + r * V, *b = d->logits + r * V;
        loss -= (1 - d->weight) * log_soft(a, V, x->targets[r], 1);
        for (int i = 0; i < V; i++) {
            const double p = log_soft(b, V, i, d->temperature), q = log_soft(a, V, i, d->temperature);
            loss += d->weight * d->temperature * d->temperature * exp(p) * (p - q);
        }
    }
    free(own);
    return loss;
}

static double attention_loss(definition *d) {
    const setup *x = d->x;
    const int C = 16, layers = 2, cls = x->student->cls_tokens, N = T + cls;
    double *own = calloc((size_t)(x->B * (T + 1) * 16), sizeof *own), loss = 0;
    oracle_model_logits(&d->own, own);
    for (int l = 0; l < layers; l++)
        for (int r = 0; r < x->B * N; r++) {
            if (r % N >= x->lengths[r / N] + cls) continue;
            const double *a = d->mine + (l * x->B * N + r) * C, *b = d->attended + (l * x->B * N + r) * C;
            double error = 0, size = C * 1e-6;
            for (int i = 0; i < C; i++) error += (a[i] - b[i]) * (a[i] - b[i]), size += b[i] * b[i];
            loss += error / size / layers;
        }
    free(own);
    return loss;
}

static double loss_of(definition *d) { return d->attention ? attention_loss(d) : logits_loss(d); }

static double difference(definition *d, size_t i) {
    const double x = d->own.params[i], h = 1e-6;
    d->own.params[i] = x + h;
    const double up = loss_of(d);
    d->own.params[i] = x - h;
    const double down = loss_of(d);
    d->own.params[i] = x;
    return (up - down) / (2 * h);
}

/* Compares some elements of each tensor. The unit is the largest gradient of the tensor. */
static void check_gradients(setup *x, definition *d) {
    enum { FEW = 6 };
    for (int i = 0; i < x->student->count; i++) {
        const ll_param *p = &x->student->param[i];
        const size_t n = (size_t)p->rows * (size_t)p->cols;
        float got[FEW + 1];
        double expected[FEW + 1], largest = 1e-3;
        for (size_t j = 0; j < n; j++) largest = fmax(largest, fabs((double)x->grad[p->offset + j]));
        for (size_t j = 0; j < FEW; j++) {
            const size_t at = p->offset + ll_below((uint32_t)n, 9, p->offset, j);
            got[j] = x->grad[at];
            expected[j] = 0.5 * difference(d, at);
        }
        got[FEW] = (float)largest, expected[FEW] = largest;
        char what[700];
        snprintf(what, sizeof what, "%s of {%s}", p->name, x->keys);
        check_close(what, FEW + 1, got, expected, 3e-4);
    }
}

/* Fills the gradients, because new ones are added to them. */
static void set_ones(setup *x, float value) {
    for (size_t i = 0; i < x->student->size; i++) x->grad[i] += value;
}

static void test_attention(void **state) {
    (void)state;
    for (int i = 0; i < PAIRS; i++) {
        setup *x = setup_of(&pairs[i]);
        definition d = define(x, 1, 0, 0);
        ll_tally tally = {0};
        set_ones(x, 1);
        CHECK_OK(ll_distil_attention(x->student, x->ws, x->t, &x->in, x->grad, 0.5f, 41, &tally));
        set_ones(x, -1);
        const float loss = (float)tally.loss;
        const double expected = loss_of(&d);
        check_close(x->keys, 1, &loss, &expected, 2e-5);
        int64_t count = 0;
        for (int b = 0; b < x->B; b++) count += x->lengths[b] + x->student->cls_tokens;
        assert_int_equal(tally.count, count);
        check_gradients(x, &d);
        for (int p = 0; p < x->student->count; p++) { /* other tensors have the same bits */
            const ll_param *q = &x->student->param[p];
            for (int j = 0; !ll_distil_is_attention(q->name) && j < q->rows * q->cols; j++)
                assert_true(x->grad[q->offset + (size_t)j] == 0);
        }
        definition_free(&d);
        setup_free(x);
    }
}

static void test_logits(void **state) {
    (void)state;
    static const double how[][2] = {{0.5, 1}, {1, 2}, {0.2, 0.7}};
    for (int i = 0; i < PAIRS; i++) {
        setup *x = setup_of(&pairs[i]);
        const ll_distil_options options = {how[i % 3][0], how[i % 3][1]};
        definition d = define(x, 0, options.weight, options.temperature);
        ll_tally tally = {0};
        set_ones(x, 1);
        CHECK_OK(ll_distil_logits(x->student, x->ws, x->t, &options, &x->in, x->grad, 0.5f, 41, &tally));
        set_ones(x, -1);
        const float loss = (float)tally.loss;
        const double expected = loss_of(&d);
        check_close(x->keys, 1, &loss, &expected, 2e-5);
        check_gradients(x, &d);
        definition_free(&d);
        setup_free(x);
    }
}

/* With the teacher's own attention the loss is 0, also where that attention gives zeros. */
static void check_own_attention(int zeros) {
    ll_model *m = tiny_model("position.type=rope");
    ll_workspace *ws = NULL;
    ll_teacher *t = NULL;
    int tokens[T], targets[T];
    random_ints(tokens, T, 11, 0, 1), random_ints(targets, T, 11, 0, 2);
    const ll_batch in = {.B = 1, .T = T, .tokens = tokens, .targets = targets};
    float *grad = calloc(m->size, sizeof *grad);
    ll_tally tally = {0};
    for (int i = 0; i < m->count && zeros; i++) {
        const ll_param *p = &m->param[i];
        if (strstr(p->name, "attention.output.weight"))
            memset(p->value, 0, (size_t)p->rows * (size_t)p->cols * sizeof *p->value);
    }
    CHECK_OK(ll_workspace_create(&ws, m, 1, T, 1));
    CHECK_OK(ll_teacher_create(&t, m, m, 1, T, 1));
    CHECK_OK(ll_distil_attention(m, ws, t, &in, grad, 1, 0, &tally));
    assert_true(tally.loss < 1e-10);
    for (size_t i = 0; i < m->size; i++) assert_true(isfinite(grad[i]));
    ll_teacher_free(t);
    ll_workspace_free(ws);
    ll_model_free(m);
    free(grad);
}

static void test_nothing_is_missed(void **state) {
    (void)state;
    check_own_attention(0);
    check_own_attention(1);
}

/* Neither the contents of the padding nor the number of threads changes a bit. */
static void test_same_bits(void **state) {
    (void)state;
    for (int i = 0; i < PAIRS; i++)
        for (int attention = 0; attention < 2; attention++) {
            const ll_distil_options how = {0.5, 2};
            float *first = NULL;
            double loss = 0;
            for (int run = 0; run < 2; run++) {
                setup *x = setup_of(&pairs[i]);
                ll_tally tally = {0};
                ll_set_threads(run ? 3 : 1);
                for (int b = 0; run && b < x->B; b++)
                    for (int t = x->lengths[b]; t < T; t++) x->tokens[b * T + t] = (x->tokens[b * T + t] + 3) % 11;
                if (attention)
                    CHECK_OK(ll_distil_attention(x->student, x->ws, x->t, &x->in, x->grad, 1, 4, &tally));
                else
                    CHECK_OK(ll_distil_logits(x->student, x->ws, x->t, &how, &x->in, x->grad, 1, 4, &tally));
                if (run) assert_memory_equal(first, x->grad, x->student->size * sizeof *first);
                if (run) assert_true(loss == tally.loss);
                if (!run) {
                    first = x->grad;
                    loss = tally.loss;
                    x->grad = NULL;
                }
                setup_free(x);
            }
            free(first);
        }
    ll_set_threads(0);
}

#define PIXELS "model.task=classify model.vocab=256 position.width=4 position.height=4 train.length=16"

static void test_what_does_not_fit(void **state) {
    (void)state;
    static const struct {
        const char *teacher, *student, *error;
        int attention;
    } cases[] = {
        {"model.layers=3", "", "set model.layers=3", 1},
        {"model.width=8", "", "set model.width=8", 1},
        {"model.vocab=12", "", "gives 12 logits, a model of the recipe 11", 0},
        {"model.task=mlm", "", "another task", 0},
        {"model.task=classify model.vocab=5", "model.task=classify", "knows 5 tokens, a model of the recipe 11", 0},
        {"model.task=match model.vocab=5", "model.task=match", "knows 5 tokens, a model of the recipe 11", 0},
        {PIXELS, PIXELS " model.patch=2", "set model.patch=0", 1},
        {PIXELS " model.patch=2", PIXELS, "set model.patch=2", 1},
        {"model.task=classify model.pool=first", "model.task=classify", "token in front", 1},
        {"model.task=seq2seq", "model.task=seq2seq", "train.distil=logits", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ll_model *teacher = tiny_model(cases[i].teacher), *student = tiny_model(cases[i].student);
        ll_teacher *t = NULL;
        CHECK_FAILS(ll_teacher_create(&t, teacher, student, 1, T, cases[i].attention), LL_EINVAL, cases[i].error);
        assert_null(t);
        ll_model_free(teacher);
        ll_model_free(student);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attention),        cmocka_unit_test(test_logits),
        cmocka_unit_test(test_nothing_is_missed), cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_what_does_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
