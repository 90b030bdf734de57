/* The vector operations of body.h in WebAssembly: 4 floats. vec_avx512.h describes what is not described here.
 *
 * There is no fused multiply-add here: the relaxed one may round once or twice, as the machine likes, and results
 * would differ from machine to machine. v_fma rounds twice. A product tile of 4 rows and 2 vectors fits the 16
 * registers of x86-64, one of which the engine keeps for itself. */
#ifndef LL_VEC_WASM_H
#define LL_VEC_WASM_H

#if !defined(__wasm_simd128__)
#error "compile this file with -msimd128"
#endif
#include <stdint.h>
#include <string.h>
#include <wasm_simd128.h>

#define VW 4
#define VROWS 4
#define VTILE 32
#define VSCAN_TILE 32
#define VSCAN 4

typedef __f32x4 vf;
typedef __i32x4 vi;

static inline vf v_load(const float *p) { return (vf)wasm_v128_load(p); }
static inline void v_store(float *p, vf a) { wasm_v128_store(p, (v128_t)a); }
static inline vf v_load_n(const float *p, size_t n) {
    float x[VW] = {0};
    for (size_t i = 0; i < n; i++) x[i] = p[i];
    return v_load(x);
}
static inline void v_store_n(float *p, size_t n, vf a) {
    float y[VW];
    v_store(y, a);
    for (size_t i = 0; i < n; i++) p[i] = y[i];
}
static inline vf v_load_bf16(const uint16_t *p) { return (vf)wasm_i32x4_shl(wasm_u32x4_load16x4(p), 16); }
/* Four bytes as words, with the sign or without. */
static inline v128_t v_signed_bytes(const void *p) {
    return wasm_i32x4_extend_low_i16x8(wasm_i16x8_extend_low_i8x16(wasm_v128_load32_zero(p)));
}
static inline v128_t v_bytes(const void *p) {
    return wasm_u32x4_extend_low_u16x8(wasm_u16x8_extend_low_u8x16(wasm_v128_load32_zero(p)));
}
static inline vf v_of_words(v128_t words) { return (vf)wasm_f32x4_convert_i32x4(words); }
static inline vf v_load_int8(const int8_t *p) { return v_of_words(v_signed_bytes(p)); }
static inline vf v_load_lower4(const uint8_t *p) {
    return v_of_words(wasm_i32x4_sub(wasm_v128_and(v_bytes(p), wasm_i32x4_splat(15)), wasm_i32x4_splat(8)));
}
static inline vf v_load_upper4(const uint8_t *p) {
    return v_of_words(wasm_i32x4_sub(wasm_u32x4_shr(v_bytes(p), 4), wasm_i32x4_splat(8)));
}
static inline vf v_set(float a) { return (vf)wasm_f32x4_splat(a); }
static inline vf v_add(vf a, vf b) { return a + b; }
static inline vf v_sub(vf a, vf b) { return a - b; }
static inline vf v_mul(vf a, vf b) { return a * b; }
static inline vf v_div(vf a, vf b) { return a / b; }
static inline vf v_sqrt(vf a) { return (vf)wasm_f32x4_sqrt((v128_t)a); }
static inline vf v_fma(vf a, vf b, vf c) { return a * b + c; }
/* The products of floats are exact in double. */
static inline vf v_product_rest(vf a, vf b, vf c) {
    const v128_t low = wasm_f64x2_sub(wasm_f64x2_mul(wasm_f64x2_promote_low_f32x4((v128_t)a),
                                                     wasm_f64x2_promote_low_f32x4((v128_t)b)),
                                      wasm_f64x2_promote_low_f32x4((v128_t)c));
    const v128_t x = wasm_i64x2_shuffle((v128_t)a, (v128_t)a, 1, 1), y = wasm_i64x2_shuffle((v128_t)b, (v128_t)b, 1, 1);
    const v128_t z = wasm_i64x2_shuffle((v128_t)c, (v128_t)c, 1, 1);
    const v128_t high = wasm_f64x2_sub(wasm_f64x2_mul(wasm_f64x2_promote_low_f32x4(x), wasm_f64x2_promote_low_f32x4(y)),
                                       wasm_f64x2_promote_low_f32x4(z));
    return (vf)wasm_i64x2_shuffle(wasm_f32x4_demote_f64x2_zero(low), wasm_f32x4_demote_f64x2_zero(high), 0, 2);
}
/* pmax(x, y) is x < y ? y : x. */
static inline vf v_max(vf a, vf b) { return (vf)wasm_f32x4_pmax((v128_t)b, (v128_t)a); }
static inline vf v_min(vf a, vf b) { return (vf)wasm_f32x4_pmin((v128_t)b, (v128_t)a); }
static inline vf v_abs(vf a) { return (vf)wasm_f32x4_abs((v128_t)a); }
static inline vf v_positive(vf a, vf b) {
    return (vf)wasm_v128_and(wasm_f32x4_gt((v128_t)a, wasm_f32x4_splat(0)), (v128_t)b);
}
static inline vf v_select_positive(vf a, vf b, vf c) {
    return (vf)wasm_v128_bitselect((v128_t)b, (v128_t)c, wasm_f32x4_gt((v128_t)a, wasm_f32x4_splat(0)));
}
static inline vf v_round(vf a) { return (vf)wasm_f32x4_nearest((v128_t)a); }
/* a 2^n for integral n: 0 if n < -126, and infinite if n > 127. One factor, whose exponent is n + 127, is enough. */
static inline vf v_scale2(vf a, vf n) {
    const vf exponent = v_min(v_set(255), v_max(v_set(0), n + v_set(127)));
    return a * (vf)wasm_i32x4_shl(wasm_i32x4_trunc_sat_f32x4((v128_t)exponent), 23);
}
static inline float v_sum(vf a) { return (a[0] + a[2]) + (a[1] + a[3]); }
static inline float v_hmax(vf a) {
    const vf b = v_max(a, (vf)wasm_i64x2_shuffle((v128_t)a, (v128_t)a, 1, 0));
    return b[0] > b[1] ? b[0] : b[1];
}

