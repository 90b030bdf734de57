/* Sinusoidal stochastic encodings. Feature c of a head is a sum of K sinusoids times noise z. The noise of the gate is
 * one more row of z. So an encoded query is one row of coefficients times the noise of all features:
 *
 *   q^_i = W_i Z      W_i[c, 2t], W_i[c, 2t+1] = q_ic g_c l_ct (cos, sin)(2 pi f_ct i + o_ct)
 *                     W_i[c, 2K] = q_ic e_c
 *
 * f = sigmoid(freqs) / 2, l = softplus(gains), o = offsets for queries and 0 for keys, g and e of ll_gate. Z has the
 * factor 1/sqrt(2K). A token costs D (2K + 1) R multiply-adds, for any length. */
#include <math.h>
#include <string.h>

#include "attention/position/rotation.h"
#include "attention/position/spe.h"
#include "base/memory.h"

static const double TWO_PI = 6.28318530717958647692;

static ll_status check(const ll_attention_config *c) {
    const ll_position_config *w = &c->encoding;
    if (w->sines < 1 || w->sines > 1 << 12)
        return ll_fail(LL_EINVAL, "attention: sine-spe needs 1 to 4096 sines, got %d", w->sines);
    if (!w->freqs || !w->offsets || !w->gains)
        return ll_fail(LL_EINVAL, "attention: sine-spe needs its freqs, offsets and gains");
    return ll_spe_check(c, "sine-spe");
}

static void init_freqs(const ll_attention_config *c, const ll_parameter *p, const ll_parameter_draw *draw, float *x) {
    (void)c;
    ll_parameter_normal(p, draw, 1, x);
    for (size_t i = 0; i < ll_parameter_size(p); i++) x[i] -= 4;
}

/* Twice a normal number over the root of the norm of the K of its feature, as in the released programs. */
static void init_gains(const ll_attention_config *c, const ll_parameter *p, const ll_parameter_draw *draw, float *x) {
    const size_t rows = (size_t)ll_parameter_rows(p), K = (size_t)c->encoding.sines;
    ll_parameter_normal(p, draw, 1, x);
    for (size_t i = 0; i < rows; i++) {
        double square = 0;
        for (size_t k = 0; k < K; k++) square += (double)x[i * K + k] * (double)x[i * K + k];
        for (size_t k = 0; k < K && square > 0; k++) x[i * K + k] *= (float)(2 / pow(square, 0.25));
    }
}

static int parameters(const ll_attention_config *c, ll_parameter *list) {
    const ll_parameter all[] = {{LL_POSITION_PARAMETER(freqs), .init = init_freqs},
                                {LL_POSITION_PARAMETER(offsets)},
                                {LL_POSITION_PARAMETER(gains), .init = init_gains}};
    for (int i = 0; i < 3; i++) {
        list[i] = all[i];
        list[i].rank = 3, list[i].lead = 2;
        list[i].shape[0] = c->H, list[i].shape[1] = c->D, list[i].shape[2] = c->encoding.sines;
    }
    list[3] = ll_spe_gate_parameter(c);
    return 4;
}

/* Coefficients of a token: 2K of each feature, one after the other, then one of each feature's gate. */
static size_t waves_of(const ll_premap *b) {
    return (size_t)b->c.D * 2 * (size_t)b->c.encoding.sines;
}
static size_t terms_of(const ll_premap *b) {
    return waves_of(b) + (b->c.encoding.gate ? (size_t)b->c.D : 0);
}

/* Z (terms, R) of each head from z (2K, R) of each feature; then all of them transposed, for backward. */
static void fill(ll_premap *b, const float *given) {
    const size_t D = (size_t)b->c.D, R = (size_t)b->R, waves = 2 * (size_t)b->c.encoding.sines, terms = terms_of(b);
    const ll_spe_draws *own = b->own;
    const float root = (float)(1 / sqrt((double)waves));
    for (int h = 0; h < b->c.H; h++) {
        float *Z = own->noise + (size_t)h * terms * R;
        for (size_t c = 0; c < D; c++) {
            const size_t feature = (size_t)h * D + c;
            float *to = Z + c * waves * R;
            if (given) {
                memcpy(to, given + feature * waves * R, waves * R * sizeof *to);
            } else {
                ll_spe_noise(b, h, 0, to, waves * R, (uint64_t)(c * waves * R));
            }
            for (size_t i = 0; i < waves * R; i++) to[i] *= root;
            if (own->gate_noise) memcpy(Z + (D * waves + c) * R, own->gate_noise + feature * R, R * sizeof *to);
        }
        float *transposed = own->noise + ((size_t)b->c.H + (size_t)h) * terms * R;
        ll_kernel_table()->transpose((int)terms, b->R, Z, R, transposed, terms);
    }
}

