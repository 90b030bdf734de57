/* The random parts of an operator. A draw is a function of its arguments alone. */
#ifndef LL_DRAW_H
#define LL_DRAW_H

#include <stdint.h>

#include "base/status.h"

/* W (M, D): blocks of D orthogonal directions, uniform among all rotations, each row as long as a standard
 * normal vector of D numbers (drawn apart from its direction). Only LL_ENOMEM can happen. */
LL_MUST_USE ll_status ll_draw_projection(float *W, int M, int D, uint64_t seed, int layer, int64_t redraw);

/* p (n): the cycles of a uniformly random permutation, laid end to end, each a -> a + 1. */
void ll_draw_permutation(int32_t *p, int n, uint64_t seed, int layer, int head);

#endif
