/* The vector operations of body.h in AVX-512: 16 floats. */
#ifndef LL_VEC_AVX512_H
#define LL_VEC_AVX512_H

#if !defined(__AVX512F__) || !defined(__AVX512DQ__)
#error "compile this file with -mavx512f -mavx512dq"
#endif
#include <immintrin.h>
#include <stdint.h>

#define VW 16     /* floats in a vector */
#define VROWS 8   /* rows of a product tile in registers */
#define VTILE 32  /* tokens in a tile of linear attention */
#define VSCAN_TILE 64 /* of its causal forward pass */
#define VSCAN 8   /* rows of its state in registers */
#define VGRADIENT 4 /* the same in the scan of a backward pass */

typedef __m512 vf;
typedef __m512i vi;

static inline __mmask16 v_mask(size_t n) { return (__mmask16)((1u << n) - 1u); }
static inline vf v_load(const float *p) { return _mm512_loadu_ps(p); }
static inline void v_store(float *p, vf a) { _mm512_storeu_ps(p, a); }
/* Only the first n < VW floats. The other lanes of a loaded vector are 0. */
static inline vf v_load_n(const float *p, size_t n) { return _mm512_maskz_loadu_ps(v_mask(n), p); }
static inline void v_store_n(float *p, size_t n, vf a) { _mm512_mask_storeu_ps(p, v_mask(n), a); }
/* VW numbers in bfloat16 or int8 as floats, and those in the lower or upper four bits of bytes, minus 8. */
static inline vf v_load_bf16(const uint16_t *p) {
    const __m256i bf16 = _mm256_loadu_si256((const __m256i *)(const void *)p);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bf16), 16));
}
static inline vf v_load_int8(const int8_t *p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)));
}
/* The lower four bits of each word, minus 8: they choose one of 16 floats. */
static inline vf v_signed4(__m512i words) {
    const vf table = _mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7);
    return _mm512_permutexvar_ps(words, table);
}
static inline __m512i v_bytes(const uint8_t *p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
}
static inline vf v_load_lower4(const uint8_t *p) { return v_signed4(v_bytes(p)); }
static inline vf v_load_upper4(const uint8_t *p) { return v_signed4(_mm512_srli_epi32(v_bytes(p), 4)); }
static inline vf v_set(float a) { return _mm512_set1_ps(a); }
static inline vf v_add(vf a, vf b) { return _mm512_add_ps(a, b); }
static inline vf v_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
static inline vf v_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
static inline vf v_div(vf a, vf b) { return _mm512_div_ps(a, b); }
static inline vf v_sqrt(vf a) { return _mm512_sqrt_ps(a); }
static inline vf v_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
/* a b - c with one rounding, where c is a b rounded: what the rounding took away. */
static inline vf v_product_rest(vf a, vf b, vf c) { return v_fma(a, b, v_sub(v_set(0), c)); }
/* If either is NaN, the result is b. */
static inline vf v_max(vf a, vf b) { return _mm512_max_ps(a, b); }
static inline vf v_min(vf a, vf b) { return _mm512_min_ps(a, b); }
static inline vf v_abs(vf a) { return _mm512_abs_ps(a); }
/* a > 0 ? b : 0, and a > 0 ? b : c */
static inline vf v_positive(vf a, vf b) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a, _mm512_setzero_ps(), _CMP_GT_OQ), b);
}
static inline vf v_select_positive(vf a, vf b, vf c) {
    return _mm512_mask_mov_ps(c, _mm512_cmp_ps_mask(a, _mm512_setzero_ps(), _CMP_GT_OQ), b);
}
static inline vf v_round(vf a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
/* a 2^n for integral n. Other tiers have 0 if n < -126, and infinity if n > 127. */
static inline vf v_scale2(vf a, vf n) { return _mm512_scalef_ps(a, n); }
/* The sum and the largest of all lanes. */
static inline float v_sum(vf a) { return _mm512_reduce_add_ps(a); }
/* Adds the sums of VGRADIENT vectors to as many numbers. */
static inline void v_add_sums(float *p, const vf v[VGRADIENT]) {
    const vf a = v[0], b = v[1], c = v[2], d = v[3];
    const vf ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b)); /* a b a b in each quarter */
    const vf cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    const __m512d x = _mm512_castps_pd(ab), y = _mm512_castps_pd(cd);
    const vf low = _mm512_castpd_ps(_mm512_unpacklo_pd(x, y)), high = _mm512_castpd_ps(_mm512_unpackhi_pd(x, y));
    const vf all = _mm512_add_ps(low, high);
    const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(all), _mm512_extractf32x8_ps(all, 1));
    const __m128 sums = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    _mm_storeu_ps(p, _mm_add_ps(_mm_loadu_ps(p), sums));
}
static inline float v_hmax(vf a) { return _mm512_reduce_max_ps(a); }
/* Vectors of VD doubles. vd_load_n and vd_store_n take the first n <= VD. */
#define VD 8
typedef __m512d vd;
static inline __mmask8 vd_mask(size_t n) { return (__mmask8)((1u << n) - 1u); }
static inline vd vd_load(const double *p) { return _mm512_loadu_pd(p); }
static inline void vd_store(double *p, vd a) { _mm512_storeu_pd(p, a); }
static inline vd vd_load_n(const double *p, size_t n) { return _mm512_maskz_loadu_pd(vd_mask(n), p); }
static inline void vd_store_n(double *p, size_t n, vd a) { _mm512_mask_storeu_pd(p, vd_mask(n), a); }
static inline vd vd_set(double a) { return _mm512_set1_pd(a); }
static inline vd vd_mul(vd a, vd b) { return _mm512_mul_pd(a, b); }
static inline vd vd_fma(vd a, vd b, vd c) { return _mm512_fmadd_pd(a, b, c); }

