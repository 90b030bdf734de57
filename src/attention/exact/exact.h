/* What exact attention's tiles, its streams and the operators that end in it share. */
#ifndef LL_EXACT_H
#define LL_EXACT_H

#include "attention/operator.h"

/* Columns from..to-1 of a row of logits to e^(s - m), the others up to `width` to zeros; the running maximum m and sum
 * l, and the values summed so far, follow. */
void ll_exact_soften(const ll_kernels *k, int from, int to, int width, float *row, float *m, float *l, int E,
                     float *sum);

size_t ll_exact_saved(const ll_attention *op, int B, int T, int S, int segments);
size_t ll_exact_scratch(const ll_attention *op, const ll_attention_call *c, int backward);
LL_MUST_USE ll_status ll_exact_forward(const ll_attention *op, const ll_attention_call *c);
LL_MUST_USE ll_status ll_exact_backward(const ll_attention *op, const ll_attention_call *c);

/* Softmax attention of the same heads and sizes, in both directions: what linformer and nystrom end in. */
LL_MUST_USE ll_status ll_exact_create(ll_attention **made, const ll_attention *like);

#endif
