/* Exact attention over sequences that several processes share. Keys and values go round the ring of parts, one block of
 * a part's tokens at a time, while each part computes with the block that it has (Liu et al. 2023, Ring Attention). */
#ifndef LL_RING_ATTENTION_H
#define LL_RING_ATTENTION_H

#include "model/sequence/shared_sequence.h"

typedef struct ll_ring ll_ring;

/* Can calls of this operator be made so? */
int ll_ring_serves(const ll_attention *op);
/* Memory for calls of at most (B, T) tokens a part: linear in T. training: backward follows. */
LL_MUST_USE ll_status ll_ring_create(ll_ring **ring, const ll_sharing *how, const ll_attention *op, int B, int T,
                                     int training);
void ll_ring_free(ll_ring *r);
/* What a ring for training takes. */
size_t ll_ring_bytes(const ll_attention *op, int B, int T);
/* The call of one part, whose offsets are those of its first token. Forward leaves the logarithm of each row's sum at
 * call->saved (where that is not NULL), which backward reads. O(B T^2 (D + E)) time for each of the parts; half of that
 * where it is causal. */
LL_MUST_USE ll_status ll_ring_forward(const ll_ring *r, const ll_attention *op, const ll_attention_call *call);
LL_MUST_USE ll_status ll_ring_backward(const ll_ring *r, const ll_attention *op, const ll_attention_call *call);

#endif
