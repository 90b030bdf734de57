/* The projection and the features of a model's settings, by the rules of attention.compat. */
#include "model/config/compat.h"
#include "model/config/mechanism.h"

int ll_config_projection(const ll_model_config *c) {
    if (c->attention.projection != LL_PROJ_AUTO) return c->attention.projection;
    const ll_rules *rules = ll_config_rules(c);
    const int projected = c->attention.kernel == LL_KERNEL_FAVOR || (rules && rules->projection > 0);
    return projected ? LL_PROJ_ORTHOGONAL : LL_PROJ_NONE;
}

int ll_config_features(const ll_model_config *c) {
    return ll_config_projection(c) == LL_PROJ_NONE ? ll_config_encoded_size(c) : c->attention.num_features;
}

int ll_config_rows(const ll_model_config *c) {
    const int pairs = c->attention.kernel == LL_KERNEL_FAVOR && c->attention.features != LL_FEATURES_POSITIVE;
    return ll_config_projection(c) == LL_PROJ_NONE ? 0
           : pairs                                 ? c->attention.num_features / 2
                                                   : c->attention.num_features;
}
