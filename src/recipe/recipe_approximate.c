/* The kernels that papers compare with: what no single key of theirs can tell. */
#include "recipe/recipe_key.h"

ll_status ll_config_check_approximate(const ll_config *c) {
    const int front = !ll_config_per_token(c) && c->model.pool == LL_POOL_FIRST;
    if (c->attention.kernel == LL_ATT_REFORMER && c->attention.buckets % 2)
        return ll_fail(LL_EINVAL,
                       "attention.buckets = %d is odd, but a direction and its opposite are two buckets; make it even",
                       c->attention.buckets);
    if (c->attention.kernel == LL_ATT_LINFORMER && c->train.length + front > c->attention.linformer_length)
        return ll_fail(LL_EINVAL,
                       "train.length = %d%s is beyond attention.max-length = %d, where linformer's projections end; "
                       "raise it",
                       c->train.length, front ? " and the token in front" : "", c->attention.linformer_length);
    return LL_OK;
}
