/* Creates, frees and describes a model. */
#include <math.h>
#include <string.h>

#include "base/float_mode.h"
#include "base/integer.h"
#include "base/memory.h"
#include "attention/operator.h"
#include "model/network.h"

ll_status ll_model_create(ll_model **out, const ll_recipe *recipe) {
    return ll_model_create_from(out, recipe, NULL, NULL);
}

static ll_status finish(ll_model **out, ll_model *m, ll_status status) {
    if (status) {
        ll_model_free(m);
        return status;
    }
    *out = m;
    return LL_OK;
}

ll_status ll_model_plan(ll_model **out, const ll_recipe *recipe) {
    ll_model *m = ll_alloc(1, sizeof *m);
    if (!m) return LL_ENOMEM;
    ll_status status = ll_recipe_copy(&m->recipe, recipe);
    if (!status) status = ll_model_read_recipe(m);
    if (!status) status = ll_params_plan(m);
    return finish(out, m, status);
}

ll_status ll_model_create_from(ll_model **out, const ll_recipe *recipe, const ll_model *from, char **summary) {
    LL_FLOAT_MODE;
    ll_model *m = NULL;
    ll_status status = ll_model_plan(&m, recipe);
    if (!status) status = ll_params_allocate(m);
    if (!status) {
        ll_params_init(m);
        if (from) status = ll_params_adopt(m, from, summary);
        if (from && !status) status = ll_origin_copy(m, from);
    }
    if (!status) status = ll_operators_create(m, NULL, from);
    return finish(out, m, status);
}

/* Memory that nobody writes to is not taken. */
static ll_status sketch_params(ll_model *m) {
    size_t largest = 0;
    for (int i = 0; i < m->count; i++)
        largest = ll_max_size(largest, (size_t)m->param[i].rows * (size_t)m->param[i].cols);
    m->data = ll_alloc(largest, sizeof *m->data);
    for (int i = 0; i < m->count; i++) m->param[i].value = m->data;
    return m->data ? LL_OK : LL_ENOMEM;
}

ll_status ll_model_sketch(ll_model **out, const ll_recipe *recipe) {
    ll_model *m = NULL;
    ll_status status = ll_model_plan(&m, recipe);
    if (!status) status = sketch_params(m);
    if (!status) status = ll_operators_create(m, NULL, NULL);
    return finish(out, m, status);
}

ll_status ll_model_read_recipe(ll_model *m) {
    m->c = &m->config;
    const ll_status status = ll_recipe_model(m->recipe, &m->config);
    return status ? status : ll_sinus_create(m);
}

void ll_model_free(ll_model *m) {
    if (!m) return;
    ll_operators_free(m);
    ll_quantized_free(m->quantized);
    ll_free(m->sinusoid_rates);
    ll_free(m->data);
    ll_safetensors_free(m->file);
    ll_free(m->param);
    ll_free(m->operator_tensor);
    ll_bytes_free(&m->vocabulary);
    ll_origin_free(m);
    ll_recipe_free(m->recipe);
    ll_free(m);
}

ll_status ll_model_keep(ll_model *m, const ll_bytes *vocabulary) {
    ll_bytes copy = {0};
    if (vocabulary->size) {
        if (!(copy.data = ll_alloc(vocabulary->size + 1, 1))) return LL_ENOMEM;
        memcpy(copy.data, vocabulary->data, vocabulary->size);
        copy.size = vocabulary->size;
    }
    ll_bytes_free(&m->vocabulary);
    m->vocabulary = copy;
    return LL_OK;
}

const ll_recipe *ll_model_recipe(const ll_model *m) {
    return m->recipe;
}

void ll_model_watch(ll_model *m, ll_done_fn *progress, void *arg) {
    m->progress = progress;
    m->progress_arg = arg;
}

ll_model_sizes ll_model_size(const ll_model *m) {
    ll_model_sizes sizes = {.vocab = m->c->model.vocab,
                            .layers = m->c->model.layers,
                            .width = m->c->model.width,
                            .checked = m->checked,
                            .block = m->size};
    for (int i = 0; i < m->count; i++) sizes.parameters += (size_t)m->param[i].rows * (size_t)m->param[i].cols;
    if (m->c->model.task == LL_TASK_CLASSIFY) sizes.classes = m->c->model.classes;
    return sizes;
}

ll_tensor ll_model_tensor(const ll_model *m, int i) {
    if (i < 0 || i >= m->count) return (ll_tensor){0};
    const ll_param *p = &m->param[i];
    return (ll_tensor){p->name, p->rows, p->cols, p->value, p->offset};
}

/* Every weight of the blocks and of the head once, besides what the operators say. With model.kv-heads, keys and values
 * are projected for fewer heads. A gated feed-forward layer has a third product. */
static double multiply_adds(const ll_model *m, int T) {
    const ll_model_config *c = m->c;
    const double H = c->model.heads, C = c->model.width, share = m->key_heads / H;
    const double queries = m->projections > 0 ? m->queries : 0, keys = m->projections > 1 ? m->keys * share : 0;
    const double weights = C * (queries + keys + m->values * (share + 1) + (m->gated ? H : 0));
    const double feed = (c->model.activation == LL_ACT_SWIGLU ? 3 : 2) * C * c->model.ff;
    /* A classifier's head comes once a sequence. */
    double sum = ll_task_per_token(c->model.task) ? C * c->model.vocab : 0;
    for (int op = 0; op < m->operators; op++)
        sum += weights + ll_operator_cost(m->attention[op], T).multiply_adds + (ll_operator_at(m, op).cross ? 0 : feed);
    return sum;
}

static size_t stream_bytes(const ll_model *m, int T) {
    double bytes = 0;
    if (!ll_task_causal(m->c->model.task)) return 0;
    for (int op = 0; op < m->operators; op++) {
        const ll_operator_location at = ll_operator_at(m, op);
        const double own = ll_operator_cost(m->attention[op], T).bytes;
        if (!at.cross && at.stack != ll_top_stack(m)) continue;
        if (!at.cross && own <= 0) return 0; /* a layer keeps nothing, or there is no stream */
        bytes += own;
    }
    return (size_t)bytes;
}

ll_model_costs ll_model_cost(const ll_model *m, int T) {
    return (ll_model_costs){multiply_adds(m, T), stream_bytes(m, T)};
}
