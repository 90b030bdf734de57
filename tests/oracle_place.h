/* Positions inside attention, for the oracle of models: parameters by name, noise by its numbers. */
#ifndef LL_ORACLE_PLACE_H
#define LL_ORACLE_PLACE_H

#include "oracle_model.h"
#include "oracle_position.h"

/* Completes a mechanism with the position that the recipe names. */
void oracle_place_describe(const oracle_model *o, ll_attention_config *a);
/* Encoded queries and keys in place of those of s, which are freed. */
void oracle_place_encode(const oracle_model *o, int layer, int cross, oracle_case *s);

#endif
