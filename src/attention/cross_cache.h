/* Inside the cache of cross attention. The keys and values of a source are read once into a state, which queries read.
 * The operator defines the state. A position before the feature map encodes keys here, and queries at their
 * positions. */
#ifndef LL_CROSS_CACHE_H
#define LL_CROSS_CACHE_H

#include "attention/attention_stream.h"

/* Cross attention as a stream. All keys and values are given at once, and queries one after the other. Linear kernels
 * have a state of constant size, softmax has keys and values. The operator is not causal, and must outlive the
 * cache. */
typedef struct ll_cross_cache ll_cross_cache;
LL_MUST_USE ll_status ll_cross_cache_create(ll_cross_cache **cache, const ll_attention *op);
void ll_cross_cache_free(ll_cross_cache *cache);
size_t ll_cross_cache_bytes(const ll_cross_cache *cache);
/* Reads S keys and values of one sequence (batch = 0 in the views), which replace the earlier ones. */
LL_MUST_USE ll_status ll_cross_cache_fill(ll_cross_cache *cache, int S, ll_view k, ll_view v);
/* Answers n queries at positions first, first + 1, ..: O(n M (D + E)), softmax O(n S (D + E)). */
LL_MUST_USE ll_status ll_cross_cache_read(const ll_cross_cache *cache, int64_t first, int n, ll_view q, ll_view y);

struct ll_cross_cache {
    const ll_attention *op;
    int S;            /* keys */
    void *own;        /* of the kind */
    float *pool;      /* (workers, scratch) */
    size_t scratch;
    int workers;
    ll_premap_stream stage; /* of a position before the feature map */
    float *encoded;         /* queries after it (H, tile, D) */
};

typedef struct ll_cross_kind {
    ll_status (*can)(const ll_attention *op);        /* LL_EINVAL with the reason; NULL: always */
    ll_status (*create)(ll_cross_cache *m);          /* makes m->own; where it fails, free is called */
    void (*free)(ll_cross_cache *m);                 /* m->own may be NULL */
    size_t (*scratch)(const ll_cross_cache *m);      /* floats of a worker; NULL: none */
    size_t (*bytes)(const ll_cross_cache *m);        /* of m->own */
    ll_status (*seek)(ll_cross_cache *m, int S);     /* memory for S keys; NULL: the state has one size */
    ll_status (*fill)(ll_cross_cache *m, int S, ll_view k, ll_view v);
    int (*state)(const ll_cross_cache *m, int S, ll_state_tensor tensor[LL_STATE_TENSORS]);
    ll_status (*read)(const ll_cross_cache *m, int64_t first, int n, ll_view q, ll_view y);
} ll_cross_kind;

extern const ll_cross_kind ll_cross_exact, ll_cross_linear;

/* Scratch for the threads there are now, of the size that the kind asks for now. */
LL_MUST_USE ll_status ll_cross_cache_ready(ll_cross_cache *m);

/* As of streams: the tensors, room for them, whether they can be, a copy, and how many keys. */
int ll_cross_cache_state(const ll_cross_cache *m, int S, ll_state_tensor tensor[LL_STATE_TENSORS]);
LL_MUST_USE ll_status ll_cross_cache_seek(ll_cross_cache *m, int S);
LL_MUST_USE ll_status ll_cross_cache_check(const ll_cross_cache *m);
LL_MUST_USE ll_status ll_cross_cache_clone(ll_cross_cache **copy, const ll_cross_cache *m);
int ll_cross_cache_keys(const ll_cross_cache *m);

#endif
