/* The table of engines. */
#include "attention/engine.h"

#include "attention/maps.h"

static const ll_engine exact = {
    .keeps = LL_KEEPS_KEYS, .saved = ll_exact_saved, .forward = ll_exact_forward, .backward = ll_exact_backward};
static const ll_engine linear = {
    .linear = 1, .saved = ll_linear_saved, .forward = ll_linear_forward, .backward = ll_linear_backward};

const ll_engine ll_engine_shell = {.saved = ll_shell_saved, .forward = ll_shell_forward, .backward = ll_shell_backward};
const ll_engine ll_engine_divided = {
    .linear = 1, .saved = ll_divided_saved, .forward = ll_divided_forward, .backward = ll_divided_backward};

const ll_engine *ll_engine_of(ll_kernel kernel) {
    if (kernel == LL_KERNEL_FAVOR || ll_map_of(kernel)) return &linear;
    return kernel == LL_KERNEL_SOFTMAX ? &exact : NULL;
}
