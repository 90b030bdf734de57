/* GELU: x Phi(x), where Phi(x) = 1 - Q(x) = Q(-x) and Q is the upper tail of the standard normal distribution. For
 * |x| < NEAR it is the polynomial x / 2 + x^2 P(x^2). For larger a = |x|, a Q(a) = e^(-a^2/2) W(a). W(a) = a Q(a)
 * e^(a^2/2) varies only between 0.2 and 0.4, so that polynomials give it well. The order of the operations keeps the
 * error within 2 ulp. */

#define TWICE(...) {__VA_ARGS__, __VA_ARGS__}

/* W in eight pieces, which begin at 2, 3, 4, 6, 8, NEAR, 1 and 1.5. The first row has the centres of the pieces. The
 * other rows have the coefficients of polynomials of degree 7 around the centres, the highest power first. They
 * interpolate at Chebyshev nodes, with an error of 1e-8. The centres are where W is exactly a float. */
static const float tail_pieces[9][16] = {
    TWICE(2.49804688f, 3.57861328f, 4.97460938f, 6.8894043f, 10.5913086f, 0.820556641f, 1.20336914f, 1.71557617f),
    TWICE(2.68193853e-05f, 4.32868774e-06f, 4.54097091e-07f, 3.7927645e-08f, 9.56627555e-10f,
          0.00103470881f, 0.000389978173f, 0.000124305792f),
    TWICE(-0.000105185085f, -1.73058124e-05f, -2.62697017e-06f, -2.98626048e-07f, -1.45292409e-08f,
          -0.00328025641f, -0.00136621657f, -0.000459371484f),
    TWICE(0.00037514852f, 7.43841447e-05f, 1.32013256e-05f, 1.96083738e-06f, 1.3285316e-07f,
          0.00896612834f, 0.00399172865f, 0.00146867719f),
    TWICE(-0.0012902756f, -0.000307628245f, -6.69471119e-05f, -1.26639479e-05f, -1.18138928e-06f,
          -0.0224932712f, -0.0107880337f, -0.0043785139f),
    TWICE(0.00408047484f, 0.00117911026f, 0.000319586718f, 7.76426677e-05f, 1.05251438e-05f,
          0.0506215431f, 0.0263390094f, 0.0118810348f),
    TWICE(-0.0115172928f, -0.00408760412f, -0.00139354344f, -0.000439204683f, -8.73517492e-05f,
          -0.0986333266f, -0.0561363026f, -0.0284229834f),
    TWICE(0.0273413938f, 0.0121101514f, 0.00526067941f, 0.00217252551f, 0.00063789211f,
          0.155199274f, 0.0977133065f, 0.0562699698f),
    TWICE(0.353274971f, 0.373185903f, 0.384463847f, 0.391019374f, 0.395476997f,
          0.236634061f, 0.284013391f, 0.322251588f),
};

#define NEAR 0.7f /* the polynomial in x^2 is used below it */

/* A row of the table for the piece of each lane. */
static inline vf tail_piece(int row, vi piece) { return v_lookup(tail_pieces[row], piece); }

/* W(a) for NEAR <= a <= 14.5. */
static inline vf tail_weight(vf a) {
    const vi piece = v_half_octave(v_min(v_set(11.9f), v_max(v_set(0.75f), a)));
    const vf v = v_sub(a, tail_piece(0, piece));
    vf w = tail_piece(1, piece);
    for (int row = 2; row < 9; row++) w = v_fma(w, v, tail_piece(row, piece));
    return w;
}

/* P(s) = (Phi(x) - 1/2) / x with s = x^2, |x| < NEAR. */
static inline vf near_slope(vf s) {
    vf p = v_fma(v_set(0.0001044889f), s, v_set(-0.00118271878f));
    p = v_fma(p, s, v_set(0.00997275673f));
    p = v_fma(p, s, v_set(-0.0664903298f));
    return v_fma(p, s, v_set(0.398942292f));
}

/* Returns z of e^(-a^2/2) = 2^k (1 + z) and sets k. It corrects the rounding of a^2, and 1 + z is not rounded yet. */
static inline vf gauss_part(vf a, vf *k) {
    const vf b = v_mul(a, v_set(-0.5f)), s = v_mul(b, a);
    const vf r = v_add(exp_reduce(s, k), v_product_rest(b, a, s));
    return v_fma(v_mul(exp_rest(r), r), r, r);
}

/* |x|, at most 14.42: beyond it, x Phi(x) is x or 0. */
static inline vf gelu_tail(vf x) { return v_min(v_set(14.42f), v_abs(x)); }

/* x Phi(x) near 0, s = x^2, p = P(s); and far from it, w = W(|x|), e^(-x^2/2) = 2^k (1 + z). */
static inline vf gelu_near(vf x, vf s, vf p) { return v_fma(s, p, v_mul(v_set(0.5f), x)); }

static inline vf gelu_far(vf x, vf w, vf z, vf k) {
    const vf q = v_scale2(v_fma(w, z, w), k);
    return v_select_positive(x, v_sub(x, q), v_sub(v_set(0), q));
}

static void gelu(size_t n, const float *x, float *y) {
    for (size_t i = 0; i < n; i += VW) {
        const vf u = load_upto(x + i, n - i), a = gelu_tail(u), s = v_mul(u, u), w = tail_weight(a);
        vf k;
        const vf z = gauss_part(a, &k), near = gelu_near(u, s, near_slope(s));
        store_upto(y + i, n - i, v_select_positive(v_sub(v_set(NEAR), a), near, gelu_far(u, w, z, k)));
    }
}

/* Phi(x) + x phi(x), phi(x) = e^(-x^2/2) / sqrt(2 pi). The value y needs the same tail and exponential. */
static void gelu_back(size_t n, const float *x, const float *dy, float *dx, float *y) {
    const vf c = v_set(0.398942280f), half = v_set(0.5f);
    for (size_t i = 0; i < n; i += VW) {
        const vf u = load_upto(x + i, n - i), a = gelu_tail(u), s = v_mul(u, u), w = tail_weight(a), p = near_slope(s);
        vf k;
        const vf z = gauss_part(a, &k), gauss = v_scale2(v_add(v_set(1), z), k), below = v_sub(v_set(NEAR), a);
        const vf down = v_mul(gauss, v_sub(v_div(w, v_max(v_set(NEAR), a)), v_mul(a, c)));
        const vf far = v_select_positive(u, v_sub(v_set(1), down), down);
        const vf near = v_fma(u, v_fma(c, gauss, p), half);
        store_upto(dx + i, n - i, v_mul(v_select_positive(below, near, far), load_upto(dy + i, n - i)));
        if (y) store_upto(y + i, n - i, v_select_positive(below, gelu_near(u, s, p), gelu_far(u, w, z, k)));
    }
}
