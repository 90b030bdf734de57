/* attention.compat where a row is not one sequence: documents in packed rows, and encoder-decoders. Rules without a
 * maximum over other tokens are among the variants of seq2seq.h, and all of its tests use them. The others are here. */
#include "seq2seq.h"

/* Maxima over a sequence or over the batch follow the definition and are never streamed. */
static const struct {
    const char *keys;
    int smooth; /* the maximum is differentiated, so that differences show the gradient */
} looking[] = {
    {SEQ2SEQ "attention.kernel=favor attention.compat=google", 1},
    {SEQ2SEQ "attention.kernel=favor attention.compat=google position.type=rope position.cross=both", 1},
    {SEQ2SEQ "attention.kernel=favor attention.compat=google attention.features=trigonometric model.init-std=0.1", 1},
    {SEQ2SEQ "attention.kernel=favor attention.compat=lucidrains position.type=permute position.cross=start", 0},
    {SEQ2SEQ "attention.kernel=favor attention.compat=relative-performer position.type=relative-s1 position.scales=2",
     1},
};

static void test_seq2seq(void **state) {
    (void)state;
    for (size_t v = 0; v < sizeof looking / sizeof *looking; v++) {
        batch *x = batch_of(looking[v].keys);
        oracle_model o = oracle_model_of(x->model, B, T);
        ll_stream *stream = NULL;
        o.tokens = x->tokens, o.targets = x->targets, o.lengths = x->lengths;
        o.source = x->source, o.source_lengths = x->source_lengths, o.S = S;
        o.dropout = 1, o.draw = 41;
        batch_run(x, x->grad, 1);
        const float loss = (float)x->tally.loss;
        const double expected = oracle_model_loss(&o);
        check_close(looking[v].keys, 1, &loss, &expected, 1e-5);
        for (int i = 0; i < x->model->count && looking[v].smooth; i++)
            check_tensor(&o, looking[v].keys, &x->model->param[i], x->grad, 1, 4);
        CHECK_FAILS(ll_stream_create(&stream, x->model), LL_EINVAL, "attention.compat = ");
        free(o.params);
        batch_free(x);
    }
}

/* ---- Packed rows ---- */

#define PACKED "model.separator=10 "
static const char *const packed[] = {
    PACKED "attention.kernel=favor attention.compat=google position.type=permute",
    PACKED "attention.kernel=favor attention.compat=google attention.features=trigonometric model.init-std=0.1",
    PACKED "attention.kernel=relu attention.compat=google position.type=permute position.decay=fixed",
    PACKED "attention.kernel=favor attention.compat=lucidrains position.type=rope",
    PACKED "attention.kernel=favor attention.compat=lucidrains position.type=relative-s2 position.clip=3",
    PACKED "attention.kernel=relu attention.compat=lucidrains position.type=rope",
    PACKED "attention.kernel=favor attention.compat=fast-transformers attention.features=hyperbolic",
    PACKED "attention.kernel=favor attention.compat=fast-transformers attention.features=gaussian",
    PACKED "attention.kernel=elu1 attention.compat=fast-transformers position.type=rope-linear",
    PACKED "attention.kernel=relu attention.compat=permuteformer position.type=permute position.decay=fixed",
};

/* A maximum over a sequence is over one document. Each document gives the same as alone, and gradients add up. */
static void test_packed(void **state) {
    (void)state;
    enum { ROW = 40 };
    static const int first[] = {0, 5, 17, 18, 33, ROW};
    int tokens[ROW], targets[ROW];
    random_ints(tokens, ROW, V - 1, 0, 3);
    random_ints(targets, ROW, V, 0, 4);
    for (int d = 1; d < 5; d++) tokens[first[d]] = 10;
    for (size_t v = 0; v < sizeof packed / sizeof *packed; v++) {
        ll_model *model = tiny_model(packed[v]);
        ll_workspace *ws = NULL;
        float together[ROW * V], alone[ROW * V];
        float *grad = calloc(model->size, sizeof *grad), *part = calloc(model->size, sizeof *part);
        double *sum = calloc(model->size, sizeof *sum);
        ll_tally tally = {0};
        CHECK_OK(ll_model_logp(model, together, tokens, NULL, 1, ROW));
        CHECK_OK(ll_workspace_create(&ws, model, 1, ROW, 1));
        ll_batch in = {.B = 1, .T = ROW, .tokens = tokens, .targets = targets};
        CHECK_OK(ll_model_run(model, ws, &in, grad, 1, 0, &tally));
        for (int d = 0; d < 5; d++) {
            const int n = first[d + 1] - first[d];
            CHECK_OK(ll_model_logp(model, alone, tokens + first[d], NULL, 1, n));
            assert_memory_equal(alone, together + first[d] * V, (size_t)(n * V) * sizeof *alone);
            in = (ll_batch){.B = 1, .T = n, .tokens = tokens + first[d], .targets = targets + first[d]};
            memset(part, 0, model->size * sizeof *part);
            CHECK_OK(ll_model_run(model, ws, &in, part, 1, 0, &tally));
            for (size_t e = 0; e < model->size; e++) sum[e] += (double)part[e];
        }
        for (int i = 0; i < model->count; i++) {
            const ll_param *p = &model->param[i];
            check_close(packed[v], (size_t)p->rows * (size_t)p->cols, grad + p->offset, sum + p->offset, 3e-5);
        }
        free(grad), free(part), free(sum);
        ll_workspace_free(ws);
        ll_model_free(model);
    }
}

/* A maximum over the batch is over all documents, so documents in a row would not be independent. */
static void test_refused(void **state) {
    (void)state;
    ll_recipe *recipe = tiny_recipe(PACKED "attention.kernel=favor attention.compat=relative-performer");
    ll_model *model = NULL;
    CHECK_FAILS(ll_model_create(&model, recipe), LL_EINVAL, "over the whole batch");
    ll_recipe_free(recipe);
}

int main(void) {
    ll_set_threads(1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_seq2seq),
        cmocka_unit_test(test_packed),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
