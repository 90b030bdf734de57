/* Causal linear attention, backward. Chunks are computed from the last to the first. Each starts from the state that
 * forward saved at its beginning. Two scans go over the tiles of a chunk. The forward scan computes dq, and the part of
 * dk and dv that comes from the tile itself. The backward scan computes the rest of dk and dv from the reverse state
 *
 *   U = sum over later rows i of r^i 2^(-P_i) phi_i [dnum_i, dden_i]^T
 *
 * Both states are transposed, with the normaliser as one more row (E + 1 x features), so that all products read rows.
 * Features are computed once, and stay in cache for the chunk. */
#include <math.h>
#include <string.h>

#include "attention/linear/causal.h"
#include "base/parallel.h"

typedef struct {
    float *phi_q, *phi_k; /* (chunk, ld) */
    float *D;             /* (chunk, lda): gradients of the weights within tiles, times the weights' factors */
    float *dn, *v;        /* (chunk, ldv): [dnum, dden], [v, 1] */
    float *kt, *work, *dphi, *vt, *tmp, *dvt, *St, *Ut, *kappa, *V, *count, *phi_sum;
    ll_scales *f; /* of each tile */
    int64_t x[LL_TILE_MOST], y[LL_TILE_MOST];
    size_t ld, lda, ldv;
    int next; /* P of the first row after the current tile */
    float *W; /* (2, E): sum over later rows of r^i eps' Phi_i dnum_i, and its rounding error; then the same sum of
               * dden_i */
} scratch;

static int least(int a, int b) { return a < b ? a : b; }
static float power2(int n) { return n < -148 ? 0 : ldexpf(1, n); }

/* [dnum_i, dden_i] of rows t0..: g/den and -(g.y)/den, in units of the features' part. */
static void row_gradients(const ll_head *j, const scratch *w, int t0, int n, float *dn) {
    const size_t E = (size_t)j->op->c.E;
    for (int i = 0; i < n; i++, dn += w->ldv) {
        const float *g = ll_at(&j->at.g, t0 + i), *y = ll_at(&j->at.y, t0 + i);
        const float inverse = ll_inverse(j->den[t0 + i]);
        j->k->scaled(E, inverse, g, dn);
        dn[E] = j->op->c.den == LL_DEN_NONE ? 0 : -j->k->dot(E, g, y) * inverse;
    }
}

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

/* D = dL/d<phi_i, phi_j> within the tile, with the factors that the weights have. */
static void products_within(const ll_head *j, scratch *w, int at, int n, const ll_scales *f) {
    const int E1 = j->op->c.E + 1;
    const float *v = w->v + (size_t)at * w->ldv, *dn = w->dn + (size_t)at * w->ldv;
    j->k->transpose(n, E1, v, w->ldv, w->vt, w->lda);
    for (int i = 0; i < n; i += LL_BLOCK) {
        const int rows = least(LL_BLOCK, n - i), width = i + rows;
        float *D = w->D + (size_t)(at + i) * w->lda;
        j->k->gemm(rows, width, E1, dn + (size_t)i * w->ldv, w->ldv, 1, w->vt, w->lda, D, w->lda, 0);
        for (int a = 0; a < rows; a++) ll_scales_apply(f, j, i + a, width, D + (size_t)a * w->lda);
    }
}

/* Rows of in (n x cols), each times its factor: in `out`; where all factors are 1, `in` itself. */
static const float *scaled_rows(const ll_head *j, const ll_scales *f, const float *in, const float *factor, int n,
                                int cols, size_t ld, float *out) {
    if (f->plain) return in;
    for (int i = 0; i < n; i++) j->k->scaled((size_t)cols, factor[i], in + (size_t)i * ld, out + (size_t)i * ld);
    return out;
}

