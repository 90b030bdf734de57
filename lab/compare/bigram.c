/* Baselines that any model of text must beat: counts of tokens, and of pairs of bytes, in the train split. */
#include <math.h>

#include "base/file.h"
#include "base/memory.h"
#include "train/train_internal.h"
#include "longline-lab.h"

/* ---- Bigrams ---- */

/* pair[a][b] += number of times that byte b follows byte a. */
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

/* ---- Single tokens ---- */

/* A larger file would take minutes. */
enum { COUNTED_MOST = 1000000000 };

/* count[token] of a split. */
static ll_status count_tokens(int64_t **count, const ll_config *c, const ll_reader *reader) {
    ll_batch batch = {0};
    ll_status status = ll_batch_create(&batch, c);
    if (!status && !(*count = ll_alloc((size_t)ll_reader_vocab(reader), sizeof **count))) status = LL_ENOMEM;
    if (!status) ll_reader_count(reader, &batch, *count);
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

ll_status ll_unigram(const ll_recipe *recipe, const char *split, ll_baseline *result) {
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
    if (!status) status = count_tokens(&in_train, c, train);
    if (!status) status = count_tokens(&in_test, c, test);
    if (!status) compare(result, in_train, in_test, ll_reader_vocab(train));
    ll_reader_free(train);
    ll_reader_free(test);
    ll_free(in_train);
    ll_free(in_test);
    return status;
}
