/* Which tokens a part computes with in a ring, and how they get there. In both directions these are its own. Causal: a
 * sequence is cut into two chunks a part, and part p of N computes with chunks p and 2 N - 1 - p, so that all parts see
 * as many keys (zig-zag). The other layers have runs of tokens; chunks move before a call and go back after it. */
#ifndef LL_RING_PARTS_H
#define LL_RING_PARTS_H

#include "attention/operator.h"
#include "model/sequence/shared_sequence.h"

/* Consecutive tokens of a sequence. */
typedef struct {
    int64_t first;
    int count;
} ll_ring_span;

typedef struct {
    ll_sharing how;
    int causal, B;
    size_t H;
    float *message[4]; /* causal: chunks to send and to take */
} ll_ring_parts;

/* The spans of a part of T tokens; returns how many there are, 1 or 2. */
int ll_ring_spans(const ll_ring_parts *p, int part, int T, ll_ring_span span[2]);
/* A tensor of a call, (B, H, T, n), and its copy, which is packed span by span: (B, H, count, n) each. */
typedef struct {
    ll_view view;
    float *x;
    size_t n;
} ll_ring_tensor;
/* Fills the copies; lengths (2, B): those of each span. */
LL_MUST_USE ll_status ll_ring_bring(const ll_ring_parts *p, const ll_attention_call *c, const ll_ring_tensor *tensor,
                                    int count, int *lengths);
/* Writes them back. */
LL_MUST_USE ll_status ll_ring_return(const ll_ring_parts *p, const ll_attention_call *c, const ll_ring_tensor *tensor,
                                     int count);

#endif