static void draw(ll_premap *b) {
    ll_spe_gate_draw(b);
    fill(b, NULL);
}

static ll_status create(ll_premap *b) {
    const ll_status status = ll_spe_create(b);
    if (status) return status;
    ll_spe_draws *own = b->own;
    own->noise = ll_alloc(2 * (size_t)b->c.H * terms_of(b), (size_t)b->R * sizeof *own->noise);
    if (!own->noise) return LL_ENOMEM;
    fill(b, b->c.encoding.noise);
    return LL_OK;
}

/* `prepare` writes: for every sinusoid of the head its angle a token, size l g and phase; for every feature its gate
 * and the weight of its noise; for every token of the tile the 2K coefficients of every feature, for queries and for
 * keys. W (tile, terms) and the sums of a tile follow. */
typedef struct {
    double *angle, *size, *phase;
    ll_gate *gate;
    float *noise, *code[2], *W, *sum;
} sines;

static size_t doubles_of(const ll_premap *b) {
    const size_t D = (size_t)b->c.D;
    return 3 * D * (size_t)b->c.encoding.sines + D * sizeof(ll_gate) / sizeof(double);
}

static size_t scratch(const ll_premap *b) {
    return 2 * doubles_of(b) + (size_t)b->c.D + LL_PREMAP_TILE * (2 * waves_of(b) + terms_of(b)) + 3 * waves_of(b);
}
static size_t sums(const ll_premap *b) {
    return (size_t)b->c.D * (3 * (size_t)b->c.encoding.sines + 1);
}

static sines cut(const ll_premap_tile *t) {
    const size_t D = (size_t)t->b->c.D, n = D * (size_t)t->b->c.encoding.sines, tile = LL_PREMAP_TILE * waves_of(t->b);
    sines s = {.angle = (double *)(void *)t->work};
    s.size = s.angle + n;
    s.phase = s.size + n;
    s.gate = (ll_gate *)(void *)(s.phase + n);
    s.noise = t->work + 2 * doubles_of(t->b);
    s.code[LL_QUERY] = s.noise + D;
    s.code[LL_KEY] = s.code[LL_QUERY] + tile;
    s.W = s.code[LL_KEY] + tile;
    s.sum = s.W + LL_PREMAP_TILE * terms_of(t->b);
    return s;
}

static double softplus(double x) {
    return log1p(exp(-fabs(x))) + (x > 0 ? x : 0);
}

static void prepare(const ll_premap_tile *t) {
    const ll_premap *b = t->b;
    const ll_position_config *w = &b->c.encoding;
    const size_t D = (size_t)b->c.D, K = (size_t)w->sines, n = D * K, at = (size_t)t->head * n;
    const sines s = cut(t);
    if (s.gate[0].code == 0) { /* a new head */
        for (size_t c = 0; c < D; c++) s.gate[c] = ll_gate_at(b, t->head, (int)c);
        for (size_t c = 0; c < D; c++) s.noise[c] = (float)s.gate[c].noise;
        for (size_t i = 0; i < n; i++) {
            s.angle[i] = TWO_PI * ll_sigmoid((double)w->freqs[at + i]) / 2;
            s.size[i] = softplus((double)w->gains[at + i]) * s.gate[i / K].code;
            s.phase[i] = (double)w->offsets[at + i];
        }
    }
    ll_rotations(n, s.angle, s.size, s.phase, t->t0, t->C, s.code[LL_QUERY], 2 * n);
    ll_rotations(n, s.angle, s.size, NULL, t->t0, t->C, s.code[LL_KEY], 2 * n);
}

static void forward(const ll_premap_tile *t, int side, int n, const float *in, size_t token, float *out, size_t ldo) {
    const ll_premap *b = t->b;
    const size_t D = (size_t)b->c.D, R = (size_t)b->R, waves = waves_of(b), terms = terms_of(b);
    const sines s = cut(t);
    t->k->scale_blocks(n, b->c.D, 2 * b->c.encoding.sines, in, token, s.code[side], waves, s.W, terms);
    for (int i = 0; i < n && ll_spe_gate_noise(b); i++)
        for (size_t c = 0; c < D; c++) s.W[(size_t)i * terms + waves + c] = in[(size_t)i * token + c] * s.noise[c];
    t->k->gemm(n, b->R, (int)terms, s.W, terms, 1, ll_spe_kept_noise(b) + (size_t)t->head * terms * R, R, out, ldo, 0);
}

