/* Finds infinities and NaN among numbers. */
#ifndef LL_FINITE_H
#define LL_FINITE_H

#include <stddef.h>

/* The index of the first of n numbers that is infinite or NaN; n if there is none. */
size_t ll_find_infinite(const float *x, size_t n);
/* "infinite" or "not a number", for such a number. */
const char *ll_name_infinite(double x);

#endif
