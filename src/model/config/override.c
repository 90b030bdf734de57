/* What may change in a finished model: the data and the batches of its evaluation. */
#include <string.h>

#include "model/model_internal.h"

ll_status ll_model_set(ll_model *model, const char *assignment) {
    if (strncmp(assignment, "data.", 5) && strncmp(assignment, "train.", 6))
        return ll_fail(LL_EINVAL, "\"%.*s\": the model is fixed; only keys of [data] and [train] can change",
                       (int)strcspn(assignment, "="), assignment);
    if (model->training)
        return ll_fail(LL_EINVAL, "a run is training the model as its recipe says; change a copy of the model, or the "
                                  "model when the run has ended, or was stopped");
    /* First on a copy, so that a refused value leaves the model as it was. */
    ll_recipe *copy = NULL;
    ll_status status = ll_recipe_copy(&copy, model->recipe);
    if (!status) status = ll_recipe_set(copy, assignment);
    if (!status) status = ll_recipe_same_tokens(model->recipe, copy);
    ll_model_config checked;
    if (!status) status = ll_recipe_model(copy, &checked);
    if (!status && ll_config_draws_noise(model->c) && checked.seed != model->c->seed)
        status = ll_fail(LL_EINVAL,
                         "\"train.seed\": this model's positions draw their noise from its seed, which cannot change");
    if (!status) status = ll_recipe_change(model->recipe, assignment);
    ll_recipe_free(copy);
    if (!status) status = ll_model_read_recipe(model);
    return status;
}
