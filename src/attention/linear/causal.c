/* Causal linear attention, forward. A scan moves the state S = sum phi(k) v^T, z = sum phi(k) past one token after the
 * other, and each query reads it. So it makes no more products than the equations have. It goes tile by tile, so that a
 * part of the state stays in registers for the tokens of a tile (kernel/body_scan.h).
 *
 *   S_i = S_(i-1) + add_i phi(k_i) v_i^T     num_i = read_i phi(q_i) S_i     den_i likewise with z and 1
 *   y_i = num_i / den_i
 *
 * tile_scales.c has the factors, and those by which S is multiplied between runs of tokens.
 *
 * In a long sequence a token is small beside the sum of all earlier tokens. Its small features would be lost in
 * rounding, always to the same side. The error is 1e-3 of y at a million tokens. So from token LATE on, each tile is
 * summed apart, each LL_SUM_CHUNK tokens are summed on their own, and S is the state before these tokens plus their
 * sum. A state that decays does not grow, so it is summed directly.
 *
 * Softmax features with an eps under a running maximum c_i (PREFIX) have two parts: the exponential part in units of
 * 2^P_i, and eps. Then num_i = kappa_i num'_i + eps' Phi_i V_i, with kappa_i = 2^P_i e^(-c_i) / sqrt(M), Phi_i = sum
 * phi(q_i), V_i = sum_{j <= i} r^(i-j) v_j. */
#include <math.h>
#include <string.h>

#include "attention/linear/causal.h"
#include "base/integer.h"

enum { LATE = 8192 };

/* ---- The state between tiles ---- */

ll_causal_state ll_causal_state_take(const ll_attention *op, ll_arena *pool) {
    const size_t m = (size_t)ll_linear_map(op)->features, E = (size_t)op->c.E;
    ll_causal_state s = {.S = ll_arena_take(pool, m * E), .z = ll_arena_take(pool, m), .V = ll_arena_take(pool, E)};
    s.low_V = ll_arena_take(pool, E);
    s.old_S = ll_arena_take(pool, m * E), s.old_z = ll_arena_take(pool, m);
    s.new_S = ll_arena_take(pool, m * E), s.new_z = ll_arena_take(pool, m);
    return s;
}

void ll_causal_state_clear(const ll_attention *op, ll_causal_state *s) {
    const size_t m = (size_t)ll_linear_map(op)->features, E = (size_t)op->c.E;
    memset(s->S, 0, m * E * sizeof *s->S);
    memset(s->z, 0, m * sizeof *s->z);
    memset(s->V, 0, E * sizeof *s->V);
    memset(s->low_V, 0, E * sizeof *s->low_V);
    s->exponent = LL_NO_EXPONENT;
    s->log2_bound = -INFINITY;
    s->top = -INFINITY;
    s->count = s->low_count = 0;
}

static void save_state(const ll_attention *op, const ll_causal_state *s, float *to) {
    const size_t m = (size_t)ll_linear_map(op)->features, E = (size_t)op->c.E;
    memcpy(to, s->S, m * E * sizeof *to);
    memcpy(to + m * E, s->z, m * sizeof *to);
    memcpy(to + m * E + m, s->V, E * sizeof *to);
    to += m * E + m + E;
    to[LL_SAVED_EXPONENT] = (float)s->exponent; /* exact: a power of two, or small */
    to[LL_SAVED_TOP] = s->top;
    to[LL_SAVED_COUNT] = s->count;
    to[LL_SAVED_BOUND] = s->log2_bound;
    if (!ll_causal_has_eps(op)) return;
    to[LL_SAVED_LOW_COUNT] = s->low_count;
    memcpy(to + LL_SAVED_LOW_V, s->low_V, E * sizeof *to);
}

void ll_causal_state_load(const ll_attention *op, ll_causal_state *s, const float *from) {
    const size_t m = (size_t)ll_linear_map(op)->features, E = (size_t)op->c.E;
    memcpy(s->S, from, m * E * sizeof *from);
    memcpy(s->z, from + m * E, m * sizeof *from);
    memcpy(s->V, from + m * E + m, E * sizeof *from);
    from += m * E + m + E;
    s->exponent = (int)from[LL_SAVED_EXPONENT];
    s->top = from[LL_SAVED_TOP];
    s->count = from[LL_SAVED_COUNT];
    s->log2_bound = from[LL_SAVED_BOUND];
    if (!ll_causal_has_eps(op)) return;
    s->low_count = from[LL_SAVED_LOW_COUNT];
    memcpy(s->low_V, from + LL_SAVED_LOW_V, E * sizeof *from);
}

