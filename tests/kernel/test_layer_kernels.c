/* RMSNorm, SiLU, GELU by tanh and dropout in every tier against double precision. */
#include "everywhere.h"

#include <float.h>

static const double EPS = FLT_EPSILON;

/* RMSNorm and its gradients. */
static void rms_norms(const ll_kernels *k, size_t n, size_t shift, uint64_t seed) {
    enum { ROWS = 3 };
    if (n == 0) return;
    uint64_t from = seed;
    guarded x = guard_random(ROWS * n, shift, &from), gain = guard_random(n, 1, &from), y = guard(ROWS * n, shift);
    guarded dy = guard_random(ROWS * n, 3, &from), dx = guard_random(ROWS * n, 1, &from), dx0 = guard(ROWS * n, 0);
    guarded dgain = guard_random(n, 2, &from), dgain0 = guard(n, 0), rrms = guard(ROWS, 2);
    memcpy(dx0.p, dx.p, ROWS * n * sizeof(float));
    memcpy(dgain0.p, dgain.p, n * sizeof(float));
    k->rms_norm(ROWS, (int)n, 1e-3f, x.p, gain.p, y.p, rrms.p);
    k->rms_norm_back(ROWS, (int)n, x.p, gain.p, rrms.p, dy.p, dx.p, dgain.p);
    for (size_t i = 0; i < ROWS; i++) {
        double square = 0, mean = 0;
        for (size_t j = 0; j < n; j++) square += (double)x.p[i * n + j] * x.p[i * n + j] / (double)n;
        const double r = 1 / sqrt(square + 1e-3f), slack = 40 * EPS * fmax(1, r);
        near(k->name, "rms_norm rrms", n, i, seed, rrms.p[i], r, slack * r);
        for (size_t j = 0; j < n; j++) mean += (double)dy.p[i * n + j] * gain.p[j] * x.p[i * n + j] * r / (double)n;
        for (size_t j = 0; j < n; j++) {
            const double xhat = x.p[i * n + j] * r, t = (double)dy.p[i * n + j] * gain.p[j];
            near(k->name, "rms_norm", n, i * n + j, seed, y.p[i * n + j], xhat * gain.p[j], slack * (1 + fabs(xhat)));
            near(k->name, "rms_norm_back x", n, i * n + j, seed, dx.p[i * n + j],
                 dx0.p[i * n + j] + r * (t - xhat * mean), slack * r * (2 + fabs(xhat)));
            dgain0.p[j] += (float)(dy.p[i * n + j] * xhat);
            if (i == ROWS - 1) near(k->name, "rms_norm_back gain", n, j, seed, dgain.p[j], dgain0.p[j], 4 * slack);
        }
    }
    guarded all[] = {x, gain, y, dy, dx, dx0, dgain, dgain0, rrms};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) guard_end(all[i], "rms_norm", k->name);
}

/* Without eps, rows of zeros (padding) are zeros, and so are their gradients; what is not a number stays so. */
static void norms_of_zeros(const ll_kernels *k, size_t n, size_t shift, uint64_t seed) {
    if (n == 0) return;
    uint64_t from = seed;
    guarded x = guard(n, shift), gain = guard_random(n, 1, &from), bias = guard_random(n, 2, &from);
    guarded dy = guard_random(n, 3, &from), y = guard(n, shift), dx = guard(n, 1);
    guarded dgain = guard(n, 2), dbias = guard(n, 0);
    float mean, rstd;
    memset(x.p, 0, n * sizeof(float));
    memset(dx.p, 0, n * sizeof(float));
    memset(dgain.p, 0, n * sizeof(float));
    memset(dbias.p, 0, n * sizeof(float));
    k->norm(1, (int)n, 0, x.p, gain.p, bias.p, y.p, &mean, &rstd);
    for (size_t j = 0; j < n; j++) near(k->name, "norm of zeros", n, j, seed, y.p[j], bias.p[j], 0);
    k->norm_back(1, (int)n, x.p, gain.p, &mean, &rstd, dy.p, dx.p, dgain.p, dbias.p);
    k->rms_norm(1, (int)n, 0, x.p, gain.p, y.p, &rstd);
    k->rms_norm_back(1, (int)n, x.p, gain.p, &rstd, dy.p, dx.p, dgain.p);
    for (size_t j = 0; j < n; j++) {
        near(k->name, "rms_norm of zeros", n, j, seed, y.p[j], 0, 0);
        near(k->name, "gradient of a norm of zeros", n, j, seed, dx.p[j], 0, 0);
        near(k->name, "gradient of a gain of zeros", n, j, seed, dgain.p[j], 0, 0);
    }
    x.p[n - 1] = NAN;
    k->norm(1, (int)n, 0, x.p, gain.p, bias.p, y.p, &mean, &rstd);
    near(k->name, "norm of NaN", n, n - 1, seed, y.p[n - 1], NAN, 0);
    k->rms_norm(1, (int)n, 0, x.p, gain.p, y.p, &rstd);
    near(k->name, "rms_norm of NaN", n, n - 1, seed, y.p[n - 1], NAN, 0);
    guarded all[] = {x, gain, bias, dy, y, dx, dgain, dbias};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) guard_end(all[i], "norm of zeros", k->name);
}

