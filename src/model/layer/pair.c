/* Two texts, and whether they match. Both go through the same network as sequences 2i and 2i + 1. u and v are their
 * pooled vectors. One hidden layer reads
 *
 *   x = [u, v, u v, u - v]        h = act(x W_1 + b_1)        logits = h W_2 + b_2
 *
 * (the two-tower model of the Long-Range Arena; Tay et al. 2020). */
#include "model/layer/head_layers.h"
#include "model/network.h"

/* x of n pairs from their 2n pooled rows. */
static void join(int n, size_t C, const float *pooled, float *x) {
    for (size_t i = 0; i < (size_t)n; i++, x += 4 * C) {
        const float *u = pooled + 2 * i * C, *v = u + C;
        for (size_t c = 0; c < C; c++) {
            x[c] = u[c];
            x[C + c] = v[c];
            x[2 * C + c] = u[c] * v[c];
            x[3 * C + c] = u[c] - v[c];
        }
    }
}

const float *ll_match_forward(const ll_batch_run *run, int n, const float *pooled) {
    const ll_match *m = &run->ws->match;
    const int C = run->c->model.width, ff = run->c->model.ff, in = run->model->at.match;
    join(n, (size_t)C, pooled, m->x);
    ll_linear(run, n, 4 * C, ff, m->x, 4 * (size_t)C, ll_param_matrix(run->model, in), ll_param_at(run->model, in + 1),
              m->u, (size_t)ff);
    ll_activate(run, n, ff, m->u, NULL, m->h);
    return m->h;
}

void ll_match_back(const ll_batch_run *run, int n, size_t first) {
    const ll_match *m = &run->ws->match;
    const int ff = run->c->model.ff, in = run->model->at.match;
    const size_t C = (size_t)run->c->model.width, wide = (size_t)ff;
    ll_activate_back(run, n, ff, m->u, NULL, m->dh, m->h, NULL); /* h becomes the gradient of u */
    ll_linear_weight_back(run, n, 4 * (int)C, ff, m->x, 4 * C, m->h, wide, ll_param_in(run->model, run->grad, in));
    ll_bias_back(n, ff, m->h, ll_param_in(run->model, run->grad, in + 1));
    ll_linear_input_back(run, n, 4 * (int)C, ff, m->h, wide, ll_param_at(run->model, in), m->dx, 4 * C, 0);
    for (size_t i = 0; i < (size_t)n; i++) {
        const float *x = m->x + 4 * i * C, *dx = m->dx + 4 * i * C;
        double *du = run->ws->dpool + 2 * (first + i) * C, *dv = du + C;
        for (size_t c = 0; c < C; c++) {
            du[c] = (double)dx[c] + (double)(dx[2 * C + c] * x[C + c]) + (double)dx[3 * C + c];
            dv[c] = (double)dx[C + c] + (double)(dx[2 * C + c] * x[c]) - (double)dx[3 * C + c];
        }
    }
}
