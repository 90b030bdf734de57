/* Matrix products. One register tile of VROWS rows and 2 vectors does all the work. For each k it loads two vectors of
 * B and broadcasts VROWS numbers of A. So the FMA units are the limit, not the loads. */

#define ALWAYS static inline __attribute__((always_inline))

/* Makes the next row of `next` the current one. */
static __attribute__((noinline)) void open_row(ll_prefetch *next) {
    next->line = NULL;
    if (next->at == next->parts) return;
    const ll_prefetch_part *p = &next->part[next->at];
    next->line = p->data + (size_t)next->row * p->ld;
    next->left = p->lines * 16;
    if (++next->row == p->rows) next->row = 0, next->at++;
}

/* Adds term k, or pair k if BF16, to the sums of a register tile. */
ALWAYS void micro_step(const int BF16, const int MR, const int NV, const int TAIL, size_t tail, const float *restrict A,
                       size_t row, const float *restrict B, vf acc[VROWS][2]) {
    vf b[2];
#pragma GCC unroll 2
    for (int v = 0; v < NV; v++) b[v] = TAIL && v == NV - 1 ? v_load_n(B + v * VW, tail) : v_load(B + v * VW);
#pragma GCC unroll 8
    for (int i = 0; i < MR; i++) {
        const vf a = v_set(A[(size_t)i * row]);
#pragma GCC unroll 2
        for (int v = 0; v < NV; v++) acc[i][v] = BF16 ? v_fma_bf16(a, b[v], acc[i][v]) : v_fma(a, b[v], acc[i][v]);
    }
}

/* What becomes of the rows of a product: C = A B; C += A B if `add`; row i of A B times factor[i] if not NULL. */
typedef struct {
    int add;
    const float *factor;
} product_end;

/* One register tile. C has MR rows of NV vectors; if TAIL, only `tail` floats of the last vector exist. BF16: A and B
 * hold pairs of bfloat16. Each step prefetches the address `pace` floats after that of the step before; 0: no prefetch.
 * BF16, MR, NV and TAIL are constants after inlining. */
ALWAYS void micro(const int BF16, const int MR, const int NV, const int TAIL, size_t tail, int K,
                  const float *restrict A, size_t row, size_t col, const float *restrict B, size_t ldb,
                  float *restrict C, size_t ldc, product_end end, ll_prefetch *next, int pace) {
    vf acc[VROWS][2];
    /* C is prefetched even without `add`: the processor reads a line before it writes a part of it. */
#pragma GCC unroll 8
    for (int i = 0; i < MR; i++)
#pragma GCC unroll 2
        for (int v = 0; v < NV; v++) {
            acc[i][v] = v_set(0);
            __builtin_prefetch(C + (size_t)i * ldc + v * VW, 1, 3);
        }
    int k = 0;
    /* Every step prefetches, because to skip steps would need a branch. Lines go to L2; L1 holds the operands. */
    while (pace && k < K && next->line) {
        const float *line = next->line;
        const int steps = (next->left + pace - 1) / pace, to = steps < K - k ? k + steps : K;
        next->left -= (to - k) * pace;
        for (; k < to; k++, A += col, B += ldb, line += pace) {
            __builtin_prefetch(line, 0, 2);
            micro_step(BF16, MR, NV, TAIL, tail, A, row, B, acc);
        }
        next->line = line;
        if (next->left <= 0) open_row(next);
    }
    for (; k < K; k++, A += col, B += ldb) micro_step(BF16, MR, NV, TAIL, tail, A, row, B, acc);
#pragma GCC unroll 8
    for (int i = 0; i < MR; i++)
#pragma GCC unroll 2
        for (int v = 0; v < NV; v++) {
            if (end.factor) acc[i][v] = v_mul(v_set(end.factor[i]), acc[i][v]);
            float *c = C + (size_t)i * ldc + v * VW;
            if (TAIL && v == NV - 1) {
                v_store_n(c, tail, end.add ? v_add(v_load_n(c, tail), acc[i][v]) : acc[i][v]);
            } else {
                v_store(c, end.add ? v_add(v_load(c), acc[i][v]) : acc[i][v]);
            }
        }
}

ALWAYS product_end end_at(product_end end, int row) {
    return (product_end){end.add, end.factor ? end.factor + row : NULL};
}

/* All rows of one panel of columns: whole register tiles first, then tiles of 4, 2 and 1 rows. Only whole tiles
 * prefetch. */
