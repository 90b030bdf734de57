/* Batches whose sequences are far shorter than the batch: what lies behind their tokens is not computed, and no number
 * depends on it. Loss and gradients are the sums of those of the sequences alone. */
#include "models.h"

#include "model/layer/head_layers.h"

enum { B = 6, T = 150 };

static const char *const kinds[] = {
    "attention.kernel=relu position.type=permute position.decay=fixed",
    "attention.kernel=favor model.norm=post position.type=rope",
    "attention.kernel=softmax model.norm=parallel position.type=sinusoidal",
    "attention.kernel=gla model.activation=swiglu",
    "attention.kernel=local attention.window=5 position.type=rope train.recompute=on model.layers=3",
    "model.task=mlm attention.kernel=exp position.type=rope model.head-transform=on model.head-bias=on model.bias=qkv",
    "model.task=mlm attention.kernel=relu position.type=relative-s2 position.clip=3",
    "model.task=classify attention.kernel=favor position.type=learned position.max-length=150",
    "model.task=classify model.pool=first attention.kernel=softmax position.type=t5",
    "model.task=classify model.pool=first attention.kernel=nystrom attention.landmarks=3",
    "model.task=match attention.kernel=elu1 model.embedding-norm=on",
    "model.task=seq2seq attention.kernel=relu position.type=permute",
};

typedef struct {
    int source[B * T], tokens[B * T], targets[B * T], lengths[B], source_lengths[B];
} text;

/* One is as long as the batch, one behind a short one, two are neighbours without a large gap. */
static void make_text(text *x, const ll_model *m) {
    const int lengths[B] = {T, 7, 3, T - 20, 80, 1}, source_lengths[B] = {4, T, 2, 80, T - 9, 60};
    const int per_token = ll_task_per_token(m->c->model.task);
    memcpy(x->lengths, lengths, sizeof lengths);
    memcpy(x->source_lengths, source_lengths, sizeof source_lengths);
    random_ints(x->source, B * T, m->c->model.vocab, 0, 1);
    random_ints(x->tokens, B * T, m->c->model.vocab, 0, 2);
    random_ints(x->targets, B * T, per_token ? m->c->model.vocab : m->c->model.classes, 0, 3);
    for (int i = 0; per_token && i < B * T; i++)
        if (i % T >= lengths[i / T]) x->targets[i] = -1;
}

static void poison_rows(float *x, size_t n) {
    for (size_t i = 0; x && i < n; i++) x[i] = NAN;
}

/* Whatever is read of a workspace without having been written is not a number. */
static void poison(ll_workspace *ws) {
    const ll_model *m = ws->model;
    const size_t rows = (size_t)ws->B * (size_t)ws->T, C = (size_t)m->c->model.width;
    for (int j = 0; j <= ws->stack->parts * ws->stack->layers; j++) poison_rows(ws->residual[j], rows * C);
    for (int l = 0; l < ws->stack->layers; l++) {
        poison_rows(ws->project[l], rows * ll_row_width(m));
        poison_rows(ws->mixed[l], rows * (size_t)m->values);
        if (ws->keeps) poison_rows(ws->hidden[l], rows * (size_t)m->c->model.ff);
        if (m->gated) poison_rows(ws->gate[l], rows * (size_t)m->c->model.heads);
    }
    poison_rows(ws->d, rows * C);
    poison_rows(ws->dproject, rows * ll_row_width(m));
    poison_rows(ws->dmixed, rows * (size_t)m->values);
    if (ws->top) poison_rows(ws->top, rows * C);
    if (ws->source) poison(ws->source);
}

