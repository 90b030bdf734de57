/* Every kernel in plain C, written to be read. It defines what the faster tiers are tested against, and it runs on
 * machines that have none of them. Sums are in double where the code stays as clear. Matrix products sum in float, as
 * the other tiers do. */
#include "kernel/tiers.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "kernel/functions.h"
#include "kernel/scalar_gather.h"
#include "kernel/scalar_layer.h"
#include "kernel/scalar_position.h"

static void gemm(int M, int N, int K, const float *A, size_t row, size_t col, const float *B, size_t ldb, float *C,
                 size_t ldc, int add) {
    enum { COLS = 64 };
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j += COLS) {
            int n = N - j < COLS ? N - j : COLS;
            float sum[COLS] = {0}, *c = C + i * ldc + j;
            for (int k = 0; k < K; k++)
                for (int e = 0; e < n; e++) sum[e] += A[i * row + k * col] * B[k * ldb + j + e];
            for (int e = 0; e < n; e++) c[e] = add ? c[e] + sum[e] : sum[e];
        }
}

/* The 16 bits of x rounded to bfloat16. A NaN stays a NaN. Unlike ll_bf16_from_float it makes subnormal numbers 0, as
 * the instruction VCVTNEPS2BF16 does. */
static uint32_t bf16_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (isnan(x)) return bits >> 16 | 0x40;
    if (fabsf(x) < FLT_MIN) return bits >> 16 & 0x8000;
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

static void interleave_bf16(size_t n, const float *low, const float *high, float *y) {
    for (size_t i = 0; i < n; i++) {
        const uint32_t bits = bf16_bits(low[i]) | (high ? bf16_bits(high[i]) << 16 : 0);
        memcpy(y + i, &bits, sizeof bits);
    }
}

static void to_bf16(size_t n, const float *x, float *y) {
    for (size_t i = 0; i < n; i += 2) interleave_bf16(1, x + i, i + 1 < n ? x + i + 1 : NULL, y + i / 2);
}

/* The two numbers of a pair, as floats. */
static void split_bf16(const float *pair, float *low, float *high) {
    uint32_t bits;
    memcpy(&bits, pair, sizeof bits);
    *low = ll_bf16_to_float((uint16_t)bits);
    *high = ll_bf16_to_float((uint16_t)(bits >> 16));
}

static void gemm_prefetch(int M, int N, int K, const float *A, size_t row, size_t col, const float *B, size_t ldb,
                          float *C, size_t ldc, int add, ll_prefetch *next) {
    (void)next; /* plain C multiplies more slowly than memory delivers */
    gemm(M, N, K, A, row, col, B, ldb, C, ldc, add);
}

static void gemm_scaled(int M, int N, int K, const float *A, size_t row, size_t col, const float *B, size_t ldb,
                        const float *factor, float *C, size_t ldc, ll_prefetch *next) {
    (void)next;
    gemm(M, N, K, A, row, col, B, ldb, C, ldc, 0);
    for (int i = 0; i < M && factor; i++)
        for (int j = 0; j < N; j++) C[(size_t)i * ldc + (size_t)j] *= factor[i];
}

/* A product of two bfloat16 is exact in float. So each step rounds once, as an fma does. */
static void gemm_bf16(int M, int N, int K, const float *A, size_t row, size_t col, const float *B, size_t ldb, float *C,
                      size_t ldc, int add, ll_prefetch *next) {
    (void)next;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            float sum = 0, a[2], b[2], *c = C + i * ldc + j;
            for (int k = 0; k < K; k++) {
                split_bf16(A + i * row + k * col, &a[0], &a[1]);
                split_bf16(B + k * ldb + j, &b[0], &b[1]);
                sum += a[1] * b[1];
                sum += a[0] * b[0];
            }
            *c = add ? *c + sum : sum;
        }
}

static void gemv(int N, int K, const float *x, const float *B, size_t ldb, float *y, int add) {
    gemm(1, N, K, x, 0, 1, B, ldb, y, 0, add);
}

static void linear(int M, int N, int K, const float *x, size_t ldx, const ll_matrix *B, float *y, size_t ldy) {
    for (int i = 0; i < M; i++, x += ldx, y += ldy)
        for (int j = 0; j < N; j++) {
            y[j] = 0;
            for (int k = 0; k < K; k++) y[j] += x[k] * ll_matrix_at(B, (size_t)k, (size_t)j);
        }
}

static void dequantize(int n, const ll_matrix *B, int k, int j, float *y) {
    for (int i = 0; i < n; i++) y[i] = ll_matrix_at(B, (size_t)k, (size_t)(j + i));
}

