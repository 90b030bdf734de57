/* Convolutional stochastic encodings: feature c of a head is noise z, filtered.
 *
 *   q^_i = sum_c q_ic ( g_c sum_t filter_q[c][t] z_c[i + t] + e_c eps_c )      k^ likewise; g, e of ll_gate
 *
 * The expected product of codes is the correlation of the filters, which is zero from the filter's length on. Noise is
 * a function of its number, so row i + t is the same for every token, in streams and in tiles. In two dimensions
 * filters and noise are images. A token costs D P R multiply-adds.
 *
 * Tokens whose noise begins at consecutive rows are computed at a time. Their weights form a band, which is multiplied
 * by all rows that they read. All tokens of a tile use the noise of one feature before that of the next, because the
 * noise of all features is larger than L2. */
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

/* Floats before the window; tokens of a band, forward and backward. A band of N tokens costs 1 + (N - 1) / P times the
 * products that are needed. */
enum { HEADER = 16, FORTH = 8, BACK = 16, WIDE = LL_PREMAP_TILE + BACK };

static size_t window_rows(const ll_premap *b) {
    return LL_PREMAP_TILE + (size_t)b->c.encoding.taps - 1;
}
static int lines_of(const ll_premap *b) { return is_image(&b->c) ? b->c.encoding.taps : 1; }
static size_t run_of(const ll_premap *b) { return taps_of(b) / (size_t)lines_of(b); }

/* Of forward: the band (FORTH, run + FORTH - 1), the gates' weights (tile, D). Of backward: dout transposed (R, WIDE),
 * products of the gates' noise and dout (D, WIDE), of noise and dout of some tokens (run + BACK - 1, BACK), the filter
 * and its gradient from the last tap to the first, with BACK - 1 numbers on both sides. */
static size_t forward_floats(const ll_premap *b) {
    return FORTH * (run_of(b) + FORTH) + LL_PREMAP_TILE * (size_t)b->c.D;
}
static size_t backward_floats(const ll_premap *b) {
    const size_t run = run_of(b);
    return WIDE * ((size_t)b->R + (size_t)b->c.D) + BACK * (run + BACK) + 2 * (run + 2 * BACK);
}

