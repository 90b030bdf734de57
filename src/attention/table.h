/* The table of kernels and positions: what each is, which can be combined, and the operator or stage that computes it.
 * Recipes are checked by it, `longline list` prints it, and tests loop over it. */
#ifndef LL_ATTENTION_TABLE_H
#define LL_ATTENTION_TABLE_H

#include "attention/operator.h"

extern const ll_operator_kind ll_operator_softmax, ll_operator_local, ll_operator_identity, ll_operator_linformer,
    ll_operator_nystrom, ll_operator_reformer, ll_operator_linear, ll_operator_relative_s2;
extern const struct ll_map ll_map_relu, ll_map_elu1, ll_map_exp, ll_map_sigmoid, ll_map_abs, ll_map_gelu, ll_map_cos,
    ll_map_tanh, ll_map_identity, ll_map_square, ll_map_gla;
extern const struct ll_premap_kind ll_premap_rope, ll_premap_sine, ll_premap_conv, ll_premap_s1;
extern const struct ll_logit_kind ll_logits_t5, ll_logits_shaw;
extern const struct ll_postmap_kind ll_postmap_permute, ll_postmap_permute2d, ll_postmap_rope, ll_postmap_orthogonal;

/* What a kernel has and a position needs, on which it acts. */
enum {
    LL_HAS_VECTORS = 1,  /* q and k of a head, which a position encodes */
    LL_HAS_FEATURES = 2, /* phi(q) and phi(k), which a position moves */
    LL_HAS_LOGITS = 4,   /* one number for each pair of tokens, to which a position adds */
    LL_HAS_KEYS = 8,     /* keys other than the queries, which may be encoded in another way */
    LL_HAS_WEIGHTS = 16  /* a weight for each query and any vector, such as a learnt one in place of a key */
};
/* Positions. WITHIN: weighs distances within one sequence, so it has no meaning between two. IMAGE: a recipe may ask
 * for rows and columns of an image. EMBEDDED: acts on the vectors of tokens, before all attention. */
enum { LL_WITHIN = 32, LL_IMAGE = 64, LL_EMBEDDED = 128, LL_NEEDS = 31 };

typedef struct {
    ll_mechanism about;
    unsigned has;             /* kernels: LL_HAS_...; positions: what they need, and the two facts below */
    const char *acts, *other; /* positions: "permutes features", of which a kernel may have none; "use favor" */
    const char *limit;        /* if it cannot be causal, or cannot see later tokens: why, and ... */
    const char *limit_other;  /* ... what to do */
    const ll_operator_kind *kind;          /* kernels: what computes them; positions: what does instead, or NULL */
    int gated;                             /* kernels: every call has to bring a gate; they are causal alone */
    const struct ll_map *map;              /* kernels: elementwise features, or NULL */
    const struct ll_premap_kind *premap;   /* positions: the stage before the feature map that they are, or NULL */
    const struct ll_postmap_kind *postmap; /* ... after the feature map */
    const struct ll_logit_kind *logits;    /* ... in the logits of exact attention */
} ll_mechanism_row;

/* Rows by ll_kernel and ll_position; NULL past the last. */
const ll_mechanism_row *ll_kernel_row(int kernel);
const ll_mechanism_row *ll_position_row(int position);

/* The operator of a kernel without position. NULL: there is no such kernel. */
const ll_operator_kind *ll_operator_of_kernel(ll_kernel kernel);
/* The operator of a config: that of its position if it has one, else that of its kernel. */
const ll_operator_kind *ll_operator_of_config(const ll_attention_config *c);
/* The elementwise features of a kernel; NULL: it has none. */
const struct ll_map *ll_map_of(ll_kernel kernel);

#endif
