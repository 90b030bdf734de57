/* The operator: what fits together, its own copies of the draws, and the way to the kind that computes. */
#include "attention/operator.h"

#include <math.h>
#include <string.h>

#include "attention/exact/logit_bias.h"
#include "attention/feature/feature_map.h"
#include "attention/position/premap.h"
#include "attention/table.h"
#include "base/memory.h"

enum { MOST = 1 << 16 }; /* of every size of a head: far above any use, far below overflow */

ll_attention_config ll_attention_default(void) {
    return (ll_attention_config){
        .kernel = LL_KERNEL_SOFTMAX, .causal = 1, .H = 1, .D = 64, .E = 64, .input_scale = 0.125f};
}

int ll_keyed_heads(const ll_attention_config *c) {
    return c->position == LL_POSITION_RELATIVE_S2 ? c->H - c->where.keyless : c->H;
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
    return LL_OK;
}

static int permuted(const ll_attention_config *c) {
    return c->position == LL_POSITION_PERMUTE || c->position == LL_POSITION_PERMUTE2D;
}

static ll_status check_parts(const ll_attention_config *c) {
    const ll_operator *kernel = ll_operator_of_kernel(c->kernel);
    if (!kernel) return ll_fail(LL_EINVAL, "attention: there is no kernel %d", (int)c->kernel);
    if (!kernel->linear && (c->M || permuted(c) || c->decay))
        return ll_fail(LL_EINVAL, "attention: %s has no features, so no projection, permutation or decay",
                       kernel->name);
    if (!kernel->linear && c->position == LL_POSITION_ORTHOGONAL)
        return ll_fail(LL_EINVAL, "attention: %s has no features that a matrix could turn; use another position",
                       kernel->name);
    if (kernel->whole && c->causal)
        return ll_fail(LL_EINVAL,
                       "attention: %s mixes all tokens of a sequence before any is looked at, so it cannot be causal",
                       kernel->name);
    if (c->decay && !c->causal)
        return ll_fail(LL_EINVAL, "attention: decay needs causal attention (r^(i-j) has no meaning for later j)");
    for (int h = 0; c->decay && h < c->H; h++)
        if (!(c->decay[h] > 0 && c->decay[h] <= 1))
            return ll_fail(LL_EINVAL, "attention: decay of head %d is %g, must be in (0, 1]", h, (double)c->decay[h]);
    ll_status status = ll_feature_map_check(c);
    if (!status) status = ll_distances_check(c);
    if (!status) status = ll_premap_check(c, kernel->reads);
    if (!status && kernel->check) status = kernel->check(c);
    const ll_operator *kind = ll_operator_of_config(c);
    return !status && kind != kernel && kind->check ? kind->check(c) : status;
}

/* ---- Created ---- */

static void *copy(const void *from, size_t count, size_t size, ll_status *status) {
    void *to = from && !*status ? ll_alloc(count, size) : NULL;
    if (from && !to) *status = LL_ENOMEM;
    return to ? memcpy(to, from, count * size) : NULL;
}

/* Our copies of the arrays that do not train. */
static ll_status copy_arrays(ll_attention *op, const ll_attention_config *from) {
    ll_attention_config *c = &op->c;
    ll_status status = LL_OK;
    ll_attention_config engine = *from;
    engine.D = op->D;
    const size_t H = (size_t)c->H, m = (size_t)ll_feature_count(&engine);
    const int whole = c->position == LL_POSITION_ORTHOGONAL;
    const ll_approximate_config *a = &from->baseline;
    const size_t rotations = (size_t)a->rounds * H * (size_t)op->D * (size_t)(a->buckets / 2);
    c->projection = copy(from->projection, (size_t)c->M * (size_t)op->D, sizeof(float), &status);
    c->permutation = copy(from->permutation, H * (m / (c->position == LL_POSITION_PERMUTE2D ? 2 : 1)),
                          sizeof(int32_t), &status);
    c->decay = copy(from->decay, H, sizeof(float), &status);
    c->baseline.rotations =
        copy(c->kernel == LL_KERNEL_REFORMER ? a->rotations : NULL, rotations, sizeof(float), &status);
    c->where.basis = copy(whole ? from->where.basis : NULL, H * m * m, sizeof(float), &status);
    if (whole) c->where.theta = copy(from->where.theta, H * (m / 2), sizeof(float), &status);
    return status;
}

static void free_arrays(ll_attention *op) {
    ll_free((void *)op->c.projection);
    ll_free((void *)op->c.permutation);
    ll_free((void *)op->c.decay);
    ll_free((void *)op->c.baseline.rotations);
    ll_free((void *)op->c.where.basis);
    if (op->c.position == LL_POSITION_ORTHOGONAL) ll_free((void *)op->c.where.theta);
}

