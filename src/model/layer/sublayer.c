/* What the sublayers of a block share: residual stream, norm, dropout (formulas in network.h), weights. */
#include <string.h>

#include "base/integer.h"
#include "model/network.h"

enum { PADDING = LL_PIECE /* rows of it between tokens that are computed rather than left out */ };

int ll_next_chunk(ll_rows *rows, size_t total) {
    rows->first += (size_t)rows->n;
    const size_t left = total - rows->first;
    rows->n = left < LL_CHUNK ? (int)left : LL_CHUNK;
    return rows->n > 0;
}

/* The row behind the tokens of the sequence that a row belongs to. */
static size_t end_of_tokens(const ll_batch_run *run, size_t row) {
    const size_t T = (size_t)run->T;
    return row / T * T + (size_t)run->lengths[row / T];
}

int ll_next_rows(const ll_batch_run *run, ll_rows *rows) {
    const size_t T = (size_t)run->T;
    size_t first = rows->first + (size_t)rows->n;
    while (first < run->rows && end_of_tokens(run, first) <= first) first = ll_round_up(first + 1, T);
    const size_t most = ll_min_size(first + LL_CHUNK, run->rows);
    size_t end = first;
    for (size_t next = first; next < most && next <= end + PADDING; next = ll_round_up(next + 1, T)) {
        const size_t behind = end_of_tokens(run, next);
        if (behind > next) end = ll_min_size(behind, most);
    }
    *rows = (ll_rows){first, (int)(end - first)};
    return rows->n;
}

int ll_reads_first(const ll_batch_run *run, int layer) {
    return run->reads == LL_READS_FIRST && layer + 1 == run->stack->layers;
}

int ll_next_read(const ll_batch_run *run, int layer, ll_rows *rows) {
    const size_t T = (size_t)run->T, from = rows->first + (size_t)rows->n;
    const size_t at = run->reads == LL_READS_LAST ? T - 1 : 0; /* in its sequence */
    if (run->reads == LL_READS_ALL || layer + 1 < run->stack->layers) return ll_next_rows(run, rows);
    rows->first = from < at ? at : ll_round_up(from - at, T) + at;
    rows->n = run->reads != LL_READS_NONE && rows->first < run->rows;
    return rows->n;
}

/* ---- Around a sublayer ---- */

int ll_pre_norm(const ll_batch_run *run) {
    return run->c->model.norm != LL_NORM_POST;
}

static int is_parallel(const ll_batch_run *run) {
    return run->c->model.norm == LL_NORM_PARALLEL;
}

static int is_feed(const ll_batch_run *run, int j) {
    return j % run->stack->parts == run->stack->parts - 1;
}

/* The index of the r that N_j of pre-norm reads. */
static int read_by(const ll_batch_run *run, int j) {
    return is_parallel(run) && is_feed(run, j) ? j - 1 : j;
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
    const float *r = ll_residual(run, read_by(run, j), rows);
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
        ll_norm(run, rows.n, gain_of(run, j), r, ws->output); /* recomputed for its statistics */
        memset(ws->gradient, 0, (size_t)rows.n * (size_t)run->c->model.width * sizeof(float));
        ll_norm_back(run, rows.n, gain_of(run, j), r, d, ws->gradient);
        ll_copy_rows(run, rows.n, ws->gradient, d);
    }
    if (!(run->c->model.dropout > 0)) return d;
    ll_dropout(run, rows, j / run->stack->parts, site_of(run, j), d, ws->gradient, 0);
    return ws->gradient;
}

float *ll_sublayer_gradient(const ll_batch_run *run, float *d, int *add) {
    *add = !ll_pre_norm(run); /* here r_(j+1) = a_j + F_j, so both gradients are added */
    return *add ? d : run->ws->output;
}

void ll_sublayer_through(const ll_batch_run *run, int j, ll_rows rows, const float *da, float *d) {
    if (!ll_pre_norm(run)) return;
    const size_t C = (size_t)run->c->model.width, n = (size_t)rows.n * C;
    float *beside = is_parallel(run) ? run->ws->dparallel + rows.first * C : NULL;
    const int waits = beside && is_feed(run, j); /* attention reads d unchanged */
    if (waits) memset(beside, 0, n * sizeof *beside);
    ll_norm_back(run, rows.n, gain_of(run, j), ll_residual(run, read_by(run, j), rows), da, waits ? beside : d);
    if (beside && !waits) run->k->add(n, beside, d);
}

/* ---- Weights ---- */

const float *ll_weight(const ll_batch_run *run, int layer, int which) {
    const int i = ll_block_tensor(run->stack, layer, which);
    return i < 0 ? NULL : ll_param_at(run->model, i);
}

ll_matrix ll_weight_matrix(const ll_batch_run *run, int layer, int which) {
    return ll_param_matrix(run->model, ll_block_tensor(run->stack, layer, which));
}

float *ll_weight_gradient(const ll_batch_run *run, int layer, int which) {
    const int i = ll_block_tensor(run->stack, layer, which);
    return i < 0 ? NULL : ll_param_in(run->model, run->grad, i);
}
