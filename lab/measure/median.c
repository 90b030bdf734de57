/* The median of measurements. */
#include <math.h>
#include <stdlib.h>

#include "base/ascending.h"
#include "longline-lab.h"

double ll_median(double *x, int n) {
    if (!n) return NAN;
    qsort(x, (size_t)n, sizeof *x, ll_ascending);
    return (x[n / 2] + x[(n - 1) / 2]) / 2;
}
