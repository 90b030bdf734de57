/* One Transformer block: the feed-forward layer, and the order of the sublayers, forward and backward. In backward
 * ws->d is first the gradient at r_(j+1) with pre-norm, and at a_(j+1) with post-norm; it becomes the gradient at r_j
 * or a_j. */
#include "model/network.h"

/* ---- Feed-forward ---- */

/* Pre-activations of some rows, and those of the gate (NULL: no gate). */
static float *of_rows(const ll_batch_run *run, float *all, ll_rows rows) {
    const size_t first = run->ws->keeps ? rows.first : 0;
    return all ? all + first * (size_t)run->c->model.ff : NULL;
}

static int feed_of(const ll_batch_run *run, int layer) {
    return run->stack->parts * (layer + 1) - 1;
}

/* u = a W + b, for one of the two weights of shape (C, ff). */
static void widen(const ll_batch_run *run, int layer, int n, int weight, const float *a, float *u) {
    const int C = run->c->model.width, ff = run->c->model.ff;
    ll_linear(run, n, C, ff, a, (size_t)C, ll_weight_matrix(run, layer, weight), ll_weight(run, layer, weight + 1), u,
              (size_t)ff);
}

/* Pre-activations of what leaves N_j, for forward and for what did not keep them. */
static void hide(const ll_batch_run *run, int layer, ll_rows r, float *u, float *gate) {
    const float *a = ll_sublayer_input(run, feed_of(run, layer), r, run->ws->input);
    widen(run, layer, r.n, LL_IN_WEIGHT, a, u);
    if (gate) widen(run, layer, r.n, LL_FEED_GATE_WEIGHT, a, gate);
}

ll_status ll_feed_forward(const ll_batch_run *run, int layer) {
    const int C = run->c->model.width, ff = run->c->model.ff, j = feed_of(run, layer);
    ll_workspace *ws = run->ws;
    ll_status status = LL_OK;
    for (ll_rows r = {0}; !status && ll_next_read(run, layer, &r);) {
        float *u = of_rows(run, ws->hidden[layer], r), *gate = of_rows(run, ws->gates[layer], r);
        hide(run, layer, r, u, gate);
        ll_activate(run, r.n, ff, u, gate, ws->wide);
        ll_linear(run, r.n, ff, C, ws->wide, (size_t)ff, ll_weight_matrix(run, layer, LL_OUT_WEIGHT),
                  ll_weight(run, layer, LL_OUT_BIAS), ws->output, (size_t)C);
        ll_sublayer_add(run, j, r, ws->output);
        status = ll_sublayer_report(run, j, r, 0, 1);
    }
    return status;
}

/* The gradients of the weight from that of u, and its part of the gradient at a. */
static void widen_back(const ll_batch_run *run, int layer, int n, int weight, const float *a, const float *du,
                       float *da, int add) {
    const int C = run->c->model.width, ff = run->c->model.ff;
    const size_t width = (size_t)C, wide = (size_t)ff;
    float *dbias = ll_weight_gradient(run, layer, weight + 1);
    ll_linear_weight_back(run, n, C, ff, a, width, du, wide, ll_weight_gradient(run, layer, weight));
    if (dbias) ll_bias_back(n, ff, du, dbias);
    ll_linear_input_back(run, n, C, ff, du, wide, ll_weight(run, layer, weight), da, width, add);
}

static void feed_back(const ll_batch_run *run, int layer) {
    const int C = run->c->model.width, ff = run->c->model.ff, j = feed_of(run, layer);
    const size_t width = (size_t)C, wide = (size_t)ff;
    float *dbias = ll_weight_gradient(run, layer, LL_OUT_BIAS);
    ll_workspace *ws = run->ws;
    for (ll_rows r = {0}; ll_next_read(run, layer, &r);) {
        float *d = ws->d + r.first * width;
        float *u = of_rows(run, ws->hidden[layer], r), *gate = of_rows(run, ws->gates[layer], r);
        if (!ws->keeps) hide(run, layer, r, u, gate);
        const float *df = ll_sublayer_back(run, j, r, d);
        ll_linear_input_back(run, r.n, ff, C, df, width, ll_weight(run, layer, LL_OUT_WEIGHT), ws->dwide, wide, 0);
        float *du = gate ? ws->wide : ws->dwide; /* the activations are in ws->wide until its weight has its gradient */
        if (gate)
            ll_activate(run, r.n, ff, u, gate, ws->wide);
        else
            ll_activate_back(run, r.n, ff, u, NULL, ws->dwide, du, ws->wide);
        ll_linear_weight_back(run, r.n, ff, C, ws->wide, wide, df, width,
                              ll_weight_gradient(run, layer, LL_OUT_WEIGHT));
        if (dbias) ll_bias_back(r.n, C, df, dbias);
        if (gate) ll_activate_back(run, r.n, ff, u, gate, ws->dwide, du, NULL);
        const float *a = ll_sublayer_input(run, j, r, ws->input);
        int add;
        float *da = ll_sublayer_gradient(run, d, &add);
        widen_back(run, layer, r.n, LL_IN_WEIGHT, a, du, da, add);
        if (gate) widen_back(run, layer, r.n, LL_FEED_GATE_WEIGHT, a, ws->dwide, da, 1);
        ll_sublayer_through(run, j, r, da, d);
    }
}

/* ---- The block ---- */

static ll_status attend(const ll_batch_run *run, int layer) {
    const ll_status status = ll_attend(run, layer, 0);
    return !status && run->stack->parts > 2 ? ll_attend(run, layer, 1) : status;
}

ll_status ll_block_forward(const ll_batch_run *run, int layer) {
    const ll_status status = attend(run, layer);
    return status ? status : ll_feed_forward(run, layer);
}

/* The last block is as forward left it, and feed_back makes its own part. */
ll_status ll_block_again(const ll_batch_run *run, int layer) {
    ll_batch_run again = *run;
    again.again = 1;
    return run->ws->keeps || layer + 1 == run->stack->layers ? LL_OK : attend(&again, layer);
}

ll_status ll_block_backward(const ll_batch_run *run, int layer) {
    feed_back(run, layer);
    ll_status status = run->stack->parts > 2 ? ll_attend_back(run, layer, 1) : LL_OK;
    return status ? status : ll_attend_back(run, layer, 0);
}
