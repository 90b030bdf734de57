/* One training step. All its random numbers are functions of the step's number, so that step 1001 of a resumed run is
 * step 1001 of an uninterrupted one. */
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "base/float_mode.h"
#include "base/integer.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "base/random.h"
#include "base/text.h"
#include "train/train_internal.h"

enum { TRIED_MOST = 8192 }; /* tokens of a sequence that ll_engine_try reads */

/* What a step adds over ranks. Each leaf has a field; the others are zero, so that the order of the sum does not
 * matter. */
typedef struct {
    double *loss, *count, *tokens, *stop, *squares;
} sums;

static sums sums_of(const ll_engine *e) {
    const size_t n = (size_t)e->shards.leaves;
    double *at = e->sums;
    return (sums){at, at + n, at + 2 * n, at + 3 * n, at + 3 * n + 1};
}

static size_t sums_count(const ll_engine *e) { return ll_step_sums(e->shards.leaves, e->optimizer->pieces); }

ll_status ll_exchange_plan_of(ll_exchange_plan *plan, void **lists, const ll_model *model, const ll_shards *s,
                              const ll_optimizer *o, int ranks, int at_once) {
    const size_t pieces = o->pieces, count = (size_t)ranks;
    size_t *bound = ll_alloc(1, (pieces + 1) * sizeof *bound + 2 * count * sizeof(int));
    if (!bound) return LL_ENOMEM;
    int *first = (int *)(bound + pieces + 1), *leaves = first + count;
    for (int r = 0; r < ranks; r++) ll_shards_leaves(s, r, &first[r], &leaves[r]);
    for (size_t p = 0; p < pieces; p++) bound[p] = o->piece[p].offset;
    bound[pieces] = model->size;
    *plan = (ll_exchange_plan){.leaves = s->leaves, .first = first, .count = leaves, .pieces = pieces, .bound = bound};
    plan->at_once = at_once;
    plan->fast = model->recipe->c.dist.reduce == LL_REDUCE_FAST;
    *lists = bound;
    return LL_OK;
}

static ll_status create_exchange(ll_engine *e) {
    const ll_optimizer *o = e->optimizer;
    ll_exchange_plan plan;
    void *lists = NULL;
    ll_status status = ll_exchange_plan_of(&plan, &lists, e->model, &e->shards, o, ll_group_all().count, e->at_once);
    if (!status) status = ll_exchange_create(&e->exchange, &plan);
    for (size_t p = 0; p < o->pieces && !status; p++) o->piece[p].own = ll_exchange_owns(e->exchange, p);
    ll_free(lists);
    return status;
}

static int redraws(const ll_model *model) {
    return model->c->attention.kernel == LL_KERNEL_FAVOR && model->c->attention.redraw > 0;
}

/* Number of batches of a step. */
static int batches_of(const ll_engine *e) {
    const int accumulate = e->model->recipe->c.train.accumulate;
    return ll_max_int(accumulate, 1);
}

/* The states that windows pass on are those of all rows of a batch, so one process must have the batch in one shard. */
static ll_status create_carry(ll_engine *e, const ll_config *c) {
    if (e->shards.row.count > 1)
        return ll_fail(LL_EINVAL,
                       "train.carry-state needs whole sequences, and here %d ranks share each; use one process, with "
                       "dist.sequence=1",
                       e->shards.row.count);
    if (e->shards.leaves > 1)
        return ll_fail(LL_EINVAL,
                       "train.carry-state needs the whole batch in one shard, and here it has %d; use one process, or "
                       "set dist.shards=1",
                       e->shards.leaves);
    const ll_status status = ll_carry_create(&e->carry, e->model, c->train.batch, c->train.length, batches_of(e));
    if (status) return status;
    e->before = ll_alloc((size_t)c->train.batch, sizeof *e->before);
    return e->before ? LL_OK : LL_ENOMEM;
}

static ll_status create_worker(ll_worker *w, ll_engine *e, const ll_config *c) {
    ll_config shard = *c; /* of a whole one, then of this rank's part of its sequences */
    const int length = c->train.length / e->shards.row.count;
    shard.train.batch = e->shards.most;
    ll_status status = ll_workspace_create(&w->ws, e->model, ll_config_sequences(&shard), length, 1);
    if (!status) status = ll_shards_share(&e->shards, w->ws);
    if (!status) status = ll_batch_create(&w->batch, &shard);
    shard.train.length = length;
    if (!status && e->shards.row.count > 1) status = ll_batch_create(&w->part, &shard);
    return status;
}

