/* A batch through a model and its teacher (distil.h has the losses). */
#include "model/distil.h"

#include <string.h>

#include "base/integer.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "model/layer/head_layers.h"
#include "model/layer/soft_loss.h"

struct ll_teacher {
    const ll_model *model;
    ll_workspace *ws;
    float *theirs, *own; /* (rows, C) what attention gives: the teacher's, and the student's, then its gradient */
    double *error;       /* (rows) */
};

static const float FLOOR = 1e-6f; /* mean square of an output that counts as much as none */

int ll_distil_is_attention(const char *tensor) {
    return strstr(tensor, ".attention.") || strstr(tensor, "position."); /* not embedding.position */
}

/* ---- What fits together ---- */

static ll_status check_attention(const ll_model *t, const ll_model *s) {
    const char *same = "train.distil = attention compares layer with layer";
    if (t->stacks > 1 || s->stacks > 1)
        return ll_fail(LL_EINVAL, "%s of one stack, and model.task = seq2seq has two; set train.distil=logits", same);
    if (t->c->model.layers != s->c->model.layers)
        return ll_fail(LL_EINVAL, "%s, and the teacher has %d of them, the recipe %d; set model.layers=%d, or "
                       "train.distil=logits", same, t->c->model.layers, s->c->model.layers, t->c->model.layers);
    if (t->c->model.width != s->c->model.width)
        return ll_fail(LL_EINVAL, "%s, and the teacher's are %d wide, the recipe's %d; set model.width=%d, or "
                       "train.distil=logits", same, t->c->model.width, s->c->model.width, t->c->model.width);
    if (t->cls_tokens != s->cls_tokens)
        return ll_fail(LL_EINVAL, "%s, and one of the models puts a token in front (model.pool)", same);
    if (t->c->model.patch != s->c->model.patch)
        return ll_fail(LL_EINVAL, "%s, and the teacher's tokens are of model.patch = %d, the recipe's of %d; set "
                       "model.patch=%d, or train.distil=logits", same, t->c->model.patch, s->c->model.patch,
                       t->c->model.patch);
    return LL_OK;
}

static ll_status check_logits(const ll_model *t, const ll_model *s) {
    if (t->c->model.task != s->c->model.task)
        return ll_fail(LL_EINVAL, "the teacher was made for another task than model.task of the recipe");
    if (ll_head_width(t) != ll_head_width(s))
        return ll_fail(LL_EINVAL, "the teacher gives %d logits, a model of the recipe %d; take one of the same %s",
                       ll_head_width(t), ll_head_width(s),
                       ll_task_per_token(s->c->model.task) ? "model.vocab" : "model.classes");
    if (t->c->model.vocab < s->c->model.vocab) /* of classifiers, whose logits do not say */
        return ll_fail(LL_EINVAL, "the teacher knows %d tokens, a model of the recipe %d; take one of the same "
                       "model.vocab", t->c->model.vocab, s->c->model.vocab);
    return LL_OK;
}

ll_status ll_teacher_create(ll_teacher **teacher, const ll_model *model, const ll_model *student, int B, int T,
                            int attention) {
    ll_status status = check_logits(model, student);
    if (!status && attention) status = check_attention(model, student);
    if (!status) status = ll_check_reach(model, T);
    if (status) return status;
    ll_teacher *t = ll_alloc(1, sizeof *t);
    if (!t) return LL_ENOMEM;
    t->model = model;
    status = ll_workspace_make(&t->ws, model, ll_top_stack(model), B, T, model->stacks > 1 ? T : 0, LL_EVALUATE);
    const size_t rows = (size_t)B * (size_t)ll_model_rows(model, T), C = (size_t)model->c->model.width;
    if (!status && attention) {
        t->theirs = ll_alloc(rows, C * sizeof *t->theirs);
        t->own = ll_alloc(rows, C * sizeof *t->own);
        t->error = ll_alloc(rows, sizeof *t->error);
        if (!t->theirs || !t->own || !t->error) status = LL_ENOMEM;
    }
    if (status) {
        ll_teacher_free(t);
        return status;
    }
    *teacher = t;
    return LL_OK;
}

ll_status ll_teacher_measure(size_t *bytes, const ll_model *model, int B, int T, int attention) {
    const size_t rows = (size_t)B * (size_t)ll_model_rows(model, T), C = (size_t)model->c->model.width;
    const ll_status status = ll_workspace_measure_reading(bytes, model, B, T);
    if (status) return status;
    *bytes += ll_model_size(model).parameters * sizeof(float);
    if (attention) *bytes += rows * (2 * C * sizeof(float) + sizeof(double));
    return LL_OK;
}

