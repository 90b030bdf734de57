/* Models of random recipes: all kernels, positions and switches together. They are compared with the definition, their
 * gradients with differences, and what must hold for any model is checked. Most draws are refused, because their parts
 * do not go together. */
#include <unistd.h>

#include "models.h"

enum { DRAWS = 1500, B = 2, T = 9, V_MOST = 11, LEAST = 100 };

/* The sizes. All other keys are choices and flags, whose possible values the recipe knows. */
static const char *const numbers[][2] = {
    {"model.layers", "1|2"},
    {"model.width", "12|16"},
    {"model.heads", "1|2|4"},
    {"model.ff", "7|16"},
    {"model.dropout", "0|0|0.2"},
    {"attention.query-multiple", "1|2"},
    {"attention.num-features", "8|12"},
    {"attention.window", "1|3"},
    {"attention.max-length", "20"},
    {"attention.projected-length", "4"},
    {"attention.landmarks", "4"},
    {"attention.buckets", "4"},
    {"attention.chunk", "4"},
    {"attention.rounds", "1|2"},
    {"position.max-length", "64"},
    {"position.realizations", "4|8"},
    {"position.sines", "2"},
    {"position.taps", "3"},
    {"position.scales", "2"},
    {"position.clip", "1|3"},
    {"position.width", "3"},
    {"position.height", "3"},
    {"train.seed", "7|8"},
};
enum { NUMBERS = sizeof numbers / sizeof *numbers };

typedef struct {
    ll_model *model;
    char keys[1700];
    int tokens[B * T], targets[B * T], lengths[B];
    int answers, classes; /* targets of the batch; classes of each */
} drawn;

static int draw(uint64_t seed, int i, int n) { return (int)ll_below((uint32_t)n, seed, 91, (uint64_t)i); }

/* Adds "key=value", where the value is drawn from "a|b|c". */
static void add(drawn *x, const char *key, const char *values, uint64_t seed, int i) {
    int n = 1;
    for (const char *p = values; (p = strchr(p, '|')); p++) n++;
    for (int which = draw(seed, i, n); which; which--) values = strchr(values, '|') + 1;
    const size_t at = strlen(x->keys), capacity = sizeof x->keys - at;
    assert_true((size_t)snprintf(x->keys + at, capacity, "%s=%.*s ", key, (int)strcspn(values, "|"), values) <
                capacity);
}

/* Weights that may be negative can have sums near 0. A quotient by such a sum has no accurate digits. */
static int is_sound(const ll_model_config *c) {
    const int waves = c->attention.kernel == LL_KERNEL_FAVOR && (c->attention.features == LL_FEATURES_TRIGONOMETRIC ||
                                                                 c->attention.features == LL_FEATURES_GAUSSIAN);
    const int maps = c->attention.kernel == LL_KERNEL_COS || c->attention.kernel == LL_KERNEL_TANH ||
                     c->attention.kernel == LL_KERNEL_IDENTITY || c->attention.kernel == LL_KERNEL_GELU;
    const int bounded = c->model.final_norm || c->model.norm == LL_NORM_POST;
    if (!c->attention.normalise && (c->attention.kernel == LL_KERNEL_EXP || !bounded))
        return 0; /* outputs may be of any size */
    if (!c->attention.normalise && waves && ll_config_head_norm(c))
        return 0; /* and their sums near 0, by whose size the norm of a head divides */
    return !c->attention.normalise || !(waves || maps || c->position.type == LL_POSITION_ORTHOGONAL);
}

/* Most switches stay as they are in half of the draws. Nearly all recipes that set every switch are refused. */
static int is_drawn(const char *key, uint64_t seed, int i) {
    if (!strncmp(key, "train.", 6) || !strncmp(key, "data.", 5)) return 0;
    if (!strcmp(key, "attention.compat")) return 0; /* tested in test_compat.c */
    if (!strcmp(key, "attention.kernel") || !strcmp(key, "position.type")) return 1;
    return draw(seed, 2000 + i, 2);
}

