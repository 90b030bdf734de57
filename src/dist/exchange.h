/* Sums gradients over all ranks (a reduce-scatter), and shares parameters (an all-gather). Each rank has the gradients
 * of some leaves of the tree (tree.h), and adds those that are neighbours in the tree. A block of floats is cut into
 * buckets, and each bucket into one segment a rank. The owner of a segment receives the sums of the other ranks, adds
 * them in the order of the tree, updates its segment of the parameters, and sends a copy to all. So a rank sends and
 * receives about 2 (N - 1) / N blocks a step if its leaves form one node, for any number of ranks N. It keeps the state
 * of the optimizer only for its segments (ZeRO-1: Rajbhandari et al. 2020).
 *
 * A bucket is sent as soon as its gradients are complete, while backward continues with the layers below. */
#ifndef LL_EXCHANGE_H
#define LL_EXCHANGE_H

#include "dist/dist.h"

typedef struct ll_exchange ll_exchange;

/* Most floats of a piece, which one thread updates: p, m, v and g of a piece fit the L2 cache of a core. */
enum { LL_PIECE_FLOATS = 16384 };

enum { LL_MOST_AT_ONCE = 32 };

/* How many numbers ranks add in a step besides gradients: loss, targets and tokens of each leaf, whether the run is to
 * stop, and the squares of each piece. */
static inline size_t ll_step_sums(int leaves, size_t pieces) { return 3 * (size_t)leaves + 1 + pieces; }

/* Rank r has the leaves first[r] .. first[r] + count[r] - 1. bound (pieces + 1): offsets at which the block may be cut;
 * the last one is its end. fast: gradients are sent in bf16. at_once: leaves that are computed at the same time, from 1
 * to LL_MOST_AT_ONCE. */
typedef struct {
    int leaves;
    const int *first, *count;
    size_t pieces;
    const size_t *bound;
    int fast;
    int at_once;
} ll_exchange_plan;

LL_MUST_USE ll_status ll_exchange_create(ll_exchange **exchange, const ll_exchange_plan *plan);
void ll_exchange_free(ll_exchange *x);
/* Floats that a rank needs: for gradients, for what it sends and receives of them, and the number of parameters that it
 * updates. */
typedef struct {
    size_t gradients, received, own;
} ll_exchange_floats;
/* What each of so many ranks needs. */
LL_MUST_USE ll_status ll_exchange_measure(const ll_exchange_plan *plan, int ranks, ll_exchange_floats *each);

/* Begins a step. If the one before was given up, nothing is left of it; only a process alone may give one up. */
void ll_exchange_begin(ll_exchange *x);
/* The memory for the gradient of this rank's next leaf, or of the one `offset` < at_once leaves after it, set to zero.
 * It holds until ll_exchange_added, which is called for one leaf after the other. */
float *ll_exchange_leaf(ll_exchange *x, int offset);
/* During the last leaf: floats from .. to - 1 are complete. */
void ll_exchange_ready(ll_exchange *x, size_t from, size_t to);
/* The next leaf is complete. */
void ll_exchange_added(ll_exchange *x);
/* After all leaves: the reduce-scatter ends, that is, this rank has the sums of its segments. */
LL_MUST_USE ll_status ll_exchange_reduce_scatter(ll_exchange *x);
/* The block that contains these sums. Its other segments are undefined. */
float *ll_exchange_block(const ll_exchange *x);
/* All-gather: copies this rank's segments of a block to all ranks, and receives theirs. */
LL_MUST_USE ll_status ll_exchange_all_gather(ll_exchange *x, float *block);
/* Gather: copies the segments of all ranks to rank 0. */
LL_MUST_USE ll_status ll_exchange_gather(ll_exchange *x, float *block);
/* Does this rank own the piece? */
int ll_exchange_owns(const ll_exchange *x, size_t piece);

#endif
