/* The table of tensors, in the order in which they lie in the block, and the initial values of parameters.
 *
 * Weights are (in, out): y = x W reads W row by row, for one token as for many. Every tensor starts on a cache line;
 * the gaps are zero and stay so. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/integer.h"
#include "base/memory.h"
#include "base/random.h"
#include "model/embedding.h"

static int add_norm(ll_model *m, const char *prefix, const char *name) {
    char text[64];
    snprintf(text, sizeof text, "%s%s.gain", prefix, name);
    const int number = ll_params_add(m, text, m->c->model.width, 1, 0);
    if (m->c->model.norm_kind == LL_NORM_RMS) return number;
    snprintf(text, sizeof text, "%s%s.bias", prefix, name);
    ll_params_add(m, text, m->c->model.width, 1, 0);
    return number;
}

static int add_in(ll_model *m, const char *prefix, const char *name, int rows, int cols) {
    char text[64];
    snprintf(text, sizeof text, "%s%s", prefix, name);
    return ll_params_add(m, text, rows, cols, cols > 1);
}

/* Tensors of a block, and which of them this block has. */
typedef struct {
    int which;
    const char *name; /* NULL: a norm, whose name is ... */
    const char *norm;
    int has, rows, cols;
} block_tensor;

static int block_tensors(const ll_model *m, const ll_stack *stack, block_tensor out[LL_BLOCK_TENSORS]) {
    const ll_model_options *o = &m->c->model;
    const int C = o->width, ff = o->ff, q = m->queries, share = o->heads / m->key_heads;
    const int k = m->keys / share, v = m->values, kv = m->values / share;
    const int qkv = o->bias == LL_BIAS_QKV || o->bias == LL_BIAS_ALL, all = o->bias == LL_BIAS_ALL;
    const int fed = o->bias == LL_BIAS_FEED || all, gated = o->activation == LL_ACT_SWIGLU, cross = stack->parts > 2;
    const block_tensor table[] = {
        {LL_ATTENTION_NORM, NULL, "attention.norm", 1, 0, 0},
        {LL_QUERY_WEIGHT, "attention.query.weight", NULL, m->projections > 0, C, q},
        {LL_KEY_WEIGHT, "attention.key.weight", NULL, m->projections > 1, C, k},
        {LL_VALUE_WEIGHT, "attention.value.weight", NULL, 1, C, kv},
        {LL_OUTPUT_WEIGHT, "attention.output.weight", NULL, 1, v, C},
        {LL_QUERY_BIAS, "attention.query.bias", NULL, qkv && m->projections > 0, q, 1},
        {LL_KEY_BIAS, "attention.key.bias", NULL, qkv && m->projections > 1, k, 1},
        {LL_VALUE_BIAS, "attention.value.bias", NULL, qkv, kv, 1},
        {LL_OUTPUT_BIAS, "attention.output.bias", NULL, all, C, 1},
        {LL_GATE_WEIGHT, "attention.gate.weight", NULL, m->gated, C, o->heads},
        {LL_GATE_BIAS, "attention.gate.bias", NULL, m->gated, o->heads, 1},
        {LL_FEED_NORM, NULL, "feed.norm", 1, 0, 0},
        {LL_FEED_GATE_WEIGHT, "feed.gate.weight", NULL, gated, C, ff},
        {LL_FEED_GATE_BIAS, "feed.gate.bias", NULL, gated && fed, ff, 1},
        {LL_IN_WEIGHT, "feed.in.weight", NULL, 1, C, ff},
        {LL_IN_BIAS, "feed.in.bias", NULL, fed, ff, 1},
        {LL_OUT_WEIGHT, "feed.out.weight", NULL, 1, ff, C},
        {LL_OUT_BIAS, "feed.out.bias", NULL, fed, C, 1},
        {LL_CROSS_NORM, NULL, "cross.norm", cross, 0, 0},
        {LL_CROSS_QUERY_WEIGHT, "cross.query.weight", NULL, cross, C, q},
        {LL_CROSS_KEY_WEIGHT, "cross.key.weight", NULL, cross, C, q},
        {LL_CROSS_VALUE_WEIGHT, "cross.value.weight", NULL, cross, C, v},
        {LL_CROSS_OUTPUT_WEIGHT, "cross.output.weight", NULL, cross, v, C},
    };
    memcpy(out, table, sizeof table);
    return (int)(sizeof table / sizeof *table);
}

