/* How ranks share a step. A batch is cut into shards, whose number the recipe fixes. Each shard has a gradient of its
 * own, which is a leaf of one fixed tree. A rank computes some of the shards, one after the other. */
#ifndef LL_SHARDS_H
#define LL_SHARDS_H

#include "dist/exchange.h"
#include "model/sequence/shared_sequence.h"
#include "recipe/recipe.h"

typedef struct {
    int shards, batch;
    int first, count; /* shards of this rank */
    int most;         /* examples of the largest shard */
    int leaves;
    int data, number; /* ranks, or groups of ranks, that share the batch; and the number of this rank's */
    ll_group row;     /* the ranks that share its sequences */
    ll_message message[LL_SHARED_MESSAGES]; /* between them */
} ll_shards;

/* LL_EINVAL if this number of ranks cannot share the batch. */
LL_MUST_USE ll_status ll_shards_plan(ll_shards *shards, const ll_config *c);
/* The same for a rank of so many. launched: by a launcher. Without dist.shards each example is a shard then. In a
 * process of its own a narrow model has a shard for every 2,048 tokens, and a wide one has one. */
LL_MUST_USE ll_status ll_shards_plan_for(ll_shards *shards, const ll_config *c, int rank, int ranks, int launched);
/* How many of the shards that are left to one of so many ranks are computed at the same time, each on one thread. 1
 * where the next one is better divided among all threads: large shards, or too few. */
int ll_shards_at_once(const ll_shards *s, const ll_config *c, int ranks, int left);
/* Examples that a process reads at a time without gradients: as many as its steps hold at a time, or a shard's tokens
 * for each thread if that is more. */
int ll_shards_reading(const ll_config *c);
/* First example of a shard in each batch. */
int ll_shard_begin(const ll_shards *s, int shard);
/* The leaves of a rank. */
void ll_shards_leaves(const ll_shards *s, int rank, int *first, int *count);

/* ---- sharing.c ---- */

/* Batches of ws are from now on this rank's part of sequences, if ranks share them. */
LL_MUST_USE ll_status ll_shards_share(ll_shards *s, ll_workspace *ws);
/* This rank's part of the sequences of a batch, which is written to `part`; where ranks do not share them, `whole`. */
const ll_batch *ll_shards_part(const ll_shards *s, const ll_batch *whole, ll_batch *part);

#endif
