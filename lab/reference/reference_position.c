/* Positions that act on queries and keys, in double, term by term. */
#include <math.h>
#include <string.h>

#include "attention/position/premap.h"
#include "reference/reference.h"
#include "base/memory.h"
#include "base/random.h"

static const double TWO_PI = 6.28318530717958647692;

static int is_sine(const ll_attention_config *c) {
    return c->position == LL_POSITION_SINE_SPE;
}
static int is_conv(const ll_attention_config *c) {
    return c->position == LL_POSITION_CONV_SPE;
}

/* Numbers of noise number `first` on, of a head. */
static void draw(const ll_attention_config *c, int h, int gate, float *to, size_t n, uint64_t first) {
    const uint64_t id = ll_stream_id(LL_RANDOM_NOISE, (uint32_t)c->encoding.layer, (uint32_t)(2 * h + gate));
    ll_normal_fill(to, n, c->encoding.seed, id, first);
}

ll_status ll_reference_position_create(ll_reference_position *p, const ll_attention_config *c) {
    const ll_position_config *w = &c->encoding;
    const size_t H = (size_t)c->H, D = (size_t)c->D, R = (size_t)w->realizations;
    *p = (ll_reference_position){.c = c, .width = ll_attention_width(c)};
    if (w->noise || w->gate_noise)
        return ll_fail(LL_EINVAL, "stream-error: noise that was given ends somewhere; leave it to be drawn");
    if (!is_sine(c) && !is_conv(c)) return LL_OK;
    const size_t rows = is_sine(c) ? 2 * (size_t)w->sines : (size_t)w->taps;
    p->noise = ll_alloc(H * rows * D, R * sizeof *p->noise);
    p->gate = ll_alloc(H * D, R * sizeof *p->gate);
    p->drawn = ll_alloc(H, sizeof *p->drawn);
    if (!p->noise || !p->gate || !p->drawn) {
        ll_reference_position_free(p);
        return LL_ENOMEM;
    }
    for (int h = 0; h < c->H; h++) {
        draw(c, h, 1, p->gate + (size_t)h * D * R, D * R, 0);
        if (is_sine(c)) draw(c, h, 0, p->noise + (size_t)h * rows * D * R, rows * D * R, 0);
    }
    return LL_OK;
}

void ll_reference_position_free(ll_reference_position *p) {
    ll_free(p->noise);
    ll_free(p->gate);
    ll_free(p->drawn);
    memset(p, 0, sizeof *p);
}

/* In wavelengths, as the rule is published. */
static double scaled(const ll_rope_scaling *s, double angle) {
    const double wavelength = TWO_PI / angle;
    if (!s || s->factor <= 1) return angle;
    if (s->length == 0 || wavelength > s->length / s->low) return angle / s->factor;
    if (wavelength < s->length / s->high) return angle;
    const double smooth = (s->length / wavelength - s->low) / (s->high - s->low);
    return (1 - smooth) * angle / s->factor + smooth * angle;
}

void ll_reference_rotate(int n, const float *theta, double base, const ll_rope_scaling *scaling, int64_t position,
                         double *x) {
    for (int t = 0; t < n / 2; t++) {
        const double own = theta ? (double)theta[t] : scaled(scaling, pow(base, -2.0 * t / n));
        const double angle = own * (double)position;
        const double cosine = cos(angle), sine = sin(angle), a = x[2 * t], b = x[2 * t + 1];
        x[2 * t] = a * cosine - b * sine;
        x[2 * t + 1] = b * cosine + a * sine;
    }
}

/* out += weight code, of feature f of head h. */
static void sine_code(const ll_reference_position *p, int side, int h, int f, int64_t position, double weight,
                      double *out) {
    const ll_position_config *w = &p->c->encoding;
    const int K = w->sines, R = w->realizations, hd = h * p->c->D + f;
    for (int t = 0; t < K; t++) {
        const double frequency = ll_sigmoid((double)w->freqs[hd * K + t]) / 2;
        const double gain = weight * log1p(exp((double)w->gains[hd * K + t])) / sqrt(2 * K);
        const double angle =
            TWO_PI * frequency * (double)position + (side == LL_QUERY ? (double)w->offsets[hd * K + t] : 0);
        const double cosine = gain * cos(angle), sine = gain * sin(angle);
        const float *z = p->noise + ((size_t)hd * 2 * (size_t)K + 2 * (size_t)t) * (size_t)R;
        for (int r = 0; r < R; r++) out[r] += cosine * (double)z[r] + sine * (double)z[R + r];
    }
}

