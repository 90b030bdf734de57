/* One call of exact attention, and a tile of it. Forward and backward share these. */
#ifndef LL_EXACT_TILE_H
#define LL_EXACT_TILE_H

#include "attention/exact/exact.h"
#include "attention/exact/logit_bias.h"
#include "attention/tile_product.h"
#include "base/integer.h"
#include "base/parallel.h"

typedef struct {
    const ll_attention *op;
    const ll_attention_call *c;
    const ll_kernels *k;
    int queries, keys, query_blocks, key_blocks; /* of a tile; of the whole call */
    int step;                                    /* queries computed at a time where a tile meets the diagonal */
    int want_q, want_kv;                         /* what this pass of backward computes */
    size_t state;                                /* floats of a sequence's state; 0: the call has none */
    int64_t offset;                              /* the first query's position less the first key's, without a state */
    int window;                                  /* local: query i sees keys j with |i - j| < window; else 0 */
    size_t ldd, lde, lds;                        /* distances of packed rows of D, E, keys */
    size_t ldsum;                                /* of rows of running sums: of values, and by distance (shaw) */
    ll_distances d;                              /* t5, shaw; d.n = 0: none */
    int first, group;                            /* sequence of the first task; sequences of a pass of backward */
    int threads;
    float *pool;
    size_t scratch; /* floats a worker */
} ll_exact;

/* One (sequence, head), with the packed rows of its worker. */
typedef struct {
    const ll_exact *x;
    ll_views at;
    size_t index; /* of the sequence and head */
    int h;
    float *saved; /* (n), or NULL */
    int n, s;     /* queries and keys in use, those of the state among them */
    int query_capacity, key_capacity;
    ll_window past; /* keys of earlier calls, which come before the call's own */
    int width;      /* keys of a tile at most */
    int apart;      /* values that are not finite are added apart */
    int want_kv;    /* of this block of keys */
    ll_view dk, dv; /* their gradients, from the block's first */
    float *q, *g, *sum, *lse, *delta; /* (queries, D), (queries, E) twice, (queries) twice */
    float *k, *kt, *v, *vt;           /* (keys, D), (D, keys), (keys, E), (E, keys) */
    float *P, *dP;                    /* (queries, keys) */
    float *R, *W;                     /* (queries, distances) */
    int *sees;                        /* (queries) */
    float *kt_pairs, *v_pairs, *vt_pairs, *k_pairs; /* for bfloat16: pairs of rows of kt, v, vt, k; else NULL */
    float *pairs;                     /* rows of a product as pairs (tile_product.h) */
} ll_exact_tile;

/* Sizes of a call, its divided scratch, and the distances of positions in the logits. */
ll_exact ll_exact_prepare(const ll_attention *op, const ll_attention_call *c, int backward);
/* Task number `index`: a sequence and a head. */
ll_exact_tile ll_exact_head(const ll_exact *x, size_t index, int worker);
/* Packs rows of a view, times a factor, ld apart. The second packs keys or values, which may be of the state. */
void ll_exact_pack(const ll_exact_tile *j, const ll_view *view, int token, int rows, int n, float factor, float *out,
                   size_t ld);
void ll_exact_pack_keys(const ll_exact_tile *j, const ll_view *view, const float *past, int token, int rows, int n,
                        float *out, size_t ld);
/* A packed tile of keys or values, from row or column `skip` on, with its pairs. */
ll_factor ll_exact_keys(const ll_exact_tile *j, int skip);
ll_factor ll_exact_values(const ll_exact_tile *j, int skip);
ll_factor ll_exact_values_t(const ll_exact_tile *j, int skip);
/* The transposed keys, and prefetches of keys and values of the call: rows of other heads lie between, so that the
 * hardware prefetches none. */
void ll_exact_transpose_keys(const ll_exact_tile *j, int token, int rows);
void ll_exact_prefetch_keys(const ll_exact_tile *j, ll_prefetch *next, int token, int rows);
/* Query i, which is key past.n + i + offset, sees keys first .. last - 1. Both grow with i. */
int ll_exact_first(const ll_exact_tile *j, int i);
int ll_exact_last(const ll_exact_tile *j, int i);
/* In the tile of keys from j0 on: where the keys that query i sees end, and where they begin. */
int ll_exact_seen(const ll_exact_tile *j, int i, int j0);
int ll_exact_unseen(const ll_exact_tile *j, int i, int j0);
/* An even number of columns of the tile that no query from i on sees. */
int ll_exact_skip(const ll_exact_tile *j, int i, int j0);
/* How many of the tile's rows from query i0 on are computed at a time: all, or few where they see different keys, so
 * that little beyond what they see is computed. The second is the tile from row i on. */
int ll_exact_step(const ll_exact_tile *j, int i0, int rows, int j0);
ll_exact_tile ll_exact_rows(const ll_exact_tile *j, int i);
/* The tile in the form that positions in the logits need. */
ll_distance_tile ll_exact_distances(const ll_exact_tile *j, int i0, int rows, int j0);
/* Computes columns skip .. width - 1 of P (rows, width) from the packed queries and the transposed keys. */
void ll_exact_logits(const ll_exact_tile *j, int rows, int skip, int width);

#endif
