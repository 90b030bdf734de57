/* Reformer on one call, and its tiles: what forward and backward share. */
#ifndef LL_REFORMER_TILE_H
#define LL_REFORMER_TILE_H

#include "attention/approximate/reformer.h"
#include "base/parallel.h"

enum { LL_HASHED = 64 }; /* tokens that are hashed at a time */

typedef struct {
    const ll_attention *op;
    const ll_attention_call *c;
    const ll_kernels *k;
    int chunk;
    size_t ldd, lde, lds; /* distances of packed rows of D, E, keys */
    float *pool;
    size_t scratch;
} ll_reformer;

/* One (sequence, head), and one worker's memory. */
typedef struct {
    const ll_reformer *x;
    int row, h, first, n, capacity; /* the sequence's row and first token there; tokens in use, and at most */
    float *lse, *m, *l, *inverse; /* (T) each; lse of saved, or m; 1 / |q| */
    int *bucket, *order, *start;  /* (rounds or 1, T), (T), (buckets + 1) */
    float *hashes;                /* (HASHED, buckets / 2) */
    float *q, *g, *sum;           /* (chunk, D), (chunk, E) twice */
    float *k, *kt, *v, *vt;       /* (2 chunk, D), (D, 2 chunk), (2 chunk, E), (E, 2 chunk) */
    float *P, *dP, *dk, *dv;      /* (chunk, 2 chunk) twice; (2 chunk, D), (2 chunk, E) */
    int sequence;
    ll_bucket_state state; /* of the round that is computed now */
} ll_reformer_tile;

/* A run of sorted tokens: `rows` tokens from `from` on, and the `back` tokens before, which they also see. Tokens of
 * the call begin at `begin`. Before them come the `past` tokens of earlier calls in this bucket (state.count). */
typedef struct {
    int from, rows, back, bucket, begin, past;
} ll_reformer_run;

/* Sizes of a call, and its scratch. */
ll_reformer ll_reformer_of(const ll_attention *op, const ll_attention_call *c);
size_t ll_reformer_saved(const ll_attention *op, int B, int T, int S, int segments);
/* Task number `index`: a sequence and a head. */
ll_reformer_tile ll_reformer_head(const ll_reformer *x, size_t index, int worker);
static inline float *ll_reformer_at(const ll_reformer_tile *j, const ll_view *view, int token) {
    return ll_element(view, j->row, j->h, j->first + token);
}
/* Buckets of a round. `saved` has those of all rounds; else there is memory for one. */
int *ll_reformer_buckets(const ll_reformer_tile *j, int round);
/* Tokens by (bucket, token); bucket a has those from start[a] on. And how many came before in earlier calls. */
void ll_reformer_sort(const ll_reformer_tile *j, int round);
int ll_reformer_past_of(const ll_reformer_tile *j, int bucket);
/* The next run (to begin: rows = 0); returns 0 if there is none. Runs of a bucket are cut from its first token on, even
 * if that was in an earlier call. */
int ll_reformer_next(const ll_reformer_tile *j, ll_reformer_run *r);
/* Key i that a run sees: its token, or -1 and its slot in the ring of the bucket. */
int ll_reformer_key_at(const ll_reformer_tile *j, const ll_reformer_run *r, int i, size_t *slot);
/* Keys and values of a run, and logits (rows, back + rows) of its queries. */
void ll_reformer_logits(const ll_reformer_tile *j, const ll_reformer_run *r);
/* Row i of logits becomes e^(s - shift) for keys that the row sees, else 0. */
void ll_reformer_exponentials(const ll_reformer_tile *j, const ll_reformer_run *r, int i, float shift, float *row);
void ll_reformer_backward_head(void *reformer, size_t index, int worker);

#endif
