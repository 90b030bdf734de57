/* Filtering noise row by row: for short filters, as those of images. Filtered noise of a group of tokens is one
 * product: of a line of the filter, and of a matrix in which a row is the noise from one row later on. */
#include "attention/position/conv_spe.h"

/* Filtered noise (tile, R), dout times the input (tile, R), and the gradient of a line of the filter. */
static size_t floats(const ll_premap *b) { return 2 * LL_PREMAP_TILE * (size_t)b->R + ll_conv_run(b); }

/* Feature c of the tokens of a group, from number i on. */
typedef struct {
    size_t c;
    int i, rows;
} group;

/* Noise of a group, filtered: (rows, R). */
static void filter_noise(const ll_premap_tile *t, int side, const group *x, float *codes) {
    const size_t run = ll_conv_run(t->b), R = (size_t)t->b->R;
    const float *filter = ll_conv_filter(t, side, x->c);
    size_t line;
    const float *z = ll_conv_noise(t, x->i, x->c, &line);
    for (int l = 0; l < ll_conv_lines(t->b); l++, z += line, filter += run)
        t->k->gemv(x->rows * (int)R, (int)run, filter, z, R, codes, l > 0);
}

static void forward(const ll_premap_tile *t, int side, int n, const float *in, size_t token, float *out, size_t ldo) {
    const size_t R = (size_t)t->b->R, D = (size_t)t->b->c.D;
    float *codes = ll_conv_work(t);
    int first[LL_PREMAP_TILE + 1];
    const int groups = ll_conv_groups(t, n, LL_PREMAP_TILE, first);
    for (size_t c = 0; c < D; c++)
        for (int g = 0; g < groups; g++) {
            const group x = {c, first[g], first[g + 1] - first[g]};
            const float code = (float)ll_conv_gates(t)[c].code;
            filter_noise(t, side, &x, codes);
            for (size_t r = 0, i = (size_t)x.i; r < (size_t)x.rows; r++, i++)
                t->k->axpy(R, code * in[i * token + c], codes + r * R, out + i * ldo);
        }
}

/* The gradient of a feature's filter: products of its noise, tap by tap, with dout times the input `y` (rows, R). */
static void filter_gradient(const ll_premap_tile *t, const group *x, const float *y, float *tap, double *gradient) {
    const size_t run = ll_conv_run(t->b), R = (size_t)t->b->R;
    size_t line;
    const float *z = ll_conv_noise(t, x->i, x->c, &line);
    for (int l = 0; l < ll_conv_lines(t->b); l++, z += line, gradient += run) {
        t->k->gemv_rows((int)run, x->rows * (int)R, z, R, y, tap, 0);
        for (size_t p = 0; p < run; p++) gradient[p] += (double)tap[p];
    }
}

static void back(const ll_premap_tile *t, int side, int n, const float *in, size_t token, const float *dout, size_t ldd,
                 float *code, double *filter) {
    const size_t R = (size_t)t->b->R, D = (size_t)t->b->c.D;
    float *codes = ll_conv_work(t), *y = codes + LL_PREMAP_TILE * R, *tap = y + LL_PREMAP_TILE * R;
    int first[LL_PREMAP_TILE + 1];
    const int groups = ll_conv_groups(t, n, LL_PREMAP_TILE, first);
    for (size_t c = 0; c < D; c++)
        for (int g = 0; g < groups; g++) {
            const group x = {c, first[g], first[g + 1] - first[g]};
            const float size = (float)ll_conv_gates(t)[c].code;
            filter_noise(t, side, &x, codes);
            for (size_t r = 0, i = (size_t)x.i; r < (size_t)x.rows; r++, i++) {
                code[i * D + c] = t->k->dot(R, codes + r * R, dout + i * ldd);
                t->k->scaled(R, size * in[i * token + c], dout + i * ldd, y + r * R);
            }
            filter_gradient(t, &x, y, tap, filter + c * ll_conv_taps(t->b));
        }
}

const ll_conv_way ll_conv_rows = {floats, forward, back};