/* Vectors of VD doubles. */
#define VD 2
typedef __f64x2 vd;
static inline vd vd_load(const double *p) { return (vd)wasm_v128_load(p); }
static inline void vd_store(double *p, vd a) { wasm_v128_store(p, (v128_t)a); }
static inline vd vd_load_n(const double *p, size_t n) {
    return n >= VD ? vd_load(p) : (vd)wasm_v128_load64_zero(p);
}
static inline void vd_store_n(double *p, size_t n, vd a) {
    if (n >= VD) {
        vd_store(p, a);
    } else {
        *p = a[0];
    }
}
static inline vd vd_set(double a) { return (vd)wasm_f64x2_splat(a); }
static inline vd vd_mul(vd a, vd b) { return a * b; }
static inline vd vd_fma(vd a, vd b, vd c) { return a * b + c; }

/* Pairs (x, y) of neighbouring lanes. v_swap: (y, x). v_pairs: lanes of two vectors of doubles as pairs of floats.
 * v_rotate_pairs: (c x - s y, c y + s x) for pairs (c, s) of cs. v_rotate_pairs_back: the same with -s. */
static inline vf v_swap(vf a) { return (vf)wasm_i32x4_shuffle((v128_t)a, (v128_t)a, 1, 0, 3, 2); }
static inline vf v_pairs(vd a, vd b) {
    const v128_t x = wasm_f32x4_demote_f64x2_zero((v128_t)a), y = wasm_f32x4_demote_f64x2_zero((v128_t)b);
    return (vf)wasm_i32x4_shuffle(x, y, 0, 4, 1, 5);
}
/* sign: the sign of s in the first lane of each pair, opposite to that in the second. */
static inline vf v_rotate_by(vf a, vf cs, vf sign) {
    const vf c = (vf)wasm_i32x4_shuffle((v128_t)cs, (v128_t)cs, 0, 0, 2, 2);
    const vf s = (vf)wasm_i32x4_shuffle((v128_t)cs, (v128_t)cs, 1, 1, 3, 3);
    return a * c + v_swap(a) * s * sign;
}
static inline vf v_rotate_pairs(vf a, vf cs) { return v_rotate_by(a, cs, (vf){-1, 1, -1, 1}); }
static inline vf v_rotate_pairs_back(vf a, vf cs) { return v_rotate_by(a, cs, (vf){1, -1, 1, -1}); }

