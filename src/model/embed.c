/* From tokens to vectors, and from the vectors' gradients to the tables.
 *
 *   r_0 = dropout(norm(E[token] + position + type))      with a norm if the recipe asks for one
 *
 * ESM-2 (Lin et al. 2023) masks tokens: the vector of model.mask-token is 0, and the others are multiplied by (1 -
 * 0.12) / (1 - share of such tokens in the sequence). 0.12 is the share in its training.
 *
 * A CLS token (pool = first) is a vector of its own, without a position. Sinusoids have the amplitude init-std: sines
 * of size 1 would hide embeddings of size 0.02. */
#include <math.h>
#include <string.h>

#include "base/integer.h"
#include "base/parallel.h"
#include "model/stream_rows.h"

enum { COLUMNS = 32 /* of one task of the scatter */ };

/* out[i] = amplitude [sin p w_0, cos p w_0, sin p w_1, ...], w_t = 10000^(-2t/C), p = first + i. Angles are in double:
 * in float they are off by 0.03 at token one million. */
void ll_sinus(float *out, int count, int C, int64_t first, double amplitude) {
    for (int t = 0; 2 * t < C; t++) {
        const double w = pow(10000, -2.0 * t / C);
        for (int i = 0; i < count; i++) {
            const double angle = (double)(first + i) * w;
            float *x = out + (size_t)i * (size_t)C + 2 * t;
            x[0] = (float)(amplitude * sin(angle));
            if (2 * t + 1 < C) x[1] = (float)(amplitude * cos(angle));
        }
    }
}

/* The sequence of a row, its position among the caller's tokens (-1: the CLS token), and its position in its
 * document. */
typedef struct {
    size_t b;
    int t, used, at;
} token_position;

static token_position token_position_of(const ll_batch_run *run, size_t row) {
    const size_t b = row / (size_t)run->T;
    const int t = (int)(row % (size_t)run->T);
    const int cls_tokens = run->model->cls_tokens, used = t < run->lengths[b];
    return (token_position){b, t - cls_tokens, used,
                            run->ws->position && used ? run->ws->position[row] : t - cls_tokens};
}

static int token_at(const ll_batch_run *run, token_position p) {
    return run->tokens[p.b * (size_t)(run->T - run->model->cls_tokens) + (size_t)p.t];
}

/* The factor of the token's vector, with model.mask-token. */
static float scale_of(const ll_batch_run *run, token_position p) {
    return token_at(run, p) == run->c->model.mask_token ? 0 : run->ws->token_scale[p.b];
}

static size_t type_of(const ll_batch_run *run, size_t row) { return run->ws->type ? (size_t)run->ws->type[row] : 0; }

