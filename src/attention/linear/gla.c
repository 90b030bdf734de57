/* Gated linear attention with one gate for each token and head (Yang et al. 2024; the scalar gate is that of gated
 * retention, Sun et al. 2024):
 *
 *   S_t = r_t S_(t-1) + k_t v_t'        y_t = S_t' q_t        0 < r_t <= 1
 *
 * Features are q and k themselves. The gate comes with the call. A model computes it from the layer's input
 * (model/token_gate.c). Everything else is linear attention. */
#include "attention/linear/linear.h"
#include "attention/table.h"

static ll_status check(const ll_attention_config *c) {
    if (c->causal) return LL_OK;
    return ll_fail(LL_EINVAL, "attention: the gate of gla weighs earlier tokens, so that it must be causal");
}

const ll_operator_kind ll_operator_gla = {.name = "gla", LL_LINEAR_FUNCTIONS, .gated = 1, .check = check};
