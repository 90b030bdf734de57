/* The elementwise maps f of generalized attention: features f(u) + eps. */
#ifndef LL_MAPS_H
#define LL_MAPS_H

#include "kernel/kernel.h"
#include "longline.h"

typedef struct ll_map {
    int sign;         /* f may be negative */
    int flat_or_zero; /* f or its slope is 0 at 0 */
    int slope_of_phi; /* the slope follows from the feature */
    /* phi = f(u) + eps for `rows` rows of n numbers, ldu and ld floats apart; in place allowed. */
    void (*forward)(const ll_kernels *k, int rows, size_t n, float eps, const float *u, size_t ldu, float *phi,
                    size_t ld);
    /* du = dphi f'(u); in place on dphi allowed. x is phi, and eps what it has, if `slope_of_phi`; else x is u, and
     * eps 0. */
    void (*back)(const ll_kernels *k, int rows, size_t n, float eps, const float *x, size_t ldx, const float *dphi,
                 size_t ld, float *du, size_t ldu);
} ll_map;

#endif
