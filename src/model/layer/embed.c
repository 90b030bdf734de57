/* What enters a stack, and the gradients of its tables.
 *
 *   r_0 = dropout(norm(vector + position))      with a norm if the recipe asks for one
 *
 * The vectors are those of tokens (embed_tokens.c) or of patches of an image (embed_patches.c). A CLS token (pool =
 * first) is a vector of its own; it has a position only with position.cls. Sinusoids have the amplitude init-std: sines
 * of size 1 would hide embeddings of size 0.02. */
#include <math.h>
#include <string.h>

#include "base/integer.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "model/layer/embedding.h"
#include "model/stream/stream_rows.h"

enum { COLUMNS = 32 /* of one task of the scatter */ };

const ll_embedding *ll_embedding_of(const ll_model_config *c) {
    return c->model.patch ? &ll_embed_patches : &ll_embed_tokens;
}

int ll_model_rows(const ll_model *m, int T) {
    return m->cls_tokens + T / ll_embedding_of(m->c)->numbers(m->c);
}

ll_status ll_sinus_create(ll_model *m) {
    const int C = m->c->model.width;
    if (m->c->position.type != LL_POSITION_SINUSOIDAL || m->sinusoid_rates) return LL_OK;
    m->sinusoid_rates = ll_alloc((size_t)ll_ceil_div(C, 2), sizeof *m->sinusoid_rates);
    if (!m->sinusoid_rates) return LL_ENOMEM;
    for (int t = 0; 2 * t < C; t++) m->sinusoid_rates[t] = pow(10000, -2.0 * t / C);
    return LL_OK;
}

/* out = amplitude [sin p w_0, cos p w_0, sin p w_1, ...], w_t = 10000^(-2t/C), p = position; or adds it to out. Angles
 * are in double: in float they are off by 0.03 at token one million. */
static void sinus_row(const ll_model *m, int64_t position, int add, float *out) {
    const int C = m->c->model.width;
    const double amplitude = ll_config_init_std(m->c);
    for (int t = 0; 2 * t < C; t++) {
        const double angle = (double)position * m->sinusoid_rates[t];
        const float sine = (float)(amplitude * sin(angle)), cosine = (float)(amplitude * cos(angle));
        out[2 * t] = add ? out[2 * t] + sine : sine;
        if (2 * t + 1 < C) out[2 * t + 1] = add ? out[2 * t + 1] + cosine : cosine;
    }
}

void ll_sinus(const ll_model *m, float *out, int count, int64_t first) {
    for (int i = 0; i < count; i++) sinus_row(m, first + i, 0, out + (size_t)i * (size_t)m->c->model.width);
}

/* The number of a row in its document. */
static int position_in_document(const ll_batch_run *run, size_t row, ll_row p) {
    return run->ws->position && p.used ? run->ws->position[row] : p.t;
}

/* The row of learned positions for number t of a document; the CLS token has the number -1. */
static size_t learned_row(const ll_model_config *c, int64_t t) {
    return (size_t)(t + c->position.offset + c->position.cls);
}

/* Makes of the vector of a row, or of anything if it is none, what enters the norm. */
static void complete(const ll_batch_run *run, size_t row, float *out) {
    const ll_model *m = run->model;
    const ll_row p = ll_row_at(run, row);
    const size_t C = (size_t)run->c->model.width;
    const int learned = run->stack->at.position;
    if (!p.used) {
        memset(out, 0, C * sizeof *out);
        return;
    }
    if (p.t < 0) {
        memcpy(out, ll_param_at(m, m->at.first), C * sizeof *out);
        if (run->c->position.cls) run->k->add(C, ll_param_at(m, learned) + learned_row(run->c, -1) * C, out);
        return;
    }
    const int at = position_in_document(run, row, p);
    const int continued = run->ws->carry && at == p.t; /* its document is the first of the row */
    const int64_t before = continued          ? run->ws->carry->offset[p.b]
                           : run->ws->carry ? 0
                           : run->streams   ? ll_stream_offset(run->streams, row)
                                            : run->position;
    const int64_t t = at + before;
    if (learned >= 0) run->k->add(C, ll_param_at(m, learned) + learned_row(run->c, t) * C, out);
    if (run->ws->carry && run->ws->sinus) {
        sinus_row(run->model, t, 1, out);
    } else if (run->ws->sinus) {
        run->k->add(C, run->ws->sinus + (size_t)at * C, out);
    }
}

