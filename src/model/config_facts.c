/* What follows from a model's settings, whatever attention.compat says: facts of its kernel, and sizes of a head. */
#include <math.h>

#include "model/mechanism.h"
#include "model/model_config.h"

int ll_config_linear(const ll_model_config *c) {
    return (ll_kernel_row(c->attention.kernel)->has & LL_HAS_FEATURES) != 0;
}

int ll_config_projections(const ll_model_config *c) {
    return ll_kernel_row(c->attention.kernel)->kind->reads;
}

int ll_config_gated(const ll_model_config *c) {
    return ll_kernel_row(c->attention.kernel)->kind->gated;
}

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
    const int size = ll_config_query_size(c);
    if (c->position.type == LL_POSITION_SINE_SPE || c->position.type == LL_POSITION_CONV_SPE)
        return c->position.realizations;
    return c->position.type == LL_POSITION_RELATIVE_S1 ? size + 2 * c->position.scales * (1 + c->position.image) : size;
}
