/* From the output of a stack to logits and losses, and the layers between that only some models have. */
#ifndef LL_HEAD_LAYERS_H
#define LL_HEAD_LAYERS_H

#include "model/network.h"

/* ---- output_head.c ---- */

/* Numbers in a row of logits: V or classes. */
int ll_head_width(const ll_model *model);
/* The input of the output layer for some rows, (n, C). */
const float *ll_head_input(const ll_batch_run *run, ll_rows rows);
/* After ll_head_input of the same rows: their ws->d, from the gradient at that input. */
void ll_head_input_back(const ll_batch_run *run, ll_rows rows, const float *dx);
/* Logits (n, V or classes) of n such rows. */
void ll_head_logits(const ll_batch_run *run, int n, const float *x, float *logits);
/* Means over sequences, or their first rows, as sums in ws->pool; then rows of them as such input. */
void ll_head_pool(const ll_batch_run *run);
const float *ll_head_pooled(const ll_batch_run *run, ll_rows sequences);
/* Adds losses to tally; with run->grad computes the gradients of the output layer, and ws->d. */
void ll_head_loss(const ll_batch_run *run, const int *targets, float scale, ll_tally *tally);

/* ---- head_transform.c ---- */

/* The input of the output layer, from n rows x of the stack's output: x itself, or model.head-transform of it. */
const float *ll_head_transform(const ll_batch_run *run, int n, const float *x);
/* After it, for the same rows: turns dy, the gradient at that input, into the gradient at x, in place, and adds the
 * gradients of its tensors. */
void ll_head_transform_back(const ll_batch_run *run, int n, const float *x, float *dy);

/* ---- pair.c ---- */

/* The last hidden layer for n pairs, (n, ff), from their 2n pooled rows. Backward: from its gradient in ws->match.dh,
 * the gradients of the layer, and ws->dpool of pairs first .. first + n - 1. */
const float *ll_match_forward(const ll_batch_run *run, int n, const float *pooled);
void ll_match_back(const ll_batch_run *run, int n, size_t first);

#endif
