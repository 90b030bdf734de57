/* The time of a training step, without data. */
#include "base/memory.h"
#include "base/random.h"
#include "train/train_internal.h"
#include "longline-lab.h"

/* Random tokens: the time of a step does not depend on their values. */
static void fill(ll_batch *b, const ll_config *c) {
    const uint64_t stream = ll_stream_id(LL_RANDOM_BATCH, 0, 0);
    const size_t n = (size_t)b->B * (size_t)b->T;
    const size_t targets = ll_config_per_token(c) ? n : (size_t)(b->B / ll_task_sequences(c->model.task));
    const uint32_t range = (uint32_t)(ll_config_per_token(c) ? c->model.vocab : c->model.classes);
    for (size_t i = 0; i < n; i++)
        b->tokens[i] = (int)ll_below((uint32_t)c->model.vocab, (uint64_t)c->train.seed, stream, i);
    for (size_t i = 0; i < targets; i++) b->targets[i] = (int)ll_below(range, (uint64_t)c->train.seed, stream, n + i);
    for (int s = 0; s < b->B; s++) b->lengths[s] = b->T;
    for (int s = 0; b->source && s < b->B; s++) b->source_lengths[s] = b->S;
    for (size_t i = 0; b->source && i < n; i++) b->source[i] = b->tokens[n - 1 - i];
}

static ll_status time_steps(ll_engine *e, int repeats, double *times) {
    ll_gradient g;
    for (int i = -1; i < repeats; i++) { /* number -1 warms up */
        const double start = ll_now();
        ll_status status = ll_engine_gradient(e, NULL, 1, &g);
        if (status) return status;
        if ((status = ll_engine_update(e, 1, &g))) return status;
        if (i >= 0) times[i] = ll_now() - start;
    }
    return LL_OK;
}

ll_status ll_train_step_time(const ll_recipe *recipe, int repeats, double *seconds) {
    const ll_config *c = &recipe->c;
    if (repeats < 1) return ll_fail(LL_EINVAL, "%d repeats of a step; at least 1 is needed", repeats);
    if (c->model.vocab < 1 || (!ll_config_per_token(c) && c->model.classes < 1))
        return ll_fail(LL_EINVAL, "without data, model.vocab and model.classes must be set to be timed");
    ll_model *model = NULL;
    ll_engine *engine = NULL;
    double *times = ll_alloc((size_t)repeats, sizeof *times);
    ll_status status = times ? ll_model_create(&model, recipe) : LL_ENOMEM;
    if (!status) status = ll_engine_create(&engine, model);
    if (!status) {
        for (int i = 0; i < engine->at_once; i++) fill(&engine->worker[i].batch, c);
        status = time_steps(engine, repeats, times);
    }
    if (!status) *seconds = ll_median(times, repeats);
    ll_engine_free(engine);
    ll_model_free(model);
    ll_free(times);
    return status;
}
