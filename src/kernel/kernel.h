/* The compute: one table of functions, and what each of them means.
 *
 * scalar.c defines every function in plain C and is the reference; avx2.c, avx512.c and avx512bf16.c are the same
 * source (body.h) compiled against a vector vocabulary (vec_*.h). All are serial, allocate nothing,
 * take any size, need no alignment, and never read or write outside their arguments. Outputs do not
 * alias inputs unless "in place" is written. */
#ifndef LL_KERNEL_H
#define LL_KERNEL_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define LL_NORM_EPS 1e-5f /* added to the variance by norm */
enum { LL_STATE_TOKENS = 16, LL_GEMM_DEPTH = 256 };

/* One block of features that a permutation moves together, in cycle order: feature `start + a` of
 * the token at position p comes from `start + (a + p) mod length`. */
typedef struct {
    int start, length;
} ll_cycle;

/* What rotate does to a number x on its way out of row i. */
typedef struct {
    enum { LL_EPILOGUE_RELU, LL_EPILOGUE_EXP, LL_EPILOGUE_TIMES, LL_EPILOGUE_WHERE } what;
    float eps;           /* RELU: max(x, 0) + eps. WHERE: x where its factor exceeds eps, else 0 */
    const float *shift;  /* EXP: e^(x - shift[i]) / 2^exponent[i] */
    const int *exponent;
    const float *factor; /* TIMES: x times its factor; factors lie as x does, in rows `ld` apart */
    size_t ld;
} ll_epilogue;

/* Rows that will be read or written next: `rows` of them, `token` floats apart, of some lines of 16 floats each. What
 * follows `lines` is how far the asking for them has come. */
typedef struct {
    const float *data;
    size_t token;
    int rows, lines;
} ll_part;
typedef struct {
    ll_part part[4];
    int parts, lines;  /* lines of all parts */
    int at, row;       /* part and row that come after this one, */
    int left;          /* of which so many floats are left, */
    const float *line; /* from here on; NULL: all is asked for */
} ll_prefetch;
/* `rows` more of `cols` floats each; there are four parts at most. */
static inline void ll_prefetch_rows(ll_prefetch *next, const float *data, size_t token, int rows, int cols) {
    const int lines = (cols + 15) / 16;
    next->part[next->parts++] = (ll_part){data, token, rows, lines};
    next->lines += rows * lines;
}

