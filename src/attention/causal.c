/* Causal linear attention, forward: tile after tile, the state S = sum phi(k) v^T, z = sum phi(k) before
 * the tile answers for all earlier tokens, and a masked product within the tile for its own.
 *
 *   num_i = state_i phi_i S + sum_{j <= i} w_ij v_j        den_i likewise with z and 1
 *   S' = carry S + sum_j add_j phi_j v_j^T                 y_i = num_i / den_i
 *
 * In a long sequence a tile is little beside the sum of all before it, and its small features would be lost in rounding,
 * always to the same side: 1e-3 of y at a million tokens. From token LATE on the tiles of a stretch of FOLD tokens are
 * summed on their own, and S is what was before the stretch and that; where the state decays, nothing grows.
 *
 * Softmax features with an eps under a running maximum c_i (PREFIX) are the exponential part, in units of
 * 2^P_i, and eps: num_i = kappa_i num'_i + eps' Phi_i V_i with kappa_i = 2^P_i e^(-c_i) / sqrt(M),
 * Phi_i = sum phi(q_i), V_i = sum_{j <= i} r^(i-j) v_j. */
#include <math.h>
#include <string.h>

#include "attention/causal.h"

/* ---- The state between tiles --------------------------------------------------------------------- */

ll_causal_state ll_causal_state_take(const ll_attention *op, float **pool) {
    const size_t m = (size_t)op->features, E = (size_t)op->c.E;
    ll_causal_state s = {.S = ll_take(pool, m * E), .z = ll_take(pool, m), .V = ll_take(pool, E)};
    ll_causal_state_clear(op, &s);
    return s;
}

void ll_causal_state_clear(const ll_attention *op, ll_causal_state *s) {
    const size_t m = (size_t)op->features, E = (size_t)op->c.E;
    memset(s->S, 0, m * E * sizeof *s->S);
    memset(s->z, 0, m * sizeof *s->z);
    memset(s->V, 0, E * sizeof *s->V);
    s->exponent = LL_NO_EXPONENT;
    s->reach = -INFINITY;
    s->top = -INFINITY;
    s->count = 0;
}

void ll_causal_state_save(const ll_attention *op, const ll_causal_state *s, float *to) {
    const size_t m = (size_t)op->features, E = (size_t)op->c.E;
    memcpy(to, s->S, m * E * sizeof *to);
    memcpy(to + m * E, s->z, m * sizeof *to);
    memcpy(to + m * E + m, s->V, E * sizeof *to);
    to += m * E + m + E;
    to[0] = (float)s->exponent; /* exact: a power of two, or small */
    to[1] = s->top;
    to[2] = s->count;
    to[3] = s->reach;
}

void ll_causal_state_load(const ll_attention *op, ll_causal_state *s, const float *from) {
    const size_t m = (size_t)op->features, E = (size_t)op->c.E;
    memcpy(s->S, from, m * E * sizeof *from);
    memcpy(s->z, from + m * E, m * sizeof *from);
    memcpy(s->V, from + m * E + m, E * sizeof *from);
    from += m * E + m + E;
    s->exponent = (int)from[0];
    s->top = from[1];
    s->count = from[2];
    s->reach = from[3];
}

/* ---- Rows ---------------------------------------------------------------------------------------- */

int ll_causal_has_eps(const ll_attention *op) { return op->phi[LL_KEY] == LL_PHI_RUNNING && !op->scale_cancels; }

void ll_causal_rows(ll_causal_state *s, const ll_head *j, int t0, const ll_scales *f, const float *top, const float *v,
                    size_t ldv, float *kappa, float *V, float *count) {
    const ll_attention *op = j->op;
    const size_t E = (size_t)op->c.E;
    const float root = op->root;
    for (int i = 0; i < f->n; i++) {
        if (j->op->c.decay) {
            j->k->scale(E, j->power[1], s->V);
            s->count *= j->power[1];
        }
        if (!j->mask || j->mask[t0 + i] != 0) {
            if (top[i] > s->top) s->top = top[i];
            j->k->add(E, v + (size_t)i * ldv, s->V);
            s->count += 1;
        }
        kappa[i] = s->top > -INFINITY ? root * expf((float)f->P[i] * 0.693147181f - s->top) : 0;
        count[i] = s->count;
        memcpy(V + (size_t)i * E, s->V, E * sizeof *V);
    }
}

