/* The operator: what fits together, its own copies of the draws, and the way to the engine. */
#include "attention/operator.h"

#include <math.h>
#include <string.h>

#include "attention/table.h"
#include "attention/exact/logit_bias.h"
#include "base/memory.h"

enum { MOST = 1 << 16 }; /* of every size of a head: far above any use, far below overflow */

ll_attention_config ll_attention_default(void) {
    return (ll_attention_config){
        .kernel = LL_KERNEL_SOFTMAX, .causal = 1, .H = 1, .D = 64, .E = 64, .input_scale = 0.125f};
}

/* Features that one row of the projection makes. */
static int pairs(const ll_attention_config *c) {
    return c->kernel == LL_KERNEL_FAVOR && c->features != LL_FEATURES_POSITIVE ? 2 : 1;
}

int ll_feature_count(const ll_attention_config *c) {
    return c->M ? pairs(c) * c->M : c->D;
}

int ll_is_trigonometric(const ll_attention_config *c) {
    return c->kernel == LL_KERNEL_FAVOR &&
           (c->features == LL_FEATURES_TRIGONOMETRIC || c->features == LL_FEATURES_GAUSSIAN);
}

int ll_keyed_heads(const ll_attention_config *c) {
    return c->position == LL_POSITION_RELATIVE_S2 ? c->H - c->where.keyless : c->H;
}

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

/* The eps of favor stands beside features of which c has been taken out, that of the exponential kernel beside those
 * that are meant. */
int ll_scale_cancels(const ll_attention_config *c) {
    const int sum = c->den == LL_DEN_SUM || (c->den == LL_DEN_GUARD && c->den_eps == 0);
    if (c->kernel == LL_KERNEL_EXP) return sum;
    return c->kernel == LL_KERNEL_FAVOR && c->features != LL_FEATURES_GAUSSIAN && c->feature_eps == 0 && sum;
}

/* The rules of the stabiliser. */
static ll_status check_favor(const ll_attention_config *c) {
    if (c->kernel != LL_KERNEL_FAVOR) {
        if (c->features != LL_FEATURES_POSITIVE)
            return ll_fail(LL_EINVAL, "attention: hyperbolic and trigonometric features are features of favor");
        return LL_OK;
    }
    if (c->features < LL_FEATURES_POSITIVE || c->features > LL_FEATURES_GAUSSIAN)
        return ll_fail(LL_EINVAL, "attention: there is no kind %d of features", (int)c->features);
    if (!c->M) return ll_fail(LL_EINVAL, "attention: favor needs a random projection (features at least 1)");
    if (ll_is_trigonometric(c) && c->feature_eps > 0)
        return ll_fail(LL_EINVAL, "attention: trigonometric features have both signs; eps would make them no safer");
    if (c->key_max == LL_MAX_TOKEN)
        return ll_fail(LL_EINVAL, "attention: keys cannot each have their own maximum; use prefix");
    if (c->query_max == LL_MAX_BATCH || (c->query_max == LL_MAX_SEQUENCE && !ll_is_trigonometric(c)))
        return ll_fail(LL_EINVAL, "attention: queries take their maximum over one token, or none; trigonometric "
                                  "features also over the sequence");
    if (c->max_gradient && c->key_max == LL_MAX_PREFIX && c->causal && !ll_scale_cancels(c))
        return ll_fail(LL_EINVAL, "attention: the gradient through a running maximum is not defined; stop it");
    return LL_OK;
}

static int permuted(const ll_attention_config *c) {
    return c->position == LL_POSITION_PERMUTE || c->position == LL_POSITION_PERMUTE2D;
}

static ll_status check_parts(const ll_attention_config *c) {
    const ll_method *method = ll_method_of(c->kernel);
    if (!method) return ll_fail(LL_EINVAL, "attention: there is no kernel %d", (int)c->kernel);
    if (!method->linear && (c->M || permuted(c) || c->decay))
        return ll_fail(LL_EINVAL, "attention: %s has no features, so no projection, permutation or decay",
                       method->name);
    if (c->M && !c->projection) return ll_fail(LL_EINVAL, "attention: %d features but no projection given", c->M);
    if (permuted(c) && !c->permutation)
        return ll_fail(LL_EINVAL, "attention: permuted positions but no permutation given");
    if (c->permutation && !permuted(c))
        return ll_fail(LL_EINVAL, "attention: a permutation is given but position is not permute");
    if (c->decay && !c->causal)
        return ll_fail(LL_EINVAL, "attention: decay needs causal attention (r^(i-j) has no meaning for later j)");
    for (int h = 0; c->decay && h < c->H; h++)
        if (!(c->decay[h] > 0 && c->decay[h] <= 1))
            return ll_fail(LL_EINVAL, "attention: decay of head %d is %g, must be in (0, 1]", h, (double)c->decay[h]);
    if (c->position == LL_POSITION_PERMUTE2D) {
        if (c->causal) return ll_fail(LL_EINVAL, "attention: permute2d is for whole images, not causal attention");
        if (ll_feature_count(c) % 2)
            return ll_fail(LL_EINVAL, "attention: permute2d halves the features, %d is odd", ll_feature_count(c));
        if (c->width < 1 || c->height < 1 || c->before < 0)
            return ll_fail(LL_EINVAL, "attention: permute2d needs the image size, got %d x %d", c->width, c->height);
    }
    ll_status status = ll_method_check(c);
    if (!status) status = ll_distances_check(c);
    if (!status) status = ll_orthogonal_check(c);
    return status ? status : check_favor(c);
}

