/* Every pair of an attention kernel and a position that the table allows, causal and not: gradients of all parameters,
 * tiles, streams, later tokens, padding, steps without memory. Pairs that the table excludes are refused. A new row of
 * the table is tested without a change here. */
#include "attention/operator.h"
#include "attention/feature/maps.h"
#include "attention/table.h"
#include "model/config/mechanism.h"
#include "base/memory.h"
#include "models.h"
#include "train/train_internal.h"

enum { B = 2, T = 6, WIDTH = 3, LONG = 60, V = 7, CLASSES = 3 }; /* images are WIDTH x T/WIDTH */

typedef struct {
    int kernel, position, causal;
    char keys[800];
    ll_model *model;
    int tokens[B * LONG], targets[B * LONG], lengths[B];
} pair;

/* Small settings for the table's rows. What has several forms is tested in each of them. */
static const char *const forms[][2] = {
    {"favor", ""},
    {"favor", "attention.features=hyperbolic"},
    {"favor", "attention.features=trigonometric model.init-std=0.1"},
    {"relu", "attention.projection=iid"},
    {"conv-spe", ""},
    {"conv-spe", "position.image=on"},
    {"relative-s1", ""},
    {"relative-s1", "position.image=on"},
    {"sine-spe", "position.shared=on"},
};

/* Form number i of a row; NULL after the last. Every row has at least one. */
static const char *form(const char *name, int i) {
    int n = 0, any = 0;
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        if (strcmp(forms[f][0], name)) continue;
        if (n++ == i) return forms[f][1];
        any = 1;
    }
    return !any && i == 0 ? "" : NULL;
}

/* Can weights have either sign? Their sum may be near 0, where differences have no accurate digit. */
static int either_sign(const pair *p) {
    const ll_map *map = ll_map_of((ll_kernel)p->kernel);
    return map && map->sign;
}

static void describe(pair *p, const char *kernel_form, const char *position_form) {
    const ll_mechanism *k = ll_kernel_at(p->kernel), *x = ll_position_at(p->position);
    const char *s2 = ll_position_at(LL_POSITION_RELATIVE_S2)->name; /* half of its heads have no state to decay */
    snprintf(
        p->keys, sizeof p->keys,
        "model.task=%s model.layers=1 model.width=8 model.heads=2 model.ff=6 model.vocab=%d model.classes=%d "
        "attention.kernel=%s attention.query-multiple=2 attention.num-features=8 position.type=%s "
        "position.realizations=4 position.sines=2 position.taps=2 position.scales=2 position.max-length=%d "
        "position.clip=2 attention.window=3 attention.max-length=61 attention.projected-length=3 attention.landmarks=3 "
        "attention.buckets=4 attention.chunk=3 attention.rounds=2 "
        "position.width=%d position.height=%d attention.normalise=%s position.decay=%s model.pool=%s %s %s",
        p->causal ? "lm" : "classify", V, CLASSES, k->name, x->name, LONG, WIDTH, T / WIDTH,
        either_sign(p) ? "off" : "on",
        p->causal && k->decay && x->name != s2 && (p->kernel + p->position) % 2 ? "fixed" : "none",
        (p->kernel + p->position) % 3 ? "mean" : "first", kernel_form, position_form);
}

static void fill(pair *p) {
    random_ints(p->tokens, B * LONG, V, 0, 1);
    random_ints(p->targets, B * LONG, p->causal ? V : CLASSES, 0, 2);
    p->lengths[0] = T, p->lengths[1] = T - 2;
}

/* Runs `check` on every legal pair in all of its forms. */
static void on_every_pair(void (*check)(pair *)) {
    for (int k = 0; ll_kernel_at(k); k++)
        for (int x = 0; ll_position_at(x); x++)
            for (int causal = 0; causal < 2; causal++) {
                pair p = {.kernel = k, .position = x, .causal = causal};
                const char *fk, *fx;
                if (ll_pair_check(k, x, causal)) continue;
                fill(&p);
                for (int i = 0; (fk = form(ll_kernel_at(k)->name, i)); i++)
                    for (int j = 0; (fx = form(ll_position_at(x)->name, j)); j++) {
                        if (causal && strstr(fx, "image=on")) continue;
                        describe(&p, fk, fx);
                        p.model = tiny_model(p.keys);
                        for (int l = 0; l < p.model->c->model.layers; l++)
                            ll_attention_set_tile(p.model->attention[l], 1 + (k + x) % 4);
                        check(&p);
                        ll_model_free(p.model);
                    }
            }
}

