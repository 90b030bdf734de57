/* Inside the attention operator. An operator pushes tiles of tokens through fixed stages:
 *
 *     project -> [position before] -> feature map -> [position after] -> accumulate -> normalise
 *
 * features.c is the first part of that line for one tile of one head, forward and backward; linear.c
 * shares out the heads, causal.c and bidirectional.c accumulate; exact.c is softmax attention in tiles,
 * stream.c the recurrent form, position/ one file an encoding; method.c the table of what each kernel does. */
#ifndef LL_ATTENTION_H
#define LL_ATTENTION_H

#include "base/status.h"
#include "kernel/kernel.h"

/* How softmax features exp(u - n - c) are scaled. */
enum {
    LL_PHI_PLAIN,   /* no stabiliser: bounded features, or f(u) + eps as it is */
    LL_PHI_RUNNING, /* c = e ln 2 with an integer e for each token, kept beside the features: rescaling by
                     * powers of two is exact, so nothing depends on what c will become */
    LL_PHI_FIXED    /* c as a released rule says; op->root and eps are in the features */
};

enum { LL_QUERY, LL_KEY };
enum { LL_NO_EXPONENT = -(1 << 29) }; /* of an empty state: below every exponent */

/* A permutation in cycle order: feature a of the operator is feature order[a] of the caller. */
typedef struct {
    int axes;        /* 0: no permutation; 1: by token number; 2: the first half by x, the second by y */
    int reorder;     /* order is not the identity, and no projection absorbs it */
    int own_weight;  /* order is not the identity: a projection for each head, its rows in that head's order */
    int *order;      /* (H, features) */
    ll_cycle *cycle; /* (H, features), of which count[h][0] + count[h][1] are used */
    int (*count)[2]; /* (H): cycles that move by x (or by the token number), then those that move by y */
} ll_permute;

struct ll_attention {
    ll_attention_config c; /* its pointers are our copies */
    const struct ll_method *method;
    int features;          /* M or 2 M, or D where M = 0 */
    int ld;                /* features and padding: the distance of feature rows in scratch */
    int phi[2];            /* LL_PHI_..., of queries and keys */
    float root;            /* favor: 1 / sqrt(M), hyperbolic 1 / sqrt(2 M) */
    int scale_cancels;     /* numerator and denominator carry every common factor of the features */
    int tile;              /* tokens a tile; 0: as many as follow */
    int usual_tile;        /* the kernel table's when the operator was made, as buffers that last are sized by it */
    ll_permute permute;
    float *weight;       /* (H with own_weight, else 1; D, ld): projection times input_scale, transposed;
                          * or NULL */
    float *weight_t;     /* (H or 1, features, D): the same, not transposed */
    unsigned char *sine; /* (H or 1, features): which trigonometric features are sines; or NULL */
    double *turn;    /* (features/2; orthogonal: H of those) angles a token by which features are turned after the map;
                      * or NULL */
    float *basis, *basis_t, *angles; /* orthogonal: (H, features, features), (H, features, ld), (H, features/2) */
    /* A position that acts on q and k makes this operator a shell around `inner`, which takes what `before` makes of
     * them; rope-linear around `inner`, its weighted sums, and `sums`, its divisors (divide.c); relative-s2 around
     * `inner`, its heads with keys, and `sums`, the feature map of those without (clipped.c). Else NULL. */
    struct ll_premap *before;
    ll_attention *inner, *sums;
    ll_attention *part; /* linformer, nystrom: softmax attention between what is left of the tokens; else NULL */
};

/* Features of a head that such an operator has. */
int ll_feature_count(const ll_attention_config *c);
/* favor with features e^(n - c) [cos u, sin u], or without the exponential. */
int ll_is_trigonometric(const ll_attention_config *c);

/* Heads that have keys: in relative-s2 the last ones have none. */
int ll_keyed_heads(const ll_attention_config *c);

enum { LL_TILE_MOST = 256 };
/* Tokens in a tile for tests and `attend --tile`, at most LL_TILE_MOST; 0 = default. */
void ll_attention_set_tile(ll_attention *op, int tile);
int ll_attention_tile(const ll_attention *op);
/* Replaces the projection (M, D) of an operator that has one: a redraw. */
void ll_attention_set_projection(ll_attention *op, const float *projection);

/* Sequence number i of a call (sequence.c): its row of the tensors, its first query and key there, and how many are in
 * use. Outputs and gradients of the rest of its room are zeros. */
