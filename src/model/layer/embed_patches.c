/* Vectors of an image's patches (Dosovitskiy et al. 2021, equation 1): a matrix over the pixels of a patch, and a bias.
 *
 * A batch has the numbers 0..255 of an image row by row, pixel by pixel, channel by channel. A patch is a square of
 * model.patch pixels; patches are in the order of rows. Its numbers become x = (number / 255 - mean) / std of their
 * channel (model.pixel-mean, -std), and lie channel by channel, as the weights of a convolution do. */
#include <string.h>

#include "base/integer.h"
#include "base/parallel.h"
#include "model/layer/embedding.h"

static int numbers(const ll_model_config *c) {
    return c->model.patch * c->model.patch * c->model.channels;
}

static void plan(ll_model *m) {
    m->at.patch = ll_param_add(m, "embedding.patch.weight", numbers(m->c), m->c->model.width, LL_ROLE_WEIGHT);
    ll_param_add(m, "embedding.patch.bias", m->c->model.width, 1, LL_ROLE_BIAS);
}

/* The x of number v of channel c is v scale[c] + shift[c]. */
typedef struct {
    float scale[LL_CHANNELS], shift[LL_CHANNELS];
} line;

static line line_of(const ll_model_config *c) {
    double mean[LL_CHANNELS], deviation[LL_CHANNELS];
    line l = {{0}, {0}};
    if (ll_config_pixels(c, mean, deviation)) return l; /* models are checked when they are made */
    for (int i = 0; i < LL_CHANNELS; i++) {
        l.scale[i] = (float)(1 / (255 * deviation[i]));
        l.shift[i] = (float)(-mean[i] / deviation[i]);
    }
    return l;
}

typedef struct {
    const ll_batch_run *run;
    ll_rows rows;
    line line;
} job;

/* The pixels of a row of the chunk; zeros for a CLS token. */
static void read_patch(const job *j, size_t r) {
    const ll_batch_run *run = j->run;
    const ll_model_config *c = run->c;
    const int side = c->model.patch, channels = c->model.channels, width = c->position.width, across = width / side;
    const size_t n = (size_t)numbers(c), image = (size_t)width * (size_t)c->position.height * (size_t)channels;
    const ll_row p = ll_row_at(run, j->rows.first + r);
    float *out = run->ws->pixels + r * n;
    if (!p.used || p.t < 0) {
        memset(out, 0, n * sizeof *out);
        return;
    }
    const int top = p.t / across * side, left = p.t % across * side;
    for (int channel = 0; channel < channels; channel++)
        for (int y = 0; y < side; y++) {
            const int *from = run->tokens + p.b * image + ((size_t)(top + y) * (size_t)width + (size_t)left) *
                                                              (size_t)channels + channel;
            for (int x = 0; x < side; x++)
                *out++ = (float)from[x * channels] * j->line.scale[channel] + j->line.shift[channel];
        }
}

static void read_task(void *arg, size_t i) {
    const job *j = arg;
    for (size_t r = i * LL_PIECE; r < (i + 1) * LL_PIECE && r < (size_t)j->rows.n; r++) read_patch(j, r);
}

static void read_patches(const ll_batch_run *run, ll_rows rows) {
    job j = {run, rows, line_of(run->c)};
    ll_parallel_for(ll_ceil_div_size((size_t)rows.n, LL_PIECE), read_task, &j);
}

static void vectors(const ll_batch_run *run, ll_rows rows, float *out) {
    const ll_model *m = run->model;
    const int K = numbers(run->c), C = run->c->model.width;
    read_patches(run, rows);
    ll_linear(run, rows.n, K, C, run->ws->pixels, (size_t)K, ll_param_matrix(m, m->at.patch),
              ll_param_at(m, m->at.patch + 1), out, (size_t)C);
}

/* CLS tokens have no part in the bias. */
static void clear_cls_tokens(const ll_batch_run *run, ll_rows rows) {
    const size_t C = (size_t)run->c->model.width;
    for (size_t row = rows.first; row < rows.first + (size_t)rows.n; row++)
        if (ll_row_at(run, row).t < 0) memset(run->ws->d + row * C, 0, C * sizeof(float));
}

static void back(const ll_batch_run *run) {
    const ll_model *m = run->model;
    const int K = numbers(run->c), C = run->c->model.width;
    for (ll_rows r = {0}; ll_next_rows(run, &r);) {
        const float *d = run->ws->d + r.first * (size_t)C;
        clear_cls_tokens(run, r);
        read_patches(run, r);
        ll_linear_weight_back(run, r.n, K, C, run->ws->pixels, (size_t)K, d, (size_t)C,
                              ll_param_in(m, run->grad, m->at.patch));
        ll_bias_back(r.n, C, d, ll_param_in(m, run->grad, m->at.patch + 1));
    }
}

const ll_embedding ll_embed_patches = {plan, numbers, NULL, vectors, back};