static oracle_model oracle_of(const pair *p) {
    oracle_model o = oracle_model_of(p->model, B, T);
    o.tokens = p->tokens, o.targets = p->targets, o.lengths = p->lengths;
    return o;
}

/* Compares the gradient along a random direction in one tensor with the oracle's central difference. */
static void check_direction(const pair *p, oracle_model *o, const ll_param *t, const float *grad) {
    const size_t n = (size_t)t->rows * (size_t)t->cols;
    double *x = o->params + t->offset, *here = calloc(n, sizeof *here), *step = calloc(n, sizeof *step);
    double got = 0, largest = 0, up, down;
    memcpy(here, x, n * sizeof *x);
    for (size_t i = 0; i < n; i++) {
        step[i] = (double)ll_uniform(5, t->offset, i) - 0.5;
        got += step[i] * (double)grad[t->offset + i];
        largest = fmax(largest, fabs((double)grad[t->offset + i]));
    }
    for (size_t i = 0; i < n; i++) x[i] = here[i] + 1e-6 * step[i];
    up = oracle_model_loss(o);
    for (size_t i = 0; i < n; i++) x[i] = here[i] - 1e-6 * step[i];
    down = oracle_model_loss(o);
    memcpy(x, here, n * sizeof *x);
    const double expected = (up - down) / 2e-6, allowed = 3e-4 * (largest * sqrt((double)n) + 1e-3);
    if (!(fabs(got - expected) <= allowed))
        fail_msg("%s: %.9g, differences give %.9g: %s", t->name, got, expected, p->keys);
    free(here), free(step);
}

static void gradients(pair *p) {
    ll_workspace *ws = NULL;
    ll_tally tally = {0};
    float *grad = calloc(p->model->size, sizeof *grad);
    oracle_model o = oracle_of(p);
    o.dropout = 1, o.draw = 3; /* with the noise of training */
    CHECK_OK(ll_workspace_create(&ws, p->model, B, T, 1));
    const ll_batch in = {.B = B, .T = T, .tokens = p->tokens, .targets = p->targets, .lengths = p->lengths};
    CHECK_OK(ll_model_run(p->model, ws, &in, grad, 1, 3, &tally));
    const float loss = (float)tally.loss;
    const double expected = oracle_model_loss(&o);
    check_close(p->keys, 1, &loss, &expected, 1e-5);
    for (int i = 0; i < p->model->count; i++) check_direction(p, &o, &p->model->param[i], grad);
    ll_workspace_free(ws);
    free(o.params), free(grad);
}

/* The number of rows of log-probabilities. */
static int rows(const pair *p, int length) { return p->causal ? B * length : B; }

static float *logp_of(const pair *p, const int *tokens, const int *lengths, int length) {
    float *logp = calloc((size_t)rows(p, length) * V, sizeof *logp);
    CHECK_OK(ll_model_logp(p->model, logp, tokens, lengths, B, length));
    return logp;
}

static void definition(pair *p) {
    oracle_model o = oracle_of(p);
    const int width = p->causal ? V : CLASSES;
    const size_t n = (size_t)(rows(p, T) * width);
    double *expected = calloc(n, sizeof *expected);
    float *logp = logp_of(p, p->tokens, p->lengths, T);
    oracle_model_logits(&o, expected);
    for (size_t r = 0; r < n; r += (size_t)width) {
        double sum = 0;
        for (int i = 0; i < width; i++) sum += exp(expected[r + (size_t)i]);
        const int b = (int)r / width / T, t = (int)r / width % T;
        for (int i = 0; i < width; i++) expected[r + (size_t)i] -= log(sum);
        for (int i = 0; i < width && p->causal && t >= p->lengths[b]; i++) expected[r + (size_t)i] = 0;
    }
    check_close(p->keys, n, logp, expected, 2e-5);
    free(expected), free(logp), free(o.params);
}