static void gemv_rows(int M, int K, const float *A, size_t lda, const float *x, float *y, int add) {
    for (int i = 0; i < M; i++) y[i] = (add ? y[i] : 0) + dot((size_t)K, A + i * lda, x);
}

static void transpose(int rows, int cols, const float *in, size_t ldi, float *out, size_t ldo) {
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < cols; j++) out[j * ldo + i] = in[i * ldi + j];
}

static float sum(size_t n, const float *x) {
    double s = 0;
    for (size_t i = 0; i < n; i++) s += x[i];
    return (float)s;
}

static void scaled_rows(int rows, size_t n, const float *factor, const float *x, size_t ldx, float *y, size_t ldy) {
    for (int r = 0; r < rows; r++, x += ldx, y += ldy)
        for (size_t i = 0; i < n; i++) y[i] = factor ? factor[r] * x[i] : x[i];
}

static void scaled(size_t n, float a, const float *x, float *y) { scaled_rows(1, n, &a, x, n, y, n); }
static void scale(size_t n, float a, float *x) { scaled(n, a, x, x); }

static void quotient_back(int rows, size_t n, const float *inverse, const float *g, size_t ldg, const float *y,
                          size_t ldy, float *d, size_t ldd) {
    scaled_rows(rows, n, inverse, g, ldg, d, ldd);
    for (int r = 0; r < rows; r++) d[r * ldd + n] = -inverse[r] * dot(n, g + r * ldg, y + r * ldy);
}

static void mul(size_t n, const float *x, float *y) {
    for (size_t i = 0; i < n; i++) y[i] *= x[i];
}

static void softmax_back(size_t n, float delta, const float *p, float *dp) {
    for (size_t i = 0; i < n; i++) dp[i] = p[i] * (dp[i] - delta);
}

static void add(size_t n, const float *x, float *y) {
    for (size_t i = 0; i < n; i++) y[i] += x[i];
}

static float max(size_t n, const float *x) {
    float m = -INFINITY;
    for (size_t i = 0; i < n; i++)
        if (x[i] > m) m = x[i];
    return m;
}

static void exp_all(size_t n, const float *x, float *y) {
    for (size_t i = 0; i < n; i++) y[i] = expf(x[i]);
}

static void relu(int rows, size_t n, float eps, const float *x, size_t ldx, float *y, size_t ldy) {
    for (int r = 0; r < rows; r++, x += ldx, y += ldy)
        for (size_t i = 0; i < n; i++) y[i] = (x[i] < 0 ? 0 : x[i]) + eps; /* NaN stays */
}

static void relu_back(int rows, size_t n, float eps, const float *x, size_t ldx, const float *dy, size_t lddy,
                      float *dx, size_t lddx) {
    for (int r = 0; r < rows; r++, x += ldx, dy += lddy, dx += lddx)
        for (size_t i = 0; i < n; i++) dx[i] = x[i] > eps ? dy[i] : 0;
}

static void elu1(int rows, size_t n, float eps, const float *x, size_t ldx, float *y, size_t ldy) {
    for (int r = 0; r < rows; r++, x += ldx, y += ldy)
        for (size_t i = 0; i < n; i++) y[i] = x[i] > 0 ? x[i] + eps + 1 : (float)exp((double)x[i]) + eps;
}

static void elu1_back(int rows, size_t n, float eps, const float *y, size_t ldy, const float *dy, size_t lddy,
                      float *dx, size_t lddx) {
    for (int r = 0; r < rows; r++, y += ldy, dy += lddy, dx += lddx)
        for (size_t i = 0; i < n; i++) dx[i] = dy[i] * (y[i] - eps > 1 ? 1 : y[i] - eps);
}

static void cosine(int rows, size_t n, float eps, const float *x, size_t ldx, float *y, size_t ldy) {
    for (int r = 0; r < rows; r++, x += ldx, y += ldy)
        for (size_t i = 0; i < n; i++) y[i] = cosf(x[i]) + eps;
}

static void cosine_back(int rows, size_t n, float eps, const float *x, size_t ldx, const float *dy, size_t lddy,
                        float *dx, size_t lddx) {
    (void)eps;
    for (int r = 0; r < rows; r++, x += ldx, dy += lddy, dx += lddx)
        for (size_t i = 0; i < n; i++) dx[i] = -dy[i] * sinf(x[i]);
}

static void hyperbolic_tangent(int rows, size_t n, float eps, const float *x, size_t ldx, float *y, size_t ldy) {
    for (int r = 0; r < rows; r++, x += ldx, y += ldy)
        for (size_t i = 0; i < n; i++) y[i] = (float)tanh((double)x[i]) + eps;
}

