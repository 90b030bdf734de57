/* Every row kernel of every tier of this machine against double precision: sizes around the vector width, unaligned
 * addresses, guard bytes, extreme values. test_products.c tests products, test_rotate.c rotations. */
#include "everywhere.h"

#include <float.h>

static const double EPS = FLT_EPSILON;

/* The distance between neighbouring floats at x. */
static double ulp(double x) {
    const float a = fabsf((float)x);
    if (isinf(a)) return ldexp(1, 104);
    return a < FLT_MIN ? ldexp(1, -149) : (double)(nextafterf(a, INFINITY) - a);
}

static void reductions(const ll_kernels *k, size_t n, size_t shift, uint64_t seed) {
    uint64_t from = seed;
    guarded x = guard_random(n, shift, &from), y = guard_random(n, 3 - shift, &from);
    double dot = 0, terms = 0, sum = 0, absolute = 0, max = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        dot += (double)x.p[i] * y.p[i], terms += fabs((double)x.p[i] * y.p[i]);
        sum += x.p[i], absolute += fabs(x.p[i]);
        max = fmax(max, x.p[i]);
    }
    const double slack = 8 * EPS * sqrt((double)n);
    near(k->name, "dot", n, 0, seed, k->dot(n, x.p, y.p), dot, slack * terms);
    near(k->name, "sum", n, 0, seed, k->sum(n, x.p), sum, slack * absolute);
    near(k->name, "max", n, 0, seed, k->max(n, x.p), max, 0);
    for (size_t i = 0; i < n; i++) { /* the largest at each index, all others -inf */
        for (size_t j = 0; j < n; j++) y.p[j] = -INFINITY;
        y.p[i] = -1e30f;
        near(k->name, "max", n, i, seed, k->max(n, y.p), -1e30f, 0);
    }
    guard_end(x, "reductions", k->name);
    guard_end(y, "reductions", k->name);
}
static void test_reductions(void **state) {
    (void)state;
    everywhere(reductions);
}

static void updates(const ll_kernels *k, size_t n, size_t shift, uint64_t seed) {
    uint64_t from = seed;
    const float a = 3 * signed_one(&from);
    guarded x = guard_random(n, shift, &from), y = guard_random(n, 3 - shift, &from), was = guard(n, 0);
    memcpy(was.p, y.p, n * sizeof(float));
    k->axpy(n, a, x.p, y.p);
    for (size_t i = 0; i < n; i++) {
        const double term = (double)a * x.p[i];
        near(k->name, "axpy", n, i, seed, y.p[i], was.p[i] + term, 2 * EPS * (fabs(was.p[i]) + fabs(term)));
    }
    memcpy(y.p, was.p, n * sizeof(float));
    k->add(n, x.p, y.p);
    for (size_t i = 0; i < n; i++) near(k->name, "add", n, i, seed, y.p[i], was.p[i] + x.p[i], 0);
    memcpy(y.p, was.p, n * sizeof(float));
    k->mul(n, x.p, y.p);
    for (size_t i = 0; i < n; i++) near(k->name, "mul", n, i, seed, y.p[i], was.p[i] * x.p[i], 0);
    memcpy(y.p, was.p, n * sizeof(float));
    k->softmax_back(n, a, x.p, y.p);
    for (size_t i = 0; i < n; i++)
        near(k->name, "softmax_back", n, i, seed, y.p[i], x.p[i] * (was.p[i] - a), 2 * EPS * 4 * fabs(x.p[i]));
    memcpy(y.p, was.p, n * sizeof(float));
    k->scale(n, a, y.p);
    for (size_t i = 0; i < n; i++) near(k->name, "scale", n, i, seed, y.p[i], a * was.p[i], 0);
    k->scaled(n, a, x.p, y.p);
    for (size_t i = 0; i < n; i++) near(k->name, "scaled", n, i, seed, y.p[i], a * x.p[i], 0);
    guard_end(x, "updates", k->name);
    guard_end(y, "updates", k->name);
    guard_end(was, "updates", k->name);
}
static void test_updates(void **state) {
    (void)state;
    everywhere(updates);
}

