/* The vector operations of body.h in NEON (AArch64): 8 floats in two registers, so that a product tile of 6 rows and
 * 2 vectors fills 24 of the 32 registers with sums. vec_avx512.h describes what is not described here. */
#ifndef LL_VEC_NEON_H
#define LL_VEC_NEON_H

#if !defined(__aarch64__)
#error "compile this file for AArch64"
#endif
#include <arm_neon.h>
#include <stdint.h>
#include <string.h>

#define VW 8
#define VROWS 6
#define VTILE 32
#define VSCAN_TILE 32
#define VSCAN 4

typedef struct {
    float32x4_t a, b;
} vf;
typedef struct {
    int32x4_t a, b;
} vi;

static inline uint32x4_t v_bits4(float32x4_t a) { return vreinterpretq_u32_f32(a); }
static inline float32x4_t v_floats4(uint32x4_t a) { return vreinterpretq_f32_u32(a); }
static inline int32x4_t vi_bits4(float32x4_t a) { return vreinterpretq_s32_f32(a); }

static inline vf v_load(const float *p) { return (vf){vld1q_f32(p), vld1q_f32(p + 4)}; }
static inline void v_store(float *p, vf x) {
    vst1q_f32(p, x.a);
    vst1q_f32(p + 4, x.b);
}
static inline vf v_load_n(const float *p, size_t n) {
    float x[VW] = {0};
    for (size_t i = 0; i < n; i++) x[i] = p[i];
    return v_load(x);
}
static inline void v_store_n(float *p, size_t n, vf x) {
    float y[VW];
    v_store(y, x);
    for (size_t i = 0; i < n; i++) p[i] = y[i];
}
static inline vf v_load_bf16(const uint16_t *p) {
    const uint16x8_t x = vld1q_u16(p);
    return (vf){v_floats4(vshll_n_u16(vget_low_u16(x), 16)), v_floats4(vshll_high_n_u16(x, 16))};
}
static inline vf v_of_int8(int8x8_t bytes) {
    const int16x8_t x = vmovl_s8(bytes);
    return (vf){vcvtq_f32_s32(vmovl_s16(vget_low_s16(x))), vcvtq_f32_s32(vmovl_high_s16(x))};
}
static inline vf v_load_int8(const int8_t *p) { return v_of_int8(vld1_s8(p)); }
static inline vf v_load_lower4(const uint8_t *p) {
    return v_of_int8(vsub_s8(vreinterpret_s8_u8(vand_u8(vld1_u8(p), vdup_n_u8(15))), vdup_n_s8(8)));
}
static inline vf v_load_upper4(const uint8_t *p) {
    return v_of_int8(vsub_s8(vreinterpret_s8_u8(vshr_n_u8(vld1_u8(p), 4)), vdup_n_s8(8)));
}
static inline vf v_set(float x) { return (vf){vdupq_n_f32(x), vdupq_n_f32(x)}; }
static inline vf v_add(vf x, vf y) { return (vf){vaddq_f32(x.a, y.a), vaddq_f32(x.b, y.b)}; }
static inline vf v_sub(vf x, vf y) { return (vf){vsubq_f32(x.a, y.a), vsubq_f32(x.b, y.b)}; }
static inline vf v_mul(vf x, vf y) { return (vf){vmulq_f32(x.a, y.a), vmulq_f32(x.b, y.b)}; }
static inline vf v_div(vf x, vf y) { return (vf){vdivq_f32(x.a, y.a), vdivq_f32(x.b, y.b)}; }
static inline vf v_sqrt(vf x) { return (vf){vsqrtq_f32(x.a), vsqrtq_f32(x.b)}; }
static inline vf v_fma(vf x, vf y, vf z) { return (vf){vfmaq_f32(z.a, x.a, y.a), vfmaq_f32(z.b, x.b, y.b)}; }
/* x y - z with one rounding, where z is x y rounded: what the rounding took away. */
static inline vf v_product_rest(vf x, vf y, vf z) { return v_fma(x, y, v_sub(v_set(0), z)); }
/* FMAX would give NaN where x is NaN. */
static inline vf v_max(vf x, vf y) {
    return (vf){vbslq_f32(vcgtq_f32(x.a, y.a), x.a, y.a), vbslq_f32(vcgtq_f32(x.b, y.b), x.b, y.b)};
}
static inline vf v_min(vf x, vf y) {
    return (vf){vbslq_f32(vcltq_f32(x.a, y.a), x.a, y.a), vbslq_f32(vcltq_f32(x.b, y.b), x.b, y.b)};
}
static inline vf v_abs(vf x) { return (vf){vabsq_f32(x.a), vabsq_f32(x.b)}; }
static inline vf v_select_positive(vf x, vf y, vf z) {
    return (vf){vbslq_f32(vcgtzq_f32(x.a), y.a, z.a), vbslq_f32(vcgtzq_f32(x.b), y.b, z.b)};
}
static inline vf v_positive(vf x, vf y) {
    return (vf){v_floats4(vandq_u32(vcgtzq_f32(x.a), v_bits4(y.a))),
                v_floats4(vandq_u32(vcgtzq_f32(x.b), v_bits4(y.b)))};
}
static inline vf v_round(vf x) { return (vf){vrndnq_f32(x.a), vrndnq_f32(x.b)}; }
/* a 2^n for integral n: 0 if n < -126, and infinite if n > 127. One factor, whose exponent is n + 127, is enough. */
static inline float32x4_t v_scale2_4(float32x4_t x, float32x4_t n) {
    const int32x4_t most = vminq_s32(vdupq_n_s32(255), vcvtnq_s32_f32(vaddq_f32(n, vdupq_n_f32(127))));
    return vmulq_f32(x, vreinterpretq_f32_s32(vshlq_n_s32(vmaxq_s32(vdupq_n_s32(0), most), 23)));
}
static inline vf v_scale2(vf x, vf n) { return (vf){v_scale2_4(x.a, n.a), v_scale2_4(x.b, n.b)}; }
static inline float v_sum(vf x) {
    const float32x4_t s = vaddq_f32(x.a, x.b);
    const float32x2_t t = vadd_f32(vget_low_f32(s), vget_high_f32(s));
    return vget_lane_f32(t, 0) + vget_lane_f32(t, 1);
}
static inline float v_hmax(vf x) { return vmaxnmvq_f32(vmaxnmq_f32(x.a, x.b)); }

