/* Sinusoidal stochastic encodings. Feature c of a head is a sum of K sinusoids in noise z, the gate's noise one more
 * row of it, so that a token's query is one row of coefficients times the noise of all features:
 *
 *   q^_i = W_i Z      W_i[c, 2t], W_i[c, 2t+1] = q_ic g_c l_ct (cos, sin)(2 pi f_ct i + o_ct)
 *                     W_i[c, 2K] = q_ic e_c
 *
 * f = sigmoid(freqs) / 2, l = softplus(gains), o = offsets for queries and 0 for keys, g and e of ll_gate. Z carries
 * the 1/sqrt(2K). D (2K + 1) R multiply-adds a token, whatever the length. */
#include <math.h>
#include <string.h>

#include "attention/position/spe.h"
#include "base/memory.h"

static const double TURN = 6.28318530717958647692;

static ll_status check(const ll_attention_config *c) {
    const ll_position_config *w = &c->where;
    if (w->sines < 1 || w->sines > 1 << 12)
        return ll_fail(LL_EINVAL, "attention: sine-spe needs 1 to 4096 sines, got %d", w->sines);
    if (!w->freqs || !w->offsets || !w->gains)
        return ll_fail(LL_EINVAL, "attention: sine-spe needs its freqs, offsets and gains");
    return ll_spe_check(c, "sine-spe");
}

static size_t rows_of(const ll_before *b) {
    return 2 * (size_t)b->c.where.sines + (b->c.where.gate != NULL);
}
static size_t terms_of(const ll_before *b) {
    return (size_t)b->c.D * rows_of(b);
}

/* Z (terms, R) of each head from z (2K, R) of each feature; then all of them transposed, for backward. */
static void fill(ll_before *b, const float *given) {
    const size_t D = (size_t)b->c.D, R = (size_t)b->R, waves = 2 * (size_t)b->c.where.sines, terms = terms_of(b);
    const float root = (float)(1 / sqrt((double)waves));
    for (int h = 0; h < b->c.H; h++) {
        float *Z = b->noise + (size_t)h * terms * R;
        for (size_t c = 0; c < D; c++) {
            const size_t feature = (size_t)h * D + c;
            float *to = Z + c * rows_of(b) * R;
            if (given) {
                memcpy(to, given + feature * waves * R, waves * R * sizeof *to);
            } else {
                ll_spe_noise(b, h, 0, to, waves * R, (uint64_t)(c * waves * R));
            }
            for (size_t i = 0; i < waves * R; i++) to[i] *= root;
            if (b->gate_noise) memcpy(to + waves * R, b->gate_noise + feature * R, R * sizeof *to);
        }
        float *across = b->noise + ((size_t)b->c.H + (size_t)h) * terms * R;
        ll_kernel_table()->transpose((int)terms, b->R, Z, R, across, terms);
    }
}

static void draw(ll_before *b) {
    ll_spe_gate_draw(b);
    fill(b, NULL);
}

static ll_status create(ll_before *b) {
    const ll_status status = ll_spe_gate_create(b);
    if (status) return status;
    b->noise = ll_alloc(2 * (size_t)b->c.H * terms_of(b), (size_t)b->R * sizeof *b->noise);
    if (!b->noise) return LL_ENOMEM;
    fill(b, b->c.where.noise);
    return LL_OK;
}

/* What `prepare` leaves: of every sinusoid its l, cos o, sin o; of every feature its gate; of every token and
 * sinusoid cos and sin. After it W (tile, terms). */
typedef struct {
    double *wave, *cs;
    ll_gate *gate;
    float *W;
} sines;

static size_t doubles_of(const ll_before *b) {
    const size_t D = (size_t)b->c.D, n = D * (size_t)b->c.where.sines;
    return 3 * n + 2 * n * LL_BEFORE_TILE + D * sizeof(ll_gate) / sizeof(double);
}

static size_t scratch(const ll_before *b) {
    return 2 * doubles_of(b) + LL_BEFORE_TILE * terms_of(b);
}
static size_t parameters(const ll_before *b) {
    return (size_t)b->c.D * (3 * (size_t)b->c.where.sines + 1);
}

static sines cut(const ll_before_tile *t) {
    const size_t D = (size_t)t->b->c.D, n = D * (size_t)t->b->c.where.sines;
    sines s = {.wave = (double *)(void *)t->work};
    s.cs = s.wave + 3 * n;
    s.gate = (ll_gate *)(void *)(s.cs + 2 * n * LL_BEFORE_TILE);
    s.W = t->work + 2 * doubles_of(t->b);
    return s;
}

static double softplus(double x) {
    return log1p(exp(-fabs(x))) + (x > 0 ? x : 0);
}

static void prepare(const ll_before_tile *t) {
    const ll_before *b = t->b;
    const ll_position_config *w = &b->c.where;
    const size_t D = (size_t)b->c.D, n = D * (size_t)w->sines, at = (size_t)t->head * n;
    const sines s = cut(t);
    for (size_t c = 0; c < D; c++) s.gate[c] = ll_gate_at(b, t->head, (int)c);
    for (size_t i = 0; i < n; i++) {
        s.wave[3 * i] = softplus((double)w->gains[at + i]);
        s.wave[3 * i + 1] = cos((double)w->offsets[at + i]);
        s.wave[3 * i + 2] = sin((double)w->offsets[at + i]);
        ll_turns(0, TURN * ll_sigmoid((double)w->freqs[at + i]) / 2, t->t0, t->C, s.cs + 2 * i, 2 * n);
    }
}

