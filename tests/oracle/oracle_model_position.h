/* Positions inside attention, for the oracle of models: parameters by name, noise by its numbers. */
#ifndef LL_ORACLE_MODEL_POSITION_H
#define LL_ORACLE_MODEL_POSITION_H

#include "oracle_model.h"
#include "oracle_position.h"

/* Completes a mechanism with the position that the recipe names. */
void oracle_model_position_describe(const oracle_model *o, ll_attention_config *a);
/* y (B, H, T, E) of a layer; s's queries and keys may be freed and replaced by encoded ones. */
void oracle_model_position_forward(const oracle_model *o, int layer, int cross, oracle_case *s, double *y);

#endif
