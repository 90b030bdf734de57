/* Encoder-decoders for tests: models of every kind, and batches for them. */
#ifndef LL_SEQ2SEQ_H
#define LL_SEQ2SEQ_H

#include "models.h"

enum { B = 3, T = 7, S = 9, V = 11 };

#define SEQ2SEQ "model.task=seq2seq model.layers=1 "
static const char *const variants[] = {
    SEQ2SEQ "attention.kernel=softmax",
    SEQ2SEQ "attention.kernel=softmax model.norm=post model.activation=relu model.tied-embedding=off "
            "position.type=sinusoidal",
    SEQ2SEQ "attention.kernel=softmax position.type=learned position.max-length=12 model.embedding-norm=on "
            "model.final-norm=off",
    SEQ2SEQ "attention.kernel=softmax position.type=rope position.cross=both model.encoder-layers=2",
    SEQ2SEQ "attention.kernel=relu position.type=permute position.cross=start position.decay=fixed",
    SEQ2SEQ "attention.kernel=relu position.type=permute position.cross=end model.norm=post "
            "attention.query-multiple=2",
    SEQ2SEQ "attention.kernel=favor position.type=permute position.cross=both model.heads=4",
    SEQ2SEQ "attention.kernel=favor attention.features=hyperbolic position.type=rope",
    SEQ2SEQ "attention.kernel=elu1 position.type=rope-linear position.cross=start",
    SEQ2SEQ "attention.kernel=relu position.type=sine-spe position.realizations=6 position.sines=2 "
            "position.cross=start",
    SEQ2SEQ "attention.kernel=favor position.type=sine-spe position.realizations=6 position.sines=2",
    SEQ2SEQ "attention.kernel=favor position.type=conv-spe position.realizations=5 position.taps=3 "
            "position.cross=end position.shared=on",
    SEQ2SEQ "attention.kernel=favor position.type=relative-s1 position.scales=2 position.cross=both",
    SEQ2SEQ "attention.kernel=softmax position.type=relative-s1 position.scales=3 position.cross=start",
    SEQ2SEQ "attention.kernel=exp attention.projection=hadamard",
    SEQ2SEQ "attention.kernel=relu position.type=permute position.cross=start model.dropout=0.3 "
            "model.encoder-layers=2 model.norm=post",
    SEQ2SEQ "attention.kernel=relu attention.compat=google position.type=permute position.cross=start",
    SEQ2SEQ "attention.kernel=relu attention.compat=lucidrains position.type=rope position.cross=both",
    SEQ2SEQ "attention.kernel=favor attention.compat=fast-transformers attention.features=hyperbolic",
    SEQ2SEQ "attention.kernel=favor attention.compat=fast-transformers attention.features=gaussian model.init-std=0.2",
    SEQ2SEQ "attention.kernel=elu1 attention.compat=fast-transformers position.type=rope-linear position.cross=start",
    SEQ2SEQ "attention.kernel=relu attention.compat=permuteformer position.type=permute position.decay=fixed",
};
enum { VARIANTS = sizeof variants / sizeof *variants };

typedef struct {
    ll_model *model;
    ll_workspace *ws;
    int tokens[B * T], targets[B * T], source[B * S], lengths[B], source_lengths[B];
    ll_batch in;
    float *grad;
    ll_tally tally;
} batch;

static inline batch *batch_of(const char *keys) {
    batch *x = calloc(1, sizeof *x);
    x->model = tiny_model(keys);
    random_ints(x->tokens, B * T, V, 0, 1);
    random_ints(x->targets, B * T, V, 1, 2);
    random_ints(x->source, B * S, V, 0, 3);
    for (int b = 0; b < B; b++) x->lengths[b] = T - 2 * b, x->source_lengths[b] = S - 4 + 2 * b - b % 2;
    CHECK_OK(ll_workspace_create(&x->ws, x->model, B, S, 1));
    x->in = (ll_batch){B, T, x->tokens, x->targets, x->lengths, S, x->source, x->source_lengths, 0};
    x->grad = calloc(x->model->size, sizeof *x->grad);
    return x;
}

static inline void batch_run(batch *x, float *grad, float scale) {
    x->tally = (ll_tally){0};
    CHECK_OK(ll_model_run(x->model, x->ws, &x->in, grad, scale, 41, &x->tally));
}

static inline void batch_free(batch *x) {
    ll_workspace_free(x->ws);
    ll_model_free(x->model);
    free(x->grad);
    free(x);
}

#endif
