/* The layer before the output layer of a masked language model (Devlin et al. 2019): norm(act(x W + b)). */
#include <string.h>

#include "model/layer/head_layers.h"
#include "model/network.h"

/* Of n rows: u = x W + b, y = act(u), out = norm(y), and the gradient at y. */
enum { U, Y, OUT, DY };

const float *ll_head_transform(const ll_batch_run *run, int n, const float *x) {
    const int C = run->c->model.width, W = run->model->at.transform;
    float *const *t = run->ws->transform;
    if (W < 0) return x;
    ll_linear(run, n, C, C, x, (size_t)C, ll_param_matrix(run->model, W), ll_param_at(run->model, W + 1), t[U],
              (size_t)C);
    ll_activate(run, n, C, t[U], NULL, t[Y]);
    ll_norm(run, n, W + 2, t[Y], t[OUT]);
    return t[OUT];
}

void ll_head_transform_back(const ll_batch_run *run, int n, const float *x, float *dy) {
    const int C = run->c->model.width, W = run->model->at.transform;
    const size_t width = (size_t)C;
    float *const *t = run->ws->transform;
    if (W < 0) return;
    memset(t[DY], 0, (size_t)n * width * sizeof(float));
    ll_norm_back(run, n, W + 2, t[Y], dy, t[DY]);
    ll_activate_back(run, n, C, t[U], NULL, t[DY], t[Y], NULL); /* y is not needed any more */
    ll_linear_weight_back(run, n, C, C, x, width, t[Y], width, ll_param_in(run->model, run->grad, W));
    ll_bias_back(n, C, t[Y], ll_param_in(run->model, run->grad, W + 1));
    ll_linear_input_back(run, n, C, C, t[Y], width, ll_param_at(run->model, W), dy, width, 0);
}
