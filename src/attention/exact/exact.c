/* Softmax attention in tiles. A tile is a block of queries and a block of keys. The whole matrix of weights is never in
 * memory.
 *
 *   s_ij = scale <q_i, k_j>     P_ij = e^(s_ij - lse_i)     y_i = sum_j P_ij v_j
 *
 * Forward goes over the keys, with a running maximum m_i and a sum l_i of each row. When m_i grows, the sums so far are
 * scaled by e^(m_old - m_new) (Milakov and Gimelshein 2018). Backward needs only y and lse_i = m_i + ln l_i. It
 * computes P again, and with delta_i = <g_i, y_i>
 *
 *   dS_ij = P_ij (<g_i, v_j> - delta_i)      dq_i = scale sum_j dS_ij k_j
 *   dv_j = sum_i P_ij g_i                    dk_j = scale sum_i dS_ij q_i
 *
 * exact_tile.c cuts a call into tiles, and exact_backward.c computes gradients. Positions in the logits are added to
 * the rows of a tile (logit_bias.h). */
#include <math.h>
#include <string.h>

#include "attention/attention_stream.h"
#include "attention/cross_cache.h"
#include "attention/exact/exact_tile.h"
#include "attention/table.h"
#include "base/integer.h"

static void finish(const ll_exact_tile *j, int i0, int rows, const float *m, const float *l) {
    const ll_exact *x = j->x;
    const size_t E = (size_t)x->op->c.E;
    if (x->d.values) x->k->gemm(rows, x->op->c.E, x->d.n, j->sum + x->lde, x->ldsum, 1, x->d.v, E, j->sum, x->ldsum, 1);
    for (int i = 0; i < rows; i++) {
        x->k->scaled(E, l[i] != 0 ? 1 / l[i] : 1, j->sum + (size_t)i * x->ldsum, ll_at(&j->at.y, i0 + i));
        /* A row without keys. In backward, e^(s - inf) makes its weights 0. */
        if (j->saved) j->saved[i0 + i] = l[i] != 0 ? m[i] + logf(l[i]) : INFINITY;
    }
}

/* Adds the values of the tile that were taken out of it. */
static void add_apart(const ll_exact_tile *j, int rows, int j0, int skip, int width) {
    const size_t E = (size_t)j->x->op->c.E;
    for (int i = skip; i < width && j->apart; i++) {
        const int own = j0 + i - j->past.n;
        const float *v = own < 0 ? j->past.values + (size_t)(j0 + i) * E : ll_at(&j->at.v, (size_t)own);
        ll_add_nonfinite(rows, (int)E, j->P + i, j->x->lds, v, j->sum, j->x->ldsum);
    }
}

/* One tile: its weights, and the sums with it. None of its rows sees a column before `skip`. In this pass lse and delta
 * are the maximum and the sum of each row. */
static void forward_tile(const ll_exact_tile *j, int i0, int rows, int j0, int skip, int width, ll_prefetch *next) {
    const ll_exact *x = j->x;
    const int E = x->op->c.E, sums = x->d.values ? (int)x->ldsum : E;
    float *P = j->P + skip;
    ll_exact_logits(j, rows, skip, width);
    const ll_distance_tile near = ll_exact_distances(j, i0, rows, j0);
    if (j0 == 0) ll_distances_queries(&near);
    ll_distances_logits(&near, j->P);
    for (int i = 0; i < rows; i++)
        ll_exact_soften(x->k, ll_exact_unseen(j, i0 + i, j0) - skip, ll_exact_seen(j, i0 + i, j0) - skip, width - skip,
                        P + (size_t)i * x->lds, j->lse + i, j->delta + i, sums, j->sum + (size_t)i * x->ldsum);
    ll_tile_product(x->k, rows, E, width - skip, P, x->lds, ll_exact_values(j, skip), j->pairs, j->sum, x->ldsum, 1,
                    next);
    add_apart(j, rows, j0, skip, width);
    ll_distances_weights(&near, j->P, j->sum + x->lde, x->ldsum);
}

