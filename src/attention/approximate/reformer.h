/* Attention to what a random hash puts near: what its tiles and its stream share. */
#ifndef LL_REFORMER_H
#define LL_REFORMER_H

#include "attention/operator.h"

/* Buckets of n tokens, rows ldq apart; work: (n, buckets/2). Of each token the same, however many come together. */
void ll_reformer_hash(const ll_attention *op, const ll_kernels *k, int round, int h, int n, const float *q, size_t ldq,
                      float *work, int *bucket);
/* 1 / |q|, which makes a query a key; 0 for a vector of zeros. */
float ll_reformer_inverse(const ll_attention *op, const ll_kernels *k, const float *q);

#endif
