/* Feature maps: their checks, and the forms of projections that tiles read. */
#include "attention/feature/feature_map.h"

#include <math.h>
#include <string.h>

#include "attention/feature/features.h"
#include "attention/position/postmap.h"
#include "attention/tile_product.h"
#include "base/integer.h"
#include "base/memory.h"

/* Features that one row of the projection makes. */
static int features_a_row(const ll_attention_config *c) {
    return c->kernel == LL_KERNEL_FAVOR && c->features != LL_FEATURES_POSITIVE ? 2 : 1;
}

int ll_feature_count(const ll_attention_config *c) { return c->M ? features_a_row(c) * c->M : c->D; }

/* The eps of favor is added to features without the factor e^c, so it does not cancel. That of the exponential kernel
 * is added to the features themselves. */
int ll_scale_cancels(const ll_attention_config *c) {
    const int sum = c->den == LL_DEN_SUM || (c->den == LL_DEN_GUARD && c->den_eps == 0);
    if (c->kernel == LL_KERNEL_EXP) return sum;
    return c->kernel == LL_KERNEL_FAVOR && c->features != LL_FEATURES_GAUSSIAN && c->feature_eps == 0 && sum;
}

/* ---- What fits together ---- */

static int is_feature_kind(ll_feature_kind kind) {
    switch (kind) {
    case LL_FEATURES_POSITIVE:
    case LL_FEATURES_HYPERBOLIC:
    case LL_FEATURES_TRIGONOMETRIC:
    case LL_FEATURES_GAUSSIAN: return 1;
    }
    return 0;
}

