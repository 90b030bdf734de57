/* Attention of which some heads have no keys (relative-s2), by its definition in double. */
#ifndef LL_ORACLE_CLIPPED_H
#define LL_ORACLE_CLIPPED_H

#include "oracle.h"

/* The config has the positions of tokens and the heads without keys; rpe (clip + 1, D) replaces its vectors. With y
 * NULL fills tops, (B, H, T) of queries and then of keys, the stabilisers; else y (B, H, T, E) under them. */
void oracle_clipped(const ll_attention_config *c, const double *rpe, const oracle_case *o, oracle_top *tops, double *y);

#endif
