/* What an attention operator is. An operator pushes tiles of tokens through fixed stages:
 *
 *     project -> [position before the map] -> feature map -> [position after it] -> accumulate -> normalise
 *
 * ll_operator_kind describes one kind completely: what it accepts, how it is created, what it saves, forward, backward,
 * its recurrence (as a stream) and its cache for cross attention. table.c lists all kinds. struct ll_attention has what
 * every kind has. What only one kind needs is behind `own`. Positions are stages, to which the operator has
 * pointers. */
#ifndef LL_OPERATOR_H
#define LL_OPERATOR_H

#include "attention/sequence/sequence.h"
#include "base/integer.h"
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
struct ll_constant;     /* constant.h */

/* One tensor of a state: of a stream, or of the state of one sequence that a call takes and leaves. Tensors of a call
 * are stored one after the other, and their data is NULL. */
typedef struct {
    const char *name;
    enum ll_dtype dtype; /* LL_F32 or LL_F64 */
    int rank;
    size_t shape[4];
    void *data;
} ll_state_tensor;
enum { LL_STATE_TENSORS = 5 };
size_t ll_state_bytes(const ll_state_tensor *tensor);
/* LL_EFORMAT where a number of the tensors is not finite; where x is not a whole number from 0 to `most`. */
LL_MUST_USE ll_status ll_state_check(const ll_state_tensor *tensor, int count);
LL_MUST_USE ll_status ll_state_whole(const char *tensor, double x, double most);

/* The cost of a token in all heads of one operator: the multiply-adds of its definition, forward, and the bytes that a
 * stream keeps of its sequence, 0 where there is no stream. */
typedef struct {
    double multiply_adds, bytes;
} ll_cost;

typedef struct ll_operator_kind {
    const char *name;
    int linear; /* has features: so projections, permutations, decay, divisors and key masks */
    int reads;  /* queries and keys 2; queries alone 1; neither 0 */
    int itself; /* keys are those of the queries' own tokens: S = T */
    int not_causal; /* mixes all tokens of a sequence at once */
    int gates;  /* its state can decay by a gate that comes with the call */
    int keyless; /* the last encoding.keyless heads have no keys */
    int packs;  /* handles all segments of packed rows in one call; else it is called for each */
    /* LL_EINVAL with the reason; NULL: takes every config. */
    ll_status (*check)(const ll_attention_config *c);
    /* Lists the parameters that train (parameter.h), and returns how many. NULL: none. */
    int (*parameters)(const ll_attention_config *c, struct ll_parameter *list);
    /* Lists its constants (constant.h) likewise, save projection and decay. */
    int (*constants)(const ll_attention_config *c, struct ll_constant *list);
    /* Makes op->own. The engine's config has the query size after the premap stage, and no position where that stage
     * is the position. Its arrays outlive the operator, save parameters that train. NULL: has nothing of its own.
     * Where it fails, free is called. */
    ll_status (*create)(ll_attention *op, const ll_attention_config *engine);
    void (*free)(ll_attention *op);
    /* Takes a new projection; a tile size for tests. NULL: has none. */
    void (*project)(ll_attention *op, const float *projection);
    void (*set_tile)(ll_attention *op, int tile);
    size_t (*saved)(const ll_attention *op, int B, int T, int S, int segments); /* floats */
    /* Floats of the scratch of a call of these sizes. It reads no data of the call, only which pointers are NULL.
     * Forward and backward get that much at call->scratch, for call->threads threads. NULL: none. */
    size_t (*scratch)(const ll_attention *op, const ll_attention_call *call, int backward);
    ll_status (*forward)(const ll_attention *op, const ll_attention_call *call);
    ll_status (*backward)(const ll_attention *op, const ll_attention_call *call);
    /* state: the tensors of the state that a call takes and leaves; LL_EINVAL with the reason if there is none. NULL:
     * it would grow with the sequence. state_clear: writes the state before the first token; NULL: zeros. */
    ll_status (*state)(const ll_attention *op, ll_state_tensor tensor[LL_STATE_TENSORS], int *count);
    void (*state_clear)(const ll_attention *op, float *state);
    /* LL_EFORMAT where a count or an exponent of a state is one that no call leaves. NULL: it has none. */
    ll_status (*check_counts)(const ll_attention *op, const float *state);
    /* LL_EINVAL with the reason if it needs later tokens. NULL: it can stream if it is causal. */
    ll_status (*can_stream)(const ll_attention *op);
    /* Of a token that sees so many keys, itself included. Without the stage before the feature map. */
    ll_cost (*cost)(const ll_attention *op, double keys);
    const struct ll_recurrence *recurrence; /* NULL: cannot stream */
    const struct ll_cross_kind *cross;      /* NULL: cannot be a source of cross attention in streams */
} ll_operator_kind;

