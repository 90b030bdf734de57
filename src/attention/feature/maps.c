/* The elementwise maps and their derivatives: those of the Performer paper (Choromanski et al. 2021, appendix D.2), elu
 * + 1 (Katharopoulos et al. 2020), and the square, which is of no paper. Rows of the table of kernels name them.
 *
 * What has no vector function in the kernel table is computed by the C library, one number at a time. */
#include "attention/feature/maps.h"

#include <math.h>
#include <string.h>

enum { PIECE = 64 };

static void relu(const ll_kernels *k, size_t n, float eps, const float *u, float *phi) {
    k->relu(n, eps, u, phi);
}
static void relu_back(const ll_kernels *k, size_t n, float eps, const float *phi, const float *dphi, float *du) {
    k->relu_back(n, eps, phi, dphi, du);
}

/* low = e^-|u|, of at most PIECE numbers. */
static void exp_below(const ll_kernels *k, size_t n, const float *u, float *low) {
    for (size_t a = 0; a < n; a++) low[a] = -fabsf(u[a]);
    k->exp(n, low, low);
}

static void elu1(const ll_kernels *k, size_t n, float eps, const float *u, float *phi) { k->elu1(n, eps, u, phi); }

static void elu1_back(const ll_kernels *k, size_t n, float eps, const float *phi, const float *dphi, float *du) {
    k->elu1_back(n, eps, phi, dphi, du);
}

static void exponential(const ll_kernels *k, size_t n, float eps, const float *u, float *phi) {
    k->exp_shift(n, 0, 1, eps, u, phi);
}

/* With x = e^-|u| nothing overflows: 1 / (1 + x) for u >= 0, else x / (1 + x). */
static void sigmoid(const ll_kernels *k, size_t n, float eps, const float *u, float *phi) {
    float x[PIECE];
    for (size_t from = 0; from < n; from += PIECE, u += PIECE, phi += PIECE) {
        const size_t part = n - from < PIECE ? n - from : PIECE;
        exp_below(k, part, u, x);
        for (size_t a = 0; a < part; a++) phi[a] = (u[a] < 0 ? x[a] : 1) / (1 + x[a]) + eps;
    }
}

static void gelu(const ll_kernels *k, size_t n, float eps, const float *u, float *phi) {
    k->gelu(n, u, phi);
    for (size_t a = 0; a < n; a++) phi[a] += eps;
}

static void gelu_back(const ll_kernels *k, size_t n, float eps, const float *u, const float *dphi, float *du) {
    (void)eps;
    k->gelu_back(n, u, dphi, du);
}

/* The rest are one formula each: of x and d, which is dphi. In a slope x is f(u) if the slope follows from it, or u. */
#define VALUE(name, f)                                                                                                 \
    static void name(const ll_kernels *k, size_t n, float eps, const float *u, float *phi) {                           \
        (void)k;                                                                                                       \
        for (size_t a = 0; a < n; a++) {                                                                               \
            const float x = u[a];                                                                                      \
            phi[a] = (f) + eps;                                                                                        \
        }                                                                                                              \
    }
#define SLOPE(name, slope)                                                                                             \
    static void name##_back(const ll_kernels *k, size_t n, float eps, const float *in, const float *dphi, float *du) { \
        (void)k;                                                                                                       \
        for (size_t a = 0; a < n; a++) {                                                                               \
            const float x = in[a] - eps, d = dphi[a];                                                                  \
            du[a] = (slope);                                                                                           \
        }                                                                                                              \
    }

VALUE(magnitude, fabsf(x))
VALUE(cosine, cosf(x))
VALUE(hyperbolic_tangent, tanhf(x))
VALUE(square, x *x)
SLOPE(exponential, d *x)
SLOPE(sigmoid, d *x *(1 - x))
SLOPE(magnitude, x > 0 ? d : x < 0 ? -d : 0)
SLOPE(cosine, -d *sinf(x))
SLOPE(hyperbolic_tangent, d *(1 - x) * (1 + x))
SLOPE(square, 2 * d * x)

static void identity(const ll_kernels *k, size_t n, float eps, const float *u, float *phi) {
    (void)k;
    for (size_t a = 0; a < n; a++) phi[a] = u[a] + eps;
}

static void identity_back(const ll_kernels *k, size_t n, float eps, const float *phi, const float *dphi, float *du) {
    (void)k, (void)eps, (void)phi;
    if (du != dphi) memcpy(du, dphi, n * sizeof *du);
}

#define LL_MAP(name, ...) const ll_map ll_map_##name = {__VA_ARGS__}

LL_MAP(relu, 0, 1, 1, relu, relu_back);
LL_MAP(elu1, 0, 0, 1, elu1, elu1_back);
LL_MAP(exp, 0, 0, 1, exponential, exponential_back);
LL_MAP(sigmoid, 0, 0, 1, sigmoid, sigmoid_back);
LL_MAP(abs, 0, 1, 0, magnitude, magnitude_back);
LL_MAP(gelu, 1, 1, 0, gelu, gelu_back);
LL_MAP(cos, 1, 1, 0, cosine, cosine_back);
LL_MAP(tanh, 1, 1, 1, hyperbolic_tangent, hyperbolic_tangent_back);
LL_MAP(identity, 1, 1, 1, identity, identity_back);
LL_MAP(gla, 1, 1, 1, identity, identity_back);
LL_MAP(square, 0, 1, 0, square, square_back);