/* 2 ulp; below LL_EXP_LEAST a result may be denormal or 0 */
static double two_ulp(double exact) {
    return fabs(exact) < (double)LL_EXP_LEAST ? (double)LL_EXP_LEAST : 2 * ulp(exact);
}

static double gelu_exact(double x) {
    return x < -40 ? 0 : x * 0.5 * erfc(-x / sqrt(2));
}

static double gelu_error(double exact) { return fmax(2 * ulp(exact), (double)FLT_MIN); }

/* Every 1021st float, and the special ones. */
static void everywhere_on_the_line(const ll_kernels *k, const char *name, void (*fn)(size_t, const float *, float *),
                                   double (*definition)(double), double (*error)(double)) {
    enum { BLOCK = 4096 };
    static float x[BLOCK], y[BLOCK];
    static const float special[] = {0.0f,      -0.0f,    INFINITY,   -INFINITY, NAN,     88.72283f,
                                    88.72284f, 88.73f,   -87.33654f, -87.34f,   -103.9f, -104.5f,
                                    FLT_MAX,   -FLT_MAX, FLT_MIN,    1e-45f,    -1e-45f, 1,
                                    0.7f,      -0.7f,    -0.69999f,  -14.42f,   -14.43f, -14.5f};
    for (uint64_t bits = 0; bits < (uint64_t)1 << 32;) {
        for (int i = 0; i < BLOCK; i++, bits += 1021) {
            const uint32_t b = (uint32_t)bits;
            memcpy(x + i, &b, sizeof b);
        }
        if (bits == (uint64_t)BLOCK * 1021) memcpy(x, special, sizeof special);
        fn(BLOCK, x, y);
        for (size_t i = 0; i < BLOCK; i++) {
            const double exact = definition(x[i]), rounded = exact > FLT_MAX + ulp(FLT_MAX) / 2 ? INFINITY : exact;
            if (isinf(y[i]) && exact > FLT_MAX * (1 - 2 * EPS)) continue;
            near(k->name, name, BLOCK, i, (uint64_t)(bits / 1021), y[i], rounded, error(rounded));
        }
    }
}

static void test_ranges(void **state) {
    (void)state;
    const ll_kernels *k;
    for (int t = 0; (k = tier_at(t)); t++) {
        everywhere_on_the_line(k, "exp", k->exp, exp, two_ulp);
        everywhere_on_the_line(k, "gelu", k->gelu, gelu_exact, gelu_error);
    }
}

/* Results are the same bits in place and at any index of the vector: none may depend on the other numbers of the
 * row. */
static void exponentials(const ll_kernels *k, size_t n, size_t shift, uint64_t seed) {
    uint64_t from = seed;
    guarded x = guard_random(n, shift, &from), y = guard(n, 3 - shift);
    for (size_t i = 0; i < n; i++) x.p[i] *= 30;
    k->exp(n, x.p, y.p);
    for (size_t i = 0; i < n; i++) {
        float one;
        k->exp(1, x.p + i, &one);
        near(k->name, "exp", n, i, seed, y.p[i], exp(x.p[i]), two_ulp(exp(x.p[i])));
        near(k->name, "exp alone", n, i, seed, y.p[i], one, 0);
    }
    const float c = 5 * signed_one(&from), scale = 0.25f, eps = 1e-3f;
    k->exp_shift(n, c, scale, eps, x.p, y.p);
    for (size_t i = 0; i < n; i++) {
        const double e = exp((double)(x.p[i] - c));
        near(k->name, "exp_shift", n, i, seed, y.p[i], scale * (e + eps), scale * (two_ulp(e) + EPS * (e + eps)));
    }
    guarded z = guard(n, 1);
    memcpy(z.p, x.p, n * sizeof(float));
    k->exp_shift(n, c, scale, eps, z.p, z.p);
    if (n) assert_memory_equal(z.p, y.p, n * sizeof(float));
    const float top = n ? k->max(n, x.p) : 0, whole = k->exp_sum(n, top, x.p, y.p);
    double all = 0;
    for (size_t i = 0; i < n; i++) {
        const double e = exp((double)(x.p[i] - top));
        near(k->name, "exp_sum", n, i, seed, y.p[i], e, two_ulp(e));
        all += (double)y.p[i];
    }
    near(k->name, "sum of exp_sum", n, 0, seed, whole, all, 4 * EPS * all);
    memcpy(z.p, x.p, n * sizeof(float));
    assert_true(k->exp_sum(n, top, z.p, z.p) == whole);
    if (n) assert_memory_equal(z.p, y.p, n * sizeof(float));
    guard_end(z, "exp_shift", k->name);
    k->exp(n, x.p, y.p);
    k->exp(n, x.p, x.p);
    if (n) assert_memory_equal(x.p, y.p, n * sizeof(float));
    guard_end(x, "exp", k->name);
    guard_end(y, "exp", k->name);
}
static void test_exponentials(void **state) {
    (void)state;
    everywhere(exponentials);
}