/* The model of x->keys, and tokens. Returns 0 if the recipe is refused. */
static int create_model(drawn *x, uint64_t seed) {
    ll_recipe *recipe = tiny_recipe(x->keys);
    const int one = strcmp(ll_recipe_get(recipe, "model.task"), "seq2seq") != 0; /* seq2seq: test_seq2seq.c */
    const int made = one && !ll_model_create(&x->model, recipe);
    ll_recipe_free(recipe);
    if (!made) return 0;
    tiny_shake(x->model);
    const ll_model_config *c = x->model->c;
    x->classes = ll_task_per_token(c->model.task) ? c->model.vocab : c->model.classes;
    x->answers = c->model.task == LL_TASK_MATCH ? B / 2 : ll_task_per_token(c->model.task) ? B * T : B;
    random_ints(x->tokens, B * T, c->model.vocab, 0, seed);
    random_ints(x->targets, x->answers, x->classes, ll_task_per_token(c->model.task), seed + 1);
    return 1;
}

static int draw_model(drawn *x, uint64_t seed) {
    const ll_recipe_key *key;
    *x = (drawn){.lengths = {T, T - 3}};
    for (int i = 0; (key = ll_recipe_key_at(i)); i++)
        if (key->choices && is_drawn(key->name, seed, i)) add(x, key->name, key->choices, seed, i);
    for (int i = 0; i < NUMBERS; i++) add(x, numbers[i][0], numbers[i][1], seed, 1000 + i);
    return create_model(x, seed);
}

/* ---- What must hold ---- */

static double worst(size_t n, const float *a, const float *b) {
    double most = 0;
    for (size_t i = 0; i < n; i++) {
        const double error = abs_error((double)a[i], (double)b[i]) / (1 + fabs((double)b[i]));
        most = fmax(most, error);
    }
    return most;
}

static double largest(const float *x, size_t n) {
    double most = 0;
    for (size_t i = 0; i < n; i++) most = fmax(most, fabs((double)x[i]));
    return most;
}

/* Compares two elements with central differences. If a whole tensor changes nothing, its gradient is rounding; then
 * `all`, the largest gradient of the model, is the unit. */
static void check_tensor_of(oracle_model *o, const drawn *x, const ll_param *p, const float *grad, double all) {
    const size_t n = (size_t)p->rows * (size_t)p->cols;
    const double unit = largest(grad + p->offset, n) + 1e-3 * all;
    for (uint64_t i = 0; i < 2; i++) {
        const size_t at = p->offset + ll_below((uint32_t)n, 9, p->offset, i);
        const double expected = oracle_model_difference(o, at);
        if (!(fabs((double)grad[at] - expected) <= 3e-4 * unit))
            fail_msg("%s[%zu] of {%s} has the gradient %g, expected %g, of %g", p->name, at - p->offset, x->keys,
                     (double)grad[at], expected, unit);
    }
}

static void check_gradients(drawn *x) {
    ll_workspace *ws = NULL;
    ll_tally tally = {0}, rested = {0};
    float *grad = calloc(x->model->size, sizeof *grad), *again = calloc(x->model->size, sizeof *again);
    const ll_batch in = {B, T, x->tokens, x->targets, x->lengths, 0, NULL, NULL};
    CHECK_OK(ll_workspace_create(&ws, x->model, B, T, 1));
    CHECK_OK(ll_model_run(x->model, ws, &in, grad, 1, 41, &tally));
    ll_workspace_rest(ws);
    CHECK_OK(ll_model_run(x->model, ws, &in, again, 1, 41, &rested));
    assert_memory_equal(again, grad, x->model->size * sizeof *grad);
    oracle_model o = oracle_model_of(x->model, B, T);
    o.tokens = x->tokens, o.targets = x->targets, o.lengths = x->lengths, o.dropout = 1, o.draw = 41;
    const float loss = (float)tally.loss;
    const double expected = oracle_model_loss(&o);
    check_close(x->keys, 1, &loss, &expected, 1e-4);
    const double all = largest(grad, x->model->size);
    for (int i = 0; i < x->model->count; i++) check_tensor_of(&o, x, &x->model->param[i], grad, all);
    free(o.params), free(grad), free(again);
    ll_workspace_free(ws);
}