/* Which scaling of softmax features is exact, and which has to be the released one. */
static void choose_features(ll_attention *op) {
    const ll_attention_config *c = &op->c;
    op->phi[LL_QUERY] = op->phi[LL_KEY] = LL_PHI_PLAIN;
    op->root = 1 / sqrtf((float)(ll_is_trigonometric(c) ? c->M : op->features));
    op->scale_cancels = ll_scale_cancels(c);
    if (op->scale_cancels) op->phi[LL_QUERY] = op->phi[LL_KEY] = LL_PHI_RUNNING;
    if (c->kernel != LL_KERNEL_FAVOR || c->features == LL_FEATURES_GAUSSIAN) return;
    op->phi[LL_QUERY] = op->scale_cancels ? LL_PHI_RUNNING : LL_PHI_FIXED;
    op->phi[LL_KEY] = op->scale_cancels || (c->key_max == LL_MAX_PREFIX && c->causal) ? LL_PHI_RUNNING : LL_PHI_FIXED;
}

void ll_attention_set_projection(ll_attention *op, const float *projection) {
    if (op->inner) {
        ll_attention_set_projection(op->inner, projection);
        if (op->sums) ll_attention_set_projection(op->sums, projection);
        return;
    }
    const int D = op->c.D, m = op->features, copies = op->permute.own_weight ? op->c.H : 1;
    const float minus = op->c.features == LL_FEATURES_HYPERBOLIC ? -1 : 1; /* the second half of hyperbolic features */
    if (projection != op->c.projection)
        memcpy((float *)op->c.projection, projection, (size_t)op->c.M * (size_t)D * sizeof *projection);
    for (int h = 0; h < copies; h++) {
        float *w = op->weight + (size_t)h * (size_t)D * (size_t)op->ld;
        float *t = op->weight_t + (size_t)h * (size_t)D * (size_t)m;
        for (int a = 0; a < m; a++) {
            const int from = op->permute.own_weight ? op->permute.order[(size_t)h * (size_t)m + (size_t)a] : a;
            const float *source = projection + (size_t)(from % op->c.M) * (size_t)D;
            const float factor = op->c.input_scale * (from < op->c.M ? 1 : minus);
            if (op->sine) op->sine[(size_t)h * (size_t)m + (size_t)a] = from >= op->c.M;
            for (int e = 0; e < D; e++) {
                const float x = factor * source[e];
                t[(size_t)a * (size_t)D + (size_t)e] = w[(size_t)e * (size_t)op->ld + (size_t)a] = x;
            }
        }
    }
}

static void *copy(const void *from, size_t count, size_t size) {
    void *to = from ? ll_alloc(count, size) : NULL;
    return to ? memcpy(to, from, count * size) : NULL;
}

static ll_status build(ll_attention *op, const ll_attention_config *config) {
    const size_t H = (size_t)op->c.H, D = (size_t)op->c.D, m = (size_t)op->features;
    op->c.projection = copy(config->projection, (size_t)op->c.M * D, sizeof(float));
    op->c.permutation = copy(config->permutation, H * (m / (op->c.position == LL_POSITION_PERMUTE2D ? 2 : 1)), 4);
    op->c.decay = copy(config->decay, H, sizeof(float));
    if ((config->projection && !op->c.projection) || (config->permutation && !op->c.permutation) ||
        (config->decay && !op->c.decay))
        return LL_ENOMEM;
    if (permuted(&op->c)) {
        const ll_status status = ll_permute_create(op);
        if (status) return status;
    }
    if (op->c.position == LL_POSITION_ORTHOGONAL && ll_orthogonal_create(op, config)) return LL_ENOMEM;
    if (!op->c.M) return ll_method_prepare(op, config);
    op->permute.own_weight = op->permute.reorder; /* the projection's rows are put in cycle order instead */
    op->permute.reorder = 0;
    const size_t copies = op->permute.own_weight ? H : 1;
    op->weight = ll_alloc(copies * D * (size_t)op->ld, sizeof(float));
    op->weight_t = ll_alloc(copies * D * m, sizeof(float));
    if (!op->weight || !op->weight_t) return LL_ENOMEM;
    if (ll_is_trigonometric(&op->c) && !(op->sine = ll_alloc(copies * m, 1))) return LL_ENOMEM;
    ll_attention_set_projection(op, op->c.projection);
    return LL_OK;
}

