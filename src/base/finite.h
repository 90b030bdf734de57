/* Infinities and NaN among numbers. */
#ifndef LL_FINITE_H
#define LL_FINITE_H

#include <stddef.h>

/* Which of n numbers is the first that is infinite or NaN; n: none is. */
size_t ll_find_infinite(const float *x, size_t n);
/* "infinite" or "not a number", of one that is. */
const char *ll_name_infinite(double x);

#endif
