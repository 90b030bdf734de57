/* Convolutional stochastic encodings: feature c of a head is noise z, filtered.
 *
 *   q^_i = sum_c q_ic ( g_c sum_t filter_q[c][t] z_c[i + t] + e_c eps_c )      k^ likewise; g, e of ll_gate
 *
 * The expected product of codes is the correlation of the filters, which is zero from the filter's length on. Noise is
 * a function of its number, so row i + t is the same for every token, in streams and in tiles. In two dimensions
 * filters and noise are images. A token costs D P R multiply-adds.
 *
 * Filtered noise of tokens whose noise begins at consecutive rows is one product: of the filter, and of a matrix in
 * which a row is the noise from one row later on. All tokens of a tile use the noise of one feature before that of the
 * next, because the noise of all features is larger than L2. */
#include <math.h>
#include <string.h>

#include "attention/position/spe.h"
#include "base/integer.h"
#include "base/memory.h"
#include "base/random.h"

static int is_image(const ll_attention_config *c) {
    return c->encoding.taps2 > 0;
}
static size_t taps_of(const ll_premap *b) {
    return (size_t)b->c.encoding.taps * (size_t)(is_image(&b->c) ? b->c.encoding.taps2 : 1);
}

static ll_status check(const ll_attention_config *c) {
    const ll_position_config *w = &c->encoding;
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
        list[i].rank = is_image(c) ? 4 : 3, list[i].lead = 2;
        list[i].shape[0] = c->H, list[i].shape[1] = c->D;
        list[i].shape[2] = c->encoding.taps, list[i].shape[3] = c->encoding.taps2;
    }
    list[2] = ll_spe_gate_parameter(c);
    return 3;
}

/* Rows of noise that one feature keeps: all, if noise was given or is an image; 0: noise is drawn when it is needed. */
static size_t kept_rows(const ll_premap *b) {
    return b->noise ? (size_t)b->c.encoding.noise_rows * (size_t)(is_image(&b->c) ? b->c.encoding.noise_cols : 1) : 0;
}

static void draw(ll_premap *b) {
    const size_t head = (size_t)b->c.D * kept_rows(b) * (size_t)b->R;
    ll_spe_gate_draw(b);
    for (int h = 0; h < b->c.H && b->noise; h++) ll_spe_noise(b, h, 0, b->noise + (size_t)h * head, head, 0);
}

