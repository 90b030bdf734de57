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
#include "kernel/kernel.h"

struct ll_recurrence; /* attention_stream.h */
struct ll_cross_kind; /* cross_cache.h */
struct ll_premap;     /* position/premap.h */

typedef struct ll_operator {
    const char *name;
    int linear; /* has features: so projections, permutations, decay, divisors and key masks */
    int reads;  /* queries and keys 2; queries alone 1; neither 0 */
    int itself; /* keys are those of the queries' own tokens: S = T */
    int whole;  /* needs the whole sequence: never causal */
    int gates;  /* its state decays, and may do so by a gate that comes with the call */
    int gated;  /* every call has to bring a gate: of kernels, whatever the position */
    int packs;  /* walks over the segments of packed rows itself; else it is called for each of them */
    /* LL_EINVAL with the reason; NULL: takes every config. */
    ll_status (*check)(const ll_attention_config *c);
    /* Makes op->own. The engine's config has the query size after the premap stage, and no position where that stage
     * is the position. Its arrays outlive the operator, save parameters that train. NULL: has nothing of its own.
     * Where it fails, free is called. */
    ll_status (*create)(ll_attention *op, const ll_attention_config *engine);
    void (*free)(ll_attention *op);
    /* Takes a new projection; a tile size for tests. NULL: has none. */
    void (*project)(ll_attention *op, const float *projection);
    void (*set_tile)(ll_attention *op, int tile);
    size_t (*saved)(const ll_attention *op, int B, int T, int S, int segments); /* floats */
    ll_status (*forward)(const ll_attention *op, const ll_attention_call *call);
    ll_status (*backward)(const ll_attention *op, const ll_attention_call *call);
    /* What a call takes and leaves: floats of a sequence, LL_EINVAL with the reason where it cannot; the state before
     * the first token; what it consists of. NULL: it grows with the sequence. */
    ll_status (*state_floats)(const ll_attention *op, size_t *floats);
    void (*state_clear)(const ll_attention *op, float *state);
    /* LL_EINVAL with the reason where later tokens are needed; NULL: causal is enough. */
    ll_status (*can_stream)(const ll_attention *op);
    const struct ll_recurrence *recurrence; /* NULL: cannot stream */
    const struct ll_cross_kind *cross;      /* NULL: keeps nothing that queries could read one after the other */
} ll_operator;

struct ll_attention {
    ll_attention_config c; /* as the caller gave it; its arrays are our copies, save parameters that train */
    const ll_operator *kind;
    int gated;                /* every call has to bring a gate */
    int D;                    /* query size after the premap stage */
    int tile;                 /* tokens a tile; 0: as many as follow */
    int usual_tile;           /* the kernel table's when the operator was made, as buffers that last are sized by it */
    struct ll_premap *premap; /* a position before the feature map, or NULL */
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
/* Heads that have keys: in relative-s2 the last ones have none. */
int ll_keyed_heads(const ll_attention_config *c);

/* The state of a sequence that has not begun, as state_in NULL is. */
void ll_attention_state_clear(const ll_attention *op, float *state);

/* LL_EINVAL with the reason where the operator needs later tokens: it or its stabiliser is not causal. */
LL_MUST_USE ll_status ll_attention_can_stream(const ll_attention *op);

#endif