/* A separator ends a type: the tokens after it have the next one. The CLS token has the first. */
static void find_types(const ll_batch_run *run) {
    const int last = run->c->model.token_types - 1;
    for (size_t row = 0; row < run->rows; row++) {
        const token_position p = token_position_of(run, row);
        const int follows = p.used && p.t > 0, before = follows ? run->ws->type[row - 1] : 0;
        const int parted = follows && token_at(run, token_position_of(run, row - 1)) == run->c->model.type_separator;
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

/* For rows that begin anywhere: the row itself, not one of a table. */
static void add_sinus(const ll_batch_run *run, int64_t position, float *out) {
    const int C = run->c->model.width;
    const double amplitude = ll_config_init_std(run->c);
    for (int i = 0; i < C; i++) {
        const double angle = (double)position * pow(10000, -2.0 * (i / 2) / C);
        out[i] += (float)(amplitude * (i % 2 ? cos(angle) : sin(angle)));
    }
}

/* E[token] + position + type of one row. */
static void gather(const ll_batch_run *run, size_t row, float *out) {
    const ll_model *m = run->model;
    const size_t C = (size_t)run->c->model.width;
    const token_position p = token_position_of(run, row);
    if (!p.used) {
        memset(out, 0, C * sizeof *out);
        return;
    }
    if (p.t < 0) {
        memcpy(out, ll_param_at(m, m->at.first), C * sizeof *out);
        return;
    }
    const int continued = run->ws->carry && p.at == p.t; /* its document is the first of the row */
    const int64_t before = continued          ? run->ws->carry->offset[p.b]
                           : run->ws->carry ? 0
                           : run->streams   ? ll_stream_offset(run->streams, row)
                                            : run->position;
    const size_t t = (size_t)p.at + (size_t)before;
    const float *E = ll_param_at(m, m->at.embedding) + (size_t)token_at(run, p) * C;
    if (run->ws->token_scale) {
        run->k->scaled(C, scale_of(run, p), E, out);
    } else {
        memcpy(out, E, C * sizeof *out);
    }
    if (m->at.types >= 0) run->k->add(C, ll_param_at(m, m->at.types) + type_of(run, row) * C, out);
    if (run->stack->at.position >= 0)
        run->k->add(C, ll_param_at(m, run->stack->at.position) + (t + (size_t)run->c->position.offset) * C, out);
    if (run->ws->carry && run->ws->sinus) {
        add_sinus(run, (int64_t)t, out);
    } else if (run->ws->sinus) {
        run->k->add(C, run->ws->sinus + (size_t)p.at * C, out);
    }
}

typedef struct {
    const ll_batch_run *run;
    ll_rows rows;
    float *out;
} job;

static void gather_task(void *arg, size_t i) {
    const job *j = arg;
    const size_t C = (size_t)j->run->c->model.width;
    for (size_t r = i * LL_PIECE; r < (i + 1) * LL_PIECE && r < (size_t)j->rows.n; r++)
        gather(j->run, j->rows.first + r, j->out + r * C);
}

static void gather_rows(const ll_batch_run *run, ll_rows rows, float *out) {
    job j = {run, rows, out};
    ll_parallel_for(ll_ceil_div_size((size_t)rows.n, LL_PIECE), gather_task, &j);
}

void ll_embed(const ll_batch_run *run) {
    const int norm = run->stack->at.embedding_norm;
    if (run->ws->type) find_types(run);
    if (run->ws->token_scale) find_scales(run);
    for (int i = 0; run->streams && run->ws->sinus && i < run->streams->count; i++) {
        const ll_stream_rows *s = &run->streams->span[i];
        ll_sinus(run->ws->sinus + (size_t)s->first * (size_t)run->c->model.width, s->n, run->c->model.width,
                 s->position, ll_config_init_std(run->c));
    }
    for (ll_rows r = {0}; ll_next_chunk(&r, run->rows);) {
        float *x = ll_residual(run, 0, r);
        if (norm >= 0) {
            gather_rows(run, r, run->ws->input);
            ll_norm(run, r.n, norm, run->ws->input, x);
        } else {
            gather_rows(run, r, x);
        }
        ll_dropout(run, r, 0, LL_SITE_EMBEDDING, x, x, 0);
    }
}

/* All rows, some columns. Every element of a table is one sum in the order of the rows. */
static void scatter_task(void *arg, size_t i) {
    const ll_batch_run *run = ((const job *)arg)->run;
    const ll_model *m = run->model;
    const size_t C = (size_t)run->c->model.width, first = i * COLUMNS, n = C - first < COLUMNS ? C - first : COLUMNS;
    float *tokens = ll_param_in(m, run->grad, m->at.embedding) + first;
    for (size_t row = 0; row < run->rows; row++) {
        const token_position p = token_position_of(run, row);
        const float *d = run->ws->d + row * C + first;
        if (!p.used) continue;
        if (p.t < 0) {
            run->k->add(n, d, ll_param_in(m, run->grad, m->at.first) + first);
            continue;
        }
        float *own = tokens + (size_t)token_at(run, p) * C;
        if (run->ws->token_scale) {
            run->k->axpy(n, scale_of(run, p), d, own);
        } else {
            run->k->add(n, d, own);
        }
        if (m->at.types >= 0) run->k->add(n, d, ll_param_in(m, run->grad, m->at.types) + type_of(run, row) * C + first);
        const size_t t = (size_t)p.at + (size_t)(run->position + run->c->position.offset);
        if (run->stack->at.position >= 0)
            run->k->add(n, d, ll_param_in(m, run->grad, run->stack->at.position) + t * C + first);
    }
}

void ll_embed_back(const ll_batch_run *run) {
    ll_workspace *ws = run->ws;
    const int norm = run->stack->at.embedding_norm;
    const size_t C = (size_t)run->c->model.width;
    for (ll_rows r = {0}; ll_next_chunk(&r, run->rows);) {
        float *d = ws->d + r.first * C;
        ll_dropout(run, r, 0, LL_SITE_EMBEDDING, d, d, 0);
        if (norm < 0) continue;
        gather_rows(run, r, ws->input);
        ll_norm(run, r.n, norm, ws->input, ws->output); /* recomputed for its statistics */
        memset(ws->gradient, 0, (size_t)r.n * C * sizeof(float));
        ll_norm_back(run, r.n, norm, ws->input, d, ws->gradient);
        ll_copy_rows(run, r.n, ws->gradient, d);
    }
    job j = {.run = run};
    ll_parallel_for(ll_ceil_div_size(C, COLUMNS), scatter_task, &j);
}
