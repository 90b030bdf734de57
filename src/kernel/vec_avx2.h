/* The vector operations of body.h in AVX2 with FMA: 8 floats. vec_avx512.h describes what is not
 * described here. */
#ifndef LL_VEC_AVX2_H
#define LL_VEC_AVX2_H

#if !defined(__AVX2__) || !defined(__FMA__)
#error "compile this file with -mavx2 -mfma"
#endif
#include <immintrin.h>
#include <stdint.h>

#define VW 8
#define VROWS 6
#define VTILE 32
#define VSCAN_TILE 32
#define VSCAN 4
#define VGRADIENT 2

typedef __m256 vf;
typedef __m256i vi;

static inline __m256i v_mask(size_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
static inline vf v_load(const float *p) { return _mm256_loadu_ps(p); }
static inline void v_store(float *p, vf a) { _mm256_storeu_ps(p, a); }
static inline vf v_load_n(const float *p, size_t n) { return _mm256_maskload_ps(p, v_mask(n)); }
static inline void v_store_n(float *p, size_t n, vf a) { _mm256_maskstore_ps(p, v_mask(n), a); }
static inline vf v_load_bf16(const uint16_t *p) {
    const __m128i bf16 = _mm_loadu_si128((const __m128i *)(const void *)p);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bf16), 16));
}
static inline vf v_load_int8(const int8_t *p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)));
}
static inline vf v_load_lower4(const uint8_t *p) {
    const __m256i x = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
    return _mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_and_si256(x, _mm256_set1_epi32(15)), _mm256_set1_epi32(8)));
}
static inline vf v_load_upper4(const uint8_t *p) {
    const __m256i x = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
    return _mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_srli_epi32(x, 4), _mm256_set1_epi32(8)));
}
static inline vf v_set(float a) { return _mm256_set1_ps(a); }
static inline vf v_add(vf a, vf b) { return _mm256_add_ps(a, b); }
static inline vf v_sub(vf a, vf b) { return _mm256_sub_ps(a, b); }
static inline vf v_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
static inline vf v_div(vf a, vf b) { return _mm256_div_ps(a, b); }
static inline vf v_sqrt(vf a) { return _mm256_sqrt_ps(a); }
static inline vf v_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
/* a b - c with one rounding, where c is a b rounded: what the rounding took away. */
static inline vf v_product_rest(vf a, vf b, vf c) { return v_fma(a, b, v_sub(v_set(0), c)); }
static inline vf v_max(vf a, vf b) { return _mm256_max_ps(a, b); }
static inline vf v_min(vf a, vf b) { return _mm256_min_ps(a, b); }
static inline vf v_abs(vf a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
static inline vf v_positive(vf a, vf b) {
    return _mm256_and_ps(_mm256_cmp_ps(a, _mm256_setzero_ps(), _CMP_GT_OQ), b);
}
static inline vf v_select_positive(vf a, vf b, vf c) {
    return _mm256_blendv_ps(c, b, _mm256_cmp_ps(a, _mm256_setzero_ps(), _CMP_GT_OQ));
}
static inline vf v_round(vf a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
/* a 2^n for integral n: 0 if n < -126, and infinite if n > 127. One factor, whose exponent is n + 127, is enough. */
static inline vf v_scale2(vf a, vf n) {
    const vf most = _mm256_min_ps(_mm256_set1_ps(255), _mm256_add_ps(n, _mm256_set1_ps(127)));
    const __m256i exponent = _mm256_max_epi32(_mm256_setzero_si256(), _mm256_cvtps_epi32(most));
    return _mm256_mul_ps(a, _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23)));
}
static inline float v_sum(vf a) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
static inline void v_add_sums(float *p, const vf a[VGRADIENT]) {
    const vf ab = _mm256_add_ps(_mm256_unpacklo_ps(a[0], a[1]), _mm256_unpackhi_ps(a[0], a[1])); /* a b a b twice */
    const __m128 half = _mm_add_ps(_mm256_castps256_ps128(ab), _mm256_extractf128_ps(ab, 1));
    const __m128 sums = _mm_add_ps(half, _mm_movehl_ps(half, half));
    _mm_storel_pi((__m64 *)(void *)p, _mm_add_ps(_mm_loadl_pi(sums, (const __m64 *)(const void *)p), sums));
}
static inline float v_hmax(vf a) {
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}
/* Vectors of VD doubles. */
#define VD 4
typedef __m256d vd;
static inline __m256i vd_mask(size_t n) {
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x((long long)n), _mm256_setr_epi64x(0, 1, 2, 3));
}
static inline vd vd_load(const double *p) { return _mm256_loadu_pd(p); }
static inline void vd_store(double *p, vd a) { _mm256_storeu_pd(p, a); }
static inline vd vd_load_n(const double *p, size_t n) { return _mm256_maskload_pd(p, vd_mask(n)); }
static inline void vd_store_n(double *p, size_t n, vd a) { _mm256_maskstore_pd(p, vd_mask(n), a); }
static inline vd vd_set(double a) { return _mm256_set1_pd(a); }
static inline vd vd_mul(vd a, vd b) { return _mm256_mul_pd(a, b); }
static inline vd vd_fma(vd a, vd b, vd c) { return _mm256_fmadd_pd(a, b, c); }

