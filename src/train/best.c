/* The best model of a run, and the evaluation that it was chosen by: held-out data, and how many batches of them. */
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "train/train_internal.h"

ll_status ll_best_evaluation(char sum[LL_CHECKSUM_TEXT], const ll_reader *valid, const ll_config *c) {
    char rows[LL_CHECKSUM_TEXT], text[LL_CHECKSUM_TEXT + 48];
    const ll_status status = ll_rows_checksum(rows, valid, c, 0);
    if (status) return status;
    const int n = snprintf(text, sizeof text, "%s %lld %lld", rows, (long long)ll_reader_size(valid),
                           (long long)ll_evaluate_batches(valid, c->train.eval_batches));
    ll_st_checksum(sum, text, (size_t)n);
    return LL_OK;
}

void ll_best_forget(ll_run_state *state) {
    state->best_loss = NAN;
    state->best_step = 0;
}

/* The text of ll_error(), which is why the best model cannot be used, and what follows. */
static ll_status uncounted(ll_status status, int64_t step) {
    return ll_fail(status, "%s; the best model so far, of step %lld, does not count any more", ll_error(),
                   (long long)step);
}

static ll_status missing(const ll_trainer *t) { return ll_fail(LL_EFORMAT, "%s is not there", t->best); }

ll_status ll_best_missing(const ll_trainer *t, int64_t step) { return uncounted(missing(t), step); }

static ll_status find(const ll_trainer *t) {
    return t->ranks.rank || !access(t->best, F_OK) ? LL_OK : missing(t);
}

static ll_status load(ll_model **best, const ll_trainer *t) {
    ll_safetensors *file = NULL;
    ll_status status = ll_rank_file_open(&file, t->best);
    if (!status) status = ll_model_map(best, file);
    if (status || ((*best)->size == t->model->size && (*best)->operators == t->model->operators)) return status;
    return ll_fail(LL_EFORMAT, "%s has another model than the run", t->best);
}

ll_status ll_best_load(ll_model **best, const ll_trainer *t) {
    const ll_group all = ll_group_all();
    *best = NULL;
    ll_status status = ll_group_agree(&all, find(t));
    if (!status) status = ll_group_agree(&all, load(best, t));
    if (!status) return LL_OK;
    ll_model_free(*best);
    *best = NULL;
    return uncounted(status, t->state.best_step);
}