/* Adds the part of the gates to din, and to their own gradients. */
static void noise_back(const ll_premap_tile *t, const sines *s, int n, const float *in, size_t token, float *din,
                       size_t dtoken, double *gate) {
    const size_t D = (size_t)t->b->c.D, waves = waves_of(t->b), terms = terms_of(t->b);
    for (int i = 0; i < n; i++)
        for (size_t c = 0; c < D; c++) {
            const float dW = s->W[(size_t)i * terms + waves + c];
            din[(size_t)i * dtoken + c] += s->noise[c] * dW;
            gate[c] += (double)in[(size_t)i * token + c] * s->gate[c].dnoise * (double)dW;
        }
}

/* The sums over a tile, of pairs x size (cos dW0, sin dW1) and x size (sin dW0, cos dW1), the latter also times the
 * token of the tile, go to those of freqs, offsets and gains (l times them) and of the gates. */
static void collect_tile(const ll_premap_tile *t, const sines *s, int side, double *sum) {
    const size_t K = (size_t)t->b->c.encoding.sines, waves = waves_of(t->b), all = waves / 2;
    for (size_t n = 0; n < all; n++) {
        const float *same = s->sum + 2 * n, *crossed = same + waves, *shifted = crossed + waves;
        const double angle = (double)crossed[1] - (double)crossed[0], gain = (double)same[0] + (double)same[1];
        const ll_gate *gate = &s->gate[n / K];
        if (s->size[n] == 0) continue; /* the gate is closed, or the gain is too small for a number */
        sum[n] += angle * (double)t->t0 + ((double)shifted[1] - (double)shifted[0]);
        if (side == LL_QUERY) sum[all + n] += angle;
        sum[2 * all + n] += gain * gate->code / s->size[n];
        sum[3 * all + n / K] += gain * gate->dcode / gate->code;
    }
}

static void back(const ll_premap_tile *t, int side, int n, const float *in, size_t token, const float *dout, size_t ldd,
                 float *din, size_t dtoken, double *sum) {
    const ll_premap *b = t->b;
    const size_t waves = waves_of(b), terms = terms_of(b);
    const sines s = cut(t);
    const float *Zt = ll_spe_kept_noise(b) + ((size_t)b->c.H + (size_t)t->head) * terms * (size_t)b->R;
    t->k->gemm(n, (int)terms, b->R, dout, ldd, 1, Zt, terms, s.W, terms, 0);
    memset(s.sum, 0, 3 * waves * sizeof *s.sum);
    t->k->scale_blocks_back(n, b->c.D, 2 * b->c.encoding.sines, in, token, s.code[side], waves, s.W, terms, din, dtoken,
                            s.sum);
    collect_tile(t, &s, side, sum);
    if (ll_spe_gate_noise(b)) noise_back(t, &s, n, in, token, din, dtoken, sum + 3 * waves / 2);
}

/* Applies the derivatives of sigmoid / 2 and softplus, to get the gradients of the parameters. */
static void collect(const ll_premap *b, int head, const double *sum, const ll_position_gradients *d) {
    const ll_position_config *w = &b->c.encoding;
    const size_t D = (size_t)b->c.D, n = D * (size_t)w->sines, at = (size_t)head * n;
    for (size_t i = 0; i < n; i++) {
        const double f = ll_sigmoid((double)w->freqs[at + i]);
        if (d->freqs) d->freqs[at + i] += (float)(sum[i] * TWO_PI * f * (1 - f) / 2);
        if (d->offsets) d->offsets[at + i] += (float)sum[n + i];
        if (d->gains) d->gains[at + i] += (float)(sum[2 * n + i] * ll_sigmoid((double)w->gains[at + i]));
    }
    for (size_t c = 0; c < D && w->gate && d->gate; c++) d->gate[(size_t)head * D + c] += (float)sum[3 * n + c];
}

/* A sine and a cosine of each of the sines, for each realization. */
static double cost(const ll_premap *b) { return 4.0 * b->c.encoding.sines * b->c.D * b->R; }

const ll_premap_kind ll_premap_sine = {
    .check = check,
    .width = ll_spe_width,
    .create = create,
    .free = ll_spe_free,
    .draw = draw,
    .scratch = scratch,
    .parameters = parameters,
    .sums = sums,
    .cost = cost,
    .prepare = prepare,
    .forward = forward,
    .back = back,
    .collect = collect,
};
