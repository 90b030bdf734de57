/* Layers between the stack and the logits that only some models have. */
#ifndef LL_HEAD_LAYERS_H
#define LL_HEAD_LAYERS_H

#include "model/network.h"

/* ---- head_transform.c ---- */

/* What the output layer reads, of n rows x that leave the stack: x itself, or what model.head-transform makes of it. */
const float *ll_head_transform(const ll_batch_run *run, int n, const float *x);
/* After it, of the same rows: from the gradient dy of what it gave to that of x, in place, and the gradients of its
 * tensors. */
void ll_head_transform_back(const ll_batch_run *run, int n, const float *x, float *dy);

/* ---- match.c ---- */

/* What the logits of n pairs are computed from, (n, ff), of their 2n pooled rows; then, from its gradient in
 * ws->match.dh, the gradients of the layer and ws->dpool of pairs first .. first + n - 1. */
const float *ll_match_forward(const ll_batch_run *run, int n, const float *pooled);
void ll_match_back(const ll_batch_run *run, int n, size_t first);

#endif
