/* What both causal scans share: the state between tiles, and the rows that a running maximum with eps needs. */
#ifndef LL_CAUSAL_H
#define LL_CAUSAL_H

#include "attention/linear/linear.h"

typedef struct {
    float *S, *z; /* (features, E), (features): in units of 2^exponent */
    float *old_S, *old_z, *new_S, *new_z; /* late in a sequence: before a chunk; of its tiles. S is their sum */
    float *V, *low_V; /* only with eps: (E) sum of r^(i-j) v_j; count is the same sum of ones, top the largest c */
    int exponent;
    float log2_bound; /* of the state; exponent is this, rounded up */
    float top, count, low_count;
} ll_causal_state;

/* sum += factor x. `low` keeps the rounding error (Kahan summation). Without it, a sum of a million equal numbers would
 * be off by 1e-2. */
void ll_sum_keep(size_t n, float factor, const float *x, float *sum, float *low);

ll_causal_state ll_causal_state_take(const ll_attention *op, ll_arena *pool); /* to be cleared or loaded */
void ll_causal_state_clear(const ll_attention *op, ll_causal_state *s);
/* A saved state is S, z, V, then these numbers. The last two, of which low_V has E numbers, are there only with eps. */
enum { LL_SAVED_EXPONENT, LL_SAVED_TOP, LL_SAVED_COUNT, LL_SAVED_BOUND, LL_SAVED_LOW_COUNT, LL_SAVED_LOW_V };
enum { LL_EXPONENT_SLACK = 32 }; /* bits by which the state of a stream may fall below its unit */
void ll_causal_state_load(const ll_attention *op, ll_causal_state *s, const float *from);
/* Saves the state before the first token, where all numbers are 0 but these. */
void ll_causal_state_save_empty(const ll_attention *op, float *to);
/* The state with which the scan of a head begins: that of earlier calls, or the empty one. And the state it leaves. */
void ll_causal_begin(ll_head *j, ll_causal_state *s);
void ll_causal_end(const ll_head *j, const ll_causal_state *s);

/* Is the state of the tile at t0 so large that the sum of a tile is collected apart? (causal.c) */
int ll_causal_late(const ll_head *j, int t0);
/* take: U (E + 1, ld) and W (2 E + 1) with which the backward scan begins, from the gradient at the state that the call
 * left. give: the gradient at the state that the call took, from U and W before the first row. */
void ll_causal_gradient_take(const ll_head *j, float *U, float *W);
void ll_causal_gradient_give(const ll_head *j, const float *U, const float *W);

/* Has it softmax features under a running maximum whose scale does not cancel? */
int ll_causal_has_eps(const ll_attention *op);
/* LL_EINVAL where a call or a stream cannot have a gate. */
LL_MUST_USE ll_status ll_causal_check_gate(const ll_attention *op);
/* For these: computes kappa (n), V (n, E) and count (n) of each row of a tile, and moves the state past the tile. top
 * (n) is that of the keys, v (n, E) has rows ldv apart. */
void ll_causal_rows(ll_causal_state *s, const ll_head *j, int t0, const ll_scales *f, const float *top, const float *v,
                    size_t ldv, float *kappa, float *V, float *count);

/* A tile of the forward scan. It goes through four steps. The first and the last step read this tile alone. The second
 * computes a few numbers a token. The third moves and reads the state, in which columns of values are independent. So
 * one thread can make all steps, tile by tile, or threads can share them (causal_parallel.c), to the same bits. */
typedef struct {
    int t0, n;
    int64_t keys;         /* how many count before the tile */
    float *phi_q, *phi_k; /* (n, ld) */
    float *v, *added;     /* (n, ldv) values; values times their weight in the state */
    float *num, *s;       /* (n, ldv), (n) sums of weights times values, and of weights */
    float *kappa, *count, *V, top[LL_TILE_MOST];
    ll_scales f;
    size_t ldv;
} ll_causal_tile;
/* Scratch of the worker that makes the first step. */
typedef struct {
    float *work;
    int64_t x[LL_TILE_MOST], y[LL_TILE_MOST];
} ll_causal_buffers;
ll_causal_tile ll_causal_tile_take(const ll_head *j, ll_arena *pool);
ll_causal_buffers ll_causal_buffers_take(const ll_head *j, ll_arena *pool);
void ll_causal_tile_features(const ll_head *j, ll_causal_buffers *buffers, ll_causal_tile *tile);
void ll_causal_tile_scales(ll_head *j, ll_causal_state *s, ll_causal_tile *tile);
/* Columns first .. first + cols - 1 of the values. With column 0 comes the normaliser. */
void ll_causal_tile_state(const ll_head *j, const ll_causal_state *s, ll_causal_tile *tile, int first, int cols);
void ll_causal_tile_finish(const ll_head *j, ll_causal_tile *tile);
/* Saves the state before token t0 for backward, if a chunk begins there and backward follows. */
void ll_causal_keep(const ll_head *j, const ll_causal_state *s, int t0);

#endif
