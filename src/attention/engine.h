/* Engines: what attention of each kind does with q, k and v. The operator asks this table, not the kernel's name. */
#ifndef LL_ENGINE_H
#define LL_ENGINE_H

#include "attention/attention.h"

/* What a stream keeps. */
enum ll_keeps {
    LL_KEEPS_STATE,  /* S and z, of constant size */
    LL_KEEPS_KEYS,   /* keys and values */
    LL_KEEPS_WINDOW, /* keys and values of the last tokens */
    LL_KEEPS_NOTHING /* y is a function of the token */
};

typedef struct ll_engine {
    const char *name;
    int linear; /* has features: so projections, permutations, decay, divisors and key masks */
    int reads;  /* queries and keys 2; queries alone 1; neither 0 */
    int itself; /* keys are those of the queries' own tokens: S = T */
    enum ll_keeps keeps;
    size_t (*saved)(const ll_attention *op, int B, int T, int S);
    ll_status (*forward)(const ll_attention *op, const ll_attention_call *call);
    ll_status (*backward)(const ll_attention *op, const ll_attention_call *call);
} ll_engine;

/* What the kernels that papers compare with cannot take. */
LL_MUST_USE ll_status ll_engine_check(const ll_attention_config *c);
/* The engine of a kernel without position, NULL: there is no such kernel; and the ones around another (shell.c,
 * divide.c). */
const ll_engine *ll_engine_of(ll_kernel kernel);
extern const ll_engine ll_engine_shell, ll_engine_divided;

/* value.c */
size_t ll_value_saved(const ll_attention *op, int B, int T, int S);
LL_MUST_USE ll_status ll_value_forward(const ll_attention *op, const ll_attention_call *call);
LL_MUST_USE ll_status ll_value_backward(const ll_attention *op, const ll_attention_call *call);

#endif
