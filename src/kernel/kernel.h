/* The compute kernels: one table of functions, and the specification of each.
 *
 * scalar.c defines every function in plain C and is the reference. avx2.c, avx512.c, avx512bf16.c, neon.c,
 * neonbf16.c and wasm.c compile one source, body.h, against the vector operations of a vec_*.h header.
 *
 * Rules for all functions of the table, unless one says otherwise:
 * - They run on one thread and allocate nothing.
 * - Any size is allowed, including 0. Pointers need no alignment beyond that of their type.
 * - Matrices are row-major. A parameter named ld.. is the distance between two rows, in elements.
 * - They read and write only their arguments, never the gaps between rows.
 * - Outputs must not overlap inputs. "In place" means that the output may be exactly the input.
 * - The order of a sum depends on the sizes alone. */
#ifndef LL_KERNEL_H
#define LL_KERNEL_H

#include <float.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bf16.h"

/* LL_STATE_TOKENS: the most tokens of one call of state_tokens. LL_GEMM_DEPTH: terms of a slice of ll_gemm. */
enum { LL_STATE_TOKENS = 16, LL_GEMM_DEPTH = 256 };
/* Results of `exp` below LL_EXP_LEAST may be 0. exp2_rows takes exponents up to LL_EXP2_MOST. */
#define LL_EXP_LEAST (2 * FLT_MIN)
#define LL_EXP2_MOST 5e6f
/* The e of a row whose e would be beyond -LL_EXP2_FAR .. LL_EXP2_FAR. It is in units of its own largest number. */
enum { LL_EXP2_FAR = 1 << 28 };
static inline int ll_exp2_is_far(int e) { return e == LL_EXP2_FAR || e == -LL_EXP2_FAR; }
static inline int ll_exp2_unit(int e) { return ll_exp2_is_far(e) ? 0 : e; }

/* One cycle of a permutation of features, in cycle order: `length` neighbouring features from `start` on. At position
 * p, feature start + a is taken from feature start + (a + p) mod length. */
typedef struct {
    int start, length;
} ll_cycle;

/* The epilogue of rotate_cycles: an elementwise function f that is applied to each number x of row i while the row is
 * copied. The factor of x lies at the same row and column as x does in the input. */
typedef struct {
    enum {
        LL_EPILOGUE_RELU,  /* f(x) = max(x, 0) + eps */
        LL_EPILOGUE_EXP,   /* f(x) = e^(x - shift[i]) / 2^exponent[i], both as exp2_exponent leaves them */
        LL_EPILOGUE_TIMES, /* f(x) = x factor */
        LL_EPILOGUE_WHERE  /* f(x) = x where factor > eps, else 0 */
    } kind;
    float eps;
    const float *shift;  /* one for each row */
    const int *exponent; /* one for each row */
    const float *factor; /* rows ld apart */
    size_t ld;
} ll_epilogue;

/* `rows` rows, ld floats apart, each of `lines` cache lines of 16 floats. */
typedef struct {
    const float *data;
    size_t ld;
    int rows, lines;
} ll_prefetch_part;

/* Memory that will be used next, and how much of it has been prefetched. Start with {0} and add parts. */
typedef struct {
    ll_prefetch_part part[6];
    int parts, lines;  /* lines: the sum over all parts */
    int at, row;       /* part and row that follow the current row */
    int left;          /* floats of the current row that are not prefetched yet */
    const float *line; /* where those begin; NULL when everything has been prefetched */
} ll_prefetch;

/* Adds a part of `rows` rows of `cols` floats. At most six parts fit. */
static inline void ll_prefetch_rows(ll_prefetch *next, const float *data, size_t ld, int rows, int cols) {
    const int lines = (cols + 15) / 16;
    next->part[next->parts++] = (ll_prefetch_part){data, ld, rows, lines};
    next->lines += rows * lines;
}

/* What a scan reads and moves: keys and queries of m numbers, values and outputs of n, and the state S (m, n). Rows of
 * tokens are ldk and ldv apart. A negative distance takes the tokens in reverse order. */
typedef struct {
    int m, n;
    const float *k, *q; /* (C, m) */
    const float *v;     /* (C, n) */
    float *y;           /* (C, n); NULL: the state is only moved, and q is not read */
    ptrdiff_t ldk, ldv;
    float carry, after; /* S is multiplied by them first and last. They are 1 where `sum` is neither NULL nor S */
    float *S, *sum;
    size_t lds; /* of the rows of S and of `sum` */
} ll_scan;