static ll_status create_workers(ll_engine *e, const ll_config *c) {
    e->worker = ll_alloc((size_t)e->at_once, sizeof *e->worker);
    ll_status status = e->worker ? LL_OK : LL_ENOMEM;
    for (int i = 0; i < e->at_once && !status; i++) status = create_worker(&e->worker[i], e, c);
    return status;
}

static void free_workers(ll_engine *e) {
    for (int i = 0; e->worker && i < e->at_once; i++) {
        ll_workspace_free(e->worker[i].ws);
        ll_batch_free(&e->worker[i].batch);
        ll_batch_free(&e->worker[i].part);
    }
    ll_free(e->worker);
}

ll_status ll_engine_create(ll_engine **engine, ll_model *model) {
    const ll_config *c = &model->recipe->c;
    ll_engine *e = ll_alloc(1, sizeof *e);
    if (!e) return LL_ENOMEM;
    e->model = model;
    ll_status status = ll_shards_plan(&e->shards, c);
    if (status) {
        ll_free(e);
        return status;
    }
    e->at_once = ll_shards_at_once(&e->shards, c, ll_group_all().count, e->shards.count);
    status = create_workers(e, c);
    if (!status) status = ll_optimizer_create(&e->optimizer, model->param, model->count, model->size);
    if (!status) status = create_exchange(e);
    if (!status && !(e->sums = ll_alloc(sums_count(e), sizeof *e->sums))) status = LL_ENOMEM;
    if (!status && c->train.carry_state) status = create_carry(e, c);
    if (!status && redraws(model) && !(e->draws = ll_alloc(ll_model_redraw_floats(model), sizeof *e->draws)))
        status = LL_ENOMEM;
    if (status) {
        ll_engine_free(e);
        return status;
    }
    ll_optimizer_begin(e->optimizer);
    e->grad = ll_exchange_block(e->exchange);
    *engine = e;
    return LL_OK;
}

ll_status ll_engine_teach(ll_engine *e, const ll_model *teacher) {
    const ll_config *c = &e->model->recipe->c;
    const int sequences = e->shards.most * ll_task_sequences(c->model.task);
    ll_status status = ll_model_digest(teacher, e->taught_by);
    if (!status)
        status = ll_teacher_create(&e->teacher, teacher, e->model, sequences, c->train.length,
                                   c->train.distil != LL_DISTIL_LOGITS);
    return status;
}

void ll_engine_free(ll_engine *e) {
    if (!e) return;
    ll_teacher_free(e->teacher);
    free_workers(e);
    ll_optimizer_free(e->optimizer);
    ll_carry_free(e->carry);
    ll_free(e->before);
    ll_exchange_free(e->exchange);
    ll_free(e->sums);
    ll_free(e->draws);
    ll_free(e);
}

void ll_engine_rest(ll_engine *e) {
    for (int i = 0; i < e->at_once; i++) ll_workspace_rest(e->worker[i].ws);
}

/* When the learning rate has fallen below this share of its highest, new random features would not be learned any
 * more, nor after the last step. It is as low in a warm-up, but there the model has yet to learn. */
static const double LEARNABLE = 0.1;

static int too_late(const ll_config *c, int64_t step) {
    if (step > c->train.steps) return 1;
    const int falls = c->train.schedule == LL_LR_LINEAR || c->train.schedule == LL_LR_COSINE;
    return falls && step > c->train.warmup && ll_schedule_rate(c, step) < LEARNABLE * c->train.learning_rate;
}

/* Projections change before updates redraw + 1, 2 redraw + 1, ..., so `redraw` updates share one draw. */
static int redraw_due(const ll_model *model, int64_t step) {
    const int64_t every = model->c->attention.redraw, done = step - 1;
    return redraws(model) && done > 0 && done % every == 0 && !too_late(&model->recipe->c, step);
}

ll_status ll_step_redraw(ll_model *model, int64_t step, float *block) {
    if (!redraw_due(model, step)) return LL_OK;
    return ll_model_redraw_in(model, (step - 1) / model->c->attention.redraw, block);
}

/* A state belongs to the features of its draw, and is cleared with it. */
static ll_status redraw(ll_engine *e, int64_t step) {
    const ll_status status = ll_step_redraw(e->model, step, e->draws);
    if (status || !e->carry || !redraw_due(e->model, step)) return status;
    for (int b = 0; b < e->carry->B; b++) ll_carry_clear(e->carry, b);
    return LL_OK;
}

static void on_gradient(void *arg, size_t from, size_t to) { ll_exchange_ready(arg, from, to); }

