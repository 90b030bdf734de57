/* The model room's part of a recipe, and its check. */
#include "recipe/recipe.h"

int ll_config_per_token(const ll_config *c) {
    return ll_task_per_token(c->model.task);
}

int ll_config_sequences(const ll_config *c) {
    return c->train.batch * ll_task_sequences(c->model.task);
}

ll_model_config ll_config_model(const ll_config *c) {
    return (ll_model_config){.model = c->model,
                             .attention = c->attention,
                             .position = c->position,
                             .batch = c->train.batch,
                             .length = c->train.length,
                             .bf16 = c->train.precision == LL_BF16,
                             .carry = c->train.carry_state,
                             .recompute = c->train.recompute,
                             .chunk = c->train.chunk,
                             .seed = c->train.seed};
}

ll_status ll_config_check(const ll_config *c) {
    const ll_model_config model = ll_config_model(c);
    return ll_model_check(&model);
}

ll_status ll_recipe_model(const ll_recipe *recipe, ll_model_config *c) {
    *c = ll_config_model(&recipe->c);
    return ll_model_check(c);
}
