/* One Transformer block: attention, then feed-forward, forward and backward side by side (network.h
 * has the formulas). On the way back ws->d is the gradient at r_(j+1) with pre-norm, and at a_(j+1)
 * with post-norm; it becomes the one at r_j or a_j. */
#include <string.h>

#include "model/network.h"

int ll_next_chunk(ll_rows *rows, size_t total) {
    rows->first += (size_t)rows->n;
    const size_t left = total - rows->first;
    rows->n = left < LL_CHUNK ? (int)left : LL_CHUNK;
    return rows->n > 0;
}

static int pre_norm(const ll_batch_run *run) {
    return run->c->norm == LL_NORM_PRE;
}

/* The gain of N_j. */
static int gain_of(const ll_batch_run *run, int j) {
    return ll_block_tensor(run->model, j / 2, j % 2 ? LL_FEED_NORM : LL_ATTENTION_NORM);
}

static float *residual(const ll_batch_run *run, int j, ll_rows rows) {
    return run->ws->residual[j] + rows.first * (size_t)run->c->width;
}

const float *ll_sublayer_input(const ll_batch_run *run, int j, ll_rows rows, float *out) {
    const float *r = residual(run, j, rows);
    if (pre_norm(run) ? j == 2 * run->c->layers : j == 0) return r;
    ll_norm(run, rows.n, gain_of(run, pre_norm(run) ? j : j - 1), r, out);
    return out;
}

/* r_(j+1) = base + dropout(F), base being r_j or a_j. */
static void add_to_residual(const ll_batch_run *run, int j, ll_rows rows, const float *base, const float *F) {
    float *out = residual(run, j + 1, rows);
    const int site = j % 2 ? LL_SITE_FEED : LL_SITE_ATTENTION;
    if (out != base) ll_copy_rows(run, rows.n, base, out);
    ll_dropout(run, rows, j / 2, site, F, out, 1);
}

/* Parameter or gradient `which` of a layer. */
static const float *weight(const ll_batch_run *run, int layer, int which) {
    return ll_param_at(run->model, ll_block_tensor(run->model, layer, which));
}
static float *gradient(const ll_batch_run *run, int layer, int which) {
    return ll_param_in(run->model, run->grad, ll_block_tensor(run->model, layer, which));
}

/* ---- Attention ---- */

/* Of q, k and v those that the kernel has lie side by side. */
typedef struct {
    int which, width;
    size_t at;
} section;

/* Returns how many there are. */
static int sections(const ll_model *m, section s[3], size_t *row) {
    int n = 0;
    *row = 0;
    for (int which = LL_QUERY_WEIGHT; which <= LL_VALUE_WEIGHT; which++) {
        const int value = which == LL_VALUE_WEIGHT;
        if (!value && which - LL_QUERY_WEIGHT >= m->sides) continue;
        s[n] = (section){which, value ? m->values : m->queries, *row};
        *row += (size_t)s[n++].width;
    }
    return n;
}

static void views(const ll_batch_run *run, float *project, float *mixed, ll_view v[4]) {
    section s[3];
    size_t row;
    const int n = sections(run->model, s, &row);
    const size_t T = (size_t)run->T, heads = (size_t)run->c->heads, values = (size_t)run->model->values;
    v[0] = v[1] = (ll_view){0};
    for (int i = 0; i < n; i++)
        v[s[i].which - LL_QUERY_WEIGHT] =
            (ll_view){project + s[i].at, T * row, (size_t)s[i].width / heads, row};
    v[3] = (ll_view){mixed, T * values, values / heads, values};
}

static void project(const ll_batch_run *run, int layer) {
    section s[3];
    size_t row;
    const int n = sections(run->model, s, &row), C = run->c->width;
    for (ll_rows r = {0}; ll_next_chunk(&r, run->rows);) {
        const float *a = ll_sublayer_input(run, 2 * layer, r, run->ws->input);
        float *out = run->ws->project[layer] + r.first * row;
        for (int i = 0; i < n; i++)
            ll_linear(run, r.n, C, s[i].width, a, (size_t)C, weight(run, layer, s[i].which), NULL, out + s[i].at,
                      row);
    }
}

