/* One Transformer block: what its sublayers share (residual stream, norm, dropout: network.h has the formulas), its
 * feed-forward layer, and their order, forward and backward. On the way back ws->d is the gradient at r_(j+1) with
 * pre-norm, and at a_(j+1) with post-norm; it becomes the one at r_j or a_j. */
#include <string.h>

#include "model/network.h"

int ll_next_chunk(ll_rows *rows, size_t total) {
    rows->first += (size_t)rows->n;
    const size_t left = total - rows->first;
    rows->n = left < LL_CHUNK ? (int)left : LL_CHUNK;
    return rows->n > 0;
}

/* ---- Around a sublayer ---- */

int ll_sublayers(const ll_stack *stack) {
    return stack->parts * stack->layers;
}

int ll_pre_norm(const ll_batch_run *run) {
    return run->c->model.norm == LL_NORM_PRE;
}

static int is_feed(const ll_batch_run *run, int j) {
    return j % run->stack->parts == run->stack->parts - 1;
}

/* The gain of N_j. */
static int gain_of(const ll_batch_run *run, int j) {
    const int parts = run->stack->parts;
    const int which = is_feed(run, j) ? LL_FEED_NORM : j % parts ? LL_CROSS_NORM : LL_ATTENTION_NORM;
    return ll_block_tensor(run->stack, j / parts, which);
}

static int site_of(const ll_batch_run *run, int j) {
    return is_feed(run, j) ? LL_SITE_FEED : j % run->stack->parts ? LL_SITE_CROSS : LL_SITE_ATTENTION;
}

float *ll_residual(const ll_batch_run *run, int j, ll_rows rows) {
    return run->ws->residual[j] + rows.first * (size_t)run->c->model.width;
}

const float *ll_sublayer_input(const ll_batch_run *run, int j, ll_rows rows, float *out) {
    const float *r = ll_residual(run, j, rows);
    if (ll_pre_norm(run) ? j == ll_sublayers(run->stack) : j == 0) return r;
    ll_norm(run, rows.n, gain_of(run, ll_pre_norm(run) ? j : j - 1), r, out);
    return out;
}

void ll_sublayer_add(const ll_batch_run *run, int j, ll_rows rows, const float *F) {
    const float *base = ll_residual(run, j, rows);
    if (!ll_pre_norm(run)) base = ll_sublayer_input(run, j, rows, run->ws->input);
    float *out = ll_residual(run, j + 1, rows);
    if (out != base) ll_copy_rows(run, rows.n, base, out);
    ll_dropout(run, rows, j / run->stack->parts, site_of(run, j), F, out, 1);
}

const float *ll_sublayer_back(const ll_batch_run *run, int j, ll_rows rows, float *d) {
    ll_workspace *ws = run->ws;
    if (!ll_pre_norm(run)) { /* from a_(j+1) = N_j(r_(j+1)) to r_(j+1) */
        const float *r = ll_residual(run, j + 1, rows);
        ll_norm(run, rows.n, gain_of(run, j), r, ws->output); /* for its statistics */
        memset(ws->gradient, 0, (size_t)rows.n * (size_t)run->c->model.width * sizeof(float));
        ll_norm_back(run, rows.n, gain_of(run, j), r, d, ws->gradient);
        ll_copy_rows(run, rows.n, ws->gradient, d);
    }
    if (!(run->c->model.dropout > 0)) return d;
    ll_dropout(run, rows, j / run->stack->parts, site_of(run, j), d, ws->gradient, 0);
    return ws->gradient;
}

float *ll_sublayer_gradient(const ll_batch_run *run, float *d, int *add) {
    *add = !ll_pre_norm(run); /* there r_(j+1) = a_j + F_j: both gradients meet */
    return *add ? d : run->ws->output;
}

void ll_sublayer_through(const ll_batch_run *run, int j, ll_rows rows, const float *da, float *d) {
    if (ll_pre_norm(run)) ll_norm_back(run, rows.n, gain_of(run, j), ll_residual(run, j, rows), da, d);
}

/* ---- Weights ---- */

const float *ll_weight(const ll_batch_run *run, int layer, int which) {
    return ll_param_at(run->model, ll_block_tensor(run->stack, layer, which));
}

float *ll_weight_gradient(const ll_batch_run *run, int layer, int which) {
    return ll_param_in(run->model, run->grad, ll_block_tensor(run->stack, layer, which));
}

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