/* Rows position .. position + taps - 1 are in the ring; row n of feature f is drawn from number (n D + f) R on. */
static void reach(ll_reference_position *p, int h, int64_t position) {
    const int64_t taps = p->c->encoding.taps;
    const size_t row = (size_t)p->c->D * (size_t)p->c->encoding.realizations;
    float *ring = p->noise + (size_t)h * (size_t)taps * row;
    for (; p->drawn[h] < position + taps; p->drawn[h]++)
        draw(p->c, h, 0, ring + (size_t)(p->drawn[h] % taps) * row, row, (uint64_t)p->drawn[h] * (uint64_t)row);
}

static void conv_code(const ll_reference_position *p, int side, int h, int f, int64_t position, double weight,
                      double *out) {
    const ll_position_config *w = &p->c->encoding;
    const size_t R = (size_t)w->realizations, D = (size_t)p->c->D, taps = (size_t)w->taps;
    const float *filter = (side == LL_QUERY ? w->filter_q : w->filter_k) + ((size_t)h * D + (size_t)f) * taps;
    for (size_t t = 0; t < taps; t++) {
        const size_t slot = (size_t)(position + (int64_t)t) % taps;
        const float *z = p->noise + (((size_t)h * taps + slot) * D + (size_t)f) * R;
        for (size_t r = 0; r < R; r++) out[r] += weight * (double)filter[t] * (double)z[r];
    }
}

static void spe(ll_reference_position *p, int side, int h, int64_t position, const float *x, double *out) {
    const ll_position_config *w = &p->c->encoding;
    const int R = w->realizations, D = p->c->D;
    const double unit = pow((double)R * D, -0.25);
    memset(out, 0, (size_t)R * sizeof *out);
    if (is_conv(p->c)) reach(p, h, position);
    for (int f = 0; f < D; f++) {
        const double gate = w->gate ? ll_sigmoid((double)w->gate[h * D + f]) : 0, in = unit * (double)x[f];
        if (is_conv(p->c))
            conv_code(p, side, h, f, position, in * sqrt(1 - gate), out);
        else
            sine_code(p, side, h, f, position, in * sqrt(1 - gate), out);
        const float *z = p->gate + (size_t)(h * D + f) * (size_t)R;
        for (int r = 0; r < R && w->gate; r++) out[r] += in * sqrt(gate) * (double)z[r];
    }
}

static void rope(const ll_position_config *w, int D, int64_t position, double *x) {
    const int n = w->rotary && !w->theta ? w->rotary : D;
    ll_reference_rotate(n, w->theta, w->base > 0 ? w->base : 10000, &w->scaling, position, x);
}

/* What queries and keys become longer by. */
static void relative(const ll_attention_config *c, int side, int h, int64_t position, double *out) {
    const ll_position_config *w = &c->encoding;
    for (int n = 0; n < w->scales; n++) {
        const double angle = (double)w->inv_freq[n] * (double)position, s = sin(angle), k = cos(angle);
        const double a = (double)w->alpha[h * w->scales + n], b = (double)w->beta[h * w->scales + n];
        out[2 * n] = side == LL_QUERY ? a * s - b * k : s;
        out[2 * n + 1] = side == LL_QUERY ? b * s + a * k : k;
    }
}

void ll_reference_encode(ll_reference_position *p, int side, int h, int64_t position, const float *x, double *out) {
    const ll_attention_config *c = p->c;
    if (is_sine(c) || is_conv(c)) {
        spe(p, side, h, position, x, out);
        return;
    }
    for (int f = 0; f < c->D; f++) out[f] = (double)x[f];
    if (c->position == LL_POSITION_ROPE) rope(&c->encoding, c->D, position, out);
    if (c->position == LL_POSITION_RELATIVE_S1) relative(c, side, h, position, out + c->D);
}
