/* A model made, freed and described. */
#include <string.h>

#include "base/memory.h"
#include "attention/attention.h"
#include "model/network.h"

ll_status ll_model_create(ll_model **out, const ll_recipe *recipe) {
    ll_model *m = ll_alloc(1, sizeof *m);
    if (!m) return LL_ENOMEM;
    ll_status status = ll_recipe_copy(&m->recipe, recipe);
    if (!status) {
        m->c = &m->recipe->c;
        status = ll_params_plan(m);
    }
    if (!status && !(m->data = ll_alloc(m->size, sizeof *m->data))) status = LL_ENOMEM;
    if (!status) {
        ll_params_init(m);
        status = ll_operators_create(m, NULL);
    }
    if (status) {
        ll_model_free(m);
        return status;
    }
    *out = m;
    return LL_OK;
}

void ll_model_free(ll_model *m) {
    if (!m) return;
    ll_operators_free(m);
    ll_free(m->data);
    ll_free(m->param);
    ll_bytes_free(&m->vocabulary);
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

size_t ll_model_parameters(const ll_model *m) {
    size_t n = 0;
    for (int i = 0; i < m->count; i++) n += (size_t)m->param[i].rows * (size_t)m->param[i].cols;
    return n;
}

ll_tensor ll_model_tensor(const ll_model *m, int i) {
    if (i < 0 || i >= m->count) return (ll_tensor){0};
    const ll_param *p = &m->param[i];
    return (ll_tensor){p->name, p->rows, p->cols, m->data + p->offset};
}

/* Features of a head of a linear kernel; 0: softmax. */
static double features(const ll_config *c) {
    return c->kernel == LL_ATT_SOFTMAX ? 0 : ll_config_features(c);
}

/* Linear kernels read and write a state of m x (E + 1) and may project q and k; softmax looks at T keys. */
double ll_model_token_cost(const ll_model *m, int T) {
    const ll_config *c = m->c;
    const double H = c->heads, D = ll_attention_width(&m->attention[0]->c), E = m->values / H, C = c->width,
                 F = features(c);
    double attention = c->kernel == LL_ATT_SOFTMAX ? T * (D + E) : 2 * F * (E + 1);
    if (c->kernel != LL_ATT_SOFTMAX && ll_config_rows(c)) attention += 2 * F * D;
    const double layer = C * (2.0 * m->queries + 2.0 * m->values + 2.0 * c->ff) + H * attention;
    const double head = ll_config_per_token(c) ? C * c->vocab : 0; /* a classifier's comes once a sequence */
    return c->layers * layer + head;
}

size_t ll_model_stream_bytes(const ll_model *m, int T) {
    const ll_config *c = m->c;
    const size_t D = (size_t)ll_attention_width(&m->attention[0]->c), queries = D * (size_t)c->heads,
                 values = (size_t)m->values, layers = (size_t)c->layers;
    if (c->task != LL_TASK_LM) return 0;
    if (c->kernel == LL_ATT_SOFTMAX) return layers * (size_t)T * (queries + values) * sizeof(float);
    const size_t F = (size_t)features(c);
    return layers * F * (values + (size_t)c->heads) * sizeof(double);
}