/* y 2^e = exp(x - shift), with the largest y in (1/2, 1], also where e has few digits left. A larger neighbour changes
 * e, but no bit of the fraction. */
static void powers(const ll_kernels *k, size_t n, size_t shift, uint64_t seed) {
    uint64_t from = seed;
    guarded x = guard_random(n + 1, shift, &from), y = guard(n, 3 - shift), z = guard(n + 1, shift);
    const int twice = !strcmp(k->name, "wasm"); /* multiply-adds round twice */
    const float far = seed % 4 ? 0 : LL_EXP2_MOST - 1000;
    const float error = far <= 0 ? 0 : twice ? 0x1p-24f * LL_EXP2_MOST : 5e-6f;
    const float limit = far <= 0 ? 1 + 2 * (float)EPS : 1.3f * (1 + error);
    const float center = ldexpf(signed_one(&from), below(&from, 10)) + (seed % 8 ? far : -far);
    const float c = ldexpf(signed_one(&from), below(&from, 9));
    for (size_t i = 0; i < n; i++) x.p[i] = center + 20 * x.p[i];
    const int e = k->exp2_rows(n, c, x.p, y.p);
    float top = 0;
    for (size_t i = 0; i < n; i++) {
        const double exact = exp((double)(x.p[i] - c) - e * 0.69314718055994530942);
        near(k->name, "exp2_rows", n, i, seed, y.p[i], exact, two_ulp(exact) + (double)error * exact);
        if (y.p[i] > top) top = y.p[i];
    }
    if (n == 0) assert_int_equal(e, 0);
    if (n && !(top > 0.5f / limit && top <= limit))
        fail_msg("%s exp2_rows: size %zu, seed %llx: the largest result is %g", k->name, n, (unsigned long long)seed,
                 top);
    x.p[n] = n ? x.p[0] + 50 : 0;
    const int more = k->exp2_rows(n + 1, c, x.p, z.p);
    for (size_t i = 0; i < n; i++) {
        const double same = ldexp((double)y.p[i], e - more);
        near(k->name, "exp2_rows rescaled", n, i, seed, z.p[i], same, same < FLT_MIN ? FLT_MIN : 0);
    }
    guard_end(x, "exp2_rows", k->name);
    guard_end(y, "exp2_rows", k->name);
    guard_end(z, "exp2_rows", k->name);
}
static void test_powers(void **state) {
    (void)state;
    everywhere(powers);
    const ll_kernels *k;
    for (int t = 0; (k = tier_at(t)); t++) { /* no number; one number; NaN must show */
        float x[20], y[20];
        for (int i = 0; i < 20; i++) x[i] = -INFINITY;
        assert_int_equal(k->exp2_rows(20, 3, x, y), 0);
        for (int i = 0; i < 20; i++) assert_true(y[i] == 0);
        x[17] = -5000;
        assert_int_equal(k->exp2_rows(20, 0, x, y), (int)ceil(-5000 / log(2)));
        for (int i = 0; i < 20; i++) assert_true(i == 17 ? y[i] > 0.5f && y[i] <= 1 : y[i] == 0);
        for (int far = -1; far < 2; far += 2) { /* in units of the largest */
            for (int i = 0; i < 20; i++) x[i] = -(float)i;
            assert_int_equal(k->exp2_rows(20, (float)far * -1e38f, x, y), far * LL_EXP2_FAR);
            for (int i = 0; i < 20; i++) near(k->name, "exp2_rows", 20, i, 0, y[i], exp(-i), two_ulp(exp(-i)));
        }
        x[2] = NAN;
        (void)k->exp2_rows(20, 0, x, y);
        assert_true(isnan(y[2]));
    }
}

