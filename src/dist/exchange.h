/* Gradients summed over all ranks, and parameters shared. Each rank has the gradients of some leaves of the tree
 * (tree.h); it sums what it can. A block of floats is cut into buckets, and each bucket into segments, one a rank. The
 * owner of a segment gets what the other ranks have of it, adds in the order of the tree, and updates the parameters of
 * its segments, of which it then gives a copy to all. So each rank sends and receives about 2 (N - 1) / N blocks a step
 * where its leaves come to one node, whatever the number of ranks, and keeps the state of the optimizer for its
 * segments alone (ZeRO-1: Rajbhandari et al. 2020).
 *
 * A bucket is sent as soon as its gradients are there, while backward goes on below it. */
#ifndef LL_EXCHANGE_H
#define LL_EXCHANGE_H

#include "dist/dist.h"

typedef struct ll_exchange ll_exchange;

/* The leaves of each rank, first[r] .. first[r] + count[r] - 1. bound (pieces + 1): offsets at which a block of so many
 * floats may be cut; the last is its end. fast: what is sent of gradients is bf16. */
typedef struct {
    int leaves;
    const int *first, *count;
    size_t pieces;
    const size_t *bound;
    int fast;
} ll_exchange_plan;

LL_MUST_USE ll_status ll_exchange_create(ll_exchange **exchange, const ll_exchange_plan *plan);
void ll_exchange_free(ll_exchange *x);

/* Where the gradient of the next of this rank's leaves goes: zeros. */
float *ll_exchange_leaf(ll_exchange *x);
/* During the last leaf: floats from .. to - 1 of it are whole. */
void ll_exchange_ready(ll_exchange *x, size_t from, size_t to);
/* The leaf is whole. */
void ll_exchange_added(ll_exchange *x);
/* After all leaves: waits for the sums of the own segments. */
LL_MUST_USE ll_status ll_exchange_sum(ll_exchange *x);
/* The block that then has them. What is in its other segments is undefined. */
float *ll_exchange_block(const ll_exchange *x);
/* Copies the own segments of a block to all ranks, and gets theirs. */
LL_MUST_USE ll_status ll_exchange_share(ll_exchange *x, float *block);
/* Copies the segments of all ranks to rank 0. */
LL_MUST_USE ll_status ll_exchange_collect(ll_exchange *x, float *block);
/* Does this rank own a piece? */
int ll_exchange_owns(const ll_exchange *x, size_t piece);
/* Bytes that this rank has sent in all of these calls. */
double ll_exchange_sent(const ll_exchange *x);

#endif
