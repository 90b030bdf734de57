/* Where a parameter lies. */
#include "model/network.h"

float *ll_param_in(const ll_model *m, float *block, int i) {
    return block + m->param[i].offset;
}

const float *ll_param_at(const ll_model *m, int i) {
    return m->param[i].value;
}

/* Has a block of the stack this tensor? */
static int is_there(const ll_stack *stack, int which) {
    switch (which) {
    case LL_QUERY_WEIGHT: return stack->projections > 0;
    case LL_KEY_WEIGHT: return stack->projections > 1;
    case LL_GATE_WEIGHT:
    case LL_GATE_BIAS: return stack->gated;
    default: return which < LL_BLOCK_TENSORS || stack->parts > 2;
    }
}

int ll_block_tensor(const ll_stack *stack, int layer, int which) {
    int tensors = 0, before = 0;
    for (int i = 0; i < LL_DECODER_TENSORS; i++) {
        if (i == which) before = tensors;
        tensors += is_there(stack, i);
    }
    return stack->at.blocks + layer * tensors + before;
}

size_t ll_row_width(const ll_model *m) {
    return (size_t)(m->projections > 0 ? m->queries : 0) + (size_t)(m->projections > 1 ? m->keys : 0) +
           (size_t)m->values;
}
