/* RoPE on features, in the numerator alone (Su et al. 2021, linear attention):
 *
 *   y_i = sum_j <R_i phi(q_i), R_j phi(k_j)> v_j / s_i        s_i = sum_j <phi(q_i), phi(k_j)>
 *
 * Two operators compute undivided sums: `numerator` those of rotated features, `denominator` those of plain features,
 * with one value of 1 for every key. Weights may be negative and do not sum to 1. Saved are the inverses of the
 * divisors (B, H, T), and what both operators save. */
#include "attention/attention_stream.h"
#include "attention/cross_cache.h"
#include "attention/linear/rope_linear.h"
#include "attention/position/postmap.h"
#include "attention/table.h"
#include "base/integer.h"
#include "base/memory.h"

static size_t rows_of(const ll_attention *op, int B, int T) {
    return ll_round_up((size_t)B * (size_t)op->c.H * (size_t)T, LL_LINE);
}

static size_t saved_of(const ll_attention *op, int B, int T, int S, int segments) {
    const ll_attention_call call = {.B = B, .T = T, .S = S, .segments = segments};
    return ll_round_up(ll_attention_saved(op, &call), LL_LINE);
}

static size_t saved(const ll_attention *op, int B, int T, int S, int segments) {
    const ll_rope_linear *of = ll_rope_linear_parts(op);
    return rows_of(op, B, T) + saved_of(of->numerator, B, T, S, segments) +
           saved_of(of->denominator, B, T, S, segments);
}

/* The call of `denominator`. Its value is one number, and its outputs are one column. */
static ll_attention_call denominator_call(const ll_attention *op, const ll_attention_call *call, float *one, float *s) {
    ll_attention_call c = *call;
    c.v = (ll_view){.data = one};
    c.y = ll_view_packed(s, op->c.H, c.T, 1);
    const ll_attention *numerator = ll_rope_linear_parts(op)->numerator;
    size_t states;
    if (c.state_row && ll_attention_state_floats(numerator, &states) == LL_OK) {
        if (c.state_in) c.state_in += states;
        if (c.state_out) c.state_out += states;
        if (c.dstate_in) c.dstate_in += states;
        if (c.dstate_out) c.dstate_out += states;
    }
    if (c.saved) c.saved += rows_of(op, c.B, c.T) + saved_of(numerator, c.B, c.T, c.S, ll_sequence_count(&c));
    return c;
}

/* The keys of earlier calls, of each sequence. The state that a call leaves may be written over the one that it takes,
 * so this is read before the sums. */
static void count_earlier(const ll_attention *op, const ll_attention_call *c, float *earlier) {
    const size_t number = ll_carried_floats(ll_rope_linear_parts(op)->numerator) - 1; /* the last one of a head */
    for (int i = 0; i < ll_sequence_count(c); i++) {
        const float *in = ll_carried_at(c, 0, i, number).in;
        earlier[i] = in ? *in : 0;
    }
}

/* Replaces s by the inverse of the divisor of each row. Rows outside of all sequences stay 0. */
static void invert(const ll_attention *op, const ll_attention_call *c, const float *earlier, float *s) {
    for (int i = 0; i < ll_sequence_count(c); i++) {
        const ll_span q = ll_sequence_at(c, i);
        const float *mask = c->key_mask ? c->key_mask + (size_t)q.row * (size_t)c->S + (size_t)q.key : NULL;
        for (int h = 0; h < op->c.H; h++) {
            float *to = s + ((size_t)q.row * (size_t)op->c.H + (size_t)h) * (size_t)c->T + (size_t)q.query;
            int64_t keys = (int64_t)earlier[i];
            for (int j = 0; j < q.keys && !op->c.causal; j++) keys += !mask || mask[j] != 0;
            for (int t = 0; t < q.queries; t++) {
                if (op->c.causal) keys += !mask || mask[t] != 0;
                to[t] = ll_inverse((float)ll_divisor(op, (double)to[t], 0, (double)keys));
            }
        }
    }
}

static void scale_rows(const ll_attention *op, const ll_attention_call *c, const float *factor, const ll_view *from,
                       const ll_view *to) {
    for (int b = 0; b < c->B; b++)
        for (int h = 0; h < op->c.H; h++)
            for (int t = 0; t < c->T; t++, factor++)
                for (int e = 0; e < op->c.E; e++) ll_element(to, b, h, t)[e] = *factor * ll_element(from, b, h, t)[e];
}

/* The two operators use the same scratch, one after the other. */
static size_t inner_scratch(const ll_attention *op, const ll_attention_call *c, int backward) {
    return ll_max_size(ll_attention_scratch(ll_rope_linear_parts(op)->numerator, c, backward),
                       ll_attention_scratch(ll_rope_linear_parts(op)->denominator, c, backward));
}

