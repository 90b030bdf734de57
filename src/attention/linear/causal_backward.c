/* Causal linear attention, backward. Chunks are computed from the last to the first. Each starts from the state that
 * forward saved at its beginning. Two scans go over the tiles of a chunk. The forward scan computes dq from the state.
 * The backward scan computes dk and dv from the reverse state, which is the gradient at the state:
 *
 *   U = U + phi_i [dnum_i, dden_i]^T     dphi(k_i) = U [v_i, 1]     dv_i = U phi(k_i)
 *
 * The factors of a tile are in the rows [dnum, dden] and [v, 1]. U is multiplied by the carry of a run before the rows
 * in front of that run. The state is kept transposed, with the normaliser as one more row (E + 1 x features). Between
 * chunks U is kept like that, too. Within a chunk one scan reads U along both sides, where the kernels have it, and the
 * last row of Ut has the normaliser; else two scans keep U both ways. Features are computed once, and stay in cache for
 * the chunk. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "attention/linear/causal.h"
#include "base/integer.h"
#include "base/parallel.h"

typedef struct {
    float *phi_q, *phi_k; /* (chunk, ld) */
    float *dn, *v;        /* (chunk, ldv): [dnum, dden], [v, 1], times the factors of the tile */
    float *work, *dphi, *dv, *St, *Ut, *U, *kappa, *V, *count, *phi_sum;
    ll_scales *f; /* of each tile */
    int64_t x[LL_TILE_MOST], y[LL_TILE_MOST];
    size_t ld, ldv;
    float carry; /* by which U is multiplied before it is used */
    float *W; /* (2, E): sum over later rows of r^i eps' Phi_i dnum_i, and its rounding error; then the same sum of
               * dden_i */
} scratch;

/* The gradient that all features of a query share. It comes through eps in the keys, and through eps in the divisor. */
static float phi_sum_gradient(const ll_head *j, const scratch *w, int i, const float *dn) {
    const ll_attention *op = j->op;
    const size_t E = (size_t)op->c.E;
    float d = op->c.den == LL_DEN_EPS_PHI ? op->c.den_eps * dn[E] : 0;
    if (w->V) {
        const float eps = op->c.feature_eps * j->map->root;
        d += eps * (j->k->dot(E, dn, w->V + (size_t)i * E) + dn[E] * w->count[i]);
    }
    return d;
}

/* A scan of n rows for some of the E + 1 rows of St or Ut, from row e on. The last of them has the features of the
 * divisor. */
static void scan_rows(const ll_head *j, int n, int e, ll_scan x, ll_prefetch *next) {
    const int divisor = j->map->divisor, rows = divisor ? ll_min_int(x.m, j->op->c.E - e) : x.m, last = x.m - rows;
    x.m = rows;
    if (rows || x.y) j->k->scan(n, &x, next);
    if (!last) return;
    x.m = 1, x.k += rows, x.q += rows, x.v += divisor, x.S += (size_t)rows * x.lds;
    if (x.y) x.y += divisor;
    if (x.sum) x.sum = x.S;
    j->k->scan(n, &x, NULL);
}