/* Pairs (x, y) of neighbouring lanes. v_swap: (y, x). v_pairs: lanes of two vectors of doubles as pairs of floats.
 * v_rotate_pairs: (c x - s y, c y + s x) for pairs (c, s) of cs. v_rotate_pairs_back: the same with -s. */
static inline vf v_swap(vf a) { return _mm512_permute_ps(a, 0xb1); }
static inline vf v_pairs(vd a, vd b) {
    const __m512i order = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    return _mm512_permutex2var_ps(_mm512_castps256_ps512(_mm512_cvtpd_ps(a)), order,
                                  _mm512_castps256_ps512(_mm512_cvtpd_ps(b)));
}
static inline vf v_rotate_pairs(vf a, vf cs) {
    return _mm512_fmaddsub_ps(a, _mm512_moveldup_ps(cs), v_mul(v_swap(a), _mm512_movehdup_ps(cs)));
}
static inline vf v_rotate_pairs_back(vf a, vf cs) {
    return _mm512_fmsubadd_ps(a, _mm512_moveldup_ps(cs), v_mul(v_swap(a), _mm512_movehdup_ps(cs)));
}

static inline vi vi_load(const int *p) { return _mm512_loadu_si512(p); }
/* Words of 32 bits. vi_even, vi_odd: the first or the second word of each pair, twice. vi_high, vi_low: the upper or
 * lower 16 bits. v_from: signed words as floats. */
