/* The operator: facts of a config, its checks, and creating an operator with its copies of the draws. */
#include "attention/operator.h"

#include <math.h>
#include <string.h>

#include "attention/constant.h"
#include "attention/exact/logit_bias.h"
#include "attention/feature/feature_map.h"
#include "attention/parameter.h"
#include "attention/position/postmap.h"
#include "attention/position/premap.h"
#include "attention/table.h"
#include "base/float_mode.h"
#include "base/memory.h"
#include "base/versioned.h"

enum { MOST = 1 << 16 }; /* limit of every size of a head: far above any use, far below overflow */

/* ---- What follows from a config alone ---- */

int ll_keyed_heads(const ll_attention_config *c) {
    return ll_operator_of_config(c)->keyless ? c->H - c->encoding.keyless : c->H;
}

static const ll_mechanism_row *position_of(const ll_attention_config *c) { return ll_position_row((int)c->position); }

int ll_attention_width(const ll_attention_config *c) {
    const ll_premap_kind *stage = position_of(c)->premap;
    return stage ? stage->width(c) : c->D;
}

/* ---- Parameters that train ---- */

int ll_position_parameters(const ll_attention_config *c, ll_parameter list[LL_PARAMETERS]) {
    const ll_mechanism_row *row = position_of(c);
    if (row->premap && row->premap->parameters) return row->premap->parameters(c, list);
    if (row->logits) return row->logits->parameters(c, list);
    return row->kind && row->kind->parameters ? row->kind->parameters(c, list) : 0;
}

int ll_kernel_parameters(const ll_attention_config *c, ll_parameter list[LL_PARAMETERS]) {
    const ll_operator_kind *kind = ll_operator_of_kernel(c->kernel);
    return kind->parameters ? kind->parameters(c, list) : 0;
}

/* ---- Constants ---- */

static ll_status draw_projection(const ll_attention_config *c, const ll_constant *b, const ll_constant_draw *how,
                                 void *x) {
    (void)c;
    return ll_draw_projection(x, b->rows, b->cols, how->kind, how->norms, how->seed, how->layer, how->redraw);
}

/* r = sigmoid(a), a going from the first logit to the last over the heads. */
static ll_status draw_decay(const ll_attention_config *c, const ll_constant *b, const ll_constant_draw *how, void *x) {
    float *decay = x;
    (void)b;
    for (int h = 0; h < c->H; h++)
        decay[h] = (float)(1 / (1 + exp(-(how->decay_first + (how->decay_last - how->decay_first) * h / c->H))));
    return LL_OK;
}

int ll_constants(const ll_attention_config *c, ll_constant list[LL_CONSTANTS]) {
    const ll_operator_kind *kind = ll_operator_of_kernel(c->kernel);
    const ll_postmap_kind *stage = position_of(c)->postmap;
    int n = 0;
    if (c->M)
        list[n++] = (ll_constant){"projection",   LL_F32, c->M, ll_attention_width(c), LL_CONSTANT_AT(projection),
                                  draw_projection};
    if (stage && stage->constants) n += stage->constants(c, list + n);
    if (c->causal) list[n++] = (ll_constant){"decay", LL_F32, c->H, 0, LL_CONSTANT_AT(decay), draw_decay};
    return kind->constants ? n + kind->constants(c, list + n) : n;
}

ll_constant ll_constant_named(const ll_attention_config *c, const char *name) {
    ll_constant list[LL_CONSTANTS];
    const int n = ll_constants(c, list);
    for (int i = 0; i < n; i++)
        if (!strcmp(list[i].name, name)) return list[i];
    return (ll_constant){.name = name};
}

/* ---- What fits together ---- */

