/* The kernels of body.h for machines with AVX-512. The file is empty on other architectures. */
#if defined(__x86_64__)
#define LL_TIER ll_avx512
#define LL_TIER_NAME "avx512"
#include "kernel/vec_avx512.h"
#include "kernel/body.h"
#else
typedef int ll_no_avx512;
#endif