/* Memory for s, whose place the inverses take: in `saved`, or in scratch if nothing is saved. */
static float *take_rows(const ll_attention *op, const ll_attention_call *c, ll_arena *a) {
    return c->saved ? c->saved : ll_arena_take(a, rows_of(op, c->B, c->T));
}

static ll_status forward(const ll_attention *op, const ll_attention_call *given) {
    ll_arena a = {.base = given->scratch};
    float one = 1, *const s = take_rows(op, given, &a), *const earlier = ll_arena_take(&a, ll_most_sequences(given));
    const ll_attention_call inner = ll_inner_call(given, &a), with = ll_with_state_rows(op, &inner), *call = &with;
    ll_attention_call c = *call;
    count_earlier(op, call, earlier);
    if (c.saved) c.saved += rows_of(op, c.B, c.T);
    ll_status status = ll_attention_forward(ll_rope_linear_parts(op)->numerator, &c);
    c = denominator_call(op, call, &one, s);
    if (!status) status = ll_attention_forward(ll_rope_linear_parts(op)->denominator, &c);
    if (status) return status;
    invert(op, call, earlier, s);
    scale_rows(op, call, s, &call->y, &call->y);
    return LL_OK;
}

/* The gradient at the undivided sums is g / den, at s it is -<g, y> / den. Operators without divisor do not read y. */
static void gradients(const ll_attention *op, const ll_attention_call *c, const float *inverse, const ll_view *dn,
                      float *ds) {
    scale_rows(op, c, inverse, &c->g, dn);
    for (int b = 0; b < c->B; b++)
        for (int h = 0; h < op->c.H; h++)
            for (int t = 0; t < c->T; t++, ds++) {
                const float *d = ll_element(dn, b, h, t), *y = ll_element(&c->y, b, h, t);
                *ds = 0;
                for (int e = 0; e < op->c.E && op->c.den != LL_DEN_NONE; e++) *ds -= d[e] * y[e];
            }
}

static void add_rows(const ll_view *from, const ll_view *to, int B, int H, int n, int width) {
    for (int b = 0; b < B; b++)
        for (int h = 0; h < H; h++)
            for (int t = 0; t < n; t++)
                for (int e = 0; e < width; e++) ll_element(to, b, h, t)[e] += ll_element(from, b, h, t)[e];
}

/* Gradients at the undivided sums, and those that the denominator computes. */
typedef struct {
    float *g, *ds, *dq, *dk, *dv, *dgate;
} gradient_rows;

static gradient_rows take_gradients(const ll_attention *op, const ll_attention_call *c, ll_arena *a) {
    const size_t queries = rows_of(op, c->B, c->T), keys = rows_of(op, c->B, c->S);
    gradient_rows d = {.g = ll_arena_take(a, queries * (size_t)op->c.E)};
    d.dq = ll_arena_take(a, queries * (size_t)op->D);
    d.ds = ll_arena_take(a, queries);
    d.dgate = ll_arena_take(a, queries);
    d.dk = ll_arena_take(a, keys * (size_t)op->D);
    d.dv = ll_arena_take(a, keys);
    return d;
}

static size_t scratch(const ll_attention *op, const ll_attention_call *c, int backward) {
    ll_arena a = {0};
    if (backward) {
        (void)take_gradients(op, c, &a);
    } else {
        (void)take_rows(op, c, &a);
        (void)ll_arena_take(&a, ll_most_sequences(c));
    }
    return a.used + inner_scratch(op, c, backward);
}

static ll_status backward(const ll_attention *op, const ll_attention_call *given) {
    ll_arena a = {.base = given->scratch};
    const gradient_rows d = take_gradients(op, given, &a);
    const ll_attention_call inner = ll_inner_call(given, &a), with = ll_with_state_rows(op, &inner), *call = &with;
    const int B = call->B, H = op->c.H, T = call->T, S = call->S, D = op->D, E = op->c.E;
    float one = 1;
    ll_attention_call c = *call;
    c.g = ll_view_packed(d.g, H, T, E);
    gradients(op, call, call->saved, &c.g, d.ds);
    c.saved += rows_of(op, B, T);
    ll_status status = ll_attention_backward(ll_rope_linear_parts(op)->numerator, &c);
    c = denominator_call(op, call, &one, call->saved);
    c.g = ll_view_packed(d.ds, H, T, 1);
    if (c.dgate.data) c.dgate = ll_view_packed(d.dgate, H, T, 1);
    c.dq = ll_view_packed(d.dq, H, T, D);
    c.dk = ll_view_packed(d.dk, H, S, D);
    c.dv = ll_view_packed(d.dv, H, S, 1);
    if (!status) status = ll_attention_backward(ll_rope_linear_parts(op)->denominator, &c);
    if (status) return status;
    add_rows(&c.dq, &call->dq, B, H, T, D);
    if (c.dgate.data) add_rows(&c.dgate, &call->dgate, B, H, T, 1);
    add_rows(&c.dk, &call->dk, B, H, S, D);
    return LL_OK;
}

