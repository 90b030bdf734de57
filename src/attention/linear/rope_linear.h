/* What whole calls and streams of rope-linear share. */
#ifndef LL_ROPE_LINEAR_H
#define LL_ROPE_LINEAR_H

#include "attention/linear/linear.h"

typedef struct {
    ll_attention *numerator;   /* of rotated features */
    ll_attention *denominator; /* of plain ones, for one value of 1 */
} ll_rope_linear;

static inline const ll_rope_linear *ll_rope_linear_parts(const ll_attention *op) {
    return op->own;
}

#endif
