/* Philox 4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"). The counter is (index, stream),
 * the key is the seed. */
#include "base/integer.h"
#include "base/random.h"

#include <math.h>
#include <string.h>

/* A header of others; its conversions give warnings. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wunused-function"
#if defined(__wasm__) /* not among the processors that the header knows; it is plain C on this one, too */
#define __riscv
#endif
#include <Random123/philox.h>
#if defined(__wasm__)
#undef __riscv
#endif
#pragma GCC diagnostic pop

uint64_t ll_stream_id(enum ll_purpose purpose, uint32_t a, uint32_t b) {
    return (uint64_t)purpose << 56 | (uint64_t)(a & 0xffffff) << 32 | b;
}

void ll_random4(uint32_t out[4], uint64_t seed, uint64_t stream, uint64_t index) {
    const philox4x32_ctr_t counter = {
        {(uint32_t)index, (uint32_t)(index >> 32), (uint32_t)stream, (uint32_t)(stream >> 32)}};
    const philox4x32_key_t key = {{(uint32_t)seed, (uint32_t)(seed >> 32)}};
    const philox4x32_ctr_t r = philox4x32(counter, key);
    memcpy(out, r.v, 4 * sizeof *out);
}

/* Draw number i is word i mod 4 of block i/4. */
static float uniform_of(uint32_t word) {
    return (float)(word >> 8) * 0x1p-24f;
}

float ll_uniform(uint64_t seed, uint64_t stream, uint64_t index) {
    uint32_t r[4];
    ll_random4(r, seed, stream, index / 4);
    return uniform_of(r[index % 4]);
}

/* The upper half of n times a 64-bit fraction. */
uint32_t ll_below(uint32_t n, uint64_t seed, uint64_t stream, uint64_t index) {
    uint32_t r[4];
    ll_random4(r, seed, stream, index);
    return (uint32_t)(((uint64_t)r[1] * n + ((uint64_t)r[0] * n >> 32)) >> 32);
}

typedef void block_fn(float x[4], const uint32_t r[4]);

static void uniform_block(float x[4], const uint32_t r[4]) {
    for (int i = 0; i < 4; i++) x[i] = uniform_of(r[i]);
}

/* Half a unit keeps the logarithm finite. 32 bits reach 6.7 standard deviations. */
void ll_normal_pair(float x[2], uint32_t radius, uint32_t angle) {
    const double r = sqrt(-2 * log(((double)radius + 0.5) * 0x1p-32));
    const double a = 6.283185307179586477 * (double)angle * 0x1p-32;
    x[0] = (float)(r * cos(a));
    x[1] = (float)(r * sin(a));
}

static void normal_block(float x[4], const uint32_t r[4]) {
    ll_normal_pair(x, r[0], r[1]);
    ll_normal_pair(x + 2, r[2], r[3]);
}

/* Copies a run of draws, with any beginning and end, out of whole blocks. */
static void fill(float *x, size_t n, uint64_t seed, uint64_t stream, uint64_t first, block_fn *make) {
    uint32_t r[4];
    float block[4];
    for (size_t i = 0; i < n;) {
        const size_t skip = (size_t)((first + i) % 4), take = ll_min_size(4 - skip, n - i);
        ll_random4(r, seed, stream, (first + i) / 4);
        make(block, r);
        memcpy(x + i, block + skip, take * sizeof *x);
        i += take;
    }
}

void ll_normal_fill(float *x, size_t n, uint64_t seed, uint64_t stream, uint64_t first) {
    fill(x, n, seed, stream, first, normal_block);
}

void ll_uniform_fill(float *x, size_t n, uint64_t seed, uint64_t stream, uint64_t first) {
    fill(x, n, seed, stream, first, uniform_block);
}
