/* The part of scalar.c for positions: random words, normal numbers, sinusoids over tokens, rotations of pairs and
 * scaling of blocks. */
#include "base/random.h"
#include "kernel/kernel.h"

static void random_words(size_t blocks, uint64_t seed, uint64_t stream, uint64_t index, uint32_t *words) {
    for (size_t i = 0; i < blocks; i++) ll_random4(words + 4 * i, seed, stream, index + i);
}

static void normals(size_t n, const uint32_t *words, float *x) {
    for (size_t i = 0; i < n; i += 2) ll_normal_pair(x + i, words[i], words[i + 1]);
}

static void sinusoids(size_t n, const double *c1, const double *s1, double *c, double *s, int C, float *out,
                      size_t ldo) {
    for (int i = 0; i < C; i++)
        for (size_t j = 0; j < n; j++) {
            const double next = c[j] * c1[j] - s[j] * s1[j];
            if (out) {
                out[(size_t)i * ldo + 2 * j] = (float)c[j];
                out[(size_t)i * ldo + 2 * j + 1] = (float)s[j];
            }
            s[j] = s[j] * c1[j] + c[j] * s1[j];
            c[j] = next;
        }
}

static void rotate_pairs(int C, size_t n, int back, const float *cs, size_t ldc, const float *x, size_t ldx, float *out,
                         size_t ldo) {
    for (int i = 0; i < C; i++, cs += ldc, x += ldx, out += ldo)
        for (size_t j = 0; j < 2 * n; j += 2) {
            const float c = cs[j], s = back ? -cs[j + 1] : cs[j + 1], a = x[j], b = x[j + 1];
            out[j] = a * c - b * s;
            out[j + 1] = b * c + a * s;
        }
}

static void scale_blocks(int C, int m, int n, const float *x, size_t ldx, const float *a, size_t lda, float *out,
                         size_t ldo) {
    for (int i = 0; i < C; i++, x += ldx, a += lda, out += ldo)
        for (int j = 0; j < m * n; j++) out[j] = x[j / n] * a[j];
}

static void scale_blocks_back(int C, int m, int n, const float *x, size_t ldx, const float *a, size_t lda,
                              const float *dout, size_t ldd, float *dx, size_t lddx, float *sum) {
    float *S0 = sum, *S1 = sum + m * n, *S2 = sum + 2 * m * n;
    for (int i = 0; i < C; i++, x += ldx, a += lda, dout += ldd, dx += lddx)
        for (int c = 0; c < m; c++) {
            float total = 0;
            for (int j = c * n; j < (c + 1) * n; j++) {
                const float swapped = x[c] * (a[j ^ 1] * dout[j]);
                total += a[j] * dout[j];
                S0[j] += x[c] * (a[j] * dout[j]);
                S1[j] += swapped;
                S2[j] += (float)i * swapped;
            }
            dx[c] = total;
        }
}