static ll_status build(ll_attention *op, const ll_attention_config *config) {
    ll_status status = copy_arrays(op, config);
    if (!status) status = ll_premap_create(&op->premap, config);
    if (status || !op->kind->create) return status;
    ll_attention_config engine = op->c;
    engine.D = op->D;
    if (op->premap) engine.position = LL_POSITION_NONE;
    return op->kind->create(op, &engine);
}

ll_status ll_attention_create(ll_attention **out, const ll_attention_config *config) {
    ll_status status = check_sizes(config);
    if (!status) status = check_parts(config);
    if (status) return status;
    ll_attention *op = ll_alloc(1, sizeof *op);
    if (!op) return LL_ENOMEM;
    op->c = *config;
    op->c.projection = op->c.decay = op->c.baseline.rotations = op->c.where.basis = NULL;
    op->c.permutation = NULL;
    if (config->position == LL_POSITION_ORTHOGONAL) op->c.where.theta = NULL;
    op->kind = ll_operator_of_config(config);
    op->D = ll_attention_width(config);
    op->usual_tile = ll_kernel_table()->tile;
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
    free_arrays(op);
    ll_free(op);
}

void ll_attention_set_tile(ll_attention *op, int tile) {
    op->tile = tile < 0 ? 0 : tile > LL_TILE_MOST ? LL_TILE_MOST : tile;
    if (op->kind->set_tile) op->kind->set_tile(op, tile);
}

int ll_attention_tile(const ll_attention *op) {
    return op->tile ? op->tile : op->usual_tile;
}

void ll_attention_set_projection(ll_attention *op, const float *projection) {
    const size_t size = (size_t)op->c.M * (size_t)op->D;
    if (projection != op->c.projection) memcpy((float *)op->c.projection, projection, size * sizeof *projection);
    op->kind->project(op, projection);
}

/* ---- Calls ---- */

static ll_status check_call(const ll_attention *op, const ll_attention_call *c) {
    const ll_operator *kernel = op->kind;
    if (c->B < 0 || c->T < 0 || c->S < 0) return ll_fail(LL_EINVAL, "attention: a size is negative");
    if (op->c.causal && c->S != c->T)
        return ll_fail(LL_EINVAL, "attention: causal needs as many keys as queries, got %d and %d", c->S, c->T);
    if (kernel->itself && c->S != c->T)
        return ll_fail(LL_EINVAL, "attention: %s is attention of a sequence to itself, got %d keys for %d queries",
                       kernel->name, c->S, c->T);
    if (kernel->itself && c->query_lengths)
        return ll_fail(LL_EINVAL, "attention: %s is attention of a sequence to itself; give lengths alone",
                       kernel->name);
    if (c->segment) {
        const ll_status status = ll_segments_check(c, op->c.causal || kernel->itself);
        if (status) return status;
    }
    for (int b = 0; c->lengths && b < c->B; b++)
        if (c->lengths[b] < 0 || c->lengths[b] > c->S)
            return ll_fail(LL_EINVAL, "attention: length %d of sequence %d is not in 0..%d", c->lengths[b], b, c->S);
    if (op->c.causal && c->query_lengths)
        return ll_fail(LL_EINVAL, "attention: causal sequences have as many queries as keys; give lengths alone");
    for (int b = 0; c->query_lengths && b < c->B; b++)
        if (c->query_lengths[b] < 0 || c->query_lengths[b] > c->T)
            return ll_fail(LL_EINVAL, "attention: query length %d of sequence %d is not in 0..%d", c->query_lengths[b],
                           b, c->T);
    if (!ll_operator_of_kernel(op->c.kernel)->linear && c->key_mask)
        return ll_fail(LL_EINVAL, "attention: key masks are for linear kernels; give %s lengths", kernel->name);
    return LL_OK;
}

static ll_status check_gate(const ll_attention *op, const ll_attention_call *c) {
    if (!c->gate.data) return LL_OK;
    if (!op->kind->gates || !op->c.causal)
        return ll_fail(LL_EINVAL, "attention: a gate is for causal linear attention; %s has no state that could decay",
                       op->kind->gates ? "attention in both directions" : op->kind->name);
    if (c->ddecay && op->c.decay && !c->dgate.data)
        return ll_fail(LL_EINVAL, "attention: the gradient of the decay beside a gate needs the gate's; give dgate");
    return LL_OK;
}

ll_status ll_attention_state_floats(const ll_attention *op, size_t *floats) {
    if (!op->kind->state_floats)
        return ll_fail(LL_EINVAL,
                       "attention state: %s keeps all tokens, or mixes them, so that it has no state of constant size; "
                       "use a linear kernel, local or value",
                       op->kind->name);
    return op->kind->state_floats(op, floats);
}

void ll_attention_state_clear(const ll_attention *op, float *state) {
    if (op->kind->state_clear) op->kind->state_clear(op, state);
}