/* A reader counts the bytes that it has read, so threads read in turn. */
static pthread_mutex_t reading = PTHREAD_MUTEX_INITIALIZER;

/* Reads shard number `shard` of batch number `number`: this rank's part of it. */
static const ll_batch *read_shard(const ll_engine *e, ll_worker *w, const ll_reader *reader, int shard,
                                  int64_t number) {
    const ll_config *c = &e->model->recipe->c;
    const int first = ll_shard_begin(&e->shards, shard), n = ll_shard_begin(&e->shards, shard + 1) - first;
    w->batch.B = n * ll_task_sequences(c->model.task);
    w->batch.first = first * ll_task_sequences(c->model.task);
    pthread_mutex_lock(&reading);
    if (reader) ll_reader_rows(reader, &w->batch, (uint64_t)c->train.seed, number * c->train.batch + first);
    pthread_mutex_unlock(&reading);
    return ll_shards_part(&e->shards, &w->batch, &w->part);
}

/* One batch of a shard. Its windows may continue from the ones before. */
static ll_status run_batch(ll_engine *e, ll_workspace *ws, const ll_reader *reader, const ll_batch *b, int64_t step,
                           int64_t number, float *grad, float scale, ll_tally *tally) {
    ll_carry *carry = reader ? e->carry : NULL;
    if (carry) {
        ll_reader_offsets(reader, e->before, carry->B, number);
        ll_carry_begin(carry, b, e->before);
    }
    ll_workspace_carry(ws, carry);
    const ll_status status = e->teacher ? ll_teaching_run(e->teacher, e->model, ws, b, step, grad, scale, number, tally)
                                        : ll_model_run(e->model, ws, b, grad, scale, number, tally);
    ll_workspace_carry(ws, NULL);
    if (carry && !status) ll_carry_advance(carry, b);
    return status;
}

/* Tokens of the model in a batch; of images with patches these, not their pixels. */
static int64_t tokens_of(const ll_model *m, const ll_batch *b) {
    int64_t n = 0;
    for (int s = 0; s < b->B; s++)
        n += m->c->model.patch ? ll_config_tokens(m->c) : b->lengths[s] + (b->source ? b->source_lengths[s] : 0);
    return n;
}

/* What the shards of a step share. They are computed in rounds. */
typedef struct {
    ll_engine *e;
    const ll_reader *reader;
    int64_t step;
    float scale;
    sums to;
    int first, n;      /* shards of this round */
    int round, rounds; /* for its progress */
} step_work;

/* Adds the gradient of a round's shard number i, over all batches of the step, to its leaf. Of several, the first tells
 * of the progress. */
static ll_status run_shard(const step_work *s, int i) {
    ll_engine *e = s->e;
    ll_worker *w = &e->worker[i];
    const int batches = batches_of(e), shard = s->first + i, leaf = e->shards.row.me * e->shards.shards + shard;
    const int last = shard + 1 == e->shards.first + e->shards.count && s->n == 1;
    float *const grad = ll_exchange_leaf(e->exchange, i);
    ll_tally tally = {0};
    ll_status status = LL_OK;
    for (int k = 0; k < batches && !status; k++) {
        const int64_t number = (s->step - 1) * batches + k;
        const ll_batch *b = read_shard(e, w, s->reader, shard, number);
        ll_workspace_part(w->ws, (int64_t)s->round * batches + k, i ? 0 : (int64_t)s->rounds * batches);
        ll_workspace_on_gradient(w->ws, last && k + 1 == batches ? on_gradient : NULL, e->exchange);
        status = run_batch(e, w->ws, s->reader, b, s->step, number, grad, s->scale, &tally);
        s->to.tokens[leaf] += (double)tokens_of(e->model, b);
    }
    ll_workspace_part(w->ws, 0, 1);
    s->to.loss[leaf] = tally.loss;
    s->to.count[leaf] = (double)tally.count;
    return status;
}

static void shard_task(void *arg, size_t i, int thread) {
    const step_work *s = arg;
    ll_worker *w = &s->e->worker[i];
    (void)thread;
    w->status = run_shard(s, (int)i);
    if (w->status) ll_format_text(w->error, sizeof w->error, "%s", ll_error());
}

/* One shard on all threads; or several at the same time, each on one thread, with the bits that they have alone. */
static ll_status run_round(const step_work *s) {
    const ll_engine *e = s->e;
    ll_status status = LL_OK;
    ll_parallel_among(s->n, (size_t)s->n, shard_task, (void *)(size_t)s);
    for (int i = 0; i < s->n && !status; i++) {
        if (e->worker[i].status) status = ll_fail(e->worker[i].status, "%s", e->worker[i].error);
        ll_exchange_added(e->exchange);
    }
    return status;
}

