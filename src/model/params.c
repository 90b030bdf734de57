/* The table of tensors, in the order in which they lie in the block, and the initial values of parameters.
 *
 * Weights are (in, out): y = x W reads W row by row, for one token as for many. Every tensor starts on a cache line;
 * the gaps are zero and stay so. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "model/layer/embedding.h"

static int add_norm(ll_model *m, const char *prefix, const char *name) {
    char text[64];
    snprintf(text, sizeof text, "%s%s.gain", prefix, name);
    const int number = ll_param_add(m, text, m->c->model.width, 1, LL_ROLE_GAIN);
    if (m->c->model.norm_kind == LL_NORM_RMS) return number;
    snprintf(text, sizeof text, "%s%s.bias", prefix, name);
    ll_param_add(m, text, m->c->model.width, 1, LL_ROLE_BIAS);
    return number;
}

/* Tensors of a block, and which of them this block has. */
typedef struct {
    int which;
    const char *name;
    ll_role role; /* LL_ROLE_GAIN: a norm */
    int has, rows, cols;
} block_tensor;

static int block_tensors(const ll_model *m, const ll_stack *stack, block_tensor out[LL_BLOCK_TENSORS]) {
    const ll_model_options *o = &m->c->model;
    const int C = o->width, ff = o->ff, q = m->queries, share = o->heads / m->key_heads;
    const int k = m->keys / share, v = m->values, kv = m->values / share;
    const int qkv = o->bias == LL_BIAS_QKV || o->bias == LL_BIAS_ALL, all = o->bias == LL_BIAS_ALL;
    const int fed = o->bias == LL_BIAS_FEED || all, gated = o->activation == LL_ACT_SWIGLU, cross = stack->parts > 2;
    const block_tensor table[] = {
        {LL_ATTENTION_NORM, "attention.norm", LL_ROLE_GAIN, 1, 0, 0},
        {LL_QUERY_WEIGHT, "attention.query.weight", LL_ROLE_WEIGHT, m->projections > 0, C, q},
        {LL_KEY_WEIGHT, "attention.key.weight", LL_ROLE_WEIGHT, m->projections > 1, C, k},
        {LL_VALUE_WEIGHT, "attention.value.weight", LL_ROLE_WEIGHT, 1, C, kv},
        {LL_OUTPUT_WEIGHT, "attention.output.weight", LL_ROLE_RESIDUAL, 1, v, C},
        {LL_QUERY_BIAS, "attention.query.bias", LL_ROLE_BIAS, qkv && m->projections > 0, q, 1},
        {LL_KEY_BIAS, "attention.key.bias", LL_ROLE_BIAS, qkv && m->projections > 1, k, 1},
        {LL_VALUE_BIAS, "attention.value.bias", LL_ROLE_BIAS, qkv, kv, 1},
        {LL_OUTPUT_BIAS, "attention.output.bias", LL_ROLE_BIAS, all, C, 1},
        {LL_GATE_WEIGHT, "attention.gate.weight", LL_ROLE_WEIGHT, m->gated, C, o->heads},
        {LL_GATE_BIAS, "attention.gate.bias", LL_ROLE_GATE_BIAS, m->gated, o->heads, 1},
        {LL_FEED_NORM, "feed.norm", LL_ROLE_GAIN, 1, 0, 0},
        {LL_FEED_GATE_WEIGHT, "feed.gate.weight", LL_ROLE_WEIGHT, gated, C, ff},
        {LL_FEED_GATE_BIAS, "feed.gate.bias", LL_ROLE_BIAS, gated && fed, ff, 1},
        {LL_IN_WEIGHT, "feed.in.weight", LL_ROLE_WEIGHT, 1, C, ff},
        {LL_IN_BIAS, "feed.in.bias", LL_ROLE_BIAS, fed, ff, 1},
        {LL_OUT_WEIGHT, "feed.out.weight", LL_ROLE_RESIDUAL, 1, ff, C},
        {LL_OUT_BIAS, "feed.out.bias", LL_ROLE_BIAS, fed, C, 1},
        {LL_CROSS_NORM, "cross.norm", LL_ROLE_GAIN, cross, 0, 0},
        {LL_CROSS_QUERY_WEIGHT, "cross.query.weight", LL_ROLE_WEIGHT, cross, C, q},
        {LL_CROSS_KEY_WEIGHT, "cross.key.weight", LL_ROLE_WEIGHT, cross, C, q},
        {LL_CROSS_VALUE_WEIGHT, "cross.value.weight", LL_ROLE_WEIGHT, cross, C, v},
        {LL_CROSS_OUTPUT_WEIGHT, "cross.output.weight", LL_ROLE_RESIDUAL, cross, v, C},
    };
    memcpy(out, table, sizeof table);
    return (int)(sizeof table / sizeof *table);
}

static void add_tensor(ll_model *m, const char *prefix, const block_tensor *t) {
    char text[64];
    snprintf(text, sizeof text, "%s%s", prefix, t->name);
    ll_param_add(m, text, t->rows, t->cols, t->role);
}