/* cos and sin of sinusoid number n of the head, on one side. */
static void phase(const sines *s, const double *cs, int side, size_t n, double *c, double *d) {
    const double *o = s->wave + 3 * n + 1;
    *c = side == LL_QUERY ? cs[2 * n] * o[0] - cs[2 * n + 1] * o[1] : cs[2 * n];
    *d = side == LL_QUERY ? cs[2 * n + 1] * o[0] + cs[2 * n] * o[1] : cs[2 * n + 1];
}

static void forward(const ll_before_tile *t, int side, int n, const float *in, size_t token, float *out, size_t ldo) {
    const ll_before *b = t->b;
    const size_t D = (size_t)b->c.D, K = (size_t)b->c.where.sines, R = (size_t)b->R, terms = terms_of(b);
    const sines s = cut(t);
    for (int i = 0; i < n; i++) {
        const double *cs = s.cs + 2 * (size_t)i * D * K;
        float *W = s.W + (size_t)i * terms;
        for (size_t c = 0; c < D; c++) {
            const double x = (double)in[(size_t)i * token + c];
            for (size_t k = 0; k < K; k++) {
                double cosine, sine;
                phase(&s, cs, side, c * K + k, &cosine, &sine);
                const double weight = x * s.gate[c].code * s.wave[3 * (c * K + k)];
                *W++ = (float)(weight * cosine);
                *W++ = (float)(weight * sine);
            }
            if (b->gate_noise) *W++ = (float)(x * s.gate[c].noise);
        }
    }
    t->k->gemm(n, b->R, (int)terms, s.W, terms, 1, b->noise + (size_t)t->head * terms * R, R, out, ldo, 0);
}

/* From dW of one token and feature: returns dq, adds to the sums of freqs, offsets, gains and gate. */
static double feature_back(const ll_before_tile *t, const sines *s, int side, size_t c, int64_t position, double x,
                           const double *cs, const float *dW, double *sum) {
    const size_t K = (size_t)t->b->c.where.sines, all = (size_t)t->b->c.D * K;
    double code = 0;
    for (size_t k = 0; k < K; k++, dW += 2) {
        const size_t n = c * K + k;
        const double gain = s->wave[3 * n];
        double cosine, sine;
        phase(s, cs, side, n, &cosine, &sine);
        const double along = cosine * (double)dW[0] + sine * (double)dW[1];
        const double across = x * s->gate[c].code * gain * (cosine * (double)dW[1] - sine * (double)dW[0]);
        sum[n] += across * (double)position;
        if (side == LL_QUERY) sum[all + n] += across;
        sum[2 * all + n] += x * s->gate[c].code * along;
        code += gain * along;
    }
    const double noise = t->b->gate_noise ? (double)*dW : 0;
    sum[3 * all + c] += x * (s->gate[c].dcode * code + s->gate[c].dnoise * noise);
    return s->gate[c].code * code + s->gate[c].noise * noise;
}

static void back(const ll_before_tile *t, int side, int n, const float *in, size_t token, const float *dout, size_t ldd,
                 float *din, size_t dtoken, double *sum) {
    const ll_before *b = t->b;
    const size_t D = (size_t)b->c.D, K = (size_t)b->c.where.sines, terms = terms_of(b);
    const sines s = cut(t);
    const float *Zt = b->noise + ((size_t)b->c.H + (size_t)t->head) * terms * (size_t)b->R;
    t->k->gemm(n, (int)terms, b->R, dout, ldd, 1, Zt, terms, s.W, terms, 0);
    for (int i = 0; i < n; i++)
        for (size_t c = 0; c < D; c++)
            din[(size_t)i * dtoken + c] =
                (float)feature_back(t, &s, side, c, t->t0 + i, (double)in[(size_t)i * token + c],
                                    s.cs + 2 * (size_t)i * D * K, s.W + (size_t)i * terms + c * rows_of(b), sum);
}

/* Through sigmoid / 2 and softplus to what is stored. */
static void collect(const ll_before *b, int head, const double *sum, const ll_position_gradients *d) {
    const ll_position_config *w = &b->c.where;
    const size_t D = (size_t)b->c.D, n = D * (size_t)w->sines, at = (size_t)head * n;
    for (size_t i = 0; i < n; i++) {
        const double f = ll_sigmoid((double)w->freqs[at + i]);
        if (d->freqs) d->freqs[at + i] += (float)(sum[i] * TURN * f * (1 - f) / 2);
        if (d->offsets) d->offsets[at + i] += (float)sum[n + i];
        if (d->gains) d->gains[at + i] += (float)(sum[2 * n + i] * ll_sigmoid((double)w->gains[at + i]));
    }
    for (size_t c = 0; c < D && w->gate && d->gate; c++) d->gate[(size_t)head * D + c] += (float)sum[3 * n + c];
}

const ll_before_kind ll_before_sine = {.check = check,
                                       .width = ll_spe_width,
                                       .create = create,
                                       .draw = draw,
                                       .scratch = scratch,
                                       .parameters = parameters,
                                       .prepare = prepare,
                                       .forward = forward,
                                       .back = back,
                                       .collect = collect};