/* state (E+1 x m) = carry state + rows^T phi. */
static void accumulate(const ll_head *j, const scratch *w, float carry, const float *rows, const float *phi, int n,
                       float *state, ll_prefetch *next) {
    const int E1 = j->op->c.E + 1, m = j->map->features;
    if (carry != 1) j->k->scale((size_t)E1 * w->ld, carry, state);
    j->k->gemm_prefetch(E1, m, n, rows, 1, w->ldv, phi, w->ld, state, w->ld, 1, next);
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
    ll_scales_set(f, j, t0, n, st->exponent, st->reach);
    ll_pack_values(j, &j->at.v, t0, n, v, w->ldv);
    for (int i = 0; i < n; i++) v[(size_t)i * w->ldv + (size_t)E] = 1;
    row_gradients(j, w, t0, n, dn);
    if (eps) ll_causal_rows(st, j, t0, f, top, v, w->ldv, w->kappa + at, w->V, w->count);
    float every[LL_TILE_MOST]; /* the gradient that all features of a row share */
    for (int i = 0; i < n; i++) {
        every[i] = phi_sum_gradient(j, w, i, dn + (size_t)i * w->ldv);
        if (!eps) continue;
        w->phi_sum[at + i] = j->k->sum((size_t)m, phi_q + (size_t)i * w->ld);
        j->k->scale((size_t)E + 1, w->kappa[at + i], dn + (size_t)i * w->ldv);
    }
    ll_prefetch next = {0};
    ll_prefetch_add(&next, j, &j->at.dq, t0, j->n, op->D);
    ll_prefetch_add(&next, j, &j->at.v, t0 + n, j->n, op->c.E);
    const float *rows = scaled_rows(j, f, dn, f->state, n, E + 1, w->ldv, w->tmp);
    j->k->gemm_prefetch(n, m, E + 1, rows, w->ldv, 1, w->St, w->ld, w->dphi, w->ld, 0, &next);
    for (int i = 0; i < n; i++)
        for (int a = 0; a < m && every[i] != 0; a++) w->dphi[(size_t)i * w->ld + (size_t)a] += every[i];
    products_within(j, w, at, n, f);
    for (int i = 0; i < n; i += LL_BLOCK) {
        const int block = least(LL_BLOCK, n - i);
        j->k->gemm(block, m, i + block, w->D + (size_t)(at + i) * w->lda, w->lda, 1, phi_k, w->ld,
                   w->dphi + (size_t)i * w->ld, w->ld, 1);
    }
    ll_gate_rows(j, LL_QUERY, t0, n, phi_q, w->dphi, every);
    q = ll_tile_at(j, LL_QUERY, t0, n, w->x, w->y, w->work);
    ll_features_back(&q, phi_q, w->dphi, ll_at(&j->at.dq, t0), j->at.dq.token, j->dtop[LL_QUERY]);
    rows = scaled_rows(j, f, v, f->add, n, E + 1, w->ldv, w->tmp);
    ll_prefetch later = {0};
    ll_prefetch_add(&later, j, &j->at.q, t0 + n, j->n, op->D);
    ll_prefetch_add(&later, j, &j->at.k, t0 + n, j->n, op->D);
    ll_prefetch_add(&later, j, &j->at.g, t0 + n, j->n, op->c.E);
    ll_prefetch_add(&later, j, &j->at.y, t0 + n, j->n, op->c.E);
    accumulate(j, w, f->carry, rows, phi_k, n, w->St, &later);
    st->exponent = f->next;
    st->reach = f->reach;
}

/* dv_j += mask_j W. W is the sum of r^(i-j) eps' Phi_i dnum_i over i >= j, and is summed from the last row down. dv
 * NULL: only W is computed. */
static void eps_values(const ll_head *j, const scratch *w, int t0, int at, int n, float *W, float *dv) {
    const size_t E = (size_t)j->op->c.E;
    const float eps = j->op->c.feature_eps * j->map->root;
    for (int i = n - 1; i >= 0; i--) {
        const float *g = ll_at(&j->at.g, t0 + i);
        if (j->op->c.decay) j->k->scale(2 * E + 1, j->power[1], W);
        if (j->dstate_in && j->op->c.den != LL_DEN_NONE)
            W[2 * E] -=
                eps * w->phi_sum[at + i] * ll_inverse(j->den[t0 + i]) * j->k->dot(E, g, ll_at(&j->at.y, t0 + i));
        ll_sum_keep(E, eps * w->phi_sum[at + i] * ll_inverse(j->den[t0 + i]), g, W, W + E);
        if (dv && (!j->mask || j->mask[t0 + i] != 0)) j->k->add(E, W, dv + (size_t)i * w->ldv);
    }
}

/* first: the weight of row i of a tile in U, as the tiles before it read U. Returns the weight of the U of later tiles.
 * next: P of the first row after the tile. */
