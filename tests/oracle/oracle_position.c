/* Positions by their definitions: every code of every feature at every token, written out. */
#include "oracle_position.h"

#include <math.h>
#include <string.h>

int oracle_width(const ll_attention_config *c) {
    if (c->position == LL_POSITION_SINE_SPE || c->position == LL_POSITION_CONV_SPE) return c->encoding.realizations;
    if (c->position == LL_POSITION_RELATIVE_S1) return c->D + 2 * c->encoding.scales * c->encoding.axes;
    return c->D;
}

int oracle_parameter_count(const ll_attention_config *c, int which) {
    const ll_position_config *w = &c->encoding;
    const int HD = c->H * c->D, spe = c->position == LL_POSITION_SINE_SPE || c->position == LL_POSITION_CONV_SPE;
    if (which == ORACLE_GATE) return spe && w->gate ? HD : 0;
    if (which <= ORACLE_GAINS) return c->position == LL_POSITION_SINE_SPE ? HD * w->sines : 0;
    if (which <= ORACLE_FILTER_K)
        return c->position == LL_POSITION_CONV_SPE ? HD * w->taps * (w->taps2 ? w->taps2 : 1) : 0;
    if (c->position != LL_POSITION_RELATIVE_S1) return 0;
    return which == ORACLE_INV_FREQ ? w->scales : c->H * w->scales * w->axes;
}

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

/* The rule of LLaMA 3.1, as published in wavelengths. */
static double smaller(const ll_rope_scaling *s, double angle) {
    const double wavelength = 2 * 3.14159265358979323846 / angle;
    if (s->factor <= 1) return angle;
    if (s->length == 0 || wavelength > s->length / s->low) return angle / s->factor;
    if (wavelength < s->length / s->high) return angle;
    const double smooth = (s->length / wavelength - s->low) / (s->high - s->low);
    return (1 - smooth) * angle / s->factor + smooth * angle;
}

static void rope(const ll_attention_config *c, int i, const double *x, double *out) {
    for (int t = 0; t < c->D / 2; t++) {
        const double base = c->encoding.base > 0 ? c->encoding.base : 10000;
        const int n = c->encoding.rotary ? c->encoding.rotary : c->D;
        const double own = 2 * t < n ? smaller(&c->encoding.scaling, pow(base, -2.0 * t / n)) : 0;
        const double angle = i * (c->encoding.theta ? (double)c->encoding.theta[t] : own);
        out[2 * t] = x[2 * t] * cos(angle) - x[2 * t + 1] * sin(angle);
        out[2 * t + 1] = x[2 * t + 1] * cos(angle) + x[2 * t] * sin(angle);
    }
    if (c->D % 2) out[c->D - 1] = x[c->D - 1];
}

/* Realization r of the code of feature hd = h D + c at token i. */
static double sine_code(const ll_attention_config *c, double *const *p, int side, int hd, int i, int r) {
    const int K = c->encoding.sines, R = c->encoding.realizations;
    double code = 0;
    for (int t = 0; t < K; t++) {
        const double f = sigmoid(p[ORACLE_FREQS][hd * K + t]) / 2, gain = log(1 + exp(p[ORACLE_GAINS][hd * K + t]));
        const double angle = 2 * 3.14159265358979323846 * f * i + (side ? 0 : p[ORACLE_OFFSETS][hd * K + t]);
        const float *z = c->encoding.noise + ((size_t)hd * 2 * (size_t)K + 2 * (size_t)t) * (size_t)R + r;
        code += gain * (cos(angle) * (double)z[0] + sin(angle) * (double)z[R]);
    }
    return code / sqrt(2 * K);
}

static double conv_code(const ll_attention_config *c, double *const *p, int side, int hd, int i, int r) {
    const ll_position_config *w = &c->encoding;
    const int P1 = w->taps, P2 = w->taps2 ? w->taps2 : 1, cols = w->taps2 ? w->noise_cols : 1, R = w->realizations;
    const double *filter = p[side ? ORACLE_FILTER_K : ORACLE_FILTER_Q] + hd * P1 * P2;
    const int pixel = i < c->before ? 0 : i - c->before;
    const int y = w->taps2 ? pixel / c->width : i, x = w->taps2 ? pixel % c->width : 0;
    double code = 0;
    for (int a = 0; a < P1; a++)
        for (int b = 0; b < P2; b++) {
            const int row = (hd * w->noise_rows + y + a) * cols + x + b;
            code += filter[a * P2 + b] * (double)w->noise[(size_t)row * (size_t)R + (size_t)r];
        }
    return code;
}

static void spe(const ll_attention_config *c, double *const *p, int side, int h, int i, const double *x, double *out) {
    const int R = c->encoding.realizations, gated = c->encoding.gate != NULL;
    for (int r = 0; r < R; r++) {
        out[r] = 0;
        for (int e = 0; e < c->D; e++) {
            const int hd = h * c->D + e;
            const double d = gated ? sigmoid(p[ORACLE_GATE][hd]) : 0;
            const double code =
                c->position == LL_POSITION_SINE_SPE ? sine_code(c, p, side, hd, i, r) : conv_code(c, p, side, hd, i, r);
            out[r] += x[e] * sqrt(1 - d) * code;
            if (gated) out[r] += x[e] * sqrt(d) * (double)c->encoding.gate_noise[hd * R + r];
        }
        out[r] /= pow((double)R * c->D, 0.25);
    }
}

static void relative(const ll_attention_config *c, double *const *p, int side, int h, int i, const double *x,
                     double *out) {
    const int scales = c->encoding.scales, pairs = scales * c->encoding.axes, at = i - c->before;
    memcpy(out, x, (size_t)c->D * sizeof *out);
    for (int n = 0; n < pairs; n++) {
        const int place = c->encoding.axes == 1 ? at : n < scales ? at / c->width : at % c->width;
        const double angle = p[ORACLE_INV_FREQ][n % scales] * place, s = sin(angle), k = cos(angle);
        const double a = p[ORACLE_ALPHA][h * pairs + n], b = p[ORACLE_BETA][h * pairs + n];
        double *to = out + c->D + 2 * n;
        to[0] = at < 0 ? 0 : side ? s : a * s - b * k;
        to[1] = at < 0 ? 0 : side ? k : b * s + a * k;
    }
}

void oracle_encode(const ll_attention_config *c, double *const *parameter, int side, int B, int n, const double *x,
                   double *out) {
    for (int row = 0; row < B * c->H * n; row++, x += c->D, out += oracle_width(c)) {
        const int i = row % n, h = row / n % c->H;
        switch (c->position) {
        case LL_POSITION_ROPE: rope(c, i, x, out); break;
        case LL_POSITION_SINE_SPE:
        case LL_POSITION_CONV_SPE: spe(c, parameter, side, h, i, x, out); break;
        case LL_POSITION_RELATIVE_S1: relative(c, parameter, side, h, i, x, out); break;
        default: memcpy(out, x, (size_t)c->D * sizeof *out);
        }
    }
}
