/* Loss on data that was not trained on, and the baseline that any model of text must beat. */
#include <math.h>

#include "base/memory.h"
#include "train/train.h"

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

ll_status ll_evaluate(ll_model *model, const char *split, int max_batches, ll_evaluation *result) {
    const ll_config *c = model->c;
    const double start = ll_now();
    ll_reader *reader = NULL;
    ll_workspace *ws = NULL;
    ll_batch batch = {0};
    ll_tally tally = {0};
    ll_status status = ll_reader_open(&reader, c, split);
    if (!status) status = ll_fit_check(c, reader);
    if (!status) status = ll_batch_create(&batch, c);
    if (!status) status = ll_workspace_create(&ws, model, c->batch, c->length, 0);
    const int64_t n = status ? 0 : ll_evaluate_batches(reader, max_batches);
    for (int64_t i = 0; i < n && !status; i++) status = ll_evaluate_batch(&tally, model, ws, reader, &batch, i, n);
    if (!status && tally.count == 0) status = ll_fail(LL_EINVAL, "the %s split has nothing to predict", split);
    if (!status)
        *result = (ll_evaluation){.loss = tally.loss / (double)tally.count,
                                  .bits_per_token = tally.loss / (double)tally.count / LN2,
                                  .accuracy = (double)tally.correct / (double)tally.count,
                                  .count = tally.count,
                                  .sequences = tally.sequences,
                                  .exact = tally.sequences ? (double)tally.exact / (double)tally.sequences : 0,
                                  .seconds = ll_now() - start};
    ll_workspace_free(ws);
    ll_batch_free(&batch);
    ll_reader_free(reader);
    return status;
}

/* ---- Bigrams ---- */

/* pair[a][b] += how often byte b follows byte a. */
static void count_pairs(int64_t (*pair)[256], const uint8_t *text, size_t size) {
    for (size_t i = 1; i < size; i++) pair[text[i - 1]][text[i]]++;
}

/* Mean of -log2 p(b | a) over the pairs of `test`, p(b | a) = (train[a][b] + 1) / (sum_b train[a][b] + 256). */
static double bits(int64_t (*train)[256], int64_t (*test)[256]) {
    double sum = 0, count = 0;
    for (int a = 0; a < 256; a++) {
        int64_t follow = 0;
        for (int b = 0; b < 256; b++) follow += train[a][b];
        for (int b = 0; b < 256; b++) {
            sum -= (double)test[a][b] * log2((double)(train[a][b] + 1) / (double)(follow + 256));
            count += (double)test[a][b];
        }
    }
    return sum / count;
}

static ll_status count_split(int64_t (*pair)[256], const ll_config *c, const char *split) {
    ll_reader *reader = NULL;
    ll_status status = ll_reader_open(&reader, c, split);
    if (status) return status;
    size_t size = 0;
    const uint8_t *text = ll_reader_text(reader, &size);
    if (!text)
        status = ll_fail(LL_EINVAL, "a bigram baseline is for text; this recipe's data.format has examples");
    else if (size < 2)
        status = ll_fail(LL_EINVAL, "the %s split has %zu bytes; bigrams need 2", split, size);
    else
        count_pairs(pair, text, size);
    ll_reader_free(reader);
    return status;
}

ll_status ll_bigram_bits(const ll_recipe *recipe, const char *split, double *result) {
    int64_t(*train)[256] = ll_alloc(256, sizeof *train);
    int64_t(*test)[256] = ll_alloc(256, sizeof *test);
    ll_status status = train && test ? LL_OK : LL_ENOMEM;
    if (!status) status = count_split(train, &recipe->c, "train");
    if (!status) status = count_split(test, &recipe->c, split);
    if (!status) *result = bits(train, test);
    ll_free(train);
    ll_free(test);
    return status;
}