/* Bits do not depend on the number of threads, on the contents of the padding, or on saving and loading the model. */
static void check_bits(drawn *x, const float *logp, size_t size, const char *path) {
    float *other = calloc(size, sizeof *other);
    ll_model *again = NULL;
    ll_set_threads(3);
    CHECK_OK(ll_model_logp(x->model, other, x->tokens, x->lengths, B, T));
    ll_set_threads(0);
    assert_memory_equal(other, logp, size * sizeof *logp);
    for (int t = x->lengths[1]; t < T; t++) x->tokens[T + t] = (x->tokens[T + t] + 1) % x->model->c->model.vocab;
    CHECK_OK(ll_model_logp(x->model, other, x->tokens, x->lengths, B, T));
    assert_memory_equal(other, logp, size * sizeof *logp);
    CHECK_OK(ll_model_save(x->model, path));
    CHECK_OK(ll_model_load(&again, path));
    CHECK_OK(ll_model_logp(again, other, x->tokens, x->lengths, B, T));
    assert_memory_equal(other, logp, size * sizeof *logp);
    ll_model_free(again);
    free(other);
}

/* The logits after each token, as log-probabilities, equal those of the whole sequence. So do those of a stream that
 * was saved to a file and loaded in between. */
static int check_stream(const drawn *x, const float *logp, const char *path) {
    ll_stream *s = NULL;
    const int V = x->model->c->model.vocab;
    float after[V_MOST];
    if (ll_stream_create(&s, x->model)) return 0;
    for (int t = 0; t < T; t++) {
        CHECK_OK(ll_stream_feed(s, x->tokens + t, 1, after));
        double sum = 0;
        const double top = largest(after, (size_t)V);
        for (int v = 0; v < V; v++) sum += exp((double)after[v] - top);
        for (int v = 0; v < V; v++) after[v] -= (float)(top + log(sum));
        if (worst((size_t)V, after, logp + t * V) > 1e-3) fail_msg("token %d of a stream of {%s}", t, x->keys);
        if (t != T / 2) continue;
        CHECK_OK(ll_stream_save(s, path));
        ll_stream_free(s);
        CHECK_OK(ll_stream_load(&s, x->model, path));
    }
    ll_stream_free(s);
    return 1;
}

static void test_any(void **state) {
    (void)state;
    int made = 0, streams = 0;
    char path[] = "/tmp/ll-any-XXXXXX";
    assert_true(!close(mkstemp(path)));
    for (int seed = 0; seed < DRAWS; seed++) {
        drawn x;
        if (!draw_model(&x, (uint64_t)seed)) continue;
        const size_t size = (size_t)(x.answers * x.classes);
        float *logp = calloc(size, sizeof *logp);
        CHECK_OK(ll_model_logp(x.model, logp, x.tokens, x.lengths, B, T));
        check_bits(&x, logp, size, path);
        if (is_sound(x.model->c)) check_gradients(&x), streams += check_stream(&x, logp, path);
        made++;
        free(logp);
        ll_model_free(x.model);
    }
    assert_int_equal(unlink(path), 0);
    printf("    %d recipes of %d can be; %d models could stream\n", made, DRAWS, streams);
    assert_true(made >= LEAST && streams >= LEAST / 4);
}

/* Dropout of rows that are wider than what is drawn at a time. */
static void test_wide_dropout(void **state) {
    (void)state;
    drawn x = {.keys = "attention.kernel=value model.layers=1 model.width=1032 model.heads=1 model.head-size=8 "
                       "model.ff=8 model.dropout=0.3",
               .lengths = {T, T - 3}};
    assert_true(create_model(&x, 1));
    check_gradients(&x);
    ll_model_free(x.model);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_any), cmocka_unit_test(test_wide_dropout)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
