/* Positions in the logits of exact attention. They are numbers that depend only on the distance j - i, which is
 * clipped.
 *
 *   t5     s_ij = scale <q_i, k_j> + b[head][bucket(j - i)]
 *   shaw   s_ij = scale <q_i, k_j + a_(j-i)>        y_i = sum_j P_ij (v_j + c_(j-i))
 *
 * For a query both are one row of numbers by distance, which is added to a row of a tile of logits. Their gradients and
 * the values c need only sums of a row of a tile by distance. So a tile needs its own tokens alone. */
#ifndef LL_LOGIT_BIAS_H
#define LL_LOGIT_BIAS_H

#include "attention/operator.h"
#include "attention/parameter.h"

enum { LL_T5_BUCKETS = 32, LL_T5_REACH = 128 };
/* T5's bucket of the distance key minus query. Half of the buckets have one distance each. The others grow in equal
 * steps of the logarithm up to LL_T5_REACH. If a query sees both directions, each direction has half of the buckets. */
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

/* take: sizes and memory. set: the numbers, from the parameters. */
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

/* Computes the products of the scaled queries with all vectors of distances. */
void ll_distances_queries(const ll_distance_tile *t);
/* Adds the numbers of the distances to the logits P. */
void ll_distances_logits(const ll_distance_tile *t, float *P);
/* Adds the sums of weights by distance to rows `ldw` apart. They are the weights of the vectors in the values. */
void ll_distances_weights(const ll_distance_tile *t, const float *P, float *out, size_t ldw);
/* dP += <g_i, c>, and adds the gradient of c. Overwrites R. */
void ll_distances_values_back(const ll_distance_tile *t, const float *P, float *dP);
/* Adds to dq (rows `token` apart; NULL: not wanted) and to the gradients of what is in the logits, from dS. */
void ll_distances_logits_back(const ll_distance_tile *t, const float *dS, float *dq, size_t token);

/* Takes memory for the sums of gradients of `sequences` sequences, in `parts` parts for each head. A part has one
 * worker. And for their totals, in double. */
void ll_distances_take_sums(ll_distances *d, const ll_attention *op, size_t sequences, size_t parts, ll_arena *a);
/* begin: sets the totals to 0. clear: sets the sums of the next sequences to 0. add: adds these in order to the totals.
 * collect: adds the totals to the gradients. */
void ll_distances_begin(const ll_distances *d);
void ll_distances_clear(ll_distances *d, size_t sequences);
void ll_distances_add(const ll_distances *d);
void ll_distances_collect(const ll_distances *d, const ll_attention *op, const ll_position_gradients *to);
float *ll_distances_part(const ll_distances *d, size_t head, size_t part);

#endif
