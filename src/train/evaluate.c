/* Loss on data that was not trained on. */
#include <math.h>

#include "base/finite.h"
#include "train/train_internal.h"

static const double LN2 = 0.69314718055994530942;

int64_t ll_evaluate_batches(const ll_reader *reader, int max_batches) {
    const int64_t all = ll_reader_eval_batches(reader);
    return max_batches > 0 && max_batches < all ? max_batches : all;
}

ll_status ll_evaluate_batch(ll_tally *tally, const ll_model *model, ll_workspace *ws, const ll_reader *reader,
                            ll_batch *b, int64_t i, int64_t n) {
    /* Spread over the split: its beginning alone may be one file, or one class. */
    ll_reader_eval_batch(reader, b, i * ll_reader_eval_batches(reader) / n);
    return ll_model_run(model, ws, b, NULL, 0, 0, tally);
}

/* A model of words predicts a word at once, one of bytes some of them: only by the word or byte of the text do they
 * compare. */
static ll_evaluation sum_up(const ll_config *c, const ll_reader *reader, const ll_tally *tally, double seconds) {
    const double loss = tally->loss / (double)tally->count;
    double words = 0, bytes = 0;
    if (c->model.task == LL_TASK_LM) ll_reader_units(reader, &words, &bytes);
    return (ll_evaluation){.loss = loss,
                           .bits_per_token = loss / LN2,
                           .accuracy = (double)tally->correct / (double)tally->count,
                           .count = tally->count,
                           .sequences = tally->sequences,
                           .exact = tally->sequences ? (double)tally->exact / (double)tally->sequences : 0,
                           .seconds = seconds,
                           .bits_per_word = words > 0 ? loss / LN2 / words : NAN,
                           .bits_per_byte = bytes > 0 ? loss / LN2 / bytes : NAN};
}

/* A sum that once is not finite stays so. */
static ll_status check_loss(const ll_tally *tally, const char *split, int64_t batch) {
    if (isfinite(tally->loss)) return LL_OK;
    return ll_fail(LL_EDIVERGED,
                   "the loss became %s in batch %lld of %s: the model's weights are too large; take another",
                   ll_name_infinite(tally->loss), (long long)batch, split);
}

ll_status ll_evaluate(ll_model *model, const char *split, int max_batches, ll_evaluation *result) {
    const ll_config *c = &model->recipe->c;
    const double start = ll_now();
    ll_reader *reader = NULL;
    ll_workspace *ws = NULL;
    ll_batch batch = {0};
    ll_tally tally = {0};
    ll_status status = ll_reader_open_as(&reader, c, split, &model->vocabulary);
    if (!status) status = ll_fit_check(c, reader);
    if (!status) status = ll_batch_create(&batch, c);
    if (!status) status = ll_workspace_create(&ws, model, ll_config_sequences(c), c->train.length, 0);
    const int64_t n = status ? 0 : ll_evaluate_batches(reader, max_batches);
    for (int64_t i = 0; i < n && !status; i++) {
        ll_workspace_part(ws, i, n);
        status = ll_evaluate_batch(&tally, model, ws, reader, &batch, i, n);
        if (!status) status = check_loss(&tally, split, i + 1);
    }
    if (!status && tally.count == 0) status = ll_fail(LL_EINVAL, "the %s split has nothing to predict", split);
    if (!status) *result = sum_up(c, reader, &tally, ll_now() - start);
    ll_workspace_free(ws);
    ll_batch_free(&batch);
    ll_reader_free(reader);
    return status;
}
