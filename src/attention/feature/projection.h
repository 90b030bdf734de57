/* The random parts of an operator. A draw is a function of its arguments alone. */
#ifndef LL_PROJECTION_H
#define LL_PROJECTION_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef enum {
    LL_DRAW_ORTHOGONAL, /* blocks of D orthogonal directions, uniform among all rotations */
    LL_DRAW_IID,        /* directions of their own */
    LL_DRAW_HADAMARD,   /* blocks of H S_3 H S_2 H S_1, H a Hadamard matrix, S random signs; D is a power of two */
    LL_DRAW_GIVENS      /* products of D ceil(ln D) rotations in planes of two axes */
} ll_draw_kind;
typedef enum {
    LL_NORMS_CHI,   /* each row as long as a standard normal vector of D numbers, drawn apart from its direction */
    LL_NORMS_SQRT_D /* sqrt(D): the regularised softmax kernel */
} ll_row_norms;

/* Draws W (M, D). LL_EINVAL if D must be a power of two and is not. LL_ENOMEM. */
LL_MUST_USE ll_status ll_draw_projection(float *W, int M, int D, ll_draw_kind kind, ll_row_norms norms, uint64_t seed,
                                         int layer, int64_t redraw);
/* The same with scratch of so many floats, so that it cannot fail for memory. */
size_t ll_draw_scratch(int M, int D);
LL_MUST_USE ll_status ll_draw_projection_in(float *scratch, float *W, int M, int D, ll_draw_kind kind,
                                            ll_row_norms norms, uint64_t seed, int layer, int64_t redraw);

/* A rotation P of n >= 2 dimensions, uniform among all, as B^T R B: basis (n, n) holds B in rows, theta (n/2) the
 * angles by which R rotates its pairs of neighbours; where n is odd the last one stays. LL_ENOMEM alone can happen.
 * O(n^3). */
LL_MUST_USE ll_status ll_draw_basis(float *basis, int n, uint64_t seed, int layer, int head);
LL_MUST_USE ll_status ll_draw_angles(float *theta, int n, uint64_t seed, int layer, int head);

/* Random numbers of one stream, in order. */
typedef struct {
    uint64_t seed, stream, next;
} ll_numbers;
/* n <= D rows of normal vectors (n, D) become orthonormal, uniform among all that are. */
void ll_orthonormalise(double *G, int n, int D);

#endif
