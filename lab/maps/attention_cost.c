/* What an operator costs, by its own description. */
#include "attention/operator.h"
#include "longline-lab.h"

double ll_attention_cost(const ll_attention *op, double keys, double *bytes) {
    const ll_cost cost = ll_operator_cost(op, keys);
    if (bytes) *bytes = cost.bytes;
    return cost.multiply_adds;
}