ALWAYS void micro_rows(const int BF16, const int NV, const int TAIL, size_t tail, int M, int K, const float *A,
                       size_t row, size_t col, const float *B, size_t ldb, float *C, size_t ldc, product_end end,
                       ll_prefetch *next, int pace) {
    int i = 0;
    for (; i + VROWS <= M; i += VROWS, A += VROWS * row, C += VROWS * ldc)
        micro(BF16, VROWS, NV, TAIL, tail, K, A, row, col, B, ldb, C, ldc, end_at(end, i), next, pace);
    for (; i + 4 <= M; i += 4, A += 4 * row, C += 4 * ldc)
        micro(BF16, 4, NV, TAIL, tail, K, A, row, col, B, ldb, C, ldc, end_at(end, i), NULL, 0);
    for (; i + 2 <= M; i += 2, A += 2 * row, C += 2 * ldc)
        micro(BF16, 2, NV, TAIL, tail, K, A, row, col, B, ldb, C, ldc, end_at(end, i), NULL, 0);
    if (i < M) micro(BF16, 1, NV, TAIL, tail, K, A, row, col, B, ldb, C, ldc, end_at(end, i), NULL, 0);
}

/* The whole product, panel by panel. One of the strides of A is the constant 1 after inlining. The pace of prefetching
 * is chosen so that the lines of `next` are spread over all steps. */
ALWAYS void gemm_strided(const int BF16, int M, int N, int K, const float *A, size_t row, size_t col, const float *B,
                         size_t ldb, float *C, size_t ldc, product_end end, ll_prefetch *next) {
    const int64_t steps = (int64_t)(M / VROWS) * (N / (2 * VW)) * K, wanted = next ? next->lines * 16 : 0;
    const int pace = steps <= 0 ? 0 : wanted > 16 * steps ? 16 : (int)((wanted + steps - 1) / steps);
    if (pace) open_row(next);
    int j = 0;
    for (; j + 2 * VW <= N; j += 2 * VW)
        micro_rows(BF16, 2, 0, 0, M, K, A, row, col, B + j, ldb, C + j, ldc, end, next, pace);
    const size_t tail = (size_t)(N - j) % VW;
    if (N - j > VW) {
        micro_rows(BF16, 2, 1, tail, M, K, A, row, col, B + j, ldb, C + j, ldc, end, NULL, 0);
    } else if (N - j == VW) {
        micro_rows(BF16, 1, 0, 0, M, K, A, row, col, B + j, ldb, C + j, ldc, end, NULL, 0);
    } else if (N - j > 0) {
        micro_rows(BF16, 1, 1, tail, M, K, A, row, col, B + j, ldb, C + j, ldc, end, NULL, 0);
    }
}

static void product(int M, int N, int K, const float *A, size_t row, size_t col, const float *B, size_t ldb, float *C,
                    size_t ldc, product_end end, ll_prefetch *next) {
    if (col == 1) {
        gemm_strided(0, M, N, K, A, row, 1, B, ldb, C, ldc, end, next);
    } else {
        gemm_strided(0, M, N, K, A, 1, col, B, ldb, C, ldc, end, next);
    }
}

static void gemm_prefetch(int M, int N, int K, const float *A, size_t row, size_t col, const float *B, size_t ldb,
                          float *C, size_t ldc, int add, ll_prefetch *next) {
    product(M, N, K, A, row, col, B, ldb, C, ldc, (product_end){add, NULL}, next);
}

static void gemm_scaled(int M, int N, int K, const float *A, size_t row, size_t col, const float *B, size_t ldb,
                        const float *factor, float *C, size_t ldc, ll_prefetch *next) {
    product(M, N, K, A, row, col, B, ldb, C, ldc, (product_end){0, factor}, next);
}

static void gemm(int M, int N, int K, const float *A, size_t row, size_t col, const float *B, size_t ldb, float *C,
                 size_t ldc, int add) {
    product(M, N, K, A, row, col, B, ldb, C, ldc, (product_end){add, NULL}, NULL);
}

static void gemm_bf16(int M, int N, int K, const float *A, size_t row, size_t col, const float *B, size_t ldb, float *C,
                      size_t ldc, int add, ll_prefetch *next) {
    const product_end end = {add, NULL};
    if (col == 1) {
        gemm_strided(1, M, N, K, A, row, 1, B, ldb, C, ldc, end, next);
    } else {
        gemm_strided(1, M, N, K, A, 1, col, B, ldb, C, ldc, end, next);
    }
}