static inline vi vi_even(vi a) { return _mm512_shuffle_epi32(a, 0xa0); }
static inline vi vi_odd(vi a) { return _mm512_shuffle_epi32(a, 0xf5); }
static inline vi vi_high(vi a) { return _mm512_srli_epi32(a, 16); }
static inline vi vi_low(vi a) { return _mm512_and_si512(a, _mm512_set1_epi32(0xffff)); }
/* Numbers of 16 bits, one for each lane. */
static inline vi vi_load_halves(const uint32_t *p) {
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
static inline vf v_from(vi a) { return _mm512_cvtepi32_ps(a); }
static inline vi vi_set(int a) { return _mm512_set1_epi32(a); }
static inline vi vi_add(vi a, vi b) { return _mm512_add_epi32(a, b); }
static inline vi vi_xor(vi a, vi b) { return _mm512_xor_si512(a, b); }
/* The lower and the upper 32 bits of products of unsigned words. */
static inline vi vi_mul_low(vi a, vi b) { return _mm512_mullo_epi32(a, b); }
static inline vi vi_mul_high(vi a, vi b) {
    const __m512i even = _mm512_srli_epi64(_mm512_mul_epu32(a, b), 32);
    return _mm512_mask_mov_epi32(even, 0xaaaa, _mm512_mul_epu32(_mm512_srli_epi64(a, 32), _mm512_srli_epi64(b, 32)));
}
/* Stores VW blocks of four words, one after the other. Word w of block i is in lane i / (VW/4) + 4 (i mod VW/4) of
 * c[w]. */
static inline void vi_store_blocks(uint32_t *out, const vi c[4]) {
    const vi a = _mm512_unpacklo_epi32(c[0], c[1]), b = _mm512_unpackhi_epi32(c[0], c[1]);
    const vi d = _mm512_unpacklo_epi32(c[2], c[3]), e = _mm512_unpackhi_epi32(c[2], c[3]);
    _mm512_storeu_si512(out, _mm512_unpacklo_epi64(a, d));
    _mm512_storeu_si512(out + VW, _mm512_unpackhi_epi64(a, d));
    _mm512_storeu_si512(out + 2 * VW, _mm512_unpacklo_epi64(b, e));
    _mm512_storeu_si512(out + 3 * VW, _mm512_unpackhi_epi64(b, e));
}
/* Changes the sign of a where bit 31 of b is set. */
static inline vf v_flip(vf a, vi b) {
    return _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(a), _mm512_and_si512(b, vi_set(INT32_MIN))));
}
/* Exponent and mantissa of a normal a > 0: a = 2^exponent mantissa, 1 <= mantissa < 2. */
static inline vf v_exponent(vf a) { return _mm512_getexp_ps(a); }
static inline vf v_mantissa(vf a) { return _mm512_getmant_ps(a, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_src); }
/* The number of the half octave of a. [1, 1.5), [1.5, 2), [2, 3), .. have consecutive numbers, whose last three bits
 * are 6, 7, 0, .. */
static inline vi v_half_octave(vf a) { return _mm512_srli_epi32(_mm512_castps_si512(a), 22); }
static inline vf v_permute(vf a, vi index) { return _mm512_permutexvar_ps(index, a); }
/* table[index mod 8], of a table of 8 numbers written twice. */
static inline vf v_lookup(const float table[16], vi index) { return v_permute(v_load(table), index); }
static inline vi vi_permute(vi a, vi index) { return _mm512_permutexvar_epi32(index, a); }
/* The same of two vectors: an index of VW or more is a lane of b. */
#define HAS_PERMUTE_PAIR 1
static inline vf v_permute_pair(vf a, vf b, vi index) { return _mm512_permutex2var_ps(a, index, b); }
static inline vi vi_permute_pair(vi a, vi b, vi index) { return _mm512_permutex2var_epi32(a, index, b); }

/* Pairs of bfloat16, each in the bits of one float. v_interleave_bf16: pair i is (low[i], high[i]). v_to_bf16: the 2 VW
 * numbers of both vectors in their order. v_fma_bf16: adds the products of both halves to c, the upper half first. */