/* Vectors of VD doubles, in two registers. */
#define VD 4
typedef struct {
    float64x2_t a, b;
} vd;
static inline vd vd_load(const double *p) { return (vd){vld1q_f64(p), vld1q_f64(p + 2)}; }
static inline void vd_store(double *p, vd x) {
    vst1q_f64(p, x.a);
    vst1q_f64(p + 2, x.b);
}
static inline vd vd_load_n(const double *p, size_t n) {
    double x[VD] = {0};
    for (size_t i = 0; i < n; i++) x[i] = p[i];
    return vd_load(x);
}
static inline void vd_store_n(double *p, size_t n, vd x) {
    double y[VD];
    vd_store(y, x);
    for (size_t i = 0; i < n; i++) p[i] = y[i];
}
static inline vd vd_set(double x) { return (vd){vdupq_n_f64(x), vdupq_n_f64(x)}; }
static inline vd vd_mul(vd x, vd y) { return (vd){vmulq_f64(x.a, y.a), vmulq_f64(x.b, y.b)}; }
static inline vd vd_fma(vd x, vd y, vd z) { return (vd){vfmaq_f64(z.a, x.a, y.a), vfmaq_f64(z.b, x.b, y.b)}; }

/* Pairs (x, y) of neighbouring lanes. v_swap: (y, x). v_pairs: lanes of two vectors of doubles as pairs of floats.
 * v_rotate_pairs: (c x - s y, c y + s x) for pairs (c, s) of cs. v_rotate_pairs_back: the same with -s. */