static void interleave_bf16(size_t n, const float *low, const float *high, float *y) {
    size_t i = 0;
    for (; i + VW <= n; i += VW) v_store(y + i, v_interleave_bf16(v_load(low + i), high ? v_load(high + i) : v_set(0)));
    if (i == n) return;
    v_store_n(y + i, n - i, v_interleave_bf16(v_load_n(low + i, n - i), high ? v_load_n(high + i, n - i) : v_set(0)));
}

static void to_bf16(size_t n, const float *x, float *y) {
    size_t i = 0;
    for (; i + 2 * VW <= n; i += 2 * VW) v_store(y + i / 2, v_to_bf16(v_load(x + i), v_load(x + i + VW)));
    const size_t rest = n - i, second = rest > VW ? rest - VW : 0;
    if (!rest) return;
    const vf a = rest >= VW ? v_load(x + i) : v_load_n(x + i, rest);
    const vf b = second ? v_load_n(x + i + VW, second) : v_set(0);
    v_store_n(y + i / 2, (rest + 1) / 2, v_to_bf16(a, b));
}

/* Products of few rows. They read B once, so memory is their limit. They take GEMV_ROWS rows of B at a time, so that y
 * is loaded and stored less often. From GEMV_MANY rows of x on, arithmetic is the limit; GEMV_WIDE vectors of B then
 * share each number of x that is broadcast. */
enum { GEMV_ROWS = 8, GEMV_WIDE = 2, GEMV_MANY = 8 };

/* Row k + r of B from column j on. Rows of one call are neighbours from k on, and k is even where they are more than
 * one. unit: their scales, of integers. */
ALWAYS vf gemv_load(ll_matrix B, size_t k, int r, size_t j, vf unit) {
    const size_t at = (k + (size_t)r) * B.ld + j;
    if (B.f) return v_load(B.f + at);
    if (B.bf16) return v_load_bf16(B.bf16 + at);
    if (B.int8) return v_mul(v_load_int8(B.int8 + at), unit);
    const uint8_t *bytes = B.int4 + (k / 2 + (size_t)r / 2) * B.ld + j;
    return v_mul(r & 1 ? v_load_upper4(bytes) : v_load_lower4(bytes), unit);
}

/* The first n < VW numbers of row k from column j on; the rest are 0. */
ALWAYS vf gemv_load_n(ll_matrix B, size_t k, size_t j, size_t n) {
    if (B.f) return v_load_n(B.f + k * B.ld + j, n);
    float x[VW] = {0};
    for (size_t i = 0; i < n; i++) x[i] = ll_matrix_at(&B, k, j + i);
    return v_load(x);
}

ALWAYS vf gemv_unit(ll_matrix B, size_t k, size_t j) {
    return B.scale ? v_load_bf16(B.scale + k / LL_GROUP * B.ld + j) : v_set(0);
}

/* What is prefetched of B next: row after row, although tiles of GEMV_ROWS rows are read, because memory gives lines in
 * their order faster. And into L2, which waits for more lines at once than L1. */
typedef struct {
    const char *row;
    size_t at, bytes, ld; /* where in the row; of its whole vectors; from row to row */
} gemv_ahead;

/* Bytes of a line, and from the rows of a tile to what is prefetched: at most GEMV_AHEAD, and an eighth of B. Behind B
 * lies most often what is read next, so that prefetches go on there. */
enum { GEMV_LINE = 64, GEMV_AHEAD = 49152 };

/* Bytes of a number as it is stored, and in how many stored rows `rows` rows are: two of 4-bit integers share one. */
ALWAYS size_t gemv_size(ll_matrix B) { return B.f ? 4 : B.bf16 ? 2 : 1; }
ALWAYS size_t gemv_stored(ll_matrix B, size_t rows) { return B.int4 ? rows / 2 : rows; }

/* Of B (K, N), behind its first tile. N may be less than a vector. */
ALWAYS gemv_ahead gemv_begin(ll_matrix B, size_t N, size_t K) {
    const char *first = B.f      ? (const char *)B.f
                        : B.bf16 ? (const char *)B.bf16
                        : B.int8 ? (const char *)B.int8
                                 : (const char *)B.int4;
    const size_t bytes = N / VW * VW * gemv_size(B), ld = B.ld * gemv_size(B);
    const size_t all = gemv_stored(B, K) * ld, far = all / 8 < GEMV_AHEAD ? all / 8 : GEMV_AHEAD;
    const size_t row = gemv_stored(B, GEMV_ROWS) + far / (bytes + 1);
    return (gemv_ahead){first + row * ld, 0, bytes, ld};
}

