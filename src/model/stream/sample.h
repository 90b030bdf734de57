/* The two halves of ll_sample: which tokens may come with which weight, and the draw of one of them. */
#ifndef LL_SAMPLE_H
#define LL_SAMPLE_H

#include "longline/model.h"

/* Makes weights of logits (V): what a draw is proportional to. Gives their sum. With temperature 0 the most likely
 * token has all the weight. */
double ll_sample_weights(float *x, int V, const ll_sampling *how);
/* The token at the share u in [0, 1) of weights (V) whose sum is `total`. */
int ll_sample_at(const float *weights, int V, double total, double u);
/* Uniform in [0, 1), a function of its arguments. use: 0 is that of ll_sample; others have draws of their own. */
double ll_sample_uniform(uint64_t seed, uint32_t use, int64_t position);

#endif
