/* What follows from a model's settings, whatever attention.compat says: facts of its kernel, and sizes of a head. */
#include <math.h>

#include "attention/position/premap.h"
#include "model/config/mechanism.h"
#include "model/config/model_config.h"

int ll_config_linear(const ll_model_config *c) {
    return (ll_kernel_row(c->attention.kernel)->has & LL_HAS_FEATURES) != 0;
}

int ll_config_projections(const ll_model_config *c) {
    return ll_kernel_row(c->attention.kernel)->kind->reads;
}

int ll_config_gated(const ll_model_config *c) { return ll_kernel_row(c->attention.kernel)->gated; }

int ll_config_head_norm(const ll_model_config *c) {
    const int choice = c->attention.output_norm;
    return choice == LL_OUTPUT_NORM_ON || (choice == LL_OUTPUT_NORM_AUTO && ll_config_gated(c));
}

int ll_config_divides(const ll_model_config *c) {
    return c->attention.normalise && !ll_config_gated(c);
}

double ll_config_init_std(const ll_model_config *c) {
    return c->model.init_std > 0 ? c->model.init_std : 0.02 * sqrt(512.0 / c->model.width);
}

int ll_config_query_size(const ll_model_config *c) {
    return (c->model.head_size ? c->model.head_size : c->model.width / c->model.heads) * c->attention.query_multiple;
}

int ll_config_encoded_size(const ll_model_config *c) {
    const ll_attention_config a = ll_config_attention(c);
    return ll_attention_width(&a);
}

/* ---- What attention is told ---- */

int ll_position_is_image(const ll_position_options *p) {
    const ll_mechanism_row *row = ll_position_row(p->type);
    return row->about.length == LL_LENGTH_IMAGE || (row->has & LL_IMAGE && p->image);
}

int64_t ll_position_limit(const ll_position_options *p) {
    return ll_position_row(p->type)->about.length == LL_LENGTH_TABLE ? ll_position_learned(p) : INT64_MAX;
}

int ll_config_keyless(const ll_model_config *c) {
    const ll_operator_kind *kind = ll_position_row(c->position.type)->kind;
    return kind && kind->keyless ? c->model.heads / 2 : 0;
}

int ll_config_draws_noise(const ll_model_config *c) {
    const ll_premap_kind *stage = ll_position_row(c->position.type)->premap;
    return stage && stage->draw;
}

static ll_approximate_config approximate(const ll_attention_options *o) {
    return (ll_approximate_config){.window = o->window,
                                   .length = o->linformer_length,
                                   .rank = o->linformer_rank,
                                   .landmarks = o->landmarks,
                                   .iterations = o->iterations,
                                   .buckets = o->buckets,
                                   .chunk = o->chunk,
                                   .rounds = o->rounds};
}

static ll_position_config encoding(const ll_model_config *c) {
    const ll_position_options *o = &c->position;
    return (ll_position_config){.base = o->base,
                                .scaling = {o->scaling, o->scaling_length, o->scaling_low, o->scaling_high},
                                .rotary = o->rotary,
                                .realizations = o->realizations,
                                .sines = o->sines,
                                .taps = o->taps,
                                .taps2 = ll_position_is_image(o) ? o->taps : 0,
                                .scales = o->scales,
                                .axes = 1 + o->image,
                                .clip = o->distances,
                                .keyless = ll_config_keyless(c)};
}

ll_attention_config ll_config_attention(const ll_model_config *c) {
    ll_attention_config a = ll_attention_default();
    const ll_mechanism_row *position = ll_position_row(c->position.type);
    a.kernel = (ll_kernel)c->attention.kernel;
    a.features = (ll_feature_kind)c->attention.features;
    a.causal = c->model.task == LL_TASK_LM;
    a.H = c->model.heads, a.D = ll_config_query_size(c);
    a.E = c->model.head_size ? c->model.head_size : c->model.width / c->model.heads;
    a.approximate = approximate(&c->attention);
    if (position->has & LL_EMBEDDED) return a;
    a.position = (ll_position)c->position.type;
    a.encoding = encoding(c);
    return a;
}