static void add_block(ll_model *m, ll_stack *stack, int layer) {
    char prefix[LL_PREFIX];
    block_tensor tensor[LL_BLOCK_TENSORS];
    const int first = m->count, n = block_tensors(m, stack, tensor);
    ll_operator_prefix(m, ll_operator_of(stack, layer, 0), prefix);
    for (int i = 0; i < n; i++) {
        const block_tensor *t = &tensor[i];
        stack->tensor[t->which] = t->has ? m->count - first : -1;
        if (t->has && t->norm) add_norm(m, prefix, t->norm);
        if (t->has && t->name) add_in(m, prefix, t->name, t->rows, t->cols);
    }
    stack->tensors = m->count - first;
}

/* Positions at the embedding, norms and blocks of a stack. */
static void add_stack(ll_model *m, ll_stack *stack) {
    const ll_model_config *c = m->c;
    char text[64];
    snprintf(text, sizeof text, "%sembedding.position", stack->prefix);
    stack->at.position = -1;
    if (c->position.type == LL_POSITION_LEARNED)
        stack->at.position = ll_params_add(m, text, c->position.max_length, c->model.width, 0);
    if (m->cls_tokens) m->at.first = ll_params_add(m, "embedding.first", c->model.width, 1, 0);
    stack->at.embedding_norm = c->model.embedding_norm ? add_norm(m, stack->prefix, "embedding.norm") : -1;
    stack->at.blocks = m->count;
    for (int l = 0; l < stack->layers; l++) add_block(m, stack, l);
    stack->at.norm = c->model.final_norm && c->model.norm != LL_NORM_POST ? add_norm(m, stack->prefix, "norm") : -1;
}

static void add_places(ll_model *m) {
    ll_position_tensor tensor[LL_POSITION_TENSORS];
    const int n = ll_position_params_tensors(m, tensor);
    m->at.frequencies = m->at.encoding = -1;
    if (m->c->position.type == LL_POSITION_RELATIVE_S1)
        m->at.frequencies = ll_params_add(m, "position.inv_freq", m->c->position.scales, 1, 0);
    if (n) m->at.encoding = m->count;
    const int cross = m->c->position.cross != LL_CROSS_NONE, all = m->operators - (cross ? 0 : ll_cross_layers(m));
    for (int op = 0; op < (m->c->position.shared ? 1 : all); op++)
        for (int i = 0; i < n; i++) {
            char name[64], prefix[LL_PREFIX] = "";
            const char *which = !m->c->position.shared && ll_operator_at(m, op).cross ? "cross." : "";
            if (!m->c->position.shared) ll_operator_prefix(m, op, prefix);
            snprintf(name, sizeof name, "%s%sposition.%s", prefix, which, tensor[i].name);
            ll_params_add(m, name, tensor[i].rows, tensor[i].cols, 0);
        }
}

static void add_approximate_params(ll_model *m) {
    ll_position_tensor tensor[LL_APPROXIMATE_TENSORS];
    const int n = ll_approximate_tensors(m, tensor);
    m->at.approximate = n ? m->count : -1;
    for (int op = 0; op < m->operators; op++)
        for (int i = 0; i < n; i++) {
            char prefix[LL_PREFIX];
            ll_operator_prefix(m, op, prefix);
            add_in(m, prefix, tensor[i].name, tensor[i].rows, tensor[i].cols);
        }
}

