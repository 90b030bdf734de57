/* Heads without keys (relative-s2, relative_s2.c): what whole sequences and streams share. */
#ifndef LL_RELATIVE_S2_H
#define LL_RELATIVE_S2_H

#include "attention/feature/features.h"
#include "attention/operator.h"

typedef struct {
    ll_attention *keyed; /* the heads with keys; if there are none, an operator that never runs */
    ll_feature_map *map; /* of the heads without */
} ll_relative_s2;

static inline const ll_relative_s2 *ll_s2_parts(const ll_attention *op) {
    return op->own;
}

static inline int ll_s2_has_keys(const ll_attention *op) {
    return ll_keyed_heads(&op->c) > 0;
}
/* relative_s2_call.c */
size_t ll_s2_saved(const ll_attention *op, int B, int T, int S, int segments);
size_t ll_s2_scratch(const ll_attention *op, const ll_attention_call *c, int backward);
LL_MUST_USE ll_status ll_s2_forward(const ll_attention *op, const ll_attention_call *call);
LL_MUST_USE ll_status ll_s2_backward(const ll_attention *op, const ll_attention_call *call);

enum { LL_CLIP_MOST = 255 }; /* clip + 1 vectors are one tile */

/* The features of the learnt vectors, for one call, in units of the largest exponent. Softmax: the vectors. */
typedef struct {
    int n; /* clip + 1 */
    size_t ld, ldt;
    float *raw, *phi; /* (n, ld): in units of their own exponents, and of the largest */
    float *phi_t;     /* (features, ldt) */
    float *unit;      /* (n): phi = unit raw */
    float *work;      /* (n, ld) */
    float shift;      /* their common stabiliser, if a rule has one */
    ll_top top;       /* where it comes from */
} ll_vectors;
void ll_vectors_take(ll_vectors *w, const ll_attention *op, ll_arena *a);
/* Fills them from the parameters as they are now. */
void ll_vectors_set(ll_vectors *w, const ll_attention *op);
/* Adds to drpe (n, D), from the gradient dphi (n, ld) at phi, which is destroyed. dw: (n, D) scratch. */
void ll_vectors_back(const ll_vectors *w, const ll_attention *op, float *dphi, float *dw, float *drpe);

/* Computes a (C, lda), the weights of C queries (rows `token` apart) for each distance (softmax: the logits), and phi
 * (C, op->ld), their features (softmax: the scaled queries). work (C, op->ld): scratch. */
ll_feature_tile ll_s2_weights(const ll_vectors *w, const ll_attention *op, int C, const float *q, size_t token,
                              float *phi, float *work, float *a, size_t lda);

/* Values by token. Row j is data[(ring ? j mod ring : j - first) * token]. mask NULL: all count. Tokens begin .. first
 * - 1 are of earlier calls: row j mod keep of `past`, which counts if `past_kept` is not 0. */
typedef struct {
    const float *data;
    size_t token;
    int64_t ring;
    const float *mask;
    int64_t begin, first, keep;
    const float *past, *past_kept;
    size_t token_past;
} ll_value_rows;
const float *ll_value_row(const ll_value_rows *v, int64_t j);
int ll_value_counts(const ll_value_rows *v, int64_t j);

/* The neighbours of a token: the keys closer than clip that it sees and that count. */
typedef struct {
    int n;
    int64_t *key; /* (n), as distance, value and number */
    int *distance;
    const float **value; /* rows of E */
    float *number;       /* scratch: a number for each */
} ll_neighbours;
/* At most this many a token. */
size_t ll_neighbours_most(const ll_attention *op);
void ll_neighbours_take(ll_neighbours *near, const ll_attention *op, ll_arena *a);
/* Those of token i, among keys v->begin .. keys - 1. */
void ll_neighbours_find(ll_neighbours *near, const ll_attention *op, int64_t i, int64_t keys, const ll_value_rows *v);

/* relative_s2_state.c. The state of heads without keys that a call takes and leaves: the sum of all values that count,
 * in double, their number, and the last values, which may be near to later tokens. */
typedef struct {
    int64_t tokens; /* before the call, at most `keep` */
    double count;
    const float *sum;              /* (E) doubles, or NULL: nothing came before */
    const float *values, *kept;    /* (keep, E), (keep): rings by position */
    const float *dsum_out, *dvalues_out;
    float *dsum, *dcount, *dvalues, *dkept; /* NULL: not wanted */
} ll_s2_state;
/* Values that may be near a later token. */
int64_t ll_s2_keep(const ll_attention *op);
LL_MUST_USE ll_status ll_s2_tensors(const ll_attention *op, ll_state_tensor tensor[LL_STATE_TENSORS], int *count);
LL_MUST_USE ll_status ll_s2_check(const ll_attention *op, const float *state);
/* Where the numbers of a head begin in that state. sum and count are doubles. */
typedef struct {
    size_t sum, count, values, kept;
} ll_s2_layout;
ll_s2_layout ll_s2_layout_of(const ll_attention *op, int head);
/* first: floats of the state before those of these heads; floats: of all. head: number among those without keys. */
ll_s2_state ll_s2_state_at(const ll_attention *op, const ll_attention_call *c, size_t floats, size_t first,
                           int sequence, int head);
/* Backward of n tokens from position `at` on: sets the gradient at the state before the call to 0, or to the part that
 * passes through from the state after it. Adds the rest to the gradients of these tokens. */
void ll_s2_gradients(const ll_attention *op, const ll_s2_state *s, int64_t at, int n, const ll_view *dv);
/* Writes the state after a sequence of n tokens from position `at` on. V and count: of all tokens. */
void ll_s2_leave(const ll_attention *op, const ll_attention_call *c, size_t floats, size_t first, int sequence,
                 int head, const ll_value_rows *v, int64_t at, int n, const double *V, double count);

/* Softmax: makes the logits a of a row's distances weights, in units of the largest. A distance that the row does not
 * have counts for that only if it is not much larger than those it has, which would vanish beside it. Other kernels
 * have weights already: theirs vanish beside a vector whose features are e^80 times as large. */
void ll_s2_exponentials(const ll_attention *op, const ll_kernels *k, float *a, const ll_neighbours *near, double count);
/* One row. Computes num (E), the weighted sum of values, and returns the sum of weights. It needs the weights a of the
 * distances, the neighbours, and the sum V (E) and number of all values that the query sees. *far: the weight of those
 * at clip or farther; 0 if there is none. */
float ll_s2_row(const ll_attention *op, const ll_kernels *k, const float *a, const ll_neighbours *near, const double *V,
                double count, float *num, float *far);
/* What the sum is divided by. */
float ll_s2_divisor(const ll_attention *op, float sum, const float *phi, double count);

#endif