static int is_shell(ll_position position) {
    return position >= LL_POSITION_ROPE && position <= LL_POSITION_RELATIVE_S2;
}

ll_status ll_attention_create(ll_attention **out, const ll_attention_config *config) {
    ll_status status = check_sizes(config);
    if (!status) status = check_parts(config);
    if (status) return status;
    ll_attention *op = ll_alloc(1, sizeof *op);
    if (!op) return LL_ENOMEM;
    op->c = *config;
    op->c.projection = op->c.decay = op->c.baseline.rotations = NULL;
    op->c.permutation = NULL;
    op->method = ll_method_of(config->kernel);
    op->usual_tile = ll_kernel_table()->tile;
    op->features = ll_feature_count(config);
    op->ld = (op->features + 15) / 16 * 16 + 16; /* rows a line apart in every set of L1 */
    status = is_shell(op->c.position) ? ll_shell_create(op, config) : build(op, config);
    if (status) {
        ll_attention_free(op);
        return status;
    }
    if (!op->inner) choose_features(op);
    if (op->inner) { /* what a shell is asked about its draws, its engine knows */
        op->features = op->inner->features;
        op->c.projection = op->inner->c.projection;
        op->c.decay = op->inner->c.decay;
        op->c.baseline.rotations = op->inner->c.baseline.rotations;
    }
    *out = op;
    return LL_OK;
}

void ll_attention_free(ll_attention *op) {
    if (!op) return;
    if (op->inner) { /* a shell's copies are its engine's */
        op->c.projection = op->c.decay = op->c.baseline.rotations = NULL;
    }
    ll_shell_free(op);
    ll_attention_free(op->part);
    ll_permute_free(&op->permute);
    ll_free(op->turn);
    ll_free(op->basis);
    ll_free(op->basis_t);
    ll_free(op->angles);
    ll_free(op->weight);
    ll_free(op->weight_t);
    ll_free(op->sine);
    ll_free((void *)op->c.projection);
    ll_free((void *)op->c.permutation);
    ll_free((void *)op->c.decay);
    ll_free((void *)op->c.baseline.rotations);
    ll_free(op);
}

void ll_attention_set_tile(ll_attention *op, int tile) {
    op->tile = tile < 0 ? 0 : tile > LL_TILE_MOST ? LL_TILE_MOST : tile;
    ll_attention *const others[] = {op->inner, op->sums, op->part};
    for (int i = 0; i < 3; i++)
        if (others[i]) ll_attention_set_tile(others[i], tile);
}

int ll_attention_tile(const ll_attention *op) {
    return op->tile ? op->tile : op->usual_tile;
}

size_t ll_attention_saved(const ll_attention *op, int B, int T, int S) {
    return op->method->saved(op, B, T, S, B);
}

size_t ll_attention_saved_packed(const ll_attention *op, int B, int T, int S, int segments) {
    return ll_method_saved(op, B, T, S, segments);
}

static ll_status check_call(const ll_attention *op, const ll_attention_call *c) {
    const ll_method *kernel = ll_method_of(op->c.kernel);
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
    if (!kernel->linear && c->key_mask)
        return ll_fail(LL_EINVAL, "attention: key masks are for linear kernels; give %s lengths", kernel->name);
    return LL_OK;
}

ll_status ll_attention_forward(const ll_attention *op, const ll_attention_call *call) {
    const ll_status status = check_call(op, call);
    if (status) return status;
    if (call->segment) ll_segments_clear(call, 0, &call->y, op->c.H, op->c.E);
    return ll_method_run(op, call, 0);
}

ll_status ll_attention_backward(const ll_attention *op, const ll_attention_call *call) {
    ll_status status = check_call(op, call);
    if (!status && !call->saved) status = ll_fail(LL_EINVAL, "attention: backward needs what forward saved");
    if (status) return status;
    if (call->segment) {
        if (call->dq.data) ll_segments_clear(call, 0, &call->dq, op->c.H, op->c.D);
        if (call->dk.data) ll_segments_clear(call, 1, &call->dk, ll_keyed_heads(&op->c), op->c.D);
        ll_segments_clear(call, 1, &call->dv, op->c.H, op->c.E);
    }
    return ll_method_run(op, call, 1);
}