static float accumulate_factors(const ll_head *j, const ll_scales *f, int next, float *first) {
    const int running = j->map->phi[LL_KEY] == LL_PHI_RUNNING || j->mask, n = f->n;
    for (int i = 0; i < n; i++)
        first[i] = f->P[0] == LL_NO_EXPONENT ? 0 : ll_scales_first(f, j, i) * (running ? power2(f->P[0] - f->P[i]) : 1);
    if (f->P[0] == LL_NO_EXPONENT) return 0;
    const float carry = ll_scales_first(f, j, n);
    return next == LL_NO_EXPONENT || !running ? carry : ldexpf(carry, f->P[0] - next);
}

static void reverse_tile(ll_head *j, scratch *w, int t0, int at, int n, const ll_scales *f) {
    const ll_attention *op = j->op;
    const int m = j->map->features, E = op->c.E;
    float *phi_q = w->phi_q + (size_t)at * w->ld, *phi_k = w->phi_k + (size_t)at * w->ld;
    float *v = w->v + (size_t)at * w->ldv, *dn = w->dn + (size_t)at * w->ldv, *dv = w->tmp;
    const size_t tile = (size_t)j->tile;
    const float *A = j->within + (size_t)t0 * tile;
    float later[LL_TILE_MOST], first[LL_TILE_MOST];
    const int running = j->map->phi[LL_KEY] == LL_PHI_RUNNING || j->mask;
    for (int i = 0; i < n; i++) { /* the weight of later tiles for key i */
        const int kept = !f->mask || f->mask[i] != 0;
        const int up = running ? f->e[i] - w->next : 0;
        later[i] = !kept || w->next == LL_NO_EXPONENT ? 0 : ldexpf(ll_scales_later(f, j, i), up);
    }
    ll_prefetch out = {0};
    ll_prefetch_add(&out, j, &j->at.dk, t0, j->n, op->D);
    ll_prefetch_add(&out, j, &j->at.dv, t0, j->n, op->c.E);
    const float *rows = scaled_rows(j, f, v, later, n, E + 1, w->ldv, dv);
    j->k->gemm_prefetch(n, m, E + 1, rows, w->ldv, 1, w->Ut, w->ld, w->dphi, w->ld, 0, &out);
    j->k->transpose(n, m, phi_k, w->ld, w->kt, w->lda);
    j->k->gemm(E, n, m, w->Ut, w->ld, 1, w->kt, w->lda, w->dvt, w->lda, 0);
    j->k->transpose(E, n, w->dvt, w->lda, dv, w->ldv);
    for (int i = 0; i < n && !f->plain; i++) j->k->scale((size_t)E, later[i], dv + (size_t)i * w->ldv);
    for (int i = 0; i < n; i += LL_BLOCK) {
        const int cols = least(LL_BLOCK, n - i);
        const size_t corner = (size_t)(at + i) * w->lda + (size_t)i;
        j->k->gemm(cols, m, n - i, w->D + corner, 1, w->lda, phi_q + (size_t)i * w->ld, w->ld,
                   w->dphi + (size_t)i * w->ld, w->ld, 1);
        j->k->gemm(cols, E, n - i, A + (size_t)i * (tile + 1), 1, tile, dn + (size_t)i * w->ldv, w->ldv,
                   dv + (size_t)i * w->ldv, w->ldv, 1);
    }
    if (w->V) eps_values(j, w, t0, at, n, w->W, dv);
    for (int i = 0; i < n; i++) memcpy(ll_at(&j->at.dv, t0 + i), dv + (size_t)i * w->ldv, (size_t)E * sizeof *dv);
    ll_gate_rows(j, LL_KEY, t0, n, phi_k, w->dphi, NULL);
    ll_feature_tile k = ll_tile_at(j, LL_KEY, t0, n, w->x, w->y, w->work);
    ll_features_back(&k, phi_k, w->dphi, ll_at(&j->at.dk, t0), j->at.dk.token, j->dtop[LL_KEY]);
    const float carry = accumulate_factors(j, f, w->next, first);
    rows = scaled_rows(j, f, dn, first, n, E + 1, w->ldv, w->tmp);
    accumulate(j, w, carry, rows, phi_q, n, w->Ut, NULL);
    w->next = f->P[0];
}

static void load_transposed(const ll_head *j, const scratch *w, const ll_causal_state *st) {
    const int m = j->map->features, E = j->op->c.E;
    j->k->transpose(m, E, st->S, (size_t)E, w->St, w->ld);
    memcpy(w->St + (size_t)E * w->ld, st->z, (size_t)m * sizeof *st->z);
}

