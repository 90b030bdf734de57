/* Parameters of operators that train: those of positions inside attention, and those of kernels. Attention lists them
 * (attention/parameter.h). Here they get their place in the model's block. Operators borrow them, so that an update of
 * the block updates them. */
#include <stdio.h>
#include <string.h>

#include "attention/position/premap.h"
#include "base/random.h"
#include "model/config/mechanism.h"
#include "model/network.h"

/* Does the position act in this operator? Cross attention may be without positions. */
static int has_position(const ll_model *m, int op) {
    return !(ll_position_row(m->c->position.type)->has & LL_EMBEDDED) &&
           (m->c->position.cross != LL_CROSS_NONE || !ll_operator_at(m, op).cross);
}

/* Keys of a recipe may leave out a parameter. */
static int is_wanted(const ll_model_config *c, const ll_parameter *p) {
    if (!strcmp(p->name, "gate")) return c->position.gated;
    return strcmp(p->name, "distance_v") || c->position.distance_values;
}

ll_operator_parameters ll_operator_params_list(const ll_model *m) {
    const ll_attention_config a = ll_config_attention(m->c);
    ll_operator_parameters list = {0};
    ll_parameter all[LL_PARAMETERS];
    for (int i = 0, n = ll_position_parameters(&a, all); i < n; i++)
        if (is_wanted(m->c, &all[i])) list.p[list.n++] = all[i];
    list.positions = list.n;
    list.n += ll_kernel_parameters(&a, list.p + list.n);
    return list;
}

/* ---- In the table of tensors ---- */

static int *tensor_of(const ll_model *m, int op, int i) {
    return &m->operator_tensor[op * LL_OPERATOR_TENSORS + i];
}

static int add(ll_model *m, const char *prefix, const char *part, const ll_parameter *p, ll_role role) {
    char name[64];
    snprintf(name, sizeof name, "%s%s.%s", prefix, part, p->name);
    return ll_param_add(m, name, ll_parameter_rows(p), ll_parameter_cols(p), role);
}

/* The tensor of a position's parameter; -1: the operator has none. */
static int add_position(ll_model *m, int op, const ll_operator_parameters *list, int i) {
    char prefix[LL_PREFIX] = "";
    const int shared = list->p[i].shared || m->c->position.shared;
    if (!has_position(m, op)) return -1;
    if (shared && op > 0) return *tensor_of(m, 0, i);
    if (!shared) ll_operator_prefix(m, op, prefix);
    const char *part = !shared && ll_operator_at(m, op).cross ? "cross.position" : "position";
    return add(m, prefix, part, &list->p[i], LL_ROLE_POSITION);
}

static int add_kernel(ll_model *m, int op, const ll_parameter *p) {
    char prefix[LL_PREFIX];
    ll_operator_prefix(m, op, prefix);
    return add(m, prefix, "attention", p, LL_ROLE_KERNEL);
}

void ll_operator_params_add(ll_model *m) {
    const ll_operator_parameters list = ll_operator_params_list(m);
    m->at.operators = m->count;
    for (int op = 0; op < m->operators; op++)
        for (int i = 0; i < list.positions; i++) *tensor_of(m, op, i) = add_position(m, op, &list, i);
    for (int op = 0; op < m->operators; op++)
        for (int i = list.positions; i < list.n; i++) *tensor_of(m, op, i) = add_kernel(m, op, &list.p[i]);
}

void ll_operator_params_init(const ll_model *m) {
    const ll_attention_config a = ll_config_attention(m->c);
    const ll_operator_parameters list = ll_operator_params_list(m);
    for (int op = 0; op < m->operators; op++)
        for (int i = 0; i < list.n; i++) {
            const int at = *tensor_of(m, op, i);
            const ll_parameter *p = &list.p[i];
            if (at < 0 || (op > 0 && at == *tensor_of(m, 0, i))) continue;
            const ll_parameter_draw draw = {(uint64_t)m->c->seed, ll_param_stream(m->param[at].name),
                                            ll_config_init_std(m->c)};
            if (p->init)
                p->init(&a, p, &draw, m->param[at].value);
            else
                ll_parameter_normal(p, &draw, 1, m->param[at].value);
        }
}

/* ---- For an operator ---- */

void ll_operator_params_config(const ll_model *m, int op, ll_attention_config *a) {
    const ll_operator_parameters list = ll_operator_params_list(m);
    if (!has_position(m, op)) {
        a->position = LL_POSITION_NONE;
        a->encoding = (ll_position_config){0};
    }
    for (int i = 0; i < list.n; i++) {
        const int at = *tensor_of(m, op, i);
        const float *value = at < 0 ? NULL : m->param[at].value;
        memcpy((char *)a + list.p[i].value, &value, sizeof value);
    }
    a->encoding.seed = a->approximate.seed = (uint64_t)m->c->seed;
    a->encoding.layer = m->c->position.shared ? 0 : op;
    a->approximate.layer = op;
    const ll_mechanism_row *row = ll_position_row((int)a->position);
    const int image = row->about.length == LL_LENGTH_IMAGE;
    if (image || row->has & LL_IMAGE) a->before = m->cls_tokens;
    if (!ll_position_is_image(&m->c->position)) return;
    a->width = ll_config_grid_width(m->c);
    a->height = ll_config_grid_height(m->c);
}

void ll_operator_params_gradients(const ll_model *m, int op, float *grad, ll_attention_call *call) {
    const ll_operator_parameters list = ll_operator_params_list(m);
    for (int i = 0; i < list.n && grad; i++) {
        const int at = *tensor_of(m, op, i);
        float *gradient = at < 0 ? NULL : ll_param_in(m, grad, at);
        memcpy((char *)call + list.p[i].gradient, &gradient, sizeof gradient);
    }
}

void ll_operator_noise(const ll_batch_run *run, int op) {
    if (!ll_config_draws_noise(run->c)) return;
    uint32_t word[4];
    uint64_t seed = (uint64_t)run->c->seed;
    /* A state contains keys of earlier windows, made with the same noise. */
    const int passed_on = run->ws->carry && !run->ws->carry->within;
    if (run->grad && !passed_on) {
        ll_random4(word, seed, ll_stream_id(LL_RANDOM_NOISE, 0xffffff, 0), (uint64_t)run->draw);
        seed = (uint64_t)word[0] << 32 | word[1];
    }
    ll_attention_set_noise(run->model->attention[op], seed);
}

void ll_model_fix_noise(const ll_model *m) {
    if (!ll_config_draws_noise(m->c)) return;
    for (int op = 0; op < m->operators; op++) ll_attention_set_noise(m->attention[op], (uint64_t)m->c->seed);
}
