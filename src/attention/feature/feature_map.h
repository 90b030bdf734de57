/* The feature map of an operator, from queries and keys of a head to features. It has the random projection, the
 * position after the map, and the rule by which softmax features are scaled. features.h applies it to tiles. */
#ifndef LL_FEATURE_MAP_H
#define LL_FEATURE_MAP_H

#include "attention/feature/maps.h"
#include "attention/sequence/sequence.h"
#include "kernel/kernel.h"

/* How softmax features exp(u - n - c) are scaled. */
enum {
    LL_PHI_PLAIN,   /* no stabiliser: bounded features, or f(u) + eps as it is */
    LL_PHI_RUNNING, /* c = e ln 2 with an integer e for each token, kept beside the features: rescaling by
                     * powers of two is exact, so nothing depends on what c will become */
    LL_PHI_FIXED    /* c as a released rule says; root and eps are in the features */
};

typedef struct ll_postmap_kind ll_postmap_kind;     /* position/postmap.h */
typedef struct ll_feature_family ll_feature_family; /* features.h */

enum { LL_NO_EXPONENT = -2 * LL_EXP2_FAR }; /* of an empty state: below every exponent */
enum { LL_TILE_MOST = 256 };                /* tokens of a tile at most */

typedef struct {
    ll_attention_config c; /* D is the width of the inputs; the arrays are the caller's and outlive the map */
    int features;          /* M or 2 M, or D where M = 0 */
    int ld;      /* the distance of feature rows in scratch: features and padding; with `divisor`, those of both */
    int divisor; /* where in a row the features of the divisor begin: 0, if they are those of the numerator */
    const ll_map *f;                    /* of the kernel; NULL: favor */
    int phi[2];                         /* LL_PHI_..., of queries and keys */
    const ll_feature_family *family[2]; /* of queries and keys */
    float root;            /* favor: 1 / sqrt(M), hyperbolic 1 / sqrt(2 M) */
    int scale_cancels;     /* a common factor of all features cancels in numerator and denominator */
    const ll_postmap_kind *stage; /* a position after the map, or NULL */
    void *own;                    /* of the stage, or NULL */
    int *order;    /* (H, features): feature a of the map is feature order[a] of the caller; NULL: the same */
    int reorder;   /* order is not the identity, and no projection absorbs it */
    int own_weight; /* order is not the identity: a projection for each head, its rows in that head's order */
    float *weight;          /* (H with own_weight, else 1; D, ld): projection times input_scale, transposed; or NULL */
    float *weight_t;        /* (H or 1, features, D): the same, not transposed */
    float *pairs, *pairs_t; /* both in pairs of bfloat16 (kernel.h): (H or 1; D/2, ld) and (H or 1; features/2, D) */
    unsigned char *sine;    /* (H or 1, features): which trigonometric features are sines; or NULL */
} ll_feature_map;

/* Features of a head that such an operator has. */
int ll_feature_count(const ll_attention_config *c);
/* favor with features e^(n - c) [cos u, sin u], or without the exponential. */
static inline int ll_is_trigonometric(const ll_attention_config *c) {
    return c->kernel == LL_KERNEL_FAVOR &&
           (c->features == LL_FEATURES_TRIGONOMETRIC || c->features == LL_FEATURES_GAUSSIAN);
}
/* Does a common factor of all features cancel in numerator and denominator? */
int ll_scale_cancels(const ll_attention_config *c);
/* Floats of scratch for a tile of C tokens: rows of features; bf16: and what is projected, as pairs of bfloat16. */
static inline size_t ll_feature_work(const ll_feature_map *map, size_t C, int bf16) {
    return C * ((size_t)map->ld + (bf16 && map->weight ? ((size_t)map->c.D + 1) / 2 : 0));
}
/* |input_scale x|^2 / 2 */
static inline float ll_half_square(const ll_feature_map *map, const ll_kernels *k, const float *x) {
    const float s = map->c.input_scale;
    return 0.5f * s * s * k->dot((size_t)map->c.D, x, x);
}
/* LL_EINVAL with the reason where projection, stabiliser and stage (or NULL) do not fit together. */
LL_MUST_USE ll_status ll_feature_map_check(const ll_attention_config *c, const ll_postmap_kind *stage);

/* Keeps c's arrays. f: the kernel's, NULL for favor; stage: a position after the map, or NULL. */
LL_MUST_USE ll_status ll_feature_map_create(ll_feature_map **map, const ll_attention_config *c, const ll_map *f,
                                            const ll_postmap_kind *stage);
/* Multiply-adds of the features of one query or key of one head. */
double ll_feature_map_cost(const ll_feature_map *map);
void ll_feature_map_free(ll_feature_map *map);
/* Replaces the projection (M, D), which is copied. */
void ll_feature_map_project(ll_feature_map *map, const float *projection);

/* Positions of tokens t0..t0+C-1: token numbers in x, or columns in x and rows in y. */
void ll_positions(const ll_feature_map *map, int64_t t0, int C, int64_t *x, int64_t *y);

#endif