enum { LL_GRADIENT_COLUMNS = 64 }; /* of scan_gradients: panels of four vectors, of 16 floats at most */

/* LL_GROUP: rows of a column of int8 and int4 that share a scale. LL_GEMM_DEPTH is a multiple. */
enum { LL_GROUP = 32 };

/* A matrix of weights (K, N) in one of four forms. The other pointers are NULL.
 *   f      floats
 *   bf16   bfloat16, the upper 16 bits of a float
 *   int8   w = q scale, q from -127 to 127
 *   int4   w = q scale, q from -8 to 7. Row i of bytes has rows 2 i and 2 i + 1 of the matrix, as q + 8, the former in
 * the lower four bits. Row k's scales are row k / LL_GROUP of `scale`, in bfloat16. */
typedef struct {
    const float *f;
    const uint16_t *bf16;
    const int8_t *int8;
    const uint8_t *int4;
    const uint16_t *scale;
    size_t ld; /* numbers from one row to the next, of the weights and of the scales */
} ll_matrix;

/* Number (k, j). */
static inline float ll_matrix_at(const ll_matrix *m, size_t k, size_t j) {
    const size_t at = k * m->ld + j;
    if (m->f) return m->f[at];
    if (m->bf16) return ll_bf16_to_float(m->bf16[at]);
    const int q = m->int8 ? m->int8[at] : (m->int4[k / 2 * m->ld + j] >> k % 2 * 4 & 15) - 8;
    return (float)q * ll_bf16_to_float(m->scale[k / LL_GROUP * m->ld + j]);
}

/* The part of a matrix that begins at row k, a multiple of LL_GROUP, and column j. */
static inline ll_matrix ll_matrix_from(ll_matrix m, size_t k, size_t j) {
    if (m.f) m.f += k * m.ld + j;
    if (m.bf16) m.bf16 += k * m.ld + j;
    if (m.int8) m.int8 += k * m.ld + j;
    if (m.int4) m.int4 += k / 2 * m.ld + j;
    if (m.scale) m.scale += k / LL_GROUP * m.ld + j;
    return m;
}

/* The elementwise maps f of features. */
enum {
    LL_MAP_RELU,
    LL_MAP_ELU1, /* max(u, 0) + e^min(u, 0) */
    LL_MAP_EXP,
    LL_MAP_SIGMOID,
    LL_MAP_ABS,
    LL_MAP_GELU,
    LL_MAP_COS,
    LL_MAP_TANH,
    LL_MAP_IDENTITY,
    LL_MAP_SQUARE,
    LL_MAPS
};

/* The kernels of one map, for `rows` rows of n numbers, ldu, ld and ldx floats apart. */
typedef struct {
    /* phi = f(u) + eps; in place allowed. */
    void (*forward)(int rows, size_t n, float eps, const float *u, size_t ldu, float *phi, size_t ld);
    /* du = dphi f'(u); in place on dphi allowed. For relu, elu1, exp, sigmoid, tanh and identity x is phi, and eps what
     * it has; for the others x is u, and eps 0. */
    void (*back)(int rows, size_t n, float eps, const float *x, size_t ldx, const float *dphi, size_t ld, float *du,
                 size_t ldu);
} ll_row_map;

