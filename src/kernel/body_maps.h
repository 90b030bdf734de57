/* The elementwise maps of features and their derivatives, in plain C: every tier includes this file after its vector
 * functions, and the compiler makes vectors of the formulas for the tier's instructions. relu, elu1, gelu, tanh, cos
 * and exponentials are the tier's own. */
#include <math.h>

/* The parameters of a map and of its derivative, which kernel.h explains. */
#define FORWARD int rows, size_t n, float eps, const float *u, size_t ldu, float *phi, size_t ld
#define BACK                                                                                                           \
    int rows, size_t n, float eps, const float *x, size_t ldx, const float *dphi, size_t ld, float *du, size_t ldu
#define EACH_ROW for (; rows > 0; rows--, u += ldu, phi += ld)
#define EACH_ROW_BACK for (; rows > 0; rows--, x += ldx, dphi += ld, du += ldu)

/* Maps and slopes of one formula: of v, which is u, and d, which is dphi. In a slope v is f(u) if the slope follows
 * from it, or u. */
#define VALUE(name, f)                                                                                                 \
    static void name(FORWARD) {                                                                                        \
        EACH_ROW                                                                                                       \
            for (size_t a = 0; a < n; a++) {                                                                           \
                const float v = u[a];                                                                                  \
                phi[a] = (f) + eps;                                                                                    \
            }                                                                                                          \
    }
#define SLOPE(name, slope)                                                                                             \
    static void name##_back(BACK) {                                                                                    \
        EACH_ROW_BACK                                                                                                  \
            for (size_t a = 0; a < n; a++) {                                                                           \
                const float v = x[a] - eps, d = dphi[a];                                                               \
                du[a] = (slope);                                                                                       \
            }                                                                                                          \
    }

static void exponential(FORWARD) {
    EACH_ROW exp_shift(n, 0, 1, eps, u, phi);
}

/* With x = e^-|u| nothing overflows: 1 / (1 + x) for u >= 0, else x / (1 + x). */
static void sigmoid(FORWARD) {
    enum { PIECE = 64 /* floats */ };
    float x[PIECE];
    EACH_ROW
        for (size_t from = 0; from < n; from += PIECE) {
            const size_t some = n - from < PIECE ? n - from : PIECE;
            for (size_t a = 0; a < some; a++) x[a] = -fabsf(u[from + a]);
            exp_all(some, x, x);
            for (size_t a = 0; a < some; a++) {
                const float numerator = u[from + a] < 0 ? x[a] : 1;
                phi[from + a] = numerator / (1 + x[a]) + eps;
            }
        }
}

static void gelu_rows(FORWARD) {
    EACH_ROW {
        gelu(n, u, phi);
        for (size_t a = 0; a < n; a++) phi[a] += eps;
    }
}
static void gelu_rows_back(BACK) {
    (void)eps;
    EACH_ROW_BACK gelu_back(n, x, dphi, du, NULL);
}

VALUE(magnitude, fabsf(v))
VALUE(square, v *v)
VALUE(identity, v)
SLOPE(exponential, d *v)
SLOPE(sigmoid, d *v *(1 - v))
SLOPE(magnitude, d *(float)((v > 0) - (v < 0)))
SLOPE(hyperbolic_tangent, d *(1 - v) * (1 + v))
SLOPE(square, 2 * d * v)

static void identity_back(BACK) {
    (void)eps, (void)x, (void)ldx;
    if (du != dphi) scaled_rows(rows, n, NULL, dphi, ld, du, ldu);
}

#define LL_KERNEL_MAPS                                                                                                 \
    .map = {                                                                                                           \
        [LL_MAP_RELU] = {relu, relu_back},                                                                             \
        [LL_MAP_ELU1] = {elu1, elu1_back},                                                                             \
        [LL_MAP_EXP] = {exponential, exponential_back},                                                                \
        [LL_MAP_SIGMOID] = {sigmoid, sigmoid_back},                                                                    \
        [LL_MAP_ABS] = {magnitude, magnitude_back},                                                                    \
        [LL_MAP_GELU] = {gelu_rows, gelu_rows_back},                                                                   \
        [LL_MAP_COS] = {cosine, cosine_back},                                                                          \
        [LL_MAP_TANH] = {hyperbolic_tangent, hyperbolic_tangent_back},                                                 \
        [LL_MAP_IDENTITY] = {identity, identity_back},                                                                 \
        [LL_MAP_SQUARE] = {square, square_back},                                                                       \
    }
