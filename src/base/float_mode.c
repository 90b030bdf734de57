/* The control registers of floating point: MXCSR and that of the x87 on x86-64, FPCR on AArch64. Elsewhere how numbers
 * are rounded. */
#include "base/float_mode.h"

#include <fenv.h>

#if defined(__x86_64__)
/* MXCSR: subnormal operands as 0, all exceptions masked, results that are subnormal as 0. Above it the control word of
 * the x87, by which the C library rounds where it prints and reads numbers. */
static const uint64_t MODE = 0x0040 | 0x1f80 | 0x8000 | (uint64_t)0x033f << 32;
static const uint64_t IGNORED = 0x3f /* exceptions so far */ | (uint64_t)0xf0c0 << 32 /* without meaning */;

static uint64_t get(void) {
    uint32_t control;
    uint16_t x87;
    __asm__ volatile("stmxcsr %0" : "=m"(control));
    __asm__ volatile("fnstcw %0" : "=m"(x87));
    return control | (uint64_t)x87 << 32;
}

/* The x87 would trap later for an exception that was masked when it occurred, so such exceptions are cleared. */
static void set(uint64_t value) {
    const uint32_t control = (uint32_t)value;
    const uint16_t x87 = (uint16_t)(value >> 32);
    uint16_t occurred;
    __asm__ volatile("ldmxcsr %0" : : "m"(control) : "memory");
    __asm__ volatile("fnstsw %0" : "=m"(occurred));
    if (occurred & ~x87 & 0x3f) __asm__ volatile("fnclex");
    __asm__ volatile("fldcw %0" : : "m"(x87) : "memory");
}
#elif defined(__aarch64__)
enum { MODE = 1 << 24, IGNORED = 0 }; /* subnormal operands and results as 0 */

static uint64_t get(void) {
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    return control;
}

static void set(uint64_t control) {
    __asm__ volatile("msr fpcr, %0" : : "r"(control) : "memory");
}
#else /* to nearest; what becomes of subnormal numbers is not known */
enum { MODE = FE_TONEAREST, IGNORED = 0 };
static uint64_t get(void) { return (uint64_t)fegetround(); }
static void set(uint64_t rounding) { fesetround((int)rounding); }
#endif

static int is_own(uint64_t control) { return (control & ~(uint64_t)IGNORED) == MODE; }

ll_float_mode ll_float_mode_set(void) {
    const ll_float_mode before = {get()};
    if (!is_own(before.control)) set(MODE);
    return before;
}

void ll_float_mode_restore(const ll_float_mode *before) {
    if (!is_own(before->control)) set(before->control);
}