void ll_causal_state_save_empty(const ll_attention *op, float *to) {
    const size_t m = (size_t)ll_linear_map(op)->features, E = (size_t)op->c.E;
    to += m * E + m + E;
    to[LL_SAVED_EXPONENT] = (float)LL_NO_EXPONENT;
    to[LL_SAVED_TOP] = to[LL_SAVED_BOUND] = -INFINITY;
}

void ll_causal_begin(ll_head *j, ll_causal_state *s) {
    j->keys = j->state_in ? ll_carried_keys(j->op, j->state_in) : 0;
    if (j->state_in) {
        ll_causal_state_load(j->op, s, j->state_in);
    } else {
        ll_causal_state_clear(j->op, s);
    }
}

void ll_causal_end(const ll_head *j, const ll_causal_state *s) {
    if (!j->state_out) return;
    save_state(j->op, s, j->state_out);
    ll_carried_set_keys(j->op, j->state_out, j->keys);
}

/* ---- Rows ---- */

void ll_sum_keep(size_t n, float factor, const float *x, float *sum, float *low) {
    for (size_t i = 0; i < n; i++) {
        const float add = factor * x[i] - low[i], now = sum[i] + add;
        low[i] = now - sum[i] - add;
        sum[i] = now;
    }
}

void ll_causal_rows(ll_causal_state *s, const ll_head *j, int t0, const ll_scales *f, const float *top, const float *v,
                    size_t ldv, float *kappa, float *V, float *count) {
    const ll_attention *op = j->op;
    const size_t E = (size_t)op->c.E;
    const float root = j->map->root;
    const float one = 1;
    for (int i = 0; i < f->n; i++) {
        if (j->op->c.decay) {
            j->k->scale(E, j->decay, s->V);
            j->k->scale(E, j->decay, s->low_V);
            s->count *= j->decay, s->low_count *= j->decay;
        }
        if (!j->mask || j->mask[t0 + i] != 0) {
            if (top[i] > s->top) s->top = top[i];
            ll_sum_keep(E, 1, v + (size_t)i * ldv, s->V, s->low_V);
            ll_sum_keep(1, 1, &one, &s->count, &s->low_count);
        }
        kappa[i] = s->top > -INFINITY ? root * expf((float)f->P[i] * 0.693147181f - s->top) : 0;
        count[i] = s->count;
        memcpy(V + (size_t)i * E, s->V, E * sizeof *V);
    }
}

/* Adds to the sums of row i of the tile what eps in its keys adds. phi: the sum of its query's features. */
static void add_eps(const ll_head *j, const ll_causal_tile *w, int i, float phi) {
    const size_t E = (size_t)j->op->c.E;
    const float eps = j->op->c.feature_eps * j->map->root;
    float *num = w->num + (size_t)i * w->ldv;
    w->s[i] = w->kappa[i] * w->s[i] + eps * phi * w->count[i];
    j->k->scale(E, w->kappa[i], num);
    j->k->axpy(E, eps * phi, w->V + (size_t)i * E, num);
}

/* ---- A tile ---- */

ll_causal_tile ll_causal_tile_take(const ll_head *j, ll_arena *pool) {
    const size_t C = (size_t)j->tile, ld = (size_t)j->map->ld, E = (size_t)j->op->c.E;
    ll_causal_tile w = {.ldv = ll_value_distance(j->op->c.E)};
    w.phi_q = ll_arena_take(pool, C * ld);
    w.phi_k = ll_arena_take(pool, C * ld);
    w.num = ll_arena_take(pool, C * w.ldv);
    w.v = ll_arena_take(pool, C * w.ldv);
    w.added = ll_arena_take(pool, C * w.ldv);
    w.V = ll_arena_take(pool, C * E);
    w.s = ll_arena_take(pool, C);
    w.kappa = ll_arena_take(pool, C);
    w.count = ll_arena_take(pool, C);
    return w;
}

ll_causal_buffers ll_causal_buffers_take(const ll_head *j, ll_arena *pool) {
    return (ll_causal_buffers){.work = ll_arena_take(pool, ll_feature_work(j->map, (size_t)j->tile, j->bf16))};
}

