/* The part [position] of a recipe. Keys: position_keys.c. */
#ifndef LL_POSITION_OPTIONS_H
#define LL_POSITION_OPTIONS_H

#include "base/key.h"
#include "longline.h"

enum { LL_CYCLES_RANDOM, LL_CYCLES_LONG }; /* of permute, permute2d */
enum { LL_DECAY_NONE, LL_DECAY_FIXED };
enum { LL_CROSS_NONE, LL_CROSS_START, LL_CROSS_END, LL_CROSS_BOTH }; /* end from which positions of a source count */

typedef struct {
    int type; /* ll_position */
    int cycles, decay, cross;
    int max_length, offset, cls; /* learned */
    int rotary;             /* rope: channels of a head that are rotated; 0 = all */
    int width, height;                                           /* of an image */
    int image, realizations, sines, taps, gated, shared, scales; /* spe, relative-s1 */
    int distances, distance_values;                              /* clip of relative-s2 and shaw; shaw */
    double base, scaling, scaling_length, scaling_low, scaling_high; /* rope */
    double decay_first, decay_last; /* logits of r for the first head and one past the last */
} ll_position_options;

/* Number of tokens that learned positions cover. */
static inline int ll_position_learned(const ll_position_options *p) {
    return p->max_length - p->offset - p->cls;
}

extern const ll_key_table ll_position_keys;

#endif