/* Words of 32 bits. vi_even, vi_odd: the first or the second word of each pair, twice. vi_high, vi_low: the upper or
 * lower 16 bits. v_from: signed words as floats. */
static inline vi vi_load(const int *p) { return (vi)wasm_v128_load(p); }
static inline vi vi_even(vi a) { return (vi)wasm_i32x4_shuffle((v128_t)a, (v128_t)a, 0, 0, 2, 2); }
static inline vi vi_odd(vi a) { return (vi)wasm_i32x4_shuffle((v128_t)a, (v128_t)a, 1, 1, 3, 3); }
static inline vi vi_high(vi a) { return (vi)wasm_u32x4_shr((v128_t)a, 16); }
static inline vi vi_low(vi a) { return (vi)wasm_v128_and((v128_t)a, wasm_i32x4_splat(0xffff)); }
/* Numbers of 16 bits, one for each lane. */
static inline vi vi_load_halves(const uint32_t *p) { return (vi)wasm_u32x4_load16x4(p); }
static inline vf v_from(vi a) { return v_of_words((v128_t)a); }
static inline vi vi_set(int a) { return (vi)wasm_i32x4_splat(a); }
static inline vi vi_add(vi a, vi b) { return (vi)wasm_i32x4_add((v128_t)a, (v128_t)b); }
static inline vi vi_xor(vi a, vi b) { return (vi)wasm_v128_xor((v128_t)a, (v128_t)b); }
/* The lower and the upper 32 bits of products of unsigned words. */
static inline vi vi_mul_low(vi a, vi b) { return (vi)wasm_i32x4_mul((v128_t)a, (v128_t)b); }
static inline vi vi_mul_high(vi a, vi b) {
    const v128_t low = wasm_u64x2_extmul_low_u32x4((v128_t)a, (v128_t)b);
    return (vi)wasm_i32x4_shuffle(low, wasm_u64x2_extmul_high_u32x4((v128_t)a, (v128_t)b), 1, 3, 5, 7);
}
/* Exchanges rows and columns of 4 x 4 words. */
static inline void vi_transpose4(v128_t x[4]) {
    const v128_t a = wasm_i32x4_shuffle(x[0], x[1], 0, 4, 1, 5), b = wasm_i32x4_shuffle(x[0], x[1], 2, 6, 3, 7);
    const v128_t c = wasm_i32x4_shuffle(x[2], x[3], 0, 4, 1, 5), d = wasm_i32x4_shuffle(x[2], x[3], 2, 6, 3, 7);
    x[0] = wasm_i64x2_shuffle(a, c, 0, 2);
    x[1] = wasm_i64x2_shuffle(a, c, 1, 3);
    x[2] = wasm_i64x2_shuffle(b, d, 0, 2);
    x[3] = wasm_i64x2_shuffle(b, d, 1, 3);
}
/* Stores VW blocks of four words, one after the other. Word w of block i is in lane i of c[w]. */
static inline void vi_store_blocks(uint32_t *out, const vi c[4]) {
    v128_t x[4] = {(v128_t)c[0], (v128_t)c[1], (v128_t)c[2], (v128_t)c[3]};
    vi_transpose4(x);
    for (int i = 0; i < 4; i++) wasm_v128_store(out + 4 * i, x[i]);
}
/* Changes the sign of a where bit 31 of b is set. */
static inline vf v_flip(vf a, vi b) {
    return (vf)wasm_v128_xor((v128_t)a, wasm_v128_and((v128_t)b, wasm_i32x4_splat(INT32_MIN)));
}
/* Exponent and mantissa of a normal a > 0: a = 2^exponent mantissa, 1 <= mantissa < 2. */
static inline vf v_exponent(vf a) {
    return v_of_words(wasm_i32x4_sub(wasm_u32x4_shr((v128_t)a, 23), wasm_i32x4_splat(127)));
}
static inline vf v_mantissa(vf a) {
    const v128_t digits = wasm_v128_and((v128_t)a, wasm_i32x4_splat(0x7fffff));
    return (vf)wasm_v128_or(digits, wasm_i32x4_splat(0x3f800000));
}
/* The number of the half octave of a. [1, 1.5), [1.5, 2), [2, 3), .. have consecutive numbers, whose last three bits
 * are 6, 7, 0, .. */
