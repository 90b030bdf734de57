/* Released programs by their sources, one after the other. */
#include "oracle_compat.h"

#include <math.h>
#include <string.h>

static void stabilise(ll_attention_config *a, ll_max keys, int through, float eps) {
    a->query_max = LL_MAX_TOKEN, a->key_max = keys;
    a->max_of_u = 1, a->max_gradient = through;
    a->feature_eps = eps;
}

static void divide(ll_attention_config *a, ll_den den, float eps) {
    a->den = den;
    a->den_eps = eps;
}

void oracle_compat(const char *compat, int width, ll_attention_config *a) {
    const int favor = a->kernel == LL_KERNEL_FAVOR;
    if (!strcmp(compat, "google")) { /* softmax_kernel_transformation, 1e-6; generalized features, 1e-3 */
        if (favor) stabilise(a, LL_MAX_SEQUENCE, 1, 1e-6f);
        if (favor) divide(a, LL_DEN_GUARD, 1e-6f);
        if (favor && a->features == LL_FEATURES_TRIGONOMETRIC) a->query_max = LL_MAX_SEQUENCE, a->feature_eps = 0;
        if (!favor) a->feature_eps = 1e-3f;
    } else if (!strcmp(compat, "lucidrains")) { /* softmax_kernel, causal_linear_attention */
        if (favor) stabilise(a, LL_MAX_SEQUENCE, 0, 1e-4f);
        if (a->causal) divide(a, LL_DEN_EPS_PHI, 1e-6f);
        if (!favor) a->feature_eps = 1e-3f, a->input_scale = (float)pow(width, -0.25);
    } else if (!strcmp(compat, "fast-transformers")) { /* Favor(stabilize=False), LinearAttention(eps=1e-6) */
        a->query_max = a->key_max = LL_MAX_NONE;
        a->feature_eps = 0;
        divide(a, LL_DEN_EPS, 1e-6f);
    } else if (!strcmp(compat, "permuteformer")) { /* its language model has no denominator */
        if (a->causal) a->den = LL_DEN_NONE;
    } else if (!strcmp(compat, "relative-performer")) { /* softmax_kernel with torch.max(data_dash) */
        stabilise(a, LL_MAX_BATCH, 1, 1e-4f);
    }
}
