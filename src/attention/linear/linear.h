/* Linear attention of one head of one sequence: what its forward and backward scans share. */
#ifndef LL_LINEAR_H
#define LL_LINEAR_H

#include <math.h>

#include "attention/attention_stream.h"
#include "attention/cross_cache.h"
#include "attention/feature/features.h"
#include "attention/operator.h"

/* One head of one sequence, with n queries and s keys. Scans work in tiles of `tile` tokens. Causal ones save a state
 * every `chunk` tokens. bf16: products of the call round (tile_product.h). */
typedef struct {
    const ll_attention *op;
    const ll_feature_map *map;
    const ll_kernels *k;
    ll_views at;
    int h, n, s, tile, chunk, bf16;
    int64_t first[2];       /* positions of query 0 and of key 0 */
    int64_t keys;           /* how many count: those that the mask keeps; causal: so far */
    const float *mask;      /* (s) or NULL */
    float shift[2];         /* stabilisers of LL_PHI_FIXED queries and keys that many tokens share */
    double *dtop[2];        /* their gradients, or NULL */
    float decay;            /* r, 1 without a decay */
    float *den;             /* (n) divisors: saved, or scratch */
    float *states;          /* saved states, or NULL */
    const float *state_in;  /* the call's, of this head, or NULL */
    float *state_out;
    const float *dstate_out;
    float *dstate_in;
    ll_arena pool;          /* scratch of this worker */
} ll_head;

/* 2^n, and 0 below the smallest float. */
static inline float ll_power2(int n) { return n < -148 ? 0 : ldexpf(1, n); }
/* The distance between rows of values in scratch, so that they are in different sets of L1. One more number fits. */
static inline size_t ll_value_distance(int E) { return ((size_t)E + 16) / 16 * 16 + 16; }

/* The feature map of an operator of this kind. */
static inline const ll_feature_map *ll_linear_map(const ll_attention *op) {
    return op->own;
}

/* Floats of one saved state: S (features x E), z (features), V (E), and the numbers LL_SAVED_.. of causal.h. */
size_t ll_state_floats(const ll_attention *op);
/* Doubles of the state of one head of a stream. */
size_t ll_recurrent_doubles(const ll_attention *op);
/* Floats of the state of one head that a call takes or leaves: a saved state, and how many keys it has had. */
size_t ll_carried_floats(const ll_attention *op);
/* That number: exact below 2^48 if the divisor takes it (LL_DEN_EPS_L), else below 2^24. */
int64_t ll_carried_keys(const ll_attention *op, const float *state);
void ll_carried_set_keys(const ll_attention *op, float *state, int64_t keys);
/* The empty state. */
void ll_carried_clear(const ll_attention *op, float *state);
/* check_counts of the operator: of all heads. */
LL_MUST_USE ll_status ll_carried_check(const ll_attention *op, const float *state);
/* The gradient at the state that the call took. passes: of a call without tokens, where it is the gradient at the state
 * that the call left. give: in both directions, from U (E + 1, ld), the gradient at the state of all keys. */
void ll_carried_gradient_passes(const ll_head *j);
void ll_bidirectional_gradient_give(const ll_head *j, const float *U);

/* The tile of tokens t0..t0+C-1 on one side. Fills px, py (C) with their positions. */
ll_feature_tile ll_tile_at(const ll_head *j, int side, int t0, int C, int64_t *px, int64_t *py, float *work);
/* The divisor of a row. s: the sum of weights; phi: the sum of the query's features; keys: how many there are. */
double ll_divisor(const ll_attention *op, double s, double phi, double keys);
/* 1/den. It is 0 for an empty row, and for a row whose weights are all too small for a float: its quotient would be
 * noise, and its inverse would overflow in the gradients. It is NaN where den overflowed, so that y shows this. */
float ll_inverse(float den);
/* The inverses of the divisors of n queries from t0 on; saves the divisors for a backward pass. s, phi (n) as above;
 * phi NULL: no divisor needs it. keys: how many there are; in a causal scan, before the first of the queries. */
void ll_inverses(const ll_head *j, int t0, int n, const float *s, const float *phi, int64_t keys, float *inverse);
/* Keys from..to-1 that the mask keeps. */
int ll_kept_keys(const ll_head *j, int from, int to);
/* The values of C tokens from t0 on, times `weight` (C) if it is not NULL, as rows `ld` apart. */
void ll_pack_values(const ll_head *j, int t0, int C, const float *weight, float *out, size_t ld);
/* Rows [dnum_i, dden_i] of n queries from t0 on, `ld` apart: g/den and -(g.y)/den. */
void ll_row_gradients(const ll_head *j, int t0, int n, float *dn, size_t ld);