static void take_all(ll_head *j, scratch *w, float **pool) {
    const ll_attention *op = j->op;
    const size_t C = (size_t)j->tile, R = (size_t)j->chunk, E = (size_t)op->c.E, m = (size_t)j->map->features;
    w->ld = (size_t)j->map->ld;
    w->lda = C + 16;
    w->ldv = (E + 16) / 16 * 16 + 16;
    w->phi_q = ll_take(pool, R * w->ld);
    w->phi_k = ll_take(pool, R * w->ld);
    w->D = ll_take(pool, R * w->lda);
    w->dn = ll_take(pool, R * w->ldv);
    w->v = ll_take(pool, R * w->ldv);
    w->kt = ll_take(pool, m * w->lda);
    w->work = ll_take(pool, C * w->ld);
    w->dphi = ll_take(pool, C * w->ld);
    w->vt = ll_take(pool, (E + 1) * w->lda);
    w->tmp = ll_take(pool, C * w->ldv);
    w->dvt = ll_take(pool, E * w->lda);
    w->St = ll_take(pool, (E + 1) * w->ld);
    w->Ut = ll_take(pool, (E + 1) * w->ld);
    w->W = ll_take(pool, 2 * E + 1);
    w->f = (ll_scales *)(void *)ll_take(pool, (R / C) * sizeof(ll_scales) / sizeof(float) + 16);
    if (!ll_causal_has_eps(op)) return;
    w->kappa = ll_take(pool, R);
    w->phi_sum = ll_take(pool, R);
    w->V = ll_take(pool, C * E);
    w->count = ll_take(pool, C);
}

static scratch begin(ll_head *j, float **pool) {
    scratch w = {.next = LL_NO_EXPONENT};
    take_all(j, &w, pool);
    memset(w.St, 0, (size_t)(j->op->c.E + 1) * w.ld * sizeof *w.St);
    memset(w.Ut, 0, (size_t)(j->op->c.E + 1) * w.ld * sizeof *w.Ut);
    memset(w.W, 0, (2 * (size_t)j->op->c.E + 1) * sizeof *w.W);
    return w;
}

/* The tiles of chunk s. */
static int tiles_of(const ll_head *j, int s) {
    return (least(j->n - s * j->chunk, j->chunk) + j->tile - 1) / j->tile;
}
static int rows_of(const ll_head *j, int s, int tile) { return least(j->tile, j->n - s * j->chunk - tile * j->tile); }

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

/* The backward scan of chunk s: dk and dv, from U of later chunks. */
static void walk_back(ll_head *j, scratch *w, int s) {
    for (int i = tiles_of(j, s) - 1; i >= 0; i--)
        reverse_tile(j, w, s * j->chunk + i * j->tile, i * j->tile, rows_of(j, s, i), &w->f[i]);
}

void ll_causal_backward(ll_head *j) {
    float *pool = j->pool;
    scratch w = begin(j, &pool);
    ll_causal_state st = ll_causal_state_take(j->op, &pool);
    const int chunks = (j->n + j->chunk - 1) / j->chunk;
    for (int s = chunks - 1; s >= 0; s--) {
        walk_forward(j, &w, &st, s);
        if (s == chunks - 1) ll_causal_gradient_take(j, st.exponent, w.Ut, w.W, &w.next);
        walk_back(j, &w, s);
    }
    if (chunks) {
        ll_causal_gradient_give(j, w.Ut, w.W, w.next);
    } else {
        ll_carried_gradient_passes(j);
    }
}

/* ---- Intra-head parallelism: one head on all threads ----
 *
 * As many chunks as there are threads make their forward scans side by side, each from its saved state. Then threads
 * share the columns of features, and accumulate U over all these chunks in order. So each chunk gets its U. Then the
 * chunks make their backward scans side by side. Only the accumulation of U is computed twice. */

enum { COLUMNS = 64, LINE = 16 };

typedef struct {
    ll_head *j;
    scratch *w;          /* (threads) one for each chunk */
    ll_causal_state *st; /* (threads) */
    float *U, *W, *rows; /* U and W after the chunks; rows: (threads, tile, ldv) */
    int first, count;    /* the chunks that are computed now */
    int next;            /* P of the first row after them */
    int threads;
} walk;

