/* Products. One register tile of VROWS x 2 vectors does all the work: per k it loads two vectors of B
 * and broadcasts VROWS numbers of A, so that the FMA units, not the loads, are the limit. */

#define ALWAYS static inline __attribute__((always_inline))

/* C (MR x NV vectors, the last of `tail` floats if TAIL) = or += A B, of PAIRS or of floats; all but K, strides and
 * pointers are constants after inlining. */
ALWAYS void micro(const int PAIRS, const int MR, const int NV, const int TAIL, size_t tail, int K,
                  const float *restrict A, size_t row, size_t col, const float *restrict B, size_t ldb,
                  float *restrict C, size_t ldc, int add) {
    vf acc[VROWS][2];
#pragma GCC unroll 8
    for (int i = 0; i < MR; i++)
#pragma GCC unroll 2
        for (int v = 0; v < NV; v++) acc[i][v] = v_set(0);
    for (int k = 0; k < K; k++, A += col, B += ldb) {
        vf b[2];
#pragma GCC unroll 2
        for (int v = 0; v < NV; v++) b[v] = TAIL && v == NV - 1 ? v_load_n(B + v * VW, tail) : v_load(B + v * VW);
#pragma GCC unroll 8
        for (int i = 0; i < MR; i++) {
            const vf a = v_set(A[(size_t)i * row]);
#pragma GCC unroll 2
            for (int v = 0; v < NV; v++)
                acc[i][v] = PAIRS ? v_fma_pairs(a, b[v], acc[i][v]) : v_fma(a, b[v], acc[i][v]);
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < MR; i++)
#pragma GCC unroll 2
        for (int v = 0; v < NV; v++) {
            float *c = C + (size_t)i * ldc + v * VW;
            if (TAIL && v == NV - 1) {
                v_store_n(c, tail, add ? v_add(v_load_n(c, tail), acc[i][v]) : acc[i][v]);
            } else {
                v_store(c, add ? v_add(v_load(c), acc[i][v]) : acc[i][v]);
            }
        }
}

/* All rows of one panel of columns: whole register tiles, then 4, 2 and 1 rows. */
ALWAYS void micro_rows(const int PAIRS, const int NV, const int TAIL, size_t tail, int M, int K, const float *A,
                       size_t row, size_t col, const float *B, size_t ldb, float *C, size_t ldc, int add) {
    for (; M >= VROWS; M -= VROWS, A += VROWS * row, C += VROWS * ldc)
        micro(PAIRS, VROWS, NV, TAIL, tail, K, A, row, col, B, ldb, C, ldc, add);
    for (; M >= 4; M -= 4, A += 4 * row, C += 4 * ldc)
        micro(PAIRS, 4, NV, TAIL, tail, K, A, row, col, B, ldb, C, ldc, add);
    for (; M >= 2; M -= 2, A += 2 * row, C += 2 * ldc)
        micro(PAIRS, 2, NV, TAIL, tail, K, A, row, col, B, ldb, C, ldc, add);
    if (M) micro(PAIRS, 1, NV, TAIL, tail, K, A, row, col, B, ldb, C, ldc, add);
}

/* One of the strides of A is the constant 1 after inlining. */
ALWAYS void gemm_strided(const int PAIRS, int M, int N, int K, const float *A, size_t row, size_t col, const float *B,
                         size_t ldb, float *C, size_t ldc, int add) {
    int j = 0;
    for (; j + 2 * VW <= N; j += 2 * VW) micro_rows(PAIRS, 2, 0, 0, M, K, A, row, col, B + j, ldb, C + j, ldc, add);
    const size_t tail = (size_t)(N - j) % VW;
    if (N - j > VW) {
        micro_rows(PAIRS, 2, 1, tail, M, K, A, row, col, B + j, ldb, C + j, ldc, add);
    } else if (N - j == VW) {
        micro_rows(PAIRS, 1, 0, 0, M, K, A, row, col, B + j, ldb, C + j, ldc, add);
    } else if (N - j > 0) {
        micro_rows(PAIRS, 1, 1, tail, M, K, A, row, col, B + j, ldb, C + j, ldc, add);
    }
}

static void gemm(int M, int N, int K, const float *A, size_t row, size_t col, const float *B, size_t ldb, float *C,
                 size_t ldc, int add) {
    if (col == 1) {
        gemm_strided(0, M, N, K, A, row, 1, B, ldb, C, ldc, add);
    } else {
        gemm_strided(0, M, N, K, A, 1, col, B, ldb, C, ldc, add);
    }
}

static void gemm_pairs(int M, int N, int K, const float *A, size_t row, size_t col, const float *B, size_t ldb,
                       float *C, size_t ldc, int add) {
    if (col == 1) {
        gemm_strided(1, M, N, K, A, row, 1, B, ldb, C, ldc, add);
    } else {
        gemm_strided(1, M, N, K, A, 1, col, B, ldb, C, ldc, add);
    }
}

static void pair(size_t n, const float *low, const float *high, float *y) {
    size_t i = 0;
    for (; i + VW <= n; i += VW) v_store(y + i, v_pair(v_load(low + i), high ? v_load(high + i) : v_set(0)));
    if (i == n) return;
    v_store_n(y + i, n - i, v_pair(v_load_n(low + i, n - i), high ? v_load_n(high + i, n - i) : v_set(0)));
}

static void halve(size_t n, const float *x, float *y) {
    size_t i = 0;
    for (; i + 2 * VW <= n; i += 2 * VW) v_store(y + i / 2, v_halve(v_load(x + i), v_load(x + i + VW)));
    const size_t rest = n - i, second = rest > VW ? rest - VW : 0;
    if (!rest) return;
    const vf a = rest >= VW ? v_load(x + i) : v_load_n(x + i, rest);
    const vf b = second ? v_load_n(x + i + VW, second) : v_set(0);
    v_store_n(y + i / 2, (rest + 1) / 2, v_halve(a, b));
}

/* One row: B is read once, four rows at a time, so the limit is memory. */
static void gemv(int N, int K, const float *x, const float *B, size_t ldb, float *y, int add) {
    if (!add)
        for (int j = 0; j < N; j++) y[j] = 0;
    int k = 0;
    for (; k + 4 <= K; k += 4, B += 4 * ldb) {
        const vf a = v_set(x[k]), b = v_set(x[k + 1]), c = v_set(x[k + 2]), d = v_set(x[k + 3]);
        int j = 0;
        for (; j + VW <= N; j += VW) {
            vf s = v_fma(a, v_load(B + j), v_load(y + j));
            s = v_fma(b, v_load(B + ldb + j), s);
            s = v_fma(c, v_load(B + 2 * ldb + j), s);
            v_store(y + j, v_fma(d, v_load(B + 3 * ldb + j), s));
        }
        if (j < N) {
            const size_t n = (size_t)(N - j);
            vf s = v_fma(a, v_load_n(B + j, n), v_load_n(y + j, n));
            s = v_fma(b, v_load_n(B + ldb + j, n), s);
            s = v_fma(c, v_load_n(B + 2 * ldb + j, n), s);
            v_store_n(y + j, n, v_fma(d, v_load_n(B + 3 * ldb + j, n), s));
        }
    }
    for (; k < K; k++, B += ldb) axpy((size_t)N, x[k], B, y);
}

/* VW, or the first n < VW, of the numbers at place `at` as floats. */
ALWAYS vf wide(const uint16_t *half, const int8_t *byte, size_t at, vf scale) {
    return half ? v_load_half(half + at) : v_mul(v_load_byte(byte + at), scale);
}
ALWAYS vf wide_n(const uint16_t *half, const int8_t *byte, size_t at, vf scale, size_t n) {
    float x[VW] = {0};
    for (size_t i = 0; i < n; i++) x[i] = half ? ll_half_float(half[at + i]) : (float)byte[at + i];
    return half ? v_load(x) : v_mul(v_load(x), scale);
}

/* y += x B for a few rows of B, which begin at place `at`. */
ALWAYS void add_narrow(int rows, int N, const vf *x, const uint16_t *half, const int8_t *byte, size_t at, size_t ldb,
                       const float *scale, float *y) {
    const int whole = N - N % VW;
    for (int j = 0; j < whole; j += VW) {
        const vf unit = half ? v_set(0) : v_load(scale + j);
        vf s = v_load(y + j);
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) s = v_fma(x[r], wide(half, byte, at + (size_t)r * ldb + (size_t)j, unit), s);
        v_store(y + j, s);
    }
    if (whole == N) return;
    const size_t n = (size_t)(N - whole);
    const vf unit = half ? v_set(0) : v_load_n(scale + whole, n);
    vf s = v_load_n(y + whole, n);
    for (int r = 0; r < rows; r++)
        s = v_fma(x[r], wide_n(half, byte, at + (size_t)r * ldb + (size_t)whole, unit, n), s);
    v_store_n(y + whole, n, s);
}

