/* The operator of relative-s2. Heads with keys are an operator of their own. Heads without keys have a feature map. */
#include <string.h>

#include "attention/attention_stream.h"
#include "attention/relative_s2/relative_s2.h"
#include "attention/parameter.h"
#include "attention/table.h"
#include "base/memory.h"

static ll_status check(const ll_attention_config *c) {
    const ll_position_config *w = &c->encoding;
    if (w->clip < 1 || w->clip > LL_CLIP_MOST)
        return ll_fail(LL_EINVAL, "attention: relative-s2 clips distances at 1 to %d, got %d", LL_CLIP_MOST, w->clip);
    if (w->keyless < 1 || w->keyless > c->H)
        return ll_fail(LL_EINVAL, "attention: relative-s2 leaves 1 to %d heads without keys, not %d", c->H, w->keyless);
    if (!w->rpe) return ll_fail(LL_EINVAL, "attention: relative-s2 needs its vectors, one a distance");
    if (w->axes != 1 && w->axes != 2)
        return ll_fail(LL_EINVAL, "attention: relative-s2 has 1 or 2 axes, not %d", w->axes);
    if (c->before < 0) return ll_fail(LL_EINVAL, "attention: %d tokens without position", c->before);
    if (w->axes == 2 && (c->width < 1 || c->height < 1))
        return ll_fail(LL_EINVAL, "attention: relative-s2 in two dimensions needs the image size, got %d x %d",
                       c->width, c->height);
    if (!ll_operator_of_kernel(c->kernel)->linear && c->kernel != LL_KERNEL_SOFTMAX)
        return ll_fail(LL_EINVAL, "attention: relative-s2 is for softmax and linear kernels, not for %s",
                       ll_operator_of_kernel(c->kernel)->name);
    if (c->decay) return ll_fail(LL_EINVAL, "attention: decay is of a state, and heads without keys have none");
    if (c->kernel == LL_KERNEL_FAVOR && c->query_max == LL_MAX_SEQUENCE && !ll_scale_cancels(c))
        return ll_fail(LL_EINVAL,
                       "attention: in relative-s2 queries take their maximum over their own token; use token");
    return LL_OK;
}

/* Vectors of 0, so that all distances are alike at first. Kernels whose features are flat or 0 there would never learn;
 * they start as other weights do. */
static void init(const ll_attention_config *c, const ll_parameter *p, const ll_parameter_draw *draw, float *x) {
    const ll_map *map = ll_map_of(c->kernel);
    if (map && map->flat_or_zero)
        ll_parameter_normal(p, draw, (float)draw->std, x);
    else
        memset(x, 0, ll_parameter_size(p) * sizeof *x);
}

static int parameters(const ll_attention_config *c, ll_parameter *list) {
    list[0] = (ll_parameter){LL_POSITION_PARAMETER(rpe), .rank = 2, .lead = 1, .shape = {c->encoding.clip + 1, c->D},
                             .init = init};
    return 1;
}

static ll_status create(ll_attention *op, const ll_attention_config *engine) {
    ll_attention_config c = *engine;
    ll_relative_s2 *own = op->own = ll_alloc(1, sizeof *own);
    if (!own) return LL_ENOMEM;
    c.position = LL_POSITION_NONE;
    c.H = engine->H > engine->encoding.keyless ? engine->H - engine->encoding.keyless : 1; /* or one that never runs */
    const ll_status status = ll_attention_create(&own->keyed, &c);
    if (status) return status;
    c.H = c.E = 1;
    c.causal = 0;
    if (ll_scale_cancels(&c)) { /* every stabiliser is exact then */
        c.query_max = LL_MAX_TOKEN;
        c.max_of_u = c.max_gradient = 0;
    }
    if (c.key_max != LL_MAX_NONE) c.key_max = LL_MAX_SEQUENCE; /* there are no other keys than the vectors */
    return ll_feature_map_create(&own->map, &c, ll_map_of(c.kernel), NULL);
}

