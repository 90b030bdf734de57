/* The attention of a model. */
#ifndef LL_ORACLE_MECHANISM_H
#define LL_ORACLE_MECHANISM_H

#include "attention/operator.h"
#include "oracle_model.h"

/* The operator's configuration; the draws are the model's. */
ll_attention_config oracle_mechanism(const oracle_model *o, int op, int causal, int placed);
/* CLS tokens before those of a sequence: 0 or 1. */
int oracle_cls_tokens(const oracle_model *o);
/* Has attention a gate? */
int oracle_gated(const oracle_model *o);

#endif