void ll_teacher_free(ll_teacher *t) {
    if (!t) return;
    ll_workspace_free(t->ws);
    ll_free(t->theirs);
    ll_free(t->own);
    ll_free(t->error);
    ll_free(t);
}

/* ---- Attention ---- */

typedef struct {
    const ll_teacher *t;
    const ll_batch_run *run;
    float scale; /* of a gradient; each layer has its share */
    double share;
} matching;

static int is_used(const ll_batch_run *run, size_t row) {
    return row % (size_t)run->T < (size_t)run->lengths[row / (size_t)run->T];
}

/* Errors of some rows; what attention gave becomes its gradient. */
static void match_task(void *arg, size_t piece) {
    const matching *m = arg;
    const size_t C = (size_t)m->run->c->model.width, first = piece * LL_PIECE, rows = m->run->rows;
    for (size_t r = first; r < first + LL_PIECE && r < rows; r++) {
        float *own = m->t->own + r * C;
        const float *theirs = m->t->theirs + r * C;
        if (!is_used(m->run, r)) {
            memset(own, 0, C * sizeof *own);
            continue;
        }
        const float size = m->run->k->dot(C, theirs, theirs) + (float)C * FLOOR;
        m->run->k->axpy(C, -1, theirs, own);
        m->t->error[r] += m->share * (double)(m->run->k->dot(C, own, own) / size);
        m->run->k->scale(C, (float)m->share * 2 * m->scale / size, own);
    }
}

/* One layer of both: the teacher's attention, then the student's on the same rows, forward and back. */
static ll_status match_layer(matching *m, const ll_batch_run *theirs, const ll_batch_run *own, int layer) {
    const size_t bytes = own->rows * (size_t)own->c->model.width * sizeof(float);
    const ll_rows all = {0};
    const int j = own->stack->parts * layer;
    memcpy(ll_residual(own, j, all), ll_residual(theirs, j, all), bytes);
    ll_status status = ll_attend(theirs, layer, 0);
    if (!status) status = ll_attend(own, layer, 0);
    if (status) return status;
    ll_parallel_for(ll_ceil_div_size(own->rows, LL_PIECE), match_task, m);
    memset(own->ws->d, 0, bytes); /* what goes further down is not wanted */
    if (own->ws->dparallel) memset(own->ws->dparallel, 0, bytes);
    return ll_attend_back(own, layer, 0);
}

ll_status ll_distil_attention(const ll_model *m, ll_workspace *ws, ll_teacher *t, const ll_batch *batch, float *grad,
                              float scale, int64_t draw, ll_tally *tally) {
    ll_batch_run own = ll_network_begin(m, ws, batch), theirs = ll_network_begin(t->model, t->ws, batch);
    const int layers = own.stack->layers;
    matching match = {t, &own, scale, 1.0 / layers};
    own.grad = grad, own.draw = draw, own.attended = t->own;
    theirs.attended = t->theirs;
    memset(t->error, 0, own.rows * sizeof *t->error);
    ll_embed(&theirs);
    ll_status status = LL_OK;
    ws->blocks = layers;
    for (int l = 0; l < layers && !status; l++) {
        ws->below = 2 * l; /* each layer goes back at once, and has three units of progress */
        status = match_layer(&match, &theirs, &own, l);
        if (!status) status = ll_network_report(&own, 3 * (l + 1), layers);
        if (!status && l + 1 < layers) status = ll_feed_forward(&theirs, l);
    }
    for (size_t r = 0; r < own.rows && !status; r++) {
        if (!is_used(&own, r)) continue;
        tally->loss += t->error[r];
        tally->count++;
    }
    return status;
}

/* ---- Logits ---- */

ll_status ll_distil_logits(const ll_model *m, ll_workspace *ws, ll_teacher *t, const ll_distil_options *how,
                           const ll_batch *batch, float *grad, float scale, int64_t draw, ll_tally *tally) {
    ll_batch_run theirs = ll_network_begin(t->model, t->ws, batch);
    ll_network_pooled(&theirs);
    ll_status status = ll_network_forward(&theirs);
    if (status) return status;
    const ll_soft soft = {&theirs, how->weight, how->temperature};
    return ll_model_run_soft(m, ws, batch, &soft, grad, scale, draw, tally);
}
