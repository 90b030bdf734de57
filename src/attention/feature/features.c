/* The feature map of a tile of queries or keys: projection, map, and the stage after it; and their gradients.
 *
 *   f(u) + eps              generalized attention, f from maps.c
 *   e^(u - n - c) [+ eps]   favor, u = W x, n = |x|^2 / 2; hyperbolic features are those of [W; -W]
 *   e^(n - c) [cos u, sin u]                      trigonometric.c
 *
 * x is the query or key times input_scale. Without a projection, u = x. */
#include <math.h>
#include <string.h>

#include "attention/feature/features.h"
#include "attention/position/postmap.h"
#include "attention/tile_product.h"
#include "base/integer.h"

static float *row(float *base, int i, size_t ld) { return base + (size_t)i * ld; }

static const float *head_weight(const ll_feature_map *map, const float *weight, int head, size_t ld, size_t rows) {
    return map->permute.own_weight ? weight + (size_t)head * rows * ld : weight;
}

/* The weights of the tile's head, (rows, ld), of those of all heads; pairs: the same for bfloat16. */
static ll_factor head_factor(const ll_feature_tile *t, const float *weight, const float *pairs, int rows, size_t ld) {
    const float *of_head = head_weight(t->map, pairs, t->head, ld, (size_t)ll_ceil_div(rows, 2));
    return (ll_factor){head_weight(t->map, weight, t->head, ld, (size_t)rows), t->bf16 ? of_head : NULL, ld};
}

/* u (C, features) before the stage. It is written to `out`, or is the input itself if that needs no change. */
static const float *project(const ll_feature_tile *t, float *out, size_t *ld) {
    const ll_feature_map *map = t->map;
    const int D = map->c.D, m = map->features;
    const size_t l = (size_t)map->ld;
    if (map->weight) {
        const ll_factor w = head_factor(t, map->weight, map->pairs, D, l);
        ll_tile_product(t->k, t->C, m, D, t->in, t->token, w, t->work + (size_t)t->C * l, out, l, 0, NULL);
    } else if (map->permute.reorder || map->c.input_scale != 1) {
        const int *order = map->permute.axes ? map->permute.order + (size_t)t->head * (size_t)m : NULL;
        for (int i = 0; i < t->C; i++)
            for (int a = 0; a < m; a++)
                row(out, i, l)[a] = map->c.input_scale * t->in[(size_t)i * t->token + (size_t)(order ? order[a] : a)];
    } else {
        *ld = t->token;
        return t->in;
    }
    *ld = l;
    return out;
}

/* Features e^u + eps of the exponential kernel if only their ratios count. The features are phi 2^e with the integer e
 * that is returned, so that neither part can overflow. */
static int exponential(const ll_kernels *k, int m, float eps, const float *u, float *phi) {
    int e = k->exp2_rows((size_t)m, 0, u, phi);
    if (eps <= 0) return e;
    if (e < 0) {
        k->scale((size_t)m, ldexpf(1, e), phi);
        e = 0;
    }
    const float part = ldexpf(eps, -e);
    for (int a = 0; a < m; a++) phi[a] += part;
    return e;
}

static int running_exp(const ll_feature_map *map) {
    return map->c.kernel == LL_KERNEL_EXP && map->phi[LL_KEY] == LL_PHI_RUNNING;
}

static int query_rule(const ll_feature_map *map) { return map->c.query_max != LL_MAX_NONE; }

static void favor(const ll_feature_tile *t, const float *u, size_t ld, float *phi, int *exponent, float *top) {
    const ll_feature_map *map = t->map;
    const size_t m = (size_t)map->features;
    const float root = map->root;
    for (int i = 0; i < t->C; i++, u += ld, phi += map->ld) {
        const float n = ll_half_square(map, t->k, t->in + (size_t)i * t->token);
        const int own = t->side == LL_QUERY && map->phi[LL_QUERY] == LL_PHI_FIXED && query_rule(map);
        const float best = top || own ? t->k->max(m, u) - (map->c.max_of_u ? 0 : n) : 0;
        if (top) top[i] = best;
        exponent[i] = 0;
        if (map->phi[t->side] == LL_PHI_RUNNING) {
            exponent[i] = t->k->exp2_rows(m, n, u, phi);
        } else {
            const float c = t->side == LL_KEY ? t->shift : own ? best : 0;
            t->k->exp_shift(m, n + c, root, map->c.feature_eps, u, phi);
        }
    }
}

/* Are these softmax features in units of powers of two, to which no eps is added? */
static int running_favor(const ll_feature_map *map, int side) {
    return map->c.kernel == LL_KERNEL_FAVOR && map->phi[side] == LL_PHI_RUNNING && !ll_is_trigonometric(&map->c);
}