typedef struct {
    const char *name;
    int width; /* floats in a vector */
    int rows;  /* of a register tile of gemm: the least it does at full speed */

    /* C (M x N, rows ldc apart) = A B, or += if `add`. A(i, k) = A[i*row + k*col] where row or col is
     * 1, so a transposed A costs nothing; B (K x N, rows ldb apart). Every C(i, j) is one sum over k in order, and
     * then, if `add`, what was there. */
    void (*gemm)(int M, int N, int K, const float *A, size_t row, size_t col, const float *B, size_t ldb, float *C,
                 size_t ldc, int add);
    /* The same, which asks for those lines on its way, evenly: memory and arithmetic overlap. next NULL: for none. */
    void (*gemm_prefetch)(int M, int N, int K, const float *A, size_t row, size_t col, const float *B, size_t ldb,
                       float *C, size_t ldc, int add, ll_prefetch *next);
    /* y (N) = or += x (K) B (K x N): one row, for generation; without `add` the bits of a row of gemm. */
    void (*gemv)(int N, int K, const float *x, const float *B, size_t ldb, float *y, int add);
    /* y (N) = x (K) B as gemv without `add`, of numbers that take less memory: bfloat16, the upper half of a float, and
     * whole numbers times what one of them counts in this column (scale (N)). The bits are those of gemv on the same
     * numbers as floats. */
    void (*gemv_half)(int N, int K, const float *x, const uint16_t *B, size_t ldb, float *y);
    void (*gemv_byte)(int N, int K, const float *x, const int8_t *B, size_t ldb, const float *scale, float *y);
    /* y (M) = or += A (M x K) x (K). */
    void (*gemv_rows)(int M, int K, const float *A, size_t lda, const float *x, float *y, int add);
    /* Products of bfloat16 with sums in float. Two numbers that meet in one step of a sum over k, k and k + 1, lie in
     * the bits of one float, k in the lower half; they are rounded to nearest even, what is subnormal to 0.
     * halve: n numbers along k to (n + 1) / 2 pairs, the last with 0. pair: number i of both rows is pair i; high NULL:
     * zeros. gemm_pairs: as gemm_prefetch, of K pairs each: s = fma(a_(k+1), b_(k+1), s), then s = fma(a_k, b_k, s),
     * which is what the instruction VDPBF16PS does; sums that are subnormal may become 0. */
    void (*halve)(size_t n, const float *x, float *y);
    void (*pair)(size_t n, const float *low, const float *high, float *y);
    void (*gemm_pairs)(int M, int N, int K, const float *A, size_t row, size_t col, const float *B, size_t ldb,
                       float *C, size_t ldc, int add, ll_prefetch *next);
    /* out (cols x rows) = in (rows x cols) transposed. */
    void (*transpose)(int rows, int cols, const float *in, size_t ldi, float *out, size_t ldo);

    float (*dot)(size_t n, const float *x, const float *y);
    float (*sum)(size_t n, const float *x);
    void (*axpy)(size_t n, float a, const float *x, float *y);  /* y += a x */
    void (*scale)(size_t n, float a, float *x);                 /* x *= a */
    void (*scaled)(size_t n, float a, const float *x, float *y); /* y = a x, in place allowed */
    void (*add)(size_t n, const float *x, float *y);            /* y += x */
    void (*mul)(size_t n, const float *x, float *y);            /* y *= x */
    float (*max)(size_t n, const float *x);                     /* -inf for n = 0 */
    void (*exp)(size_t n, const float *x, float *y);            /* y = e^x, in place, 2 ulp; or 0 below FLT_MIN */

    /* Feature maps of one token, m features. */
    /* y = max(x, 0) + eps; and dx = dy where x > eps, else 0 (in place on dy allowed). */
    void (*relu)(size_t n, float eps, const float *x, float *y);
    void (*relu_back)(size_t n, float eps, const float *x, const float *dy, float *dx);
    /* y = max(x, 0) + e^min(x, 0) + eps; and dx = dy e^min(x, 0). */
    void (*elu1)(size_t n, float eps, const float *x, float *y);
    void (*elu1_back)(size_t n, const float *x, const float *dy, float *dx);
    /* y = exp(x - shift) / 2^e with e the smallest integer for which no y exceeds 1 (e = 0 and y = 0 if
     * all x are -inf); returns e. Scaling by 2^-e is exact, so results do not depend on e. In place allowed. */
    int (*exp2_rows)(size_t n, float shift, const float *x, float *y);
    /* That e alone. */
    int (*exp2_exponent)(size_t n, float shift, const float *x);
    /* y = scale * (exp(x - shift) + eps), in place allowed. */
    void (*exp_shift)(size_t n, float shift, float scale, float eps, const float *x, float *y);

    /* Rotates each cycle of C rows: out[i][start + a] = f(in[i][start + (a + p_i) mod length]), f as `along` says,
     * the identity where it is NULL; p_i = position[i] >= 0; back: a - p_i instead. Every cycle starts where the one
     * before it ends; what is outside of them stays. */
    void (*rotate)(int C, const int64_t *position, int cycles, const ll_cycle *cycle, int back,
                   const ll_epilogue *along, const float *in, size_t ldi, float *out, size_t ldo);

    /* Random words: blocks of four as ll_random4 makes them (base/random.h), from number `index` on. */
    void (*random_words)(size_t blocks, uint64_t seed, uint64_t stream, uint64_t index, uint32_t *words);
    /* Standard normals, x[i] and x[i + 1] of words i and i + 1 (Box and Muller): r cos a and r sin a,
     * r^2 = -2 log((w_i + 1/2) / 2^32), a = 2 pi w_(i+1) / 2^32; within 2.5e-7 max(r, 1). n even. */
    void (*normals)(size_t n, const uint32_t *words, float *x);
    /* n waves, pairs (c, s): for each of C tokens out (C, 2n), rows ldo apart, gets c_0 s_0 c_1 s_1 .. as floats, then
     * every wave turns by (c1, s1); out NULL: they only turn. In double, for the error grows with every turn. */
    void (*waves)(size_t n, const double *c1, const double *s1, double *c, double *s, int C, float *out, size_t ldo);
    /* C rows of n pairs, turned by pairs (c, s): out = (c x0 - s x1, c x1 + s x0), back: by -s. In place allowed. */
    void (*turn)(int C, size_t n, int back, const float *cs, size_t ldc, const float *x, size_t ldx, float *out,
                 size_t ldo);
    /* C rows: number c of x (m) times the n numbers that a has for it: out[c n + j] = x[c] a[c n + j]. */
    void (*spread)(int C, int m, int n, const float *x, size_t ldx, const float *a, size_t lda, float *out, size_t ldo);
    /* n even. From dout, dx[c] = sum_j a dout; and over rows i sums (3, m n): S0 += x a dout, S1 += x a' dout, S2 +=
     * i x a' dout, where a' is a with the two of each pair swapped. */
    void (*spread_back)(int C, int m, int n, const float *x, size_t ldx, const float *a, size_t lda, const float *dout,
                        size_t ldd, float *dx, size_t lddx, float *sum);

    /* C <= LL_STATE_TOKENS tokens, one after the other, into a state of doubles and out of it: S (m x n) = f_t S +
     * k_t v_t^T, z (m) = f_t z + k_t, num_t (n) = q_t S, den_t = q_t z. k, q: (C, m), rows ld apart; v, num: (C, n),
     * rows ldv apart, a multiple of 8, v with zeros past n. factor NULL: all 1. How tokens are cut into calls changes
     * no bit. */
    void (*state_tokens)(int C, int m, int n, const double *factor, const float *k, const float *q, size_t ld,
                         const double *v, size_t ldv, double *S, double *z, double *num, double *den);

    /* Layers. rows of n. norm: xhat = (x - mean) rstd, y = xhat * gain + bias, rstd = 1 / sqrt(variance +
     * LL_NORM_EPS); mean and rstd (rows) are kept.
     * norm_back: dx += ..., dgain += ..., dbias += .... */
    void (*norm)(int rows, int n, const float *x, const float *gain, const float *bias, float *y, float *mean,
                 float *rstd);
    void (*norm_back)(int rows, int n, const float *x, const float *gain, const float *mean, const float *rstd,
                      const float *dy, float *dx, float *dgain, float *dbias);
    /* y = x Phi(x), by erf, within 2 ulp or FLT_MIN; dx = dy (Phi(x) + x phi(x)), within 2e-7 |dy|. In place (on dy)
     * allowed. */
    void (*gelu)(size_t n, const float *x, float *y);
    void (*gelu_back)(size_t n, const float *x, const float *dy, float *dx);
    /* Softmax cross-entropy of one row: turns logits (n) into (softmax - onehot(target)) * weight in
     * place and returns -log softmax[target]. */
    float (*softmax_loss)(int n, float *logits, int target, float weight);
    /* Adam on n parameters: m, v moments, g gradient (times gscale); rate already holds the bias
     * corrections: p = p - decay p - rate m / (sqrt(v) vscale + eps). */
    void (*adam)(size_t n, float *p, float *m, float *v, const float *g, float gscale, float beta1, float beta2,
                 float rate, float vscale, float eps, float decay);

    /* n * 12 * width fused multiply-adds that wait for nothing, for measuring the peak. */
    float (*peak)(size_t n);

    /* Sizes that fit this tier's caches. */
    int tile; /* tokens in a tile of linear attention */
} ll_kernels;

