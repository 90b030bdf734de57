/* Inside cross attention's cache: the keys and values of a source become a state once, and queries read it. What is
 * kept is a matter of the operator. A position before the feature map encodes keys here, and queries at their
 * positions. */
#ifndef LL_CROSS_CACHE_H
#define LL_CROSS_CACHE_H

#include "attention/attention_stream.h"

struct ll_cross_cache {
    const ll_attention *op;
    int S;            /* keys */
    void *own;        /* of the kind */
    float *pool;      /* (workers, scratch) */
    size_t scratch;
    int workers;
    float *stage_work; /* (H, stage_scratch) of the position before the feature map; NULL: there is none */
    float *encoded;    /* queries after it (H, tile, D) */
    size_t stage_scratch;
};

typedef struct ll_cross_kind {
    ll_status (*can)(const ll_attention *op);        /* LL_EINVAL with the reason; NULL: always */
    ll_status (*create)(ll_cross_cache *m);          /* makes m->own; where it fails, free is called */
    void (*free)(ll_cross_cache *m);                 /* m->own may be NULL */
    size_t (*scratch)(const ll_cross_cache *m);      /* floats of a worker; NULL: none */
    size_t (*bytes)(const ll_cross_cache *m);        /* of m->own */
    ll_status (*seek)(ll_cross_cache *m, int S);     /* room for S keys; NULL: the state has one size */
    ll_status (*fill)(ll_cross_cache *m, int S, ll_view k, ll_view v);
    int (*state)(const ll_cross_cache *m, int S, ll_state_tensor tensor[LL_STATE_TENSORS]);
    ll_status (*read)(const ll_cross_cache *m, int64_t first, int n, ll_view q, ll_view y);
} ll_cross_kind;

extern const ll_cross_kind ll_cross_exact, ll_cross_linear, ll_cross_rope_linear;

/* Scratch for the threads there are now, of the size that the kind asks for now. */
LL_MUST_USE ll_status ll_cross_cache_ready(ll_cross_cache *m);

/* As of streams: the tensors, room for them, whether they can be, a copy, and how many keys. */
int ll_cross_cache_state(const ll_cross_cache *m, int S, ll_state_tensor tensor[LL_STATE_TENSORS]);
LL_MUST_USE ll_status ll_cross_cache_seek(ll_cross_cache *m, int S);
LL_MUST_USE ll_status ll_cross_cache_check(const ll_cross_cache *m);
LL_MUST_USE ll_status ll_cross_cache_clone(ll_cross_cache **copy, const ll_cross_cache *m);
int ll_cross_cache_keys(const ll_cross_cache *m);

#endif
