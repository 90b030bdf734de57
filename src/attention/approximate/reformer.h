/* Attention to what a random hash puts near: what its tiles and its stream share. */
#ifndef LL_REFORMER_H
#define LL_REFORMER_H

#include "attention/operator.h"

/* Buckets of n tokens, rows ldq apart; work: (n, buckets/2). Of each token the same, however many come together. */
void ll_reformer_hash(const ll_attention *op, const ll_kernels *k, int round, int h, int n, const float *q, size_t ldq,
                      float *work, int *bucket);
/* reformer_state.c. What a call takes of earlier tokens and leaves: of every bucket of every round how many tokens it
 * has had, and the keys and values of the last two chunks, in rings. Numbers of tokens from four chunks on are less by
 * a multiple of two chunks, so that they stay exact. Here of one round of one head. */
typedef struct {
    const float *count, *keys, *values; /* (buckets), (buckets, 2 chunk, D), (buckets, 2 chunk, E); or NULL */
    float *count_out, *keys_out, *values_out;       /* what is left; NULL: not wanted */
    const float *dkeys_out, *dvalues_out;           /* gradients at that; NULL: zeros */
    float *dcount, *dkeys, *dvalues;                /* and at what was taken; NULL: not wanted */
} ll_bucket_state;
size_t ll_bucket_floats(const ll_attention *op);
LL_MUST_USE ll_status ll_bucket_tensors(const ll_attention *op, ll_state_tensor tensor[LL_STATE_TENSORS], int *count);
ll_bucket_state ll_bucket_state_at(const ll_attention *op, const ll_attention_call *c, int sequence, int head,
                                   int round);
/* 1 / |q|, which makes a query a key; 0 for a vector of zeros. */
float ll_reformer_inverse(const ll_attention *op, const ll_kernels *k, const float *q);

#endif
