/* Heads without keys (relative-s2, relative_s2.c): what whole sequences and streams share. */
#ifndef LL_RELATIVE_S2_H
#define LL_RELATIVE_S2_H

#include "attention/feature/features.h"
#include "attention/operator.h"

typedef struct {
    ll_attention *keyed; /* the heads with keys; one that never runs where there are none */
    ll_feature_map *map; /* of the heads without */
} ll_relative_s2;

static inline const ll_relative_s2 *ll_s2_parts(const ll_attention *op) {
    return op->own;
}

enum { LL_CLIP_MOST = 255 }; /* clip + 1 vectors are one tile */

/* Neighbours first .. first+n-1 of a token: key j stands at the distance base + |j - centre| < clip. */
typedef struct {
    int64_t first, centre;
    int n, base;
} ll_near;
/* At most this many runs hold all neighbours of a token. */
int ll_near_most(const ll_attention *op);
/* The keys closer than clip to token i that it sees, of `keys` that there are; returns how many runs. */
int ll_near_keys(const ll_attention *op, int64_t i, int64_t keys, ll_near *run);

/* The features of the learnt vectors, of one call: all in units of the largest exponent. Softmax: the vectors. */
typedef struct {
    int n; /* clip + 1 */
    size_t ld, ldt;
    float *raw, *phi; /* (n, ld): in units of their own exponents, and of the largest */
    float *phi_t;     /* (features, ldt) */
    float *unit;      /* (n): phi = unit raw */
    float *work;      /* (n, ld) */
    float shift;      /* their common stabiliser, where a rule says one */
    ll_top top;       /* where it comes from */
} ll_vectors;
void ll_vectors_take(ll_vectors *w, const ll_attention *op, ll_arena *a);
/* Fills them from the parameters as they are now. */
void ll_vectors_set(ll_vectors *w, const ll_attention *op);
/* The gradient dphi (n, ld) of phi, destroyed, adds to drpe (n, D). dw: (n, D) scratch. */
void ll_vectors_back(const ll_vectors *w, const ll_attention *op, float *dphi, float *dw, float *drpe);

/* a (C, lda): weights of C queries, rows `token` apart, for each distance; phi (C, op->ld) is left with their features
 * (softmax: the scaled queries), work (C, op->ld) with anything. */
ll_feature_tile ll_keyless_weights(const ll_vectors *w, const ll_attention *op, int C, const float *q, size_t token,
                                   float *phi, float *work, float *a, size_t lda);

/* Values by token: row j is data[(ring ? j mod ring : j) * token]. mask NULL: all count. */
typedef struct {
    const float *data;
    size_t token;
    int64_t ring;
    const float *mask;
} ll_value_rows;
const float *ll_value_row(const ll_value_rows *v, int64_t j);

/* One row: num (E) = the weighted sum of values, and returns the sum of weights, from the weights a of the distances,
 * the neighbours, and the sum V (E) and number of all values that the query sees. *far: the weight that counted for
 * those at clip or farther; 0 where there is none. */
float ll_keyless_row(const ll_attention *op, const ll_kernels *k, const float *a, const ll_near *run, int runs,
                     const ll_value_rows *v, const double *V, double count, float *num, float *far);
/* What the sum is divided by. */
float ll_keyless_divisor(const ll_attention *op, float sum, const float *phi, double count);

#endif