/* ---- The kind ---- */

static ll_status check(const ll_attention_config *c) {
    const ll_operator *kernel = ll_operator_of_kernel(c->kernel);
    const int features = ll_feature_count(c);
    if (!kernel->linear)
        return ll_fail(LL_EINVAL, "attention: %s has no features that rope-linear could turn; use rope", kernel->name);
    if (features % 2) return ll_fail(LL_EINVAL, "attention: rope turns pairs, %d features are odd", features);
    if (c->den == LL_DEN_EPS_PHI)
        return ll_fail(LL_EINVAL, "attention: rope-linear has no divisor with the query's features; use another one");
    if (!ll_scale_cancels(c) && c->kernel == LL_KERNEL_FAVOR && c->causal && c->key_max == LL_MAX_PREFIX &&
        c->feature_eps > 0)
        return ll_fail(LL_EINVAL, "attention: rope-linear would turn the eps of features under a running maximum; "
                                  "use eps 0");
    return LL_OK;
}

static ll_status create(ll_attention *op, const ll_attention_config *engine) {
    ll_attention_config c = *engine;
    ll_rope_linear *own = op->own = ll_alloc(1, sizeof *own);
    if (!own) return LL_ENOMEM;
    const int shares = ll_scale_cancels(&c);
    if (shares) c.max_gradient = 0; /* there is no maximum then, but powers of two, which cancel */
    c.position = LL_POSITION_NONE;
    c.den = LL_DEN_NONE;
    ll_status status = ll_attention_create(&own->numerator, &c);
    if (!status) status = ll_feature_map_add_stage(own->numerator->own, &ll_postmap_rope);
    c.E = 1;
    if (!status) status = ll_attention_create(&own->denominator, &c);
    /* Both sums are then in units of the same powers of two: of each query, and of the state. The latter fall with the
     * decay. In units of the largest key so far, later keys could be too small for a float. */
    if (status || !shares) return status;
    ll_feature_map_share_scale(own->numerator->own);
    ll_feature_map_share_scale(own->denominator->own);
    return LL_OK;
}

static void destroy(ll_attention *op) {
    ll_rope_linear *own = op->own;
    if (!own) return;
    ll_attention_free(own->numerator);
    ll_attention_free(own->denominator);
    ll_free(own);
}

static void project(ll_attention *op, const float *projection) {
    ll_attention_set_projection(ll_rope_linear_parts(op)->numerator, projection);
    ll_attention_set_projection(ll_rope_linear_parts(op)->denominator, projection);
}

static void set_tile(ll_attention *op, int tile) {
    ll_attention_set_tile(ll_rope_linear_parts(op)->numerator, tile);
    ll_attention_set_tile(ll_rope_linear_parts(op)->denominator, tile);
}

static ll_status state(const ll_attention *op, ll_state_tensor tensor[LL_STATE_TENSORS], int *count) {
    int more = 0;
    ll_status status = ll_attention_state(ll_rope_linear_parts(op)->numerator, tensor, count);
    if (!status) status = ll_attention_state(ll_rope_linear_parts(op)->denominator, tensor + *count, &more);
    if (status) return status;
    tensor[*count].name = "sums";
    *count += more;
    return LL_OK;
}

static void state_clear(const ll_attention *op, float *state) {
    size_t floats = 0;
    const ll_status status = ll_attention_state_floats(ll_rope_linear_parts(op)->numerator, &floats);
    if (status) return; /* as state said */
    ll_attention_state_clear(ll_rope_linear_parts(op)->numerator, state);
    ll_attention_state_clear(ll_rope_linear_parts(op)->denominator, state + floats);
}

/* The denominator needs only sums of features, which the numerator's cost includes. */
static ll_cost cost(const ll_attention *op, double keys) {
    return ll_linear_cost(ll_rope_linear_parts(op)->numerator, keys);
}

static ll_status can_stream(const ll_attention *op) {
    return ll_attention_can_stream(ll_rope_linear_parts(op)->numerator);
}

const ll_operator ll_operator_rope_linear = {
    .name = "rope-linear",
    .linear = 1,
    .gates = 1,
    .reads = 2,
    .packs = 1,
    .check = check,
    .create = create,
    .free = destroy,
    .project = project,
    .set_tile = set_tile,
    .saved = saved,
    .scratch = scratch,
    .forward = forward,
    .backward = backward,
    .state = state,
    .state_clear = state_clear,
    .cost = cost,
    .can_stream = can_stream,
    .recurrence = &ll_recurrence_rope_linear,
    .cross = &ll_cross_rope_linear,
};
