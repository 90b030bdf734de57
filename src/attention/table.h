/* Methods: what attention of each kind does with q, k and v. The operator asks this table, not the kernel's name. */
#ifndef LL_METHOD_H
#define LL_METHOD_H

#include "attention/operator.h"

/* What a stream keeps. */
enum ll_keeps {
    LL_KEEPS_STATE,   /* S and z, of constant size */
    LL_KEEPS_KEYS,    /* keys and values */
    LL_KEEPS_WINDOW,  /* keys and values of the last tokens */
    LL_KEEPS_BUCKETS, /* keys and values of the last tokens of each bucket */
    LL_KEEPS_NOTHING  /* y is a function of the token */
};

typedef struct ll_method {
    const char *name;
    int linear; /* has features: so projections, permutations, decay, divisors and key masks */
    int reads;  /* queries and keys 2; queries alone 1; neither 0 */
    int itself; /* keys are those of the queries' own tokens: S = T */
    int whole;  /* needs the whole sequence: never causal */
    int packs;  /* walks over the segments of packed rows itself; else it is called for each of them */
    int part;   /* has an exact operator of its own sizes as op->part */
    enum ll_keeps keeps;
    size_t (*saved)(const ll_attention *op, int B, int T, int S, int segments);
    ll_status (*forward)(const ll_attention *op, const ll_attention_call *call);
    ll_status (*backward)(const ll_attention *op, const ll_attention_call *call);
} ll_method;

/* What the kernels that papers compare with cannot take; and what their operators have of their own. */
LL_MUST_USE ll_status ll_method_check(const ll_attention_config *c);
LL_MUST_USE ll_status ll_method_prepare(ll_attention *op, const ll_attention_config *config);
/* What stands in exact.c, value.c, linformer.c, nystrom.c and reformer.c; linear.c, for all kernels with features; and
 * around another method: shell.c, divide.c, clipped_call.c. */
extern const ll_method ll_method_softmax, ll_method_local, ll_method_value, ll_method_linformer, ll_method_nystrom,
    ll_method_reformer, ll_method_linear, ll_method_shell, ll_method_divided, ll_method_clipped;
/* The method of a kernel without position, NULL: there is no such kernel. */
const ll_method *ll_method_of(ll_kernel kernel);

/* Forward or backward, whichever way sequences are told apart; and what such calls save. */
LL_MUST_USE ll_status ll_method_run(const ll_attention *op, const ll_attention_call *call, int backward);
size_t ll_method_saved(const ll_attention *op, int B, int T, int S, int segments);

/* For methods that call others. Keys of sequence b in use; zeros for the other rows. */
int ll_method_keys(const ll_attention_call *c, int b);
void ll_method_clear_output(const ll_attention *op, const ll_attention_call *c);
void ll_method_clear_gradients(const ll_attention *op, const ll_attention_call *c);

#endif
