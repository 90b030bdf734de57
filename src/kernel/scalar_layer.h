/* The plain LayerNorm, RMSNorm, SiLU and its kin, and dropout of scalar.c, which includes this. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>

/* 1 / sqrt(square), and 0 for a row of zeros (or of equal values) without eps. */
static double inverse_deviation(double square) { return square == 0 ? 0 : 1 / sqrt(square); }

static void norm(int rows, int n, float eps, const float *x, const float *gain, const float *bias, float *y,
                 float *mean, float *rstd) {
    for (int i = 0; i < rows; i++, x += n, y += n) {
        double total = 0, square = 0;
        for (int j = 0; j < n; j++) total += x[j];
        double mu = total / n;
        for (int j = 0; j < n; j++) square += (x[j] - mu) * (x[j] - mu);
        double r = inverse_deviation(square / n + eps);
        for (int j = 0; j < n; j++) y[j] = (float)((x[j] - mu) * r * gain[j] + bias[j]);
        mean[i] = (float)mu;
        rstd[i] = (float)r;
    }
}

/* With h = dy gain: dx += rstd (h - mean(h) - xhat mean(h xhat)). */
static void norm_back(int rows, int n, const float *x, const float *gain, const float *mean, const float *rstd,
                      const float *dy, float *dx, float *dgain, float *dbias) {
    for (int i = 0; i < rows; i++, x += n, dy += n, dx += n) {
        double h_mean = 0, hx_mean = 0;
        for (int j = 0; j < n; j++) {
            double h = (double)dy[j] * gain[j], xhat = ((double)x[j] - mean[i]) * rstd[i];
            h_mean += h / n;
            hx_mean += h * xhat / n;
        }
        for (int j = 0; j < n; j++) {
            double h = (double)dy[j] * gain[j], xhat = ((double)x[j] - mean[i]) * rstd[i];
            dx[j] += (float)(rstd[i] * (h - h_mean - xhat * hx_mean));
            dgain[j] += (float)(dy[j] * xhat);
            dbias[j] += dy[j];
        }
    }
}

static void rms_norm(int rows, int n, float eps, const float *x, const float *gain, float *y, float *rrms) {
    for (int i = 0; i < rows; i++, x += n, y += n) {
        double square = 0;
        for (int j = 0; j < n; j++) square += (double)x[j] * x[j];
        const double r = inverse_deviation(square / n + eps);
        for (int j = 0; j < n; j++) y[j] = (float)(x[j] * r * gain[j]);
        rrms[i] = (float)r;
    }
}

/* With h = dy gain and xhat = x rrms: dx += rrms (h - xhat mean(h xhat)). */
static void rms_norm_back(int rows, int n, const float *x, const float *gain, const float *rrms, const float *dy,
                          float *dx, float *dgain) {
    for (int i = 0; i < rows; i++, x += n, dy += n, dx += n) {
        double hx_mean = 0;
        for (int j = 0; j < n; j++) hx_mean += (double)dy[j] * gain[j] * x[j] * rrms[i] / n;
        for (int j = 0; j < n; j++) {
            const double xhat = (double)x[j] * rrms[i];
            dx[j] += (float)(rrms[i] * ((double)dy[j] * gain[j] - xhat * hx_mean));
            dgain[j] += (float)(dy[j] * xhat);
        }
    }
}

/* 1 / (1 + e^-(a u + b u^3)) of a u that is limited, so that nothing overflows: it is 0 or 1 beyond. */
static double swish_gate(float a, float b, double u) {
    return 1 / (1 + exp(-u * (a + b * u * u)));
}
static double swish_input(float x) { return x < -200 ? -200 : x > 200 ? 200 : x; }

static void swish(size_t n, float a, float b, const float *x, float *y) {
    for (size_t i = 0; i < n; i++) {
        const double u = swish_input(x[i]);
        y[i] = (float)((x[i] > u ? x[i] : u) * swish_gate(a, b, u));
    }
}

static void swish_back(size_t n, float a, float b, const float *x, const float *dy, float *dx) {
    for (size_t i = 0; i < n; i++) {
        const double u = swish_input(x[i]), s = swish_gate(a, b, u);
        dx[i] = (float)(dy[i] * (s + u * s * (1 - s) * (a + 3 * b * u * u)));
    }
}

static void dropout(size_t n, const uint32_t *words, unsigned dropped, float scale, int add, const float *x, float *y) {
    for (size_t i = 0; i < n; i++) {
        const float kept = (words[i / 2] >> (i % 2 * 16) & 0xffff) < dropped ? 0 : scale * x[i];
        y[i] = add ? y[i] + kept : kept;
    }
}