static ll_status check_sizes(const ll_attention_config *c) {
    if (c->H < 1 || c->H > MOST) return ll_fail(LL_EINVAL, "attention: heads is %d, must be 1 to %d", c->H, MOST);
    if (c->D < 1 || c->D > MOST) return ll_fail(LL_EINVAL, "attention: query size is %d, must be 1 to %d", c->D, MOST);
    if (c->E < 1 || c->E > MOST) return ll_fail(LL_EINVAL, "attention: value size is %d, must be 1 to %d", c->E, MOST);
    if (c->M < 0 || c->M > MOST) return ll_fail(LL_EINVAL, "attention: features is %d, must be 0 to %d", c->M, MOST);
    if (!isfinite(c->input_scale) || c->input_scale <= 0)
        return ll_fail(LL_EINVAL, "attention: input scale is %g, must be positive", (double)c->input_scale);
    if (!isfinite(c->feature_eps) || c->feature_eps < 0)
        return ll_fail(LL_EINVAL, "attention: feature eps is %g, must be 0 or more", (double)c->feature_eps);
    if (!isfinite(c->den_eps) || c->den_eps < 0)
        return ll_fail(LL_EINVAL, "attention: denominator eps is %g, must be 0 or more", (double)c->den_eps);
    if ((unsigned)c->den > LL_DEN_NONE) return ll_fail(LL_EINVAL, "attention: there is no divisor %d", (int)c->den);
    if ((unsigned)c->query_max > LL_MAX_NONE || (unsigned)c->key_max > LL_MAX_NONE)
        return ll_fail(LL_EINVAL, "attention: there is no maximum %d, %d", (int)c->query_max, (int)c->key_max);
    return LL_OK;
}

/* A gate weighs earlier tokens, through the state that sums them. */
static ll_status check_gated(const ll_attention_config *c) {
    const ll_mechanism_row *kernel = ll_kernel_row((int)c->kernel);
    const ll_operator_kind *kind = ll_operator_of_config(c);
    if (!kernel->gated) return LL_OK;
    if (!c->causal)
        return ll_fail(LL_EINVAL, "attention: the gate of %s weighs earlier tokens, so that it must be causal",
                       kernel->about.name);
    if (!kind->gates)
        return ll_fail(LL_EINVAL, "attention: %s has heads without a state, which the gate of %s could not weigh",
                       kind->name, kernel->about.name);
    return LL_OK;
}

static ll_status check_parts(const ll_attention_config *c) {
    const ll_operator_kind *kernel = ll_operator_of_kernel(c->kernel);
    if (!kernel) return ll_fail(LL_EINVAL, "attention: there is no kernel %d", (int)c->kernel);
    if (!position_of(c))
        return ll_fail(LL_EINVAL, "attention: there is no position %d", (int)c->position);
    const ll_postmap_kind *after = position_of(c)->postmap;
    if (!kernel->linear && (c->M || (after && after->axes) || c->decay))
        return ll_fail(LL_EINVAL, "attention: %s has no features, so no projection, permutation or decay",
                       kernel->name);
    if (!kernel->linear && after)
        return ll_fail(LL_EINVAL, "attention: %s has no features that a matrix could rotate; use another position",
                       kernel->name);
    if (kernel->not_causal && c->causal)
        return ll_fail(LL_EINVAL,
                       "attention: %s mixes all tokens of a sequence before any is looked at, so it cannot be causal",
                       kernel->name);
    if (c->decay && !c->causal)
        return ll_fail(LL_EINVAL, "attention: decay needs causal attention (r^(i-j) has no meaning for later j)");
    for (int h = 0; c->decay && h < c->H; h++)
        if (!(c->decay[h] > 0 && c->decay[h] <= 1))
            return ll_fail(LL_EINVAL, "attention: decay of head %d is %g, must be in (0, 1]", h, (double)c->decay[h]);
    ll_status status = ll_feature_map_check(c, after);
    const ll_logit_kind *logits = position_of(c)->logits;
    if (!status && logits) status = logits->check(c);
    const ll_premap_kind *stage = position_of(c)->premap;
    if (!status && stage) status = ll_premap_check(stage, c, kernel);
    if (!status && kernel->check) status = kernel->check(c);
    if (!status) status = check_gated(c);
    const ll_operator_kind *kind = ll_operator_of_config(c);
    return !status && kind != kernel && kind->check ? kind->check(c) : status;
}

