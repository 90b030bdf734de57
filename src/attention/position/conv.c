/* Convolutional stochastic encodings: feature c of a head is noise z, filtered.
 *
 *   q^_i = sum_c q_ic ( g_c sum_t filter_q[c][t] z_c[i + t] + e_c eps_c )      k^ likewise; g, e of ll_gate
 *
 * so the expected product of codes is the filters' correlation, zero from the filter's length on. Noise is drawn by its
 * number: the row for i + t is the same whichever token asks, in a stream as in tiles. In two dimensions filters
 * and noise are images. D P R multiply-adds a token. */
#include <string.h>

#include "attention/position/spe.h"
#include "base/memory.h"

static int is_image(const ll_attention_config *c) {
    return c->where.taps2 > 0;
}
static size_t taps_of(const ll_before *b) {
    return (size_t)b->c.where.taps * (size_t)(is_image(&b->c) ? b->c.where.taps2 : 1);
}

static ll_status check(const ll_attention_config *c) {
    const ll_position_config *w = &c->where;
    if (w->taps < 1 || w->taps > 1 << 12 || w->taps2 < 0 || w->taps2 > 1 << 12)
        return ll_fail(LL_EINVAL, "attention: conv-spe needs filters of 1 to 4096 taps, got %d x %d", w->taps,
                       w->taps2);
    if (!w->filter_q || !w->filter_k) return ll_fail(LL_EINVAL, "attention: conv-spe needs its filters");
    if (w->noise && w->noise_rows < w->taps)
        return ll_fail(LL_EINVAL, "attention: %d rows of noise, fewer than the filter has", w->noise_rows);
    if (!is_image(c)) return ll_spe_check(c, "conv-spe");
    if (c->causal) return ll_fail(LL_EINVAL, "attention: conv-spe of images is not for causal attention");
    if (c->width < 1 || c->height < 1 || c->before < 0 || c->width > 1 << 15 || c->height > 1 << 15)
        return ll_fail(LL_EINVAL, "attention: conv-spe of images needs the image size, got %d x %d", c->width,
                       c->height);
    if (w->noise && (w->noise_rows < c->height + w->taps - 1 || w->noise_cols < c->width + w->taps2 - 1))
        return ll_fail(LL_EINVAL, "attention: noise of %d x %d is too small for the image and the filter",
                       w->noise_rows, w->noise_cols);
    return ll_spe_check(c, "conv-spe");
}

/* Rows of noise that one feature keeps: all, where it was given or belongs to an image; 0: drawn by need. */
static size_t kept_rows(const ll_before *b) {
    return b->noise ? (size_t)b->c.where.noise_rows * (size_t)(is_image(&b->c) ? b->c.where.noise_cols : 1) : 0;
}

static void draw(ll_before *b) {
    const size_t head = (size_t)b->c.D * kept_rows(b) * (size_t)b->R;
    ll_spe_gate_draw(b);
    for (int h = 0; h < b->c.H && b->noise; h++) ll_spe_noise(b, h, 0, b->noise + (size_t)h * head, head, 0);
}

static ll_status create(ll_before *b) {
    ll_position_config *w = &b->c.where;
    const ll_status status = ll_spe_gate_create(b);
    if (status || (!w->noise && !is_image(&b->c))) return status;
    if (!w->noise) {
        w->noise_rows = b->c.height + w->taps - 1;
        w->noise_cols = b->c.width + w->taps2 - 1;
    }
    const size_t rows = (size_t)w->noise_rows * (size_t)(is_image(&b->c) ? w->noise_cols : 1);
    const size_t count = (size_t)b->c.H * (size_t)b->c.D * rows;
    b->noise = ll_alloc(count, (size_t)b->R * sizeof *b->noise);
    if (!b->noise) return LL_ENOMEM;
    if (w->noise) {
        memcpy(b->noise, w->noise, count * (size_t)b->R * sizeof *b->noise);
    } else {
        draw(b);
    }
    return LL_OK;
}

