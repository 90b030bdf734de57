/* Counter-based random numbers (Philox 4x32-10, Random123). A draw is a function of (seed, stream, index) and does not
 * depend on the order of draws. Each purpose has a stream of its own; ll_stream_id makes a stream from up to three
 * numbers. */
#ifndef LL_RANDOM_H
#define LL_RANDOM_H

#include <stddef.h>
#include <stdint.h>

enum ll_purpose {
    LL_RANDOM_INIT = 1, LL_RANDOM_PROJECTION, LL_RANDOM_PERMUTATION, LL_RANDOM_DROPOUT,
    LL_RANDOM_BATCH, LL_RANDOM_SAMPLE, LL_RANDOM_NOISE, LL_RANDOM_TEST, LL_RANDOM_HASH, LL_RANDOM_ROTATION,
    LL_RANDOM_ANALYSE, LL_RANDOM_TOY, LL_RANDOM_MASK, LL_RANDOM_DATA, LL_RANDOM_TRANSPOSE
};

/* The 64-bit stream of a purpose and two coordinates (layer, step, ...). There are no collisions for purpose < 2^8, a <
 * 2^24, b < 2^32. */
uint64_t ll_stream_id(enum ll_purpose purpose, uint32_t a, uint32_t b);

void ll_random4(uint32_t out[4], uint64_t seed, uint64_t stream, uint64_t index);
/* Uniform in [0, 1), from 24 bits. Uniform integer in [0, n), n >= 1; the bias of a 64-bit multiply is negligible. */
float ll_uniform(uint64_t seed, uint64_t stream, uint64_t index);
uint32_t ll_below(uint32_t n, uint64_t seed, uint64_t stream, uint64_t index);
/* Two standard normal numbers from two words (Box and Muller, in double). */
void ll_normal_pair(float x[2], uint32_t radius, uint32_t angle);
/* x[i] = draw number first + i: standard normal, in pairs; uniform in [0, 1). */
void ll_normal_fill(float *x, size_t n, uint64_t seed, uint64_t stream, uint64_t first);
void ll_uniform_fill(float *x, size_t n, uint64_t seed, uint64_t stream, uint64_t first);

#endif
