/* How the processor rounds while the library computes: to nearest, with subnormal numbers as 0, and without traps. Sums
 * that decay become subnormal, and some processors then take a hundred times as long for each product. Processors other
 * than x86-64 and AArch64 keep subnormal numbers. The mode of the host is restored, and results do not depend on it. */
#ifndef LL_FLOAT_MODE_H
#define LL_FLOAT_MODE_H

#include <stdint.h>

typedef struct {
    uint64_t control; /* the host's MXCSR or FPCR; elsewhere its rounding */
} ll_float_mode;

/* Sets the mode of this thread and returns the one before. */
ll_float_mode ll_float_mode_set(void);
void ll_float_mode_restore(const ll_float_mode *before);

/* A declaration: from here to the end of its block this thread computes in the library's mode. Every function that
 * computes and can be called from outside begins with it, as do the threads of the parallel loop. */
#define LL_FLOAT_MODE                                                                                                  \
    __attribute__((cleanup(ll_float_mode_restore), unused)) const ll_float_mode float_mode_before = ll_float_mode_set()

#endif
