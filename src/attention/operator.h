/* What an attention operator is. An operator pushes tiles of tokens through fixed stages:
 *
 *     project -> [position before the map] -> feature map -> [position after it] -> accumulate -> normalise
 *
 * ll_operator describes one kind completely: what it accepts, how it is created, what it saves, forward, backward, its
 * recurrence (as a stream) and its cache for cross attention. table.c lists them all. struct ll_attention has what
 * every kind has; what one kind needs is behind `own`. A position before the map is a stage of any operator. */
#ifndef LL_OPERATOR_H
#define LL_OPERATOR_H

#include "attention/sequence/sequence.h"
#include "base/memory.h"
#include "base/safetensors.h"
#include "kernel/kernel.h"

struct ll_recurrence;   /* attention_stream.h */
struct ll_cross_kind;   /* cross_cache.h */
struct ll_premap;       /* position/premap.h */
struct ll_postmap_kind; /* position/postmap.h */
struct ll_logit_kind;   /* exact/logit_bias.h */
struct ll_map;          /* feature/maps.h */
struct ll_parameter;    /* parameter.h */

/* One tensor of what is kept between tokens: of a stream, or of the state that a call of one sequence takes and leaves.
 * Those of a call lie one behind the other, and data is NULL. */
typedef struct {
    const char *name;
    enum ll_dtype dtype; /* LL_F32 or LL_F64 */
    int rank;
    size_t shape[4];
    void *data;
} ll_state_tensor;
enum { LL_STATE_TENSORS = 5 };
size_t ll_state_bytes(const ll_state_tensor *tensor);

/* What a token costs in all heads of one operator: the multiply-adds that its definition asks for, forward, and the
 * bytes that a stream keeps of its sequence. */
typedef struct {
    double multiply_adds, bytes;
} ll_cost;

typedef struct ll_operator {
    const char *name;
    int linear; /* has features: so projections, permutations, decay, divisors and key masks */
    int reads;  /* queries and keys 2; queries alone 1; neither 0 */
    int itself; /* keys are those of the queries' own tokens: S = T */
    int whole;  /* needs the whole sequence: never causal */
    int gates;  /* its state decays, and may do so by a gate that comes with the call */
    int gated;  /* every call has to bring a gate: of kernels, whatever the position */
    int keyless; /* the last encoding.keyless heads have no keys */
    int hashes;  /* draws approximate.rotations */
    int packs;  /* walks over the segments of packed rows itself; else it is called for each of them */
    /* LL_EINVAL with the reason; NULL: takes every config. */
    ll_status (*check)(const ll_attention_config *c);
    /* Lists the parameters that train (parameter.h), and returns how many. NULL: none. */
    int (*parameters)(const ll_attention_config *c, struct ll_parameter *list);
    /* Makes op->own. The engine's config has the query size after the premap stage, and no position where that stage
     * is the position. Its arrays outlive the operator, save parameters that train. NULL: has nothing of its own.
     * Where it fails, free is called. */
    ll_status (*create)(ll_attention *op, const ll_attention_config *engine);
    void (*free)(ll_attention *op);
    /* Takes a new projection; a tile size for tests. NULL: has none. */
    void (*project)(ll_attention *op, const float *projection);
    void (*set_tile)(ll_attention *op, int tile);
    size_t (*saved)(const ll_attention *op, int B, int T, int S, int segments); /* floats */
    /* Floats of the scratch that a call of these sizes takes; of its data nothing is looked at, but whether they are
     * there. NULL: none. Forward and backward find that much at call->scratch, for call->threads threads. */
    size_t (*scratch)(const ll_attention *op, const ll_attention_call *call, int backward);
    ll_status (*forward)(const ll_attention *op, const ll_attention_call *call);
    ll_status (*backward)(const ll_attention *op, const ll_attention_call *call);
    /* What a call takes and leaves: its tensors, LL_EINVAL with the reason where it cannot. NULL: it grows with the
     * sequence. And the state before the first token; NULL: zeros. */
    ll_status (*state)(const ll_attention *op, ll_state_tensor tensor[LL_STATE_TENSORS], int *count);
    void (*state_clear)(const ll_attention *op, float *state);
    /* LL_EINVAL with the reason where later tokens are needed; NULL: causal is enough. */
    ll_status (*can_stream)(const ll_attention *op);
    /* Of a token that sees so many keys, itself among them. The stage before the feature map is not in it. */
    ll_cost (*cost)(const ll_attention *op, double keys);
    const struct ll_recurrence *recurrence; /* NULL: cannot stream */
    const struct ll_cross_kind *cross;      /* NULL: keeps nothing that queries could read one after the other */
} ll_operator;