static inline vf v_swap(vf x) { return (vf){vrev64q_f32(x.a), vrev64q_f32(x.b)}; }
static inline vf v_pairs(vd x, vd y) {
    const float32x4_t p = vcvt_high_f32_f64(vcvt_f32_f64(x.a), x.b), q = vcvt_high_f32_f64(vcvt_f32_f64(y.a), y.b);
    return (vf){vzip1q_f32(p, q), vzip2q_f32(p, q)};
}
/* sign: bit 31 of the lanes in which the sine is subtracted. */
static inline float32x4_t v_rotate4(float32x4_t x, float32x4_t cs, uint64x2_t sign) {
    const float32x4_t sine = vmulq_f32(vrev64q_f32(x), vtrn2q_f32(cs, cs));
    return vfmaq_f32(v_floats4(veorq_u32(v_bits4(sine), vreinterpretq_u32_u64(sign))), x, vtrn1q_f32(cs, cs));
}
static inline vf v_rotate_pairs(vf x, vf cs) {
    const uint64x2_t first = vdupq_n_u64(0x80000000u);
    return (vf){v_rotate4(x.a, cs.a, first), v_rotate4(x.b, cs.b, first)};
}
static inline vf v_rotate_pairs_back(vf x, vf cs) {
    const uint64x2_t second = vdupq_n_u64(0x8000000000000000u);
    return (vf){v_rotate4(x.a, cs.a, second), v_rotate4(x.b, cs.b, second)};
}

static inline vi vi_load(const int *p) { return (vi){vld1q_s32(p), vld1q_s32(p + 4)}; }
/* Words of 32 bits. vi_even, vi_odd: the first or the second word of each pair, twice. vi_high, vi_low: the upper or
 * lower 16 bits. v_from: signed words as floats. */
static inline vi vi_even(vi x) { return (vi){vtrn1q_s32(x.a, x.a), vtrn1q_s32(x.b, x.b)}; }
static inline vi vi_odd(vi x) { return (vi){vtrn2q_s32(x.a, x.a), vtrn2q_s32(x.b, x.b)}; }
static inline int32x4_t vi_shift4(int32x4_t x) {
    return vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_s32(x), 16));
}
static inline vi vi_high(vi x) { return (vi){vi_shift4(x.a), vi_shift4(x.b)}; }
static inline vi vi_low(vi x) {
    const int32x4_t mask = vdupq_n_s32(0xffff);
    return (vi){vandq_s32(x.a, mask), vandq_s32(x.b, mask)};
}
/* Numbers of 16 bits, one for each lane. */
static inline vi vi_load_halves(const uint32_t *p) {
    const uint16x8_t halves = vreinterpretq_u16_u32(vld1q_u32(p));
    return (vi){vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(halves))),
                vreinterpretq_s32_u32(vmovl_u16(vget_high_u16(halves)))};
}
static inline vf v_from(vi x) { return (vf){vcvtq_f32_s32(x.a), vcvtq_f32_s32(x.b)}; }
static inline vi vi_set(int x) { return (vi){vdupq_n_s32(x), vdupq_n_s32(x)}; }
static inline vi vi_add(vi x, vi y) { return (vi){vaddq_s32(x.a, y.a), vaddq_s32(x.b, y.b)}; }
static inline vi vi_xor(vi x, vi y) { return (vi){veorq_s32(x.a, y.a), veorq_s32(x.b, y.b)}; }
/* The lower and the upper 32 bits of products of unsigned words. */
static inline vi vi_mul_low(vi x, vi y) { return (vi){vmulq_s32(x.a, y.a), vmulq_s32(x.b, y.b)}; }
static inline int32x4_t vi_mul_high4(int32x4_t x, int32x4_t y) {
    const uint32x4_t u = vreinterpretq_u32_s32(x), v = vreinterpretq_u32_s32(y);
    const uint64x2_t low = vmull_u32(vget_low_u32(u), vget_low_u32(v)), high = vmull_high_u32(u, v);
    return vreinterpretq_s32_u32(vuzp2q_u32(vreinterpretq_u32_u64(low), vreinterpretq_u32_u64(high)));
}
static inline vi vi_mul_high(vi x, vi y) { return (vi){vi_mul_high4(x.a, y.a), vi_mul_high4(x.b, y.b)}; }
/* Stores VW blocks of four words, one after the other. Word w of block i is in lane i / (VW/4) + 4 (i mod VW/4) of
 * c[w]: lane l of the first register has block 2 l, that of the second register block 2 l + 1. */
