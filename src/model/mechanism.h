/* The table of attention kernels and positions: what each is, and which go together. model_check.c refuses by it,
 * `longline list` prints it, tests walk over it. A new one is a row in mechanism.c, in the place that its number in
 * attention_options.h or position_options.h says. */
#ifndef LL_MECHANISM_H
#define LL_MECHANISM_H

#include "base/status.h"

/* What a kernel has and a position needs: where the position can act. */
enum {
    LL_HAS_VECTORS = 1,  /* q and k of a head, of which a position makes others */
    LL_HAS_FEATURES = 2, /* phi(q) and phi(k), which it moves */
    LL_HAS_LOGITS = 4,   /* one number for each pair of tokens, to which it adds */
    LL_HAS_KEYS = 8,     /* keys that are not the queries, so that it may treat them otherwise */
    LL_HAS_WEIGHTS = 16  /* a weight for each query and any vector, which may be learnt in place of a key */
};

typedef struct {
    ll_mechanism about;
    unsigned has;             /* kernels: LL_HAS_...; positions: what they need */
    const char *acts, *other; /* positions: "permutes features", of which a kernel may have none; "use favor" */
    const char *whole;        /* where it cannot be causal: why, and ... */
    const char *whole_other;  /* ... what to do */
} ll_mechanism_row;

/* Rows by LL_ATT_... and LL_POS_...; NULL past the last. */
const ll_mechanism_row *ll_kernel_row(int kernel);
const ll_mechanism_row *ll_position_row(int position);
/* LL_EINVAL with the reason and what to do where they cannot be together. */
LL_MUST_USE ll_status ll_pair_check(int kernel, int position, int causal);

#endif
