/* Layers between the stack and the logits that only some models have. */
#ifndef LL_HEAD_LAYERS_H
#define LL_HEAD_LAYERS_H

#include "model/network.h"

/* ---- head_transform.c ---- */

/* The input of the output layer, from n rows x of the stack's output: x itself, or model.head-transform of it. */
const float *ll_head_transform(const ll_batch_run *run, int n, const float *x);
/* After it, for the same rows: turns dy, the gradient at that input, into the gradient at x, in place, and adds the
 * gradients of its tensors. */
void ll_head_transform_back(const ll_batch_run *run, int n, const float *x, float *dy);

/* ---- match.c ---- */

/* The last hidden layer for n pairs, (n, ff), from their 2n pooled rows. Backward: from its gradient in ws->match.dh,
 * the gradients of the layer, and ws->dpool of pairs first .. first + n - 1. */
const float *ll_match_forward(const ll_batch_run *run, int n, const float *pooled);
void ll_match_back(const ll_batch_run *run, int n, size_t first);

#endif
