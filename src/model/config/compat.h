/* What attention.compat means: the stabilisers and small constants of released programs, which change results
 * (docs/math.md, 3). */
#ifndef LL_COMPAT_H
#define LL_COMPAT_H

#include "model/config/model_config.h"

typedef struct {
    int compat, kernel; /* LL_COMPAT_...; LL_KERNEL_FAVOR, LL_KERNEL_RELU, or LL_ANY_MAP */
    int features;       /* LL_FEAT_..., kernel favor */
    double eps;         /* added to features; -1: the map's own */
    ll_max query_max, key_max;
    int max_of_u, max_gradient;
    ll_den den, causal_den;
    double den_eps;
    int scaled;     /* maps read x D^(-1/4), as favor always does */
    int projection; /* 1: a divisor is required; -1: forbidden; 0: as the recipe says */
} ll_rules;

enum { LL_ANY_MAP = -1 };

/* The rules for a recipe; NULL: the program that attention.compat names has no such kernel. */
const ll_rules *ll_config_rules(const ll_model_config *c);
/* LL_EINVAL with the reason if the program does not support the recipe. */
LL_MUST_USE ll_status ll_compat_check(const ll_model_config *c);

#endif