static ll_status mix(const ll_batch_run *run, int layer) {
    ll_workspace *ws = run->ws;
    ll_view v[4];
    views(run, ws->project[layer], ws->mixed[layer], v);
    ll_place_noise(run, layer);
    if (ws->look) {
        const ll_status status = ll_look_at(run, layer, v);
        if (status) return status;
    }
    if (ws->stream) return ll_attention_stream_feed(ws->stream[layer], run->T, v[0], v[1], v[2], v[3]);
    ll_attention_call call = {.B = run->B, .T = run->T, .S = run->T, .lengths = run->lengths};
    call.q = v[0], call.k = v[1], call.v = v[2], call.y = v[3];
    call.saved = ws->saved[layer];
    return ll_attention_forward(run->model->attention[layer], &call);
}

static void finish_attention(const ll_batch_run *run, int layer) {
    const int C = run->c->width, values = run->model->values;
    ll_workspace *ws = run->ws;
    for (ll_rows r = {0}; ll_next_chunk(&r, run->rows);) {
        const float *y = ws->mixed[layer] + r.first * (size_t)values;
        ll_linear(run, r.n, values, C, y, (size_t)values, weight(run, layer, LL_OUTPUT_WEIGHT), NULL, ws->output,
                  (size_t)C);
        const float *base = residual(run, 2 * layer, r);
        if (!pre_norm(run)) base = ll_sublayer_input(run, 2 * layer, r, ws->input);
        add_to_residual(run, 2 * layer, r, base, ws->output);
    }
}

/* Post-norm: from the gradient at a_(j+1) = N_j(r_(j+1)) to the one at r_(j+1), in place. */
static void through_norm(const ll_batch_run *run, int j, ll_rows rows, float *d) {
    if (pre_norm(run)) return;
    ll_workspace *ws = run->ws;
    const float *r = residual(run, j + 1, rows);
    ll_norm(run, rows.n, gain_of(run, j), r, ws->output); /* for its statistics */
    memset(ws->gradient, 0, (size_t)rows.n * (size_t)run->c->width * sizeof(float));
    ll_norm_back(run, rows.n, gain_of(run, j), r, d, ws->gradient);
    ll_copy_rows(run, rows.n, ws->gradient, d);
}

/* The gradient at F_j: d under the mask of its dropout. */
static const float *masked(const ll_batch_run *run, int j, ll_rows rows, const float *d) {
    if (!(run->c->dropout > 0)) return d;
    const int site = j % 2 ? LL_SITE_FEED : LL_SITE_ATTENTION;
    ll_dropout(run, rows, j / 2, site, d, run->ws->gradient, 0);
    return run->ws->gradient;
}

static void finish_attention_back(const ll_batch_run *run, int layer) {
    const int C = run->c->width, values = run->model->values, j = 2 * layer;
    const size_t width = (size_t)C, row = (size_t)values;
    for (ll_rows r = {0}; ll_next_chunk(&r, run->rows);) {
        float *d = run->ws->d + r.first * width;
        through_norm(run, j, r, d);
        const float *df = masked(run, j, r, d);
        const float *y = run->ws->mixed[layer] + r.first * row;
        ll_linear_weight_back(r.n, values, C, y, row, df, width, gradient(run, layer, LL_OUTPUT_WEIGHT));
        ll_linear_input_back(r.n, values, C, df, width, weight(run, layer, LL_OUTPUT_WEIGHT),
                             run->ws->dmixed + r.first * row, row, 0);
    }
}

static ll_status mix_back(const ll_batch_run *run, int layer) {
    ll_workspace *ws = run->ws;
    ll_view v[4], d[4];
    views(run, ws->project[layer], ws->mixed[layer], v);
    views(run, ws->dproject, ws->dmixed, d);
    ll_attention_call call = {.B = run->B, .T = run->T, .S = run->T, .lengths = run->lengths};
    call.q = v[0], call.k = v[1], call.v = v[2], call.y = v[3];
    call.dq = d[0], call.dk = d[1], call.dv = d[2], call.g = d[3];
    call.saved = ws->saved[layer];
    call.dposition = ll_place_gradients(run->model, layer, run->grad);
    call.dbaseline = ll_baseline_gradients_of(run->model, layer, run->grad);
    return ll_attention_backward(run->model->attention[layer], &call);
}

