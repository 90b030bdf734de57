/* A parameter: where it lies, and its place in the table. */
#include <stdio.h>

#include "base/integer.h"
#include "base/random.h"
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

/* ---- Added to the table ---- */

enum { LINE = 16 /* floats */ };

int ll_param_add(ll_model *m, const char *name, int rows, int cols, ll_role role) {
    ll_param *p = &m->param[m->count];
    snprintf(p->name, sizeof p->name, "%s", name);
    p->offset = m->size;
    p->rows = rows;
    p->cols = cols;
    p->role = role;
    m->size += ll_round_up((size_t)rows * (size_t)cols, LINE);
    return m->count++;
}

int ll_param_decays(const ll_param *p) {
    switch (p->role) {
    case LL_ROLE_WEIGHT:
    case LL_ROLE_RESIDUAL:
    case LL_ROLE_TOKENS:
    case LL_ROLE_HEAD_WEIGHT:
    case LL_ROLE_KERNEL: return 1;
    case LL_ROLE_BIAS:
    case LL_ROLE_GAIN:
    case LL_ROLE_GATE_BIAS:
    case LL_ROLE_POSITIONS:
    case LL_ROLE_VECTOR:
    case LL_ROLE_HEAD_BIAS:
    case LL_ROLE_POSITION: return 0;
    }
    return 0;
}

/* A tensor's initial values depend on its name alone, so that models which differ elsewhere start from the same
 * numbers. */
uint64_t ll_param_stream(const char *name) {
    uint64_t hash = 14695981039346656037u;
    for (; *name; name++) hash = (hash ^ (unsigned char)*name) * 1099511628211u;
    return ll_stream_id(LL_RANDOM_INIT, (uint32_t)(hash >> 40), (uint32_t)hash);
}
