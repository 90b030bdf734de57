/* The loss on data that was not trained on. */
#include <float.h>
#include <math.h>
#include <stdio.h>

#include "base/finite.h"
#include "base/float_mode.h"
#include "base/memory.h"
#include "base/versioned.h"
#include "train/train_internal.h"

int64_t ll_evaluate_batches(const ll_reader *reader, int max_batches) {
    const int64_t all = ll_reader_eval_batches(reader);
    return max_batches > 0 && max_batches < all ? max_batches : all;
}

/* Evaluated batches are spread over the split, because its beginning may be one file or one class. */
int64_t ll_evaluated_batch(const ll_reader *reader, int64_t i, int64_t n) {
    return i * ll_reader_eval_batches(reader) / n;
}

ll_evaluator ll_evaluator_alone(const ll_model *model, ll_workspace *ws, const ll_reader *reader, ll_batch *b) {
    const int capacity = b->B / ll_task_sequences(model->recipe->c.model.task);
    return (ll_evaluator){.model = model, .ws = ws, .reader = reader, .b = b, .capacity = capacity};
}

static ll_status create_evaluator(ll_evaluator *e, const ll_model *model, ll_workspace *ws, const ll_reader *reader,
                                  ll_batch *b) {
    const ll_config *c = &model->recipe->c;
    *e = ll_evaluator_alone(model, ws, reader, b);
    if (ll_group_all().count == 1) return LL_OK;
    const size_t targets = ll_config_per_token(c) ? (size_t)c->train.length : 1;
    e->each = ll_alloc((size_t)c->train.batch * targets, sizeof *e->each);
    return e->each ? LL_OK : LL_ENOMEM;
}

ll_status ll_evaluator_of(ll_evaluator *e, ll_engine *engine, const ll_reader *reader) {
    ll_status status = create_evaluator(e, engine->model, engine->worker->ws, reader, &engine->worker->batch);
    if (engine->shards.row.count > 1) e->shards = &engine->shards, e->part = &engine->worker->part;
    return status;
}

void ll_evaluator_free(ll_evaluator *e) {
    ll_free(e->each);
    e->each = NULL;
}

/* Reads examples `first` .. of batch number `index`, as many as there is memory for; returns how many. */
static int read_part(const ll_evaluator *e, int64_t index, int first) {
    const ll_config *c = &e->model->recipe->c;
    const int batch = c->train.batch, width = ll_task_sequences(c->model.task);
    const int n = first + e->capacity < batch ? e->capacity : batch - first;
    e->b->B = n * width;
    e->b->first = first * width;
    ll_reader_eval_rows(e->reader, e->b, index * batch + first);
    return n;
}

int64_t ll_batch_counted(int task, const ll_batch *b) {
    const int per_token = ll_task_per_token(task);
    int64_t count = 0;
    for (int i = 0; i < b->B / ll_task_sequences(task); i++)
        for (int t = 0; t < (!per_token ? 1 : b->lengths ? b->lengths[i] : b->T); t++)
            count += b->targets[per_token ? (size_t)i * (size_t)b->T + (size_t)t : (size_t)i] >= 0;
    return count;
}

ll_status ll_evaluator_check(const ll_evaluator *e, int max_batches) {
    const ll_config *c = &e->model->recipe->c;
    const int64_t n = ll_evaluate_batches(e->reader, max_batches);
    for (int64_t i = 0; i < n; i++)
        for (int first = 0; first < c->train.batch; first += e->capacity) {
            read_part(e, ll_evaluated_batch(e->reader, i, n), first);
            if (ll_batch_counted(c->model.task, e->b)) return LL_OK;
        }
    return ll_fail(LL_EINVAL,
                   "the valid split has nothing to predict in the %lld batches of an evaluation; raise "
                   "train.eval-batches, or give a larger data.valid",
                   (long long)n);
}

static const float NOT_COUNTED = -FLT_MAX;

/* Batch i of n, in as many parts as its memory needs. A row's loss does not depend on the other rows. `each` receives
 * the losses of the counted targets one after the other. */