typedef struct {
    const char *name;
    int width; /* floats in a vector */
    int rows;  /* rows of gemm's register tile; with fewer rows gemm is slower */

    /* ---- Products ---- */

    /* C = A B, or C += A B if `add`. A is (M, K) with A(i, k) = A[i*row + k*col], where row or col is 1: a transposed A
     * costs nothing extra. B is (K, N), C is (M, N). Each C(i, j) is summed over k = 0, 1, .. in this order, starting
     * from 0. With `add`, the old C(i, j) is added to that sum at the end. */
    void (*gemm)(int M, int N, int K, const float *A, size_t row, size_t col, const float *B, size_t ldb, float *C,
                 size_t ldc, int add);
    /* gemm, with the same bits. It also prefetches the lines of `next` into L2, spread evenly over the product, so that
     * memory works while the product is computed. It records in `next` how far it came. next NULL: no prefetch. */
    void (*gemm_prefetch)(int M, int N, int K, const float *A, size_t row, size_t col, const float *B, size_t ldb,
                          float *C, size_t ldc, int add, ll_prefetch *next);
    /* The same with row i of A B times factor[i] (M). factor NULL: 1. */
    void (*gemm_scaled)(int M, int N, int K, const float *A, size_t row, size_t col, const float *B, size_t ldb,
                        const float *factor, float *C, size_t ldc, ll_prefetch *next);
    /* y = x B, or y += x B if `add`: one row, as generation needs. x (K), B (K, N), y (N). Without `add`, y has the
     * bits of a row of gemm. */
    void (*gemv)(int N, int K, const float *x, const float *B, size_t ldb, float *y, int add);
    /* y = x B with few rows of x (M, K), and B (K, N) in any form, which is read once. y (M, N). A row of y has the
     * bits of gemv on B as floats. */
    void (*linear)(int M, int N, int K, const float *x, size_t ldx, const ll_matrix *B, float *y, size_t ldy);
    /* y[i] = B(k, j + i) as a float, for i < n. */
    void (*dequantize)(int n, const ll_matrix *B, int k, int j, float *y);
    /* y = A x, or y += A x if `add`. A (M, K), x (K), y (M). A row of y does not depend on the rows beside it. */
    void (*gemv_rows)(int M, int K, const float *A, size_t lda, const float *x, float *y, int add);

    /* Products of bfloat16 with sums in float. Terms k and k + 1 of a sum share the 32 bits of one float: k is the
     * lower half. Such a float is called a pair below, and pointers to pairs are float pointers. Rounding to bfloat16
     * is to nearest even, and a subnormal number becomes 0 with its sign.
     *
     * to_bf16: n neighbouring floats become (n + 1) / 2 pairs. If n is odd, the last pair's upper half is 0. */
    void (*to_bf16)(size_t n, const float *x, float *y);
    /* y[i] = the pair of low[i] and high[i], for i < n. high NULL: zeros. */
    void (*interleave_bf16)(size_t n, const float *low, const float *high, float *y);
    /* gemm_prefetch where A is (M, K) and B (K, N) in pairs, so that 2K terms are summed. The sum s takes two steps for
     * each pair: s = fma(a_high, b_high, s), then s = fma(a_low, b_low, s). This is what the instruction VDPBF16PS
     * does. A subnormal sum may become 0. BFDOT of AArch64 (tier neonbf16) adds both products in one step, which it
     * rounds to odd; the other tiers have the same bits. */
    void (*gemm_bf16)(int M, int N, int K, const float *A, size_t row, size_t col, const float *B, size_t ldb, float *C,
                      size_t ldc, int add, ll_prefetch *next);

    /* ---- Rows ---- */

    /* out (cols, rows) = in (rows, cols) transposed. */
    void (*transpose)(int rows, int cols, const float *in, size_t ldi, float *out, size_t ldo);

    /* Vectors x and y of n floats. */
    float (*dot)(size_t n, const float *x, const float *y);      /* sum of x[i] y[i] */
    float (*sum)(size_t n, const float *x);                      /* sum of x[i] */
    void (*axpy)(size_t n, float a, const float *x, float *y);   /* y += a x */
    void (*scale)(size_t n, float a, float *x);                  /* x *= a */
    void (*scaled)(size_t n, float a, const float *x, float *y); /* y = a x, in place */
    /* The same for `rows` rows of n numbers, ldx and ldy apart: y_i = factor[i] x_i. factor NULL: y_i = x_i. */
    void (*scaled_rows)(int rows, size_t n, const float *factor, const float *x, size_t ldx, float *y, size_t ldy);
    /* The gradients at the terms of y_i = x_i inverse[i] (n), from those at y_i: those at x_i (n), and after them the
     * one at the divisor: d_i = [g_i, -(g_i . y_i)] inverse[i]. */
    void (*quotient_back)(int rows, size_t n, const float *inverse, const float *g, size_t ldg, const float *y,
                          size_t ldy, float *d, size_t ldd);
    void (*add)(size_t n, const float *x, float *y);             /* y += x */
    void (*mul)(size_t n, const float *x, float *y);             /* y *= x */
    /* Of n rows of `cols` numbers, which lie anywhere:
     * gather         y = y + sum of factor[i] row_i
     * gather_dots    y[i] = sum of row_i x
     * scatter        row_i = row_i + factor[i] x, except for rows that are NULL. */
    void (*gather)(int n, size_t cols, const float *factor, const float *const *row, float *y);
    void (*gather_dots)(int n, size_t cols, const float *x, const float *const *row, float *y);
    void (*scatter)(int n, size_t cols, const float *factor, const float *x, float *const *row);
    /* dp = p (dp - delta): from the gradient at softmax's weights p to that at its logits, where delta = p dp. */
    void (*softmax_back)(size_t n, float delta, const float *p, float *dp);
    float (*max)(size_t n, const float *x);                      /* the largest; -inf for n = 0 */
    /* y = e^x, in place, within 2 ulp. Results below LL_EXP_LEAST may be 0. */
    void (*exp)(size_t n, const float *x, float *y);

    /* ---- Feature maps ---- */

    ll_row_map map[LL_MAPS];
    /* y = e^(x - shift) / 2^e, in place. e is the smallest integer for which no y exceeds 1; it is returned. If all x
     * are -inf, then e = 0 and y = 0. Scaling by 2^-e is exact, so that the digits of y do not depend on e. Of large
     * |x - shift| the float that is rounded to e has few digits: up to LL_EXP2_MOST the error of y is at most 5e-6 y,
     * and y at most 1.3. Beyond, both grow without bound. Where multiply-adds round twice (wasm) it is at most
     * 2^-24 |x - shift| y, as much as the rounding of x. Where e would be beyond LL_EXP2_FAR, it is that or the
     * negative of it, and y = e^(x - the largest x). */
    int (*exp2_rows)(size_t n, float shift, const float *x, float *y);
    /* Returns the e of exp2_rows. If it is LL_EXP2_FAR or the negative of it, the shift becomes the largest x. */
    int (*exp2_exponent)(size_t n, float *shift, const float *x);
    /* y = scale (e^(x - shift) + eps), in place. */
    void (*exp_shift)(size_t n, float shift, float scale, float eps, const float *x, float *y);
    /* y = e^(x - top), in place, for a top that no x exceeds but by rounding. Returns the sum of y. */
    float (*exp_sum)(size_t n, float top, const float *x, float *y);

    /* ---- Positions, and the random numbers of their codes ---- */

    /* PermuteFormer: applies the p-th power of a permutation to each of C rows, p = position[i] >= 0 for row i:
     *     out[i][start + a] = f(in[i][start + (a + p) mod length])   for each cycle and 0 <= a < length.
     * f is the epilogue; NULL is the identity. With `back`, p is subtracted: the inverse permutation. Each cycle starts
     * where the one before it ends. Columns outside of the cycles are not written. */
    void (*rotate_cycles)(int C, const int64_t *position, int cycles, const ll_cycle *cycle, int back,
                          const ll_epilogue *epilogue, const float *in, size_t ldi, float *out, size_t ldo);

    /* words (4 blocks): block i is ll_random4(seed, stream, index + i) of base/random.h. */
    void (*random_words)(size_t blocks, uint64_t seed, uint64_t stream, uint64_t index, uint32_t *words);
    /* x (n), n even: standard normal numbers by Box and Muller. Words w0 and w1 of a pair give x0 = r cos a and
     * x1 = r sin a, where r^2 = -2 log((w0 + 1/2) / 2^32) and a = 2 pi w1 / 2^32. The error is at most
     * 2.5e-7 max(r, 1). */
    void (*normals)(size_t n, const uint32_t *words, float *x);

    /* n sinusoids over C tokens. Sinusoid j has the value (c[j], s[j]) and advances by an angle of cosine c1[j] and
     * sine s1[j] with each token. For each token, a row of out (C, 2n) receives c[0], s[0], c[1], s[1], .. as floats;
     * then all sinusoids advance. out NULL: they only advance. On return, c and s hold the values of token C. All is in
     * double, because the error grows with each token. */
    void (*sinusoids)(size_t n, const double *c1, const double *s1, double *c, double *s, int C, float *out,
                      size_t ldo);

    /* RoPE: rotates n pairs of neighbouring columns in each of C rows. The cosine c and sine s of a pair lie in cs at
     * the columns of x0 and x1: out0 = c x0 - s x1, out1 = c x1 + s x0. With `back`, s is negated. cs, x and out are
     * (C, 2n). In place on x. */
    void (*rotate_pairs)(int C, size_t n, int back, const float *cs, size_t ldc, const float *x, size_t ldx, float *out,
                         size_t ldo);

    /* Each of C rows: block c of a, n numbers, is scaled by x[c]: out[c n + j] = x[c] a[c n + j]. x (C, m), a and out
     * (C, m n). lda = 0 uses one row of a for all. */
    void (*scale_blocks)(int C, int m, int n, const float *x, size_t ldx, const float *a, size_t lda, float *out,
                         size_t ldo);
    /* The gradient of scale_blocks from dout (C, m n); n is even. dx (C, m) is dx[c] = sum over j of a[c n + j]
     * dout[c n + j]. sum (3, m n), without gaps, collects over the rows i what the gradients of a sinusoid's amplitude,
     * phase and frequency need. With a'[j] = a[j ^ 1], the other number of the pair, and c = j / n:
     *     sum[0][j] += x[c] a[j] dout[j],   sum[1][j] += x[c] a'[j] dout[j],   sum[2][j] += i x[c] a'[j] dout[j]. */
    void (*scale_blocks_back)(int C, int m, int n, const float *x, size_t ldx, const float *a, size_t lda,
                              const float *dout, size_t ldd, float *dx, size_t lddx, float *sum);

    /* ---- The state of linear attention ---- */

    /* Takes C <= LL_STATE_TOKENS tokens into a state in double and reads it after each. For token t:
     *     S = f_t S + k_t v_t^T,   z = f_t z + k_t,   num_t = q_t S,   den_t = q_t z.
     * S (m, n) and z (m) have no gaps. k and q are (C, m), rows ld apart. v and num are (C, n), rows ldv apart, where
     * ldv is a multiple of 8; v has zeros from column n to ldv, and num is written there too. den (C). factor (C) has
     * f_t; NULL: all 1. z NULL: den is 0. n = 0 (ldv = 0): the weights alone. The bits do not depend on how tokens are
     * divided into calls. */
    void (*state_tokens)(int C, int m, int n, const double *factor, const float *k, const float *q, size_t ld,
                         const double *v, size_t ldv, double *S, double *z, double *num, double *den);
    /* Takes C tokens into a state of floats and reads it after each. For token t:
     *     S = S + k_t v_t^T,   y_t = q_t S.
     * Only the state itself is rounded after each token. With `sum`, the tokens' sum R is collected apart, from 0:
     * y_t = q_t (S + R). At the end R is added to `sum`, (m, n) like S, which may be S; if it is not, S is only read.
     * `next` is prefetched on the way; NULL: nothing. */
    void (*scan)(int C, const ll_scan *x, ll_prefetch *next);
    /* The scan of a backward pass: what S = S + k_t v_t^T, y_t = q_t S of `scan` says, and in the same pass
     *     dk_t = dk_t + S w_t,
     * with w (C, n) and dk (C, m) in rows ldv and ldk apart. n is a multiple of LL_GRADIENT_COLUMNS, x->y is not NULL,
     * and x->sum is NULL or S. A tier without this function has NULL: two calls of `scan` do the same. */
    void (*scan_gradients)(int C, const ll_scan *x, const float *w, float *dk, ll_prefetch *next);
    /* As `scan`, for the sum of weights: z = z + factor_t k_t, den_t = q_t z. If `sum` is not z, the tokens' sum R is
     * collected apart: den_t = q_t (z + R), and at the end R is added to `sum`. k and q (C, m) have rows ld apart.
     * factor and den are (C), z and sum (m). */
    void (*scan_weights)(int C, int m, const float *factor, const float *k, const float *q, size_t ld, const float *z,
                         float *sum, float *den);

    /* ---- Layers ---- */

    /* LayerNorm of `rows` rows of n, without gaps: y = (x - mean) rstd gain + bias, with rstd = 1 / sqrt(variance +
     * eps), or 0 where both are 0. gain and bias are (n). mean and rstd (rows) are outputs that norm_back needs. */
    void (*norm)(int rows, int n, float eps, const float *x, const float *gain, const float *bias, float *y,
                 float *mean, float *rstd);
    /* The gradients of norm from dy (rows, n). They are added to dx (rows, n), dgain (n) and dbias (n). */
    void (*norm_back)(int rows, int n, const float *x, const float *gain, const float *mean, const float *rstd,
                      const float *dy, float *dx, float *dgain, float *dbias);
    /* RMSNorm (Zhang and Sennrich 2019): y = x rrms gain, where rrms = 1 / sqrt(mean of x^2 + eps), or 0 where both are
     * 0. rrms (rows) is an output that rms_norm_back needs. */
    void (*rms_norm)(int rows, int n, float eps, const float *x, const float *gain, float *y, float *rrms);
    /* Its gradients, added to dx (rows, n) and dgain (n). */
    void (*rms_norm_back)(int rows, int n, const float *x, const float *gain, const float *rrms, const float *dy,
                          float *dx, float *dgain);
    /* y = x Phi(x), where Phi is the distribution function of the standard normal (the exact GELU, by erf). The error
     * is at most 2 ulp or FLT_MIN. In place. */
    void (*gelu)(size_t n, const float *x, float *y);
    /* dx = dy (Phi(x) + x phi(x)), where phi is the density. The error is at most 2e-7 |dy|. In place on dy. y
     * gets what gelu gives, unless it is NULL. */
    void (*gelu_back)(size_t n, const float *x, const float *dy, float *dx, float *y);
    /* y = x / (1 + e^-(a x + b x^3)), where a > 0 and b >= 0. a = 1 and b = 0 give SiLU. a = sqrt(8 / pi) and
     * b = 0.044715 a give GELU's approximation by tanh. In place. */
    void (*swish)(size_t n, float a, float b, const float *x, float *y);
    /* dx = dy times the derivative of swish at x. In place on dy. */
    void (*swish_back)(size_t n, float a, float b, const float *x, const float *dy, float *dx);
    /* y = kept, or y += kept if `add`. kept_i is 0 where half i of the words is below `dropped`, else `scale` x_i.
     * Halves are of 16 bits, the lower one of a word first. Words are read to the end of their cache line. In place
     * unless `add`. */
    void (*dropout)(size_t n, const uint32_t *words, unsigned dropped, float scale, int add, const float *x, float *y);
    /* Softmax cross-entropy of one row. Returns -log softmax(logits)[target]. In place, logits (n) become their
     * gradient: weight (softmax(logits) - onehot(target)). */
    float (*softmax_loss)(int n, float *logits, int target, float weight);
    /* One step of AdamW on n parameters p with the gradient d = gscale g. The moments m and v are updated:
     * m = beta1 m + (1 - beta1) d, v = beta2 v + (1 - beta2) d^2. Then p = p - decay p - rate m / (sqrt(v) vscale +
     * eps). rate and vscale contain the bias corrections. */
    void (*adam)(size_t n, float *p, float *m, float *v, const float *g, float gscale, float beta1, float beta2,
                 float rate, float vscale, float eps, float decay);

    /* Measures the peak rate: 12 n width fused multiply-adds in 12 independent chains. Returns their sum, so that a
     * compiler cannot drop them. */
    float (*peak)(size_t n);

    int tile; /* tokens in a tile of linear attention; its data fit this tier's caches */
    int scan_tile; /* the same of a causal forward pass, which has fewer buffers; divides 256 */
} ll_kernels;