size_t ll_intra_head_backward_floats(const ll_attention *op, int tile, int chunk, int threads) {
    const size_t E = (size_t)op->c.E, ldv = (E + 16) / 16 * 16 + 16, n = (size_t)threads;
    (void)chunk;
    return (E + 1) * (size_t)ll_linear_map(op)->ld + 2 * E + 1 + n * (size_t)tile * ldv + 5 * LINE +
           n * (sizeof(scratch) + sizeof(ll_causal_state)) / sizeof(float) + 2 * LINE;
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

/* Moves some columns of U through chunk number i. */
static void accumulate_chunk(const walk *w, int i, int column, int cols, float *tmp, int *next) {
    const ll_head *j = w->j;
    const scratch *of = &w->w[i];
    const int E1 = j->op->c.E + 1;
    float *U = w->U + column, first[LL_TILE_MOST];
    for (int e = 0; e < E1; e++)
        memcpy(of->Ut + (size_t)e * of->ld + column, U + (size_t)e * of->ld, (size_t)cols * sizeof *U);
    for (int t = tiles_of(j, w->first + i) - 1; t >= 0; t--) {
        const ll_scales *f = &of->f[t];
        const size_t at = (size_t)(t * j->tile);
        const float carry = accumulate_factors(j, f, *next, first);
        const float *rows = scaled_rows(j, f, of->dn + at * of->ldv, first, f->n, E1, of->ldv, tmp);
        for (int e = 0; e < E1 && carry != 1; e++) j->k->scale((size_t)cols, carry, U + (size_t)e * of->ld);
        j->k->gemm(E1, cols, f->n, rows, 1, of->ldv, of->phi_q + at * of->ld + column, of->ld, U, of->ld, 1);
        *next = f->P[0];
    }
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
    const int column = (int)i * COLUMNS, cols = least(COLUMNS, w->j->map->features - column);
    float *tmp = w->rows + (size_t)worker * (size_t)w->j->tile * w->w->ldv;
    int next = w->next;
    for (int s = w->count - 1; s >= 0; s--) {
        if (cols > 0) accumulate_chunk(w, s, column, cols, tmp, &next);
        if (cols <= 0) accumulate_eps(w, s);
    }
}

static void group_of_chunks(walk *w, int last) {
    const int pieces = (w->j->map->features + COLUMNS - 1) / COLUMNS, eps = ll_causal_has_eps(w->j->op);
    ll_parallel_among(w->threads, (size_t)w->count, forward_task, w);
    if (last) ll_causal_gradient_take(w->j, w->st[w->count - 1].exponent, w->U, w->W, &w->next);
    ll_parallel_among(w->threads, (size_t)(pieces + eps), accumulate_task, w);
    for (int i = w->count - 1; i >= 0; i--) {
        w->w[i].next = w->next;
        w->next = w->w[i].f->P[0];
    }
    ll_parallel_among(w->threads, (size_t)w->count, back_task, w);
}

void ll_intra_head_backward(ll_head *j, int threads, float *shared, float *pool, size_t floats) {
    const size_t most = (size_t)threads, E = (size_t)j->op->c.E, ld = (size_t)j->map->ld;
    walk w = {.j = j, .next = LL_NO_EXPONENT, .threads = threads};
    w.w = (scratch *)(void *)ll_take(&shared, most * sizeof *w.w / sizeof(float) + 1);
    w.st = (ll_causal_state *)(void *)ll_take(&shared, most * sizeof *w.st / sizeof(float) + 1);
    w.U = ll_take(&shared, (E + 1) * ld);
    w.W = ll_take(&shared, 2 * E + 1);
    for (size_t i = 0; i < most; i++) {
        float *own = pool + i * floats;
        w.w[i] = begin(j, &own);
        w.st[i] = ll_causal_state_take(j->op, &own);
    }
    w.rows = ll_take(&shared, most * (size_t)j->tile * w.w->ldv);
    memset(w.U, 0, (E + 1) * ld * sizeof *w.U);
    memset(w.W, 0, (2 * E + 1) * sizeof *w.W);
    for (int end = (j->n + j->chunk - 1) / j->chunk; end > 0; end = w.first) {
        w.first = end > threads ? end - threads : 0;
        w.count = end - w.first;
        group_of_chunks(&w, end * j->chunk >= j->n);
    }
    ll_causal_gradient_give(j, w.U, w.W, w.next);
}
