/* The state between causal tiles and the rows that a running maximum with eps needs, for both scans. */
#ifndef LL_CAUSAL_H
#define LL_CAUSAL_H

#include "attention/linear.h"

typedef struct {
    float *S, *z; /* (features, E), (features): in units of 2^exponent */
    float *V;     /* (E) sum of r^(i-j) v_j, count the same of ones, top the largest c: only with eps */
    int exponent;
    float reach; /* bounds the state, log2; exponent is reach rounded up */
    float top, count;
} ll_causal_state;

ll_causal_state ll_causal_state_take(const ll_attention *op, float **pool); /* empty */
void ll_causal_state_clear(const ll_attention *op, ll_causal_state *s);
void ll_causal_state_save(const ll_attention *op, const ll_causal_state *s, float *to);
void ll_causal_state_load(const ll_attention *op, ll_causal_state *s, const float *from);

/* Softmax features under a running maximum whose scale does not cancel. */
int ll_causal_has_eps(const ll_attention *op);
/* For them: kappa (n), V (n, E) and count (n) of each row of a tile, the state moved past it. top (n) of the
 * keys, v (n, E) with rows ldv apart. */
void ll_causal_rows(ll_causal_state *s, const ll_head *j, int t0, const ll_scales *f, const float *top, const float *v,
                    size_t ldv, float *kappa, float *V, float *count);

#endif