static ll_status create(ll_premap *b) {
    ll_position_config *w = &b->c.encoding;
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

/* If noise is drawn when needed, rows from..to-1 of every feature are in a window, of window_rows(b) rows a feature. */
typedef struct {
    int64_t from, to;
} window;

enum { HEADER = 16 }; /* floats before the window */

static size_t window_rows(const ll_premap *b) {
    return LL_PREMAP_TILE + (size_t)b->c.encoding.taps - 1;
}
static int lines_of(const ll_premap *b) { return is_image(&b->c) ? b->c.encoding.taps : 1; }
static size_t run_of(const ll_premap *b) { return taps_of(b) / (size_t)lines_of(b); }

/* Rounded up to cache lines, so that vectors of noise do not cross them. */
static size_t whole(size_t floats) {
    return ll_round_up(floats, LL_LINE);
}
static size_t fixed_of(const ll_premap *b) {
    return HEADER + whole((size_t)b->c.D * sizeof(ll_gate) / sizeof(float));
}
/* Filtered noise (tile, R), and of forward the gates' weights (tile, D), of backward a band's dout times the input
 * (tile, R), products of the gates' noise and dout (tile, D), and the gradient of a line of the filter. */
static size_t work_floats(const ll_premap *b) {
    return whole(LL_PREMAP_TILE * (2 * (size_t)b->R + (size_t)b->c.D) + run_of(b));
}
static size_t scratch(const ll_premap *b) {
    return fixed_of(b) + work_floats(b) + (b->noise ? 0 : (size_t)b->c.D * window_rows(b) * (size_t)b->R);
}

static ll_gate *gates_of(const ll_premap_tile *t) {
    return (ll_gate *)(void *)(t->work + HEADER);
}
static float *work_of(const ll_premap_tile *t) {
    return t->work + fixed_of(t->b);
}
static float *rows_at(const ll_premap_tile *t) {
    return work_of(t) + work_floats(t->b);
}

static size_t sums(const ll_premap *b) {
    return (size_t)b->c.D * (2 * taps_of(b) + 1);
}

/* Row n of feature c is drawn from number (n D + c) R on. */
static void prepare(const ll_premap_tile *t) {
    const ll_premap *b = t->b;
    const size_t D = (size_t)b->c.D, R = (size_t)b->R, most = window_rows(b);
    for (size_t c = 0; c < D; c++) gates_of(t)[c] = ll_gate_at(b, t->head, (int)c);
    if (b->noise) return;
    window *w = (window *)(void *)t->work;
    float *rows = rows_at(t);
    const int64_t end = t->t0 + t->C + b->c.encoding.taps - 1;
    const int64_t kept = w->from <= t->t0 && t->t0 < w->to ? w->to - t->t0 : 0;
    for (size_t c = 0; c < D; c++) {
        float *own = rows + c * most * R;
        if (kept) memmove(own, own + (size_t)(t->t0 - w->from) * R, (size_t)kept * R * sizeof *own);
        for (int64_t n = t->t0 + kept; n < end; n++)
            ll_spe_noise(b, t->head, 0, own + (size_t)(n - t->t0) * R, R,
                         ((uint64_t)n * (uint64_t)D + (uint64_t)c) * (uint64_t)R);
    }
    w->from = t->t0;
    w->to = t->t0 + kept > end ? t->t0 + kept : end;
}

/* Where the noise of token t0 + i and feature c starts; *line: how far its rows of taps are apart. */
static const float *noise_at(const ll_premap_tile *t, int i, size_t c, size_t *line) {
    const ll_premap *b = t->b;
    const size_t R = (size_t)b->R, D = (size_t)b->c.D;
    *line = 0;
    if (!b->noise) return rows_at(t) + (c * window_rows(b) + (size_t)i) * R;
    const float *own = b->noise + ((size_t)t->head * D + c) * kept_rows(b) * R;
    if (!is_image(&b->c)) return own + (size_t)(t->t0 + i) * R;
    const int64_t W = b->c.width, pixels = W * b->c.height;
    int64_t p = t->t0 + i - b->c.before; /* tokens around the image stand at its first and last pixel */
    p = p < 0 ? 0 : p >= pixels ? pixels - 1 : p;
    *line = (size_t)b->c.encoding.noise_cols * R;
    return own + (size_t)(p / W) * *line + (size_t)(p % W) * R;
}

static const float *filter_at(const ll_premap_tile *t, int side, size_t c) {
    const ll_position_config *w = &t->b->c.encoding;
    const float *filter = side == LL_QUERY ? w->filter_q : w->filter_k;
    return filter + ((size_t)t->head * (size_t)t->b->c.D + c) * taps_of(t->b);
}

/* Tokens first[g] .. first[g + 1] - 1 of a tile's n are a band: their noise begins at rows one after the other. Returns
 * the number of bands. */
static int group(const ll_premap_tile *t, int n, int first[LL_PREMAP_TILE + 1]) {
    int groups = 0;
    size_t line;
    first[0] = 0;
    for (int i = 1; i < n; i++)
        if (noise_at(t, i, 0, &line) != noise_at(t, i - 1, 0, &line) + t->b->R) first[++groups] = i;
    first[++groups] = n;
    return groups;
}

/* Feature c of the tokens of a band, from number i on. */
typedef struct {
    size_t c;
    int i, rows;
} band;

/* Noise of a band, filtered: (rows, R). */
static void filter_noise(const ll_premap_tile *t, int side, const band *x, float *codes) {
    const size_t run = run_of(t->b), R = (size_t)t->b->R;
    const float *filter = filter_at(t, side, x->c);
    size_t line;
    const float *z = noise_at(t, x->i, x->c, &line);
    for (int l = 0; l < lines_of(t->b); l++, z += line, filter += run)
        t->k->gemv(x->rows * (int)R, (int)run, filter, z, R, codes, l > 0);
}

static const float *gate_noise_of(const ll_premap_tile *t) {
    return t->b->gate_noise + (size_t)t->head * (size_t)t->b->c.D * (size_t)t->b->R;
}

static void forward(const ll_premap_tile *t, int side, int n, const float *in, size_t token, float *out, size_t ldo) {
    const ll_premap *b = t->b;
    const size_t R = (size_t)b->R, D = (size_t)b->c.D;
    float *codes = work_of(t), *weight = codes + LL_PREMAP_TILE * R;
    for (int i = 0; i < n; i++) memset(out + (size_t)i * ldo, 0, R * sizeof *out);
    int first[LL_PREMAP_TILE + 1];
    const int groups = group(t, n, first);
    for (size_t c = 0; c < D; c++)
        for (int g = 0; g < groups; g++) {
            const band x = {c, first[g], first[g + 1] - first[g]};
            const float code = (float)gates_of(t)[c].code;
            filter_noise(t, side, &x, codes);
            for (size_t r = 0, i = (size_t)x.i; r < (size_t)x.rows; r++, i++)
                t->k->axpy(R, code * in[i * token + c], codes + r * R, out + i * ldo);
        }
    if (!b->gate_noise) return;
    for (int i = 0; i < n; i++)
        for (size_t k = 0; k < D; k++)
            weight[(size_t)i * D + k] = in[(size_t)i * token + k] * (float)gates_of(t)[k].noise;
    t->k->gemm(n, b->R, b->c.D, weight, D, 1, gate_noise_of(t), R, out, ldo, 1);
}

/* The gradient of a feature's filter: products of its noise, tap by tap, with dout times the input `y` (rows, R). */
static void filter_gradient(const ll_premap_tile *t, const band *x, const float *y, float *tap, double *gradient) {
    const size_t run = run_of(t->b), R = (size_t)t->b->R;
    size_t line;
    const float *z = noise_at(t, x->i, x->c, &line);
    for (int l = 0; l < lines_of(t->b); l++, z += line, gradient += run) {
        t->k->gemv_rows((int)run, x->rows * (int)R, z, R, y, tap, 0);
        for (size_t p = 0; p < run; p++) gradient[p] += (double)tap[p];
    }
}

static void back(const ll_premap_tile *t, int side, int n, const float *in, size_t token, const float *dout, size_t ldd,
                 float *din, size_t dtoken, double *sum) {
    const ll_premap *b = t->b;
    const size_t R = (size_t)b->R, D = (size_t)b->c.D, all = D * taps_of(b);
    float *codes = work_of(t), *y = codes + LL_PREMAP_TILE * R, *noises = y + LL_PREMAP_TILE * R;
    float *tap = noises + LL_PREMAP_TILE * D;
    int first[LL_PREMAP_TILE + 1];
    const int groups = group(t, n, first);
    for (size_t i = 0; i < (size_t)n && b->gate_noise; i++)
        t->k->gemv_rows(b->c.D, b->R, gate_noise_of(t), R, dout + i * ldd, noises + i * D, 0);
    for (size_t c = 0; c < D; c++)
        for (int g = 0; g < groups; g++) {
            const band x = {c, first[g], first[g + 1] - first[g]};
            const ll_gate *gate = &gates_of(t)[c];
            filter_noise(t, side, &x, codes);
            for (size_t r = 0, i = (size_t)x.i; r < (size_t)x.rows; r++, i++) {
                const float input = in[i * token + c];
                const double code = (double)t->k->dot(R, codes + r * R, dout + i * ldd);
                const double noise = b->gate_noise ? (double)noises[i * D + c] : 0;
                t->k->scaled(R, (float)gate->code * input, dout + i * ldd, y + r * R);
                sum[2 * all + c] += (double)input * (gate->dcode * code + gate->dnoise * noise);
                din[i * dtoken + c] = (float)(gate->code * code + gate->noise * noise);
            }
            filter_gradient(t, &x, y, tap, sum + (side == LL_QUERY ? 0 : all) + c * taps_of(b));
        }
}

static void collect(const ll_premap *b, int head, const double *sum, const ll_position_gradients *d) {
    const size_t D = (size_t)b->c.D, n = D * taps_of(b);
    for (size_t i = 0; i < n; i++) {
        if (d->filter_q) d->filter_q[(size_t)head * n + i] += (float)sum[i];
        if (d->filter_k) d->filter_k[(size_t)head * n + i] += (float)sum[n + i];
    }
    for (size_t c = 0; c < D && b->c.encoding.gate && d->gate; c++)
        d->gate[(size_t)head * D + c] += (float)sum[2 * n + c];
}

/* Given noise ends somewhere. */
static int64_t longest(const ll_premap *b) {
    return b->noise && !is_image(&b->c) ? (int64_t)b->c.encoding.noise_rows - b->c.encoding.taps + 1 : INT64_MAX;
}

static double cost(const ll_premap *b) { return 2.0 * (double)taps_of(b) * b->c.D * b->R; }

const ll_premap_kind ll_premap_conv = {
    .check = check,
    .width = ll_spe_width,
    .create = create,
    .draw = draw,
    .scratch = scratch,
    .longest = longest,
    .parameters = parameters,
    .sums = sums,
    .cost = cost,
    .prepare = prepare,
    .forward = forward,
    .back = back,
    .collect = collect,
};
