/* The kernels of body.h for AArch64, whose processors all have NEON. The file is empty on other architectures. */
#if defined(__aarch64__)
#define LL_TIER ll_neon
#define LL_TIER_NAME "neon"
#include "kernel/vec_neon.h"
#include "kernel/body.h"
#else
typedef int ll_no_neon;
#endif
