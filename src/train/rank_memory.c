/* The memory that a rank takes for training: what its parts would allocate, counted by the functions that do. */
#include <math.h>
#include <stdio.h>

#include "base/integer.h"
#include "base/memory.h"
#include "longline-dist.h"
#include "train/teaching.h"
#include "train/train_internal.h"

static size_t floats_of(const ll_exchange_floats *f) { return f->gradients + f->received + 2 * f->own; }

/* Of the rank that takes most. */
static ll_status measure_exchange(ll_exchange_floats *to, const ll_model *model, const ll_shards *s,
                                  const ll_optimizer *o, int ranks, int at_once) {
    ll_exchange_plan plan;
    void *lists = NULL;
    ll_exchange_floats *each = ll_alloc((size_t)ranks, sizeof *each);
    ll_status status = each ? ll_exchange_plan_of(&plan, &lists, model, s, o, ranks, at_once) : LL_ENOMEM;
    if (!status) status = ll_exchange_measure(&plan, ranks, each);
    *to = (ll_exchange_floats){0};
    for (int r = 0; r < ranks && !status; r++)
        if (floats_of(&each[r]) > floats_of(to)) *to = each[r];
    ll_free(each);
    ll_free(lists);
    return status;
}

/* Activations of the largest shard, or of its part of the tokens. */
static ll_status measure_activations(size_t *bytes, const ll_model *model, const ll_shards *s) {
    ll_config part = model->recipe->c;
    part.train.batch = s->most;
    return ll_workspace_measure(bytes, model, ll_config_sequences(&part), part.train.length / s->row.count, 1,
                                s->row.count);
}

/* Activations of the page of a run, which tests the model. A launched run has its number of shards in its recipe. */
static ll_status measure_page(size_t *bytes, const ll_model *model, const ll_shards *s) {
    ll_config part = model->recipe->c;
    part.dist.shards = s->shards;
    part.train.batch = ll_shards_reading(&part);
    return ll_workspace_measure(bytes, model, ll_config_sequences(&part), part.train.length, 0, 1);
}

ll_status ll_page_most(size_t *bytes, const ll_model *model) {
    const ll_config *c = &model->recipe->c;
    const int ranks = ll_group_all().count;
    ll_shards shards;
    size_t page = 0;
    ll_status status = ll_shards_plan_for(&shards, c, 0, ranks, ll_dist_is_launched());
    if (!status) status = measure_activations(bytes, model, &shards);
    if (!status) status = measure_page(&page, model, &shards);
    if (!status) *bytes = ll_max_size(*bytes * (size_t)ll_shards_at_once(&shards, c, ranks, shards.count), page);
    return status;
}

/* States that windows pass on. A step needs one more block of them if it has several batches. */
static ll_status measure_states(size_t *bytes, const ll_model *model) {
    const ll_train_options *c = &model->recipe->c.train;
    return c->carry_state ? ll_carry_measure(bytes, model, c->batch, c->length, c->accumulate) : LL_OK;
}

static ll_status measure_teacher(size_t *bytes, const ll_config *c, const ll_shards *s) {
    ll_model *teacher = NULL;
    ll_status status = ll_teaching_load(&teacher, c);
    if (!status && teacher)
        status = ll_teacher_measure(bytes, teacher, s->most * ll_task_sequences(c->model.task), c->train.length,
                                    c->train.distil != LL_DISTIL_LOGITS);
    ll_model_free(teacher);
    return status;
}

/* The model of a recipe whose sizes come from the data, which are read for that as a run reads them. */
static ll_status sketch_for_data(ll_model **model, const ll_recipe *recipe) {
    ll_recipe *full = NULL;
    ll_reader *reader = NULL;
    char lacking[400];
    snprintf(lacking, sizeof lacking, "%s", ll_error());
    ll_status status = ll_recipe_copy(&full, recipe);
    if (!status) {
        status = ll_reader_open(&reader, &full->c, "train");
        if (status && status != LL_ENOMEM)
            status = ll_fail(LL_EINVAL, "%s; the data cannot be read: %s", lacking, ll_error());
    }
    if (!status) status = ll_fit_fill(full, reader);
    if (!status) status = ll_model_sketch(model, full);
    ll_reader_free(reader);
    ll_recipe_free(full);
    return status;
}

ll_status ll_dist_memory(const ll_recipe *recipe, int ranks, ll_rank_memory *to) {
    ll_model *model = NULL;
    ll_optimizer *o = NULL;
    ll_shards shards;
    ll_exchange_floats floats;
    size_t activations = 0, page = 0, states = 0, teacher = 0;
    const int launched = ranks > 0;
    if (!ranks) ranks = 1;
    ll_status status = ll_model_sketch(&model, recipe);
    if (status == LL_EINVAL && ll_fit_lacks_sizes(&recipe->c)) status = sketch_for_data(&model, recipe);
    if (!status) status = ll_optimizer_create(&o, model->param, model->count, 0);
    if (!status) status = ll_shards_plan_for(&shards, &model->recipe->c, 0, ranks, launched);
    const int at_once = status ? 1 : ll_shards_at_once(&shards, &model->recipe->c, ranks, shards.count);
    if (!status) status = measure_exchange(&floats, model, &shards, o, ranks, at_once);
    if (!status) status = measure_activations(&activations, model, &shards);
    if (!status) status = measure_page(&page, model, &shards);
    if (!status) status = measure_states(&states, model);
    if (!status) status = measure_teacher(&teacher, &model->recipe->c, &shards);
    if (!status) {
        const double bytes = sizeof(float);
        *to = (ll_rank_memory){.parameters = (double)ll_model_size(model).parameters,
                               .weights = bytes * (double)model->size,
                               .gradients = bytes * (double)floats.gradients,
                               .received = bytes * (double)floats.received,
                               .moments = 2 * bytes * (double)floats.own,
                               .activations = (double)activations * at_once,
                               .states = (double)states,
                               .teacher = (double)teacher};
        if (model->recipe->c.train.report) to->report = to->weights + fmax(0, (double)page - to->activations);
        to->total = to->weights + to->gradients + to->received + to->moments + to->activations + to->states +
                    to->teacher + to->report;
    }
    ll_optimizer_free(o);
    ll_model_free(model);
    return status;
}
