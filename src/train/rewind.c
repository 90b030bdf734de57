/* train.on-divergence = rewind: a run that diverges goes back to its last checkpoint and on with half the learning
 * rate, at most LL_REWINDS times. How often it did is part of the checkpoint that the loop then writes. A run that is
 * killed before that begins at the old checkpoint, diverges at the same step, and goes back to the same bits. So does
 * one that is stopped: what it saves where it stops does not replace the checkpoint before (back.safetensors). Nor does
 * a checkpoint whose own loss is far above chance. The step after a checkpoint has the loss of the checkpoint, at any
 * rate, so only the losses of later steps are judged. */
#include <stdio.h>
#include <string.h>

#include "train/train_internal.h"

int ll_rewind_may(const ll_trainer *t) {
    return t->model->recipe->c.train.on_divergence == LL_DIVERGENCE_REWIND && t->state.rewind_step >= 0 &&
           t->state.rewinds < LL_REWINDS;
}

static int is_above_chance(const ll_trainer *t, double loss) {
    const ll_config *c = &t->model->recipe->c;
    return ll_teaching_stage(c, t->state.step) != LL_DISTIL_ATTENTION && ll_fit_is_above_chance(c, loss);
}

ll_status ll_trainer_check_loss(const ll_trainer *t, int64_t n) {
    const double loss = ll_recent_loss(&t->state, n);
    return is_above_chance(t, loss) ? ll_fit_above_chance(&t->model->recipe->c, loss) : LL_OK;
}

int ll_rewind_is_worse(const ll_trainer *t, double loss) {
    return ll_rewind_may(t) && !ll_fit_is_above_chance(&t->model->recipe->c, t->state.rewind_loss) &&
           is_above_chance(t, loss);
}

ll_status ll_rewind_check(const ll_trainer *t) {
    const int64_t n = t->state.step - t->state.rewind_step - 1;
    return n > 0 && ll_rewind_is_worse(t, ll_recent_loss(&t->state, n)) ? ll_trainer_check_loss(t, n) : LL_OK;
}

ll_status ll_rewind_end(const ll_trainer *t) {
    if (t->model->recipe->c.train.on_divergence != LL_DIVERGENCE_REWIND || t->state.rewinds < LL_REWINDS) return LL_OK;
    const ll_status status = ll_trainer_check_loss(t, LL_ROW_EVERY);
    return status ? ll_rewind_too_often(status) : LL_OK;
}

ll_status ll_rewind_too_often(ll_status status) {
    char why[400];
    snprintf(why, sizeof why, "%s", ll_error());
    return ll_fail(status, "%s; the run went back %d times already", why, LL_REWINDS);
}

static ll_status load(ll_trainer *t) {
    ll_run_state before = t->state;
    ll_safetensors *file = NULL;
    ll_status status = ll_rank_file_open(&file, before.rewind_aside ? t->back : t->last);
    if (!status) status = ll_checkpoint_state(&t->state, file);
    if (!status) status = ll_model_restore(t->model, file);
    if (!status) status = ll_checkpoint_moments(t->engine, file);
    ll_safetensors_free(file);
    if (status) return status;
    t->state.rewinds = before.rewinds; /* a new train.learning-rate begins with none, whatever the file says */
    /* The best model lies in its file, whether it came before the checkpoint or after it. */
    t->state.best_loss = before.best_loss;
    t->state.best_step = before.best_step;
    memcpy(t->state.best_sum, before.best_sum, sizeof before.best_sum);
    return LL_OK;
}

ll_status ll_rewind_load(ll_trainer *t) {
    const ll_group all = ll_group_all();
    int64_t row;
    ll_status status = ll_group_agree(&all, load(t));
    if (!status) status = ll_group_agree(&all, t->ranks.rank ? LL_OK : ll_metrics_cut(&t->metrics, t->state.row, &row));
    if (status) return status;
    t->state.rewinds++;
    t->engine->optimizer->halvings = (int)t->state.rewinds;
    t->unsaved = 1;
    t->warned = 0;
    return LL_OK;
}
