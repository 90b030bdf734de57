/* Convolutional stochastic encodings: feature c of a head is noise z, filtered.
 *
 *   q^_i = sum_c q_ic ( g_c sum_t filter_q[c][t] z_c[i + t] + e_c eps_c )      k^ likewise; g, e of ll_gate
 *
 * The expected product of codes is the correlation of the filters, which is zero from the filter's length on. Noise is
 * a function of its number, so row i + t is the same for every token, in streams and in tiles. In two dimensions
 * filters and noise are images. A token costs D P R multiply-adds.
 *
 * Noise is filtered in bands or row by row, whichever is faster for the filter. All tokens of a tile use the noise of
 * one feature before that of the next, because the noise of all features is larger than L2. */
#include <math.h>
#include <string.h>

#include "attention/position/conv_spe.h"
#include "base/memory.h"
#include "base/random.h"

static ll_status check(const ll_attention_config *c) {
    const ll_position_config *w = &c->encoding;
    if (w->taps < 1 || w->taps > 1 << 12 || w->taps2 < 0 || w->taps2 > 1 << 12)
        return ll_fail(LL_EINVAL, "attention: conv-spe needs filters of 1 to 4096 taps, got %d x %d", w->taps,
                       w->taps2);
    if (!w->filter_q || !w->filter_k) return ll_fail(LL_EINVAL, "attention: conv-spe needs its filters");
    if (w->noise && w->noise_rows < w->taps)
        return ll_fail(LL_EINVAL, "attention: %d rows of noise, fewer than the filter has", w->noise_rows);
    if (!ll_conv_is_image(c)) return ll_spe_check(c, "conv-spe");
    if (c->causal) return ll_fail(LL_EINVAL, "attention: conv-spe of images is not for causal attention");
    if (c->width < 1 || c->height < 1 || c->before < 0 || c->width > 1 << 15 || c->height > 1 << 15)
        return ll_fail(LL_EINVAL, "attention: conv-spe of images needs the image size, got %d x %d", c->width,
                       c->height);
    if (w->noise && (w->noise_rows < c->height + w->taps - 1 || w->noise_cols < c->width + w->taps2 - 1))
        return ll_fail(LL_EINVAL, "attention: noise of %d x %d is too small for the image and the filter",
                       w->noise_rows, w->noise_cols);
    return ll_spe_check(c, "conv-spe");
}

static void init(const ll_attention_config *c, const ll_parameter *p, const ll_parameter_draw *draw, float *x) {
    const size_t n = ll_parameter_size(p);
    const float root = (float)sqrt((double)ll_parameter_cols(p) / 2);
    (void)c;
    ll_uniform_fill(x, n, draw->seed, draw->stream, 0);
    for (size_t i = 0; i < n; i++) x[i] /= root;
}

static int parameters(const ll_attention_config *c, ll_parameter *list) {
    list[0] = (ll_parameter){LL_POSITION_PARAMETER(filter_q), .init = init};
    list[1] = (ll_parameter){LL_POSITION_PARAMETER(filter_k), .init = init};
    for (int i = 0; i < 2; i++) {
        list[i].rank = ll_conv_is_image(c) ? 4 : 3, list[i].lead = 2;
        list[i].shape[0] = c->H, list[i].shape[1] = c->D;
        list[i].shape[2] = c->encoding.taps, list[i].shape[3] = c->encoding.taps2;
    }
    list[2] = ll_spe_gate_parameter(c);
    return 3;
}

static void draw(ll_premap *b) {
    const ll_spe_draws *own = b->own;
    const size_t head = (size_t)b->c.D * ll_conv_kept_rows(b) * (size_t)b->R;
    ll_spe_gate_draw(b);
    for (int h = 0; h < b->c.H && own->noise; h++) ll_spe_noise(b, h, 0, own->noise + (size_t)h * head, head, 0);
}

static ll_status create(ll_premap *b) {
    ll_position_config *w = &b->c.encoding;
    const ll_status status = ll_spe_create(b);
    if (status || (!w->noise && !ll_conv_is_image(&b->c))) return status;
    if (!w->noise) {
        w->noise_rows = b->c.height + w->taps - 1;
        w->noise_cols = b->c.width + w->taps2 - 1;
    }
    const size_t rows = (size_t)w->noise_rows * (size_t)(ll_conv_is_image(&b->c) ? w->noise_cols : 1);
    const size_t count = (size_t)b->c.H * (size_t)b->c.D * rows;
    ll_spe_draws *own = b->own;
    own->noise = ll_alloc(count, (size_t)b->R * sizeof *own->noise);
    if (!own->noise) return LL_ENOMEM;
    if (w->noise) {
        memcpy(own->noise, w->noise, count * (size_t)b->R * sizeof *own->noise);
    } else {
        draw(b);
    }
    return LL_OK;
}

