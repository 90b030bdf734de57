/* The order of numbers, for qsort. */
#ifndef LL_ASCENDING_H
#define LL_ASCENDING_H

/* Of doubles, none of them NaN. */
static inline int ll_ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

#endif