/* The table in use, never NULL. */
const ll_kernels *ll_kernel_table(void);
/* The table of a tier by its name ("scalar", "avx2", ..), for tests. NULL if this machine cannot run it. */
const ll_kernels *ll_kernel_tier(const char *name);

/* C = op(A) op(B), or C += op(A) op(B) if `add`, on all threads. op(A) is (M, K), op(B) is (K, N), C is (M, N). op
 * transposes A if `ta`, and B if `tb`. bias (N), or NULL, is added to every row of C.
 *
 * The sum of an element is cut into slices of LL_GEMM_DEPTH terms. Each slice is summed in order and added to what C
 * holds: first 0, or the old C if `add`, plus the bias. So the order depends on K alone, and not on the threads.
 * scratch has at least ll_gemm_scratch(M, N, K) floats. The calling thread needs little stack. */
void ll_gemm(int ta, int tb, int M, int N, int K, const float *A, size_t lda, const float *B, size_t ldb, float *C,
             size_t ldc, int add, const float *bias, float *scratch);
/* ll_gemm with B (K, N) in any form, and the bits of ll_gemm on B as floats. Nothing is transposed or added to. */
void ll_gemm_quantized(int M, int N, int K, const float *A, size_t lda, const ll_matrix *B, float *C, size_t ldc,
                       const float *bias, float *scratch);
/* ll_gemm with A and B rounded to bfloat16 and slices of 2 LL_GEMM_DEPTH terms. It is twice as fast where the machine
 * multiplies bfloat16 (AVX512_BF16, FEAT_BF16), and gives the same bits on machines with AVX512_BF16 and without. */
void ll_gemm_bf16(int ta, int tb, int M, int N, int K, const float *A, size_t lda, const float *B, size_t ldb, float *C,
                  size_t ldc, int add, const float *bias, float *scratch);
/* Floats of scratch for a product of this size and for all smaller ones: at most 103,000 for what the calling thread
 * packs, and about N K, at most 2^20, if M exceeds 256. */
size_t ll_gemm_scratch(int M, int N, int K);

#endif