/* Row i of the tile from its weighted sums to y; returns the divisor. */
static float finish_row(ll_head *j, int t, float s, float phi, float *num, float kappa, const float *V,
                        float count) {
    const ll_attention *op = j->op;
    const size_t E = (size_t)op->c.E;
    if (V) {
        const float eps = op->c.feature_eps * op->root;
        s = kappa * s + eps * phi * count;
        j->k->scale(E, kappa, num);
        j->k->axpy(E, eps * phi, V, num);
    }
    j->keys += ll_kept_keys(j, t, t + 1);
    const float den = ll_divisor(op, s, phi, j->keys);
    float *y = ll_at(&j->at.y, t);
    const float inverse = ll_inverse(den);
    for (size_t e = 0; e < E; e++) y[e] = num[e] * inverse;
    return den;
}

/* ---- A tile -------------------------------------------------------------------------------------- */

enum { LATE = 8192, FOLD = 1024 };

typedef struct {
    float *phi_q, *phi_k, *work, *kt, *A, *num, *v, *s, *kappa, *V, *count;
    float *old_S, *old_z, *new_S, *new_z; /* late: the state before a stretch, and of its tiles */
    int64_t x[LL_TILE_MOST], y[LL_TILE_MOST];
    ll_scales f;
    size_t lda, ldv;
} scratch;

size_t ll_causal_scratch(const ll_attention *op, int tile, int stretch, int backward) {
    const size_t C = (size_t)tile, ld = (size_t)op->ld, E = (size_t)op->c.E, m = (size_t)op->features;
    const size_t lda = C + 16, ldv = (E + 16) / 16 * 16 + 16, R = (size_t)stretch;
    const size_t forward = 3 * C * ld + m * lda + C * lda + 2 * C * ldv + C * E + 3 * m * (E + 1) + E + 8 * C;
    if (!backward) return forward + 576;
    return forward + 2 * R * ld + 2 * R * lda + 3 * R * ldv + 2 * (E + 2) * ld + 4 * C * ldv + R * (E + 8) + E * lda +
           (sizeof(ll_scales) * (R / C + 1)) / sizeof(float) + 1024;
}

static void weights_within(const ll_head *j, scratch *w, int n, int m) {
    const size_t ld = (size_t)j->op->ld;
    j->k->transpose(n, m, w->phi_k, ld, w->kt, w->lda);
    for (int i = 0; i < n; i += LL_BLOCK) {
        const int rows = n - i < LL_BLOCK ? n - i : LL_BLOCK, width = i + rows;
        float *A = w->A + (size_t)i * w->lda;
        j->k->gemm(rows, width, m, w->phi_q + (size_t)i * ld, ld, 1, w->kt, w->lda, A, w->lda, 0);
        for (int a = 0; a < rows; a++) {
            ll_scales_apply(&w->f, j, i + a, width, A + (size_t)a * w->lda);
            w->s[i + a] += j->k->sum((size_t)(i + a + 1), A + (size_t)a * w->lda);
        }
        j->k->gemm(rows, j->op->c.E, width, A, w->lda, 1, w->v, w->ldv, w->num + (size_t)i * w->ldv, w->ldv, 1);
    }
}

/* S = carry S + sum_j add_j phi_j v_j^T, z likewise; v has been multiplied. */
static void add_tile(ll_head *j, scratch *w, ll_causal_state *st, int t0, int n, const ll_ahead *next) {
    const ll_attention *op = j->op;
    const int m = op->features, E = op->c.E, late = t0 >= LATE && !op->c.decay;
    const size_t size = (size_t)m * (size_t)E, ld = (size_t)op->ld;
    if (late && (t0 - j->tile < LATE || t0 / FOLD != (t0 - j->tile) / FOLD)) {
        memcpy(w->old_S, st->S, size * sizeof *st->S), memset(w->new_S, 0, size * sizeof *st->S);
        memcpy(w->old_z, st->z, (size_t)m * sizeof *st->z), memset(w->new_z, 0, (size_t)m * sizeof *st->z);
    }
    float *S[] = {late ? w->new_S : st->S, w->old_S}, *z[] = {late ? w->new_z : st->z, w->old_z};
    for (int i = 0; i <= late && w->f.carry != 1; i++) {
        j->k->scale(size, w->f.carry, S[i]);
        j->k->scale((size_t)m, w->f.carry, z[i]);
    }
    ll_gemm_ahead(j, m, E, n, w->phi_k, 1, ld, w->v, w->ldv, S[0], (size_t)E, 1, next);
    j->k->gemv(m, n, w->f.add, w->phi_k, ld, z[0], 1);
    if (!late) return;
    memcpy(st->S, w->old_S, size * sizeof *st->S), memcpy(st->z, w->old_z, (size_t)m * sizeof *st->z);
    j->k->add(size, w->new_S, st->S), j->k->add((size_t)m, w->new_z, st->z);
}

