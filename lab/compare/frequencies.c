/* The baseline that any model of text must beat: the frequencies of tokens in the train split. */
#include <math.h>

#include "base/file.h"
#include "base/float_mode.h"
#include "base/memory.h"
#include "base/read_progress.h"
#include "train/train_internal.h"
#include "longline-lab.h"

/* A larger file would take minutes. */
enum { COUNTED_MOST = 1000000000 };

/* count[token] of the batches of a split that are evaluated; batches = 0: of all. */
static ll_status count_tokens(int64_t **count, const ll_config *c, const ll_reader *reader, int batches) {
    ll_batch batch = {0};
    ll_status status = ll_batch_create(&batch, c);
    if (!status && !(*count = ll_alloc((size_t)ll_reader_vocab(reader), sizeof **count))) status = LL_ENOMEM;
    const int64_t n = ll_evaluate_batches(reader, batches);
    for (int64_t i = 0; i < n && !status; i++) {
        ll_reader_count(reader, &batch, ll_evaluated_batch(reader, i, n), *count);
        ll_read_progress(NULL, i + 1, n);
    }
    ll_batch_free(&batch);
    return status;
}

/* Cross-entropy of p(v) = (train[v] + 1) / (sum of train + V), and how often the most frequent token is right. */
static void compare(ll_baseline *b, const int64_t *train, const int64_t *test, int V) {
    double all = 0, loss = 0;
    int64_t count = 0;
    int best = 0;
    for (int v = 0; v < V; v++) {
        all += (double)train[v] + 1;
        if (train[v] > train[best]) best = v;
    }
    for (int v = 0; v < V; v++) {
        loss -= (double)test[v] * log(((double)train[v] + 1) / all);
        count += test[v];
    }
    *b = (ll_baseline){loss / (double)count, (double)test[best] / (double)count, count};
}

ll_status ll_unigram(const ll_recipe *recipe, const char *split, int batches, ll_baseline *result) {
    LL_FLOAT_MODE;
    const ll_config *c = &recipe->c;
    ll_reader *train = NULL, *test = NULL;
    int64_t *in_train = NULL, *in_test = NULL;
    if (!ll_config_per_token(c))
        return ll_fail(LL_EINVAL, "frequencies of tokens are a baseline for language models; this recipe classifies");
    const char *path = c->data.train ? c->data.train : "";
    if (ll_file_plain_size(path) > COUNTED_MOST)
        return ll_fail(LL_EINVAL, "%s has more than 10^9 bytes; frequencies of tokens are counted in smaller files",
                       path);
    ll_status status = ll_reader_open(&train, c, "train");
    if (!status) status = ll_reader_open_as(&test, c, split, ll_reader_vocabulary(train));
    if (!status) status = count_tokens(&in_train, c, train, 0);
    if (!status) status = count_tokens(&in_test, c, test, batches);
    if (!status) compare(result, in_train, in_test, ll_reader_vocab(train));
    ll_reader_free(train);
    ll_reader_free(test);
    ll_free(in_train);
    ll_free(in_test);
    return status;
}