static ll_status run_batch(ll_tally *tally, const ll_evaluator *e, int64_t i, int64_t n, float *each) {
    const ll_config *c = &e->model->recipe->c;
    const int64_t index = ll_evaluated_batch(e->reader, i, n), parts = (c->train.batch - 1) / e->capacity + 1;
    const size_t whole = ll_config_per_token(c) ? (size_t)c->train.length : 1;
    const size_t targets = e->shards ? (size_t)e->part->T : whole;
    size_t kept = 0;
    ll_status status = LL_OK;
    for (int first = 0; first < c->train.batch && !status; first += e->capacity) {
        const int rows = read_part(e, index, first);
        float *part = each ? each + (size_t)first * targets : NULL;
        for (size_t j = 0; each && j < (size_t)rows * targets; j++) part[j] = NOT_COUNTED;
        tally->each = part;
        ll_workspace_part(e->ws, i * parts + first / e->capacity, n * parts);
        const ll_batch *b = e->shards ? ll_shards_part(e->shards, e->b, e->part) : e->b;
        status = ll_model_run(e->model, e->ws, b, NULL, 0, 0, tally);
        for (size_t j = 0; each && j < (size_t)rows * targets; j++)
            if (part[j] != NOT_COUNTED) each[kept++] = part[j];
    }
    tally->each = NULL;
    ll_workspace_part(e->ws, 0, 1);
    return status;
}

/* The other ranks send their losses to rank 0, which adds them one by one, as a single process does. */
static ll_status hand_over(ll_tally *tally, const ll_tally *own, float *each, int from) {
    const int me = ll_dist_ranks().rank;
    ll_tally copy = *own, *found = &copy;
    ll_status status = ll_dist_collect(found, sizeof *found, from);
    if (!status) status = ll_dist_collect(each, (size_t)found->count * sizeof *each, from);
    if (status || me) return status;
    for (int64_t i = 0; i < found->count; i++) tally->loss += each[i];
    tally->count += found->count;
    tally->correct += found->correct;
    tally->sequences += found->sequences;
    tally->exact += found->exact;
    return LL_OK;
}

ll_status ll_evaluate_batch(ll_tally *tally, const ll_evaluator *e, int64_t i, int64_t n) {
    LL_FLOAT_MODE;
    const ll_ranks ranks = ll_dist_ranks();
    const int width = e->shards ? e->shards->row.count : 1; /* number of ranks that share a batch */
    const int turn = (int)(i % (ranks.size / width)) * width;
    ll_tally found = {.classes = tally->classes};
    if (!e->each) return run_batch(tally, e, i, n, NULL);
    ll_status status = LL_OK;
    if (ranks.rank >= turn && ranks.rank < turn + width) status = run_batch(&found, e, i, n, e->each);
    for (int r = turn; r < turn + width && !status; r++) status = hand_over(tally, &found, e->each, r);
    return status;
}

ll_status ll_evaluate_share(ll_tally *tally) {
    const ll_group all = ll_group_all();
    return ll_group_broadcast(&all, tally, sizeof *tally, 0);
}

/* The share of the tokens to predict that are unknown words or pieces, token 0. NaN where no token stands for those. */
static ll_status count_unknown(double *share, const ll_config *c, const ll_reader *reader, ll_batch *b, int64_t n) {
    *share = NAN;
    if (c->model.task != LL_TASK_LM || (c->data.format != LL_DATA_WORDS && c->data.format != LL_DATA_PIECES))
        return LL_OK;
    int64_t *count = ll_alloc((size_t)ll_reader_vocab(reader), sizeof *count);
    double all = 0;
    if (!count) return LL_ENOMEM;
    for (int64_t i = 0; i < n; i++) ll_reader_count(reader, b, ll_evaluated_batch(reader, i, n), count);
    for (int v = 0; v < ll_reader_vocab(reader); v++) all += (double)count[v];
    if (all > 0) *share = (double)count[0] / all;
    ll_free(count);
    return LL_OK;
}

/* Of a classifier: the share of the most frequent class, and the mean over classes of the share that is right. counts:
 * as in ll_tally. */
static void weigh_classes(ll_evaluation *e, const double *counts, int classes) {
    double all = 0, most = 0, right = 0, seen = 0;
    for (int i = 0; i < classes; i++) {
        const double n = counts[2 * i];
        all += n;
        most = fmax(most, n);
        if (n > 0) right += counts[2 * i + 1] / n, seen++;
    }
    e->majority = most / all;
    e->balanced = right / seen;
}

/* A word is one token of a model of words and several of a model of bytes. Such models compare only by losses a word or
 * byte of the text. */