/* e^t / 2^e. With k = rint(t / ln 2), e^t = 2^k p. p depends on t alone and is rounded once, so that another e changes
 * the exponent of the result and no bit of its fraction. NaN and +inf give NaN. A result below FLT_MIN is 0. */
static float exp_in_units(float t, int e) {
    const double log2e = 1.4426950408889634074, ln2 = 0.69314718055994530942;
    const double k = rint(t * log2e);
    return k - e < -126 ? 0 : ldexpf((float)exp(t - k * ln2), (int)fmin(k - e, 1000));
}

static int exp2_exponent(size_t n, float *shift, const float *x) {
    const float most = max(n, x), top = most - *shift, e = (float)ceil(top * 1.4426950408889634074);
    if (fabsf(e) < LL_EXP2_FAR) return (int)e;
    if (!isfinite(most) || isnan(*shift)) return 0;
    *shift = most;
    return top < 0 ? -LL_EXP2_FAR : LL_EXP2_FAR;
}

static int exp2_rows(size_t n, float shift, const float *x, float *y) {
    const int e = exp2_exponent(n, &shift, x);
    for (size_t i = 0; i < n; i++) y[i] = exp_in_units(x[i] - shift, ll_exp2_unit(e));
    return e;
}

static void exp_shift(size_t n, float shift, float factor, float eps, const float *x, float *y) {
    for (size_t i = 0; i < n; i++) y[i] = factor * (expf(x[i] - shift) + eps);
}

static float exp_sum(size_t n, float top, const float *x, float *y) {
    exp_shift(n, top, 1, 0, x, y);
    return sum(n, y);
}

/* f(x) for the number x in row i and column `at` of the input. */
static float epilogue_one(const ll_epilogue *epilogue, int i, size_t at, float x) {
    if (!epilogue) return x;
    const float factor = epilogue->factor ? epilogue->factor[i * epilogue->ld + at] : 0;
    switch (epilogue->kind) {
    case LL_EPILOGUE_RELU: return (x < 0 ? 0 : x) + epilogue->eps;
    case LL_EPILOGUE_EXP: return exp_in_units(x - epilogue->shift[i], ll_exp2_unit(epilogue->exponent[i]));
    case LL_EPILOGUE_TIMES: return x * factor;
    case LL_EPILOGUE_WHERE: return factor > epilogue->eps ? x : 0;
    }
    return x;
}

static void rotate_cycles(int C, const int64_t *position, int cycles, const ll_cycle *cycle, int back,
                          const ll_epilogue *epilogue, const float *in, size_t ldi, float *out, size_t ldo) {
    for (int i = 0; i < C; i++) {
        for (int c = 0; c < cycles; c++) {
            int start = cycle[c].start, length = cycle[c].length, p = (int)(position[i] % length);
            if (back) p = (length - p) % length;
            for (int a = 0; a < length; a++) {
                size_t from = (size_t)(start + (a + p) % length);
                out[i * ldo + start + a] = epilogue_one(epilogue, i, from, in[i * ldi + from]);
            }
        }
    }
}

static void state_tokens(int C, int m, int n, const double *factor, const float *k, const float *q, size_t ld,
                         const double *v, size_t ldv, double *S, double *z, double *num, double *den) {
    for (int t = 0; t < C; t++, k += ld, q += ld, v += ldv, num += ldv) {
        double f = factor ? factor[t] : 1;
        den[t] = 0;
        for (size_t e = 0; e < ldv; e++) num[e] = 0;
        for (int a = 0; a < m; a++) {
            if (z) z[a] = f * z[a] + k[a], den[t] += q[a] * z[a];
            for (int e = 0; e < n; e++) {
                double *s = S + (size_t)a * n + e;
                *s = f * *s + k[a] * v[e];
                num[e] += q[a] * *s;
            }
        }
    }
}

static void scan(int C, const ll_scan *x, ll_prefetch *next) {
    (void)next;
    for (int j = 0; j < x->n; j++) {
        for (ptrdiff_t t = 0; t < C && x->y; t++) x->y[t * x->ldv + j] = 0;
        for (int a = 0; a < x->m; a++) {
            float *S = x->S + (size_t)a * x->lds + j, old = x->sum ? x->carry * *S : 0;
            float now = x->sum ? 0 : x->carry * *S;
            for (ptrdiff_t t = 0; t < C; t++) {
                now += x->k[t * x->ldk + a] * x->v[t * x->ldv + j];
                if (x->y) x->y[t * x->ldv + j] += x->q[t * x->ldk + a] * (old + now);
            }
            if (x->sum && x->sum != x->S) old = x->sum[(size_t)a * x->lds + j];
            (x->sum ? x->sum + (size_t)a * x->lds + j : S)[0] = x->after * (old + now);
        }
    }
}

