/* Positions in the logits of exact attention: numbers that depend on the distance j - i alone, beyond a clip no more.
 *
 *   t5     s_ij = scale <q_i, k_j> + b[head][bucket(j - i)]
 *   shaw   s_ij = scale <q_i, k_j + a_(j-i)>        y_i = sum_j P_ij (v_j + c_(j-i))
 *
 * For a query both are one row of numbers by distance, added along a row of a tile of logits; and sums of a row of a
 * tile by distance are all that their gradients and the values c need. So no tile knows more than its own tokens. */
#ifndef LL_DISTANCE_H
#define LL_DISTANCE_H

#include "attention/operator.h"
#include "attention/parameter.h"

enum { LL_T5_BUCKETS = 32, LL_T5_REACH = 128 };
/* T5's bucket of key minus query: half of the buckets hold one distance each, the others grow in equal steps of the
 * logarithm up to LL_T5_REACH. Where both directions are seen, each has half of them. */
int ll_t5_bucket(int distance, int causal);

/* Of one call, from the parameters as they are now. */
typedef struct {
    int clip, n; /* distances -clip .. clip (causal: .. 0), n of them; distance d is number clip + d. n = 0: none */
    size_t ld;   /* distance of rows by distance in scratch */
    int biased;  /* t5 */
    int keys, values;       /* shaw: vectors in the logits, and in the values */
    float *row;             /* t5: (H, ld) */
    float *k, *kt, *v, *vt; /* shaw: scale a (n, D), a^T (D, ld), c (n, E), c^T (E, ld) */
    float *sums;            /* (heads, parts, size), or NULL: t5 (n), shaw (n, D) and (n, E) */
    double *total;          /* t5: (H, size), else (size) */
    size_t H, heads, parts, size; /* heads: of all sequences that are summed now */
} ll_distances;

/* A position in the logits. */
typedef struct ll_logit_kind {
    ll_status (*check)(const ll_attention_config *c); /* LL_EINVAL with the reason */
    int (*parameters)(const ll_attention_config *c, ll_parameter *list);
    double (*cost)(const ll_attention_config *c); /* multiply-adds of a token of one head; NULL: none */
} ll_logit_kind;

/* Sizes and memory; then the numbers. */
void ll_distances_take(ll_distances *d, const ll_attention *op, ll_arena *a);
void ll_distances_set(ll_distances *d, const ll_attention *op);

/* x[j] += row at the distance first + j, j = 0..n-1. */
void ll_distances_spread(const ll_distances *d, const ll_kernels *k, const float *row, int64_t first, int n, float *x);
/* row at the distance first + j += x[j]. */
void ll_distances_gather(const ll_distances *d, const ll_kernels *k, const float *x, int64_t first, int n, float *row);

/* A tile of exact attention: rows of queries, and of keys of which row i sees the first seen[i]. With d NULL the
 * functions below do nothing. */
typedef struct {
    const ll_distances *d;
    const ll_kernels *k;
    int head, rows, D, E;
    int64_t first;   /* the first key's number less the first query's */
    const int *seen; /* (rows) */
    size_t ld;       /* of tiles (rows, keys) */
    const float *q, *g;
    size_t ldq, ldg;
    float *R, *W; /* (rows, d->ld) scratch; R is what queries_ leaves there */
    float *sums;  /* backward: what this part of the keys adds to the gradients; NULL: not wanted */
} ll_distance_tile;

/* Products of the (scaled) queries with all vectors of distances, for .. */
void ll_distances_queries(const ll_distance_tile *t);
/* .. adding to the logits P what the distances give. */
void ll_distances_logits(const ll_distance_tile *t, float *P);
/* Sums of weights by distance, added to rows `ldw` apart: what the vectors in the values are weighted with. */
void ll_distances_weights(const ll_distance_tile *t, const float *P, float *out, size_t ldw);
/* dP += <g_i, c>, and the gradient of c. Spoils R. */
void ll_distances_values_back(const ll_distance_tile *t, const float *P, float *dP);
/* From dS to dq (rows `token` apart, added to; NULL: not wanted) and the gradients of what is in the logits. */
void ll_distances_logits_back(const ll_distance_tile *t, const float *dS, float *dq, size_t token);

/* Memory for the sums of which gradients are made, of `sequences` sequences in `parts` parts for each head: one part
 * has one worker. Beside them the totals, in double. */
void ll_distances_take_sums(ll_distances *d, const ll_attention *op, size_t sequences, size_t parts, ll_arena *a);
/* Zeros for the totals; for the sums of the next sequences; adds those up, in order, to the totals; and these to the
 * gradients. */
void ll_distances_begin(const ll_distances *d);
void ll_distances_clear(ll_distances *d, size_t sequences);
void ll_distances_add(const ll_distances *d);
void ll_distances_collect(const ll_distances *d, const ll_attention *op, const ll_position_gradients *to);
float *ll_distances_part(const ll_distances *d, size_t head, size_t part);

#endif
