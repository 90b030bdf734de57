/* The table of operators. A new one is a line here and a file of its own. */
#include "attention/table.h"

#include "attention/feature/maps.h"

static const ll_operator *const operators[] = {
    [LL_KERNEL_SOFTMAX] = &ll_operator_softmax, [LL_KERNEL_VALUE] = &ll_operator_identity,
    [LL_KERNEL_LOCAL] = &ll_operator_local,     [LL_KERNEL_LINFORMER] = &ll_operator_linformer,
    [LL_KERNEL_NYSTROM] = &ll_operator_nystrom, [LL_KERNEL_REFORMER] = &ll_operator_reformer,
};

const ll_operator *ll_operator_of_kernel(ll_kernel kernel) {
    if (kernel == LL_KERNEL_FAVOR || ll_map_of(kernel)) return &ll_operator_linear;
    return (size_t)kernel < sizeof operators / sizeof *operators ? operators[kernel] : NULL;
}

const ll_operator *ll_operator_of_config(const ll_attention_config *c) {
    if (c->position == LL_POSITION_ROPE_LINEAR) return &ll_operator_rope_linear;
    if (c->position == LL_POSITION_RELATIVE_S2) return &ll_operator_relative_s2;
    return ll_operator_of_kernel(c->kernel);
}
