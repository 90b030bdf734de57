/* N-grams with interpolated, modified Kneser-Ney smoothing (Chen and Goodman 1999, section 3): how far the counts of
 * short sequences get, beside what a model has learned.
 *
 * A row of the table is either a context, with the sum of its counts and the number of different tokens that follow, or
 * a context with one token, and how often the two occur. The longest n-grams are counted as they occur. Shorter ones
 * count in how many longer ones they occur, as Kneser-Ney smoothing has it. Counts of 1, 2 and more have discounts of
 * their own. They make chance repetitions worth little, of which sequences of amino acids have many. */
#include <math.h>
#include <string.h>

#include "base/float_mode.h"
#include "base/integer.h"
#include "base/memory.h"
#include "train/train_internal.h"
#include "longline-lab.h"

enum { ORDER_MOST = 16, ROWS_FIRST = 1 << 16 };

/* A file with more tokens would take minutes, and gigabytes. */
#define COUNTED_MOST 1000000000

typedef struct {
    uint64_t key; /* 0: not used */
    uint32_t count;
    uint32_t followers[3]; /* of a context: different tokens behind it that occur once, twice, more often */
} row;

typedef struct {
    row *row;
    size_t rows, used; /* rows is a power of 2 */
    int order, V;
    int64_t counts[ORDER_MOST][5];  /* by tokens of the context: how many n-grams were counted 1 to 4 times */
    double discount[ORDER_MOST][4]; /* of counts of 0 (none), 1, 2, more */
} ngrams;

/* ---- The table ---- */

/* The finalizer of MurmurHash3: among 10^9 keys of 64 bits two are equal with a probability of 3 %. */
static uint64_t mixed(uint64_t x) {
    x = (x ^ (x >> 33)) * 0xff51afd7ed558ccd;
    x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53;
    return x ^ (x >> 33);
}

/* The key of a context that has one more token, further back. */
static uint64_t longer(uint64_t context, int token) { return mixed(context + (uint64_t)token + 1); }

static uint64_t with_token(uint64_t context, int token) {
    return mixed(~context + 0x9e3779b97f4a7c15 * ((uint64_t)token + 1)) | 1;
}

/* The row of a key, or the free row where it belongs. */
static row *find(const ngrams *g, uint64_t key) {
    size_t at = (size_t)mixed(key) & (g->rows - 1);
    while (g->row[at].key && g->row[at].key != key) at = (at + 1) & (g->rows - 1);
    return &g->row[at];
}

static ll_status make_room(ngrams *g, size_t more) {
    if (2 * (g->used + more) <= g->rows) return LL_OK;
    ngrams large = *g;
    large.rows = g->rows ? 2 * g->rows : ROWS_FIRST;
    if (!(large.row = ll_alloc(large.rows, sizeof *large.row))) return LL_ENOMEM;
    memset(large.row, 0, large.rows * sizeof *large.row);
    for (size_t i = 0; i < g->rows; i++)
        if (g->row[i].key) *find(&large, g->row[i].key) = g->row[i];
    ll_free(g->row);
    *g = large;
    return LL_OK;
}

static row *row_of(ngrams *g, uint64_t key) {
    row *r = find(g, key);
    if (!r->key) r->key = key, g->used++;
    return r;
}

/* ---- Counting ---- */

/* key[n]: of the n tokens before place t of a text. Returns the number of tokens of the longest one. */
static int contexts(uint64_t *key, const ngrams *g, const int *tokens, int t) {
    const int most = ll_min_int(t + 1, g->order - 1);
    key[0] = 1;
    for (int n = 1; n <= most; n++) key[n] = longer(key[n - 1], tokens[t + 1 - n]) | 1;
    return most;
}

/* One more occurrence of n-grams that occurred `before` times: in the counts of counts, and those of their context. */
static void recount(int64_t *counts, uint32_t *followers, uint32_t before) {
    if (before && before < 5) counts[before]--;
    if (before < 4) counts[before + 1]++;
    if (before && before < 3) followers[before - 1]--;
    if (before < 3) followers[before]++;
}

/* A token behind a context of n tokens; where it is new there, also behind the shorter one. */
static void count(ngrams *g, const uint64_t *key, int n, int token) {
    for (int is_new = 1; is_new && n >= 0; n--) {
        row *context = row_of(g, key[n]), *pair = row_of(g, with_token(key[n], token));
        is_new = !pair->count;
        recount(g->counts[n], context->followers, pair->count);
        pair->count++;
        context->count++;
    }
}

/* A row of a batch: its tokens, behind the last `before` tokens of its text in front of it. */
typedef struct {
    const int *tokens, *targets;
    int before, length;
} text_row;

static ll_status count_row(ngrams *g, const text_row *x) {
    uint64_t key[ORDER_MOST];
    ll_status status = LL_OK;
    for (int t = 0; t < x->length && !status; t++) {
        if (x->targets[t] < 0) continue;
        status = make_room(g, 2 * ORDER_MOST);
        if (!status) count(g, key, contexts(key, g, x->tokens, x->before + t), x->targets[t]);
    }
    return status;
}

/* ---- Probabilities ---- */

/* What is taken from counts of 1, 2 and more, and given to the shorter n-grams (Chen and Goodman 1999, equation 26).
 * Where so few n-grams are rare that nothing would be taken, it is that of the next smaller count: no token is
 * impossible. */