/* Noise drawn by need: rows from..to-1 of every feature lie in the window, each feature's `room` rows apart. */
typedef struct {
    int64_t from, to;
} window;

enum { HEADER = 16 };

static size_t room_of(const ll_before *b) {
    return LL_BEFORE_TILE + (size_t)b->c.where.taps - 1;
}
static size_t scratch(const ll_before *b) {
    const size_t D = (size_t)b->c.D;
    const size_t fixed = HEADER + 2 * D * sizeof(ll_gate) / sizeof(double) + 2 * taps_of(b);
    return fixed + (b->noise ? 0 : D * room_of(b) * (size_t)b->R);
}

static ll_gate *gates_of(const ll_before_tile *t) {
    return (ll_gate *)(void *)(t->work + HEADER);
}
static float *taps_at(const ll_before_tile *t) {
    return t->work + HEADER + 2 * (size_t)t->b->c.D * sizeof(ll_gate) / sizeof(double);
}
static float *rows_at(const ll_before_tile *t) {
    return taps_at(t) + 2 * taps_of(t->b);
}

static size_t parameters(const ll_before *b) {
    return (size_t)b->c.D * (2 * taps_of(b) + 1);
}

/* Row n of feature c is drawn from number (n D + c) R on. */
static void prepare(const ll_before_tile *t) {
    const ll_before *b = t->b;
    const size_t D = (size_t)b->c.D, R = (size_t)b->R, room = room_of(b);
    for (size_t c = 0; c < D; c++) gates_of(t)[c] = ll_gate_at(b, t->head, (int)c);
    if (b->noise) return;
    window *w = (window *)(void *)t->work;
    float *rows = rows_at(t);
    const int64_t end = t->t0 + t->C + b->c.where.taps - 1;
    const int64_t kept = w->from <= t->t0 && t->t0 < w->to ? w->to - t->t0 : 0;
    for (size_t c = 0; c < D; c++) {
        float *own = rows + c * room * R;
        if (kept) memmove(own, own + (size_t)(t->t0 - w->from) * R, (size_t)kept * R * sizeof *own);
        for (int64_t n = t->t0 + kept; n < end; n++)
            ll_spe_noise(b, t->head, 0, own + (size_t)(n - t->t0) * R, R,
                         ((uint64_t)n * (uint64_t)D + (uint64_t)c) * (uint64_t)R);
    }
    w->from = t->t0;
    w->to = t->t0 + kept > end ? t->t0 + kept : end;
}

/* Where the noise of token t0 + i and feature c starts; *line: how far its rows of taps are apart. */
static const float *noise_at(const ll_before_tile *t, int i, size_t c, size_t *line) {
    const ll_before *b = t->b;
    const size_t R = (size_t)b->R, D = (size_t)b->c.D;
    *line = 0;
    if (!b->noise) return rows_at(t) + (c * room_of(b) + (size_t)i) * R;
    const float *own = b->noise + ((size_t)t->head * D + c) * kept_rows(b) * R;
    if (!is_image(&b->c)) return own + (size_t)(t->t0 + i) * R;
    const int64_t W = b->c.width, pixels = W * b->c.height;
    int64_t p = t->t0 + i - b->c.before; /* tokens around the image stand at its first and last pixel */
    p = p < 0 ? 0 : p >= pixels ? pixels - 1 : p;
    *line = (size_t)b->c.where.noise_cols * R;
    return own + (size_t)(p / W) * *line + (size_t)(p % W) * R;
}

static const float *filter_at(const ll_before_tile *t, int side, size_t c) {
    const ll_position_config *w = &t->b->c.where;
    const float *filter = side == LL_QUERY ? w->filter_q : w->filter_k;
    return filter + ((size_t)t->head * (size_t)t->b->c.D + c) * taps_of(t->b);
}

