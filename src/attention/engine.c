/* The table of engines. */
#include "attention/engine.h"

#include "attention/maps.h"

/* By kernel; the linear ones, which have no place here, share the one below. */
static const ll_engine engines[] = {
    [LL_KERNEL_SOFTMAX] = {.name = "softmax",
                           .reads = 2,
                           .keeps = LL_KEEPS_KEYS,
                           .saved = ll_exact_saved,
                           .forward = ll_exact_forward,
                           .backward = ll_exact_backward},
    [LL_KERNEL_VALUE] = {.name = "value",
                         .itself = 1,
                         .keeps = LL_KEEPS_NOTHING,
                         .saved = ll_value_saved,
                         .forward = ll_value_forward,
                         .backward = ll_value_backward},
};
static const ll_engine linear = {.name = "linear",
                                 .linear = 1,
                                 .reads = 2,
                                 .saved = ll_linear_saved,
                                 .forward = ll_linear_forward,
                                 .backward = ll_linear_backward};

const ll_engine ll_engine_shell = {
    .reads = 2, .saved = ll_shell_saved, .forward = ll_shell_forward, .backward = ll_shell_backward};
const ll_engine ll_engine_divided = {
    .linear = 1, .reads = 2, .saved = ll_divided_saved, .forward = ll_divided_forward, .backward = ll_divided_backward};

const ll_engine *ll_engine_of(ll_kernel kernel) {
    if (kernel == LL_KERNEL_FAVOR || ll_map_of(kernel)) return &linear;
    return (size_t)kernel < sizeof engines / sizeof *engines && engines[kernel].name ? &engines[kernel] : NULL;
}