/* Prefetches the tile of a view from token t0 on, up to `end`. Its rows are a whole token apart, which the hardware
 * does not prefetch. */
void ll_prefetch_add(ll_prefetch *next, const ll_head *j, const ll_view *view, int t0, int end, int cols);

/* ..._floats: the scratch of a worker, or what threads share. They take the pieces from an arena without memory, by the
 * function that the scan itself uses. */
size_t ll_causal_forward_floats(const ll_head *j);
size_t ll_causal_backward_floats(const ll_head *j);
void ll_causal_forward(ll_head *j);
void ll_causal_backward(ll_head *j);
/* The same for one head on all threads, to the same bits. shared: so many floats, besides the scratch of workers. */
size_t ll_intra_head_forward_floats(ll_head *j, int threads);
size_t ll_intra_head_backward_floats(ll_head *j, int threads);
void ll_intra_head_forward(ll_head *j, int threads, float *shared);
/* pool: scratch of the first worker; floats: the distance to the scratch of the next. */
void ll_intra_head_backward(ll_head *j, int threads, float *shared, float *pool, size_t floats);
/* Tokens of a chunk in both directions, which is summed on its own and is the task of a thread. */
enum { LL_SUM_CHUNK = 1024 };
size_t ll_bidirectional_floats(ll_head *j, int backward);
/* By so many workers, to the same bits. floats: the distance from one worker's scratch to the next. */
void ll_bidirectional_forward(ll_head *j, int workers, size_t floats);
void ll_bidirectional_backward(ll_head *j, int workers, size_t floats);
/* Computes the queries alone, from a state that forward saved. */
void ll_bidirectional_read(ll_head *j, const float *state);
/* gate.c. rows: adds n rows of one side to the gradient of the gate, from their dphi. every (n): the gradient that all
 * features of a query share. gradient: after all rows, computes the gradient. */
void ll_gate_rows(const ll_head *j, int side, int t0, int n, const float *phi, const float *dphi, const float *every);
void ll_gate_gradient(const ll_head *j);
/* decay_gradient.c. dr, computed token by token in double, if a call asks for it. */
size_t ll_decay_floats(const ll_head *j);
double ll_decay_gradient(ll_head *j);

/* The factors of one causal tile (tile_scales.c). P_i is the largest exponent among the state before the run and its
 * keys up to i, X that of the last row. C and C' are the exponents of the state before and after the run. d_i is the
 * decay of the rows after the run's first up to row i, and r that of its first.
 *
 *   carry  = r 2^(C - X)          of the state before the run
 *   add_j  = 2^(e_j - X) / d_j    of key j, by which its value is multiplied
 *   read_i = d_i 2^(X - P_i)      of what row i reads
 *   after  = d 2^(X - C')         of the state at the end, with d of the last row
 *
 * Then a run of rows is a scan without factors. A tile is one run, unless factors would grow too large: X is at most 40
 * above P_i. So features of a row's keys are exact down to 2^-86 of the largest one, and smaller ones may become 0.
 *
 * For example, three tokens with r = 1/2 and all exponents 0 have carry = 1/2, add = 1, 2, 4, read = 1, 1/2, 1/4 and
 * after = 1/4. With s_j = phi(k_j) v_j^T row 2 reads 1/4 (S/2 + s_0 + 2 s_1 + 4 s_2) = S/8 + s_0/4 + s_1/2 + s_2. With
 * r = 1, C = 0 and e = 0, 5, 3 they have P = 0, 5, 5 and X = 5, so that carry = 2^-5, add = 2^-5, 1, 2^-2 and read =
 * 2^5, 1, 1. */
typedef struct {
    int n, next; /* tokens; C' of the last run */
    int plain;   /* no decay, exponents or mask: every factor is 1 */
    int gated;   /* the decay comes with the call */
    int runs, end[LL_TILE_MOST];
    int e[LL_TILE_MOST], P[LL_TILE_MOST];
    float carry[LL_TILE_MOST], after[LL_TILE_MOST]; /* of each run */
    float add[LL_TILE_MOST], read[LL_TILE_MOST];
    float log2_bound;  /* of the state after the tile; it falls with the decay */
    const float *mask; /* of the tile's keys, or NULL */
    double constant, sum[LL_TILE_MOST]; /* log2 of decays: of every token; from the run's second row to each row */
} ll_scales;
/* exponent and log2_bound are those of the state before the tile; exponent is log2_bound, rounded up. e is set before.
 */
void ll_scales_set(ll_scales *f, const ll_head *j, int t0, int n, int exponent, float log2_bound);

#endif
