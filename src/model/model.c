/* Creates, frees and describes a model. */
#include <math.h>
#include <string.h>

#include "base/integer.h"
#include "base/memory.h"
#include "attention/operator.h"
#include "model/network.h"

ll_status ll_model_create(ll_model **out, const ll_recipe *recipe) {
    return ll_model_create_from(out, recipe, NULL, NULL);
}

ll_status ll_model_create_from(ll_model **out, const ll_recipe *recipe, const ll_model *from, char **summary) {
    ll_model *m = ll_alloc(1, sizeof *m);
    if (!m) return LL_ENOMEM;
    ll_status status = ll_recipe_copy(&m->recipe, recipe);
    if (!status) status = ll_model_read_recipe(m);
    if (!status) status = ll_params_plan(m);
    if (!status) status = ll_params_allocate(m);
    if (!status) {
        ll_params_init(m);
        if (from) status = ll_params_adopt(m, from, summary);
        if (from && !status) status = ll_origin_copy(m, from);
    }
    if (!status) status = ll_operators_create(m, NULL, from);
    if (status) {
        ll_model_free(m);
        return status;
    }
    *out = m;
    return LL_OK;
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
    ll_model *m = ll_alloc(1, sizeof *m);
    if (!m) return LL_ENOMEM;
    ll_status status = ll_recipe_copy(&m->recipe, recipe);
    if (!status) status = ll_model_read_recipe(m);
    if (!status) status = ll_params_plan(m);
    if (!status) status = sketch_params(m);
    if (!status) status = ll_operators_create(m, NULL, NULL);
    if (status) {
        ll_model_free(m);
        return status;
    }
    *out = m;
    return LL_OK;
}

ll_status ll_model_read_recipe(ll_model *m) {
    m->c = &m->config;
    return ll_recipe_model(m->recipe, &m->config);
}

void ll_model_free(ll_model *m) {
    if (!m) return;
    ll_operators_free(m);
    ll_quantized_free(m->quantized);
    ll_free(m->data);
    ll_safetensors_free(m->file);
    ll_free(m->param);
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
    ll_model_sizes sizes = {.width = m->c->model.width, .checked = m->checked, .block = m->size};
    for (int i = 0; i < m->count; i++) sizes.parameters += (size_t)m->param[i].rows * (size_t)m->param[i].cols;
    if (m->c->model.task == LL_TASK_CLASSIFY) sizes.classes = m->c->model.classes;
    return sizes;
}

ll_tensor ll_model_tensor(const ll_model *m, int i) {
    if (i < 0 || i >= m->count) return (ll_tensor){0};
    const ll_param *p = &m->param[i];
    return (ll_tensor){p->name, p->rows, p->cols, p->value, p->offset};
}

/* Queries and keys are multiplied with the landmarks; landmarks with each other, with 4 products a step, once a
 * sequence. */
static double nystrom_cost(const ll_model_config *c, double D, double E, double T) {
    const double m = c->attention.landmarks, middle = m * m * (D + E + 4 * m * c->attention.iterations);
    return T <= m ? T * (D + E) : 2 * m * (D + E) + middle / T;
}

/* For one head, with values of E and queries of D. Linear kernels update and read a state of m x (E + 1), and may
 * project q and k. softmax reads T keys, local those of its window, value none. linformer adds each key and value to
 * `rank` sums and reads those. reformer hashes, then reads its chunk and the one before (causal: on average half of its
 * own). */