static void project_back(const ll_batch_run *run, int layer) {
    section s[3];
    size_t row;
    const int n = sections(run->model, s, &row), C = run->c->width, pre = pre_norm(run), j = 2 * layer;
    const size_t width = (size_t)C;
    for (ll_rows r = {0}; ll_next_chunk(&r, run->rows);) {
        float *d = run->ws->d + r.first * width, *da = pre ? run->ws->output : d;
        const float *dp = run->ws->dproject + r.first * row;
        const float *a = ll_sublayer_input(run, j, r, run->ws->input);
        for (int i = 0; i < n; i++) {
            const int which = s[i].which;
            ll_linear_weight_back(r.n, C, s[i].width, a, width, dp + s[i].at, row, gradient(run, layer, which));
            ll_linear_input_back(r.n, C, s[i].width, dp + s[i].at, row, weight(run, layer, which), da, width,
                                 !pre || i);
        }
        if (pre) ll_norm_back(run, r.n, gain_of(run, j), residual(run, j, r), da, d);
    }
}

/* ---- Feed-forward ---- */

/* Pre-activations of some rows. */
static float *hidden(const ll_batch_run *run, int layer, ll_rows rows) {
    const size_t first = run->ws->mode == LL_TRAIN ? rows.first : 0;
    return run->ws->hidden[layer] + first * (size_t)run->c->ff;
}

static void feed(const ll_batch_run *run, int layer) {
    const int C = run->c->width, ff = run->c->ff, j = 2 * layer + 1;
    ll_workspace *ws = run->ws;
    for (ll_rows r = {0}; ll_next_chunk(&r, run->rows);) {
        const float *a = ll_sublayer_input(run, j, r, ws->input);
        float *u = hidden(run, layer, r);
        ll_linear(run, r.n, C, ff, a, (size_t)C, weight(run, layer, LL_IN_WEIGHT), weight(run, layer, LL_IN_BIAS), u,
                  (size_t)ff);
        ll_activate(run, r.n, ff, u, ws->wide);
        ll_linear(run, r.n, ff, C, ws->wide, (size_t)ff, weight(run, layer, LL_OUT_WEIGHT),
                  weight(run, layer, LL_OUT_BIAS), ws->output, (size_t)C);
        add_to_residual(run, j, r, pre_norm(run) ? residual(run, j, r) : a, ws->output);
    }
}

/* One chunk; d is its gradient of the residual stream. */
static void feed_back_rows(const ll_batch_run *run, int layer, ll_rows r, float *d) {
    const int C = run->c->width, ff = run->c->ff, j = 2 * layer + 1, pre = pre_norm(run);
    const size_t width = (size_t)C, wide = (size_t)ff;
    ll_workspace *ws = run->ws;
    const float *u = hidden(run, layer, r), *df = masked(run, j, r, d);
    ll_activate(run, r.n, ff, u, ws->wide);
    ll_linear_weight_back(r.n, ff, C, ws->wide, wide, df, width, gradient(run, layer, LL_OUT_WEIGHT));
    ll_bias_back(r.n, C, df, gradient(run, layer, LL_OUT_BIAS));
    ll_linear_input_back(r.n, ff, C, df, width, weight(run, layer, LL_OUT_WEIGHT), ws->dwide, wide, 0);
    ll_activate_back(run, r.n, ff, u, ws->dwide, ws->wide); /* the activations are not needed again */
    const float *a = ll_sublayer_input(run, j, r, ws->input);
    ll_linear_weight_back(r.n, C, ff, a, width, ws->wide, wide, gradient(run, layer, LL_IN_WEIGHT));
    ll_bias_back(r.n, ff, ws->wide, gradient(run, layer, LL_IN_BIAS));
    float *da = pre ? ws->output : d;
    ll_linear_input_back(r.n, C, ff, ws->wide, wide, weight(run, layer, LL_IN_WEIGHT), da, width, !pre);
    if (pre) ll_norm_back(run, r.n, gain_of(run, j), residual(run, j, r), da, d);
}

static void feed_back(const ll_batch_run *run, int layer) {
    for (ll_rows r = {0}; ll_next_chunk(&r, run->rows);) {
        float *d = run->ws->d + r.first * (size_t)run->c->width;
        through_norm(run, 2 * layer + 1, r, d);
        feed_back_rows(run, layer, r, d);
    }
}

/* ---- Both ---- */

ll_status ll_block_forward(const ll_batch_run *run, int layer) {
    project(run, layer);
    ll_status status = mix(run, layer);
    if (status) return status;
    finish_attention(run, layer);
    feed(run, layer);
    return LL_OK;
}

ll_status ll_block_backward(const ll_batch_run *run, int layer) {
    feed_back(run, layer);
    finish_attention_back(run, layer);
    ll_status status = mix_back(run, layer);
    if (status) return status;
    project_back(run, layer);
    return LL_OK;
}