static void find_discounts(ngrams *g) {
    for (int n = 0; n < g->order; n++) {
        const int64_t *of = g->counts[n];
        const double Y = of[1] ? (double)of[1] / (double)(of[1] + 2 * of[2]) : 0.5;
        double last = Y;
        for (int k = 1; k <= 3; k++) {
            const double D = of[k] ? k - (k + 1) * Y * (double)of[k + 1] / (double)of[k] : 0;
            g->discount[n][k] = last = D > 0 ? D : last;
        }
    }
}

static double probability(const ngrams *g, const uint64_t *key, int most, int token) {
    double p = 1.0 / g->V;
    for (int n = 0; n <= most; n++) {
        const row *context = find(g, key[n]);
        if (!context->count) break; /* nor has a longer one occurred */
        const uint32_t count = find(g, with_token(key[n], token))->count;
        const double *D = g->discount[n], own = (double)count - D[count < 3 ? count : 3];
        double given = 0;
        for (int k = 1; k <= 3; k++) given += D[k] * context->followers[k - 1];
        p = (own + given * p) / context->count;
    }
    return p;
}

static void add_losses(const ngrams *g, const text_row *x, double *loss, int64_t *n) {
    uint64_t key[ORDER_MOST];
    for (int t = 0; t < x->length; t++) {
        if (x->targets[t] < 0) continue;
        *loss -= log(probability(g, key, contexts(key, g, x->tokens, x->before + t), x->targets[t]));
        ++*n;
    }
}

/* ---- Both splits ---- */

typedef struct {
    ngrams g;
    ll_reader *train, *test;
    ll_batch batch;
    int *text; /* (ORDER_MOST + T) the last row with the tokens before it: */
    int before, length;
    ll_done_fn *progress;
    void *arg;
    double loss; /* sum over the tokens of test */
    int64_t tokens;
} work;

/* Row b of batch i. Rows come in order, so that those of a text that is longer than a window continue each other. */
static text_row next_row(work *w, const ll_reader *reader, int64_t i, int b) {
    const size_t at = (size_t)b * (size_t)w->batch.T, length = (size_t)w->batch.lengths[b];
    int64_t offset = 0;
    ll_reader_offsets(reader, &offset, 1, i * w->batch.B + b);
    const int kept = offset ? ll_min_int(w->before + w->length, ORDER_MOST - 1) : 0;
    memmove(w->text, w->text + w->before + w->length - kept, (size_t)kept * sizeof *w->text);
    memcpy(w->text + kept, w->batch.tokens + at, length * sizeof *w->text);
    w->before = kept;
    w->length = (int)length;
    return (text_row){w->text, w->batch.targets + at, kept, (int)length};
}

/* Counts the rows of train, or adds the losses of those of test. before: batches of the other split that are done. */
static ll_status pass(work *w, const ll_reader *reader, int64_t before) {
    const int64_t batches = ll_reader_eval_batches(reader);
    const int64_t all = ll_reader_eval_batches(w->train) + ll_reader_eval_batches(w->test);
    ll_status status = LL_OK;
    for (int64_t i = 0; i < batches && !status; i++) {
        ll_reader_eval_batch(reader, &w->batch, i);
        for (int b = 0; b < w->batch.B && !status; b++) {
            const text_row x = next_row(w, reader, i, b);
            if (reader == w->train)
                status = count_row(&w->g, &x);
            else
                add_losses(&w->g, &x, &w->loss, &w->tokens);
        }
        if (!status) status = ll_progress_done(w->progress, w->arg, before + i + 1, all);
    }
    return status;
}

static ll_status check(const ll_recipe *recipe, int order) {
    if (order < 1 || order > ORDER_MOST)
        return ll_fail(LL_EINVAL, "n-grams of %d tokens; 1 to %d are possible", order, (int)ORDER_MOST);
    if (recipe->c.model.task != LL_TASK_LM)
        return ll_fail(LL_EINVAL, "n-grams predict text from left to right; they need a recipe with model.task=lm");
    return LL_OK;
}

ll_status ll_ngrams(const ll_recipe *recipe, int order, const char *split, ll_done_fn *progress, void *arg,
                    double *loss, int64_t *tokens) {
    LL_FLOAT_MODE;
    work w = {.g.order = order, .progress = progress, .arg = arg};
    const ll_config *c = &recipe->c;
    ll_status status = check(recipe, order);
    if (!status) status = ll_reader_open(&w.train, c, "train");
    if (!status) status = ll_reader_open_as(&w.test, c, split, ll_reader_vocabulary(w.train));
    if (!status && !ll_data_is_made(&c->data) && ll_reader_size(w.train) > COUNTED_MOST)
        status = ll_fail(LL_EINVAL, "the train split has %lld tokens; n-grams are counted in 10^9 at most",
                         (long long)ll_reader_size(w.train));
    if (!status) status = ll_batch_create(&w.batch, c);
    if (!status && !(w.text = ll_alloc((size_t)w.batch.T + ORDER_MOST, sizeof *w.text))) status = LL_ENOMEM;
    if (!status) w.g.V = ll_reader_vocab(w.train), status = make_room(&w.g, 1);
    if (!status) status = pass(&w, w.train, 0);
    if (!status) find_discounts(&w.g);
    if (!status) status = pass(&w, w.test, ll_reader_eval_batches(w.train));
    if (!status) *loss = w.loss / (double)w.tokens, *tokens = w.tokens;
    ll_batch_free(&w.batch);
    ll_reader_free(w.train);
    ll_reader_free(w.test);
    ll_free(w.text);
    ll_free(w.g.row);
    return status;
}