static void forward_tile(ll_head *j, scratch *w, ll_causal_state *st, int t0, int at, int n, ll_scales *f) {
    const ll_attention *op = j->op;
    const int m = j->map->features, E = op->c.E, eps = ll_causal_has_eps(op);
    float *phi_q = w->phi_q + (size_t)at * w->ld, *phi_k = w->phi_k + (size_t)at * w->ld;
    float *v = w->v + (size_t)at * w->ldv, *dn = w->dn + (size_t)at * w->ldv;
    int none[LL_TILE_MOST];
    float top[LL_TILE_MOST];
    ll_feature_tile q = ll_tile_at(j, LL_QUERY, t0, n, w->x, w->y, w->work);
    ll_features(&q, phi_q, none, NULL);
    ll_feature_tile k = ll_tile_at(j, LL_KEY, t0, n, w->x, w->y, w->work);
    ll_features(&k, phi_k, f->e, eps ? top : NULL);
    ll_scales_set(f, j, t0, n, st->exponent, st->log2_bound);
    ll_pack_values(j, t0, n, NULL, v, w->ldv);
    for (int i = 0; i < n; i++) v[(size_t)i * w->ldv + (size_t)E] = 1;
    ll_row_gradients(j, t0, n, dn, w->ldv);
    if (eps) ll_causal_rows(st, j, t0, f, top, v, w->ldv, w->kappa + at, w->V, w->count);
    float every[LL_TILE_MOST]; /* the gradient that all features of a row share */
    for (int i = 0; i < n; i++) {
        every[i] = phi_sum_gradient(j, w, i, dn + (size_t)i * w->ldv);
        if (!eps) continue;
        w->phi_sum[at + i] = j->k->sum((size_t)m, phi_q + (size_t)i * w->ld);
        j->k->scale((size_t)E + 1, w->kappa[at + i], dn + (size_t)i * w->ldv);
    }
    if (!f->plain) {
        j->k->scaled_rows(n, (size_t)E + 1, f->read, dn, w->ldv, dn, w->ldv);
        j->k->scaled_rows(n, (size_t)E + 1, f->add, v, w->ldv, v, w->ldv);
    }
    ll_prefetch next = {0};
    ll_prefetch_add(&next, j, &j->at.dq, t0, j->n, op->D);
    ll_prefetch_add(&next, j, &j->at.q, t0 + n, j->n, op->D);
    ll_prefetch_add(&next, j, &j->at.k, t0 + n, j->n, op->D);
    ll_prefetch_add(&next, j, &j->at.v, t0 + n, j->n, op->c.E);
    ll_prefetch_add(&next, j, &j->at.g, t0 + n, j->n, op->c.E);
    ll_prefetch_add(&next, j, &j->at.y, t0 + n, j->n, op->c.E);
    for (int i = 0, from = 0; i < f->runs; from = f->end[i++]) {
        const size_t row = (size_t)from * w->ldv, feature = (size_t)from * w->ld;
        const ll_scan scan = {E + 1, m, v + row, dn + row, phi_k + feature, w->dphi + feature, (ptrdiff_t)w->ldv,
                              (ptrdiff_t)w->ld, f->carry[i], f->after[i], w->St, NULL, w->ld};
        scan_rows(j, f->end[i] - from, 0, scan, i ? NULL : &next);
    }
    for (int i = 0; i < n; i++)
        for (int a = 0; a < m && every[i] != 0; a++) w->dphi[(size_t)i * w->ld + (size_t)a] += every[i];
    ll_gate_rows(j, LL_QUERY, t0, n, phi_q, w->dphi, every);
    q = ll_tile_at(j, LL_QUERY, t0, n, w->x, w->y, w->work);
    ll_features_back(&q, phi_q, w->dphi, ll_at(&j->at.dq, t0), j->at.dq.token, j->dtop[LL_QUERY]);
    st->exponent = f->next;
    st->log2_bound = f->log2_bound;
}

/* dv_j += mask_j W. W is the sum of r^(i-j) eps' Phi_i dnum_i over i >= j, and is summed from the last row down. dv
 * NULL: only W is computed. */
static void eps_values(const ll_head *j, const scratch *w, int t0, int at, int n, float *W, float *dv) {
    const size_t E = (size_t)j->op->c.E;
    const float eps = j->op->c.feature_eps * j->map->root;
    for (int i = n - 1; i >= 0; i--) {
        const float *g = ll_at(&j->at.g, t0 + i);
        if (j->dstate_in && j->op->c.den != LL_DEN_NONE)
            W[2 * E] -=
                eps * w->phi_sum[at + i] * ll_inverse(j->den[t0 + i]) * j->k->dot(E, g, ll_at(&j->at.y, t0 + i));
        ll_sum_keep(E, eps * w->phi_sum[at + i] * ll_inverse(j->den[t0 + i]), g, W, W + E);
        if (dv && (!j->mask || j->mask[t0 + i] != 0)) j->k->add(E, W, dv + (size_t)i * w->ldv);
        if (j->op->c.decay) j->k->scale(2 * E + 1, j->decay, W);
    }
}