static void forward(const ll_before_tile *t, int side, int n, const float *in, size_t token, float *out, size_t ldo) {
    const ll_before *b = t->b;
    const size_t R = (size_t)b->R, D = (size_t)b->c.D, taps = taps_of(b);
    const int lines = is_image(&b->c) ? b->c.where.taps : 1, run = (int)taps / lines;
    float *weight = taps_at(t);
    for (int i = 0; i < n; i++, out += ldo) {
        memset(out, 0, R * sizeof *out);
        for (size_t c = 0; c < D; c++) {
            const float x = in[(size_t)i * token + c], *filter = filter_at(t, side, c);
            const ll_gate *gate = &gates_of(t)[c];
            size_t line;
            const float *z = noise_at(t, i, c, &line);
            for (size_t p = 0; p < taps; p++) weight[p] = (float)((double)x * gate->code * (double)filter[p]);
            for (int l = 0; l < lines; l++) t->k->gemv(b->R, run, weight + l * run, z + (size_t)l * line, R, out, 1);
            if (b->gate_noise)
                t->k->axpy(R, (float)((double)x * gate->noise), b->gate_noise + ((size_t)t->head * D + c) * R, out);
        }
    }
}

static void back(const ll_before_tile *t, int side, int n, const float *in, size_t token, const float *dout, size_t ldd,
                 float *din, size_t dtoken, double *sum) {
    const ll_before *b = t->b;
    const size_t R = (size_t)b->R, D = (size_t)b->c.D, taps = taps_of(b);
    const int lines = is_image(&b->c) ? b->c.where.taps : 1, run = (int)taps / lines;
    float *u = taps_at(t); /* <z[i + tap], dout> */
    double *filters = sum + (side == LL_QUERY ? 0 : D * taps), *gates = sum + 2 * D * taps;
    for (int i = 0; i < n; i++, dout += ldd)
        for (size_t c = 0; c < D; c++) {
            const double x = (double)in[(size_t)i * token + c];
            const float *filter = filter_at(t, side, c);
            const ll_gate *gate = &gates_of(t)[c];
            size_t line;
            const float *z = noise_at(t, i, c, &line);
            double code = 0, noise = 0;
            for (int l = 0; l < lines; l++) t->k->gemv_rows(run, b->R, z + (size_t)l * line, R, dout, u + l * run, 0);
            for (size_t p = 0; p < taps; p++) {
                code += (double)filter[p] * (double)u[p];
                filters[c * taps + p] += x * gate->code * (double)u[p];
            }
            if (b->gate_noise) noise = (double)t->k->dot(R, b->gate_noise + ((size_t)t->head * D + c) * R, dout);
            gates[c] += x * (gate->dcode * code + gate->dnoise * noise);
            din[(size_t)i * dtoken + c] = (float)(gate->code * code + gate->noise * noise);
        }
}

static void collect(const ll_before *b, int head, const double *sum, const ll_position_gradients *d) {
    const size_t D = (size_t)b->c.D, n = D * taps_of(b);
    for (size_t i = 0; i < n; i++) {
        if (d->filter_q) d->filter_q[(size_t)head * n + i] += (float)sum[i];
        if (d->filter_k) d->filter_k[(size_t)head * n + i] += (float)sum[n + i];
    }
    for (size_t c = 0; c < D && b->c.where.gate && d->gate; c++) d->gate[(size_t)head * D + c] += (float)sum[2 * n + c];
}

/* Given noise ends somewhere. */
static int64_t longest(const ll_before *b) {
    return b->noise && !is_image(&b->c) ? (int64_t)b->c.where.noise_rows - b->c.where.taps + 1 : INT64_MAX;
}

const ll_before_kind ll_before_conv = {.check = check,
                                       .width = ll_spe_width,
                                       .create = create,
                                       .draw = draw,
                                       .scratch = scratch,
                                       .longest = longest,
                                       .parameters = parameters,
                                       .prepare = prepare,
                                       .forward = forward,
                                       .back = back,
                                       .collect = collect};