/* Pairs (x, y) of neighbouring lanes. v_swap: (y, x). v_pairs: lanes of two vectors of doubles as pairs of floats.
 * v_rotate_pairs: (c x - s y, c y + s x) for pairs (c, s) of cs. v_rotate_pairs_back: the same with -s. */
static inline vf v_swap(vf a) { return _mm256_permute_ps(a, 0xb1); }
static inline vf v_pairs(vd a, vd b) {
    const __m128 x = _mm256_cvtpd_ps(a), y = _mm256_cvtpd_ps(b);
    return _mm256_set_m128(_mm_unpackhi_ps(x, y), _mm_unpacklo_ps(x, y));
}
static inline vf v_rotate_pairs(vf a, vf cs) {
    return _mm256_fmaddsub_ps(a, _mm256_moveldup_ps(cs), v_mul(v_swap(a), _mm256_movehdup_ps(cs)));
}
static inline vf v_rotate_pairs_back(vf a, vf cs) {
    return _mm256_fmsubadd_ps(a, _mm256_moveldup_ps(cs), v_mul(v_swap(a), _mm256_movehdup_ps(cs)));
}

static inline vi vi_load(const int *p) { return _mm256_loadu_si256((const __m256i *)p); }
/* Words of 32 bits. vi_even, vi_odd: the first or the second word of each pair, twice. vi_high, vi_low: the upper or
 * lower 16 bits. v_from: signed words as floats. */
static inline vi vi_even(vi a) { return _mm256_shuffle_epi32(a, 0xa0); }
static inline vi vi_odd(vi a) { return _mm256_shuffle_epi32(a, 0xf5); }
static inline vi vi_high(vi a) { return _mm256_srli_epi32(a, 16); }
static inline vi vi_low(vi a) { return _mm256_and_si256(a, _mm256_set1_epi32(0xffff)); }
/* Numbers of 16 bits, one for each lane. */
static inline vi vi_load_halves(const uint32_t *p) {
    return _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
}
static inline vf v_from(vi a) { return _mm256_cvtepi32_ps(a); }
static inline vi vi_set(int a) { return _mm256_set1_epi32(a); }
static inline vi vi_add(vi a, vi b) { return _mm256_add_epi32(a, b); }
static inline vi vi_xor(vi a, vi b) { return _mm256_xor_si256(a, b); }
/* The lower and the upper 32 bits of products of unsigned words. */
static inline vi vi_mul_low(vi a, vi b) { return _mm256_mullo_epi32(a, b); }
static inline vi vi_mul_high(vi a, vi b) {
    const __m256i even = _mm256_srli_epi64(_mm256_mul_epu32(a, b), 32);
    return _mm256_blend_epi32(even, _mm256_mul_epu32(_mm256_srli_epi64(a, 32), _mm256_srli_epi64(b, 32)), 0xaa);
}
/* Stores VW blocks of four words, one after the other. Word w of block i is in lane i / (VW/4) + 4 (i mod VW/4) of
 * c[w]. */
static inline void vi_store_blocks(uint32_t *out, const vi c[4]) {
    const vi a = _mm256_unpacklo_epi32(c[0], c[1]), b = _mm256_unpackhi_epi32(c[0], c[1]);
    const vi d = _mm256_unpacklo_epi32(c[2], c[3]), e = _mm256_unpackhi_epi32(c[2], c[3]);
    _mm256_storeu_si256((__m256i *)out, _mm256_unpacklo_epi64(a, d));
    _mm256_storeu_si256((__m256i *)(out + VW), _mm256_unpackhi_epi64(a, d));
    _mm256_storeu_si256((__m256i *)(out + 2 * VW), _mm256_unpacklo_epi64(b, e));
    _mm256_storeu_si256((__m256i *)(out + 3 * VW), _mm256_unpackhi_epi64(b, e));
}
/* Changes the sign of a where bit 31 of b is set. */
static inline vf v_flip(vf a, vi b) {
    return _mm256_castsi256_ps(_mm256_xor_si256(_mm256_castps_si256(a), _mm256_and_si256(b, vi_set(INT32_MIN))));
}
/* Exponent and mantissa of a normal a > 0: a = 2^exponent mantissa, 1 <= mantissa < 2. */
static inline vf v_exponent(vf a) {
    return v_from(_mm256_sub_epi32(_mm256_srli_epi32(_mm256_castps_si256(a), 23), _mm256_set1_epi32(127)));
}
static inline vf v_mantissa(vf a) {
    const __m256i digits = _mm256_and_si256(_mm256_castps_si256(a), _mm256_set1_epi32(0x7fffff));
    return _mm256_castsi256_ps(_mm256_or_si256(digits, _mm256_set1_epi32(0x3f800000)));
}
/* The number of the half octave of a. [1, 1.5), [1.5, 2), [2, 3), .. have consecutive numbers, whose last three bits
 * are 6, 7, 0, .. */
