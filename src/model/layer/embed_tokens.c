/* Vectors of tokens: a row of a table, E[token] + type.
 *
 * ESM-2 (Lin et al. 2023) masks tokens: the vector of model.mask-token is 0, and the others are multiplied by (1 -
 * 0.12) / (1 - share of such tokens in the sequence). 0.12 is the share in its training. */
#include <string.h>

#include "base/integer.h"
#include "base/parallel.h"
#include "model/layer/embedding.h"

enum { COLUMNS = 32 /* of one task of the scatter */ };

static void plan(ll_model *m) {
    const ll_model_options *o = &m->c->model;
    m->at.embedding = ll_param_add(m, "embedding.weight", o->vocab, o->width, LL_ROLE_TOKENS);
    if (o->token_types) m->at.types = ll_param_add(m, "embedding.type", o->token_types, o->width, LL_ROLE_VECTOR);
}

static int numbers(const ll_model_config *c) {
    (void)c;
    return 1;
}

static int token_at(const ll_batch_run *run, ll_row p) {
    return run->tokens[p.b * (size_t)(run->T - run->model->cls_tokens) + (size_t)p.t];
}

/* The factor of the token's vector, with model.mask-token. */
static float scale_of(const ll_batch_run *run, ll_row p) {
    return token_at(run, p) == run->c->model.mask_token ? 0 : run->ws->token_scale[p.b];
}

static size_t type_of(const ll_batch_run *run, size_t row) { return run->ws->type ? (size_t)run->ws->type[row] : 0; }

/* A separator ends a type: the tokens after it have the next one. The CLS token has the first. */
static void find_types(const ll_batch_run *run) {
    const int last = run->c->model.token_types - 1;
    for (size_t row = 0; row < run->rows; row++) {
        const ll_row p = ll_row_at(run, row);
        const int follows = p.used && p.t > 0, before = follows ? run->ws->type[row - 1] : 0;
        const int parted = follows && token_at(run, ll_row_at(run, row - 1)) == run->c->model.type_separator;
        run->ws->type[row] = before + (parted && before < last);
    }
}

static void find_scales(const ll_batch_run *run) {
    static const double IN_TRAINING = 0.15 * 0.8;
    const int T = run->T - run->model->cls_tokens;
    for (int b = 0; b < run->B; b++) {
        const int n = run->lengths[b] - run->model->cls_tokens;
        int hidden = 0;
        for (int t = 0; t < n; t++)
            hidden += run->tokens[(size_t)b * (size_t)T + (size_t)t] == run->c->model.mask_token;
        run->ws->token_scale[b] = hidden < n ? (float)((1 - IN_TRAINING) / (1 - (double)hidden / n)) : 1;
    }
}

static void prepare(const ll_batch_run *run) {
    if (run->ws->type) find_types(run);
    if (run->ws->token_scale) find_scales(run);
}

typedef struct {
    const ll_batch_run *run;
    ll_rows rows;
    float *out;
} job;

static void vector(const ll_batch_run *run, size_t row, float *out) {
    const ll_model *m = run->model;
    const size_t C = (size_t)run->c->model.width;
    const ll_row p = ll_row_at(run, row);
    if (!p.used || p.t < 0) return;
    const float *E = ll_param_at(m, m->at.embedding) + (size_t)token_at(run, p) * C;
    if (run->ws->token_scale) {
        run->k->scaled(C, scale_of(run, p), E, out);
    } else {
        memcpy(out, E, C * sizeof *out);
    }
    if (m->at.types >= 0) run->k->add(C, ll_param_at(m, m->at.types) + type_of(run, row) * C, out);
}

static void vectors_task(void *arg, size_t i) {
    const job *j = arg;
    const size_t C = (size_t)j->run->c->model.width;
    for (size_t r = i * LL_PIECE; r < (i + 1) * LL_PIECE && r < (size_t)j->rows.n; r++)
        vector(j->run, j->rows.first + r, j->out + r * C);
}

static void vectors(const ll_batch_run *run, ll_rows rows, float *out) {
    job j = {run, rows, out};
    ll_parallel_for(ll_ceil_div_size((size_t)rows.n, LL_PIECE), vectors_task, &j);
}

/* All rows, some columns. Every element of a table is one sum in the order of the rows. */
static void back_task(void *arg, size_t i) {
    const ll_batch_run *run = ((const job *)arg)->run;
    const ll_model *m = run->model;
    const size_t C = (size_t)run->c->model.width, first = i * COLUMNS, n = ll_min_size(C - first, COLUMNS);
    float *tokens = ll_param_in(m, run->grad, m->at.embedding) + first;
    for (size_t row = 0; row < run->rows; row++) {
        const ll_row p = ll_row_at(run, row);
        const float *d = run->ws->d + row * C + first;
        if (!p.used || p.t < 0) continue;
        float *own = tokens + (size_t)token_at(run, p) * C;
        if (run->ws->token_scale) {
            run->k->axpy(n, scale_of(run, p), d, own);
        } else {
            run->k->add(n, d, own);
        }
        if (m->at.types >= 0) run->k->add(n, d, ll_param_in(m, run->grad, m->at.types) + type_of(run, row) * C + first);
    }
}

static void back(const ll_batch_run *run) {
    job j = {.run = run};
    ll_parallel_for(ll_ceil_div_size((size_t)run->c->model.width, COLUMNS), back_task, &j);
}

const ll_embedding ll_embed_tokens = {plan, numbers, prepare, vectors, back};