typedef struct {
    const ll_batch_run *run;
    ll_rows rows;
    float *out;
} job;

static void complete_task(void *arg, size_t i) {
    const job *j = arg;
    const size_t C = (size_t)j->run->c->model.width;
    for (size_t r = i * LL_PIECE; r < (i + 1) * LL_PIECE && r < (size_t)j->rows.n; r++)
        complete(j->run, j->rows.first + r, j->out + r * C);
}

static void embed_rows(const ll_batch_run *run, ll_rows rows, float *out) {
    job j = {run, rows, out};
    ll_embedding_of(run->c)->vectors(run, rows, out);
    ll_parallel_for(ll_ceil_div_size((size_t)rows.n, LL_PIECE), complete_task, &j);
}

void ll_embed(const ll_batch_run *run) {
    const int norm = run->stack->at.embedding_norm;
    const ll_embedding *kind = ll_embedding_of(run->c);
    if (kind->prepare) kind->prepare(run);
    for (int i = 0; run->streams && run->ws->sinus && i < run->streams->count; i++) {
        const ll_stream_rows *s = &run->streams->span[i];
        ll_sinus(run->model, run->ws->sinus + (size_t)s->first * (size_t)run->c->model.width, s->n, s->position);
    }
    for (ll_rows r = {0}; ll_next_rows(run, &r);) {
        float *x = ll_residual(run, 0, r);
        if (norm >= 0) {
            embed_rows(run, r, run->ws->input);
            ll_norm(run, r.n, norm, run->ws->input, x);
        } else {
            embed_rows(run, r, x);
        }
        ll_dropout(run, r, 0, LL_SITE_EMBEDDING, x, x, 0);
    }
}

/* All rows, some columns: the gradients of the CLS token and of learned positions. Every element is one sum in the
 * order of the rows. */
static void scatter_task(void *arg, size_t i) {
    const ll_batch_run *run = ((const job *)arg)->run;
    const ll_model *m = run->model;
    const size_t C = (size_t)run->c->model.width, first = i * COLUMNS, n = ll_min_size(C - first, COLUMNS);
    float *positions =
        run->stack->at.position < 0 ? NULL : ll_param_in(m, run->grad, run->stack->at.position) + first;
    for (size_t row = 0; row < run->rows; row++) {
        const ll_row p = ll_row_at(run, row);
        const float *d = run->ws->d + row * C + first;
        if (!p.used) continue;
        if (p.t < 0) run->k->add(n, d, ll_param_in(m, run->grad, m->at.first) + first);
        if (!positions || (p.t < 0 && !run->c->position.cls)) continue;
        run->k->add(n, d, positions + learned_row(run->c, position_in_document(run, row, p) + run->position) * C);
    }
}

void ll_embed_back(const ll_batch_run *run) {
    ll_workspace *ws = run->ws;
    const int norm = run->stack->at.embedding_norm;
    const size_t C = (size_t)run->c->model.width;
    for (ll_rows r = {0}; ll_next_rows(run, &r);) {
        float *d = ws->d + r.first * C;
        ll_dropout(run, r, 0, LL_SITE_EMBEDDING, d, d, 0);
        if (norm < 0) continue;
        embed_rows(run, r, ws->input);
        ll_norm(run, r.n, norm, ws->input, ws->output); /* recomputed for its statistics */
        memset(ws->gradient, 0, (size_t)r.n * C * sizeof(float));
        ll_norm_back(run, r.n, norm, ws->input, d, ws->gradient);
        ll_copy_rows(run, r.n, ws->gradient, d);
    }
    job j = {.run = run};
    if (run->model->cls_tokens || run->stack->at.position >= 0)
        ll_parallel_for(ll_ceil_div_size(C, COLUMNS), scatter_task, &j);
    ll_embedding_of(run->c)->back(run);
}
