/* Sums, exponentials and feature maps of rows of floats. */

/* Runs the statements for one vector of n numbers after the other: its first number is i, and it has `left` numbers,
 * which the compiler knows of whole vectors. */
#define EACH_VECTOR(n, ...)                                                                                            \
    do {                                                                                                               \
        size_t i = 0;                                                                                                  \
        _Pragma("GCC unroll 4") for (; i + VW <= (n); i += VW) {                                                       \
            const size_t left = VW;                                                                                    \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
        if (i < (n)) {                                                                                                 \
            const size_t left = (n) - i;                                                                               \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    } while (0)

/* Loads or stores a whole vector, or only its first n < VW numbers. */
static inline vf load_upto(const float *p, size_t n) { return n >= VW ? v_load(p) : v_load_n(p, n); }
static inline void store_upto(float *p, size_t n, vf a) {
    if (n >= VW) {
        v_store(p, a);
    } else {
        v_store_n(p, n, a);
    }
}

static float dot(size_t n, const float *x, const float *y) {
    vf a = v_set(0), b = v_set(0);
    size_t i = 0;
    for (; i + 2 * VW <= n; i += 2 * VW) {
        a = v_fma(v_load(x + i), v_load(y + i), a);
        b = v_fma(v_load(x + i + VW), v_load(y + i + VW), b);
    }
    for (; i < n; i += VW) a = v_fma(load_upto(x + i, n - i), load_upto(y + i, n - i), a);
    return v_sum(v_add(a, b));
}

static float sum(size_t n, const float *x) {
    vf a = v_set(0), b = v_set(0);
    size_t i = 0;
    for (; i + 2 * VW <= n; i += 2 * VW) a = v_add(a, v_load(x + i)), b = v_add(b, v_load(x + i + VW));
    for (; i < n; i += VW) a = v_add(a, load_upto(x + i, n - i));
    return v_sum(v_add(a, b));
}

static void axpy(size_t n, float a, const float *x, float *y) {
    const vf va = v_set(a);
    EACH_VECTOR(n, store_upto(y + i, left, v_fma(va, load_upto(x + i, left), load_upto(y + i, left))););
}

static void scaled_rows(int rows, size_t n, const float *factor, const float *x, size_t ldx, float *y, size_t ldy) {
    for (int r = 0; r < rows && !factor; r++, x += ldx, y += ldy)
        EACH_VECTOR(n, store_upto(y + i, left, load_upto(x + i, left)););
    for (int r = 0; r < rows && factor; r++, x += ldx, y += ldy)
        EACH_VECTOR(n, store_upto(y + i, left, v_mul(v_set(factor[r]), load_upto(x + i, left))););
}

static void scaled(size_t n, float a, const float *x, float *y) { scaled_rows(1, n, &a, x, n, y, n); }
static void scale(size_t n, float a, float *x) { scaled(n, a, x, x); }

static void quotient_back(int rows, size_t n, const float *inverse, const float *g, size_t ldg, const float *y,
                          size_t ldy, float *d, size_t ldd) {
    for (int r = 0; r < rows; r++, g += ldg, y += ldy, d += ldd) {
        vf product = v_set(0);
        EACH_VECTOR(n, const vf gi = load_upto(g + i, left); store_upto(d + i, left, v_mul(v_set(inverse[r]), gi));
                    product = v_fma(gi, load_upto(y + i, left), product););
        d[n] = -inverse[r] * v_sum(product);
    }
}

static void add(size_t n, const float *x, float *y) {
    EACH_VECTOR(n, store_upto(y + i, left, v_add(load_upto(x + i, left), load_upto(y + i, left))););
}

static void mul(size_t n, const float *x, float *y) {
    EACH_VECTOR(n, store_upto(y + i, left, v_mul(load_upto(x + i, left), load_upto(y + i, left))););
}

static void softmax_back(size_t n, float delta, const float *p, float *dp) {
    const vf d = v_set(delta);
    EACH_VECTOR(n, store_upto(dp + i, left, v_mul(load_upto(p + i, left), v_sub(load_upto(dp + i, left), d))););
}

static float max(size_t n, const float *x) {
    vf a = v_set(-INFINITY), b = a, c = a, d = a; /* four, because each comparison waits for the one before it */
    size_t i = 0;
    for (; i + 4 * VW <= n; i += 4 * VW) {
        a = v_max(a, v_load(x + i)), b = v_max(b, v_load(x + i + VW));
        c = v_max(c, v_load(x + i + 2 * VW)), d = v_max(d, v_load(x + i + 3 * VW));
    }
    for (; i + VW <= n; i += VW) a = v_max(a, v_load(x + i));
    float m = v_hmax(v_max(v_max(a, b), v_max(c, d)));
    for (; i < n; i++) m = x[i] > m ? x[i] : m;
    return m;
}

/* Returns r of t = k ln 2 + r, |r| <= ln 2 / 2, and sets k. ln 2 is subtracted in two parts. The first part has so few
 * digits that k times it is exact. */
static inline vf exp_reduce(vf t, vf *k) {
    *k = v_round(v_mul(t, v_set(1.44269504f)));
    return v_fma(*k, v_set(-1.42860677e-6f), v_fma(*k, v_set(-0.693145752f), t));
}

/* (e^r - 1 - r) / r^2 by a polynomial of degree 4. The error of e^r is 1e-8. */
static inline vf exp_rest(vf r) {
    vf p = v_fma(v_set(0.00139261836f), r, v_set(0.00836317905f));
    p = v_fma(p, r, v_set(0.0416665546f));
    p = v_fma(p, r, v_set(0.16666577f));
    return v_fma(p, r, v_set(0.5f));
}

/* e^t / 2^e, less than 2^127. Scaling by 2^(k - e) is exact. Below 2^-126 the result may be 0. */
static inline vf exp_scaled(vf t, vf e) {
    vf k;
    const vf r = exp_reduce(t, &k), p = exp_rest(r);
    return v_scale2(v_fma(v_mul(p, r), r, v_add(r, v_set(1.0f))), v_sub(k, e));
}

/* e^x. Below -104 the result is 0, and above 89 it is infinity; the first takes no x above 88. The second computes half
 * of it, so it may be 0 below 2^-125 (LL_EXP_LEAST). */
static inline vf exp_below_88(vf x) { return exp_scaled(v_max(v_set(-104.0f), x), v_set(0)); }
static inline vf exp_vector(vf x) {
    const vf bounded = v_max(v_set(-104.0f), v_min(v_set(89.0f), x));
    return v_mul(v_set(2), exp_scaled(bounded, v_set(1)));
}

static void exp_all(size_t n, const float *x, float *y) {
    EACH_VECTOR(n, store_upto(y + i, left, exp_vector(load_upto(x + i, left))););
}

static int exp2_exponent(size_t n, float *shift, const float *x) {
    const float most = max(n, x), top = most - *shift, e = ceilf(top * 1.44269504f);
    if (fabsf(e) < LL_EXP2_FAR) return (int)e;
    if (!isfinite(most) || isnan(*shift)) return 0;
    *shift = most;
    return top < 0 ? -LL_EXP2_FAR : LL_EXP2_FAR;
}

/* e^t / 2^e is 0 for t below this. Clamping t here keeps the terms of the polynomial small. */
static inline float exp2_floor(int e) { return (float)e * 0.693147181f - 201; }

static int exp2_rows(size_t n, float shift, const float *x, float *y) {
    const int e = exp2_exponent(n, &shift, x), unit = ll_exp2_unit(e);
    const vf s = v_set(shift), ve = v_set((float)unit), low = v_set(exp2_floor(unit));
    EACH_VECTOR(n, store_upto(y + i, left, exp_scaled(v_max(low, v_sub(load_upto(x + i, left), s)), ve)););
    return e;
}

static void exp_shift(size_t n, float shift, float factor, float eps, const float *x, float *y) {
    const vf s = v_set(shift), f = v_set(factor), ve = v_set(eps);
    EACH_VECTOR(n, const vf u = v_sub(load_upto(x + i, left), s);
                store_upto(y + i, left, v_mul(f, v_add(exp_vector(u), ve))););
}

static float exp_sum(size_t n, float top, const float *x, float *y) {
    const vf t = v_set(top);
    vf a = v_set(0), b = v_set(0);
    size_t i = 0;
    for (; i + 2 * VW <= n; i += 2 * VW) {
        const vf p = exp_below_88(v_sub(v_load(x + i), t)), q = exp_below_88(v_sub(v_load(x + i + VW), t));
        v_store(y + i, p), v_store(y + i + VW, q);
        a = v_add(a, p), b = v_add(b, q);
    }
    for (; i < n; i += VW) {
        store_upto(y + i, n - i, exp_below_88(v_sub(load_upto(x + i, n - i), t)));
        a = v_add(a, load_upto(y + i, n - i)); /* loaded, because a vector may have more lanes than numbers are left */
    }
    return v_sum(v_add(a, b));
}

static void relu(int rows, size_t n, float eps, const float *x, size_t ldx, float *y, size_t ldy) {
    const vf zero = v_set(0), ve = v_set(eps);
    for (int r = 0; r < rows; r++, x += ldx, y += ldy)
        EACH_VECTOR(n, store_upto(y + i, left, v_add(v_max(zero, load_upto(x + i, left)), ve)););
}

static void relu_back(int rows, size_t n, float eps, const float *x, size_t ldx, const float *dy, size_t lddy,
                      float *dx, size_t lddx) {
    const vf ve = v_set(eps);
    for (int r = 0; r < rows; r++, x += ldx, dy += lddy, dx += lddx)
        EACH_VECTOR(n, const vf above = v_sub(load_upto(x + i, left), ve);
                    store_upto(dx + i, left, v_positive(above, load_upto(dy + i, left))););
}

/* max(u, 0) is u - min(u, 0): of the units that multiply, a comparison takes one, and a subtraction none. */
static void elu1(int rows, size_t n, float eps, const float *x, size_t ldx, float *y, size_t ldy) {
    const vf zero = v_set(0), ve = v_set(eps), low = v_set(-104.0f);
    for (int r = 0; r < rows; r++, x += ldx, y += ldy)
        EACH_VECTOR(n, const vf u = v_max(low, load_upto(x + i, left)), below = v_min(zero, u);
                    const vf above = v_add(v_sub(u, below), ve);
                    store_upto(y + i, left, v_add(above, exp_scaled(below, zero))););
}

static void elu1_back(int rows, size_t n, float eps, const float *y, size_t ldy, const float *dy, size_t lddy,
                      float *dx, size_t lddx) {
    const vf one = v_set(1), ve = v_set(eps);
    for (int r = 0; r < rows; r++, y += ldy, dy += lddy, dx += lddx)
        EACH_VECTOR(n, const vf slope = v_min(one, v_sub(load_upto(y + i, left), ve));
                    store_upto(dx + i, left, v_mul(load_upto(dy + i, left), slope)););
}

/* tanh x = -m / (2 + m) with the sign of x and m = e^(-2|x|) - 1. m is 2^k (e^r - 1) + (2^k - 1), so that it keeps its
 * digits near 0. */
static inline vf tanh_vector(vf x) {
    const vf one = v_set(1), zero = v_set(0);
    vf k;
    const vf r = exp_reduce(v_max(v_set(-104.0f), v_mul(v_set(-2.0f), v_abs(x))), &k);
    const vf power = v_scale2(one, k), rest = v_fma(v_mul(exp_rest(r), r), r, r);
    const vf m = v_fma(power, rest, v_sub(power, one)), y = v_div(v_sub(zero, m), v_add(v_set(2), m));
    return v_select_positive(x, y, v_sub(zero, y));
}

static void hyperbolic_tangent(int rows, size_t n, float eps, const float *x, size_t ldx, float *y, size_t ldy) {
    const vf ve = v_set(eps);
    for (int r = 0; r < rows; r++, x += ldx, y += ldy)
        EACH_VECTOR(n, store_upto(y + i, left, v_add(tanh_vector(load_upto(x + i, left)), ve)););
}

/* sin(2 pi t) for |t| <= 1/4. */
static inline vf quarter_sine(vf t) {
    const vf s = v_mul(t, t);
    vf p = v_fma(v_set(39.7109182f), s, v_set(-76.5749922f));
    p = v_fma(p, s, v_set(81.6022312f));
    p = v_fma(p, s, v_set(-41.3416775f));
    p = v_fma(p, s, v_set(6.28318527f));
    return v_mul(t, p);
}

/* Up to this |x| the three parts of pi leave an error of 1e-7. */
#define FAR_ANGLE 8192.0f

/* Sine or cosine of |x| <= FAR_ANGLE: with x = k pi + r, |r| <= pi / 2, that of r, with the other sign for odd k. */
static inline vf sine_vector(vf x, int cosine) {
    const vf k = v_round(v_mul(x, v_set(0.318309886f))), half = v_mul(k, v_set(0.5f));
    vf r = v_fma(k, v_set(-3.140625f), x);
    r = v_fma(k, v_set(-0.000967502594f), r);
    r = v_fma(k, v_set(-1.509958e-7f), r);
    const vf t = v_mul(r, v_set(0.159154943f)), odd = v_abs(v_sub(half, v_round(half)));
    const vf sign = v_fma(v_set(-4.0f), odd, v_set(1));
    return v_mul(sign, quarter_sine(cosine ? v_sub(v_set(0.25f), v_abs(t)) : t));
}

/* Of the first n numbers of x. Farther angles take the C library. */
static inline vf sine_upto(const float *x, size_t n, int cosine) {
    const vf u = load_upto(x, n), y = sine_vector(u, cosine);
    const vf far = v_positive(v_sub(v_abs(u), v_set(FAR_ANGLE)), v_set(1));
    if (v_sum(far) == 0) return y;
    float each[VW];
    v_store(each, y);
    for (size_t i = 0; i < VW && i < n; i++)
        if (fabsf(x[i]) > FAR_ANGLE) each[i] = cosine ? cosf(x[i]) : sinf(x[i]);
    return v_load(each);
}

static void cosine(int rows, size_t n, float eps, const float *x, size_t ldx, float *y, size_t ldy) {
    const vf ve = v_set(eps);
    for (int r = 0; r < rows; r++, x += ldx, y += ldy)
        for (size_t i = 0; i < n; i += VW) store_upto(y + i, n - i, v_add(sine_upto(x + i, n - i, 1), ve));
}

static void cosine_back(int rows, size_t n, float eps, const float *x, size_t ldx, const float *dy, size_t lddy,
                        float *dx, size_t lddx) {
    (void)eps;
    for (int r = 0; r < rows; r++, x += ldx, dy += lddy, dx += lddx)
        for (size_t i = 0; i < n; i += VW) {
            const vf d = v_mul(sine_upto(x + i, n - i, 0), load_upto(dy + i, n - i));
            store_upto(dx + i, n - i, v_sub(v_set(0), d));
        }
}

/* 12 independent chains of multiply-adds. Twelve vectors fit the registers of every tier. */
static float peak(size_t n) {
    vf a[12];
    for (int j = 0; j < 12; j++) a[j] = v_set((float)j);
    const vf x = v_set(0.999f), y = v_set(1e-3f);
    for (size_t i = 0; i < n; i++)
#pragma GCC unroll 12
        for (int j = 0; j < 12; j++) a[j] = v_fma(a[j], x, y);
    for (int j = 1; j < 12; j++) a[0] = v_add(a[0], a[j]);
    return v_sum(a[0]);
}
