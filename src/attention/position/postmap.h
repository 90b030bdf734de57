/* Positions that act on the features of one head, after the feature map. Each is one file with this interface. A
 * feature map has at most one such stage, and features.c calls it for each tile of tokens. */
#ifndef LL_POSTMAP_H
#define LL_POSTMAP_H

#include "attention/constant.h"
#include "attention/feature/features.h"

struct ll_postmap_kind {
    int axes;     /* permutes the features by the token's number (1), or by column and row (2), and takes an epilogue,
                   * which applies the map while they move; 0: does neither */
    int in_place; /* forward and back allow out = in */
    int numerator; /* moves the features of the numerator alone: the divisor has those before it. In place */
    ll_status (*check)(const ll_attention_config *c); /* LL_EINVAL with the reason; NULL: takes every config */
    int (*constants)(const ll_attention_config *c, ll_constant *list); /* lists them (constant.h); NULL: none */
    ll_status (*create)(ll_feature_map *map);         /* makes map->own, and the order of features if it has one */
    void (*free)(void *own);                          /* also what create left on failure; own is never NULL */
    double (*cost)(const ll_feature_map *map);        /* multiply-adds of one query or key of one head; NULL: none */
    /* out (C, features) = P^position f(in) of a tile, f as `epilogue` says (axes; NULL: the identity). */
    void (*forward)(const ll_feature_tile *tile, const ll_epilogue *epilogue, const float *in, size_t ldi, float *out,
                    size_t ldo);
    /* The same with the inverse of P, which is its transpose: gradients. `in` is destroyed. */
    void (*back)(const ll_feature_tile *tile, const ll_epilogue *epilogue, float *in, size_t ldi, float *out,
                 size_t ldo);
};

#endif
