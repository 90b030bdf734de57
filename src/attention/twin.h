/* A twin of a stream: the same recurrence with everything in double, written from the definitions (docs/math.md) and
 * not from the stream's code. Slow, one head and one token at a time; drift.c compares with it. */
#ifndef LL_TWIN_H
#define LL_TWIN_H

#include "attention/attention.h"

/* Queries and keys before the feature map, by their position. */
typedef struct {
    const ll_attention_config *c;
    int width;             /* numbers of an encoded query or key */
    float *noise, *gate;   /* sine-spe: (H, D, 2 sines, R); conv-spe: a ring (H, taps, D, R); and (H, D, R) */
    int64_t *drawn;        /* conv-spe: (H) rows of noise so far */
} ll_twin_place;
LL_MUST_USE ll_status ll_twin_place_create(ll_twin_place *p, const ll_attention_config *c);
void ll_twin_place_free(ll_twin_place *p);
/* out (width) = x (D) of head h at a position. Positions of a head come in their order, from 0 on. */
void ll_twin_encode(ll_twin_place *p, int side, int h, int64_t position, const float *x, double *out);

typedef struct ll_twin ll_twin;
/* Keeps the operator. LL_EINVAL with the reason where it has no twin. */
LL_MUST_USE ll_status ll_twin_create(ll_twin **twin, const ll_attention *op, int64_t tokens);
void ll_twin_free(ll_twin *twin);
/* The next token of head h; then y (E) of its query. */
void ll_twin_feed(ll_twin *twin, int h, const float *k, const float *v);
void ll_twin_answer(ll_twin *twin, int h, const float *q, double *y);

#endif
