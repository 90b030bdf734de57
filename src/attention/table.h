/* The list of operators, and which of them a kernel and a position ask for. */
#ifndef LL_ATTENTION_TABLE_H
#define LL_ATTENTION_TABLE_H

#include "attention/operator.h"

extern const ll_operator ll_operator_softmax, ll_operator_local, ll_operator_identity, ll_operator_linformer,
    ll_operator_nystrom, ll_operator_reformer, ll_operator_linear, ll_operator_rope_linear, ll_operator_relative_s2;

/* The operator of a kernel without position, NULL: there is no such kernel. */
const ll_operator *ll_operator_of_kernel(ll_kernel kernel);
/* That of a config, whose position may have one of its own. */
const ll_operator *ll_operator_of_config(const ll_attention_config *c);

#endif