/* Rows of values from e on, and columns of features from `column` on. */
typedef struct {
    int e, rows, column, cols;
} part;

/* Moves a part of Ut, which begins at `U`, past a run of rows, the last first. With dphi, the rows read it. */
static void move_back(const ll_head *j, const scratch *w, int late, float carry, size_t from, size_t to, part of,
                      float *U, float *dphi, ll_prefetch *next) {
    const size_t row = (to - 1) * w->ldv + (size_t)of.e, feature = (to - 1) * w->ld + (size_t)of.column;
    const ll_scan scan = {of.rows, of.cols, w->dn + row, w->v + row, w->phi_q + feature, dphi, -(ptrdiff_t)w->ldv,
                          -(ptrdiff_t)w->ld, carry, 1, U, late ? U : NULL, w->ld};
    scan_rows(j, (int)(to - from), of.e, scan, next);
}

static int one_scan(const ll_head *j) {
    return j->k->scan_gradients && j->op->c.E % LL_GRADIENT_COLUMNS == 0;
}

/* By what the first `cols` columns of Ut, rows from e on, and U are multiplied before a run: carry * after. If that is
 * too small for a float, carry multiplies them here, as in forward: where the divisor is tiny, U is huge. */
static float carry_before(const ll_head *j, float carry, float after, float *Ut, size_t ld, int e, int cols, float *U) {
    const float both = carry * after;
    if (both >= FLT_MIN || carry == 0 || after == 0) return both;
    for (int row = e; row <= j->op->c.E; row++) j->k->scale((size_t)cols, carry, Ut + (size_t)row * ld);
    if (U) j->k->scale((size_t)cols * (size_t)j->op->c.E, carry, U);
    return after;
}

static void reverse_tile(ll_head *j, scratch *w, int t0, int at, int n, const ll_scales *f) {
    const ll_attention *op = j->op;
    const int m = j->map->features, E = op->c.E, late = ll_causal_late(j, t0);
    float *phi_k = w->phi_k + (size_t)at * w->ld;
    ll_prefetch out = {0};
    ll_prefetch_add(&out, j, &j->at.dk, t0, j->n, op->D);
    ll_prefetch_add(&out, j, &j->at.dv, t0, j->n, op->c.E);
    for (int i = f->runs - 1; i >= 0; i--) {
        const int from = i ? f->end[i - 1] : 0, to = f->end[i], first = i == f->runs - 1;
        const size_t last = (size_t)(to - 1), row = (size_t)at + last;
        const int at_once = one_scan(j), begin = at_once ? E : 0;
        const float carry = carry_before(j, w->carry, f->after[i], w->Ut, w->ld, begin, m, w->U);
        ll_prefetch *next = first ? &out : NULL;
        move_back(j, w, late, carry, (size_t)(at + from), (size_t)(at + to), (part){begin, E + 1 - begin, 0, m},
                  w->Ut + (size_t)begin * w->ld, w->dphi + last * w->ld, at_once ? NULL : next);
        const ll_scan scan = {m, E, w->phi_q + row * w->ld, w->phi_k + row * w->ld, w->dn + row * w->ldv,
                              w->dv + last * w->ldv, -(ptrdiff_t)w->ld, -(ptrdiff_t)w->ldv, carry, 1, w->U,
                              late ? w->U : NULL, (size_t)E};
        if (at_once)
            j->k->scan_gradients(to - from, &scan, w->v + row * w->ldv, w->dphi + last * w->ld, next);
        else
            j->k->scan(to - from, &scan, NULL);
        w->carry = f->carry[i];
    }
    if (!f->plain) j->k->scaled_rows(n, (size_t)E, f->add, w->dv, w->ldv, w->dv, w->ldv);
    if (w->V) eps_values(j, w, t0, at, n, w->W, w->dv);
    j->k->scaled_rows(n, (size_t)E, NULL, w->dv, w->ldv, ll_at(&j->at.dv, t0), j->at.dv.token);
    ll_gate_rows(j, LL_KEY, t0, n, phi_k, w->dphi, NULL);
    ll_feature_tile k = ll_tile_at(j, LL_KEY, t0, n, w->x, w->y, w->work);
    ll_features_back(&k, phi_k, w->dphi, ll_at(&j->at.dk, t0), j->at.dk.token, j->dtop[LL_KEY]);
}