/* Sequences from .. to - 1 in rows of n tokens, sources in rows of s. */
static double step(const ll_model *m, const text *x, int from, int to, int n, int s, float *grad) {
    const int per_token = ll_task_per_token(m->c->model.task), count = to - from;
    const int answer = m->c->model.task == LL_TASK_MATCH ? from / 2 : from;
    static int tokens[B * T], targets[B * T], source[B * T];
    for (int b = 0; b < count; b++) {
        for (int t = 0; t < n; t++) tokens[b * n + t] = x->tokens[(from + b) * T + t];
        for (int t = 0; t < n; t++) targets[b * n + t] = x->targets[(from + b) * T + t];
        for (int t = 0; t < s; t++) source[b * s + t] = x->source[(from + b) * T + t];
    }
    const ll_batch in = {.B = count,
                         .T = n,
                         .tokens = tokens,
                         .targets = per_token ? targets : (int *)x->targets + answer,
                         .lengths = (int *)x->lengths + from,
                         .S = m->stacks > 1 ? s : 0,
                         .source = m->stacks > 1 ? source : NULL,
                         .source_lengths = (int *)x->source_lengths + from};
    ll_workspace *ws = NULL;
    ll_tally tally = {0};
    CHECK_OK(ll_workspace_make(&ws, m, ll_top_stack(m), count, n, in.S, LL_TRAIN));
    poison(ws);
    CHECK_OK(ll_model_run(m, ws, &in, grad, 0.5f, 3, &tally));
    ll_workspace_free(ws);
    return tally.loss;
}

static void check(const char *keys) {
    ll_model *m = tiny_model(keys);
    text x;
    make_text(&x, m);
    float *whole = calloc(m->size, sizeof *whole), *parts = calloc(m->size, sizeof *parts);
    const int each = m->c->model.task == LL_TASK_MATCH ? 2 : 1;
    double sum = 0, most = 0;
    const double loss = step(m, &x, 0, B, T, T, whole);
    for (int b = 0; b < B; b += each) {
        const int n = each > 1 && x.lengths[b + 1] > x.lengths[b] ? x.lengths[b + 1] : x.lengths[b];
        sum += step(m, &x, b, b + each, n, x.source_lengths[b], parts);
    }
    if (!(fabs(loss - sum) <= 1e-5 * sum))
        fail_msg("{%s}: loss %.9g, and %.9g of the sequences alone", keys, loss, sum);
    for (size_t i = 0; i < m->size; i++) most = fmax(most, fabs((double)parts[i]));
    assert_true(most > 1e-3);
    for (size_t i = 0; i < m->size; i++)
        if (!(fabs((double)whole[i] - (double)parts[i]) <= 3e-5 * most))
            fail_msg("{%s}: gradient %zu is %.9g, and %.9g of the sequences alone; the largest is %g", keys, i,
                     (double)whole[i], (double)parts[i], most);
    free(whole), free(parts);
    ll_model_free(m);
}

static void test_sum_of_sequences(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) check(kinds[i]);
}

/* Which rows go through the layers, for lengths of rows of 150. */
static void test_rows(void **state) {
    (void)state;
    ll_model *m = tiny_model("attention.kernel=relu");
    text x;
    make_text(&x, m);
    ll_workspace *ws = NULL;
    CHECK_OK(ll_workspace_make(&ws, m, ll_top_stack(m), B, T, 0, LL_EVALUATE));
    const ll_batch in = {.B = B, .T = T, .tokens = x.tokens, .lengths = x.lengths};
    const ll_batch_run run = ll_network_begin(m, ws, &in);
    const ll_rows expected[] = {{0, T + 7}, {2 * T, 3}, {3 * T, T + 80}, {5 * T, 1}};
    size_t n = 0;
    for (ll_rows r = {0}; ll_next_rows(&run, &r); n++) {
        assert_true(n < sizeof expected / sizeof *expected);
        assert_int_equal(r.first, expected[n].first);
        assert_int_equal(r.n, expected[n].n);
    }
    assert_int_equal(n, sizeof expected / sizeof *expected);
    ll_workspace_free(ws);
    ll_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sum_of_sequences), cmocka_unit_test(test_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
