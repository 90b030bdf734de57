/* Linear attention in both directions, and between sequences. One pass over the keys sums the state S = sum phi(k) v^T,
 * z = sum phi(k). One pass over the queries reads it. Backward swaps the two: the queries sum U = sum phi(q) [dnum,
 * dden]^T, and the keys read U. A token costs 4 multiply-adds of features x E forward and 8 backward, which is what the
 * definition needs.
 *
 * Each chunk of LL_SUM_CHUNK tokens is summed on its own, and the sums of chunks are added in order. In one long sum
 * the small features of single tokens would be lost in rounding, always to the same side. Chunks also let threads share
 * a head: they sum chunks side by side, and then read the sum tile by tile. The bits are the same for any number of
 * threads.
 *
 * A state is stored as it is saved: S (features, E), z (features), exponent. Backward transposes it for the products
 * that need it, with the normaliser as one more row. */
#include <math.h>
#include <string.h>

#include "attention/linear/linear.h"
#include "attention/tile_product.h"
#include "base/integer.h"
#include "base/parallel.h"

/* Scratch of one worker. dphi, rows: of backward. pairs: of products in bfloat16, else NULL. sum: that of a chunk,
 * which is a state or a part of U. */
typedef struct {
    float *phi, *work, *dphi, *v, *rows, *s, *pairs, *sum;
    int e[LL_TILE_MOST];
    int64_t x[LL_TILE_MOST], y[LL_TILE_MOST];
    size_t ld, ldv;
} scratch;

/* One head and its workers. */
typedef struct {
    ll_head *j;
    int workers, backward;
    size_t floats;      /* from one worker's scratch to the next one's */
    ll_arena pool;      /* scratch of the first, behind what the walk has taken */
    int first;          /* the chunk of the first worker */
    float *sum;         /* of all chunks: the state; backward: Ut */
    ll_factor state;    /* of all keys (features, E); backward: transposed, with the normaliser (E + 1, ld) */
    ll_factor Ut, U;    /* backward: of all queries, (E + 1, ld) and (features, E) */
    float *turned[2];   /* memory of the state transposed, and of U */
    float *pairs[2];    /* for bfloat16: memory of pairs of the state, later of Ut; and of U */
} walk;

/* Floats of a state, or of a part of U. */
static size_t sum_floats(const ll_attention *op, int backward) {
    return backward ? (size_t)(op->c.E + 1) * (size_t)ll_linear_map(op)->ld : ll_state_floats(op);
}

static scratch take_all(const ll_head *j, int backward, ll_arena *pool) {
    const size_t C = (size_t)j->tile;
    scratch w = {.ld = (size_t)j->map->ld, .ldv = ll_value_distance(j->op->c.E)};
    w.phi = ll_arena_take(pool, C * w.ld);
    w.work = ll_arena_take(pool, ll_feature_work(j->map, C, j->bf16));
    w.v = ll_arena_take(pool, C * w.ldv);
    if (backward) {
        w.dphi = ll_arena_take(pool, C * w.ld);
        w.rows = ll_arena_take(pool, C * w.ldv);
    }
    if (j->bf16) w.pairs = ll_arena_take(pool, (C + 1) / 2 * (w.ld + w.ldv));
    w.s = ll_arena_take(pool, C);
    w.sum = ll_arena_take(pool, sum_floats(j->op, backward));
    return w;
}

static scratch scratch_of(const walk *a, int worker) {
    ll_arena pool = {a->pool.base + (size_t)worker * a->floats, a->pool.used};
    return take_all(a->j, a->backward, &pool);
}

/* Takes the sums of a head from the scratch of its first worker. */
static void take_sums(walk *a) {
    const size_t sum = sum_floats(a->j->op, a->backward), E = (size_t)a->j->op->c.E, m = (size_t)a->j->map->features;
    const size_t state = a->backward ? (E + 2) / 2 * (size_t)a->j->map->ld : (m + 1) / 2 * E, U = (m + 1) / 2 * E;
    a->sum = ll_arena_take(&a->pool, sum);
    if (a->j->bf16) a->pairs[0] = ll_arena_take(&a->pool, state);
    if (!a->backward) return;
    a->turned[0] = ll_arena_take(&a->pool, sum);
    a->turned[1] = ll_arena_take(&a->pool, m * E);
    if (a->j->bf16) a->pairs[1] = ll_arena_take(&a->pool, U);
}