static void load_transposed(const ll_head *j, const scratch *w, const ll_causal_state *st) {
    const int m = j->map->features, E = j->op->c.E;
    j->k->transpose(m, E, st->S, (size_t)E, w->St, w->ld);
    memcpy(w->St + (size_t)E * w->ld, st->z, (size_t)m * sizeof *st->z);
}

static void take_all(const ll_head *j, scratch *w, ll_arena *pool) {
    const ll_attention *op = j->op;
    const size_t C = (size_t)j->tile, R = (size_t)j->chunk, E = (size_t)op->c.E, m = (size_t)j->map->features;
    w->ld = (size_t)j->map->ld;
    w->ldv = ll_value_distance(op->c.E);
    w->phi_q = ll_arena_take(pool, R * w->ld);
    w->phi_k = ll_arena_take(pool, R * w->ld);
    w->dn = ll_arena_take(pool, R * w->ldv);
    w->v = ll_arena_take(pool, R * w->ldv);
    w->work = ll_arena_take(pool, ll_feature_work(j->map, C, j->bf16));
    w->dphi = ll_arena_take(pool, C * w->ld);
    w->dv = ll_arena_take(pool, C * w->ldv);
    w->St = ll_arena_take(pool, (E + 1) * w->ld);
    w->Ut = ll_arena_take(pool, (E + 1) * w->ld);
    w->U = ll_arena_take(pool, m * E);
    w->W = ll_arena_take(pool, 2 * E + 1);
    w->f = ll_arena_bytes(pool, R / C, sizeof *w->f);
    if (!ll_causal_has_eps(op)) return;
    w->kappa = ll_arena_take(pool, R);
    w->phi_sum = ll_arena_take(pool, R);
    w->V = ll_arena_take(pool, C * E);
    w->count = ll_arena_take(pool, C);
}

static scratch begin(ll_head *j, ll_arena *pool) {
    scratch w = {.carry = 1};
    take_all(j, &w, pool);
    memset(w.St, 0, (size_t)(j->op->c.E + 1) * w.ld * sizeof *w.St);
    memset(w.Ut, 0, (size_t)(j->op->c.E + 1) * w.ld * sizeof *w.Ut);
    memset(w.W, 0, (2 * (size_t)j->op->c.E + 1) * sizeof *w.W);
    return w;
}

/* The tiles of chunk s. */
static int tiles_of(const ll_head *j, int s) {
    return (ll_min_int(j->n - s * j->chunk, j->chunk) + j->tile - 1) / j->tile;
}
static int rows_of(const ll_head *j, int s, int tile) {
    return ll_min_int(j->tile, j->n - s * j->chunk - tile * j->tile);
}

