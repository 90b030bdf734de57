/* What exact attention's tiles, its streams and the operators that end in it share. */
#ifndef LL_EXACT_H
#define LL_EXACT_H

#include "attention/operator.h"

/* Columns from..to-1 of a row of logits to e^(s - m), the others up to `width` to zeros; the running maximum m and sum
 * l, and the values summed so far, follow. */
void ll_exact_soften(const ll_kernels *k, int from, int to, int width, float *row, float *m, float *l, int E,
                     float *sum);

/* window_state.c. What a head has of the tokens of earlier calls: at most window - 1 of them, the oldest first, and
 * whether their gradients are wanted. */
typedef struct {
    int n;
    const float *keys, *values; /* (n, D), (n, E) */
    float *dkeys, *dvalues;     /* NULL: not wanted */
    const float *dkeys_out, *dvalues_out; /* gradients at those that the call leaves; NULL: zeros */
} ll_window;
size_t ll_window_floats(const ll_attention *op);
LL_MUST_USE ll_status ll_window_state(const ll_attention *op, ll_state_tensor tensor[LL_STATE_TENSORS], int *count);
ll_window ll_window_at(const ll_attention *op, const ll_attention_call *c, int sequence, int head);
/* The state after all sequences of the call. */
void ll_window_leave(const ll_attention *op, const ll_attention_call *c);
/* Of keys from..to-1, of s: the gradients that come through the state that is left go to those of the state that was
 * taken, in place of what was there, and are added to those of the call. */
void ll_window_gradients(const ll_attention *op, const ll_window *past, const ll_views *at, int s, int from, int to);

size_t ll_exact_saved(const ll_attention *op, int B, int T, int S, int segments);
size_t ll_exact_scratch(const ll_attention *op, const ll_attention_call *c, int backward);
LL_MUST_USE ll_status ll_exact_forward(const ll_attention *op, const ll_attention_call *c);
LL_MUST_USE ll_status ll_exact_backward(const ll_attention *op, const ll_attention_call *c);

/* create, free and set_tile of linformer and nystrom: softmax of the same heads and sizes, in both directions, is all
 * that they have as `own`. */
ll_status ll_inner_exact_create(ll_attention *op, const ll_attention_config *engine);
void ll_inner_exact_free(ll_attention *op);
void ll_inner_exact_set_tile(ll_attention *op, int tile);

#endif