static void destroy(ll_attention *op) {
    ll_relative_s2 *own = op->own;
    if (!own) return;
    ll_attention_free(own->keyed);
    ll_feature_map_free(own->map);
    ll_free(own);
}

static void project(ll_attention *op, const float *projection) {
    ll_attention_set_projection(ll_s2_parts(op)->keyed, projection);
    ll_feature_map_project(ll_s2_parts(op)->map, projection);
}

static void set_tile(ll_attention *op, int tile) { ll_attention_set_tile(ll_s2_parts(op)->keyed, tile); }

/* Of the heads with keys, which come first, then of those without. */
static ll_status state(const ll_attention *op, ll_state_tensor tensor[LL_STATE_TENSORS], int *count) {
    int keyed = 0;
    ll_status status = ll_s2_has_keys(op) ? ll_attention_state(ll_s2_parts(op)->keyed, tensor, &keyed) : LL_OK;
    if (!status) status = ll_s2_tensors(op, tensor + keyed, count);
    if (!status) *count += keyed;
    return status;
}

static void state_clear(const ll_attention *op, float *all) {
    size_t floats = 0;
    if (ll_attention_state_floats(op, &floats)) return; /* as state said */
    memset(all, 0, floats * sizeof *all);
    if (ll_s2_has_keys(op)) ll_attention_state_clear(ll_s2_parts(op)->keyed, all);
}

static ll_status check_counts(const ll_attention *op, const float *all) {
    const ll_attention *keyed = ll_s2_parts(op)->keyed;
    size_t floats = 0;
    ll_status status = ll_s2_has_keys(op) ? ll_attention_state_floats(keyed, &floats) : LL_OK;
    if (!status && floats && keyed->kind->check_counts) status = keyed->kind->check_counts(keyed, all);
    return status ? status : ll_s2_check(op, all + floats);
}

/* The cost of heads with keys. Heads without keys cost the features of a query, its products with the vectors, the
 * values closer than clip, and the sum of the others. Where those with keys have no stream, there is none. */
static ll_cost cost(const ll_attention *op, double keys) {
    const ll_attention_config *c = &op->c;
    const ll_feature_map *map = ll_s2_parts(op)->map;
    const double reach = c->encoding.clip - 1, F = map->features, E = c->E, keyless = c->encoding.keyless;
    const double before = c->encoding.axes == 2 ? reach * (reach + 1) : reach, near = (c->causal ? 1 : 2) * before + 1;
    const double each = ll_feature_map_cost(map) + F * (c->encoding.clip + 1) + E * (near + 1);
    ll_cost cost = ll_s2_has_keys(op) ? ll_operator_cost(ll_s2_parts(op)->keyed, keys) : (ll_cost){0};
    cost.multiply_adds += keyless * each;
    if (!ll_s2_has_keys(op) || cost.bytes > 0)
        cost.bytes += keyless * E * ((double)sizeof(double) + (double)ll_s2_keep(op) * sizeof(float));
    return cost;
}

static ll_status can_stream(const ll_attention *op) {
    /* Without keys no maximum needs later tokens. */
    return ll_s2_has_keys(op) ? ll_attention_can_stream(ll_s2_parts(op)->keyed) : LL_OK;
}

const ll_operator_kind ll_operator_relative_s2 = {
    .name = "relative-s2",
    .keyless = 1,
    .reads = 2,
    .packs = 1,
    .check = check,
    .parameters = parameters,
    .create = create,
    .free = destroy,
    .project = project,
    .set_tile = set_tile,
    .saved = ll_s2_saved,
    .scratch = ll_s2_scratch,
    .forward = ll_s2_forward,
    .backward = ll_s2_backward,
    .state = state,
    .state_clear = state_clear,
    .check_counts = check_counts,
    .cost = cost,
    .can_stream = can_stream,
    .recurrence = &ll_recurrence_relative_s2,
};