/* The stage after the map, and its inverse. */
static void move(const ll_feature_tile *t, const ll_epilogue *epilogue, const float *in, size_t ldi, float *out) {
    t->map->stage->forward(t->map, t->k, t->head, t->C, t->x, t->y, epilogue, in, ldi, out, (size_t)t->map->ld);
}

static void move_back(const ll_feature_tile *t, const ll_epilogue *epilogue, float *in, float *out, size_t ldo) {
    t->map->stage->back(t->map, t->k, t->head, t->C, t->x, t->y, epilogue, in, (size_t)t->map->ld, out, ldo);
}

/* The same features, which the stage computes while it moves them. */
static void favor_fused(const ll_feature_tile *t, const float *u, size_t ld, float *phi, int *exponent, float *top) {
    const ll_feature_map *map = t->map;
    const size_t m = (size_t)map->features;
    float n[LL_TILE_MOST];
    for (int i = 0; i < t->C; i++) {
        n[i] = ll_half_square(map, t->k, t->in + (size_t)i * t->token);
        exponent[i] = t->k->exp2_exponent(m, n[i], u + (size_t)i * ld);
        if (top) top[i] = t->k->max(m, u + (size_t)i * ld) - (map->c.max_of_u ? 0 : n[i]);
    }
    const ll_epilogue exp = {.kind = LL_EPILOGUE_EXP, .shift = n, .exponent = exponent};
    move(t, &exp, u, ld, phi);
}

/* f(u) + eps for the rows of a tile. */
static void mapped_rows(const ll_feature_tile *t, const float *u, size_t ld, float *phi, int *exponent) {
    const ll_feature_map *map = t->map;
    if (!running_exp(map)) {
        memset(exponent, 0, (size_t)t->C * sizeof *exponent);
        t->k->map[map->f->index].forward(t->C, (size_t)map->features, map->c.feature_eps, u, ld, phi, (size_t)map->ld);
        return;
    }
    for (int i = 0; i < t->C; i++, u += ld, phi += map->ld)
        exponent[i] = exponential(t->k, map->features, map->c.feature_eps, u, phi);
}

static void tile_features(const ll_feature_tile *t, float *phi, int *exponent, float *top) {
    const ll_feature_map *map = t->map;
    const ll_postmap_kind *stage = map->stage;
    const int fuses = stage && stage->fuses, apart = stage && !stage->in_place;
    float *mapped = apart ? t->work : phi + map->divisor;
    size_t ld;
    const float *u = project(t, map->c.kernel != LL_KERNEL_RELU ? mapped : apart && !fuses ? phi : t->work, &ld);
    if (fuses && map->c.kernel == LL_KERNEL_RELU) {
        const ll_epilogue relu = {.kind = LL_EPILOGUE_RELU, .eps = map->c.feature_eps};
        memset(exponent, 0, (size_t)t->C * sizeof *exponent);
        move(t, &relu, u, ld, phi);
        return;
    }
    if (fuses && running_favor(map, t->side)) {
        favor_fused(t, u, ld, phi, exponent, top);
        return;
    }
    if (map->c.kernel != LL_KERNEL_FAVOR) {
        mapped_rows(t, u, ld, mapped, exponent);
    } else if (ll_is_trigonometric(&map->c)) {
        ll_trigonometric(t, u, ld, mapped, exponent, top);
    } else {
        favor(t, u, ld, mapped, exponent, top);
    }
    if (stage) move(t, NULL, mapped, (size_t)map->ld, phi);
}

/* Rows of n numbers, of keys that the mask removes. A large key can have features that overflow, and infinity times a
 * mask of 0 is no number. */
static void clear_masked(const ll_feature_tile *t, float *rows, size_t ld, int n) {
    for (int i = 0; t->mask && i < t->C; i++)
        if (t->mask[i] == 0) memset(row(rows, i, ld), 0, (size_t)n * sizeof *rows);
}

void ll_features(const ll_feature_tile *t, float *phi, int *exponent, float *top) {
    tile_features(t, phi, exponent, top);
    clear_masked(t, phi, (size_t)t->map->ld, t->map->divisor + t->map->features);
}

/* dphi becomes the gradient at the exponents. Returns their sum, without the part that the stabiliser cancels. With the
 * exponential part f = phi - eps/sqrt(M), dE = dphi f. If the maximum is differentiated, -sum(dE) is added at the
 * maximum. */
