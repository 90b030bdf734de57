/* Positions that act on queries and keys, by their definitions, token by token in double. */
#ifndef LL_ORACLE_POSITION_H
#define LL_ORACLE_POSITION_H

#include "oracle.h"

/* Parameters that train, in the order of ll_position_gradients. */
enum {
    ORACLE_FREQS,
    ORACLE_OFFSETS,
    ORACLE_GAINS,
    ORACLE_FILTER_Q,
    ORACLE_FILTER_K,
    ORACLE_GATE,
    ORACLE_INV_FREQ,
    ORACLE_ALPHA,
    ORACLE_BETA,
    ORACLE_PARAMETERS
};

/* The width of q and k after the position. */
int oracle_width(const ll_attention_config *c);
/* The size of a parameter of this operator; 0: it has no such parameter. */
int oracle_parameter_count(const ll_attention_config *c, int which);
/* out (B, H, n, width) of x (B, H, n, D); side 0: queries. The operator's noise, the parameters given here. */
void oracle_encode(const ll_attention_config *c, double *const *parameter, int side, int B, int n, const double *x,
                   double *out);

#endif