void ll_causal_tile_features(const ll_head *j, ll_causal_buffers *buffers, ll_causal_tile *w) {
    int none[LL_TILE_MOST];
    ll_feature_tile q = ll_tile_at(j, LL_QUERY, w->t0, w->n, buffers->x, buffers->y, buffers->work);
    ll_features(&q, w->phi_q, none, NULL);
    ll_feature_tile k = ll_tile_at(j, LL_KEY, w->t0, w->n, buffers->x, buffers->y, buffers->work);
    ll_features(&k, w->phi_k, w->f.e, ll_causal_has_eps(j->op) ? w->top : NULL);
    ll_pack_values(j, w->t0, w->n, NULL, w->v, w->ldv);
}

void ll_causal_tile_scales(ll_head *j, ll_causal_state *st, ll_causal_tile *w) {
    const size_t E = (size_t)j->op->c.E;
    ll_scales_set(&w->f, j, w->t0, w->n, st->exponent, st->log2_bound);
    if (ll_causal_has_eps(j->op)) ll_causal_rows(st, j, w->t0, &w->f, w->top, w->v, w->ldv, w->kappa, w->V, w->count);
    if (!w->f.plain) j->k->scaled_rows(w->n, E, w->f.add, w->v, w->ldv, w->added, w->ldv);
    w->keys = j->keys;
    j->keys += ll_kept_keys(j, w->t0, w->t0 + w->n);
    st->exponent = w->f.next;
    st->log2_bound = w->f.log2_bound;
}

int ll_causal_late(const ll_head *j, int t0) {
    return j->first[LL_KEY] + t0 >= LATE && !j->op->c.decay && !j->at.gate.data;
}

/* Columns of S, or z, with rows ld apart. Late in a sequence `all` is the sum of `old` and `new`. */
typedef struct {
    const ll_kernels *k;
    int rows, cols;
    size_t ld;
    float *all, *old, *new;
    int first; /* the first of these columns */
} part;

/* Before a late tile. begins: of a chunk. */
static void part_open(const part *p, int begins) {
    for (int a = 0; a < p->rows && begins; a++) {
        memcpy(p->old + (size_t)a * p->ld, p->all + (size_t)a * p->ld, (size_t)p->cols * sizeof *p->old);
        memset(p->new + (size_t)a * p->ld, 0, (size_t)p->cols * sizeof *p->new);
    }
}

static void part_carry(const part *p, float carry) {
    for (int a = 0; a < p->rows && carry != 1; a++) {
        p->k->scale((size_t)p->cols, carry, p->all + (size_t)a * p->ld);
        p->k->scale((size_t)p->cols, carry, p->old + (size_t)a * p->ld);
        p->k->scale((size_t)p->cols, carry, p->new + (size_t)a * p->ld);
    }
}

static void part_close(const part *p) {
    for (int a = 0; a < p->rows; a++) {
        float *all = p->all + (size_t)a * p->ld;
        memcpy(all, p->old + (size_t)a * p->ld, (size_t)p->cols * sizeof *all);
        p->k->add((size_t)p->cols, p->new + (size_t)a * p->ld, all);
    }
}

/* Adds the keys of a run of rows to the state, which their queries read. */
static void scan_run(const ll_head *j, ll_causal_tile *w, int run, const part *S, const part *z, int late,
                     ll_prefetch *next) {
    const int from = run ? w->f.end[run - 1] : 0, to = w->f.end[run];
    const float carry = w->f.carry[run], after = w->f.after[run];
    const size_t ld = (size_t)j->map->ld, at = (size_t)from, column = at * w->ldv;
    const float *k = w->phi_k + at * ld, *q = w->phi_q + at * ld;
    const float *v = (w->f.plain ? w->v : w->added) + column + S->first;
    float *num = w->num + column + S->first;
    ll_scan scan = {S->rows, S->cols, k, q, v, num, (ptrdiff_t)ld, (ptrdiff_t)w->ldv, carry, after,
                    S->all, NULL, S->ld};
    if (late) { /* `after` is 1, because nothing decays */
        part_carry(S, carry);
        scan.carry = 1, scan.sum = S->new;
    }
    j->k->scan(to - from, &scan, next);
    if (late) part_close(S);
    if (!z) return;
    if (late) part_carry(z, carry);
    if (!late && carry != 1) j->k->scale((size_t)z->cols, carry, z->all);
    j->k->scan_weights(to - from, z->cols, w->f.add + from, k + j->map->divisor, q + j->map->divisor, ld, z->all,
                       late ? z->new : z->all, w->s + from);
    if (late) part_close(z);
    if (!late && after != 1) j->k->scale((size_t)z->cols, after, z->all);
}