/* ---- Created ---- */

/* NULL stays NULL. */
static void *copy(const void *from, size_t bytes, ll_status *status) {
    void *to = from && !*status ? ll_alloc(bytes, 1) : NULL;
    if (from && !to) *status = LL_ENOMEM;
    return to ? memcpy(to, from, bytes) : NULL;
}

static ll_status copy_constants(ll_attention *op, const ll_attention_config *from) {
    ll_constant list[LL_CONSTANTS];
    const int n = ll_constants(from, list);
    ll_status status = LL_OK;
    for (int i = 0; i < n; i++)
        ll_constant_set(&op->c, &list[i], copy(ll_constant_of(from, &list[i]), ll_constant_bytes(&list[i]), &status));
    return status;
}

static void free_constants(ll_attention *op) {
    ll_constant list[LL_CONSTANTS];
    const int n = ll_constants(&op->c, list);
    for (int i = 0; i < n; i++) ll_free(ll_constant_of(&op->c, &list[i]));
}

static ll_status build(ll_attention *op, const ll_attention_config *config) {
    ll_status status = copy_constants(op, config);
    const ll_premap_kind *stage = position_of(config)->premap;
    if (!status && stage) status = ll_premap_create(&op->premap, stage, config);
    if (status || !op->kind->create) return status;
    ll_attention_config engine = op->c;
    engine.D = op->D;
    if (op->premap) engine.position = LL_POSITION_NONE;
    return op->kind->create(op, &engine);
}

ll_status ll_attention_create(ll_attention **out, const ll_attention_config *given) {
    LL_FLOAT_MODE;
    ll_attention_config own;
    const ll_attention_config *const config = &own;
    ll_status status = ll_struct_take(&own, sizeof own, given, "ll_attention_config");
    if (!status) status = check_sizes(config);
    if (!status) status = check_parts(config);
    if (status) return status;
    ll_attention *op = ll_alloc(1, sizeof *op);
    if (!op) return LL_ENOMEM;
    op->c = *config; /* build puts copies in the place of the constants */
    const ll_mechanism_row *kernel = ll_kernel_row((int)config->kernel);
    op->kind = ll_operator_of_config(config);
    op->gated = kernel->gated ? kernel->about.name : NULL;
    op->features = kernel->kind->linear;
    op->D = ll_attention_width(config);
    op->map = ll_map_of(config->kernel);
    op->postmap = position_of(config)->postmap;
    op->logits = position_of(config)->logits;
    op->usual_tile = ll_kernel_table()->tile;
    op->scan_tile = ll_kernel_table()->scan_tile;
    status = build(op, config);
    if (status) {
        ll_attention_free(op);
        return status;
    }
    *out = op;
    return LL_OK;
}

void ll_attention_free(ll_attention *op) {
    if (!op) return;
    if (op->kind->free) op->kind->free(op);
    ll_premap_free(op->premap);
    free_constants(op);
    ll_free(op);
}

void ll_attention_set_tile(ll_attention *op, int tile) {
    op->tile = tile;
    if (op->kind->set_tile) op->kind->set_tile(op, tile);
}

ll_cost ll_operator_cost(const ll_attention *op, double keys) {
    ll_cost cost = op->kind->cost(op, keys);
    if (op->premap) cost.multiply_adds += op->c.H * op->premap->kind->cost(op->premap);
    return cost;
}

int ll_attention_tile(const ll_attention *op) { return op->tile ? op->tile : op->usual_tile; }

void ll_attention_set_projection(ll_attention *op, const float *projection) {
    const size_t size = (size_t)op->c.M * (size_t)op->D;
    if (projection != op->c.projection) memcpy((float *)op->c.projection, projection, size * sizeof *projection);
    op->kind->project(op, projection);
}