static void maps(const ll_kernels *k, size_t n, size_t shift, uint64_t seed) {
    uint64_t from = seed;
    guarded x = guard_random(n, shift, &from), d = guard_random(n, 3 - shift, &from), y = guard(n, shift);
    if (n > 2) x.p[n / 2] = 0;
    k->map[LL_MAP_RELU].forward(1, n, 1e-3f, x.p, n, y.p, n);
    for (size_t i = 0; i < n; i++) near(k->name, "relu", n, i, seed, y.p[i], fmaxf(x.p[i], 0) + 1e-3f, 0);
    const float eps = n & 1 ? 0 : 0.25f;
    if (n > 3) x.p[n / 3] = eps;
    k->map[LL_MAP_RELU].back(1, n, eps, x.p, n, d.p, n, y.p, n);
    for (size_t i = 0; i < n; i++) near(k->name, "relu_back", n, i, seed, y.p[i], x.p[i] > eps ? d.p[i] : 0, 0);
    k->map[LL_MAP_RELU].back(1, n, eps, x.p, n, d.p, n, d.p, n);
    if (n) assert_memory_equal(d.p, y.p, n * sizeof(float));
    for (size_t i = 0; i < n; i++) x.p[i] *= 8, d.p[i] = signed_one(&from);
    k->map[LL_MAP_ELU1].forward(1, n, 1e-3f, x.p, n, y.p, n);
    for (size_t i = 0; i < n; i++) {
        const double v = fmax(x.p[i], 0) + exp(fmin(x.p[i], 0)) + (double)1e-3f;
        near(k->name, "elu1", n, i, seed, y.p[i], v, 3 * EPS * v);
    }
    k->gelu(n, x.p, y.p);
    for (size_t i = 0; i < n; i++) {
        const double exact = gelu_exact(x.p[i]);
        near(k->name, "gelu", n, i, seed, y.p[i], exact, gelu_error(exact));
    }
    guarded du = guard(n, shift), again = guard(n, shift);
    k->gelu_back(n, x.p, d.p, du.p, again.p);
    if (n) assert_memory_equal(again.p, y.p, n * sizeof(float));
    k->gelu_back(n, x.p, d.p, y.p, NULL);
    if (n) assert_memory_equal(du.p, y.p, n * sizeof(float));
    for (size_t i = 0; i < n; i++) {
        const double v = x.p[i], slope = 0.5 * erfc(-v / sqrt(2)) + v * exp(-v * v / 2) / sqrt(2 * acos(-1));
        near(k->name, "gelu_back", n, i, seed, y.p[i], d.p[i] * slope, fabs(d.p[i]) * 2e-7);
    }
    k->map[LL_MAP_ELU1].forward(1, n, eps, x.p, n, y.p, n);
    k->map[LL_MAP_ELU1].back(1, n, eps, y.p, n, d.p, n, du.p, n);
    for (size_t i = 0; i < n; i++) {
        const double slope = exp(fmin(x.p[i], 0)), slack = fabs(d.p[i]) * (slope + eps) * 3 * EPS;
        near(k->name, "elu1_back", n, i, seed, du.p[i], d.p[i] * slope, slack);
    }
    k->map[LL_MAP_ELU1].back(1, n, eps, y.p, n, d.p, n, d.p, n);
    if (n) assert_memory_equal(d.p, du.p, n * sizeof(float));
    if (n) {
        x.p[n - 1] = NAN;
        k->map[LL_MAP_RELU].forward(1, n, 0, x.p, n, y.p, n);
        near(k->name, "relu of NaN", n, n - 1, seed, y.p[n - 1], NAN, 0);
        k->gelu(n, x.p, y.p);
        near(k->name, "gelu of NaN", n, n - 1, seed, y.p[n - 1], NAN, 0);
        k->gelu_back(n, x.p, d.p, y.p, NULL);
        near(k->name, "gelu_back of NaN", n, n - 1, seed, y.p[n - 1], NAN, 0);
        x.p[0] = INFINITY;
        if (n > 1) x.p[n - 1] = -INFINITY;
        for (size_t i = 0; i < n; i++) d.p[i] = 0.5f;
        k->gelu_back(n, x.p, d.p, y.p, NULL);
        near(k->name, "gelu_back of infinity", n, 0, seed, y.p[0], 0.5, 0);
        if (n > 1) near(k->name, "gelu_back of -infinity", n, n - 1, seed, y.p[n - 1], 0, FLT_MIN);
    }
    guarded all[] = {x, d, y, du, again};
    for (size_t i = 0; i < 5; i++) guard_end(all[i], "maps", k->name);
}
static void test_maps(void **state) {
    (void)state;
    everywhere(maps);
}

