/* From queries or keys of one head to features, for a tile of tokens. */
#ifndef LL_FEATURES_H
#define LL_FEATURES_H

#include "attention/feature/feature_map.h"

/* A tile: C tokens at rows `token` floats apart. */
typedef struct {
    const ll_feature_map *map;
    const ll_kernels *k;
    int head, side, C;
    const int64_t *x, *y;  /* (C) positions, from ll_positions */
    const float *in;       /* (C, D) */
    size_t token;
    float shift;           /* the stabiliser of LL_PHI_FIXED keys, and of queries if it is that of the sequence */
    float *work;           /* ll_feature_work floats */
    const float *mask;     /* (C), or NULL: keys of mask 0 have features of 0, whatever they are, and no gradient */
    int bf16;              /* products with the projection round to bfloat16 */
} ll_feature_tile;

/* Computes phi (C, features), rows map->ld apart; with map->divisor, the features of the divisor behind them. exponent
 * (C): the features are phi * 2^exponent; 0 unless LL_PHI_RUNNING. top (C) or NULL: the largest exponent u - n of each
 * token, or u with max_of_u. */
void ll_features(const ll_feature_tile *tile, float *phi, int *exponent, float *top);

/* Computes dx (C, D), rows dtoken apart, from dphi, laid out as phi, which is destroyed. The gradient of `shift` is
 * added to *dtop; NULL: not wanted. */
void ll_features_back(const ll_feature_tile *tile, const float *phi, float *dphi, float *dx, size_t dtoken,
                      double *dtop);

/* The maximum of the rules of released codes: the largest u (or u - n; trigonometric: n) of C tokens, and where it is.
 * Tokens with mask 0 do not count (mask NULL: all count). */
typedef struct {
    float value;
    int token, feature;
} ll_top;
ll_top ll_features_top(const ll_feature_tile *tile, const float *mask);
/* Adds dtop at the maximum: dx (D) of that token; in (D) is its key. */
void ll_features_top_back(const ll_feature_map *map, int head, int feature, double dtop, const float *in, float *dx);

/* Rows of a tile, ld floats apart. */
typedef struct {
    float *at;
    size_t ld;
} ll_tile_rows;

/* A family of feature maps: how the features of a tile follow from u (C, features), and the gradient at u from theirs.
 * Rows of features are map->ld apart. A map has one family for queries and one for keys. */
struct ll_feature_family {
    int half_square; /* features depend on n = |x|^2 / 2 besides u: backward writes minus its gradient to sum (C) */
    /* phi from u (rows ld apart), which may be the same rows. exponent and top as in ll_features. */
    void (*forward)(const ll_feature_tile *tile, const float *u, size_t ld, float *phi, int *exponent, float *top);
    /* The gradient d at the features phi becomes that at u, in `to`, which may be d. NULL: it needs u. */
    void (*back)(const ll_feature_tile *tile, const float *phi, ll_tile_rows d, ll_tile_rows to, float *sum,
                 double *dtop);
    /* The same where u is known, and the features are not; `buffer` is scratch and may be u. NULL: it needs phi. */
    void (*back_from_u)(const ll_feature_tile *tile, const float *u, size_t ld, float *buffer, ll_tile_rows d,
                        ll_tile_rows to, float *sum, double *dtop);
    /* The map and its gradient as epilogues of a stage that permutes; NULL: neither. shift (C) is scratch. */
    ll_epilogue (*epilogue)(const ll_feature_tile *tile, const float *u, size_t ld, float *shift, int *exponent,
                            float *top);
    ll_epilogue (*epilogue_back)(const ll_feature_tile *tile, const float *phi, const float *dphi, float *sum);
};

/* The family of queries or keys (side): f(u) + eps (mapped.c); favor (favor.c), and its trigonometric features. */
const ll_feature_family *ll_mapped_family(const ll_feature_map *map);
const ll_feature_family *ll_favor_family(const ll_feature_map *map, int side);
extern const ll_feature_family ll_trigonometric_family;

#endif
