/* One Transformer block: its feed-forward layer, and the order of its sublayers, forward and backward. On the way back
 * ws->d is the gradient at r_(j+1) with pre-norm, and at a_(j+1) with post-norm; it becomes the one at r_j or a_j. */
#include "model/network.h"

/* ---- Feed-forward ---- */

/* Pre-activations of some rows. */
static float *hidden(const ll_batch_run *run, int layer, ll_rows rows) {
    const size_t first = run->ws->mode == LL_TRAIN ? rows.first : 0;
    return run->ws->hidden[layer] + first * (size_t)run->c->model.ff;
}

static int feed_of(const ll_batch_run *run, int layer) {
    return run->stack->parts * (layer + 1) - 1;
}

static ll_status feed(const ll_batch_run *run, int layer) {
    const int C = run->c->model.width, ff = run->c->model.ff, j = feed_of(run, layer);
    ll_workspace *ws = run->ws;
    ll_status status = LL_OK;
    for (ll_rows r = {0}; !status && ll_next_chunk(&r, run->rows);) {
        const float *a = ll_sublayer_input(run, j, r, ws->input);
        float *u = hidden(run, layer, r);
        ll_linear(run, r.n, C, ff, a, (size_t)C, ll_weight(run, layer, LL_IN_WEIGHT), ll_weight(run, layer, LL_IN_BIAS),
                  u, (size_t)ff);
        ll_activate(run, r.n, ff, u, ws->wide);
        ll_linear(run, r.n, ff, C, ws->wide, (size_t)ff, ll_weight(run, layer, LL_OUT_WEIGHT),
                  ll_weight(run, layer, LL_OUT_BIAS), ws->output, (size_t)C);
        ll_sublayer_add(run, j, r, ws->output);
        status = ll_sublayer_report(run, j, r, 0, 1);
    }
    return status;
}

static void feed_back(const ll_batch_run *run, int layer) {
    const int C = run->c->model.width, ff = run->c->model.ff, j = feed_of(run, layer);
    const size_t width = (size_t)C, wide = (size_t)ff;
    ll_workspace *ws = run->ws;
    for (ll_rows r = {0}; ll_next_chunk(&r, run->rows);) {
        float *d = ws->d + r.first * width;
        const float *u = hidden(run, layer, r), *df = ll_sublayer_back(run, j, r, d);
        ll_activate(run, r.n, ff, u, ws->wide);
        ll_linear_weight_back(run, r.n, ff, C, ws->wide, wide, df, width,
                              ll_weight_gradient(run, layer, LL_OUT_WEIGHT));
        ll_bias_back(r.n, C, df, ll_weight_gradient(run, layer, LL_OUT_BIAS));
        ll_linear_input_back(run, r.n, ff, C, df, width, ll_weight(run, layer, LL_OUT_WEIGHT), ws->dwide, wide, 0);
        ll_activate_back(run, r.n, ff, u, ws->dwide, ws->wide); /* the activations are not needed again */
        const float *a = ll_sublayer_input(run, j, r, ws->input);
        ll_linear_weight_back(run, r.n, C, ff, a, width, ws->wide, wide, ll_weight_gradient(run, layer, LL_IN_WEIGHT));
        ll_bias_back(r.n, ff, ws->wide, ll_weight_gradient(run, layer, LL_IN_BIAS));
        int add;
        float *da = ll_sublayer_gradient(run, d, &add);
        ll_linear_input_back(run, r.n, C, ff, ws->wide, wide, ll_weight(run, layer, LL_IN_WEIGHT), da, width, add);
        ll_sublayer_through(run, j, r, da, d);
    }
}

/* ---- All of it ---- */

ll_status ll_block_forward(const ll_batch_run *run, int layer) {
    ll_status status = ll_attend(run, layer, 0);
    if (!status && run->stack->parts > 2) status = ll_attend(run, layer, 1);
    return status ? status : feed(run, layer);
}

ll_status ll_block_backward(const ll_batch_run *run, int layer) {
    feed_back(run, layer);
    ll_status status = run->stack->parts > 2 ? ll_attend_back(run, layer, 1) : LL_OK;
    return status ? status : ll_attend_back(run, layer, 0);
}
