/* The kernels of body.h for machines with AVX-512 that also multiply bfloat16 (AVX512_BF16: Cooper Lake, Zen 4 and
 * later). The file is empty on other architectures. Results have the bits of avx512, except for subnormal sums. */
#if defined(__x86_64__)
#define LL_TIER ll_avx512bf16
#define LL_TIER_NAME "avx512bf16"
#include "kernel/vec_avx512.h"
#include "kernel/body.h"
#else
typedef int ll_no_avx512bf16;
#endif