/* As many bytes as a tile has, so that prefetches keep their distance. Where rows are shorter than that, they may take
 * what lies between rows, too. */
ALWAYS void gemv_prefetch(gemv_ahead *a, size_t bytes) {
#pragma GCC unroll 16
    for (size_t i = 0; i < bytes; i += GEMV_LINE) __builtin_prefetch(a->row + a->at + i, 0, 2);
    a->at += bytes;
    for (; a->at >= a->bytes; a->row += a->ld) a->at -= a->bytes;
}

/* The rows of x and of y. */
typedef struct {
    int M;
    const float *x;
    size_t ldx;
    float *y;
    size_t ldy;
} gemv_operands;

/* GEMV_ROWS rows of B from row k on, in `wide` vectors from column j on. factor: the numbers of x by which they are
 * multiplied, if x has one row alone; then these stay in registers. Else NULL. */
ALWAYS void gemv_tile(const int wide, gemv_ahead *ahead, gemv_operands o, const vf *factor, ll_matrix B, size_t k,
                      size_t j) {
    vf b[GEMV_ROWS][GEMV_WIDE];
    gemv_prefetch(ahead, gemv_stored(B, GEMV_ROWS) * (size_t)wide * VW * gemv_size(B));
#pragma GCC unroll 2
    for (int v = 0; v < wide; v++) {
        const size_t at = j + (size_t)v * VW;
        const vf unit = gemv_unit(B, k, at);
#pragma GCC unroll 8
        for (int r = 0; r < GEMV_ROWS; r++) b[r][v] = gemv_load(B, k, r, at, unit);
    }
    for (int i = 0; i < o.M; i++) {
        const float *x = o.x + (size_t)i * o.ldx + k;
        float *y = o.y + (size_t)i * o.ldy + j;
        vf s[GEMV_WIDE];
#pragma GCC unroll 2
        for (int v = 0; v < wide; v++) s[v] = v_load(y + v * VW);
#pragma GCC unroll 8
        for (int r = 0; r < GEMV_ROWS; r++) {
            const vf a = factor ? factor[r] : v_set(x[r]);
#pragma GCC unroll 2
            for (int v = 0; v < wide; v++) s[v] = v_fma(a, b[r][v], s[v]);
        }
#pragma GCC unroll 2
        for (int v = 0; v < wide; v++) v_store(y + v * VW, s[v]);
    }
}

/* y += x B for GEMV_ROWS rows of B from row k on. */
ALWAYS void gemv_few(gemv_ahead *ahead, gemv_operands o, int N, ll_matrix B, size_t k) {
    const size_t whole = (size_t)(N - N % VW), left = (size_t)N - whole;
    size_t j = 0;
    vf factor[GEMV_ROWS];
    for (int r = 0; o.M == 1 && r < GEMV_ROWS; r++) factor[r] = v_set(o.x[k + (size_t)r]);
    for (; o.M >= GEMV_MANY && j + GEMV_WIDE * VW <= whole; j += GEMV_WIDE * VW)
        gemv_tile(GEMV_WIDE, ahead, o, NULL, B, k, j);
    for (; o.M == 1 && j < whole; j += VW) gemv_tile(1, ahead, o, factor, B, k, j);
    for (; j < whole; j += VW) gemv_tile(1, ahead, o, NULL, B, k, j);
    for (int i = 0; i < o.M && left; i++) {
        float *y = o.y + (size_t)i * o.ldy + whole;
        vf s = v_load_n(y, left);
        for (size_t r = 0; r < GEMV_ROWS; r++)
            s = v_fma(v_set(o.x[(size_t)i * o.ldx + k + r]), gemv_load_n(B, k + r, whole, left), s);
        v_store_n(y, left, s);
    }
}

/* The same for one row of B, of any number: of 4-bit integers an odd row lies in the upper bits. */
ALWAYS void gemv_one(gemv_operands o, int N, ll_matrix B, size_t k) {
    const size_t whole = (size_t)(N - N % VW), left = (size_t)N - whole;
    for (int i = 0; i < o.M; i++) {
        const vf factor = v_set(o.x[(size_t)i * o.ldx + k]);
        float *y = o.y + (size_t)i * o.ldy;
        for (size_t j = 0; j < whole; j += VW) {
            const vf b = gemv_load(B, k - k % 2, (int)(k % 2), j, gemv_unit(B, k, j));
            v_store(y + j, v_fma(factor, b, v_load(y + j)));
        }
        if (left) v_store_n(y + whole, left, v_fma(factor, gemv_load_n(B, k, whole, left), v_load_n(y + whole, left)));
    }
}