static void add_block(ll_model *m, ll_stack *stack, int layer) {
    char prefix[LL_PREFIX];
    block_tensor tensor[LL_BLOCK_TENSORS];
    const int first = m->count, n = block_tensors(m, stack, tensor);
    ll_operator_prefix(m, ll_operator_of(stack, layer, 0), prefix);
    for (int i = 0; i < n; i++) {
        const block_tensor *t = &tensor[i];
        stack->tensor[t->which] = t->has ? m->count - first : -1;
        if (t->has && t->role == LL_ROLE_GAIN) add_norm(m, prefix, t->name);
        if (t->has && t->role != LL_ROLE_GAIN) add_tensor(m, prefix, t);
    }
    stack->tensors = m->count - first;
}

/* Positions at the embedding, norms and blocks of a stack. */
static void add_stack(ll_model *m, ll_stack *stack) {
    const ll_model_config *c = m->c;
    char text[64];
    snprintf(text, sizeof text, "%sembedding.position", stack->prefix);
    stack->at.position = c->position.type == LL_POSITION_LEARNED
                             ? ll_param_add(m, text, c->position.max_length, c->model.width, LL_ROLE_POSITIONS)
                             : -1;
    if (m->cls_tokens) m->at.first = ll_param_add(m, "embedding.first", c->model.width, 1, LL_ROLE_VECTOR);
    stack->at.embedding_norm = c->model.embedding_norm ? add_norm(m, stack->prefix, "embedding.norm") : -1;
    stack->at.blocks = m->count;
    for (int l = 0; l < stack->layers; l++) add_block(m, stack, l);
    stack->at.norm = c->model.final_norm && c->model.norm != LL_NORM_POST ? add_norm(m, stack->prefix, "norm") : -1;
}

static void add_all(ll_model *m) {
    const ll_model_config *c = m->c;
    const int classify = !ll_task_per_token(c->model.task), match = c->model.task == LL_TASK_MATCH;
    m->at.embedding = m->at.patch = m->at.types = -1;
    m->at.first = m->at.match = m->at.head = m->at.head_bias = m->at.transform = -1;
    ll_embedding_of(c)->plan(m);
    for (int s = 0; s < m->stacks; s++) add_stack(m, &m->stack[s]);
    if (match) {
        m->at.match = ll_param_add(m, "head.in.weight", 4 * c->model.width, c->model.ff, LL_ROLE_WEIGHT);
        ll_param_add(m, "head.in.bias", c->model.ff, 1, LL_ROLE_BIAS);
    }
    if (c->model.head_transform) {
        m->at.transform = ll_param_add(m, "head.transform.weight", c->model.width, c->model.width, LL_ROLE_WEIGHT);
        ll_param_add(m, "head.transform.bias", c->model.width, 1, LL_ROLE_BIAS);
        add_norm(m, "", "head.norm");
    }
    const int answers = classify ? c->model.classes : c->model.vocab;
    if (classify || !c->model.tied)
        m->at.head = ll_param_add(m, "head.weight", match ? c->model.ff : c->model.width, answers, LL_ROLE_HEAD_WEIGHT);
    if (classify || c->model.head_bias) m->at.head_bias = ll_param_add(m, "head.bias", answers, 1, LL_ROLE_HEAD_BIAS);
    ll_operator_params_add(m);
}

static ll_status check(const ll_model_config *c, int64_t queries, int64_t values) {
    if (c->model.vocab < 1)
        return ll_fail(LL_EINVAL, "model.vocab is %d; set how many different tokens there are", c->model.vocab);
    if (!ll_task_per_token(c->model.task) && c->model.classes < 2)
        return ll_fail(LL_EINVAL, "model.classes is %d; a classifier needs at least 2", c->model.classes);
    if (c->model.layers < 1 || c->model.width < 1 || c->model.heads < 1 || c->model.ff < 1 || values < 1 || queries < 1)
        return ll_fail(LL_EINVAL, "layers %d, width %d, heads %d and ff %d must all be at least 1", c->model.layers,
                       c->model.width, c->model.heads, c->model.ff);
    if (2 * queries + values > INT_MAX / 2)
        return ll_fail(LL_EINVAL, "heads %d of size %d make projections too wide", c->model.heads, c->model.head_size);
    if (c->position.type == LL_POSITION_LEARNED && c->position.max_length < 1)
        return ll_fail(LL_EINVAL, "position.max-length is %d; learned positions need one", c->position.max_length);
    return LL_OK;
}

/* Floats of the parameters of an operator. */
static double operator_floats(const ll_model_config *c) {
    const ll_attention_config a = ll_config_attention(c);
    ll_parameter list[LL_OPERATOR_TENSORS];
    double sum = 0;
    const int positions = ll_position_parameters(&a, list), n = positions + ll_kernel_parameters(&a, list + positions);
    for (int i = 0; i < n; i++) {
        double floats = 1;
        for (int axis = 0; axis < list[i].rank; axis++) floats *= list[i].shape[axis];
        sum += floats;
    }
    return sum;
}

