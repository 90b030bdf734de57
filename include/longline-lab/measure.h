/* Limits of the machine, as yardsticks for benchmarks. */
#ifndef LL_MEASURE_API_H
#define LL_MEASURE_API_H

#include "longline/base.h"

LL_C_BEGIN

/* Fused multiply-add rate in GFLOP/s of the tier in use on `threads` threads, measured for about
 * `seconds`: the yardstick for fractions of peak. */
LL_API double ll_measure_peak(int threads, double seconds);
/* GFLOP/s of this library's product of two n x n matrices; 0 if there is not enough memory. */
LL_API double ll_measure_product(int n, int threads, double seconds);
/* GB/s read and GB/s written together, copying 256 MiB back and forth; 0 if there is not enough memory. */
LL_API double ll_measure_copy(int threads, double seconds);
/* GB/s of reading 128 MiB, which limits generation with large weights; 0 if there is not enough memory. */
LL_API double ll_measure_read(int threads, double seconds);
/* The most memory that this process has held, in bytes. */
LL_API size_t ll_memory_peak(void);
/* The median of n numbers, none of them NaN, which it sorts; NaN if n = 0. Of times it is what a short disturbance of
 * the machine does not change. */
LL_API double ll_median(double *x, int n);

LL_C_END

#endif