static double attention_cost(const ll_model_config *c, double D, double E, double T) {
    const double F = ll_config_features(c);
    const int causal = c->model.task == LL_TASK_LM;
    switch (c->attention.kernel) {
    case LL_KERNEL_SOFTMAX: return T * (D + E);
    case LL_KERNEL_VALUE: return 0;
    case LL_KERNEL_REFORMER:
        return c->attention.rounds *
               (D * c->attention.buckets / 2 + fmin(T, (causal ? 1.5 : 2) * c->attention.chunk) * (D + E));
    case LL_KERNEL_NYSTROM: return nystrom_cost(c, D, E, T);
    case LL_KERNEL_LINFORMER: return 2.0 * c->attention.linformer_rank * (D + E);
    case LL_KERNEL_LOCAL: return fmin(T, causal ? c->attention.window : 2.0 * c->attention.window - 1) * (D + E);
    default: return 2 * F * (E + 1) + (ll_config_rows(c) ? 2 * F * D : 0);
    }
}

/* One head without keys: the features of its vectors, and the sum of a window. */
static double keyless_cost(const ll_model_config *c, double D, double E) {
    const double F = c->attention.kernel == LL_KERNEL_SOFTMAX ? D : ll_config_features(c),
                 reach = c->position.distances - 1.0;
    const double window = c->position.image             ? 2 * reach * (reach + 1) + 1
                          : c->model.task == LL_TASK_LM ? reach + 1
                                                        : 2 * reach + 1;
    return (ll_config_rows(c) ? F * D : 0) + F * (c->position.distances + 1.0) + E * (window + 1);
}

static double multiply_adds(const ll_model *m, int T) {
    const ll_model_config *c = m->c;
    const double H = c->model.heads, D = ll_attention_width(&m->attention[0]->c), E = m->values / H, C = c->model.width;
    const double gates = m->gated ? H : 0,
                 inputs = (m->projections > 0 ? m->queries : 0) + (m->projections > 1 ? m->keys : 0) + gates;
    const double weights = C * (inputs + 2.0 * m->values), keyed = H * m->keys / m->queries;
    const double mix = weights + keyed * attention_cost(c, D, E, T) + (H - keyed) * keyless_cost(c, D, E);
    const double head =
        ll_task_per_token(c->model.task) ? C * c->model.vocab : 0; /* a classifier has it once a sequence */
    return m->operators * mix + (m->operators - ll_cross_layers(m)) * 2.0 * C * c->model.ff + head;
}

static size_t stream_bytes(const ll_model *m, int T) {
    const ll_model_config *c = m->c;
    const size_t D = (size_t)ll_attention_width(&m->attention[0]->c), queries = D * (size_t)c->model.heads,
                 values = (size_t)m->values;
    const size_t layers = (size_t)ll_top_stack(m)->layers, cross = (size_t)ll_cross_layers(m);
    /* relative-s2: heads without keys have another state than the others */
    const size_t share = (size_t)(m->queries / m->keys);
    const size_t ring = (size_t)(c->position.distances - 1) * (size_t)(c->position.image ? c->position.width : 1) + 1;
    const size_t keyless = share == 1 ? 0 : layers * values / share * (sizeof(double) + ring * sizeof(float));
    if (!ll_task_causal(c->model.task) || c->attention.kernel == LL_KERNEL_VALUE) return 0;
    if (c->attention.kernel == LL_KERNEL_REFORMER) {
        const size_t row = (queries + values) * sizeof(float), count = (size_t)c->model.heads * sizeof(double);
        return layers * (size_t)c->attention.rounds * (size_t)c->attention.buckets *
               (2 * (size_t)c->attention.chunk * row + count);
    }
    const size_t keys = c->attention.kernel == LL_KERNEL_SOFTMAX ? (size_t)T
                        : c->attention.kernel == LL_KERNEL_LOCAL ? (size_t)c->attention.window
                                                              : 0;
    if (keys) return keyless + (layers + cross) * keys * (queries + values) / share * sizeof(float);
    const size_t F = (size_t)ll_config_features(c);
    return keyless + F * (values + (size_t)c->model.heads) * (layers * sizeof(double) + cross * sizeof(float)) / share;
}

ll_model_costs ll_model_cost(const ll_model *m, int T) {
    return (ll_model_costs){multiply_adds(m, T), stream_bytes(m, T)};
}