/* A sum as it is read by rows of a tile. pairs: memory for bfloat16, or NULL. */
static ll_factor factor(const walk *a, int rows, const float *x, size_t ld, float *pairs) {
    if (pairs) ll_pair_rows(a->j->k, rows, (int)ld, x, ld, pairs);
    return (ll_factor){x, pairs, ld};
}

size_t ll_bidirectional_floats(ll_head *j, int backward) {
    walk a = {.j = j, .backward = backward};
    take_sums(&a);
    (void)take_all(j, backward, &a.pool);
    return a.pool.used;
}

/* Where a worker sums its chunk. The first chunk of the sequence is summed in the memory of the whole sum. */
static float *sum_of(const walk *a, int worker) { return a->first + worker ? scratch_of(a, worker).sum : a->sum; }

/* A single worker may run beside workers of other heads, so it starts no threads. */
static void share(walk *a, int pieces, ll_task *task) {
    if (a->workers > 1) {
        ll_parallel_among(a->workers, (size_t)pieces, task, a);
    } else {
        for (int i = 0; i < pieces; i++) task(a, (size_t)i, 0);
    }
}

/* Sums n tokens. As many chunks as there are workers are summed at a time. */
static void sum_up(walk *a, int n, ll_task *sum_chunk, void (*join)(const walk *a, float *sum)) {
    const int chunks = (n + LL_SUM_CHUNK - 1) / LL_SUM_CHUNK;
    for (a->first = 0; a->first < chunks; a->first += a->workers) {
        const int now = ll_min_int(a->workers, chunks - a->first);
        share(a, now, sum_chunk);
        for (int i = 0; i < now; i++)
            if (a->first + i) join(a, sum_of(a, i));
    }
}

/* Reads the sum for n tokens. */
static void read_out(walk *a, int n, ll_task *read_chunk) {
    share(a, (n + LL_SUM_CHUNK - 1) / LL_SUM_CHUNK, read_chunk);
}

/* ---- Forward ---- */

/* The weight of each key: its mask, times two to the power of its exponent less the state's. */
static void key_weights(const ll_head *j, const scratch *w, int t0, int n, int exponent, float *weight) {
    const int running = j->map->phi[LL_KEY] == LL_PHI_RUNNING;
    for (int i = 0; i < n; i++) {
        const float keep = j->mask ? j->mask[t0 + i] : 1;
        weight[i] = keep == 0 ? 0 : keep * (running ? ll_power2(w->e[i] - exponent) : 1);
    }
}

static float *exponent_of(const ll_attention *op, float *state) {
    return state + (size_t)ll_linear_map(op)->features * ((size_t)op->c.E + 1);
}

static void clear_state(const ll_attention *op, float *state) {
    float *exponent = exponent_of(op, state);
    memset(state, 0, (size_t)(exponent - state) * sizeof *state);
    *exponent = (float)LL_NO_EXPONENT;
}

/* The state in units of 2^top. */
static void raise_state(const ll_head *j, float *state, int top) {
    float *exponent = exponent_of(j->op, state);
    const int old = (int)*exponent;
    if (top > old && old > LL_NO_EXPONENT) j->k->scale((size_t)(exponent - state), ll_power2(old - top), state);
    *exponent = (float)top;
}