/* The sums of a block of queries. */
static void sum_block(const ll_exact_tile *j, int i0, int rows) {
    const ll_exact *x = j->x;
    const int E = x->op->c.E;
    memset(j->sum, 0, (size_t)rows * x->ldsum * sizeof *j->sum);
    for (int i = 0; i < rows; i++) j->lse[i] = -INFINITY, j->delta[i] = 0;
    for (int j0 = ll_exact_first(j, i0), width; (width = ll_exact_seen(j, i0 + rows - 1, j0)) > 0; j0 += x->keys) {
        ll_exact_transpose_keys(j, j0, width);
        ll_exact_pack_keys(j, &j->at.v, j->past.values, j0, width, E, j->v, x->lde);
        if (j->apart) ll_zero_nonfinite(width, E, j->v, x->lde);
        if (j->v_pairs) ll_pair_rows(x->k, width, (int)x->lde, j->v, x->lde, j->v_pairs);
        ll_prefetch next = {0};
        ll_exact_prefetch_keys(j, &next, j0 + x->keys, ll_exact_seen(j, i0 + rows - 1, j0 + x->keys));
        const int step = ll_exact_step(j, i0, rows, j0);
        for (int i = 0; i < rows; i += step) {
            const ll_exact_tile part = ll_exact_rows(j, i);
            const int some = ll_min_int(step, rows - i), seen = ll_exact_seen(j, i0 + i + some - 1, j0);
            const int skip = ll_exact_skip(j, i0 + i, j0);
            if (seen > skip) forward_tile(&part, i0 + i, some, j0, skip, seen, &next);
        }
    }
}

/* May a value that is not finite have reached a row that does not see it? Rows that are computed together have the same
 * values, so one of them shows it. */
static int may_have_leaked(const ll_exact_tile *j, int rows) {
    const ll_exact *x = j->x;
    const int partial = x->op->c.causal || x->window;
    for (int i = 0; i < rows && partial; i += x->step)
        if (!isfinite(x->k->sum((size_t)x->op->c.E, j->sum + (size_t)i * x->ldsum))) return 1;
    return 0;
}

static void forward_block(void *arg, size_t index, int worker) {
    const ll_exact *x = arg;
    const ll_attention_config *o = &x->op->c;
    const size_t blocks = (size_t)x->query_blocks;
    ll_exact_tile j = ll_exact_head(x, index / blocks, worker);
    const int i0 = (int)(blocks - 1 - index % blocks) * x->queries; /* causal: the longest first */
    const int rows = ll_min_int(x->queries, j.n - i0);
    ll_zero_rows(&j.at.y, ll_max_int(i0, j.n), ll_min_int(i0 + x->queries, j.query_capacity), o->E);
    if (rows <= 0) return;
    ll_exact_pack(&j, &j.at.q, i0, rows, x->op->D, o->input_scale, j.q, x->ldd);
    sum_block(&j, i0, rows);
    if (may_have_leaked(&j, rows)) {
        j.apart = 1;
        sum_block(&j, i0, rows);
    }
    finish(&j, i0, rows, j.lse, j.delta);
}

ll_status ll_exact_forward(const ll_attention *op, const ll_attention_call *c) {
    ll_exact x = ll_exact_prepare(op, c, 0);
    const size_t heads = (size_t)ll_sequence_count(c) * (size_t)op->c.H;
    ll_parallel_among(x.threads, heads * (size_t)x.query_blocks, forward_block, &x);
    if (c->state_out) ll_window_leave(op, c);
    return LL_OK;
}

/* ---- The kind ---- */

/* A query and a value for each key, and what a position in the logits adds. */
static ll_cost cost(const ll_attention *op, double keys) {
    const double H = op->c.H, row = op->D + op->c.E;
    double each = keys * row;
    if (op->logits && op->logits->cost) each += op->logits->cost(&op->c);
    return (ll_cost){H * each, H * keys * row * sizeof(float)};
}

const ll_operator_kind ll_operator_softmax = {
    .name = "softmax",
    .reads = 2,
    .packs = 1,
    .saved = ll_exact_saved,
    .scratch = ll_exact_scratch,
    .forward = ll_exact_forward,
    .backward = ll_exact_backward,
    .cost = cost,
    .recurrence = &ll_recurrence_exact,
    .cross = &ll_cross_exact,
};

/* ---- Inside linformer and nystrom ---- */

ll_status ll_inner_exact_create(ll_attention *op, const ll_attention_config *engine) {
    ll_attention_config c = ll_attention_default();
    ll_attention *exact;
    c.causal = 0, c.H = engine->H, c.D = engine->D, c.E = engine->E, c.input_scale = engine->input_scale;
    const ll_status status = ll_attention_create(&exact, &c);
    if (!status) op->own = exact;
    return status;
}

void ll_inner_exact_free(ll_attention *op) { ll_attention_free(op->own); }

void ll_inner_exact_set_tile(ll_attention *op, int tile) { ll_attention_set_tile(op->own, tile); }
