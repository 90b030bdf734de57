/* model.pool = first: the last block computes only what the first token of each sequence needs. Loss, probabilities and
 * gradients are those of a network that computes all tokens. */
#include "attention/operator.h"
#include "model/config/mechanism.h"
#include "models.h"

#include "model/layer/head_layers.h"
#include "model/network.h"

enum { B = 4, T = 12, WIDTH = 4 }; /* images are WIDTH x T / WIDTH */

static const char *const kinds[] = {
    "attention.kernel=relu position.type=permute model.dropout=0.3",
    "attention.kernel=favor model.norm=post model.dropout=0.2",
    "attention.kernel=softmax model.norm=parallel position.type=sinusoidal",
    "attention.kernel=relu model.layers=1 model.heads=4 model.kv-heads=2 model.bias=all model.norm-kind=rms",
    "attention.kernel=softmax model.activation=swiglu position.type=rope",
    "attention.kernel=elu1 train.recompute=on model.layers=3",
    "attention.kernel=relu model.task=match position.type=rope-linear",
    "attention.kernel=favor model.patch=2 model.vocab=256 position.width=6 position.height=2 train.length=12",
    "attention.kernel=relu attention.output-norm=on",
};

typedef struct {
    ll_model *model;
    int tokens[B * T], targets[B], lengths[B];
    ll_batch in;
} setup;

static setup *setup_of(const char *keys) {
    setup *x = calloc(1, sizeof *x);
    char all[900];
    snprintf(all, sizeof all, "model.task=classify model.pool=first %s", keys);
    x->model = tiny_model(all);
    random_ints(x->tokens, B * T, x->model->c->model.vocab, 0, 1);
    random_ints(x->targets, B, x->model->c->model.classes, 0, 2);
    for (int b = 0; b < B; b++) x->lengths[b] = x->model->c->model.patch ? T : T - 3 * b;
    x->in = (ll_batch){.B = B, .T = T, .tokens = x->tokens, .targets = x->targets, .lengths = x->lengths};
    return x;
}

typedef struct {
    double loss;
    float *grad;
    int first_only;
} outcome;

static outcome step(const setup *x, int all) {
    ll_workspace *ws = NULL;
    ll_tally tally = {0};
    outcome o = {.grad = calloc(x->model->size, sizeof *o.grad)};
    CHECK_OK(ll_workspace_create(&ws, x->model, B, T, 1));
    ll_batch_run run = ll_network_begin(x->model, ws, &x->in);
    run.grad = o.grad, run.draw = 9;
    if (!all) ll_network_pooled(&run);
    o.first_only = run.reads == LL_READS_FIRST;
    CHECK_OK(ll_network_forward(&run));
    ll_head_loss(&run, x->targets, 0.5f, &tally);
    CHECK_OK(ll_network_backward(&run));
    o.loss = tally.loss;
    ll_workspace_free(ws);
    return o;
}

/* Returns whether the last block was computed for the first tokens alone. */
static int check(const char *keys) {
    setup *x = setup_of(keys);
    const outcome all = step(x, 1), first = step(x, 0);
    double most = 0;
    if (!(fabs(first.loss - all.loss) <= 2e-6 * all.loss))
        fail_msg("{%s}: loss %.9g, and %.9g of all tokens", keys, first.loss, all.loss);
    for (size_t i = 0; i < x->model->size; i++) most = fmax(most, fabs((double)all.grad[i]));
    assert_true(most > 1e-3);
    for (size_t i = 0; i < x->model->size; i++)
        if (!(fabs((double)first.grad[i] - (double)all.grad[i]) <= 1e-5 * most))
            fail_msg("{%s}: gradient %zu is %.9g, and %.9g of all tokens; the largest is %g", keys, i,
                     (double)first.grad[i], (double)all.grad[i], most);
    free(all.grad), free(first.grad);
    ll_model_free(x->model);
    free(x);
    return first.first_only;
}

static void test_models(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        assert_int_equal(check(kinds[i]), !strstr(kinds[i], "norm=parallel"));
}

/* Kernels that can read another sequence's keys compute each query by itself. */
static void test_every_pair(void **state) {
    (void)state;
    int alone = 0;
    for (int k = 0; ll_kernel_at(k); k++)
        for (int p = 0; ll_position_at(p); p++) {
            char keys[600];
            if (ll_pair_check(k, p, 0)) continue;
            snprintf(keys, sizeof keys,
                     "attention.kernel=%s position.type=%s position.realizations=4 position.sines=2 position.taps=2 "
                     "position.scales=2 position.max-length=%d position.clip=2 attention.window=3 "
                     "attention.max-length=%d attention.projected-length=3 attention.landmarks=3 attention.buckets=4 "
                     "attention.chunk=3 attention.rounds=2 position.width=%d position.height=%d",
                     ll_kernel_at(k)->name, ll_position_at(p)->name, T + 1, T + 1, WIDTH, T / WIDTH);
            alone += check(keys);
        }
    assert_true(alone > 100);
}

/* Of the last block's output only the first token of each sequence is written. */
static void test_other_rows_are_not_computed(void **state) {
    (void)state;
    setup *x = setup_of("attention.kernel=relu");
    ll_workspace *ws = NULL;
    CHECK_OK(ll_workspace_create(&ws, x->model, B, T, 1));
    ll_batch_run run = ll_network_begin(x->model, ws, &x->in);
    ll_network_pooled(&run);
    const size_t C = (size_t)x->model->c->model.width;
    float *top = ll_residual(&run, ll_sublayers(run.stack), (ll_rows){0});
    for (size_t i = 0; i < run.rows * C; i++) top[i] = 77;
    CHECK_OK(ll_network_forward(&run));
    for (size_t i = 0; i < run.rows * C; i++)
        if ((top[i] != 77) != (i / C % (size_t)run.T == 0)) fail_msg("row %zu: %g", i / C, (double)top[i]);
    ll_workspace_free(ws);
    ll_model_free(x->model);
    free(x);
}

/* A sequence without tokens has its CLS token alone; its embedding is 0 nevertheless. */
static void test_no_tokens(void **state) {
    (void)state;
    ll_model *m = tiny_model("model.task=classify model.pool=first attention.kernel=relu");
    const int tokens[8] = {1, 2, 3, 4, 5, 6, 7, 8}, lengths[2] = {0, 4};
    float out[2 * 16];
    CHECK_OK(ll_model_encode(m, -1, LL_EMBED_FIRST, out, tokens, lengths, 2, 4));
    for (int i = 0; i < 16; i++) assert_true(out[i] == 0);
    assert_true(out[16] != 0);
    ll_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_models),
        cmocka_unit_test(test_every_pair),
        cmocka_unit_test(test_other_rows_are_not_computed),
        cmocka_unit_test(test_no_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