/* How many of the shards that are left the next round has. */
static int next_round(const ll_engine *e, int left) {
    const ll_config *c = &e->model->recipe->c;
    return ll_min_int(e->at_once, ll_shards_at_once(&e->shards, c, ll_group_all().count, left));
}

static ll_status run_shards(step_work *s) {
    const ll_engine *e = s->e;
    const int end = e->shards.first + e->shards.count;
    ll_status status = LL_OK;
    for (int left = e->shards.count; left > 0; left -= next_round(e, left)) s->rounds++;
    for (s->first = e->shards.first; s->first < end && !status; s->first += s->n, s->round++) {
        s->n = next_round(e, end - s->first);
        status = run_round(s);
    }
    return status;
}

static ll_status gradient(ll_engine *e, const ll_reader *reader, int64_t step, ll_gradient *result) {
    const ll_config *c = &e->model->recipe->c;
    const double expected = (double)batches_of(e) * c->train.batch * (ll_config_per_token(c) ? c->train.length : 1);
    const ll_group all = ll_group_all();
    sums s = sums_of(e);
    double loss = 0, count = 0, tokens = 0;
    ll_status status = redraw(e, step);
    ll_exchange_begin(e->exchange);
    memset(e->sums, 0, sums_count(e) * sizeof *e->sums);
    step_work work = {.e = e, .reader = reader, .step = step, .scale = (float)(1 / expected), .to = s};
    if (!status) status = run_shards(&work);
    if (!status) status = ll_exchange_reduce_scatter(e->exchange);
    if (status) return status;
    ll_optimizer_squares(e->optimizer, e->grad, s.squares);
    *s.stop = e->stop;
    status = ll_group_all_reduce(&all, e->sums, sums_count(e));
    if (status) return status;
    for (int i = 0; i < e->shards.leaves; i++) loss += s.loss[i], count += s.count[i], tokens += s.tokens[i];
    e->stop = *s.stop > 0;
    /* The number of counted targets is known only now. If all count, as in text, the scale is 1. */
    const double scale = count > 0 ? expected / count : 1;
    *result = (ll_gradient){.loss = loss, .count = (int64_t)count, .tokens = (int64_t)tokens, .scale = scale};
    result->norm = scale * ll_optimizer_root(e->optimizer, s.squares);
    return LL_OK;
}

/* A step without a result, or whose result is not finite, is made again or never: its windows have then passed nothing
 * on, and the model has the features of the step before. */
ll_status ll_engine_gradient(ll_engine *e, const ll_reader *reader, int64_t step, ll_gradient *result) {
    LL_FLOAT_MODE;
    const int64_t redraws = e->model->redraws;
    if (e->carry) ll_carry_begin_step(e->carry);
    const ll_status status = gradient(e, reader, step, result);
    if (!status && isfinite(result->loss) && isfinite(result->norm)) return LL_OK;
    if (e->carry) ll_carry_undo_step(e->carry);
    if (e->model->redraws != redraws) ll_model_swap_projections(e->model, redraws, e->draws);
    return status;
}

ll_status ll_engine_update(ll_engine *e, int64_t step, const ll_gradient *g) {
    LL_FLOAT_MODE;
    const ll_config *c = &e->model->recipe->c;
    e->optimizer->attention_alone = ll_teaching_attention(c);
    ll_optimizer_update(e->optimizer, c, e->model->data, e->grad, g->scale * ll_clip_scale(g->norm, c->train.clip),
                        step);
    return ll_exchange_all_gather(e->exchange, e->model->data);
}

ll_status ll_engine_try(ll_engine *e, const ll_reader *reader, int64_t step, ll_tally *tally) {
    LL_FLOAT_MODE;
    if (e->shards.first) return LL_OK;
    ll_worker *w = &e->worker[0];
    const ll_batch *b = read_shard(e, w, reader, 0, step * batches_of(e));
    /* Who stops a run does not wait for a pass over a million tokens. */
    for (int i = 0; i < w->batch.B && e->shards.row.count == 1; i++)
        w->batch.lengths[i] = ll_min_int(w->batch.lengths[i], TRIED_MOST);
    return ll_model_run(e->model, w->ws, b, NULL, 0, 0, tally);
}

ll_status ll_engine_collect(ll_engine *e) {
    ll_status status = ll_exchange_gather(e->exchange, e->optimizer->m);
    return status ? status : ll_exchange_gather(e->exchange, e->optimizer->v);
}
