/* The elementwise maps and their derivatives: those of the Performer paper (Choromanski et al. 2021, appendix D.2), elu
 * + 1 (Katharopoulos et al. 2020), and the square, which is of no paper. Rows of the table of kernels name them.
 *
 * What has no vector function in the kernel table is computed by the C library, one number at a time. */
#include "attention/feature/maps.h"

#include <math.h>

enum { PIECE = 64 };

/* The parameters of a map and of its derivative, which maps.h explains. */
#define FORWARD                                                                                                        \
    const ll_kernels *k, int rows, size_t n, float eps, const float *u, size_t ldu, float *phi, size_t ld
#define BACK                                                                                                           \
    const ll_kernels *k, int rows, size_t n, float eps, const float *x, size_t ldx, const float *dphi, size_t ld,      \
        float *du, size_t ldu
#define EACH_ROW for (; rows > 0; rows--, u += ldu, phi += ld)
#define EACH_ROW_BACK for (; rows > 0; rows--, x += ldx, dphi += ld, du += ldu)

static void relu(FORWARD) { k->relu(rows, n, eps, u, ldu, phi, ld); }
static void relu_back(BACK) { k->relu_back(rows, n, eps, x, ldx, dphi, ld, du, ldu); }
static void elu1(FORWARD) { k->elu1(rows, n, eps, u, ldu, phi, ld); }
static void elu1_back(BACK) { k->elu1_back(rows, n, eps, x, ldx, dphi, ld, du, ldu); }

static void exponential(FORWARD) {
    EACH_ROW k->exp_shift(n, 0, 1, eps, u, phi);
}

/* With x = e^-|u| nothing overflows: 1 / (1 + x) for u >= 0, else x / (1 + x). */
static void sigmoid_piece(const ll_kernels *k, size_t n, float eps, const float *u, float *phi) {
    float x[PIECE];
    for (size_t a = 0; a < n; a++) x[a] = -fabsf(u[a]);
    k->exp(n, x, x);
    for (size_t a = 0; a < n; a++) phi[a] = (u[a] < 0 ? x[a] : 1) / (1 + x[a]) + eps;
}

static void sigmoid(FORWARD) {
    EACH_ROW
        for (size_t a = 0; a < n; a += PIECE) sigmoid_piece(k, n - a < PIECE ? n - a : PIECE, eps, u + a, phi + a);
}

static void gelu(FORWARD) {
    EACH_ROW {
        k->gelu(n, u, phi);
        for (size_t a = 0; a < n; a++) phi[a] += eps;
    }
}

static void gelu_back(BACK) {
    (void)eps;
    EACH_ROW_BACK k->gelu_back(n, x, dphi, du);
}

/* The rest are one formula each: of v, which is u, and d, which is dphi. In a slope v is f(u) if the slope follows from
 * it, or u. */
#define VALUE(name, f)                                                                                                 \
    static void name(FORWARD) {                                                                                        \
        (void)k;                                                                                                       \
        EACH_ROW                                                                                                       \
            for (size_t a = 0; a < n; a++) {                                                                           \
                const float v = u[a];                                                                                  \
                phi[a] = (f) + eps;                                                                                    \
            }                                                                                                          \
    }
#define SLOPE(name, slope)                                                                                             \
    static void name##_back(BACK) {                                                                                    \
        (void)k;                                                                                                       \
        EACH_ROW_BACK                                                                                                  \
            for (size_t a = 0; a < n; a++) {                                                                           \
                const float v = x[a] - eps, d = dphi[a];                                                               \
                du[a] = (slope);                                                                                       \
            }                                                                                                          \
    }

VALUE(magnitude, fabsf(v))
VALUE(cosine, cosf(v))
VALUE(hyperbolic_tangent, tanhf(v))
VALUE(square, v *v)
VALUE(identity, v)
SLOPE(exponential, d *v)
SLOPE(sigmoid, d *v *(1 - v))
SLOPE(magnitude, v > 0 ? d : v < 0 ? -d : 0)
SLOPE(cosine, -d *sinf(v))
SLOPE(hyperbolic_tangent, d *(1 - v) * (1 + v))
SLOPE(square, 2 * d * v)

static void identity_back(BACK) {
    (void)eps, (void)x, (void)ldx;
    if (du != dphi) k->scaled_rows(rows, n, NULL, dphi, ld, du, ldu);
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
