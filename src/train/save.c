/* Saves a run. A checkpoint replaces a good one, so the model is tried first. */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/finite.h"
#include "train/train_internal.h"

ll_status ll_run_diverged(const ll_trainer *t, const char *what, double value, int64_t step) {
    const char *advice = "try a lower train.learning-rate, a longer train.warmup, or train.clip = 1";
    const char *became = ll_name_infinite(value);
    if (t->saved < 0)
        return ll_fail(LL_EDIVERGED, "%s became %s at step %lld, before the first checkpoint; %s", what, became,
                       (long long)step, advice);
    return ll_fail(LL_EDIVERGED, "%s became %s at step %lld; %s still holds step %lld; %s", what, became,
                   (long long)step, t->last, (long long)t->saved, advice);
}

/* The loss of the first shard of the next batch must be finite. It is that of rank 0; others have 0. */
static ll_status try_model(ll_trainer *t, double *loss) {
    ll_tally tally = {0};
    ll_status status = ll_engine_try(t->engine, t->train, t->state.step, &tally);
    if (status) return status;
    *loss = tally.count ? tally.loss / (double)tally.count : 0;
    return isfinite(tally.loss) ? LL_OK : ll_run_diverged(t, "the loss", tally.loss, t->state.step + 1);
}

/* Does the checkpoint to go back to stay the one before? Rank 0, which has the files and the loss, says it to all. */
static ll_status keeps_back(const ll_trainer *t, int wanted, int *keeps) {
    const ll_group all = ll_group_all();
    const ll_run_state *s = &t->state;
    *keeps = wanted && t->model->recipe->c.train.on_divergence == LL_DIVERGENCE_REWIND && s->rewind_step >= 0 &&
             s->rewind_step < s->step && !access(s->rewind_aside ? t->back : t->last, F_OK);
    return ll_group_broadcast(&all, keeps, sizeof *keeps, 0);
}

/* The checkpoint that the run would go back to gets a second name before another one replaces it. */
static ll_status keep_back(const ll_trainer *t) {
    if (unlink(t->back) && errno != ENOENT) return ll_fail(LL_EIO, "%s: %s", t->back, strerror(errno));
    return link(t->last, t->back) ? ll_file_copy(t->back, t->last) : LL_OK;
}

ll_status ll_run_save(ll_trainer *t, int aside) {
    const ll_group all = ll_group_all();
    ll_run_state state = t->state;
    double loss = 0;
    const double norm = ll_optimizer_norm(t->engine->optimizer, t->model->data);
    if (!isfinite(norm)) return ll_run_diverged(t, "the norm of the parameters", norm, t->state.step);
    ll_status status = ll_group_agree(&all, try_model(t, &loss));
    if (!status) status = keeps_back(t, aside || ll_rewind_is_worse(t, loss), &state.rewind_aside);
    if (!status) status = ll_engine_collect(t->engine);
    if (status) return status;
    if (!t->ranks.rank) {
        status = ll_metrics_sync(&t->metrics);
        if (!status && state.rewind_aside && !t->state.rewind_aside) status = keep_back(t);
        if (!status) status = ll_checkpoint_save(t->last, t->engine, &state);
        if (!status && !state.rewind_aside) unlink(t->back);
    }
    status = ll_group_agree(&all, status);
    if (status) return status;
    t->state.rewind_aside = state.rewind_aside;
    t->saved = t->state.step;
    t->unsaved = 0;
    if (!state.rewind_aside) ll_rewind_point_set(&t->state);
    return LL_OK;
}
