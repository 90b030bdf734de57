/* The attention of a model as its recipe names it. */
#include "oracle_mechanism.h"

#include <math.h>

#include "oracle_compat.h"
#include "oracle_model_position.h"

static int head_size(const ll_model_config *c) {
    return c->model.head_size ? c->model.head_size : c->model.width / c->model.heads;
}

int oracle_cls_tokens(const oracle_model *o) {
    return !ll_task_per_token(o->model->c->model.task) && o->model->c->model.pool == LL_POOL_FIRST;
}

int oracle_gated(const oracle_model *o) { return o->model->c->attention.kernel == LL_KERNEL_GLA; }

ll_attention_config oracle_mechanism(const oracle_model *o, int op, int causal, int placed) {
    const ll_model_config *c = o->model->c;
    const ll_attention_config *draws = &o->model->attention[op]->c;
    const int E = head_size(c), D = E * c->attention.query_multiple;
    ll_attention_config a = {.causal = causal, .H = c->model.heads, .D = D, .E = E, .input_scale = 1};
    if (placed) oracle_model_position_describe(o, &a);
    const int W = oracle_width(&a);
    if (c->attention.kernel == LL_KERNEL_SOFTMAX) a.kernel = LL_KERNEL_SOFTMAX, a.input_scale = (float)(1 / sqrt(W));
    if (c->attention.kernel == LL_KERNEL_FAVOR) {
        a.kernel = LL_KERNEL_FAVOR, a.input_scale = (float)(1 / sqrt(sqrt(W)));
        a.features = (ll_feature_kind)c->attention.features;
        a.M = c->attention.features == LL_FEATURES_POSITIVE ? c->attention.num_features : c->attention.num_features / 2;
    }
    a.approximate.window = c->attention.window, a.approximate.rank = c->attention.linformer_rank;
    a.approximate.rotations = draws->approximate.rotations;
    a.approximate.buckets = c->attention.buckets, a.approximate.chunk = c->attention.chunk,
    a.approximate.rounds = c->attention.rounds;
    a.approximate.landmarks = c->attention.landmarks, a.approximate.iterations = c->attention.iterations;
    if (c->attention.kernel > LL_KERNEL_GLA)
        a.kernel = (ll_kernel)c->attention.kernel, a.input_scale = (float)(1 / sqrt(W));
    if (c->attention.kernel >= LL_KERNEL_RELU && c->attention.kernel <= LL_KERNEL_GLA) {
        const int zero = c->attention.kernel == LL_KERNEL_ELU1 || c->attention.kernel == LL_KERNEL_EXP ||
                         c->attention.kernel == LL_KERNEL_SIGMOID || oracle_gated(o);
        a.kernel = (ll_kernel)c->attention.kernel, a.feature_eps = zero ? 0 : 1e-3f;
        if (c->attention.projection >= LL_PROJ_ORTHOGONAL || draws->projection) a.M = c->attention.num_features;
    }
    a.projection = draws->projection;
    a.den = LL_DEN_SUM;
    if (!c->attention.normalise || oracle_gated(o)) a.query_max = a.key_max = LL_MAX_NONE;
    oracle_compat(ll_recipe_get(o->model->recipe, "attention.compat"), W, &a);
    if (c->attention.feature_eps >= 0) a.feature_eps = (float)c->attention.feature_eps;
    if (!c->attention.normalise || oracle_gated(o)) a.den = LL_DEN_NONE;
    a.permutation = draws->permutation;
    if (c->position.type == LL_POSITION_PERMUTE && placed) a.position = LL_POSITION_PERMUTE;
    if (c->position.type == LL_POSITION_PERMUTE2D) {
        a.position = LL_POSITION_PERMUTE2D;
        const int side = c->model.patch ? c->model.patch : 1;
        a.width = c->position.width / side, a.height = c->position.height / side, a.before = oracle_cls_tokens(o);
    }
    a.decay = draws->decay;
    return a;
}