struct ll_attention {
    ll_attention_config c; /* as the caller gave it; its arrays are our copies, save parameters that train */
    const ll_operator *kind;
    int gated;                /* every call has to bring a gate */
    int features;             /* its kernel has some */
    int D;                    /* query size after the premap stage */
    int tile;                 /* tokens a tile; 0: as many as follow */
    int usual_tile;           /* the kernel table's when the operator was made, as buffers that last are sized by it */
    struct ll_premap *premap; /* a position before the feature map, or NULL */
    const struct ll_map *map;              /* of the kernel: elementwise features, or NULL */
    const struct ll_postmap_kind *postmap; /* a position after the map, or NULL */
    const struct ll_logit_kind *logits;    /* a position in the logits, or NULL */
    void *own;                /* of the kind */
};

/* Tokens in a tile for tests and `attend --tile`, at most LL_TILE_MOST; 0 = default. */
void ll_attention_set_tile(ll_attention *op, int tile);
int ll_attention_tile(const ll_attention *op);
/* Replaces the projection (M, D) of an operator that has one: a redraw. */
void ll_attention_set_projection(ll_attention *op, const float *projection);
/* Columns of the projection: what the position makes of D. */
int ll_attention_width(const ll_attention_config *c);
/* New noise for positions that draw it: those after this call are functions of this seed. */
void ll_attention_set_noise(ll_attention *op, uint64_t seed);
/* What a token costs that sees so many keys, with the stage before the feature map. */
ll_cost ll_operator_cost(const ll_attention *op, double keys);
/* Heads that have keys: in relative-s2 the last ones have none. */
int ll_keyed_heads(const ll_attention_config *c);
/* Sizes of a config's arrays, by its position and kernel; 0: it has no such array. Of a head, the features that its
 * permutation moves, and those that its random rotation moves: a basis of as many rows, and half as many angles. Of all
 * heads, the rows of approximate.rotations, each of buckets / 2 numbers. */
int ll_permuted_features(const ll_attention_config *c);
int ll_rotated_features(const ll_attention_config *c);
int ll_hash_rows(const ll_attention_config *c);

/* The kind alone, without checks and without the stage before the feature map. Scratch NULL: LL_ENOMEM can happen. */
LL_MUST_USE ll_status ll_operator_forward(const ll_attention *op, const ll_attention_call *call);
/* Softmax of queries over one block of their keys: y, and for backward the logarithms of the rows' sums at saved
 * (B, H, T), INFINITY for a row without keys, are those of this block. The offsets may differ; where it is causal they
 * say which of the keys a query sees. Backward takes y and saved of whole rows and gives what this block adds to the
 * gradients. Allocates its scratch. */
LL_MUST_USE ll_status ll_attention_block(const ll_attention *op, const ll_attention_call *call, int backward);
/* The most sequences that a call of these sizes can have. */
static inline size_t ll_most_sequences(const ll_attention_call *c) {
    return (size_t)(c->segments > c->B ? c->segments : c->B);
}
/* The call for an operator that an operator has of its own: with what is left of the scratch. */
static inline ll_attention_call ll_inner_call(const ll_attention_call *c, const ll_arena *used) {
    ll_attention_call inner = *c;
    inner.scratch = c->scratch ? c->scratch + used->used : NULL;
    inner.scratch_floats = c->scratch ? c->scratch_floats - used->used : 0;
    return inner;
}

/* Does the call take a state, leave one, or have a gradient of either? */
int ll_call_has_state(const ll_attention_call *call);
/* The call with the distance between the states of sequences said, for operators that an operator has of its own: each
 * of them has a part of a sequence's state. */
ll_attention_call ll_with_state_rows(const ll_attention *op, const ll_attention_call *call);
/* The tensors of the state of one sequence. LL_EINVAL as ll_attention_state_floats. */
LL_MUST_USE ll_status ll_attention_state(const ll_attention *op, ll_state_tensor tensor[LL_STATE_TENSORS], int *count);
/* The state of a sequence that has not begun, as state_in NULL is. */
void ll_attention_state_clear(const ll_attention *op, float *state);

/* LL_EINVAL with the reason where the operator needs later tokens: it or its stabiliser is not causal. */
LL_MUST_USE ll_status ll_attention_can_stream(const ll_attention *op);

#endif
