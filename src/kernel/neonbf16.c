/* The kernels of body.h for AArch64 with instructions that multiply bfloat16 (FEAT_BF16). Results have the bits of
 * neon, except for products of bfloat16, which BFDOT rounds to odd. The file is empty on other architectures. */
#if defined(__aarch64__)
#define LL_TIER ll_neonbf16
#define LL_TIER_NAME "neonbf16"
#include "kernel/vec_neon.h"
#include "kernel/body.h"
#else
typedef int ll_no_neonbf16;
#endif
