/* The kernels of body.h for machines with AVX2. The file is empty on other architectures. */
#if defined(__x86_64__)
#define LL_TIER ll_avx2
#define LL_TIER_NAME "avx2"
#include "kernel/vec_avx2.h"
#include "kernel/body.h"
#else
typedef int ll_no_avx2;
#endif