/* Neither content nor amount of the padding changes a bit. */
static void padding(pair *p) {
    enum { PADDED = LONG + 3 }; /* beyond tables of positions, linformer and images */
    int other[B * PADDED];
    float *before = logp_of(p, p->tokens, p->lengths, T);
    for (int b = 0; b < B; b++)
        for (int t = 0; t < PADDED; t++)
            other[b * PADDED + t] = t < p->lengths[b] ? p->tokens[b * T + t] : (b + t) % V;
    float *after = logp_of(p, other, p->lengths, PADDED);
    const size_t row = (size_t)(p->causal ? V : CLASSES) * sizeof *before;
    for (int b = 0; b < B; b++) {
        const int n = p->causal ? p->lengths[b] : 1;
        const int at = p->causal ? b * T * V : b * CLASSES, to = p->causal ? b * PADDED * V : b * CLASSES;
        if (memcmp(before + at, after + to, (size_t)n * row)) fail_msg("padding counts: %s", p->keys);
    }
    free(before), free(after);
}

/* More tokens than pixels are refused, except by a language model. */
static void beyond(pair *p) {
    const int image = ll_position_at(p->position)->length == LL_LENGTH_IMAGE || strstr(p->keys, "image=on");
    float logp[B * (T + 1) * V];
    const ll_status status = ll_model_logp(p->model, logp, p->tokens, NULL, B, T + 1);
    if (status != (image && !p->causal ? LL_EINVAL : LL_OK)) fail_msg("%d tokens: %s", T + 1, p->keys);
    if (status) assert_non_null(strstr(ll_error(), "position.width and position.height"));
}

/* Later tokens change no bit of a row. A change of the last row shows that changes are seen. */
static void causality(pair *p) {
    if (!p->causal) return;
    int other[B * T];
    float *before = logp_of(p, p->tokens, NULL, T);
    for (int i = 0; i < B * T; i++) other[i] = i % T < 3 ? p->tokens[i] : (p->tokens[i] + 1) % V;
    float *after = logp_of(p, other, NULL, T);
    for (int b = 0; b < B; b++)
        if (memcmp(before + b * T * V, after + b * T * V, 3 * V * sizeof *before))
            fail_msg("later tokens count: %s", p->keys);
    assert_memory_not_equal(before, after, (size_t)(B * T * V) * sizeof *before);
    free(before), free(after);
}

/* A stream in blocks of random size gives what the whole sequence gives. */
static void streams(pair *p) {
    const ll_stream_kind k = ll_kernel_at(p->kernel)->stream, x = ll_position_at(p->position)->stream;
    ll_stream *stream = NULL;
    float logits[V];
    double expected[V];
    if (!p->causal || k == LL_STREAM_NONE || x == LL_STREAM_NONE) {
        CHECK_FAILS(ll_stream_create(&stream, p->model), LL_EINVAL, "");
        return;
    }
    float *logp = logp_of(p, p->tokens, NULL, LONG);
    CHECK_OK(ll_stream_create(&stream, p->model));
    const size_t first = ll_model_cost(p->model, 1).stream_bytes, last = ll_model_cost(p->model, 1 << 20).stream_bytes;
    if ((k == LL_STREAM_CONSTANT && x == LL_STREAM_CONSTANT) != (first == last))
        fail_msg("a state of %zu bytes, then %zu: %s", first, last, p->keys);
    for (int pass = 0; pass < 2; pass++, ll_stream_reset(stream))
        for (int t = 0, i = 0; t < LONG; i++) {
            int n = 1 + (int)ll_below(pass ? 40 : 5, 8, (uint64_t)p->kernel, (uint64_t)i);
            if (n > LONG - t) n = LONG - t;
            CHECK_OK(ll_stream_feed(stream, p->tokens + t, n, logits));
            t += n;
            double sum = 0;
            for (int v = 0; v < V; v++) sum += exp((double)logits[v]);
            for (int v = 0; v < V; v++) expected[v] = logp[(t - 1) * V + v] + log(sum);
            check_close(p->keys, V, logits, expected, 1e-4);
        }
    ll_stream_free(stream);
    free(logp);
}

/* Documents of a packed row have the same bits as alone. */
static void packing(pair *p) {
    static const int first[] = {0, 1, 2, 19, 50, LONG};
    float *together, *alone;
    int tokens[B * LONG];
    if (!p->causal) return;
    snprintf(p->keys + strlen(p->keys), sizeof p->keys - strlen(p->keys), " model.separator=%d", V - 1);
    ll_model_free(p->model);
    p->model = tiny_model(p->keys);
    for (int i = 0; i < B * LONG; i++) tokens[i] = p->tokens[i] % (V - 1);
    for (int d = 1; d < 5; d++) tokens[first[d]] = V - 1;
    together = logp_of(p, tokens, NULL, LONG);
    for (int d = 0; d < 5; d++) {
        const int n = first[d + 1] - first[d];
        alone = calloc((size_t)(n * V), sizeof *alone);
        CHECK_OK(ll_model_logp(p->model, alone, tokens + first[d], NULL, 1, n));
        if (memcmp(alone, together + first[d] * V, (size_t)(n * V) * sizeof *alone))
            fail_msg("document %d of a row is another alone: %s", d, p->keys);
        free(alone);
    }
    free(together);
}

