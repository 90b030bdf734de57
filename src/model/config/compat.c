/* The rules of released programs, one row for each kind of features that they have. The first rows are ours: the
 * maximum is over the keys seen so far and the whole exponent, with no eps beside it. For favor, google, lucidrains and
 * relative-performer take the maximum of u alone, over later tokens, too. Their eps counts more the longer the vectors
 * are. fast-transformers takes no maximum. */
#include "model/config/compat.h"

#include "model/config/mechanism.h"

#define U_OVER(keys) .query_max = LL_MAX_TOKEN, .key_max = keys, .max_of_u = 1
#define NO_MAX .query_max = LL_MAX_NONE, .key_max = LL_MAX_NONE
#define DEN(whole, past, e) .den = whole, .causal_den = past, .den_eps = e

static const ll_rules ours = {.eps = -1, .query_max = LL_MAX_TOKEN, .key_max = LL_MAX_PREFIX};
/* Without a divisor the maximum would stay in the result, and no gradient flows through it. */
static const ll_rules undivided = {.eps = -1, NO_MAX};

static const ll_rules released[] = {
    /* google-research/google-research performer, jax; long-range-arena */
    {LL_COMPAT_GOOGLE, LL_KERNEL_FAVOR, LL_FEATURES_POSITIVE, 1e-6, U_OVER(LL_MAX_SEQUENCE), .max_gradient = 1,
     DEN(LL_DEN_GUARD, LL_DEN_GUARD, 1e-6)},
    {LL_COMPAT_GOOGLE, LL_KERNEL_FAVOR, LL_FEATURES_TRIGONOMETRIC, 0, .query_max = LL_MAX_SEQUENCE,
     .key_max = LL_MAX_SEQUENCE,
     .max_of_u = 1, .max_gradient = 1, DEN(LL_DEN_GUARD, LL_DEN_GUARD, 1e-6)},
    {LL_COMPAT_GOOGLE, LL_ANY_MAP, 0, 1e-3, NO_MAX, DEN(LL_DEN_GUARD, LL_DEN_GUARD, 0)},
    /* lucidrains/performer-pytorch */
    {LL_COMPAT_LUCIDRAINS, LL_KERNEL_FAVOR, LL_FEATURES_POSITIVE, 1e-4, U_OVER(LL_MAX_SEQUENCE),
     DEN(LL_DEN_SUM, LL_DEN_EPS_PHI, 1e-6)},
    {LL_COMPAT_LUCIDRAINS, LL_ANY_MAP, 0, 1e-3, NO_MAX, DEN(LL_DEN_SUM, LL_DEN_EPS_PHI, 1e-6), .scaled = 1,
     .projection = 1},
    /* idiap/fast-transformers; SPE's music experiments */
    {LL_COMPAT_FAST_TRANSFORMERS, LL_KERNEL_FAVOR, LL_FEATURES_HYPERBOLIC, 0, NO_MAX, .max_of_u = 1,
     DEN(LL_DEN_EPS, LL_DEN_EPS, 1e-6)},
    {LL_COMPAT_FAST_TRANSFORMERS, LL_KERNEL_FAVOR, LL_FEATURES_GAUSSIAN, 0, NO_MAX, .max_of_u = 1,
     DEN(LL_DEN_EPS, LL_DEN_EPS, 1e-6)},
    {LL_COMPAT_FAST_TRANSFORMERS, LL_ANY_MAP, 0, 0, NO_MAX, DEN(LL_DEN_EPS, LL_DEN_EPS, 1e-6), .projection = -1},
    /* cpcp1998/PermuteFormer: long_range_arena, and language_model, which does not divide */
    {LL_COMPAT_PERMUTEFORMER, LL_KERNEL_RELU, 0, 1e-3, NO_MAX, DEN(LL_DEN_SUM, LL_DEN_NONE, 0), .projection = -1},
    /* ExpectationMax/Translational-Equivariant-Performers, an older lucidrains: the maximum is over the whole tensor */
    {LL_COMPAT_RELATIVE_PERFORMER, LL_KERNEL_FAVOR, LL_FEATURES_POSITIVE, 1e-4, U_OVER(LL_MAX_BATCH), .max_gradient = 1,
     DEN(LL_DEN_SUM, LL_DEN_SUM, 0)},
};
enum { ROWS = sizeof released / sizeof *released };

const ll_rules *ll_config_rules(const ll_model_config *c) {
    if (c->attention.compat == LL_COMPAT_NONE) return ll_config_divides(c) ? &ours : &undivided;
    for (int i = 0; i < ROWS; i++) {
        const ll_rules *r = &released[i];
        const int map = r->kernel == LL_ANY_MAP && c->attention.kernel != LL_KERNEL_FAVOR &&
                        ll_config_linear(c) && !ll_config_gated(c);
        if (r->compat != c->attention.compat || (!map && r->kernel != c->attention.kernel)) continue;
        if (c->attention.kernel != LL_KERNEL_FAVOR || r->features == c->attention.features) return r;
    }
    return NULL;
}