static void add_keys(const ll_head *j, scratch *w, int t0, int n) {
    const ll_attention *op = j->op;
    const int m = j->map->features, E = op->c.E;
    float weight[LL_TILE_MOST], *S = w->sum, *z = S + (size_t)m * (size_t)E;
    ll_feature_tile k = ll_tile_at(j, LL_KEY, t0, n, w->x, w->y, w->work);
    ll_features(&k, w->phi, w->e, NULL);
    int top = (int)*exponent_of(op, w->sum);
    for (int i = 0; i < n; i++)
        if ((!j->mask || j->mask[t0 + i] != 0) && w->e[i] > top) top = w->e[i];
    raise_state(j, w->sum, top);
    key_weights(j, w, t0, n, top, weight);
    ll_pack_values(j, t0, n, weight, w->v, w->ldv);
    ll_prefetch next = {0};
    ll_prefetch_add(&next, j, &j->at.k, t0 + n, j->s, op->D);
    ll_prefetch_add(&next, j, &j->at.v, t0 + n, j->s, op->c.E);
    ll_tile_sum(j->k, n, m, E, w->phi, w->ld, w->v, w->ldv, w->pairs, S, (size_t)E, &next);
    j->k->gemv(m, n, weight, w->phi + j->map->divisor, w->ld, z, 1);
}

static void keys_task(void *arg, size_t i, int worker) {
    const walk *a = arg;
    const ll_head *j = a->j;
    const int from = (a->first + (int)i) * LL_SUM_CHUNK, to = ll_min_int(j->s, from + LL_SUM_CHUNK);
    scratch w = scratch_of(a, (int)i);
    (void)worker;
    w.sum = sum_of(a, (int)i);
    if (w.sum != a->sum) clear_state(j->op, w.sum);
    for (int t0 = from; t0 < to; t0 += j->tile) add_keys(j, &w, t0, ll_min_int(j->tile, to - t0));
}

static void join_states(const walk *a, float *sum) {
    const ll_attention *op = a->j->op;
    const float mine = *exponent_of(op, sum), all = *exponent_of(op, a->sum);
    const int top = (int)(mine > all ? mine : all);
    raise_state(a->j, sum, top);
    raise_state(a->j, a->sum, top);
    a->j->k->add((size_t)(exponent_of(op, sum) - sum), sum, a->sum);
}

/* Rows (n, E) of y or dv: their features times a sum (features, E), times a factor each. */
static void read_sum(const ll_head *j, const scratch *w, int n, ll_factor sum, const float *row, float *y, size_t token,
                     ll_prefetch *next) {
    const int m = j->map->features, E = j->op->c.E;
    if (!sum.pairs) {
        j->k->gemm_scaled(n, E, m, w->phi, w->ld, 1, sum.x, sum.ld, row, y, token, next);
        return;
    }
    ll_tile_product(j->k, n, E, m, w->phi, w->ld, sum, w->pairs, y, token, 0, next);
    j->k->scaled_rows(n, (size_t)E, row, y, token, y, token);
}

static void read_queries(const ll_head *j, ll_factor state, scratch *w, int t0, int n) {
    const ll_attention *op = j->op;
    const int m = j->map->features, E = op->c.E;
    const float *z = state.x + (size_t)m * (size_t)E;
    ll_feature_tile q = ll_tile_at(j, LL_QUERY, t0, n, w->x, w->y, w->work);
    ll_features(&q, w->phi, w->e, NULL);
    ll_prefetch next = {0};
    ll_prefetch_add(&next, j, &j->at.q, t0 + n, j->n, op->D);
    ll_prefetch_add(&next, j, &j->at.y, t0 + n, j->n, op->c.E);
    j->k->gemv_rows(n, m, w->phi + j->map->divisor, w->ld, z, w->s, 0);
    float phi[LL_TILE_MOST], inverse[LL_TILE_MOST];
    const int sums = op->c.den == LL_DEN_EPS_PHI;
    for (int i = 0; i < n && sums; i++) phi[i] = j->k->sum((size_t)m, w->phi + (size_t)i * w->ld);
    ll_inverses(j, t0, n, w->s, sums ? phi : NULL, j->keys, inverse);
    read_sum(j, w, n, state, inverse, ll_at(&j->at.y, t0), j->at.y.token, &next);
}

static void queries_task(void *arg, size_t i, int worker) {
    const walk *a = arg;
    const int from = (int)i * LL_SUM_CHUNK, to = ll_min_int(a->j->n, from + LL_SUM_CHUNK);
    scratch w = scratch_of(a, worker);
    for (int t0 = from; t0 < to; t0 += a->j->tile)
        read_queries(a->j, a->state, &w, t0, ll_min_int(a->j->tile, to - t0));
}