typedef struct {
    int row, query, key, queries, keys, query_room, key_room;
} ll_span;
int ll_sequence_count(const ll_attention_call *c);
ll_span ll_sequence_at(const ll_attention_call *c, int i);
/* That sequence as a call of its own, cut to what is in use. */
ll_attention_call ll_sequence_call(const ll_attention_call *c, int i);
/* The most queries and keys that a sequence's room has. */
void ll_sequence_longest(const ll_attention_call *c, int *queries, int *keys);
/* LL_EINVAL where segments are not what they must be (itself: keys are the queries' own tokens); zeros for the queries
 * or keys that are in none. */
LL_MUST_USE ll_status ll_segments_check(const ll_attention_call *c, int itself);
void ll_segments_clear(const ll_attention_call *c, int keys, const ll_view *view, int H, int width);
/* Element (row, head, token, 0) of a view; (token, 0) of a head's view. */
static inline float *ll_element(const ll_view *view, size_t row, size_t head, size_t token) {
    return view->data + row * view->batch + head * view->head + token * view->token;
}
static inline float *ll_at(const ll_view *view, size_t token) {
    return view->data + token * view->token;
}
/* The view from a token on; of one without data, itself. */
ll_view ll_view_from(ll_view view, int64_t token);
/* Zeros for tokens from..to-1 of a head's view. */
void ll_zero_rows(const ll_view *view, int from, int to, int width);
/* The call's tensors at one head of one sequence: token 0 is its first. Batch and head are 0. */
typedef struct {
    ll_view q, k, v, y, g, dq, dk, dv;
} ll_views;
ll_views ll_views_at(const ll_attention_call *c, const ll_span *s, int head);

/* exact.c. Columns from..to-1 of a row of logits to e^(s - m), the others up to `width` to zeros; the running maximum m
 * and sum l, and the values summed so far, follow. */
void ll_exact_soften(const ll_kernels *k, int from, int to, int width, float *row, float *m, float *l, int E,
                     float *sum);

/* Columns of the projection: what the position makes of D. */
int ll_attention_width(const ll_attention_config *c);
/* Operators around others (shell.c). */
LL_MUST_USE ll_status ll_shell_create(ll_attention *op, const ll_attention_config *config);
void ll_shell_free(ll_attention *op);
/* Do numerator and denominator carry every common factor of the features? */
int ll_scale_cancels(const ll_attention_config *c);
/* New noise for positions that draw it: those after this call are functions of this seed. */
void ll_attention_set_noise(ll_attention *op, uint64_t seed);

/* position/turn.c. out (C, 2n), rows ldo apart: pairs size (cos, sin)(phase + w t) of n angles for t = t0..t0+C-1, each
 * a function of these four alone, from doubles. size NULL: 1; phase NULL: 0. */
void ll_rotations(size_t n, const double *w, const double *size, const double *phase, int64_t t0, int C, float *out,
              size_t ldo);
/* Turns the pairs of C feature rows of a head by their position, or back; in place allowed. */
void ll_rotate_features(const ll_attention *op, int head, int back, int C, const int64_t *position, const float *in,
                      size_t ldi, float *out, size_t ldo);

/* position/orthogonal.c. Angles and basis of a config as the operator's own; then features (C, ld) in that basis, or
 * gradients back from it. */
enum { LL_ORTHOGONAL_MOST = 2048 };
LL_MUST_USE ll_status ll_orthogonal_check(const ll_attention_config *c);
LL_MUST_USE ll_status ll_orthogonal_create(ll_attention *op, const ll_attention_config *config);
void ll_orthogonal_apply(const ll_attention *op, const ll_kernels *k, int head, int back, int C, const float *in,
                         float *out);

/* stream.c. LL_EINVAL with the reason where the operator needs later tokens: it or its stabiliser is not causal. */
LL_MUST_USE ll_status ll_attention_can_stream(const ll_attention *op);

/* position/permute.c. Fills op->permute from a permutation (H, features) or, for two axes, (H, features/2). */
LL_MUST_USE ll_status ll_permute_create(ll_attention *op);
void ll_permute_free(ll_permute *p);
/* Places of tokens t0..t0+C-1: token numbers in x, or columns in x and rows in y. */
void ll_positions(const ll_attention *op, int64_t t0, int C, int64_t *x, int64_t *y);
/* out = P^position f(in), or with `back` the inverse of P; f as `along` says, NULL: the identity. */
void ll_permute_apply(const ll_attention *op, const ll_kernels *k, int head, int C, const int64_t *x, const int64_t *y,
                      int back, const ll_epilogue *along, const float *in, size_t ldi, float *out, size_t ldo);

#endif
