/* The kernels of body.h for WebAssembly with vectors (-msimd128). The file is empty on other architectures. */
#if defined(__wasm_simd128__)
#define LL_TIER ll_wasm
#define LL_TIER_NAME "wasm"
#include "kernel/vec_wasm.h"
#include "kernel/body.h"
#else
typedef int ll_no_wasm;
#endif