static ll_status check_state(const ll_attention *op, const ll_attention_call *c) {
    size_t floats;
    if (c->query_offset < 0 || c->key_offset < 0)
        return ll_fail(LL_EINVAL, "attention: positions begin at 0, not at %lld and %lld", (long long)c->query_offset,
                       (long long)c->key_offset);
    if (op->c.causal && c->query_offset != c->key_offset)
        return ll_fail(LL_EINVAL, "attention: causal queries and keys are the same tokens; give them the same offset");
    if (c->dstate_out && !c->state_out)
        return ll_fail(LL_EINVAL, "attention: a gradient at the state that a call leaves needs that state, too");
    if (!c->state_in && !c->state_out && !c->dstate_in && !c->dstate_out) return LL_OK;
    return ll_attention_state_floats(op, &floats);
}

/* What the kind saves of a call. Where it does not walk over segments itself, it saves of one sequence a constant,
 * numbers of its tokens, and less than 16 floats for each array that is rounded up: of all sequences no more than what
 * those of one token save, and what the tokens do in rows. */
static size_t kind_saved(const ll_attention *op, int B, int T, int S, int segments) {
    if (!segments) return op->kind->saved(op, B, T, S, B);
    if (op->kind->packs) return op->kind->saved(op, B, T, S, segments);
    return op->kind->saved(op, B, T, S, B) + (size_t)segments * op->kind->saved(op, 1, 1, 1, 1);
}

size_t ll_attention_saved_packed(const ll_attention *op, int B, int T, int S, int segments) {
    return ll_premap_floats(op, B, T, S) + kind_saved(op, B, T, S, segments);
}

/* Forward or backward by the kind, whichever way sequences are told apart. A segment's part of saved comes behind that
 * of the one before. */
static ll_status run(const ll_attention *op, const ll_attention_call *c, int backward) {
    ll_status (*const compute)(const ll_attention *, const ll_attention_call *) =
        backward ? op->kind->backward : op->kind->forward;
    ll_status status = LL_OK;
    float *saved = c->saved;
    if (!c->segment || op->kind->packs) return compute(op, c);
    for (int i = 0; i < c->segments && !status; i++) {
        ll_attention_call one = ll_sequence_call(c, i);
        one.saved = saved;
        status = compute(op, &one);
        if (saved) saved += op->kind->saved(op, 1, one.T, one.S, 1);
    }
    return status;
}

static ll_status forward(const ll_attention *op, const ll_attention_call *call) {
    if (!op->premap) return run(op, call, 0);
    ll_status status = ll_premap_reaches_call(op->premap, call);
    if (status) return status;
    float *own = call->saved ? NULL : ll_alloc(ll_premap_floats(op, call->B, call->T, call->S), sizeof *own);
    if (!call->saved && !own) return LL_ENOMEM;
    const ll_attention_call c = ll_premap_call(op, call, own ? own : call->saved);
    status = ll_premap_forward(op, call, &c);
    if (!status) status = run(op, &c, 0);
    ll_free(own);
    return status;
}

static ll_status backward(const ll_attention *op, const ll_attention_call *call) {
    if (!op->premap) return run(op, call, 1);
    float *gradient = ll_alloc(ll_premap_floats(op, call->B, call->T, call->S), sizeof *gradient);
    if (!gradient) return LL_ENOMEM;
    ll_attention_call c = ll_premap_call(op, call, call->saved);
    const ll_attention_call d = ll_premap_call(op, call, gradient);
    c.dq = d.q, c.dk = d.k;
    ll_status status = run(op, &c, 1);
    if (!status) status = ll_premap_backward(op, call, &c);
    ll_free(gradient);
    return status;
}

ll_status ll_attention_forward(const ll_attention *op, const ll_attention_call *call) {
    ll_status status = check_call(op, call);
    if (!status) status = check_gate(op, call);
    if (!status) status = check_state(op, call);
    if (status) return status;
    if (call->segment) ll_segments_clear(call, 0, &call->y, op->c.H, op->c.E);
    return forward(op, call);
}

ll_status ll_attention_backward(const ll_attention *op, const ll_attention_call *call) {
    ll_status status = check_call(op, call);
    if (!status) status = check_gate(op, call);
    if (!status) status = check_state(op, call);
    if (!status && !call->saved) status = ll_fail(LL_EINVAL, "attention: backward needs what forward saved");
    if (status) return status;
    if (call->segment) {
        if (call->dq.data) ll_segments_clear(call, 0, &call->dq, op->c.H, op->c.D);
        if (call->dk.data) ll_segments_clear(call, 1, &call->dk, ll_keyed_heads(&op->c), op->c.D);
        ll_segments_clear(call, 1, &call->dv, op->c.H, op->c.E);
    }
    return backward(op, call);
}