static inline void vi_store_blocks(uint32_t *out, const vi c[4]) {
    int32_t word[4][VW];
    for (int w = 0; w < 4; w++) {
        vst1q_s32(word[w], c[w].a);
        vst1q_s32(word[w] + 4, c[w].b);
    }
    for (int i = 0; i < VW; i++)
        for (int w = 0; w < 4; w++) out[4 * i + w] = (uint32_t)word[w][i / 2 + 4 * (i % 2)];
}
/* Changes the sign of x where bit 31 of y is set. */
static inline float32x4_t v_flip4(float32x4_t x, int32x4_t y) {
    return vreinterpretq_f32_s32(veorq_s32(vi_bits4(x), vandq_s32(y, vdupq_n_s32(INT32_MIN))));
}
static inline vf v_flip(vf x, vi y) { return (vf){v_flip4(x.a, y.a), v_flip4(x.b, y.b)}; }
/* Exponent and mantissa of a normal x > 0: x = 2^exponent mantissa, 1 <= mantissa < 2. */
static inline float32x4_t v_exponent4(float32x4_t x) {
    return vcvtq_f32_s32(vsubq_s32(vshrq_n_s32(vi_bits4(x), 23), vdupq_n_s32(127)));
}
static inline vf v_exponent(vf x) { return (vf){v_exponent4(x.a), v_exponent4(x.b)}; }
static inline float32x4_t v_mantissa4(float32x4_t x) {
    return vreinterpretq_f32_s32(vorrq_s32(vandq_s32(vi_bits4(x), vdupq_n_s32(0x7fffff)), vdupq_n_s32(0x3f800000)));
}
static inline vf v_mantissa(vf x) { return (vf){v_mantissa4(x.a), v_mantissa4(x.b)}; }
/* The number of the half octave of x. [1, 1.5), [1.5, 2), [2, 3), .. have consecutive numbers, whose last three bits
 * are 6, 7, 0, .. */
static inline vi v_half_octave(vf x) {
    return (vi){vshrq_n_s32(vi_bits4(x.a), 22), vshrq_n_s32(vi_bits4(x.b), 22)};
}
/* The bytes of the eight words that the last three bits of each word of the index name. */
static inline uint8x16_t v_bytes4(int32x4_t index) {
    const uint32x4_t word = vandq_u32(vreinterpretq_u32_s32(index), vdupq_n_u32(7));
    return vreinterpretq_u8_u32(vmlaq_n_u32(vdupq_n_u32(0x03020100u), word, 0x04040404u));
}
static inline vi vi_permute(vi x, vi index) {
    const uint8x16x2_t table = {{vreinterpretq_u8_s32(x.a), vreinterpretq_u8_s32(x.b)}};
    return (vi){vreinterpretq_s32_u8(vqtbl2q_u8(table, v_bytes4(index.a))),
                vreinterpretq_s32_u8(vqtbl2q_u8(table, v_bytes4(index.b)))};
}
static inline vf v_permute(vf x, vi index) {
    const vi y = vi_permute((vi){vi_bits4(x.a), vi_bits4(x.b)}, index);
    return (vf){vreinterpretq_f32_s32(y.a), vreinterpretq_f32_s32(y.b)};
}
/* table[index mod 8], of a table of 8 numbers written twice. */
static inline vf v_lookup(const float table[16], vi index) { return v_permute(v_load(table), index); }

/* Pairs of bfloat16, each in the bits of one float. v_interleave_bf16: pair i is (low[i], high[i]). v_to_bf16: the 2 VW
 * numbers of both vectors in their order. v_fma_bf16: adds the products of both halves to c, the upper half first. */
