/* The definitions of attention in double, written to be read: every weight A_ij of every pair of tokens, one
 * after the other. Shares nothing with the library but the structs that say what is meant.
 *
 *   y_i = sum_j A_ij v_j / den_i
 *   linear kernels   A_ij = r^(i-j) <P^i phi(q_i), P^j phi(k_j)>, over the keys j that query i sees
 *   softmax          A_ij = exp(scale <q_i, k_j>)
 *
 * Gradients are those of sum(y * g): analytic, and by central differences to judge the analytic ones. */
#ifndef LL_ORACLE_H
#define LL_ORACLE_H

#include "longline.h"

/* One call. q (B, H, T, D), k (B, H, S, D), v (B, H, S, E), g (B, H, T, E), packed. r (H) is the decay and is
 * read in place of c.decay, so that it can be differentiated; 1 for none. Parameters of t5 and shaw likewise. */
typedef struct {
    ll_attention_config c;
    int B, T, S;
    const int *lengths, *query_lengths; /* as ll_attention_call has them */
    const float *mask;
    double *q, *k, *v, *g, *r;
    double *gate; /* (B, H, T) log r of each token, or NULL; A_ij has those of tokens j+1 .. i */
    const double *linformer_k, *linformer_v; /* (length, rank), read in place of the config's */
    double *bias, *distance_k, *distance_v;
} oracle_case;

/* A stabiliser c: its value, and the index of the query or key (in the whole tensor) and of the feature that set it;
 * feature < 0 if none did. For queries TOKEN and PREFIX mean their own token; for keys PREFIX means the keys that the
 * query sees. */
typedef struct {
    double value;
    size_t token;
    int feature;
} oracle_top;

int oracle_features(const ll_attention_config *c);
/* Does query i of sequence b see key j? */
int oracle_sees(const oracle_case *o, int b, int i, int j);
/* of_query, of_key (B, H, T): the stabilisers of query i and of the keys when query i looks at them. */
void oracle_tops(const oracle_case *o, oracle_top *of_query, oracle_top *of_key);
/* y (B, H, T, E). Tops NULL: computed from the inputs; else held fixed (stopped gradients). */
void oracle_forward(const oracle_case *o, const oracle_top *of_query, const oracle_top *of_key, double *y);
/* dq, dk, dv as q, k, v; dr (H); overwritten. */
void oracle_backward(const oracle_case *o, double *dq, double *dk, double *dv, double *dr);
/* d sum(y g) / d *x by central differences, x being an element of o's q, k, v or r. */
double oracle_difference(const oracle_case *o, double *x);

/* ---- Random calls (oracle_draw.c) ---- */

/* The same random numbers for the library (float views, perhaps with gaps) and for the oracle. It owns the config's
 * pointers, all arrays and the oracle's results. */
typedef struct {
    ll_attention_config config;
    ll_attention_call call; /* y, dq, dk, dv, ddecay, saved are there; saved by drawn_run (drawn.h) */
    oracle_case o;
    double *y, *dq, *dk, *dv, *dr; /* of the oracle */
    float *packed;                 /* scratch of drawn_packed */
} drawn;

/* Random numbers for tests: uniform in [0, 1), integers in [from, to], standard normal; each generator has its own
 * state. */
double draw_uniform(uint64_t *seed);
int draw_int(uint64_t *seed, int from, int to);
double draw_normal(uint64_t *seed);

/* An operator of random kind and size that the library accepts: heads, widths, kernel, rules, random draws. Free with
 * draw_config_free. */
ll_attention_config draw_config(uint64_t *seed);
/* Projection, permutation and decay for a config that says its sizes: decay where `decays`. */
void draw_parts(ll_attention_config *c, int decays, uint64_t *seed);
void draw_config_free(ll_attention_config *c);

enum { DRAW_LENGTHS = 1, DRAW_MASK = 2, DRAW_TOKEN_MAJOR = 4 };
/* Owns the config from now on. spread: standard deviation of q and k. how: DRAW_..., or several of them. */
drawn *drawn_create(ll_attention_config c, int B, int T, int S, double spread, int how, uint64_t *seed);
void drawn_free(drawn *d);
/* The oracle's y, and gradients if `backward`. */
void drawn_solve(drawn *d, int backward);
/* A view as (B, H, n, width), packed; valid until the next call. */
const float *drawn_packed(drawn *d, const ll_view *view, int n, int width);
/* The largest error of "y", "dq", "dk", "dv" or "dr", relative to the largest element. */
double drawn_error(drawn *d, const char *tensor);
/* Fails unless y (and gradients) of drawn_run are those of drawn_solve. */
void drawn_check(drawn *d, const char *what, int backward, double y_tolerance, double gradient_tolerance);
/* "favor causal B2 H3 T17 ..." */
const char *drawn_name(const drawn *d);

#endif