/* The forward scan of chunk s: dq, from the state that forward saved. */
static void walk_forward(ll_head *j, scratch *w, ll_causal_state *st, int s) {
    if (s || j->state_in) {
        ll_causal_state_load(j->op, st, s ? j->states + (size_t)s * ll_state_floats(j->op) : j->state_in);
    } else {
        ll_causal_state_clear(j->op, st);
    }
    load_transposed(j, w, st);
    for (int i = 0; i < tiles_of(j, s); i++)
        forward_tile(j, w, st, s * j->chunk + i * j->tile, i * j->tile, rows_of(j, s, i), &w->f[i]);
}

/* The backward scan of chunk s: dk and dv, from Ut of later chunks. */
static void walk_back(ll_head *j, scratch *w, int s) {
    j->k->transpose(j->op->c.E, j->map->features, w->Ut, w->ld, w->U, (size_t)j->op->c.E);
    for (int i = tiles_of(j, s) - 1; i >= 0; i--)
        reverse_tile(j, w, s * j->chunk + i * j->tile, i * j->tile, rows_of(j, s, i), &w->f[i]);
    if (one_scan(j))
        j->k->transpose(j->map->features, j->op->c.E, w->U, (size_t)j->op->c.E, w->Ut, w->ld);
}

/* Writes the gradient at the state that the call took, from U before the first row. */
static void give_gradient(const ll_head *j, float carry, float *Ut, size_t ld, const float *W) {
    if (j->dstate_in) j->k->scale((size_t)(j->op->c.E + 1) * ld, carry, Ut);
    ll_causal_gradient_give(j, Ut, W);
}

size_t ll_causal_backward_floats(const ll_head *j) {
    ll_arena pool = {0};
    scratch w;
    take_all(j, &w, &pool);
    (void)ll_causal_state_take(j->op, &pool);
    return pool.used;
}

void ll_causal_backward(ll_head *j) {
    ll_arena pool = j->pool;
    scratch w = begin(j, &pool);
    ll_causal_state st = ll_causal_state_take(j->op, &pool);
    const int chunks = (j->n + j->chunk - 1) / j->chunk;
    ll_causal_gradient_take(j, w.Ut, w.W);
    for (int s = chunks - 1; s >= 0; s--) {
        walk_forward(j, &w, &st, s);
        walk_back(j, &w, s);
    }
    if (chunks) {
        give_gradient(j, w.carry, w.Ut, w.ld, w.W);
    } else {
        ll_carried_gradient_passes(j);
    }
}

/* ---- Intra-head parallelism: one head on all threads ----
 *
 * As many chunks as there are threads make their forward scans side by side, each from its saved state. Then threads
 * share the columns of features, and accumulate U over all these chunks in order. So each chunk gets its U. Then the
 * chunks make their backward scans side by side. Only the accumulation of U is computed twice. */

enum { COLUMNS = 64 };

typedef struct {
    ll_head *j;
    scratch *w;          /* (threads) one for each chunk */
    ll_causal_state *st; /* (threads) */
    float *U, *W;     /* U (E + 1, ld) and W after the chunks */
    int first, count; /* the chunks that are computed now */
    float carry;      /* of the rows after them */
    int threads;
} walk;

static walk walk_of(ll_head *j, int threads, ll_arena *shared) {
    const size_t most = (size_t)threads, E = (size_t)j->op->c.E;
    walk w = {.j = j, .carry = 1, .threads = threads};
    w.w = ll_arena_bytes(shared, most, sizeof *w.w);
    w.st = ll_arena_bytes(shared, most, sizeof *w.st);
    w.U = ll_arena_take(shared, (E + 1) * (size_t)j->map->ld);
    w.W = ll_arena_take(shared, 2 * E + 1);
    return w;
}

size_t ll_intra_head_backward_floats(ll_head *j, int threads) {
    ll_arena shared = {0};
    (void)walk_of(j, threads, &shared);
    return shared.used;
}

static void forward_task(void *arg, size_t i, int worker) {
    const walk *w = arg;
    (void)worker;
    walk_forward(w->j, &w->w[i], &w->st[i], w->first + (int)i);
}