/* x rounded to nearest even, in the upper half of each word. The lower half is undefined. Subnormals become 0. */
static inline uint32x4_t v_round_bf16_4(float32x4_t x) {
    const uint32x4_t bits = v_bits4(x), odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    const uint32x4_t near = vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd);
    const uint32x4_t sign = vandq_u32(bits, vdupq_n_u32(0x80000000u));
    const uint32x4_t normal = vbslq_u32(vcltq_f32(vabsq_f32(x), vdupq_n_f32(1.17549435e-38f)), sign, near);
    return vbslq_u32(vceqq_f32(x, x), normal, vorrq_u32(bits, vdupq_n_u32(0x400000)));
}
static inline float32x4_t v_interleave4(float32x4_t low, float32x4_t high) {
    return v_floats4(vsriq_n_u32(v_round_bf16_4(high), v_round_bf16_4(low), 16));
}
static inline vf v_interleave_bf16(vf low, vf high) {
    return (vf){v_interleave4(low.a, high.a), v_interleave4(low.b, high.b)};
}
static inline float32x4_t v_to_bf16_4(float32x4_t first, float32x4_t second) {
    const uint16x4_t a = vshrn_n_u32(v_round_bf16_4(first), 16);
    return vreinterpretq_f32_u16(vshrn_high_n_u32(a, v_round_bf16_4(second), 16));
}
static inline vf v_to_bf16(vf first, vf second) {
    return (vf){v_to_bf16_4(first.a, first.b), v_to_bf16_4(second.a, second.b)};
}
#if defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
/* BFDOT adds both products with one instruction. It rounds each step to odd. */
static inline float32x4_t v_fma_bf16_4(float32x4_t a, float32x4_t b, float32x4_t c) {
    return vbfdotq_f32(c, vreinterpretq_bf16_f32(a), vreinterpretq_bf16_f32(b));
}
#else
static inline float32x4_t v_lower4(float32x4_t x) { return v_floats4(vshlq_n_u32(v_bits4(x), 16)); }
static inline float32x4_t v_upper4(float32x4_t x) {
    return v_floats4(vandq_u32(v_bits4(x), vdupq_n_u32(0xffff0000u)));
}
static inline float32x4_t v_fma_bf16_4(float32x4_t a, float32x4_t b, float32x4_t c) {
    return vfmaq_f32(vfmaq_f32(c, v_upper4(a), v_upper4(b)), v_lower4(a), v_lower4(b));
}
#endif
static inline vf v_fma_bf16(vf a, vf b, vf c) { return (vf){v_fma_bf16_4(a.a, b.a, c.a), v_fma_bf16_4(a.b, b.b, c.b)}; }

/* Transposes a block of 16 x 16 as sixteen of 4 x 4. */
static inline void v_transpose4(const float *in, size_t ldi, float *out, size_t ldo) {
    float32x4_t r[4];
    for (int i = 0; i < 4; i++) r[i] = vld1q_f32(in + (size_t)i * ldi);
    const float64x2_t a = vreinterpretq_f64_f32(vtrn1q_f32(r[0], r[1]));
    const float64x2_t b = vreinterpretq_f64_f32(vtrn2q_f32(r[0], r[1]));
    const float64x2_t c = vreinterpretq_f64_f32(vtrn1q_f32(r[2], r[3]));
    const float64x2_t d = vreinterpretq_f64_f32(vtrn2q_f32(r[2], r[3]));
    vst1q_f32(out, vreinterpretq_f32_f64(vtrn1q_f64(a, c)));
    vst1q_f32(out + ldo, vreinterpretq_f32_f64(vtrn1q_f64(b, d)));
    vst1q_f32(out + 2 * ldo, vreinterpretq_f32_f64(vtrn2q_f64(a, c)));
    vst1q_f32(out + 3 * ldo, vreinterpretq_f32_f64(vtrn2q_f64(b, d)));
}
static inline void v_transpose16(const float *in, size_t ldi, float *out, size_t ldo) {
    for (size_t i = 0; i < 16; i += 4)
        for (size_t j = 0; j < 16; j += 4) v_transpose4(in + i * ldi + j, ldi, out + j * ldo + i, ldo);
}

#endif