void ll_bidirectional_forward(ll_head *j, int workers, size_t floats) {
    walk a = {.j = j, .workers = workers, .floats = floats, .pool = j->pool};
    take_sums(&a);
    if (j->states) a.sum = j->states;
    const size_t floats_kept = ll_state_floats(j->op);
    j->keys = ll_kept_keys(j, 0, j->s);
    if (j->state_in) {
        memcpy(a.sum, j->state_in, floats_kept * sizeof *a.sum);
        j->keys += ll_carried_keys(j->op, j->state_in);
    } else {
        clear_state(j->op, a.sum);
    }
    sum_up(&a, j->s, keys_task, join_states);
    if (j->state_out) {
        memcpy(j->state_out, a.sum, floats_kept * sizeof *a.sum);
        ll_carried_set_keys(j->op, j->state_out, j->keys);
    }
    a.state = factor(&a, j->map->features, a.sum, (size_t)j->op->c.E, a.pairs[0]);
    read_out(&a, j->n, queries_task);
}

void ll_bidirectional_read(ll_head *j, const float *state) {
    walk a = {.j = j, .workers = 1, .pool = j->pool, .state = {state, NULL, (size_t)j->op->c.E}};
    read_out(&a, j->n, queries_task);
}

/* ---- Backward ---- */

/* dphi of n rows, from their numbers x (n, E + 1) and the sum (E + 1, ld) of the other side. */
static void feature_gradients(const ll_head *j, const scratch *w, int n, const float *x, ll_factor sum,
                              ll_prefetch *next) {
    const int m = j->map->features, E = j->op->c.E, divisor = j->map->divisor;
    ll_tile_product(j->k, n, m, divisor ? E : E + 1, x, w->ldv, sum, w->pairs, w->dphi, w->ld, 0, next);
    if (divisor) j->k->gemm(n, m, 1, x + E, w->ldv, 1, sum.x + (size_t)E * w->ld, w->ld, w->dphi + divisor, w->ld, 0);
}

/* Computes dq of a tile, and adds its rows to U. */
static void queries_back(const walk *a, scratch *w, int t0, int n) {
    const ll_head *j = a->j;
    const ll_attention *op = j->op;
    const int m = j->map->features, E = op->c.E;
    ll_feature_tile q = ll_tile_at(j, LL_QUERY, t0, n, w->x, w->y, w->work);
    ll_features(&q, w->phi, w->e, NULL);
    ll_row_gradients(j, t0, n, w->rows, w->ldv);
    ll_prefetch out = {0};
    ll_prefetch_add(&out, j, &j->at.dq, t0, j->n, op->D);
    feature_gradients(j, w, n, w->rows, a->state, &out);
    if (op->c.den == LL_DEN_EPS_PHI)
        for (int i = 0; i < n; i++)
            for (int f = 0; f < m; f++)
                w->dphi[(size_t)i * w->ld + (size_t)f] += op->c.den_eps * w->rows[(size_t)i * w->ldv + (size_t)E];
    ll_prefetch next = {0};
    ll_prefetch_add(&next, j, &j->at.q, t0 + n, j->n, op->D);
    ll_prefetch_add(&next, j, &j->at.g, t0 + n, j->n, op->c.E);
    ll_prefetch_add(&next, j, &j->at.y, t0 + n, j->n, op->c.E);
    ll_tile_sum(j->k, n, E, m, w->rows, w->ldv, w->phi, w->ld, w->pairs, w->sum, w->ld, &next);
    float dden[LL_TILE_MOST];
    for (int i = 0; i < n; i++) dden[i] = w->rows[(size_t)i * w->ldv + (size_t)E];
    j->k->gemv(m, n, dden, w->phi + j->map->divisor, w->ld, w->sum + (size_t)E * w->ld, 1);
    ll_features_back(&q, w->phi, w->dphi, ll_at(&j->at.dq, t0), j->at.dq.token, j->dtop[LL_QUERY]);
}