static void norms(const ll_kernels *k, size_t n, size_t shift, uint64_t seed) {
    enum { ROWS = 3 };
    if (n == 0) return;
    uint64_t from = seed;
    guarded x = guard_random(ROWS * n, shift, &from), gain = guard_random(n, 1, &from),
            bias = guard_random(n, 2, &from);
    guarded y = guard(ROWS * n, shift), dy = guard_random(ROWS * n, 3, &from), dx = guard_random(ROWS * n, 1, &from);
    guarded dgain = guard_random(n, 2, &from), dbias = guard_random(n, shift, &from), mean = guard(ROWS, 1);
    guarded rstd = guard(ROWS, 2), dx0 = guard(ROWS * n, 0), dgain0 = guard(n, 0), dbias0 = guard(n, 0);
    for (size_t i = 0; i < ROWS * n; i++) x.p[i] = 2 * x.p[i] + 3;
    memcpy(dx0.p, dx.p, ROWS * n * sizeof(float));
    memcpy(dgain0.p, dgain.p, n * sizeof(float));
    memcpy(dbias0.p, dbias.p, n * sizeof(float));
    k->norm(ROWS, (int)n, 1e-5f, x.p, gain.p, bias.p, y.p, mean.p, rstd.p);
    k->norm_back(ROWS, (int)n, x.p, gain.p, mean.p, rstd.p, dy.p, dx.p, dgain.p, dbias.p);
    for (size_t i = 0; i < ROWS; i++) {
        const float *xi = x.p + i * n, *gi = dy.p + i * n;
        double mu = 0, square = 0, h = 0, hx = 0;
        for (size_t j = 0; j < n; j++) mu += xi[j] / (double)n;
        for (size_t j = 0; j < n; j++) square += (xi[j] - mu) * (xi[j] - mu) / (double)n;
        const double r = 1 / sqrt(square + 1e-5f), slack = 40 * EPS * fmax(1, r);
        near(k->name, "norm mean", n, i, seed, mean.p[i], mu, 8 * EPS * 3);
        near(k->name, "norm rstd", n, i, seed, rstd.p[i], r, slack * r);
        for (size_t j = 0; j < n; j++) {
            const double t = (double)gi[j] * gain.p[j];
            h += t / (double)n, hx += t * (xi[j] - mu) * r / (double)n;
        }
        for (size_t j = 0; j < n; j++) {
            const double xhat = (xi[j] - mu) * r, t = (double)gi[j] * gain.p[j];
            near(k->name, "norm", n, i * n + j, seed, y.p[i * n + j], xhat * gain.p[j] + bias.p[j],
                 slack * (1 + fabs(xhat)));
            near(k->name, "norm_back x", n, i * n + j, seed, dx.p[i * n + j],
                 dx0.p[i * n + j] + r * (t - h - xhat * hx), slack * r * (2 + fabs(xhat)));
            dgain0.p[j] += (float)(gi[j] * xhat);
            dbias0.p[j] += gi[j];
        }
        if (i == ROWS - 1)
            for (size_t j = 0; j < n; j++) {
                near(k->name, "norm_back gain", n, j, seed, dgain.p[j], dgain0.p[j], 4 * slack);
                near(k->name, "norm_back bias", n, j, seed, dbias.p[j], dbias0.p[j], 4 * slack);
            }
    }
    guarded all[] = {x, gain, bias, y, dy, dx, dgain, dbias, mean, rstd, dx0, dgain0, dbias0};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) guard_end(all[i], "norm", k->name);
}
static void test_norms(void **state) {
    (void)state;
    everywhere(norms);
}

