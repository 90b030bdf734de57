/* The reference of a stream: the same recurrence with everything in double, written from the definitions (docs/math.md)
 * and not from the stream's code. It is slow: one head and one token at a time. stream_error.c compares with it. */
#ifndef LL_REFERENCE_H
#define LL_REFERENCE_H

#include "attention/feature/feature_map.h"
#include "attention/operator.h"
#include "longline-lab.h"

/* Queries and keys before the feature map, by their position. */
typedef struct {
    const ll_attention_config *c;
    int width;           /* numbers of an encoded query or key */
    float *noise, *gate; /* sine-spe: (H, D, 2 sines, R); conv-spe: a ring (H, taps, D, R); and (H, D, R) */
    int64_t *drawn;      /* conv-spe: (H) rows of noise so far */
} ll_reference_position;
LL_MUST_USE ll_status ll_reference_position_create(ll_reference_position *p, const ll_attention_config *c);
void ll_reference_position_free(ll_reference_position *p);
/* out (width) = x (D) of head h at a position. Positions of a head come in their order, from 0 on. */
void ll_reference_encode(ll_reference_position *p, int side, int h, int64_t position, const float *x, double *out);
/* Rotates the pairs of x (n) by `position` times their angles: theta (n/2), or where that is NULL base^(-2t/n), which
 * `scaling` (NULL: none) makes smaller. */
void ll_reference_rotate(int n, const float *theta, double base, const ll_rope_scaling *scaling, int64_t position,
                         double *x);

/* Tokens in their buckets (reformer): q is the query in float, x in double. */
typedef struct {
    const ll_attention *op;
    int64_t *count;        /* (H, rounds, buckets) tokens so far */
    double *keys, *values; /* rings (H, rounds, buckets, 2 chunk, D or E) */
    int *bucket;           /* (H, rounds) of the token fed last */
    float *q, *work;
} ll_reference_buckets;
LL_MUST_USE ll_status ll_reference_buckets_create(ll_reference_buckets *t, const ll_attention *op);
void ll_reference_buckets_free(ll_reference_buckets *t);
void ll_reference_buckets_feed(ll_reference_buckets *t, int h, int64_t position, const float *q, const double *x,
                               const float *v);
/* Adds the weighted values of what the last token sees to y, which is 0; returns the sum of the weights. */
double ll_reference_buckets_answer(const ll_reference_buckets *t, int h, const double *x, double *y);

/* stream_error.c: ll_attention_stream_error of an operator that is there. Progress is called now and then; non-zero
 * stops. */
LL_MUST_USE ll_status ll_stream_error_of(ll_stream_error *error, const ll_attention *op, int64_t tokens, uint64_t seed,
                                         int (*progress)(double share, void *arg), void *arg);
/* The larger of two errors; NaN stays. */
double ll_worse(double worst, double error);

typedef struct ll_reference ll_reference;
/* Keeps the operator. LL_EINVAL with the reason where there is no reference for it. */
LL_MUST_USE ll_status ll_reference_create(ll_reference **reference, const ll_attention *op, int64_t tokens);
void ll_reference_free(ll_reference *reference);
/* The next token of head h (k: its query, where queries are the keys; gate: its log r, NULL: none); then y (E) of its
 * query. */
void ll_reference_feed(ll_reference *reference, int h, const float *k, const float *v, const float *gate);
void ll_reference_answer(ll_reference *reference, int h, const float *q, double *y);

#endif
