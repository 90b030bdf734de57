/* Chooses the kernel table: the fastest one that the processor runs, unless LL_CPU or ll_set_cpu names another. */
#include "kernel/tiers.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

static int always(void) {
    return 1;
}

#if defined(__x86_64__)
static int has_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
static int has_avx512(void) {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
static int has_avx512bf16(void) {
    return has_avx512() && __builtin_cpu_supports("avx512bf16");
}
/* On Intel processors VDPBF16PS has half the rate of an fma, so that bfloat16 gains nothing. avx512 is faster there. */
static int gains_by_bf16(void) {
    return has_avx512bf16() && !__builtin_cpu_is("intel");
}
#endif

#if defined(__aarch64__)
static int has_bf16(void) {
    return (getauxval(AT_HWCAP2) & HWCAP2_BF16) != 0;
}
#endif

/* The fastest first. */
static const struct {
    const ll_kernels *table;
    int (*runs_here)(void), (*is_fast_here)(void);
} tiers[] = {
#if defined(__x86_64__)
    {&ll_avx512bf16, has_avx512bf16, gains_by_bf16},
    {&ll_avx512, has_avx512, has_avx512},
    {&ll_avx2, has_avx2, has_avx2},
#elif defined(__aarch64__)
    {&ll_neonbf16, has_bf16, has_bf16},
    {&ll_neon, always, always},
#elif defined(__wasm_simd128__)
    {&ll_wasm, always, always},
#endif
    {&ll_scalar, always, always},
};
enum { TIERS = sizeof tiers / sizeof tiers[0] };

static _Atomic(const ll_kernels *) chosen;

const ll_kernels *ll_kernel_tier(const char *name) {
    for (int i = 0; i < TIERS; i++)
        if (!strcmp(tiers[i].table->name, name)) return tiers[i].runs_here() ? tiers[i].table : NULL;
    return NULL;
}

/* The first tier that is fast on this machine, or, without `fast`, the first that runs. */
static const ll_kernels *best(int fast) {
    int i = 0;
    while (!(fast ? tiers[i].is_fast_here() : tiers[i].runs_here())) i++;
    return tiers[i].table;
}

const ll_kernels *ll_kernel_table(void) {
    const ll_kernels *table = atomic_load_explicit(&chosen, memory_order_acquire);
    if (table) return table;
    const char *name = getenv("LL_CPU");
    table = name && *name ? ll_kernel_tier(name) : NULL;
    if (!table) table = best(1);
    atomic_store_explicit(&chosen, table, memory_order_release);
    return table;
}

/* "neon, scalar": the tiers that run here, the fastest first. */
static void list_tiers(char *list, size_t size) {
    size_t n = 0;
    for (int i = 0; i < TIERS; i++)
        if (tiers[i].runs_here() && n < size)
            n += (size_t)snprintf(list + n, size - n, "%s%s", n ? ", " : "", tiers[i].table->name);
}

ll_status ll_set_cpu(const char *tier) {
    char list[80];
    const char *name = tier ? tier : getenv("LL_CPU");
    const ll_kernels *table = tier || (name && *name) ? ll_kernel_tier(name) : best(1);
    list_tiers(list, sizeof list);
    if (!table)
        return ll_fail(LL_EINVAL, "%s\"%s\": no kernels that run here; this machine has %s",
                       tier ? "" : "the environment variable LL_CPU=", name, list);
    atomic_store_explicit(&chosen, table, memory_order_release);
    return LL_OK;
}

const char *ll_cpu(void) {
    return ll_kernel_table()->name;
}