static inline vi v_half_octave(vf a) { return (vi)wasm_u32x4_shr((v128_t)a, 22); }
/* The bytes of the words that the last two bits of each word of the index name. */
static inline v128_t v_byte_index(v128_t index) {
    const v128_t word = wasm_v128_and(index, wasm_i32x4_splat(3));
    return wasm_i32x4_add(wasm_i32x4_mul(word, wasm_i32x4_splat(0x04040404)), wasm_i32x4_splat(0x03020100));
}
static inline vi vi_permute(vi a, vi index) { return (vi)wasm_i8x16_swizzle((v128_t)a, v_byte_index((v128_t)index)); }
static inline vf v_permute(vf a, vi index) { return (vf)vi_permute((vi)a, index); }
/* table[index mod 8], of a table of 8 numbers written twice. */
static inline vf v_lookup(const float table[16], vi index) {
    const v128_t bytes = v_byte_index((v128_t)index), upper = wasm_i32x4_shr(wasm_i32x4_shl((v128_t)index, 29), 31);
    return (vf)wasm_v128_bitselect(wasm_i8x16_swizzle(wasm_v128_load(table + 4), bytes),
                                   wasm_i8x16_swizzle(wasm_v128_load(table), bytes), upper);
}

/* Pairs of bfloat16, each in the bits of one float. v_interleave_bf16: pair i is (low[i], high[i]). v_to_bf16: the 2 VW
 * numbers of both vectors in their order. v_fma_bf16: adds the products of both halves to c, the upper half first. */
/* a rounded to nearest even, in the upper half of each word. The lower half is undefined. Subnormals become 0. */
static inline v128_t v_round_bf16(vf a) {
    const v128_t bits = (v128_t)a, odd = wasm_v128_and(wasm_u32x4_shr(bits, 16), wasm_i32x4_splat(1));
    const v128_t near = wasm_i32x4_add(wasm_i32x4_add(bits, wasm_i32x4_splat(0x7fff)), odd);
    const v128_t sign = wasm_v128_and(bits, wasm_i32x4_splat(INT32_MIN));
    const v128_t small = wasm_f32x4_lt(wasm_f32x4_abs(bits), wasm_f32x4_splat(1.17549435e-38f));
    const v128_t quiet = wasm_v128_or(bits, wasm_i32x4_splat(0x400000));
    return wasm_v128_bitselect(wasm_v128_bitselect(sign, near, small), quiet, wasm_f32x4_eq(bits, bits));
}
static inline vf v_interleave_bf16(vf low, vf high) {
    const v128_t upper = wasm_v128_and(v_round_bf16(high), wasm_i32x4_splat(-65536));
    return (vf)wasm_v128_or(wasm_u32x4_shr(v_round_bf16(low), 16), upper);
}
static inline vf v_to_bf16(vf first, vf second) {
    return (vf)wasm_i16x8_shuffle(v_round_bf16(first), v_round_bf16(second), 1, 3, 5, 7, 9, 11, 13, 15);
}
static inline vf v_lower(vf a) { return (vf)wasm_i32x4_shl((v128_t)a, 16); }
static inline vf v_upper(vf a) { return (vf)wasm_v128_and((v128_t)a, wasm_i32x4_splat(-65536)); }
static inline vf v_fma_bf16(vf a, vf b, vf c) {
    return v_fma(v_lower(a), v_lower(b), v_fma(v_upper(a), v_upper(b), c));
}

/* Transposes a block of 16 x 16 as sixteen of 4 x 4. */
static inline void v_transpose16(const float *in, size_t ldi, float *out, size_t ldo) {
    for (size_t i = 0; i < 16; i += 4)
        for (size_t j = 0; j < 16; j += 4) {
            v128_t x[4];
            for (size_t r = 0; r < 4; r++) x[r] = wasm_v128_load(in + (i + r) * ldi + j);
            vi_transpose4(x);
            for (size_t r = 0; r < 4; r++) wasm_v128_store(out + (j + r) * ldo + i, x[r]);
        }
}

#endif