static void scan_gradients(int C, const ll_scan *x, const float *w, float *dk, ll_prefetch *next) {
    (void)next;
    for (ptrdiff_t t = 0; t < C; t++)
        for (int j = 0; j < x->n; j++) x->y[t * x->ldv + j] = 0;
    for (int a = 0; a < x->m; a++)
        for (int j = 0; j < x->n; j++) {
            float *S = x->S + (size_t)a * x->lds + j;
            const float old = x->sum ? x->carry * *S : 0;
            float now = x->sum ? 0 : x->carry * *S;
            for (ptrdiff_t t = 0; t < C; t++) {
                now += x->k[t * x->ldk + a] * x->v[t * x->ldv + j];
                x->y[t * x->ldv + j] += x->q[t * x->ldk + a] * (old + now);
                dk[t * x->ldk + a] += (old + now) * w[t * x->ldv + j];
            }
            *S = x->after * (old + now);
        }
}

static void scan_weights(int C, int m, const float *factor, const float *k, const float *q, size_t ld, const float *z,
                         float *sum, float *den) {
    for (int t = 0; t < C; t++) den[t] = 0;
    for (int a = 0; a < m; a++) {
        const float old = sum == z ? 0 : z[a];
        float now = sum == z ? z[a] : 0;
        for (int t = 0; t < C; t++) {
            now += factor[t] * k[(size_t)t * ld + a];
            den[t] += q[(size_t)t * ld + a] * (old + now);
        }
        sum[a] = sum == z ? now : sum[a] + now;
    }
}

/* Phi(x), the distribution function of the standard normal distribution. */
static double normal_cdf(double x) {
    return 0.5 * erfc(-x * 0.70710678118654752440);
}

/* x Phi(x) is 0 below -40. The limit keeps -inf times 0 from giving a NaN. */
static double gelu_input(float x) { return x < -40 ? -40 : x; }

static void gelu(size_t n, const float *x, float *y) {
    for (size_t i = 0; i < n; i++) y[i] = (float)(gelu_input(x[i]) * normal_cdf(x[i]));
}

/* The derivative is 1 above 40: inf times 0 would give a NaN here, too. */
static void gelu_back(size_t n, const float *x, const float *dy, float *dx, float *y) {
    const double peak = 0.39894228040143267794; /* 1 / sqrt(2 pi) */
    for (size_t i = 0; i < n; i++) {
        const double u = x[i] > 40 ? 40 : gelu_input(x[i]), density = peak * exp(-0.5 * u * u);
        dx[i] = (float)(dy[i] * (normal_cdf(u) + u * density));
    }
    if (y) gelu(n, x, y);
}

static float softmax_loss(int n, float *logits, int target, float weight) {
    float top = max((size_t)n, logits);
    double total = 0;
    for (int i = 0; i < n; i++) total += exp((double)logits[i] - top);
    double loss = log(total) + top - logits[target];
    for (int i = 0; i < n; i++) logits[i] = (float)(exp((double)logits[i] - top) / total);
    logits[target] -= 1;
    scale((size_t)n, weight, logits);
    return (float)loss;
}

static void adam(size_t n, float *p, float *m, float *v, const float *g, float gscale, float beta1, float beta2,
                 float rate, float vscale, float eps, float decay) {
    for (size_t i = 0; i < n; i++) {
        float d = g[i] * gscale;
        m[i] = beta1 * m[i] + (1 - beta1) * d;
        v[i] = beta2 * v[i] + (1 - beta2) * d * d;
        p[i] = p[i] - decay * p[i] - rate * m[i] / (sqrtf(v[i]) * vscale + eps);
    }
}

/* Twelve independent chains. */
static float peak(size_t n) {
    float a[12] = {0}, total = 0;
    for (size_t i = 0; i < n; i++)
        for (int j = 0; j < 12; j++) a[j] = a[j] * 0.999f + 1e-3f;
    for (int j = 0; j < 12; j++) total += a[j];
    return total;
}

#include "kernel/body_maps.h"

const ll_kernels ll_scalar = {
    .name = "scalar",
    .width = 1,
    .rows = 8,
    LL_KERNEL_FUNCTIONS,
    LL_KERNEL_MAPS,
    .tile = 64,
    .scan_tile = 64,
    .scan_gradients = scan_gradients,
};
