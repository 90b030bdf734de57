/* The address of a parameter. */
#include "model/network.h"

float *ll_param_in(const ll_model *m, float *block, int i) { return block + m->param[i].offset; }

const float *ll_param_at(const ll_model *m, int i) { return m->param[i].value; }

int ll_block_tensor(const ll_stack *stack, int layer, int which) {
    const int number = stack->tensor[which];
    return number < 0 ? -1 : stack->at.blocks + layer * stack->tensors + number;
}

size_t ll_row_width(const ll_model *m) {
    return (size_t)(m->projections > 0 ? m->queries : 0) + (size_t)(m->projections > 1 ? m->keys : 0) +
           (size_t)m->values;
}
