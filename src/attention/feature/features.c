/* The features of a tile of queries or keys: projection, map, and the stage after it; and their gradients. The family
 * of the map (features.h) knows how features follow from u = W x, where x is the query or key times input_scale.
 * Without a projection, u = x. */
#include <math.h>
#include <string.h>

#include "attention/feature/features.h"
#include "attention/position/postmap.h"
#include "attention/tile_product.h"
#include "base/integer.h"

static float *row(float *base, int i, size_t ld) { return base + (size_t)i * ld; }

static const float *head_weight(const ll_feature_map *map, const float *weight, int head, size_t ld, size_t rows) {
    return map->own_weight ? weight + (size_t)head * rows * ld : weight;
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
    } else if (map->reorder || map->c.input_scale != 1) {
        const int *order = map->order ? map->order + (size_t)t->head * (size_t)m : NULL;
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

/* Does a stage permute the features? Then the gradient of the map can be taken before or after they move. */
static int is_permuted(const ll_feature_map *map) { return map->stage && map->stage->axes; }

/* Does backward read the features alone? Otherwise it projects again. */
static int reads_features(const ll_feature_tile *t) {
    const ll_feature_map *map = t->map;
    const ll_feature_family *family = map->family[t->side];
    const int are_there = !map->stage || is_permuted(map) || map->divisor;
    return family->back && (are_there || !family->back_from_u);
}

/* The stage after the map, and its inverse. */
static void move(const ll_feature_tile *t, const ll_epilogue *epilogue, const float *in, size_t ldi, float *out) {
    t->map->stage->forward(t, epilogue, in, ldi, out, (size_t)t->map->ld);
}

static void move_back(const ll_feature_tile *t, const ll_epilogue *epilogue, float *in, ll_tile_rows out) {
    t->map->stage->back(t, epilogue, in, (size_t)t->map->ld, out.at, out.ld);
}

static void tile_features(const ll_feature_tile *t, float *phi, int *exponent, float *top) {
    const ll_feature_map *map = t->map;
    const ll_feature_family *family = map->family[t->side];
    const int apart = map->stage && !map->stage->in_place;
    float *mapped = apart ? t->work : phi + map->divisor;
    size_t ld;
    const float *u = project(t, mapped, &ld);
    if (is_permuted(map) && family->epilogue) {
        float shift[LL_TILE_MOST];
        const ll_epilogue epilogue = family->epilogue(t, u, ld, shift, exponent, top);
        move(t, &epilogue, u, ld, phi);
        return;
    }
    family->forward(t, u, ld, mapped, exponent, top);
    if (map->stage) move(t, NULL, mapped, (size_t)map->ld, phi);
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

/* ---- Gradients ---- */

static void copy_rows(const ll_feature_tile *t, float *to, const float *from) {
    const size_t ld = (size_t)t->map->ld;
    for (int i = 0; i < t->C; i++) memcpy(row(to, i, ld), from + (size_t)i * ld, (size_t)t->map->features * sizeof *to);
}

/* The features before the stage: those of the divisor, moved back, or computed again. They are in t->work, or in phi.
 */
static const float *features_before(const ll_feature_tile *t, const float *phi) {
    const ll_feature_map *map = t->map;
    const ll_tile_rows work = {t->work, (size_t)map->ld};
    int exponent[LL_TILE_MOST];
    size_t ld;
    if (map->divisor) return phi + map->divisor;
    if (map->stage->in_place) {
        copy_rows(t, t->work, phi);
        move_back(t, NULL, t->work, work);
    } else {
        const float *u = project(t, t->work, &ld);
        map->family[t->side]->forward(t, u, ld, t->work, exponent, NULL);
    }
    return t->work;
}

/* dphi becomes the gradient at the features before a stage that is no permutation. */
static void unmove(const ll_feature_tile *t, float *dphi) {
    const ll_feature_map *map = t->map;
    const size_t ld = (size_t)map->ld;
    const int in_place = map->stage->in_place;
    move_back(t, NULL, dphi, (ll_tile_rows){in_place ? dphi : t->work, ld});
    if (!in_place) copy_rows(t, dphi, t->work);
    for (int i = 0; i < t->C && map->divisor; i++)
        t->k->add((size_t)map->features, row(dphi, i, ld) + map->divisor, row(dphi, i, ld));
}

/* From the gradient d at the features before the stage to that at u, in `to`, which may be d. `buffer` is scratch. */
static void from_u(const ll_feature_tile *t, float *buffer, ll_tile_rows d, ll_tile_rows to, float *sum, double *dtop) {
    size_t ld;
    const float *u = project(t, buffer, &ld);
    t->map->family[t->side]->back_from_u(t, u, ld, buffer, d, to, sum, dtop);
}

/* From the gradient d at permuted features to that at u, in `to`, which is not d. Where the features give the slope of
 * the map, it is multiplied in before the gradients move, or while they do. */
static void permuted_back(const ll_feature_tile *t, const float *phi, ll_tile_rows d, ll_tile_rows to, float *sum,
                          double *dtop) {
    const ll_feature_family *family = t->map->family[t->side];
    if (!reads_features(t)) {
        move_back(t, NULL, d.at, to);
        from_u(t, d.at, to, to, sum, dtop);
    } else if (family->epilogue) {
        const ll_epilogue epilogue = family->epilogue_back(t, phi, d.at, sum);
        move_back(t, &epilogue, d.at, to);
    } else {
        family->back(t, phi, d, d, sum, dtop);
        move_back(t, NULL, d.at, to);
    }
}

/* dx = input_scale du, in the caller's order of features. */
static void reorder_back(const ll_feature_tile *t, const float *du, float *dx, size_t dtoken) {
    const ll_feature_map *map = t->map;
    const int m = map->features;
    const int *order = map->order ? map->order + (size_t)t->head * (size_t)m : NULL;
    for (int i = 0; i < t->C; i++)
        for (int a = 0; a < m; a++)
            dx[(size_t)i * dtoken + (size_t)(order ? order[a] : a)] =
                map->c.input_scale * du[(size_t)i * (size_t)map->ld + (size_t)a];
}

/* dx from the gradient du at u, which is then scratch, and from that at n = |x|^2 / 2, which is -sum (C). */
static void project_back(const ll_feature_tile *t, float *du, const float *sum, float *dx, size_t dtoken) {
    const ll_feature_map *map = t->map;
    const int D = map->c.D, m = map->features;
    const float s = map->c.input_scale;
    if (!map->weight) {
        reorder_back(t, du, dx, dtoken);
        return;
    }
    const ll_factor w = head_factor(t, map->weight_t, map->pairs_t, m, (size_t)D);
    ll_tile_product(t->k, t->C, D, m, du, (size_t)map->ld, w, du, dx, dtoken, 0, NULL);
    for (int i = 0; i < t->C && map->family[t->side]->half_square; i++)
        t->k->axpy((size_t)D, -s * s * sum[i], t->in + (size_t)i * t->token, row(dx, i, dtoken));
}

static void tile_back(const ll_feature_tile *t, const float *phi, float *dphi, float *dx, size_t dtoken, double *dtop) {
    const ll_feature_map *map = t->map;
    const int direct = !map->weight && !map->reorder && map->c.input_scale == 1;
    const ll_tile_rows d = {dphi, (size_t)map->ld}, work = {t->work, (size_t)map->ld};
    const ll_tile_rows du = direct ? (ll_tile_rows){dx, dtoken} : is_permuted(map) ? work : d;
    float sum[LL_TILE_MOST];
    if (is_permuted(map)) {
        permuted_back(t, phi, d, du, sum, dtop);
    } else {
        if (map->stage) unmove(t, dphi);
        if (!reads_features(t)) {
            from_u(t, t->work, d, du, sum, dtop);
        } else {
            map->family[t->side]->back(t, map->stage ? features_before(t, phi) : phi, d, du, sum, dtop);
        }
    }
    if (!direct) project_back(t, du.at, sum, dx, dtoken);
}

void ll_features_back(const ll_feature_tile *t, const float *phi, float *dphi, float *dx, size_t dtoken, double *dtop) {
    tile_back(t, phi, dphi, dx, dtoken, dtop);
    clear_masked(t, dx, dtoken, t->map->c.D);
}

/* ---- The maximum of released rules ---- */

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