/* The rules of the stabiliser. */
static ll_status check_favor(const ll_attention_config *c) {
    if (c->kernel != LL_KERNEL_FAVOR) {
        if (c->features != LL_FEATURES_POSITIVE)
            return ll_fail(LL_EINVAL, "attention: hyperbolic and trigonometric features are features of favor");
        return LL_OK;
    }
    if (!is_feature_kind(c->features))
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

ll_status ll_feature_map_check(const ll_attention_config *c, const ll_postmap_kind *stage) {
    if (c->M && !c->projection) return ll_fail(LL_EINVAL, "attention: %d features but no projection given", c->M);
    if (c->permutation && !(stage && stage->axes))
        return ll_fail(LL_EINVAL, "attention: a permutation is given but position is not permute");
    const ll_status status = stage && stage->check ? stage->check(c) : LL_OK;
    return status ? status : check_favor(c);
}

/* ---- Created ---- */

/* Decides how softmax features are scaled: exactly, or as a released rule says. */
static void choose_scaling(ll_feature_map *map) {
    const ll_attention_config *c = &map->c;
    map->phi[LL_QUERY] = map->phi[LL_KEY] = LL_PHI_PLAIN;
    map->root = 1 / sqrtf((float)(ll_is_trigonometric(c) ? c->M : map->features));
    map->scale_cancels = ll_scale_cancels(c);
    if (map->scale_cancels) map->phi[LL_QUERY] = map->phi[LL_KEY] = LL_PHI_RUNNING;
    if (c->kernel != LL_KERNEL_FAVOR || c->features == LL_FEATURES_GAUSSIAN) return;
    const int prefix = c->key_max == LL_MAX_PREFIX && c->causal;
    map->phi[LL_QUERY] = map->scale_cancels ? LL_PHI_RUNNING : LL_PHI_FIXED;
    map->phi[LL_KEY] = map->scale_cancels || prefix ? LL_PHI_RUNNING : LL_PHI_FIXED;
}

void ll_positions(const ll_feature_map *map, int64_t t0, int C, int64_t *x, int64_t *y) {
    const int image = map->stage && map->stage->axes == 2;
    for (int i = 0; i < C; i++) {
        const int64_t p = image ? ll_image_pixel(&map->c, t0 + i) : t0 + i;
        x[i] = image ? p % map->c.width : p;
        if (image) y[i] = p / map->c.width;
    }
}

void ll_feature_map_project(ll_feature_map *map, const float *projection) {
    const int D = map->c.D, m = map->features, copies = map->own_weight ? map->c.H : 1;
    const ll_kernels *k = ll_kernel_table();
    const float minus = map->c.features == LL_FEATURES_HYPERBOLIC ? -1 : 1; /* the second half of hyperbolic features */
    for (int h = 0; h < copies; h++) {
        float *w = map->weight + (size_t)h * (size_t)D * (size_t)map->ld;
        float *t = map->weight_t + (size_t)h * (size_t)D * (size_t)m;
        for (int a = 0; a < m; a++) {
            const int from = map->own_weight ? map->order[(size_t)h * (size_t)m + (size_t)a] : a;
            const float *source = projection + (size_t)(from % map->c.M) * (size_t)D;
            const float factor = map->c.input_scale * (from < map->c.M ? 1 : minus);
            if (map->sine) map->sine[(size_t)h * (size_t)m + (size_t)a] = from >= map->c.M;
            for (int e = 0; e < D; e++) {
                const float x = factor * source[e];
                t[(size_t)a * (size_t)D + (size_t)e] = w[(size_t)e * (size_t)map->ld + (size_t)a] = x;
            }
        }
        float *pairs = map->pairs + (size_t)h * (size_t)ll_ceil_div(D, 2) * (size_t)map->ld;
        ll_pair_rows(k, D, map->ld, w, (size_t)map->ld, pairs);
        ll_pair_rows(k, m, D, t, (size_t)D, map->pairs_t + (size_t)h * (size_t)ll_ceil_div(m, 2) * (size_t)D);
    }
}

static ll_status build(ll_feature_map *map) {
    const size_t H = (size_t)map->c.H, D = (size_t)map->c.D, m = (size_t)map->features;
    const ll_status status = map->stage ? map->stage->create(map) : LL_OK;
    if (status || !map->c.M) return status;
    map->own_weight = map->reorder; /* instead, rows of the projection are in cycle order */
    map->reorder = 0;
    const size_t copies = map->own_weight ? H : 1;
    map->weight = ll_alloc(copies * D * (size_t)map->ld, sizeof(float));
    map->weight_t = ll_alloc(copies * D * m, sizeof(float));
    map->pairs = ll_alloc(copies * ((D + 1) / 2) * (size_t)map->ld, sizeof(float));
    map->pairs_t = ll_alloc(copies * ((m + 1) / 2) * D, sizeof(float));
    if (!map->weight || !map->weight_t || !map->pairs || !map->pairs_t) return LL_ENOMEM;
    if (ll_is_trigonometric(&map->c) && !(map->sine = ll_alloc(copies * m, 1))) return LL_ENOMEM;
    ll_feature_map_project(map, map->c.projection);
    return LL_OK;
}

ll_status ll_feature_map_create(ll_feature_map **out, const ll_attention_config *c, const ll_map *f,
                                const ll_postmap_kind *stage) {
    ll_feature_map *map = ll_alloc(1, sizeof *map);
    if (!map) return LL_ENOMEM;
    map->c = *c;
    map->f = f;
    map->stage = stage;
    map->features = ll_feature_count(c);
    const int padded = (map->features + 15) / 16 * 16;
    map->divisor = stage && stage->numerator && c->den != LL_DEN_NONE ? padded : 0;
    map->ld = map->divisor + padded + 16; /* so that rows are in different sets of L1 */
    choose_scaling(map);
    for (int side = LL_QUERY; side <= LL_KEY; side++)
        map->family[side] = f ? ll_mapped_family(map) : ll_favor_family(map, side);
    const ll_status status = build(map);
    if (status) {
        ll_feature_map_free(map);
        return status;
    }
    *out = map;
    return LL_OK;
}

double ll_feature_map_cost(const ll_feature_map *map) {
    const double projected = (double)map->c.M * map->c.D;
    return projected + (map->stage && map->stage->cost ? map->stage->cost(map) : 0);
}

void ll_feature_map_free(ll_feature_map *map) {
    if (!map) return;
    if (map->own) map->stage->free(map->own);
    ll_free(map->order);
    ll_free(map->weight);
    ll_free(map->weight_t);
    ll_free(map->pairs);
    ll_free(map->pairs_t);
    ll_free(map->sine);
    ll_free(map);
}
