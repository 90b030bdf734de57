/* Inside the attention operator. An operator pushes tiles of tokens through fixed stages:
 *
 *     project -> [position before] -> feature map -> [position after] -> accumulate -> normalise
 *
 * features.c is the first half of that line for one tile of one head, forward and backward;
 * linear.c accumulates (bidirectional and causal), exact.c is softmax attention in tiles, stream.c
 * the recurrent form, position/ one file an encoding. */
#ifndef LL_ATTENTION_H
#define LL_ATTENTION_H

#include "base/status.h"
#include "kernel/kernel.h"

/* A permutation in cycle order: feature a of the operator is feature order[a] of the caller. */
typedef struct {
    int axes;       /* 0: no permutation; 1: by token number; 2: first cycles by x, the others by y */
    int *order;     /* (H, features) */
    ll_cycle *cycle; /* (H, features) entries, of which count[h] are used */
    int *count;     /* (H): cycles of head h; with two axes the first half of them move by x */
} ll_permute;

struct ll_attention {
    ll_attention_config c; /* its pointers are our copies */
    int features;          /* M, or D where M = 0 */
    int tile;              /* tokens a tile; 0 = the kernel table's */
    ll_permute permute;
    float *weight;   /* (H, D, features): projection in cycle order, transposed, one a head; NULL where M = 0 */
    float *weight_t; /* (H, features, D) */
};

/* Tokens in a tile for tests and `attend --tile`; 0 = default. */
void ll_attention_set_tile(ll_attention *op, int tile);


/* Replaces the projection (M, D) of an operator that has one: a redraw. */
void ll_attention_set_projection(ll_attention *op, const float *projection);

/* Softmax attention in tiles (exact.c); arguments as ll_attention_forward and _backward. */
LL_MUST_USE ll_status ll_exact_forward(const ll_attention *op, const ll_attention_call *call);
LL_MUST_USE ll_status ll_exact_backward(const ll_attention *op, const ll_attention_call *call);
/* Linear attention in tiles (linear.c). */
LL_MUST_USE ll_status ll_linear_forward(const ll_attention *op, const ll_attention_call *call);
LL_MUST_USE ll_status ll_linear_backward(const ll_attention *op, const ll_attention_call *call);

#endif
