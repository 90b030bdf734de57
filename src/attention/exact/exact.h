/* What the tiles and streams of exact attention share with the operators that use it. */
#ifndef LL_EXACT_H
#define LL_EXACT_H

#include "attention/operator.h"

/* Replaces columns from..to-1 of a row of logits by e^(s - m), and the others up to `width` by zeros. Updates the
 * running maximum m and sum l, and rescales the values that have been summed. */
void ll_exact_soften(const ll_kernels *k, int from, int to, int width, float *row, float *m, float *l, int E,
                     float *sum);

/* window_state.c. Tokens of earlier calls that a head still sees: at most window - 1, the oldest first. And their
 * gradients, if they are wanted. */
typedef struct {
    int n;
    const float *keys, *values; /* (n, D), (n, E) */
    float *dkeys, *dvalues;     /* NULL: not wanted */
    const float *dkeys_out, *dvalues_out; /* gradients at the tokens that the call leaves; NULL: zeros */
} ll_window;
size_t ll_window_floats(const ll_attention *op);
LL_MUST_USE ll_status ll_window_state(const ll_attention *op, ll_state_tensor tensor[LL_STATE_TENSORS], int *count);
LL_MUST_USE ll_status ll_window_check(const ll_attention *op, const float *state);
ll_window ll_window_at(const ll_attention *op, const ll_attention_call *c, int sequence, int head);
/* Writes the states after all sequences of the call. */
void ll_window_leave(const ll_attention *op, const ll_attention_call *c);
/* Passes the gradients at the state after the call to keys from..to-1 of s. Those of the state before the call are
 * overwritten, those of the call's own keys are added to. */
void ll_window_gradients(const ll_attention *op, const ll_window *past, const ll_views *at, int s, int from, int to);

size_t ll_exact_saved(const ll_attention *op, int B, int T, int S, int segments);
size_t ll_exact_scratch(const ll_attention *op, const ll_attention_call *c, int backward);
LL_MUST_USE ll_status ll_exact_forward(const ll_attention *op, const ll_attention_call *c);
LL_MUST_USE ll_status ll_exact_backward(const ll_attention *op, const ll_attention_call *c);

/* create, free and set_tile of linformer and nystrom. Their `own` is a softmax operator of the same heads and sizes, in
 * both directions. */
ll_status ll_inner_exact_create(ll_attention *op, const ll_attention_config *engine);
void ll_inner_exact_free(ll_attention *op);
void ll_inner_exact_set_tile(ll_attention *op, int tile);

#endif