/* As gemv, sum for sum; one of half and byte is NULL. */
ALWAYS void gemv_narrow(int N, int K, const float *x, const uint16_t *half, const int8_t *byte, size_t ldb,
                        const float *scale, float *y) {
    int k = 0;
    for (int j = 0; j < N; j++) y[j] = 0;
    for (; k + 4 <= K; k += 4) {
        const vf four[4] = {v_set(x[k]), v_set(x[k + 1]), v_set(x[k + 2]), v_set(x[k + 3])};
        add_narrow(4, N, four, half, byte, (size_t)k * ldb, ldb, scale, y);
    }
    for (; k < K; k++) {
        const vf one = v_set(x[k]);
        add_narrow(1, N, &one, half, byte, (size_t)k * ldb, ldb, scale, y);
    }
}

static void gemv_half(int N, int K, const float *x, const uint16_t *B, size_t ldb, float *y) {
    gemv_narrow(N, K, x, B, NULL, ldb, NULL, y);
}

static void gemv_byte(int N, int K, const float *x, const int8_t *B, size_t ldb, const float *scale, float *y) {
    gemv_narrow(N, K, x, NULL, B, ldb, scale, y);
}

static void gemv_rows(int M, int K, const float *A, size_t lda, const float *x, float *y, int add) {
    for (int i = 0; i < M; i++, A += lda) y[i] = (add ? y[i] : 0) + dot((size_t)K, A, x);
}

/* Blocks of 16 x 16 keep the lines of both sides in L1. */
static void transpose(int rows, int cols, const float *in, size_t ldi, float *out, size_t ldo) {
    for (int r = 0; r < rows; r += 16)
        for (int c = 0; c < cols; c += 16) {
            const int re = r + 16 < rows ? r + 16 : rows, ce = c + 16 < cols ? c + 16 : cols;
            if (re - r == 16 && ce - c == 16) {
                v_transpose16(in + (size_t)r * ldi + c, ldi, out + (size_t)c * ldo + r, ldo);
                continue;
            }
            for (int i = r; i < re; i++)
                for (int j = c; j < ce; j++) out[(size_t)j * ldo + i] = in[(size_t)i * ldi + j];
        }
}
