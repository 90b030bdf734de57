/* The nonlinearities of models, as their papers define them. */
#include <math.h>

#include "oracle_model.h"

double oracle_activation(const ll_model_config *c, double u) {
    switch (c->model.activation) {
    case LL_ACT_RELU: return fmax(u, 0);
    case LL_ACT_GELU_TANH: return 0.5 * u * (1 + tanh(sqrt(2 / acos(-1)) * (u + 0.044715 * u * u * u)));
    case LL_ACT_SILU:
    case LL_ACT_SWIGLU: return u / (1 + exp(-u));
    default: return u * 0.5 * erfc(-u / sqrt(2));
    }
}