#if defined(__AVX512BF16__)
static inline vf v_to_bf16(vf first, vf second) {
    return _mm512_castsi512_ps((__m512i)_mm512_cvtne2ps_pbh(second, first));
}
static inline vf v_interleave_bf16(vf low, vf high) {
    static const uint16_t from[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                      8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    const __m512i both = (__m512i)_mm512_cvtne2ps_pbh(high, low);
    return _mm512_castsi512_ps(_mm512_permutexvar_epi16(_mm512_loadu_si512(from), both));
}
static inline vf v_fma_bf16(vf a, vf b, vf c) {
    return _mm512_dpbf16_ps(c, (__m512bh)_mm512_castps_si512(a), (__m512bh)_mm512_castps_si512(b));
}
#else
/* a rounded to nearest even, in the upper half of each word. The lower half is undefined. */
static inline __m512i v_round_bf16(vf a) {
    const __m512i bits = _mm512_castps_si512(a), odd = _mm512_srli_epi32(_mm512_slli_epi32(bits, 15), 31);
    __m512i r = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    /* Subnormal numbers become 0 with their sign. In the library's mode they count as +0 and -0. */
    r = _mm512_mask_and_epi32(r, _mm512_fpclass_ps_mask(a, 0x26), bits, _mm512_set1_epi32(INT32_MIN));
    return _mm512_mask_or_epi32(r, _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), bits, _mm512_set1_epi32(0x400000));
}
static inline vf v_interleave_bf16(vf low, vf high) {
    const __m512i upper = _mm512_and_si512(v_round_bf16(high), _mm512_set1_epi32(-65536));
    return _mm512_castsi512_ps(_mm512_or_si512(_mm512_srli_epi32(v_round_bf16(low), 16), upper));
}
static inline vf v_to_bf16(vf first, vf second) {
    const __m256i a = _mm512_cvtepi32_epi16(_mm512_srli_epi32(v_round_bf16(first), 16));
    const __m256i b = _mm512_cvtepi32_epi16(_mm512_srli_epi32(v_round_bf16(second), 16));
    return _mm512_castsi512_ps(_mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1));
}
static inline vf v_lower(vf a) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(a), 16)); }
static inline vf v_upper(vf a) { return _mm512_and_ps(a, _mm512_castsi512_ps(_mm512_set1_epi32(-65536))); }
static inline vf v_fma_bf16(vf a, vf b, vf c) {
    return v_fma(v_lower(a), v_lower(b), v_fma(v_upper(a), v_upper(b), c));
}
#endif

/* Transposes a block of 16 x 16: exchanges lanes of 32, then of 64, 128 and 256 bits. */
static inline void v_transpose16(const float *in, size_t ldi, float *out, size_t ldo) {
    __m512 a[16], b[16];
    for (int i = 0; i < 16; i++) a[i] = _mm512_loadu_ps(in + (size_t)i * ldi);
    for (int i = 0; i < 16; i += 2) {
        b[i] = _mm512_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm512_unpackhi_ps(a[i], a[i + 1]);
    }
    for (int i = 0; i < 16; i += 4)
        for (int j = 0; j < 2; j++) {
            const __m512d x = _mm512_castps_pd(b[i + j]), y = _mm512_castps_pd(b[i + j + 2]);
            a[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(x, y));
            a[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(x, y));
        }
    /* a[4g + c] holds columns c, c+4, c+8, c+12 of rows 4g..4g+3. */
    for (int c = 0; c < 4; c++) {
        const __m512 p = _mm512_shuffle_f32x4(a[c], a[4 + c], 0x88), q = _mm512_shuffle_f32x4(a[c], a[4 + c], 0xdd);
        const __m512 r = _mm512_shuffle_f32x4(a[8 + c], a[12 + c], 0x88);
        const __m512 s = _mm512_shuffle_f32x4(a[8 + c], a[12 + c], 0xdd);
        _mm512_storeu_ps(out + (size_t)c * ldo, _mm512_shuffle_f32x4(p, r, 0x88));
        _mm512_storeu_ps(out + (size_t)(c + 8) * ldo, _mm512_shuffle_f32x4(p, r, 0xdd));
        _mm512_storeu_ps(out + (size_t)(c + 4) * ldo, _mm512_shuffle_f32x4(q, s, 0x88));
        _mm512_storeu_ps(out + (size_t)(c + 12) * ldo, _mm512_shuffle_f32x4(q, s, 0xdd));
    }
}

#endif