/* A bfloat16 as a float: exact. */
static inline float ll_bf16_to_float(uint16_t half) {
    const uint32_t bits = (uint32_t)half << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The table in use; never NULL. Tests ask for tiers by name; NULL for one this machine lacks. */
const ll_kernels *ll_kernel_table(void);
const ll_kernels *ll_kernel_tier(const char *name);

/* C (M x N) = or += op(A) op(B), any size, on all threads; op transposes where ta / tb. Packed and blocked; the sum of
 * an element runs over k in an order that depends on K alone: LL_GEMM_DEPTH terms at a time, added to the bias. Rows of
 * A, B, C are lda, ldb, ldc apart. bias (N) or NULL is added to every row. scratch: as many floats as ll_gemm_scratch
 * says, which is enough for all smaller products, too. The calling thread needs little stack. */
void ll_gemm(int ta, int tb, int M, int N, int K, const float *A, size_t lda, const float *B, size_t ldb, float *C,
             size_t ldc, int add, const float *bias, float *scratch);
/* The same with A and B rounded to bfloat16, 512 terms at a time: at twice the speed where the machine multiplies those
 * (AVX512_BF16), to the same bits where it does not. */
void ll_gemm_bf16(int ta, int tb, int M, int N, int K, const float *A, size_t lda, const float *B, size_t ldb, float *C,
                  size_t ldc, int add, const float *bias, float *scratch);
/* For more than 256 rows N K, no more than a million; and 112,000 or less for what the calling thread packs. */
size_t ll_gemm_scratch(int M, int N, int K);

#endif
