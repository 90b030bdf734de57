/* The table of kernels and positions: what each is, which go together, and the operator that computes them. Recipes are
 * refused by it, `longline list` prints it, tests walk over it. */
#ifndef LL_ATTENTION_TABLE_H
#define LL_ATTENTION_TABLE_H

#include "attention/operator.h"

extern const ll_operator ll_operator_softmax, ll_operator_local, ll_operator_identity, ll_operator_linformer,
    ll_operator_nystrom, ll_operator_reformer, ll_operator_linear, ll_operator_gla, ll_operator_rope_linear,
    ll_operator_relative_s2;
extern const struct ll_map ll_map_relu, ll_map_elu1, ll_map_exp, ll_map_sigmoid, ll_map_abs, ll_map_gelu, ll_map_cos,
    ll_map_tanh, ll_map_identity, ll_map_square, ll_map_gla;
extern const struct ll_premap_kind ll_premap_rope, ll_premap_sine, ll_premap_conv, ll_premap_s1;
extern const struct ll_logit_kind ll_logits_t5, ll_logits_shaw;
extern const struct ll_postmap_kind ll_postmap_permute, ll_postmap_permute2d, ll_postmap_orthogonal;

/* What a kernel has and a position needs: where the position can act. */
enum {
    LL_HAS_VECTORS = 1,  /* q and k of a head, of which a position makes others */
    LL_HAS_FEATURES = 2, /* phi(q) and phi(k), which it moves */
    LL_HAS_LOGITS = 4,   /* one number for each pair of tokens, to which it adds */
    LL_HAS_KEYS = 8,     /* keys that are not the queries, so that it may treat them otherwise */
    LL_HAS_WEIGHTS = 16  /* a weight for each query and any vector, which may be learnt in place of a key */
};
/* Positions: weighs distances within one sequence, so that it tells nothing between two; can be of the rows and columns
 * of an image where the recipe says so; acts on the tokens' vectors, before all attention. */
enum { LL_WITHIN = 32, LL_IMAGE = 64, LL_EMBEDDED = 128, LL_NEEDS = 31 };

typedef struct {
    ll_mechanism about;
    unsigned has;             /* kernels: LL_HAS_...; positions: what they need, and the two facts below */
    const char *acts, *other; /* positions: "permutes features", of which a kernel may have none; "use favor" */
    const char *limit;        /* where it cannot be causal, or cannot see later tokens: why, and ... */
    const char *limit_other;  /* ... what to do */
    const ll_operator *kind;  /* kernels: what computes them; positions: what does instead, or NULL */
    const struct ll_map *map;              /* kernels: elementwise features, or NULL */
    const struct ll_premap_kind *premap;   /* positions: the stage before the feature map that they are, or NULL */
    const struct ll_postmap_kind *postmap; /* ... after the feature map */
    const struct ll_logit_kind *logits;    /* ... in the logits of exact attention */
} ll_mechanism_row;

/* Rows by ll_kernel and ll_position; NULL past the last. */
const ll_mechanism_row *ll_kernel_row(int kernel);
const ll_mechanism_row *ll_position_row(int position);

/* The operator of a kernel without position, NULL: there is no such kernel. */
const ll_operator *ll_operator_of_kernel(ll_kernel kernel);
/* That of a config, whose position may have one of its own. */
const ll_operator *ll_operator_of_config(const ll_attention_config *c);
/* The elementwise features of a kernel; NULL: it has none. */
const struct ll_map *ll_map_of(ll_kernel kernel);

#endif
