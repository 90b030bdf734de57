/* Training on batches from memory: loss and gradients of a batch, and updates. The recipe has the settings; the caller
 * has the data and the loop. */
#include <math.h>
#include <string.h>

#include "base/finite.h"
#include "base/float_mode.h"
#include "base/integer.h"
#include "base/memory.h"
#include "base/versioned.h"
#include "train/train_internal.h"

static ll_status take_batch(ll_memory_batch *b, const ll_memory_batch *given) {
    const ll_status status = ll_struct_take(b, sizeof *b, given, "ll_memory_batch");
    if (status) return status;
    return b->tokens && b->targets ? LL_OK : ll_fail(LL_EINVAL, "the batch has no tokens or no targets");
}

static ll_status check_targets(const ll_model *m, const ll_memory_batch *b) {
    const int per_token = ll_task_per_token(m->c->model.task),
              most = per_token ? m->c->model.vocab : m->c->model.classes;
    const size_t rows = (size_t)(b->B / ll_task_sequences(m->c->model.task)), n = per_token ? (size_t)b->T : 1;
    for (size_t i = 0; i < rows * n; i++)
        if (b->targets[i] < -1 || b->targets[i] >= most)
            return ll_fail(LL_EINVAL,
                           "target %d at position %zu of sequence %zu is not in 0..%d, nor -1, which does not count",
                           b->targets[i], i % n, i / n, most - 1);
    return LL_OK;
}

static ll_status check_batch(const ll_model *m, const ll_memory_batch *b) {
    const int pairs = m->c->model.task == LL_TASK_SEQ2SEQ;
    if (!pairs != !b->source)
        return ll_fail(LL_EINVAL, pairs ? "a seq2seq model learns from sources and targets; the batch has no source"
                                        : "only seq2seq models have sources, and the batch has one");
    ll_status status = ll_check_tokens(m, b->tokens, b->lengths, b->B, b->T);
    if (!status && pairs) status = ll_check_tokens(m, b->source, b->source_lengths, b->B, b->S);
    if (status) return status;
    if (b->B % ll_task_sequences(m->c->model.task))
        return ll_fail(LL_EINVAL, "%d sequences; model.task = match takes two and two", b->B);
    return check_targets(m, b);
}

static ll_batch batch_of(const ll_memory_batch *b) {
    return (ll_batch){.B = b->B,
                      .T = b->T,
                      .tokens = (int *)b->tokens,
                      .targets = (int *)b->targets,
                      .lengths = (int *)b->lengths,
                      .S = b->S,
                      .source = (int *)b->source,
                      .source_lengths = (int *)b->source_lengths};
}

static ll_status run(const ll_model *m, const ll_memory_batch *b, float *gradients, float scale, ll_tally *tally) {
    const ll_batch batch = batch_of(b);
    ll_workspace *ws = NULL;
    const int T = ll_max_int(b->T, b->S);
    ll_status status = ll_workspace_create(&ws, m, b->B, T, gradients != NULL);
    if (status) return status;
    if (gradients) memset(gradients, 0, m->size * sizeof *gradients);
    status = ll_model_run(m, ws, &batch, gradients, scale, b->draw, tally);
    if (gradients) ll_model_fix_noise(m);
    ll_workspace_free(ws);
    return status;
}

ll_status ll_model_loss(ll_model *m, const ll_memory_batch *given, float *gradients, ll_loss *loss) {
    LL_FLOAT_MODE;
    ll_memory_batch b;
    ll_tally tally = {0};
    ll_status status = ll_struct_check(loss, sizeof *loss, "ll_loss");
    if (!status) status = take_batch(&b, given);
    if (!status && gradients) status = ll_model_trainable(m);
    if (!status) status = check_batch(m, &b);
    int64_t count = 0;
    if (!status) {
        const ll_batch batch = batch_of(&b);
        count = ll_batch_counted(m->c->model.task, &batch);
    }
    if (!status && count == 0)
        status = ll_fail(LL_EINVAL, "the batch has nothing to predict: every target is -1, or past the length of its "
                                    "sequence");
    if (!status) status = run(m, &b, gradients, (float)(1 / (double)count), &tally);
    if (status) return status;
    if (!isfinite(tally.loss))
        return ll_fail(LL_EDIVERGED, "the loss became %s; a lower learning rate, or a longer warm-up, helps",
                       ll_name_infinite(tally.loss));
    const ll_loss found = {.loss = tally.loss / (double)tally.count,
                           .accuracy = (double)tally.correct / (double)tally.count,
                           .count = tally.count};
    ll_struct_give(loss, sizeof *loss, &found);
    return LL_OK;
}

struct ll_adam {
    ll_model *model;
    ll_optimizer *optimizer;
    float *draws; /* a block for new random features */
    int64_t step; /* number of updates so far */
};

ll_status ll_adam_create(ll_adam **adam, ll_model *model) {
    if (!model->data)
        return ll_fail(LL_EINVAL, "a model of ll_model_load cannot be trained; load it with ll_model_load_bytes, in "
                                  "Python without mmap");
    ll_status status = ll_model_trainable(model);
    if (status) return status;
    ll_adam *a = ll_alloc(1, sizeof *a);
    if (!a) return LL_ENOMEM;
    a->model = model;
    status = ll_optimizer_create(&a->optimizer, model->param, model->count, model->size);
    if (!status && !(a->draws = ll_alloc(ll_model_redraw_floats(model), sizeof *a->draws))) status = LL_ENOMEM;
    if (status) {
        ll_adam_free(a);
        return status;
    }
    *adam = a;
    return LL_OK;
}

void ll_adam_free(ll_adam *a) {
    if (!a) return;
    ll_optimizer_free(a->optimizer);
    ll_free(a->draws);
    ll_free(a);
}

ll_status ll_adam_step(ll_adam *a, float *gradients, double *norm) {
    LL_FLOAT_MODE;
    const ll_config *c = &a->model->recipe->c;
    const ll_status status = ll_model_trainable(a->model); /* it may have been quantized since */
    if (status) return status;
    const double length = ll_optimizer_norm(a->optimizer, gradients);
    if (norm) *norm = length;
    if (!isfinite(length))
        return ll_fail(LL_EDIVERGED, "the norm of the gradients became %s; the model is unchanged",
                       ll_name_infinite(length));
    a->step++;
    ll_optimizer_update(a->optimizer, c, a->model->data, gradients, ll_clip_scale(length, c->train.clip), a->step);
    return ll_step_redraw(a->model, a->step + 1, a->draws);
}