static void forward_tile(ll_head *j, scratch *w, ll_causal_state *st, int t0, int n) {
    const ll_attention *op = j->op;
    const int m = op->features, E = op->c.E, eps = ll_causal_has_eps(op);
    const size_t ld = (size_t)op->ld;
    int none[LL_TILE_MOST];
    float top[LL_TILE_MOST];
    ll_feature_tile q = ll_tile_at(j, LL_QUERY, t0, n, w->x, w->y, w->work);
    ll_features(&q, w->phi_q, none, NULL);
    ll_feature_tile k = ll_tile_at(j, LL_KEY, t0, n, w->x, w->y, w->work);
    ll_features(&k, w->phi_k, w->f.e, eps ? top : NULL);
    ll_scales_set(&w->f, j, t0, n, st->exponent, st->reach);
    ll_pack_values(j, &j->at.v, t0, n, w->v, w->ldv);

    ll_ahead next_q = {0};
    ll_ahead_add(&next_q, j, &j->at.q, t0 + n, j->n, op->c.D);
    ll_ahead_add(&next_q, j, &j->at.y, t0, j->n, op->c.E);
    ll_gemm_ahead(j, n, E, m, w->phi_q, ld, 1, st->S, (size_t)E, w->num, w->ldv, 0, &next_q);
    j->k->gemv_rows(n, m, w->phi_q, ld, st->z, w->s, 0);
    for (int i = 0; i < n && !w->f.plain; i++) {
        j->k->scale((size_t)E, w->f.state[i], w->num + (size_t)i * w->ldv);
        w->s[i] *= w->f.state[i];
    }
    weights_within(j, w, n, m);
    if (eps) ll_causal_rows(st, j, t0, &w->f, top, w->v, w->ldv, w->kappa, w->V, w->count);
    const int sums = eps || op->c.den == LL_DEN_EPS_PHI;
    for (int i = 0; i < n; i++) {
        const float phi = sums ? j->k->sum((size_t)m, w->phi_q + (size_t)i * ld) : 0;
        const float den = finish_row(j, t0 + i, w->s[i], phi, w->num + (size_t)i * w->ldv, eps ? w->kappa[i] : 1,
                                     eps ? w->V + (size_t)i * (size_t)E : NULL, eps ? w->count[i] : 0);
        if (j->states) j->den[t0 + i] = den;
    }

    for (int i = 0; i < n && !w->f.plain; i++) j->k->scale((size_t)E, w->f.add[i], w->v + (size_t)i * w->ldv);
    ll_ahead next_k = {0};
    ll_ahead_add(&next_k, j, &j->at.k, t0 + n, j->n, op->c.D);
    ll_ahead_add(&next_k, j, &j->at.v, t0 + n, j->n, op->c.E);
    add_tile(j, w, st, t0, n, &next_k);
    st->exponent = w->f.next;
    st->reach = w->f.reach;
}

void ll_causal_forward(ll_head *j) {
    const ll_attention *op = j->op;
    const size_t C = (size_t)j->tile, ld = (size_t)op->ld, E = (size_t)op->c.E;
    float *pool = j->pool;
    scratch w = {.lda = C + 16, .ldv = (E + 16) / 16 * 16 + 16};
    w.phi_q = ll_take(&pool, C * ld);
    w.phi_k = ll_take(&pool, C * ld);
    w.work = ll_take(&pool, C * ld);
    w.kt = ll_take(&pool, (size_t)op->features * w.lda);
    w.A = ll_take(&pool, C * w.lda);
    w.num = ll_take(&pool, C * w.ldv);
    w.v = ll_take(&pool, C * w.ldv);
    w.V = ll_take(&pool, C * E);
    w.s = ll_take(&pool, C);
    w.kappa = ll_take(&pool, C);
    w.count = ll_take(&pool, C);
    w.old_S = ll_take(&pool, (size_t)op->features * E), w.old_z = ll_take(&pool, (size_t)op->features);
    w.new_S = ll_take(&pool, (size_t)op->features * E), w.new_z = ll_take(&pool, (size_t)op->features);
    ll_causal_state state = ll_causal_state_take(op, &pool);
    for (int t0 = 0; t0 < j->n; t0 += j->tile) {
        const int n = j->n - t0 < j->tile ? j->n - t0 : j->tile;
        if (j->states && t0 > 0 && t0 % j->stretch == 0)
            ll_causal_state_save(op, &state, j->states + (size_t)(t0 / j->stretch) * ll_state_floats(op));
        forward_tile(j, &w, &state, t0, n);
    }
}