struct ll_attention {
    ll_attention_config c; /* as the caller gave it. Its constants (constant.h) are our copies. The other arrays are the
                            * caller's: parameters, and what is read at creation alone */
    const ll_operator_kind *kind;
    const char *gated;        /* the kernel for which every call has to bring a gate, or NULL */
    int features;             /* its kernel has some */
    int D;                    /* query size after the premap stage */
    int tile;                 /* tokens of a tile; 0: usual_tile */
    int usual_tile, scan_tile; /* of the kernel table at creation; sizes of buffers depend on them */
    struct ll_premap *premap; /* a position before the feature map, or NULL */
    const struct ll_map *map;              /* of the kernel: elementwise features, or NULL */
    const struct ll_postmap_kind *postmap; /* a position after the map, or NULL */
    const struct ll_logit_kind *logits;    /* a position in the logits, or NULL */
    void *own;                /* of the kind */
};

/* Tokens in a tile for tests and `attend --tile`, 1 to LL_TILE_MOST; 0 = default. */
void ll_attention_set_tile(ll_attention *op, int tile);
int ll_attention_tile(const ll_attention *op);
/* Replaces the projection (M, D) of an operator that has one. */
void ll_attention_set_projection(ll_attention *op, const float *projection);
/* Columns of the projection: D after the position before the feature map. */
int ll_attention_width(const ll_attention_config *c);
/* From now on positions that draw noise draw it from this seed. Streams of the operator must then be reset: their
 * states have keys of the old noise, and those of conv-spe keep some of it for the next tokens. */
void ll_attention_set_noise(ll_attention *op, uint64_t seed);
/* The cost of a token that sees so many keys, with the stage before the feature map. */
ll_cost ll_operator_cost(const ll_attention *op, double keys);
/* Heads that have keys: in relative-s2 the last ones have none. */
int ll_keyed_heads(const ll_attention_config *c);

/* Calls the kind, without checks and without the stage before the feature map. Scratch NULL: LL_ENOMEM can happen. */
LL_MUST_USE ll_status ll_operator_forward(const ll_attention *op, const ll_attention_call *call);
/* Softmax of queries over one block of their keys. Forward computes y of this block, and at saved (B, H, T) the
 * logarithms of the sums of rows, which are INFINITY for a row without keys. Offsets may differ; in causal attention
 * they say which keys a query sees. Backward needs y and saved of whole rows, and computes the part of the gradients
 * that comes from this block. Allocates its scratch. */
LL_MUST_USE ll_status ll_attention_block(const ll_attention *op, const ll_attention_call *call, int backward);
/* The most sequences that a call of these sizes can have. */
static inline size_t ll_most_sequences(const ll_attention_call *c) { return (size_t)ll_max_int(c->segments, c->B); }
/* The call of an inner operator, with the rest of the scratch. */
static inline ll_attention_call ll_inner_call(const ll_attention_call *c, const ll_arena *used) {
    ll_attention_call inner = *c;
    inner.scratch = c->scratch ? c->scratch + used->used : NULL;
    inner.scratch_floats = c->scratch ? c->scratch_floats - used->used : 0;
    return inner;
}

/* Has the call a state before or after it, or a gradient of one? */
int ll_call_has_state(const ll_attention_call *call);
/* The call with the distance between states of sequences, for inner operators: each has a part of the state of a
 * sequence. */
ll_attention_call ll_with_state_rows(const ll_attention *op, const ll_attention_call *call);
/* The tensors of the state of one sequence. LL_EINVAL as ll_attention_state_floats. */
LL_MUST_USE ll_status ll_attention_state(const ll_attention *op, ll_state_tensor tensor[LL_STATE_TENSORS], int *count);
/* Writes the state before the first token, which is what state_in = NULL means. */
void ll_attention_state_clear(const ll_attention *op, float *state);
/* LL_EFORMAT if a state from a file is not one that a call can leave: counts and exponents as the operator says, and
 * all numbers finite but those that are not in the empty state. */
LL_MUST_USE ll_status ll_attention_state_check(const ll_attention *op, float *state);

/* LL_EINVAL with the reason if the operator needs later tokens, because it or its stabiliser is not causal. */
LL_MUST_USE ll_status ll_attention_can_stream(const ll_attention *op);

#endif
