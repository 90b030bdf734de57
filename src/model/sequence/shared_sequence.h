/* Sequences that several processes share. Each process has one part of the tokens. Attention passes states of constant
 * size from part to part (state_in and state_out of a call), never keys and values. Softmax has no such
 * state; it sends keys and values from part to part (ring_attention.h). */
#ifndef LL_SHARED_SEQUENCE_H
#define LL_SHARED_SEQUENCE_H

#include "model/model_internal.h"

/* Which part this process has, and how numbers travel between parts. Parts call `broadcast` and `sum` together. `sum`
 * gives all the same bits. */
enum { LL_SHARED_MESSAGES = 6 };
typedef struct {
    int part, parts;
    ll_status (*send)(void *arg, const float *x, size_t n, int to);
    ll_status (*receive)(void *arg, float *x, size_t n, int from);
    ll_status (*broadcast)(void *arg, float *x, size_t n, int from);
    ll_status (*sum)(void *arg, float *x, size_t n);
    /* Begins to send or take x, which stays in use until `wait`. One of each of the LL_SHARED_MESSAGES may be on its
     * way; even ones are sent, and number + 1 takes it on the other side. */
    ll_status (*begin)(void *arg, float *x, size_t n, int peer, int message);
    ll_status (*wait)(void *arg, int message);
    void *arg;
} ll_sharing;

/* Batches of this workspace are part number how->part of sequences that are how->parts times as long. LL_EINVAL with
 * the reason if the model's attention has no state of constant size and is not softmax, or if its task
 * needs whole sequences. */
LL_MUST_USE ll_status ll_workspace_share(ll_workspace *ws, const ll_sharing *how);

/* ---- For attention_layer.c ---- */

typedef struct ll_shared ll_shared;
void ll_shared_free(ll_shared *s);
/* Adds the bytes that sharing the sequences of a training workspace takes. */
LL_MUST_USE ll_status ll_shared_measure(const ll_workspace *ws, size_t *bytes);
/* The position of the first token of this part. */
int64_t ll_shared_offset(const ll_shared *s, int T);
/* again: the same call a second time, before its backward. States that came are there; only a ring turns again. */
LL_MUST_USE ll_status ll_shared_forward(const ll_shared *s, int layer, const ll_attention_call *call, int again);
LL_MUST_USE ll_status ll_shared_backward(const ll_shared *s, int layer, const ll_attention_call *call);

#endif
