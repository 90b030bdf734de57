/* The elementwise maps f of generalized attention: features f(u) + eps. */
#ifndef LL_MAPS_H
#define LL_MAPS_H

#include "kernel/kernel.h"
#include "longline.h"

typedef struct ll_map {
    int sign;         /* f may be negative */
    int flat_or_zero; /* f or its slope is 0 at 0 */
    int slope_of_phi; /* the slope follows from the feature */
    int index;        /* of the kernels that compute it */
} ll_map;

#endif