static float favor_back(const ll_feature_tile *t, const float *phi, float *dphi, double *dtop) {
    const ll_feature_map *map = t->map;
    const int m = map->features, fixed = map->phi[t->side] == LL_PHI_FIXED;
    if (!fixed) {
        t->k->mul((size_t)m, phi, dphi);
        return t->k->sum((size_t)m, dphi);
    }
    const float eps = map->c.feature_eps * map->root;
    float total = 0;
    int best = 0;
    for (int a = 0; a < m; a++) {
        dphi[a] *= phi[a] - eps;
        total += dphi[a];
        if (phi[a] > phi[best]) best = a;
    }
    if (!map->c.max_gradient) return total;
    if (t->side == LL_KEY) {
        if (dtop) *dtop -= (double)total;
        return total;
    }
    if (!query_rule(map)) return total;
    dphi[best] -= total;
    return map->c.max_of_u ? total : 0;
}

/* From the gradient at f(u), with rows l apart, to that at u, which is computed again, and f(u) where the slope follows
 * from it. If `to` is not du itself, its rows are lt apart. buffer: (C, ld), scratch. */
static void map_back(const ll_feature_tile *t, float *buffer, float *du, size_t l, float *to, size_t lt, float *sum,
                     double *dtop) {
    const ll_feature_map *map = t->map;
    const size_t m = (size_t)map->features;
    size_t ldu;
    const float *u = project(t, buffer, &ldu);
    if (map->c.kernel == LL_KERNEL_FAVOR) {
        ll_trigonometric_back(t, u, ldu, du, l, sum, dtop);
        return;
    }
    if (!running_exp(map)) {
        const int of_phi = map->f->slope_of_phi;
        const ll_row_map *kernels = &t->k->map[map->f->index];
        if (of_phi) kernels->forward(t->C, m, 0, u, ldu, buffer, (size_t)map->ld);
        kernels->back(t->C, m, 0, of_phi ? buffer : u, of_phi ? (size_t)map->ld : ldu, du, l, to, lt);
        return;
    }
    for (int i = 0; i < t->C; i++, u += ldu) { /* e^u in the units that the features have */
        const float *d = row(du, i, l);
        float *power = row(buffer, i, (size_t)map->ld), *out = row(to, i, lt);
        const int e = t->k->exp2_rows(m, 0, u, power);
        const float unit = map->c.feature_eps > 0 && e < 0 ? ldexpf(1, e) : 1;
        for (size_t a = 0; a < m; a++) out[a] = d[a] * power[a] * unit;
    }
}

/* Does the slope follow from the features? Not from those of e^u in units whose eps differs from row to row. */
static int slope_of_features(const ll_feature_map *map) {
    return map->f && map->f->slope_of_phi && (!running_exp(map) || map->c.feature_eps == 0);
}

/* dx = input_scale du, in the caller's order of features. */
static void reorder_back(const ll_feature_tile *t, const float *du, float *dx, size_t dtoken) {
    const ll_feature_map *map = t->map;
    const int m = map->features;
    const int *order = map->permute.axes ? map->permute.order + (size_t)t->head * (size_t)m : NULL;
    for (int i = 0; i < t->C; i++)
        for (int a = 0; a < m; a++)
            dx[(size_t)i * dtoken + (size_t)(order ? order[a] : a)] =
                map->c.input_scale * du[(size_t)i * (size_t)map->ld + (size_t)a];
}

static void copy_rows(const ll_feature_tile *t, float *to, const float *from) {
    const size_t ld = (size_t)t->map->ld;
    for (int i = 0; i < t->C; i++) memcpy(row(to, i, ld), from + (size_t)i * ld, (size_t)t->map->features * sizeof *to);
}

/* The first step of backward if the stage does not fuse: dphi becomes the gradient at the features before the stage.
 * With `exponents` or map->divisor, returns these features: those of the divisor, moved back, or computed again. */
static const float *unmove(const ll_feature_tile *t, const float *phi, float *dphi, int exponents) {
    const ll_feature_map *map = t->map;
    const size_t ld = (size_t)map->ld;
    int exponent[LL_TILE_MOST];
    const int in_place = map->stage->in_place;
    move_back(t, NULL, dphi, in_place ? dphi : t->work, ld);
    if (!in_place) copy_rows(t, dphi, t->work);
    for (int i = 0; i < t->C && map->divisor; i++)
        t->k->add((size_t)map->features, row(dphi, i, ld) + map->divisor, row(dphi, i, ld));
    if (map->divisor) return phi + map->divisor;
    if (exponents && in_place) {
        copy_rows(t, t->work, phi);
        move_back(t, NULL, t->work, t->work, ld);
    } else if (exponents) {
        favor(t, project(t, t->work, &(size_t){0}), ld, t->work, exponent, NULL);
    }
    return t->work;
}