/* An estimate of the floats in the block. It refuses sizes that no machine holds before they can overflow. */
static double estimate(const ll_model_config *c, double queries, double values) {
    const double block = c->model.width * (2 * (queries + values) + 3.0 * c->model.ff + c->model.heads + 7) +
                         2.0 * c->model.ff + c->model.heads,
                 blocks = c->model.task == LL_TASK_SEQ2SEQ
                              ? 2.0 * c->model.layers + c->model.encoder_layers + c->model.layers
                              : c->model.layers;
    const double patch = (double)c->model.patch * c->model.patch * c->model.channels;
    const double match = c->model.task == LL_TASK_MATCH ? (4.0 * c->model.width + c->model.classes) * c->model.ff : 0;
    return match + blocks * (block + operator_floats(c)) +
           c->model.width * (patch + 2.0 * c->model.vocab + c->model.token_types + c->model.width + c->model.classes +
                             2.0 * c->position.max_length);
}

ll_status ll_params_plan(ll_model *m) {
    const ll_model_config *c = m->c;
    const int64_t E = c->model.head_size > 0 ? c->model.head_size
                      : c->model.heads > 0   ? c->model.width / c->model.heads
                                             : 0;
    const int64_t values = c->model.heads * E,
                  queries = values <= INT_MAX ? values * c->attention.query_multiple : values;
    const ll_status status = check(c, queries, values);
    if (status) return status;
    if (estimate(c, (double)queries, (double)values) > 1e12)
        return ll_fail(LL_EINVAL, "a model of width %d with %d layers is larger than 10^12 parameters", c->model.width,
                       c->model.layers);
    m->queries = (int)queries;
    m->keys = m->queries - ll_config_keyless(c) * ll_config_query_size(c);
    m->values = (int)values;
    m->projections = ll_config_projections(c);
    m->key_heads = c->model.kv_heads ? c->model.kv_heads : c->model.heads;
    m->gated = ll_config_gated(c);
    m->cls_tokens = !ll_task_per_token(c->model.task) && c->model.pool == LL_POOL_FIRST;
    ll_stacks_plan(m);
    const size_t own = 20, norms = 3,                                                   /* biases of norms */
        most = LL_BLOCK_TENSORS + norms + LL_OPERATOR_TENSORS; /* of an operator */
    m->param = ll_alloc((size_t)m->operators * most + 2 * own, sizeof *m->param);
    m->operator_tensor = ll_alloc((size_t)m->operators * LL_OPERATOR_TENSORS, sizeof *m->operator_tensor);
    if (!m->param || !m->operator_tensor) return LL_ENOMEM;
    add_all(m);
    return LL_OK;
}

ll_status ll_params_allocate(ll_model *m) {
    m->data = ll_alloc(m->size, sizeof *m->data);
    for (int i = 0; m->data && i < m->count; i++)
        if (!m->quantized || !ll_is_quantized(m, i)) m->param[i].value = m->data + m->param[i].offset;
    return m->data ? LL_OK : LL_ENOMEM;
}

/* With pre-norm the residual stream is a sum of as many terms as there are sublayers, and nothing normalises it. The
 * matrices that add to it are smaller, so that the variance of the sum does not grow with the depth (Radford et al.
 * 2019). */
static double shrink(const ll_model *m, int i) {
    if (m->c->model.norm == LL_NORM_POST || m->param[i].role != LL_ROLE_RESIDUAL) return 1;
    return 1 / sqrt(ll_sublayers(&m->stack[m->stacks > 1 && i >= m->stack[1].at.blocks]));
}

static void draw_normal(const ll_model *m, int i) {
    const ll_model_config *c = m->c;
    const ll_param *p = &m->param[i];
    const size_t n = (size_t)p->rows * (size_t)p->cols;
    const float std = (float)(ll_config_init_std(c) * shrink(m, i));
    ll_normal_fill(p->value, n, (uint64_t)c->seed, ll_param_stream(p->name), 0);
    for (size_t j = 0; j < n; j++) p->value[j] *= std;
}

/* Matrices and vectors N(0, init_std), gains 1, biases 0; those of operators by their own rules. */
void ll_params_init(ll_model *m) {
    ll_operator_params_init(m);
    for (int i = 0; i < m->count; i++) {
        const ll_param *p = &m->param[i];
        switch (p->role) {
        case LL_ROLE_WEIGHT:
        case LL_ROLE_RESIDUAL:
        case LL_ROLE_TOKENS:
        case LL_ROLE_POSITIONS:
        case LL_ROLE_VECTOR:
        case LL_ROLE_HEAD_WEIGHT: draw_normal(m, i); break;
        case LL_ROLE_GAIN:
            for (int j = 0; j < p->rows; j++) p->value[j] = 1;
            break;
        case LL_ROLE_GATE_BIAS: ll_gate_init(p->rows, p->value); break;
        case LL_ROLE_BIAS: /* memory comes zeroed */
        case LL_ROLE_HEAD_BIAS:
        case LL_ROLE_POSITION:
        case LL_ROLE_KERNEL: break;
        }
    }
}