static void keys_back(const walk *a, scratch *w, int t0, int n) {
    const ll_head *j = a->j;
    const ll_attention *op = j->op;
    const int E = op->c.E;
    float weight[LL_TILE_MOST];
    ll_feature_tile k = ll_tile_at(j, LL_KEY, t0, n, w->x, w->y, w->work);
    ll_features(&k, w->phi, w->e, NULL);
    key_weights(j, w, t0, n, (int)*exponent_of(op, j->states), weight);
    ll_pack_values(j, t0, n, weight, w->v, w->ldv);
    for (int i = 0; i < n; i++) w->v[(size_t)i * w->ldv + (size_t)E] = weight[i];
    ll_prefetch out = {0};
    ll_prefetch_add(&out, j, &j->at.dk, t0, j->s, op->D);
    feature_gradients(j, w, n, w->v, a->Ut, &out);
    ll_prefetch next = {0};
    ll_prefetch_add(&next, j, &j->at.k, t0 + n, j->s, op->D);
    ll_prefetch_add(&next, j, &j->at.v, t0 + n, j->s, op->c.E);
    read_sum(j, w, n, a->U, weight, ll_at(&j->at.dv, t0), j->at.dv.token, &next);
    ll_features_back(&k, w->phi, w->dphi, ll_at(&j->at.dk, t0), j->at.dk.token, j->dtop[LL_KEY]);
}

static void queries_back_task(void *arg, size_t i, int worker) {
    const walk *a = arg;
    const int from = (a->first + (int)i) * LL_SUM_CHUNK, to = ll_min_int(a->j->n, from + LL_SUM_CHUNK);
    scratch w = scratch_of(a, (int)i);
    (void)worker;
    w.sum = sum_of(a, (int)i);
    if (w.sum != a->sum) memset(w.sum, 0, sum_floats(a->j->op, 1) * sizeof *w.sum);
    for (int t0 = from; t0 < to; t0 += a->j->tile) queries_back(a, &w, t0, ll_min_int(a->j->tile, to - t0));
}

static void join_back(const walk *a, float *sum) { a->j->k->add(sum_floats(a->j->op, 1), sum, a->sum); }

static void keys_back_task(void *arg, size_t i, int worker) {
    const walk *a = arg;
    const int from = (int)i * LL_SUM_CHUNK, to = ll_min_int(a->j->s, from + LL_SUM_CHUNK);
    scratch w = scratch_of(a, worker);
    for (int t0 = from; t0 < to; t0 += a->j->tile) keys_back(a, &w, t0, ll_min_int(a->j->tile, to - t0));
}

void ll_bidirectional_backward(ll_head *j, int workers, size_t floats) {
    const int m = j->map->features, E = j->op->c.E;
    const size_t ld = (size_t)j->map->ld, sum = sum_floats(j->op, 1);
    walk a = {.j = j, .workers = workers, .backward = 1, .floats = floats, .pool = j->pool};
    take_sums(&a);
    float *St = a.turned[0], *U = a.turned[1];
    j->k->transpose(m, E, j->states, (size_t)E, St, ld);
    memcpy(St + (size_t)E * ld, j->states + (size_t)m * (size_t)E, (size_t)m * sizeof *St);
    a.state = factor(&a, E + 1, St, ld, a.pairs[0]);
    memset(a.sum, 0, sum * sizeof *a.sum);
    if (j->dstate_out) {
        j->k->transpose(m, E, j->dstate_out, (size_t)E, a.sum, ld);
        memcpy(a.sum + (size_t)E * ld, j->dstate_out + (size_t)m * (size_t)E, (size_t)m * sizeof *a.sum);
    }
    sum_up(&a, j->n, queries_back_task, join_back);
    ll_bidirectional_gradient_give(j, a.sum);
    j->k->transpose(E, m, a.sum, ld, U, (size_t)E);
    a.Ut = factor(&a, E + 1, a.sum, ld, a.pairs[0]);
    a.U = factor(&a, m, U, (size_t)E, a.pairs[1]);
    read_out(&a, j->s, keys_back_task);
}
