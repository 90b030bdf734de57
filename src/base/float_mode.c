/* The control register of floating point: MXCSR on x86-64, FPCR on AArch64. Elsewhere how numbers are rounded. */
#include "base/float_mode.h"

#include <fenv.h>

#if defined(__x86_64__)
/* Subnormal operands as 0, all exceptions masked, results that are subnormal as 0. */
enum { MODE = 0x0040 | 0x1f80 | 0x8000, FLAGS = 0x3f /* exceptions so far */ };

static uint64_t get(void) {
    uint32_t control;
    __asm__ volatile("stmxcsr %0" : "=m"(control));
    return control;
}

static void set(uint64_t value) {
    const uint32_t control = (uint32_t)value;
    __asm__ volatile("ldmxcsr %0" : : "m"(control) : "memory");
}
#elif defined(__aarch64__)
enum { MODE = 1 << 24, FLAGS = 0 }; /* subnormal operands and results as 0 */

static uint64_t get(void) {
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    return control;
}

static void set(uint64_t control) {
    __asm__ volatile("msr fpcr, %0" : : "r"(control) : "memory");
}
#else /* to nearest; what becomes of subnormal numbers is not known */
enum { MODE = FE_TONEAREST, FLAGS = 0 };
static uint64_t get(void) { return (uint64_t)fegetround(); }
static void set(uint64_t rounding) { fesetround((int)rounding); }
#endif

static int is_own(uint64_t control) { return (control & ~(uint64_t)FLAGS) == MODE; }

ll_float_mode ll_float_mode_set(void) {
    const ll_float_mode before = {get()};
    if (!is_own(before.control)) set(MODE);
    return before;
}

void ll_float_mode_restore(const ll_float_mode *before) {
    if (!is_own(before->control)) set(before->control);
}