static void back_task(void *arg, size_t i, int worker) {
    const walk *w = arg;
    (void)worker;
    walk_back(w->j, &w->w[i], w->first + (int)i);
}

/* Moves some columns of U through chunk number i. Returns the carry of the chunk's first rows. */
static float accumulate_chunk(const walk *w, int i, int column, int cols, float carry) {
    const ll_head *j = w->j;
    const scratch *of = &w->w[i];
    const int E1 = j->op->c.E + 1, s = w->first + i;
    float *U = w->U + column;
    for (int e = 0; e < E1; e++)
        memcpy(of->Ut + (size_t)e * of->ld + column, U + (size_t)e * of->ld, (size_t)cols * sizeof *U);
    for (int t = tiles_of(j, s) - 1; t >= 0; t--) {
        const ll_scales *f = &of->f[t];
        const int at = t * j->tile, late = ll_causal_late(j, s * j->chunk + at);
        for (int r = f->runs - 1; r >= 0; r--) {
            const int from = at + (r ? f->end[r - 1] : 0), to = at + f->end[r];
            const float before = carry_before(j, carry, f->after[r], U, of->ld, 0, cols, NULL);
            move_back(j, of, late, before, (size_t)from, (size_t)to, (part){0, E1, column, cols}, U, NULL, NULL);
            carry = f->carry[r];
        }
    }
    return carry;
}

static void accumulate_eps(const walk *w, int i) {
    const ll_head *j = w->j;
    const int s = w->first + i;
    memcpy(w->w[i].W, w->W, (2 * (size_t)j->op->c.E + 1) * sizeof *w->W);
    for (int t = tiles_of(j, s) - 1; t >= 0; t--)
        eps_values(j, &w->w[i], s * j->chunk + t * j->tile, t * j->tile, rows_of(j, s, t), w->W, NULL);
}

static void accumulate_task(void *arg, size_t i, int worker) {
    const walk *w = arg;
    const int column = (int)i * COLUMNS, cols = ll_min_int(COLUMNS, w->j->map->features - column);
    float carry = w->carry;
    (void)worker;
    for (int s = w->count - 1; s >= 0; s--) {
        if (cols > 0) carry = accumulate_chunk(w, s, column, cols, carry);
        if (cols <= 0) accumulate_eps(w, s);
    }
}

static void group_of_chunks(walk *w) {
    const int pieces = (w->j->map->features + COLUMNS - 1) / COLUMNS, eps = ll_causal_has_eps(w->j->op);
    ll_parallel_among(w->threads, (size_t)w->count, forward_task, w);
    ll_parallel_among(w->threads, (size_t)(pieces + eps), accumulate_task, w);
    for (int i = w->count - 1; i >= 0; i--) {
        w->w[i].carry = w->carry;
        w->carry = w->w[i].f->carry[0];
    }
    ll_parallel_among(w->threads, (size_t)w->count, back_task, w);
}

void ll_intra_head_backward(ll_head *j, int threads, float *shared, float *pool, size_t floats) {
    const size_t E = (size_t)j->op->c.E, ld = (size_t)j->map->ld;
    ll_arena a = {.base = shared};
    walk w = walk_of(j, threads, &a);
    for (size_t i = 0; i < (size_t)threads; i++) {
        ll_arena own = {.base = pool + i * floats};
        w.w[i] = begin(j, &own);
        w.st[i] = ll_causal_state_take(j->op, &own);
    }
    memset(w.U, 0, (E + 1) * ld * sizeof *w.U);
    memset(w.W, 0, (2 * E + 1) * sizeof *w.W);
    ll_causal_gradient_take(j, w.U, w.W);
    for (int end = (j->n + j->chunk - 1) / j->chunk; end > 0; end = w.first) {
        w.first = end > threads ? end - threads : 0;
        w.count = end - w.first;
        group_of_chunks(&w);
    }
    give_gradient(j, w.carry, w.U, ld, w.W);
}
