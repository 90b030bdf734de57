/* Counter-based random numbers (Philox 4x32-10, Random123): a draw is a function of (seed, stream,
 * index), never of who draws first. A stream is a purpose; ll_stream_id makes one from up to three
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

/* 64-bit stream number of a purpose and two coordinates (layer, step, ...). Collision-free for
 * purpose < 2^8, a < 2^24, b < 2^32. */
uint64_t ll_stream_id(enum ll_purpose purpose, uint32_t a, uint32_t b);

void ll_random4(uint32_t out[4], uint64_t seed, uint64_t stream, uint64_t index);
/* Uniform in [0, 1) from 24 bits; uniform integer in [0, n), n >= 1, without bias worth naming (64-bit multiply). */
float ll_uniform(uint64_t seed, uint64_t stream, uint64_t index);
uint32_t ll_below(uint32_t n, uint64_t seed, uint64_t stream, uint64_t index);
/* Two words as two standard normals (Box and Muller, in double). */
void ll_normal_pair(float x[2], uint32_t radius, uint32_t angle);
/* x[i] = draw number first + i: standard normal, by pairs; uniform [0, 1). */
void ll_normal_fill(float *x, size_t n, uint64_t seed, uint64_t stream, uint64_t first);
void ll_uniform_fill(float *x, size_t n, uint64_t seed, uint64_t stream, uint64_t first);
/* A uniformly random permutation of 0..n-1 (Fisher-Yates). */
void ll_permutation_draw(int32_t *p, int n, uint64_t seed, uint64_t stream);

#endif