static void losses(const ll_kernels *k, size_t n, size_t shift, uint64_t seed) {
    if (n == 0) return;
    uint64_t from = seed;
    guarded x = guard_random(n, shift, &from), was = guard(n, 0);
    const float spread = ldexpf(1, below(&from, 14)), weight = 0.37f;
    for (size_t i = 0; i < n; i++) was.p[i] = x.p[i] *= spread;
    const int target = below(&from, (int)n);
    const double loss = k->softmax_loss((int)n, x.p, target, weight);
    double top = -INFINITY, total = 0;
    for (size_t i = 0; i < n; i++) top = fmax(top, was.p[i]);
    for (size_t i = 0; i < n; i++) total += exp(was.p[i] - top);
    const double expect = log(total) + top - was.p[target];
    near(k->name, "softmax_loss", n, (size_t)target, seed, loss, expect, 4 * EPS * (1 + fabs(expect)));
    for (size_t i = 0; i < n; i++) {
        const double t = (double)was.p[i] - top; /* x - top is rounded to float before exp */
        const double g = weight * (exp(t) / total - ((int)i == target));
        near(k->name, "softmax_loss gradient", n, i, seed, x.p[i], g,
             weight * EPS * (4 * ((int)i == target) + (8 + fabs(t)) * exp(t) / total) + FLT_MIN);
    }
    guard_end(x, "softmax_loss", k->name);
    guard_end(was, "softmax_loss", k->name);
}
static void test_losses(void **state) {
    (void)state;
    everywhere(losses);
}

static void steps(const ll_kernels *k, size_t n, size_t shift, uint64_t seed) {
    uint64_t from = seed;
    guarded p = guard_random(n, shift, &from), m = guard_random(n, 1, &from), v = guard_random(n, 2, &from);
    guarded g = guard_random(n, 3, &from), p0 = guard(n, 0), m0 = guard(n, 0), v0 = guard(n, 0);
    for (size_t i = 0; i < n; i++) v.p[i] = i % 5 ? fabsf(v.p[i]) : 0;
    memcpy(p0.p, p.p, n * sizeof(float));
    memcpy(m0.p, m.p, n * sizeof(float));
    memcpy(v0.p, v.p, n * sizeof(float));
    const float gscale = 0.7f, beta1 = 0.9f, beta2 = 0.98f, rate = 0.01f, vscale = 1.5f, eps = 1e-8f, decay = 1e-3f;
    k->adam(n, p.p, m.p, v.p, g.p, gscale, beta1, beta2, rate, vscale, eps, decay);
    for (size_t i = 0; i < n; i++) {
        const double d = (double)g.p[i] * gscale, m1 = beta1 * m0.p[i] + (1 - beta1) * d;
        const double v1 = beta2 * v0.p[i] + (1 - beta2) * d * d, move = rate / (sqrt(v1) * vscale + eps);
        near(k->name, "adam m", n, i, seed, m.p[i], m1, 4 * EPS);
        near(k->name, "adam v", n, i, seed, v.p[i], v1, 4 * EPS * v1);
        near(k->name, "adam p", n, i, seed, p.p[i], (1 - (double)decay) * p0.p[i] - move * m1, 4 * EPS * (1 + move));
    }
    guarded all[] = {p, m, v, g, p0, m0, v0};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) guard_end(all[i], "adam", k->name);
}
static void test_steps(void **state) {
    (void)state;
    everywhere(steps);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reductions),   cmocka_unit_test(test_updates), cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_exponentials), cmocka_unit_test(test_powers),  cmocka_unit_test(test_maps),
        cmocka_unit_test(test_norms),        cmocka_unit_test(test_losses),  cmocka_unit_test(test_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