/* y = or += x B for a matrix in one form. */
ALWAYS void gemv_of(gemv_operands o, int N, int K, ll_matrix B, int add) {
    size_t k = 0;
    const size_t end = (size_t)K;
    for (int i = 0; i < o.M && !add; i++) memset(o.y + (size_t)i * o.ldy, 0, (size_t)N * sizeof *o.y);
    gemv_ahead ahead = gemv_begin(B, (size_t)N, end);
    for (; k + GEMV_ROWS <= end; k += GEMV_ROWS) gemv_few(&ahead, o, N, B, k);
    for (; k < end; k++) gemv_one(o, N, B, k);
}

static void gemv(int N, int K, const float *x, const float *B, size_t ldb, float *y, int add) {
    gemv_of((gemv_operands){1, x, 0, y, 0}, N, K, (ll_matrix){.f = B, .ld = ldb}, add);
}

static void linear(int M, int N, int K, const float *x, size_t ldx, const ll_matrix *B, float *y, size_t ldy) {
    const gemv_operands o = {M, x, ldx, y, ldy};
    if (B->f) {
        gemv_of(o, N, K, (ll_matrix){.f = B->f, .ld = B->ld}, 0);
    } else if (B->bf16) {
        gemv_of(o, N, K, (ll_matrix){.bf16 = B->bf16, .ld = B->ld}, 0);
    } else if (B->int8) {
        gemv_of(o, N, K, (ll_matrix){.int8 = B->int8, .scale = B->scale, .ld = B->ld}, 0);
    } else {
        gemv_of(o, N, K, (ll_matrix){.int4 = B->int4, .scale = B->scale, .ld = B->ld}, 0);
    }
}

ALWAYS void dequantize_row(ll_matrix B, size_t n, size_t k, size_t j, float *y) {
    const size_t even = k - k % 2;
    size_t i = 0;
    for (; i + VW <= n; i += VW) v_store(y + i, gemv_load(B, even, (int)(k % 2), j + i, gemv_unit(B, k, j + i)));
    if (i < n) v_store_n(y + i, n - i, gemv_load_n(B, k, j + i, n - i));
}

static void dequantize(int n, const ll_matrix *B, int k, int j, float *y) {
    const size_t count = (size_t)n, row = (size_t)k, column = (size_t)j;
    if (B->f) {
        memcpy(y, B->f + row * B->ld + column, count * sizeof *y);
    } else if (B->bf16) {
        dequantize_row((ll_matrix){.bf16 = B->bf16, .ld = B->ld}, count, row, column, y);
    } else if (B->int8) {
        dequantize_row((ll_matrix){.int8 = B->int8, .scale = B->scale, .ld = B->ld}, count, row, column, y);
    } else {
        dequantize_row((ll_matrix){.int4 = B->int4, .scale = B->scale, .ld = B->ld}, count, row, column, y);
    }
}

/* `rows` <= 4 rows times x at a time, so that their sums do not wait for each other. Each sum has the bits that it has
 * alone. */
ALWAYS void dots(const int rows, size_t K, const float *const *row, const float *x, float *y, int add) {
    vf sum[4];
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++) sum[i] = v_set(0);
    size_t k = 0;
    for (; k + VW <= K; k += VW) {
        const vf b = v_load(x + k);
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++) sum[i] = v_fma(v_load(row[i] + k), b, sum[i]);
    }
    if (k < K) {
        const vf b = v_load_n(x + k, K - k);
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++) sum[i] = v_fma(v_load_n(row[i] + k, K - k), b, sum[i]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++) y[i] = (add ? y[i] : 0) + v_sum(sum[i]);
}

static void gemv_rows(int M, int K, const float *A, size_t lda, const float *x, float *y, int add) {
    for (; M >= 4; M -= 4, A += 4 * lda, y += 4) {
        const float *const row[] = {A, A + lda, A + 2 * lda, A + 3 * lda};
        dots(4, (size_t)K, row, x, y, add);
    }
    for (; M > 0; M--, A += lda, y++) dots(1, (size_t)K, &A, x, y, add);
}

/* Blocks of 16 x 16 keep the cache lines of both matrices in L1. */
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