static void tile_back(const ll_feature_tile *t, const float *phi, float *dphi, float *dx, size_t dtoken, double *dtop) {
    const ll_feature_map *map = t->map;
    const int D = map->c.D, m = map->features, favor = map->c.kernel == LL_KERNEL_FAVOR;
    const int exponents = favor && !ll_is_trigonometric(&map->c); /* their gradient needs the features alone */
    const size_t ld = (size_t)map->ld;
    const int direct = !map->weight && !map->permute.reorder && map->c.input_scale == 1;
    /* Where the features give the slope of the map, queries and keys are not read, or projected, again. A stage that
     * fuses multiplies by the slopes of relu and of favor while it moves the gradients. */
    const int fuses = map->stage && map->stage->fuses, undone = map->stage && !fuses;
    const int inverts = (!undone || map->divisor) && slope_of_features(map);
    const int masks = fuses && map->c.kernel == LL_KERNEL_RELU;
    const int times = fuses && running_favor(map, t->side);
    const ll_epilogue epilogue = {
        .kind = masks ? LL_EPILOGUE_WHERE : LL_EPILOGUE_TIMES, .eps = map->c.feature_eps, .factor = phi, .ld = ld};
    float sum[LL_TILE_MOST];
    if (undone) phi = unmove(t, phi, dphi, exponents);
    for (int i = 0; i < t->C && exponents; i++)
        sum[i] = times ? t->k->dot((size_t)m, row(dphi, i, ld), phi + (size_t)i * ld)
                       : favor_back(t, phi + (size_t)i * ld, dphi + (size_t)i * ld, dtop);
    float *du = dphi;
    if (inverts && !masks) {
        du = direct && !fuses ? dx : dphi;
        t->k->map[map->f->index].back(t->C, (size_t)m, map->c.feature_eps, phi, ld, dphi, ld, du,
                                      du == dx ? dtoken : ld);
    }
    if (fuses) {
        du = direct ? dx : t->work;
        move_back(t, masks || times ? &epilogue : NULL, dphi, du, direct ? dtoken : ld);
    }
    if (!exponents && !inverts) /* rows of dphi are free after du has been written elsewhere */
        map_back(t, du == dphi ? t->work : dphi, du, du == dx ? dtoken : ld, direct ? dx : du, direct ? dtoken : ld,
                 sum, dtop);
    if (direct) return;
    if (!map->weight) {
        reorder_back(t, du, dx, dtoken);
        return;
    }
    const ll_factor w = head_factor(t, map->weight_t, map->pairs_t, m, (size_t)D);
    ll_tile_product(t->k, t->C, D, m, du, ld, w, du, dx, dtoken, 0, NULL);
    const float s = map->c.input_scale;
    for (int i = 0; i < t->C && favor; i++)
        t->k->axpy((size_t)D, -s * s * sum[i], t->in + (size_t)i * t->token, row(dx, i, dtoken));
}

void ll_features_back(const ll_feature_tile *t, const float *phi, float *dphi, float *dx, size_t dtoken, double *dtop) {
    tile_back(t, phi, dphi, dx, dtoken, dtop);
    clear_masked(t, dx, dtoken, t->map->c.D);
}

ll_top ll_features_top(const ll_feature_tile *t, const float *mask) {
    const ll_feature_map *map = t->map;
    const int trigonometric = ll_is_trigonometric(&map->c);
    ll_top best = {-INFINITY, 0, 0};
    size_t ld;
    const float *u = project(t, t->work, &ld);
    for (int i = 0; i < t->C; i++, u += ld) {
        if (mask && mask[i] == 0) continue;
        const float n = map->c.max_of_u && !trigonometric ? 0 : ll_half_square(map, t->k, t->in + (size_t)i * t->token);
        if (trigonometric && n > best.value) best = (ll_top){n, i, 0};
        for (int a = 0; a < map->features && !trigonometric; a++)
            if (u[a] - n > best.value) best = (ll_top){u[a] - n, i, a};
    }
    return best;
}

void ll_features_top_back(const ll_feature_map *map, int head, int feature, double dtop, const float *in, float *dx) {
    const float *w = head_weight(map, map->weight_t, head, (size_t)map->c.D, (size_t)map->features);
    const float s = map->c.input_scale, d = (float)dtop;
    const int trigonometric = ll_is_trigonometric(&map->c);
    w += (size_t)feature * (size_t)map->c.D;
    for (int e = 0; e < map->c.D; e++)
        dx[e] += d * (trigonometric ? s * s * in[e] : w[e] - (map->c.max_of_u ? 0 : s * s * in[e]));
}
