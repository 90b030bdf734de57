/* The state between causal tiles and the rows that a running maximum with eps needs, for both scans. */
#ifndef LL_CAUSAL_H
#define LL_CAUSAL_H

#include "attention/linear/linear.h"

typedef struct {
    float *S, *z; /* (features, E), (features): in units of 2^exponent */
    float *old_S, *old_z, *new_S, *new_z; /* late in a sequence: before a chunk, and of its tiles; S is their sum */
    float *V, *low_V; /* (E) sum of r^(i-j) v_j, count the same of ones, top the largest c: only with eps */
    int exponent;
    float reach; /* bounds the state, log2; exponent is reach rounded up */
    float top, count, low_count;
} ll_causal_state;

/* sum += factor x, where `low` keeps what rounding takes away (Kahan's summation): one number after the other would
 * lose 1e-2 of a sum of a million that are alike. */
void ll_sum_keep(size_t n, float factor, const float *x, float *sum, float *low);

ll_causal_state ll_causal_state_take(const ll_attention *op, float **pool); /* empty */
void ll_causal_state_clear(const ll_attention *op, ll_causal_state *s);
/* A saved state is S, z and V, then these numbers; the last two, (E) of low_V among them, only with eps. */
enum {
    LL_SAVED_EXPONENT,
    LL_SAVED_TOP,
    LL_SAVED_COUNT,
    LL_SAVED_REACH,
    LL_SAVED_LOW_COUNT,
    LL_SAVED_LOW_V
};
void ll_causal_state_save(const ll_attention *op, const ll_causal_state *s, float *to);
void ll_causal_state_load(const ll_attention *op, ll_causal_state *s, const float *from);
/* Saved, the state before the first token. */
void ll_causal_state_save_empty(const ll_attention *op, float *to);
/* Where a head's scan begins: from what earlier calls left, or from nothing. And what it leaves. */
void ll_causal_begin(ll_head *j, ll_causal_state *s);
void ll_causal_end(const ll_head *j, const ll_causal_state *s);

/* U (E + 1, ld) and W (2 E + 1) of the backward scan, from the gradient at what the call left, a state in units of
 * 2^exponent; the gradient at what it took from U and W at its first row. */
void ll_causal_gradient_take(const ll_head *j, int exponent, float *U, float *W, int *next);
void ll_causal_gradient_give(const ll_head *j, const float *U, const float *W, int next);

/* Softmax features under a running maximum whose scale does not cancel. */
int ll_causal_has_eps(const ll_attention *op);
/* For them: kappa (n), V (n, E) and count (n) of each row of a tile, the state moved past it. top (n) of the
 * keys, v (n, E) with rows ldv apart. */
void ll_causal_rows(ll_causal_state *s, const ll_head *j, int t0, const ll_scales *f, const float *top, const float *v,
                    size_t ldv, float *kappa, float *V, float *count);

/* A tile of the forward scan, which goes through four steps. The first and the last look at this tile alone; the second
 * is a few numbers a token; the third moves the state, and columns of values never meet in it. So one thread can make
 * all steps tile by tile, or many share them (causal_parallel.c): the bits are the same. */
typedef struct {
    int t0, n, keys;      /* keys: that count before it */
    float *phi_q, *phi_k; /* (n, ld) */
    float *v, *added;     /* (n, ldv) values; the same times what they count in the state */
    float *num, *s;       /* (n, ldv), (n) sums of weights times values, and of weights */
    float *kappa, *count, *V, top[LL_TILE_MOST];
    ll_scales f;
    size_t ldv;
} ll_causal_tile;
/* Scratch of who makes the first and the last step. */
typedef struct {
    float *work, *kt, *A, ones[LL_TILE_MOST];
    int64_t x[LL_TILE_MOST], y[LL_TILE_MOST];
    size_t lda;
} ll_causal_buffers;
ll_causal_tile ll_causal_tile_take(const ll_head *j, float **pool);
ll_causal_buffers ll_causal_buffers_take(const ll_head *j, float **pool);
void ll_causal_tile_features(const ll_head *j, ll_causal_buffers *buffers, ll_causal_tile *tile);
void ll_causal_tile_scales(ll_head *j, ll_causal_state *s, ll_causal_tile *tile);
/* For columns first .. first + cols - 1 of the values; with the first one, the normaliser. */
void ll_causal_tile_state(const ll_head *j, const ll_causal_state *s, ll_causal_tile *tile, int first, int cols);
void ll_causal_tile_finish(const ll_head *j, const ll_causal_buffers *buffers, ll_causal_tile *tile);
/* Keeps the state before token t0 for backward, where it is wanted and a chunk begins. */
void ll_causal_keep(const ll_head *j, const ll_causal_state *s, int t0);

#endif