/* Rounded up to cache lines, so that vectors of noise do not cross them. */
static size_t whole(size_t floats) {
    return ll_round_up(floats, LL_LINE);
}
static size_t fixed_of(const ll_premap *b) {
    return HEADER + whole((size_t)b->c.D * sizeof(ll_gate) / sizeof(float));
}
static size_t work_floats(const ll_premap *b) {
    const size_t forth = forward_floats(b), back = backward_floats(b);
    return whole(forth > back ? forth : back);
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

/* Tokens from i on whose noise begins at rows one after the other, of n, at most `most`. */
static int band_length(const ll_premap_tile *t, int i, int n, int most) {
    size_t line;
    const float *z = noise_at(t, i, 0, &line);
    int rows = 1;
    while (rows < most && i + rows < n && noise_at(t, i + rows, 0, &line) == z + rows * t->b->R) rows++;
    return rows;
}

/* Tokens first[g] .. first[g + 1] - 1 of a tile's n are a band. Returns the number of bands. */
static int group(const ll_premap_tile *t, int n, int most, int first[LL_PREMAP_TILE + 1]) {
    int groups = 0;
    first[0] = 0;
    for (int i = 0; i < n; first[++groups] = i) i += band_length(t, i, n, most);
    return groups;
}

static const float *gate_noise_of(const ll_premap_tile *t) {
    return t->b->gate_noise + (size_t)t->head * (size_t)t->b->c.D * (size_t)t->b->R;
}

/* Outside its diagonal the band is 0 from the start of a head on: nothing else is written there. */
static void forward(const ll_premap_tile *t, int side, int n, const float *in, size_t token, float *out, size_t ldo) {
    const ll_premap *b = t->b;
    const size_t R = (size_t)b->R, D = (size_t)b->c.D, run = run_of(b), ld = run + FORTH - 1;
    float *band = work_of(t), *weight = band + FORTH * (run + FORTH);
    for (int i = 0; i < n; i++) memset(out + (size_t)i * ldo, 0, R * sizeof *out);
    int first[LL_PREMAP_TILE + 1];
    const int groups = group(t, n, FORTH, first);
    for (size_t c = 0; c < D; c++)
        for (int g = 0; g < groups; g++) {
            const int i = first[g], rows = first[g + 1] - i;
            const float code = (float)gates_of(t)[c].code, *filter = filter_at(t, side, c);
            size_t line;
            const float *z = noise_at(t, i, c, &line);
            float x[FORTH];
            for (int r = 0; r < rows; r++) x[r] = code * in[(size_t)(i + r) * token + c];
            for (int l = 0; l < lines_of(b); l++, z += line, filter += run) {
                t->k->scale_blocks(rows, 1, (int)run, x, 1, filter, 0, band, ld + 1);
                t->k->gemm(rows, b->R, (int)run + rows - 1, band, ld, 1, z, R, out + (size_t)i * ldo, ldo, 1);
            }
        }
    if (!b->gate_noise) return;
    for (int i = 0; i < n; i++)
        for (size_t c = 0; c < D; c++)
            weight[(size_t)i * D + c] = in[(size_t)i * token + c] * (float)gates_of(t)[c].noise;
    t->k->gemm(n, b->R, b->c.D, weight, D, 1, gate_noise_of(t), R, out, ldo, 1);
}

/* Scratch of backward, as backward_floats says. */
typedef struct {
    float *dout, *u, *noise, *filter, *gradient;
} backward_buffers;

/* One line of a feature's filter with the products u of its noise: code[r] += sum_p filter[p] u[r + p][r], and
 * gradient[p] += sum_r x[r] u[r + p][r]. Filters are stored so that the numbers for one row of u are in one row. */
static void line_back(const backward_buffers *w, size_t run, const float *filter, const float x[BACK],
                      double code[BACK], double *gradient) {
    const size_t last = BACK - 1 + run - 1; /* where tap 0 lies */
    float sum[BACK] = {0};
    memset(w->gradient, 0, (run + 2 * BACK - 2) * sizeof *w->gradient);
    for (size_t p = 0; p < run; p++) w->filter[last - p] = filter[p];
    for (size_t j = 0; j < run + BACK - 1; j++) {
        const float *u = w->u + j * BACK, *f = w->filter + (last - j);
        float *g = w->gradient + (last - j);
        for (int r = 0; r < BACK; r++) sum[r] += f[r] * u[r];
        for (int r = 0; r < BACK; r++) g[r] += x[r] * u[r];
    }
    for (int r = 0; r < BACK; r++) code[r] += (double)sum[r];
    for (size_t p = 0; p < run; p++) gradient[p] += (double)w->gradient[last - p];
}

/* Feature c of the tokens of one band, from number i on. */
static void group_back(const ll_premap_tile *t, int side, size_t c, int i, int rows, const float *in, size_t token,
                       float *din, size_t dtoken, const backward_buffers *w, double *sum) {
    const ll_premap *b = t->b;
    const size_t R = (size_t)b->R, run = run_of(b), taps = taps_of(b), all = (size_t)b->c.D * taps;
    const ll_gate *gate = &gates_of(t)[c];
    const float *filter = filter_at(t, side, c);
    double *filters = sum + (side == LL_QUERY ? 0 : all) + c * taps, code[BACK] = {0};
    float x[BACK] = {0};
    size_t line;
    const float *z = noise_at(t, i, c, &line);
    for (int r = 0; r < rows; r++) x[r] = (float)gate->code * in[(size_t)(i + r) * token + c];
    for (int l = 0; l < lines_of(b); l++, z += line, filter += run) {
        t->k->gemm((int)run + rows - 1, BACK, b->R, z, R, 1, w->dout + i, WIDE, w->u, BACK, 0);
        memset(w->u + (run + (size_t)rows - 1) * BACK, 0, (size_t)(BACK - rows) * BACK * sizeof *w->u);
        line_back(w, run, filter, x, code, filters + (size_t)l * run);
    }
    for (int r = 0; r < rows; r++) {
        const double noise = b->gate_noise ? (double)w->noise[c * WIDE + (size_t)(i + r)] : 0;
        sum[2 * all + c] += (double)in[(size_t)(i + r) * token + c] * (gate->dcode * code[r] + gate->dnoise * noise);
        din[(size_t)(i + r) * dtoken + c] = (float)(gate->code * code[r] + gate->noise * noise);
    }
}

static void back(const ll_premap_tile *t, int side, int n, const float *in, size_t token, const float *dout, size_t ldd,
                 float *din, size_t dtoken, double *sum) {
    const ll_premap *b = t->b;
    const size_t R = (size_t)b->R, D = (size_t)b->c.D, run = run_of(b);
    backward_buffers w = {.dout = work_of(t)};
    w.noise = w.dout + WIDE * R, w.u = w.noise + WIDE * D;
    w.filter = w.u + BACK * (run + BACK), w.gradient = w.filter + run + 2 * BACK;
    memset(w.filter, 0, (run + 2 * BACK) * sizeof *w.filter);
    memset(w.dout, 0, WIDE * R * sizeof *w.dout);
    t->k->transpose(n, b->R, dout, ldd, w.dout, WIDE);
    if (b->gate_noise) t->k->gemm(b->c.D, n, b->R, gate_noise_of(t), R, 1, w.dout, WIDE, w.noise, WIDE, 0);
    int first[LL_PREMAP_TILE + 1];
    const int groups = group(t, n, BACK, first);
    for (size_t c = 0; c < D; c++)
        for (int g = 0; g < groups; g++)
            group_back(t, side, c, first[g], first[g + 1] - first[g], in, token, din, dtoken, &w, sum);
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