/* Moves the state past the tile, and reads it. */
void ll_causal_tile_state(const ll_head *j, const ll_causal_state *st, ll_causal_tile *w, int first, int cols) {
    const ll_attention *op = j->op;
    const int m = j->map->features, n = w->n, t0 = w->t0, late = ll_causal_late(j, t0);
    const int64_t at = j->first[LL_KEY] + t0, before = at - j->tile;
    const int begins = t0 == 0 || before < LATE || at / LL_SUM_CHUNK != before / LL_SUM_CHUNK;
    const size_t E = (size_t)op->c.E;
    const part S = {j->k, m, cols, E, st->S + first, st->old_S + first, st->new_S + first, first};
    const part z = {j->k, 1, m, (size_t)m, st->z, st->old_z, st->new_z, 0};
    ll_prefetch next = {0};
    if (cols == op->c.E) { /* one thread makes all steps, and reads the next tile soon */
        ll_prefetch_add(&next, j, &j->at.q, t0 + n, j->n, op->D);
        ll_prefetch_add(&next, j, &j->at.k, t0 + n, j->n, op->D);
        ll_prefetch_add(&next, j, &j->at.v, t0 + n, j->n, op->c.E);
        ll_prefetch_add(&next, j, &j->at.y, t0, j->n, op->c.E);
    }
    if (late) part_open(&S, begins);
    if (late && !first) part_open(&z, begins);
    for (int i = 0; i < w->f.runs; i++) scan_run(j, w, i, &S, first ? NULL : &z, late, i ? NULL : &next);
}

/* Divides. */
void ll_causal_tile_finish(const ll_head *j, ll_causal_tile *w) {
    const int eps = ll_causal_has_eps(j->op), sums = eps || j->op->c.den == LL_DEN_EPS_PHI;
    const size_t E = (size_t)j->op->c.E, m = (size_t)j->map->features;
    float phi[LL_TILE_MOST], inverse[LL_TILE_MOST];
    for (int i = 0; i < w->n && !w->f.plain; i++) w->s[i] *= w->f.read[i];
    if (!w->f.plain) j->k->scaled_rows(w->n, E, w->f.read, w->num, w->ldv, w->num, w->ldv);
    for (int i = 0; i < w->n && sums; i++) phi[i] = j->k->sum(m, w->phi_q + (size_t)i * (size_t)j->map->ld);
    for (int i = 0; i < w->n && eps; i++) add_eps(j, w, i, phi[i]);
    ll_inverses(j, w->t0, w->n, w->s, sums ? phi : NULL, w->keys, inverse);
    j->k->scaled_rows(w->n, E, inverse, w->num, w->ldv, ll_at(&j->at.y, w->t0), j->at.y.token);
}

void ll_causal_keep(const ll_head *j, const ll_causal_state *s, int t0) {
    if (!j->states || !t0 || t0 % j->chunk) return;
    save_state(j->op, s, j->states + (size_t)(t0 / j->chunk) * ll_state_floats(j->op));
}

/* What the forward scan of one thread takes. */
typedef struct {
    ll_causal_tile tile;
    ll_causal_buffers buffers;
    ll_causal_state state;
} scratch;

static scratch take_all(const ll_head *j, ll_arena *pool) {
    scratch w = {.tile = ll_causal_tile_take(j, pool)};
    w.buffers = ll_causal_buffers_take(j, pool);
    w.state = ll_causal_state_take(j->op, pool);
    return w;
}

size_t ll_causal_forward_floats(const ll_head *j) {
    ll_arena pool = {0};
    (void)take_all(j, &pool);
    return pool.used;
}

void ll_causal_forward(ll_head *j) {
    ll_arena pool = j->pool;
    scratch w = take_all(j, &pool);
    ll_causal_tile *tile = &w.tile;
    ll_causal_begin(j, &w.state);
    for (tile->t0 = 0; tile->t0 < j->n; tile->t0 += j->tile) {
        tile->n = ll_min_int(j->n - tile->t0, j->tile);
        ll_causal_keep(j, &w.state, tile->t0);
        ll_causal_tile_features(j, &w.buffers, tile);
        ll_causal_tile_scales(j, &w.state, tile);
        ll_causal_tile_state(j, &w.state, tile, 0, j->op->c.E);
        ll_causal_tile_finish(j, tile);
    }
    ll_causal_end(j, &w.state);
}