/* Three steps of training give the same bits whether every allocation is refused or none. */
static void steps(pair *p, int refused, float *weights) {
    char keys[1200];
    ll_engine *e = NULL;
    snprintf(keys, sizeof keys, "%s train.length=%d train.batch=%d attention.redraw=1", p->keys, T, B);
    ll_model *model = tiny_model(keys);
    CHECK_OK(ll_engine_create(&e, model));
    memcpy(e->worker->batch.tokens, p->tokens, B * T * sizeof(int));
    memcpy(e->worker->batch.targets, p->targets, (size_t)(p->causal ? B * T : B) * sizeof(int));
    memcpy(e->worker->batch.lengths, p->lengths, sizeof p->lengths);
    for (int step = 1; step <= 3; step++) {
        ll_gradient g;
        ll_memory_fail_at(refused);
        ll_status status = ll_engine_gradient(e, NULL, step, &g);
        if (!status) status = ll_engine_update(e, step, &g);
        ll_memory_fail_at(0);
        if (status) fail_msg("%s: %s", ll_error(), p->keys);
        assert_true(isfinite(g.loss));
    }
    memcpy(weights, model->data, model->size * sizeof *weights);
    ll_engine_free(e);
    ll_model_free(model);
}

static void memory(pair *p) {
    const size_t size = p->model->size * sizeof(float);
    float *a = malloc(size), *b = malloc(size);
    for (int packed = 0; packed <= p->causal; packed++) { /* then documents in packed rows */
        if (packed) snprintf(p->keys + strlen(p->keys), sizeof p->keys - strlen(p->keys), " model.separator=%d", V - 1);
        steps(p, 0, a), steps(p, 1, b);
        if (memcmp(a, b, size)) fail_msg("other weights without memory: %s", p->keys);
    }
    free(a), free(b);
}

static void test_gradients(void **state) {
    (void)state;
    on_every_pair(gradients);
}
static void test_definition(void **state) {
    (void)state;
    on_every_pair(definition);
}
static void test_padding(void **state) {
    (void)state;
    on_every_pair(padding);
}
static void test_beyond(void **state) {
    (void)state;
    on_every_pair(beyond);
}
static void test_causality(void **state) {
    (void)state;
    on_every_pair(causality);
}
static void test_packing(void **state) {
    (void)state;
    on_every_pair(packing);
}
static void test_streams(void **state) {
    (void)state;
    on_every_pair(streams);
}

static void test_memory(void **state) {
    (void)state;
    on_every_pair(memory);
}

/* No model has a pair that the table excludes. The error names both parts, or the task. */
static void test_refused(void **state) {
    (void)state;
    int refused = 0;
    for (int k = 0; ll_kernel_at(k); k++)
        for (int x = 0; ll_position_at(x); x++)
            for (int causal = 0; causal < 2; causal++) {
                pair p = {.kernel = k, .position = x, .causal = causal};
                if (!ll_pair_legal(ll_kernel_at(k)->name, ll_position_at(x)->name, causal)) continue;
                char reason[400];
                snprintf(reason, sizeof reason, "%s", ll_error());
                if (!strstr(reason, "attention.kernel = ") && !strstr(reason, "model.task = "))
                    fail_msg("a reason that names nothing: %s", reason);
                assert_true(strstr(reason, "; use ") || strstr(reason, "; set "));
                describe(&p, "", "");
                ll_recipe *recipe = tiny_recipe(p.keys);
                ll_model *model = NULL;
                CHECK_FAILS(ll_model_create(&model, recipe), LL_EINVAL, reason);
                assert_null(model);
                ll_recipe_free(recipe);
                refused++;
            }
    assert_true(refused > 0);
}

int main(void) {
    ll_set_threads(1); /* models this small are slower with threads */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients), cmocka_unit_test(test_definition), cmocka_unit_test(test_padding),
        cmocka_unit_test(test_beyond),    cmocka_unit_test(test_causality),  cmocka_unit_test(test_streams),
        cmocka_unit_test(test_refused),   cmocka_unit_test(test_packing),    cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
