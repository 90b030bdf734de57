/* One training step. Everything it draws on is a function of the step's number, so that step 1001 of a
 * resumed run is step 1001 of an uninterrupted one. */
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "train/train_internal.h"

ll_status ll_engine_create(ll_engine **engine, ll_model *model) {
    const ll_config *c = &model->recipe->c;
    ll_engine *e = ll_alloc(1, sizeof *e);
    if (!e) return LL_ENOMEM;
    e->model = model;
    ll_status status = ll_workspace_create(&e->ws, model, ll_config_sequences(c), c->train.length, 1);
    if (!status) status = ll_optimizer_create(&e->optimizer, model->param, model->count, model->size);
    if (!status) status = ll_batch_create(&e->batch, c);
    if (!status && !(e->grad = ll_alloc(model->size, sizeof *e->grad))) status = LL_ENOMEM;
    if (status) {
        ll_engine_free(e);
        return status;
    }
    *engine = e;
    return LL_OK;
}

void ll_engine_free(ll_engine *e) {
    if (!e) return;
    ll_workspace_free(e->ws);
    ll_optimizer_free(e->optimizer);
    ll_batch_free(&e->batch);
    ll_free(e->grad);
    ll_free(e);
}

/* Where the learning rate falls to its end, what is drawn below this share of its highest is never learned. */
static const double LEARNABLE = 0.1;

static int too_late(const ll_config *c, int64_t step) {
    const int falls = c->train.schedule == LL_LR_LINEAR || c->train.schedule == LL_LR_COSINE;
    return falls && step > c->train.warmup && ll_schedule_rate(c, step) < LEARNABLE * c->train.learning_rate;
}

/* Projections change before updates redraw + 1, 2 redraw + 1, ...: `redraw` updates share one draw. */
ll_status ll_step_redraw(ll_model *model, int64_t step) {
    const int64_t every = model->c->attention.redraw, done = step - 1;
    if (model->c->attention.kernel != LL_KERNEL_FAVOR || every <= 0 || done <= 0 || done % every) return LL_OK;
    return too_late(&model->recipe->c, step) ? LL_OK : ll_model_redraw(model, done / every);
}

ll_status ll_engine_gradient(ll_engine *e, const ll_reader *reader, int64_t step, ll_gradient *result) {
    const ll_config *c = &e->model->recipe->c;
    const int parts = c->train.accumulate > 1 ? c->train.accumulate : 1;
    const double expected = (double)parts * c->train.batch * (ll_config_per_token(c) ? c->train.length : 1);
    ll_batch *b = &e->batch;
    ll_tally tally = {0};
    int64_t tokens = 0;
    ll_status status = ll_step_redraw(e->model, step);
    if (status) return status;
    memset(e->grad, 0, e->model->size * sizeof *e->grad);
    for (int i = 0; i < parts; i++) {
        const int64_t number = (step - 1) * parts + i;
        if (reader) ll_reader_batch(reader, b, (uint64_t)c->train.seed, number);
        status = ll_model_run(e->model, e->ws, b, e->grad, (float)(1 / expected), number, &tally);
        if (status) return status;
        for (int s = 0; s < b->B; s++) tokens += b->lengths[s] + (b->source ? b->source_lengths[s] : 0);
    }
    /* How many targets count is known only now; where all do, as in text, the scale is 1. */
    const double scale = tally.count > 0 ? expected / (double)tally.count : 1;
    *result = (ll_gradient){.loss = tally.loss, .count = tally.count, .tokens = tokens, .scale = scale};
    result->norm = scale * ll_optimizer_norm(e->optimizer, e->grad);
    return LL_OK;
}

void ll_engine_update(ll_engine *e, int64_t step, const ll_gradient *g) {
    const ll_config *c = &e->model->recipe->c;
    ll_optimizer_update(e->optimizer, c, e->model->data, e->grad, g->scale * ll_clip_scale(g->norm, c->train.clip),
                        step);
}