static inline vi v_half_octave(vf a) { return _mm256_srli_epi32(_mm256_castps_si256(a), 22); }
static inline vf v_permute(vf a, vi index) { return _mm256_permutevar8x32_ps(a, index); }
/* table[index mod 8], of a table of 8 numbers written twice. */
static inline vf v_lookup(const float table[16], vi index) { return v_permute(v_load(table), index); }
static inline vi vi_permute(vi a, vi index) { return _mm256_permutevar8x32_epi32(a, index); }

/* Pairs of bfloat16, each in the bits of one float. v_interleave_bf16: pair i is (low[i], high[i]). v_to_bf16: the 2 VW
 * numbers of both vectors in their order. v_fma_bf16: adds the products of both halves to c, the upper half first. */
/* a rounded to nearest even, in the upper half of each word. The lower half is undefined. */
static inline __m256i v_round_bf16(vf a) {
    const __m256i bits = _mm256_castps_si256(a), odd = _mm256_srli_epi32(_mm256_slli_epi32(bits, 15), 31);
    const __m256i r = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const vf sign = _mm256_and_ps(a, _mm256_set1_ps(-0.0f)), least = _mm256_set1_ps(1.17549435e-38f);
    const vf s = _mm256_blendv_ps(_mm256_castsi256_ps(r), sign, _mm256_cmp_ps(v_abs(a), least, _CMP_LT_OQ));
    return _mm256_castps_si256(_mm256_blendv_ps(s, _mm256_castsi256_ps(quiet), _mm256_cmp_ps(a, a, _CMP_UNORD_Q)));
}
static inline vf v_interleave_bf16(vf low, vf high) {
    const __m256i upper = _mm256_and_si256(v_round_bf16(high), _mm256_set1_epi32(-65536));
    return _mm256_castsi256_ps(_mm256_or_si256(_mm256_srli_epi32(v_round_bf16(low), 16), upper));
}
static inline vf v_to_bf16(vf first, vf second) {
    const __m256i a = _mm256_srli_epi32(v_round_bf16(first), 16), b = _mm256_srli_epi32(v_round_bf16(second), 16);
    return _mm256_castsi256_ps(_mm256_permute4x64_epi64(_mm256_packus_epi32(a, b), 0xd8));
}
static inline vf v_lower(vf a) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(a), 16)); }
static inline vf v_upper(vf a) { return _mm256_and_ps(a, _mm256_castsi256_ps(_mm256_set1_epi32(-65536))); }
static inline vf v_fma_bf16(vf a, vf b, vf c) {
    return v_fma(v_lower(a), v_lower(b), v_fma(v_upper(a), v_upper(b), c));
}

/* Transposes a block of 8 x 8. */
static inline void v_transpose8(const float *in, size_t ldi, float *out, size_t ldo) {
    __m256 a[8], b[8];
    for (int i = 0; i < 8; i++) a[i] = _mm256_loadu_ps(in + (size_t)i * ldi);
    for (int i = 0; i < 8; i += 2) {
        b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
    }
    for (int i = 0; i < 8; i += 4)
        for (int j = 0; j < 2; j++) {
            a[i + 2 * j] = _mm256_shuffle_ps(b[i + j], b[i + j + 2], 0x44);
            a[i + 2 * j + 1] = _mm256_shuffle_ps(b[i + j], b[i + j + 2], 0xee);
        }
    for (int c = 0; c < 4; c++) {
        _mm256_storeu_ps(out + (size_t)c * ldo, _mm256_permute2f128_ps(a[c], a[c + 4], 0x20));
        _mm256_storeu_ps(out + (size_t)(c + 4) * ldo, _mm256_permute2f128_ps(a[c], a[c + 4], 0x31));
    }
}
/* Transposes a block of 16 x 16 as four of 8 x 8. */
static inline void v_transpose16(const float *in, size_t ldi, float *out, size_t ldo) {
    v_transpose8(in, ldi, out, ldo);
    v_transpose8(in + 8, ldi, out + 8 * ldo, ldo);
    v_transpose8(in + 8 * ldi, ldi, out + 8, ldo);
    v_transpose8(in + 8 * ldi + 8, ldi, out + 8 * ldo + 8, ldo);
}

#endif
