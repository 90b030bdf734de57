/* The part [dist] of a recipe: how ranks share a run. Keys: dist_keys.c. */
#ifndef LL_DIST_OPTIONS_H
#define LL_DIST_OPTIONS_H

#include "base/key.h"

enum { LL_REDUCE_EXACT, LL_REDUCE_FAST };

typedef struct {
    int shards;   /* parts of a batch with gradients of their own; 0: by ranks, model and batch (dist_keys.c) */
    int sequence; /* ranks that share a sequence */
    int reduce;
    double timeout; /* seconds */
} ll_dist_options;

extern const ll_key_table ll_dist_keys;

#endif
