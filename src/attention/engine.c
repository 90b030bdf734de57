/* The table of engines. */
#include "attention/engine.h"

#include "attention/maps.h"

enum { WINDOW_MOST = 1 << 20 };

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
    [LL_KERNEL_LOCAL] = {.name = "local",
                         .reads = 2,
                         .itself = 1,
                         .keeps = LL_KEEPS_WINDOW,
                         .saved = ll_exact_saved,
                         .forward = ll_exact_forward,
                         .backward = ll_exact_backward},
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

ll_status ll_engine_check(const ll_attention_config *c) {
    const ll_baseline_config *b = &c->baseline;
    if (c->kernel == LL_KERNEL_LOCAL && (b->window < 1 || b->window > WINDOW_MOST))
        return ll_fail(LL_EINVAL, "attention: a window of %d tokens, must be 1 to %d", b->window, WINDOW_MOST);
    return LL_OK;
}