static void add_all(ll_model *m) {
    const ll_model_config *c = m->c;
    const int classify = !ll_task_per_token(c->model.task), match = c->model.task == LL_TASK_MATCH;
    m->at.embedding = m->at.patch = m->at.types = -1;
    m->at.first = m->at.match = m->at.head = m->at.head_bias = m->at.transform = -1;
    ll_embedding_of(c)->plan(m);
    for (int s = 0; s < m->stacks; s++) add_stack(m, &m->stack[s]);
    if (match) {
        m->at.match = ll_params_add(m, "head.in.weight", 4 * c->model.width, c->model.ff, 1);
        ll_params_add(m, "head.in.bias", c->model.ff, 1, 0);
    }
    if (c->model.head_transform) {
        m->at.transform = ll_params_add(m, "head.transform.weight", c->model.width, c->model.width, 1);
        ll_params_add(m, "head.transform.bias", c->model.width, 1, 0);
        add_norm(m, "", "head.norm");
    }
    if (classify || !c->model.tied)
        m->at.head = ll_params_add(m, "head.weight", match ? c->model.ff : c->model.width,
                         classify ? c->model.classes : c->model.vocab, 1);
    if (classify || c->model.head_bias)
        m->at.head_bias = ll_params_add(m, "head.bias", classify ? c->model.classes : c->model.vocab, 1, 0);
    add_places(m);
    add_approximate_params(m);
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

/* An estimate of the floats in the block. It refuses sizes that no machine holds before they can overflow. */
static double estimate(const ll_model_config *c, double queries, double values) {
    const double block = c->model.width * (2 * (queries + values) + 3.0 * c->model.ff + c->model.heads + 7) +
                         2.0 * c->model.ff + c->model.heads,
                 blocks = c->model.task == LL_TASK_SEQ2SEQ
                              ? 2.0 * c->model.layers + c->model.encoder_layers + c->model.layers
                              : c->model.layers;
    const double spe = c->position.type == LL_POSITION_CONV_SPE
                           ? (double)c->position.taps * (c->position.image ? c->position.taps : 1)
                           : c->position.sines + 1.0;
    const double linformer = c->attention.kernel == LL_KERNEL_LINFORMER
                                 ? 2.0 * c->attention.linformer_length * c->attention.linformer_rank
                                 : 0;
    const double patch = (double)c->model.patch * c->model.patch * c->model.channels;
    const double match = c->model.task == LL_TASK_MATCH ? (4.0 * c->model.width + c->model.classes) * c->model.ff : 0;
    return match + blocks * (block + 3 * queries * (spe + c->position.scales) + linformer) +
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
    m->keys = c->position.type == LL_POSITION_RELATIVE_S2 ? m->queries / 2 : m->queries;
    m->values = (int)values;
    m->projections = ll_config_projections(c);
    m->key_heads = c->model.kv_heads ? c->model.kv_heads : c->model.heads;
    m->gated = ll_config_gated(c);
    m->cls_tokens = !ll_task_per_token(c->model.task) && c->model.pool == LL_POOL_FIRST;
    ll_stacks_plan(m);
    const size_t own = 20, norms = 3,                                                   /* biases of norms */
        most = LL_BLOCK_TENSORS + norms + LL_POSITION_TENSORS + LL_APPROXIMATE_TENSORS; /* of an operator */
    m->param = ll_alloc((size_t)m->operators * most + 2 * own, sizeof *m->param);
    if (!m->param) return LL_ENOMEM;
    add_all(m);
    return LL_OK;
}

ll_status ll_params_allocate(ll_model *m) {
    m->data = ll_alloc(m->size, sizeof *m->data);
    for (int i = 0; m->data && i < m->count; i++)
        if (!m->quantized || !ll_is_quantized(m, i)) m->param[i].value = m->data + m->param[i].offset;
    return m->data ? LL_OK : LL_ENOMEM;
}

/* A tensor's initial values depend on its name alone, so that models which differ elsewhere start from the same
 * numbers. */
static uint64_t stream_of(const char *name) {
    uint64_t hash = 14695981039346656037u;
    for (; *name; name++) hash = (hash ^ (unsigned char)*name) * 1099511628211u;
    return ll_stream_id(LL_RANDOM_INIT, (uint32_t)(hash >> 40), (uint32_t)hash);
}

static int ends(const char *name, const char *end) {
    const size_t n = strlen(name), e = strlen(end);
    return n >= e && !strcmp(name + n - e, end);
}

/* With pre-norm the residual stream is a sum of as many terms as there are sublayers, and nothing normalises it. The
 * matrices that add to it are smaller, so that the variance of the sum does not grow with the depth (Radford et al.
 * 2019). */
static double shrink(const ll_model *m, int i) {
    const char *name = m->param[i].name;
    if (m->c->model.norm == LL_NORM_POST || !(ends(name, ".output.weight") || ends(name, ".out.weight"))) return 1;
    return 1 / sqrt(ll_sublayers(&m->stack[m->stacks > 1 && i >= m->stack[1].at.blocks]));
}

/* Matrices N(0, init_std), gains 1, biases 0. */
void ll_params_init(ll_model *m) {
    const ll_model_config *c = m->c;
    for (int i = 0; i < m->count; i++) {
        const ll_param *p = &m->param[i];
        const size_t n = (size_t)p->rows * (size_t)p->cols;
        float *x = p->value;
        if (ll_position_params_init(m, p, x, stream_of(p->name)) || ll_approximate_init(m, p, x, stream_of(p->name)) ||
            ll_gate_init(p, x))
            continue;
        if (ends(p->name, ".bias")) continue; /* memory comes zeroed */
        if (ends(p->name, ".gain")) {
            for (size_t j = 0; j < n; j++) x[j] = 1;
            continue;
        }
        const float std = (float)(ll_config_init_std(c) * shrink(m, i));
        ll_normal_fill(x, n, (uint64_t)c->seed, stream_of(p->name), 0);
        for (size_t j = 0; j < n; j++) x[j] *= std;
    }
}
