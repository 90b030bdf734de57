/* Filtering noise in bands: for long filters. Tokens whose noise begins at consecutive rows are computed at a time.
 * Their weights form a band, which is multiplied by all rows that they read. */
#include "attention/position/conv_spe.h"
#include "base/integer.h"

#include <string.h>

/* Tokens of a band, forward and backward. Of N tokens it costs 1 + (N - 1) / P times the products that are needed. */
enum { FORTH = 8, BACK = 16, WIDE = LL_PREMAP_TILE + BACK };

/* Of forward: the band (FORTH, run + FORTH - 1). Of backward: dout transposed (R, WIDE), products of noise and dout of
 * some tokens (run + BACK - 1, BACK), the filter and its gradient from the last tap to the first, with BACK - 1 numbers
 * on both sides. */
static size_t floats(const ll_premap *b) {
    const size_t run = ll_conv_run(b), forth = FORTH * (run + FORTH);
    const size_t back = WIDE * (size_t)b->R + BACK * (run + BACK) + 2 * (run + 2 * BACK);
    return ll_max_size(forth, back);
}

/* Outside its diagonal the band is 0 from the start of a head on: nothing else is written there. */
static void forward(const ll_premap_tile *t, int side, int n, const float *in, size_t token, float *out, size_t ldo) {
    const ll_premap *b = t->b;
    const size_t R = (size_t)b->R, D = (size_t)b->c.D, run = ll_conv_run(b), ld = run + FORTH - 1;
    float *band = ll_conv_work(t);
    int first[LL_PREMAP_TILE + 1];
    const int groups = ll_conv_groups(t, n, FORTH, first);
    for (size_t c = 0; c < D; c++)
        for (int g = 0; g < groups; g++) {
            const int i = first[g], rows = first[g + 1] - i;
            const float code = (float)ll_conv_gates(t)[c].code, *filter = ll_conv_filter(t, side, c);
            size_t line;
            const float *z = ll_conv_noise(t, i, c, &line);
            float x[FORTH];
            for (int r = 0; r < rows; r++) x[r] = code * in[(size_t)(i + r) * token + c];
            for (int l = 0; l < ll_conv_lines(b); l++, z += line, filter += run) {
                t->k->scale_blocks(rows, 1, (int)run, x, 1, filter, 0, band, ld + 1);
                t->k->gemm(rows, b->R, (int)run + rows - 1, band, ld, 1, z, R, out + (size_t)i * ldo, ldo, 1);
            }
        }
}

/* Scratch of backward, as `floats` says. */
typedef struct {
    float *dout, *u, *filter, *gradient;
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
static void band_back(const ll_premap_tile *t, int side, size_t c, int i, int rows, const float *in, size_t token,
                      float *code, const backward_buffers *w, double *gradient) {
    const ll_premap *b = t->b;
    const size_t R = (size_t)b->R, D = (size_t)b->c.D, run = ll_conv_run(b);
    const float *filter = ll_conv_filter(t, side, c), size = (float)ll_conv_gates(t)[c].code;
    double sum[BACK] = {0};
    float x[BACK] = {0};
    size_t line;
    const float *z = ll_conv_noise(t, i, c, &line);
    for (int r = 0; r < rows; r++) x[r] = size * in[(size_t)(i + r) * token + c];
    for (int l = 0; l < ll_conv_lines(b); l++, z += line, filter += run, gradient += run) {
        t->k->gemm((int)run + rows - 1, BACK, b->R, z, R, 1, w->dout + i, WIDE, w->u, BACK, 0);
        memset(w->u + (run + (size_t)rows - 1) * BACK, 0, (size_t)(BACK - rows) * BACK * sizeof *w->u);
        line_back(w, run, filter, x, sum, gradient);
    }
    for (int r = 0; r < rows; r++) code[(size_t)(i + r) * D + c] = (float)sum[r];
}

static void back(const ll_premap_tile *t, int side, int n, const float *in, size_t token, const float *dout, size_t ldd,
                 float *code, double *filter) {
    const ll_premap *b = t->b;
    const size_t R = (size_t)b->R, D = (size_t)b->c.D, run = ll_conv_run(b);
    backward_buffers w = {.dout = ll_conv_work(t)};
    w.u = w.dout + WIDE * R, w.filter = w.u + BACK * (run + BACK), w.gradient = w.filter + run + 2 * BACK;
    memset(w.filter, 0, (run + 2 * BACK) * sizeof *w.filter);
    memset(w.dout, 0, WIDE * R * sizeof *w.dout);
    t->k->transpose(n, b->R, dout, ldd, w.dout, WIDE);
    int first[LL_PREMAP_TILE + 1];
    const int groups = ll_conv_groups(t, n, BACK, first);
    for (size_t c = 0; c < D; c++)
        for (int g = 0; g < groups; g++)
            band_back(t, side, c, first[g], first[g + 1] - first[g], in, token, code, &w, filter + c * ll_conv_taps(b));
}

const ll_conv_way ll_conv_bands = {floats, forward, back};
