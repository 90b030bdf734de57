/* Reformer: what its tiles and its stream share. */
#ifndef LL_REFORMER_H
#define LL_REFORMER_H

#include "attention/operator.h"

/* Buckets of n tokens, with rows ldq apart; work: (n, buckets/2). A token's bucket does not depend on n. */
void ll_reformer_hash(const ll_attention *op, const ll_kernels *k, int round, int h, int n, const float *q, size_t ldq,
                      float *work, int *bucket);
/* reformer_state.c. The state that a call takes and leaves. For every bucket of every round it has the number of tokens
 * so far, and rings with the keys and values of the last two chunks. Numbers from four chunks on are reduced by a
 * multiple of two chunks, so that they stay exact in float. This struct is of one round of one head. */
typedef struct {
    const float *count, *keys, *values; /* (buckets), (buckets, 2 chunk, D), (buckets, 2 chunk, E); or NULL */
    float *count_out, *keys_out, *values_out;       /* after the call; NULL: not wanted */
    const float *dkeys_out, *dvalues_out;           /* gradients at the state after the call; NULL: zeros */
    float *dcount, *dkeys, *dvalues;                /* at the state before it; NULL: not wanted */
} ll_bucket_state;
/* The number that a state holds for a bucket that has had n tokens. */
static inline float ll_bucket_count(size_t n, size_t slots) { return (float)(n < 2 * slots ? n : slots + n % slots); }
LL_MUST_USE ll_status ll_bucket_tensors(const ll_attention *op, ll_state_tensor tensor[LL_STATE_TENSORS], int *count);
LL_MUST_USE ll_status ll_bucket_check(const ll_attention *op, const float *state);
ll_bucket_state ll_bucket_state_at(const ll_attention *op, const ll_attention_call *c, int sequence, int head,
                                   int round);
/* 1 / |q|, by which a query becomes a key; 0 for a vector of zeros. */
float ll_reformer_inverse(const ll_attention *op, const ll_kernels *k, const float *q);

#endif