static void swishes(const ll_kernels *k, size_t n, size_t shift, uint64_t seed) {
    uint64_t from = seed;
    guarded x = guard_random(n, shift, &from), d = guard_random(n, 3 - shift, &from), y = guard(n, shift);
    for (size_t i = 0; i < n; i++) x.p[i] *= 8;
    for (int tanh_like = 0; tanh_like < 2; tanh_like++) {
        const float a = tanh_like ? 1.59576912f : 1, b = tanh_like ? 0.0713548163f : 0;
        guarded way = guard(n, shift);
        k->swish(n, a, b, x.p, y.p);
        k->swish_back(n, a, b, x.p, d.p, way.p);
        for (size_t i = 0; i < n; i++) {
            const double v = x.p[i], s = 1 / (1 + exp(-v * ((double)a + (double)b * v * v)));
            const double slope = s + v * s * (1 - s) * ((double)a + 3 * (double)b * v * v);
            near(k->name, "swish", n, i, seed, y.p[i], v * s, fabs(v) * 4e-7);
            near(k->name, "swish_back", n, i, seed, way.p[i], d.p[i] * slope, fabs(d.p[i]) * (1 + v * v) * 1e-6);
        }
        guard_end(way, "swish", k->name);
    }
    if (n) {
        const float far[] = {-INFINITY, INFINITY, -1e30f, 1e30f, -300, 300}, one = 1;
        for (size_t i = 0; i < sizeof far / sizeof *far; i++) {
            k->swish(1, 1, 0.1f, far + i, y.p);
            near(k->name, "swish far away", n, i, seed, y.p[0], far[i] > 0 ? far[i] : 0, 1e-36);
            k->swish_back(1, 1, 0.1f, far + i, &one, y.p);
            near(k->name, "swish_back far away", n, i, seed, y.p[0], far[i] > 0, 1e-36);
        }
        k->swish(n, 1, 0, x.p, x.p);
        k->swish_back(n, 1, 0, x.p, d.p, d.p);
        x.p[n - 1] = NAN;
        k->swish(n, 1, 0, x.p, y.p);
        near(k->name, "swish of NaN", n, n - 1, seed, y.p[n - 1], NAN, 0);
    }
    guard_end(x, "swish", k->name);
    guard_end(d, "swish", k->name);
    guard_end(y, "swish", k->name);
}

static void dropouts(const ll_kernels *k, size_t n, size_t shift, uint64_t seed) {
    uint64_t from = seed;
    guarded x = guard_random(n, shift, &from), y = guard_random(n, 3 - shift, &from), y0 = guard(n, 0);
    uint32_t word[160];
    const unsigned dropped[] = {0, 1, 0x8000, 65535};
    for (size_t i = 0; i < sizeof word / sizeof *word; i++) word[i] = (uint32_t)next64(&from);
    word[0] = 0x7fff8000; /* on both sides of a limit */
    for (size_t d = 0; d < sizeof dropped / sizeof *dropped; d++)
        for (int add = 0; add < 2; add++) {
            memcpy(y0.p, y.p, n * sizeof(float));
            k->dropout(n, word, dropped[d], 1.25f, add, x.p, y.p);
            for (size_t i = 0; i < n; i++) {
                const unsigned half = word[i / 2] >> (i % 2 ? 16 : 0) & 0xffff;
                const float kept = half < dropped[d] ? 0 : 1.25f * x.p[i];
                near(k->name, "dropout", n, i, seed, y.p[i], add ? y0.p[i] + kept : kept, 0);
            }
        }
    memcpy(y0.p, x.p, n * sizeof(float));
    k->dropout(n, word, 0x8000, 2, 0, y0.p, y.p);
    k->dropout(n, word, 0x8000, 2, 0, x.p, x.p);
    if (n) assert_memory_equal(x.p, y.p, n * sizeof(float));
    guarded all[] = {x, y, y0};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) guard_end(all[i], "dropout", k->name);
}

static void test_rms_norm(void **state) {
    (void)state;
    everywhere(rms_norms);
}

static void test_norm_of_zeros(void **state) {
    (void)state;
    everywhere(norms_of_zeros);
}

static void test_swish(void **state) {
    (void)state;
    everywhere(swishes);
}

static void test_dropout(void **state) {
    (void)state;
    everywhere(dropouts);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rms_norm), cmocka_unit_test(test_norm_of_zeros),
                                       cmocka_unit_test(test_swish), cmocka_unit_test(test_dropout)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
