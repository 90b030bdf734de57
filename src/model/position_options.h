/* The part [position] of a recipe. Keys: position_keys.c. */
#ifndef LL_POSITION_OPTIONS_H
#define LL_POSITION_OPTIONS_H

#include "base/key.h"

enum {
    LL_POS_NONE,
    LL_POS_SINUSOIDAL,
    LL_POS_LEARNED,
    LL_POS_PERMUTE,
    LL_POS_PERMUTE2D,
    LL_POS_ROPE,
    LL_POS_ROPE_LINEAR,
    LL_POS_SINE_SPE,
    LL_POS_CONV_SPE,
    LL_POS_RELATIVE_S1,
    LL_POS_RELATIVE_S2,
    LL_POS_T5,
    LL_POS_SHAW,
    LL_POS_ORTHOGONAL
};
enum { LL_CYCLES_RANDOM, LL_CYCLES_LONG }; /* of permute, permute2d */
enum { LL_DECAY_NONE, LL_DECAY_FIXED };
enum { LL_CROSS_NONE, LL_CROSS_START, LL_CROSS_END, LL_CROSS_BOTH }; /* where positions of a source begin */

typedef struct {
    int type; /* LL_POS_... */
    int cycles, decay, cross;
    int max_length;                                              /* learned */
    int width, height;                                           /* of an image */
    int image, realizations, sines, taps, gated, shared, scales; /* spe, relative-s1 */
    int distances, distance_values;                              /* clip of relative-s2 and shaw; shaw */
    double decay_first, decay_last; /* logits of r for the first head and one past the last */
} ll_position_options;

extern const ll_key_table ll_position_keys;

#endif