/* Products of bands are larger, and short filters waste much of them. */
static const ll_conv_way *way_of(const ll_premap *b) {
    enum { LONG = 32 };
    return ll_conv_run(b) < LONG ? &ll_conv_rows : &ll_conv_bands;
}

/* Behind the noise: the scratch of the way, and for gates two matrices (tile, D). */
static size_t scratch(const ll_premap *b) {
    return ll_conv_noise_floats(b) + way_of(b)->floats(b) + 2 * LL_PREMAP_TILE * (size_t)b->c.D;
}
static float *gate_work(const ll_premap_tile *t) { return ll_conv_work(t) + way_of(t->b)->floats(t->b); }

static size_t sums(const ll_premap *b) { return (size_t)b->c.D * (2 * ll_conv_taps(b) + 1); }

/* Noise of the gates of a head: (D, R). */
static const float *gate_noise(const ll_premap_tile *t) {
    return ll_spe_gate_noise(t->b) + (size_t)t->head * (size_t)t->b->c.D * (size_t)t->b->R;
}

static void forward(const ll_premap_tile *t, int side, int n, const float *in, size_t token, float *out, size_t ldo) {
    const ll_premap *b = t->b;
    const size_t R = (size_t)b->R, D = (size_t)b->c.D;
    float *weight = gate_work(t);
    for (int i = 0; i < n; i++) memset(out + (size_t)i * ldo, 0, R * sizeof *out);
    way_of(b)->forward(t, side, n, in, token, out, ldo);
    if (!ll_spe_gate_noise(b)) return;
    for (int i = 0; i < n; i++)
        for (size_t c = 0; c < D; c++)
            weight[(size_t)i * D + c] = in[(size_t)i * token + c] * (float)ll_conv_gates(t)[c].noise;
    t->k->gemm(n, b->R, b->c.D, weight, D, 1, gate_noise(t), R, out, ldo, 1);
}

static void back(const ll_premap_tile *t, int side, int n, const float *in, size_t token, const float *dout, size_t ldd,
                 float *din, size_t dtoken, double *sum) {
    const ll_premap *b = t->b;
    const size_t R = (size_t)b->R, D = (size_t)b->c.D, all = D * ll_conv_taps(b);
    float *code = gate_work(t), *noise = code + LL_PREMAP_TILE * D;
    way_of(b)->back(t, side, n, in, token, dout, ldd, code, sum + (side == LL_QUERY ? 0 : all));
    for (size_t i = 0; i < (size_t)n; i++) {
        if (ll_spe_gate_noise(b)) t->k->gemv_rows(b->c.D, b->R, gate_noise(t), R, dout + i * ldd, noise, 0);
        for (size_t c = 0; c < D; c++) {
            const ll_gate *gate = &ll_conv_gates(t)[c];
            const double x = (double)in[i * token + c], y = (double)code[i * D + c];
            const double z = ll_spe_gate_noise(b) ? (double)noise[c] : 0;
            sum[2 * all + c] += x * (gate->dcode * y + gate->dnoise * z);
            din[i * dtoken + c] = (float)(gate->code * y + gate->noise * z);
        }
    }
}

static void collect(const ll_premap *b, int head, const double *sum, const ll_position_gradients *d) {
    const size_t D = (size_t)b->c.D, n = D * ll_conv_taps(b);
    for (size_t i = 0; i < n; i++) {
        if (d->filter_q) d->filter_q[(size_t)head * n + i] += (float)sum[i];
        if (d->filter_k) d->filter_k[(size_t)head * n + i] += (float)sum[n + i];
    }
    for (size_t c = 0; c < D && b->c.encoding.gate && d->gate; c++)
        d->gate[(size_t)head * D + c] += (float)sum[2 * n + c];
}

/* Given noise ends somewhere. */
static int64_t longest(const ll_premap *b) {
    return ll_spe_kept_noise(b) && !ll_conv_is_image(&b->c) ? (int64_t)b->c.encoding.noise_rows - b->c.encoding.taps + 1
                                                            : INT64_MAX;
}

static double cost(const ll_premap *b) { return 2.0 * (double)ll_conv_taps(b) * b->c.D * b->R; }

const ll_premap_kind ll_premap_conv = {
    .check = check,
    .width = ll_spe_width,
    .create = create,
    .free = ll_spe_free,
    .draw = draw,
    .scratch = scratch,
    .longest = longest,
    .parameters = parameters,
    .sums = sums,
    .cost = cost,
    .prepare = ll_conv_prepare,
    .forward = forward,
    .back = back,
    .collect = collect,
};