static ll_evaluation sum_up(const ll_config *c, const ll_reader *reader, const ll_tally *tally, double unknown,
                            double seconds) {
    const double loss = tally->loss / (double)tally->count;
    double words = 0, bytes = 0;
    int64_t texts, cut;
    ll_reader_cut(reader, &texts, &cut);
    if (c->model.task == LL_TASK_LM) ll_reader_units(reader, &words, &bytes);
    return (ll_evaluation){.loss = loss,
                           .bits_per_token = loss / M_LN2,
                           .accuracy = (double)tally->correct / (double)tally->count,
                           .count = tally->count,
                           .sequences = tally->sequences,
                           .exact = tally->sequences ? (double)tally->exact / (double)tally->sequences : 0,
                           .seconds = seconds,
                           .bits_per_word = words > 0 ? loss / M_LN2 / words : NAN,
                           .bits_per_byte = bytes > 0 ? loss / M_LN2 / bytes : NAN,
                           .unknown = unknown,
                           .left_out = ll_reader_left_out(reader),
                           .majority = NAN,
                           .balanced = NAN,
                           .texts = texts,
                           .cut = cut};
}

/* A sum that is not finite stays so. batch: the last one in it; 0: all. */
static ll_status check_loss(const ll_tally *tally, const char *split, int64_t batch) {
    char place[40] = "on ";
    if (isfinite(tally->loss)) return LL_OK;
    if (batch) snprintf(place, sizeof place, "in batch %lld of ", (long long)batch);
    return ll_fail(LL_EDIVERGED, "the loss became %s %s%s: the model's weights are too large; take another",
                   ll_name_infinite(tally->loss), place, split);
}

static ll_status evaluate(ll_model *model, const char *split, int max_batches, ll_evaluation *result, int alone) {
    LL_FLOAT_MODE;
    const ll_config *c = &model->recipe->c;
    ll_config part = *c; /* of a batch, which is read at a time */
    const double start = ll_now();
    ll_reader *reader = NULL;
    ll_workspace *ws = NULL;
    ll_batch batch = {0};
    ll_tally tally = {0};
    ll_evaluator e = {0};
    const int classes = ll_config_per_token(c) ? 0 : c->model.classes;
    const ll_group all = ll_group_all();
    if (max_batches < 0)
        return ll_fail(LL_EINVAL, "evaluation of %d batches; it must be 0, all of them, or more", max_batches);
    ll_status status = ll_struct_check(result, sizeof *result, "ll_evaluation");
    if (!status) status = ll_reader_open_for(&reader, model->recipe, split, &model->vocabulary);
    if (!status) status = ll_fit_check(c, reader, 1);
    part.train.batch = ll_shards_reading(c);
    if (!status) status = ll_batch_create(&batch, &part);
    if (!status) status = ll_workspace_create(&ws, model, ll_config_sequences(&part), c->train.length, 0);
    if (!status && alone) e = ll_evaluator_alone(model, ws, reader, &batch);
    if (!status && !alone) status = create_evaluator(&e, model, ws, reader, &batch);
    double *counts = status ? NULL : ll_alloc((size_t)classes, 2 * sizeof *counts); /* of this rank */
    if (!status && !counts) status = LL_ENOMEM;
    tally.classes = classes ? counts : NULL;
    if (!alone) status = ll_group_agree(&all, status);
    if (!alone && !status) status = ll_same_data(model, reader);
    const int64_t n = status ? 0 : ll_evaluate_batches(reader, max_batches);
    for (int64_t i = 0; i < n && !status; i++) {
        status = ll_evaluate_batch(&tally, &e, i, n);
        if (!status && (alone || all.count == 1)) status = check_loss(&tally, split, i + 1);
    }
    if (!status && !alone) status = ll_evaluate_share(&tally);
    if (!status && !alone && classes) status = ll_group_all_reduce(&all, counts, 2 * (size_t)classes);
    if (!status) status = check_loss(&tally, split, 0); /* on all ranks: rank 0 alone has had the sum so far */
    if (!status && tally.count == 0) status = ll_fail(LL_EINVAL, "the %s split has nothing to predict", split);
    double unknown = NAN;
    if (!status) status = count_unknown(&unknown, c, reader, &batch, n);
    if (!status) {
        ll_evaluation found = sum_up(c, reader, &tally, unknown, ll_now() - start);
        if (classes) weigh_classes(&found, counts, classes);
        ll_struct_give(result, sizeof *result, &found);
    }
    ll_free(counts);
    ll_evaluator_free(&e);
    ll_workspace_free(ws);
    ll_batch_free(&batch);
    ll_reader_free(reader);
    return status;
}

ll_status ll_evaluate(ll_model *model, const char *split, int max_batches, ll_evaluation *result) {
    return evaluate(model, split, max_batches, result, 0);
}

ll_status ll_evaluate_alone(ll_model *model, const char *split, int max_batches, ll_evaluation *result) {
    return evaluate(model, split, max_batches, result, 1);
}
